"""Runs the body of a command task: its process, its environment, its output and its result."""

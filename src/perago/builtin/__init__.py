"""Perago's own tasks, which every worker with lakeFS serves: lanes of a fork that write, and their join."""

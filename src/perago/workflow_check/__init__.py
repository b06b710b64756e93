"""Checks Conductor workflow definitions that were written by hand: workspaces, references and the tasks' contracts. No I/O."""

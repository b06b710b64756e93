"""The names of the built-in tasks, and the modules that declare them."""

from perago.model import TaskType

FORK = TaskType("perago.fork")
JOIN = TaskType("perago.join")
MODULES = ("perago.builtin.fork", "perago.builtin.join")
OWNER = "perago@example.com"
"""Conductor wants an address; nobody has to read mail about these tasks."""
MOST_LANES = 1000

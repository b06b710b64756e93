"""The names of the built-in tasks, and the modules that declare them."""

from perago.declare.controls import RetryPolicy, TaskControls, TimeoutPolicy
from perago.model import TaskType
from perago.pipelines.compiled.conductor_tasks import FORK_TASK, JOIN_TASK

FORK = TaskType(FORK_TASK)
JOIN = TaskType(JOIN_TASK)
MODULES = ("perago.builtin.fork", "perago.builtin.join")
OWNER = "perago@example.com"
"""Conductor wants an address; nobody has to read mail about these tasks."""
MOST_LANES = 1000
CONTROLS = TaskControls(retry=RetryPolicy(count=5, delay_seconds=2), timeout=TimeoutPolicy(response_seconds=60))
"""Failures are those of servers and rivals, which pass. A worker that dies is noticed after a minute."""

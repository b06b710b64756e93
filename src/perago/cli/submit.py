"""`perago submit`: starts a run of a pipeline or of a task."""


def submit() -> None:
    """Start a run of a pipeline or of a task on a branch."""

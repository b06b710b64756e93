"""The lane branches of a run: deleted when it is cancelled, restored before it is retried."""

from perago.conductor.workflows import WorkflowClient
from perago.model import LakeAccess, WorkflowId


def delete(lakefs: LakeAccess | None, client: WorkflowClient, run: WorkflowId) -> int:
    """How many were deleted."""
    del lakefs, client, run
    return 0


def restore(lakefs: LakeAccess | None, client: WorkflowClient, run: WorkflowId) -> int:
    """How many were restored."""
    del lakefs, client, run
    return 0

"""Labels of a commit: written labels are read back, and commits without them are recognised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.model import Attempt, CommitId, ExecutionId, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import commit_labels

TEXT = st.text(min_size=1, max_size=60)
ATTEMPT = Attempt(WorkflowId("w"), TaskId("t"), 2, "ref", 3, 1, TaskType("x"), WorkerId("n"), 1234, 1)
WRITTEN = commit_labels.write(ATTEMPT, ExecutionId("e"), CommitId("a"), 1_763_251_200_123)


@given(TEXT, TEXT, st.text(max_size=60), st.integers(0, 99), st.integers(0, 2**53), TEXT)
def test_what_was_written_is_read_back(
    workflow: str, task: str, reference: str, retry: int, created: int, execution: str
) -> None:
    attempt = Attempt(WorkflowId(workflow), TaskId(task), retry, reference, 1, 0, TaskType("x"), WorkerId("n"), 1, 1)
    written = commit_labels.write(attempt, ExecutionId(execution), CommitId("a"), created)
    assert commit_labels.read(written) == commit_labels.Labels(
        attempt.workflow_id, attempt.task_id, reference, created, str(retry), execution
    )


def test_the_labels_that_a_person_reads_and_the_hook_compares() -> None:
    assert WRITTEN == {
        "perago.phase": "confirm",
        "perago.workflow": "w",
        "perago.workflow_created": "1763251200123",
        "perago.task": "ref",
        "perago.task_id": "t",
        "perago.attempt": "2",
        "perago.execution": "e",
        "perago.expected_head": "a",
    }


@pytest.mark.parametrize(("label", "shown"), [("0", "1"), ("2", "3"), ("", ""), ("second", "second")])
def test_attempts_are_counted_from_one_for_people(label: str, shown: str) -> None:
    read = commit_labels.read({**WRITTEN, "perago.attempt": label})
    assert read is not None
    assert read.attempt_number == shown


def test_labels_that_others_add_do_not_matter() -> None:
    assert commit_labels.read({**WRITTEN, ".lakefs.merge.strategy": "default", "team": "x"}) == commit_labels.read(WRITTEN)


@pytest.mark.parametrize("missing", ["perago.workflow", "perago.task_id"])
@pytest.mark.parametrize("empty", [False, True])
def test_without_workflow_or_task_it_is_not_peragos(missing: str, empty: bool) -> None:
    without = {key: value for key, value in WRITTEN.items() if key != missing}
    assert commit_labels.read({**without, missing: ""} if empty else without) is None
    assert commit_labels.read({}) is None


@pytest.mark.parametrize("created", [None, "", "-5", "soon", "12.5", "²", "٣"])
def test_a_creation_time_that_is_no_number_is_unknown(created: str | None) -> None:
    metadata = {key: value for key, value in WRITTEN.items() if key != "perago.workflow_created"}
    read = commit_labels.read(metadata if created is None else {**metadata, "perago.workflow_created": created})
    assert read is not None
    assert read.workflow_created is None


def test_the_labels_of_the_first_edition_name_the_task() -> None:
    read = commit_labels.read({"perago.workflow": "w", "perago.task_id": "t", "perago.phase": "try"})
    assert read == commit_labels.Labels(WorkflowId("w"), TaskId("t"), "", None)

"""Staging names are safe, bounded, tell logical tasks apart, and read back."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from perago.model import Attempt, BranchName, ExecutionId, LogicalTask, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import names

NUMBERS = st.integers(min_value=0, max_value=2**31 - 1)
TEXT = st.text(max_size=80)
IDS = st.one_of(st.uuids().map(str), TEXT)
MAIN = BranchName("main")
EXECUTION = names.execution_id(1_763_251_200.5, b"12345678")


def attempt(
    workflow: str = "w", reference: str = "r", *, task: str = "t", retry: int = 0, seq: int = 1, iteration: int = 0
) -> Attempt:
    return Attempt(WorkflowId(workflow), TaskId(task), retry, reference, seq, iteration, TaskType("x"), WorkerId("n"), 1, 1)


attempts = st.builds(attempt, IDS, TEXT, task=IDS, retry=NUMBERS, seq=NUMBERS, iteration=NUMBERS)


def test_the_name_reads_as_the_protocol_says() -> None:
    one = attempt("3c5b2a10-77aa-4f2e-9d00-000000000001", "build_features", task="9110ce6a-0259", retry=2, seq=7, iteration=1)
    assert names.staging_branch(one, ExecutionId("e1"), MAIN) == (
        "perago-staging-3c5b2a10_77aa_4f2e_9d00_000000000001-build_features-seq-7-iteration-1"
        "-task-id-9110ce6a_0259-retry-2-exec-e1_" + names.target_digest(MAIN)
    )


@given(attempts, IDS, st.text(min_size=1, max_size=30))
def test_names_are_safe_and_bounded(one: Attempt, execution: str, target: str) -> None:
    branch = names.staging_branch(one, ExecutionId(execution), BranchName(target))
    assert re.fullmatch(r"\w[-\w]*", branch, re.ASCII)
    assert len(branch) <= names.MAX_LENGTH
    assert branch.startswith(names.logical_task_prefix(one.logical_task))


@given(attempts, IDS)
@example(attempt("", "", task="-"), "--a__5f-_")
def test_names_read_back(one: Attempt, execution: str) -> None:
    branch = names.staging_branch(one, ExecutionId(execution), MAIN)
    name = names.parse(branch)
    assert name is not None
    assert (name.branch, name.iteration, name.retry_count) == (branch, one.iteration, one.retry_count)
    assert name.logical_prefix == names.logical_task_prefix(one.logical_task)
    assert name.target == names.target_digest(MAIN)
    assert name.workflow_id in {one.workflow_id, None}
    assert name.task_id in {one.task_id, None}
    assert name.execution_id in {execution, None}


@given(st.uuids().map(str), st.uuids().map(str))
def test_uuids_always_read_back(workflow: str, task: str) -> None:
    name = names.parse(names.staging_branch(attempt(workflow, "r" * 500, task=task), EXECUTION, MAIN))
    assert name is not None
    assert (name.workflow_id, name.task_id, name.execution_id) == (workflow, task, EXECUTION)
    assert name.made_at == 1_763_251_200


@given(IDS, TEXT, IDS, TEXT)
@example("w", "a", "w", "a-seq")
@example("w", "a", "w", "a_seq")
@example("w", "a", "w", "a-seq-1-iteration-0")
@example("w-a", "b", "w", "a-b")
@example("w", "a_5f", "w", "a__")
@example("w", "", "w", "__")
@example("w", "x" * 60, "w", "x" * 61)
def test_no_logical_task_is_listed_with_another(workflow: str, reference: str, other_workflow: str, other_reference: str) -> None:
    assume((workflow, reference) != (other_workflow, other_reference))
    ours = names.logical_task_prefix(LogicalTask(WorkflowId(workflow), reference, 0))
    theirs = names.staging_branch(attempt(other_workflow, other_reference), EXECUTION, MAIN)
    assert not theirs.startswith(ours)


@pytest.mark.parametrize(
    "foreign", ["main", "perago-staging-", "perago-staging-mine", "tx-1", "perago-staging-w-r-seq-1-iteration-0"]
)
def test_a_branch_that_perago_did_not_name_is_none_of_its_business(foreign: str) -> None:
    assert names.parse(BranchName(foreign)) is None


def rivals(one: Attempt, target: str, other: Attempt, other_target: str, execution: str = "e2") -> bool:
    ours = names.parse(names.staging_branch(one, ExecutionId("e1"), BranchName(target)))
    theirs = names.parse(names.staging_branch(other, ExecutionId(execution), BranchName(other_target)))
    assert ours is not None
    assert theirs is not None
    return ours.rivals(theirs)


def test_rivals_are_the_logical_tasks_others_and_the_targets_others() -> None:
    assert rivals(attempt(retry=1), "main", attempt(retry=0), "main")
    assert rivals(attempt(retry=0), "main", attempt(retry=2), "main")
    assert rivals(attempt(retry=1), "main", attempt(retry=0), "dev")
    assert rivals(attempt(reference="b"), "main", attempt(reference="a"), "main")
    assert rivals(attempt("w2"), "main", attempt("w1"), "main")
    assert not rivals(attempt("w2"), "main", attempt("w1"), "dev")
    assert not rivals(attempt(iteration=2), "main", attempt(iteration=1), "dev")
    assert not rivals(attempt(), "main", attempt(), "main", execution="e1")


def test_an_execution_id_carries_its_time_and_its_entropy() -> None:
    assert names.execution_id(1_763_251_200.9, bytes(8)) == "69191400" + "0" * 16
    assert names.execution_id(0, b"12345678") != names.execution_id(0, b"12345679")
    assert len(names.execution_id(2**33, bytes(8))) == 24


def test_an_execution_id_of_another_kind_has_no_time() -> None:
    name = names.parse(names.staging_branch(attempt(), ExecutionId("e1"), MAIN))
    assert name is not None
    assert name.made_at is None

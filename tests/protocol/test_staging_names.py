"""Staging names are safe, bounded, distinguish tasks, and can be parsed."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from perago.model import Attempt, BranchName, ExecutionId, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import staging_names

NUMBERS = st.integers(min_value=0, max_value=2**31 - 1)
TEXT = st.text(max_size=80)
IDS = st.one_of(st.uuids().map(str), TEXT)
MAIN = BranchName("main")
EXECUTION = staging_names.execution_id(1_763_251_200.5, b"12345678")


def attempt(
    workflow: str = "w", reference: str = "r", *, task: str = "t", retry: int = 0, seq: int = 1, iteration: int = 0
) -> Attempt:
    return Attempt(WorkflowId(workflow), TaskId(task), retry, reference, seq, iteration, TaskType("x"), WorkerId("n"), 1, 1)


attempts = st.builds(attempt, IDS, TEXT, task=IDS, retry=NUMBERS, seq=NUMBERS, iteration=NUMBERS)


def test_the_name_reads_as_the_protocol_says() -> None:
    one = attempt("3c5b2a10-77aa-4f2e-9d00-000000000001", "build_features", task="9110ce6a-0259", retry=2, seq=7, iteration=1)
    assert staging_names.staging_branch(one, ExecutionId("e1"), MAIN) == (
        f"perago-staging-z{staging_names.target_digest(MAIN)}-3c5b2a10_77aa_4f2e_9d00_000000000001-build_features-seq-7-iteration-1"
        "-task-id-9110ce6a_0259-retry-2-exec-e1"
    )


@given(attempts, IDS, st.text(min_size=1, max_size=30))
def test_names_are_safe_and_bounded(one: Attempt, execution: str, target: str) -> None:
    branch = staging_names.staging_branch(one, ExecutionId(execution), BranchName(target))
    assert re.fullmatch(r"\w[-\w]*", branch, re.ASCII)
    assert len(branch) <= staging_names.MAX_LENGTH
    assert branch.startswith(staging_names.target_prefix(BranchName(target)))
    assert staging_names.is_second_edition(branch)


@given(attempts, IDS)
@example(attempt("", "", task="-"), "--a__5f-_")
def test_names_read_back(one: Attempt, execution: str) -> None:
    branch = staging_names.staging_branch(one, ExecutionId(execution), MAIN)
    name = staging_names.parse(branch)
    assert name is not None
    assert (name.branch, name.retry_count) == (branch, one.retry_count)
    assert name.reference_name in {one.reference_name, None}
    assert name.target == staging_names.target_digest(MAIN)
    assert name.workflow_id in {one.workflow_id, None}
    assert name.task_id in {one.task_id, None}
    assert name.execution_id in {execution, None}


@given(st.uuids().map(str), st.uuids().map(str))
def test_uuids_always_read_back(workflow: str, task: str) -> None:
    name = staging_names.parse(staging_names.staging_branch(attempt(workflow, "r" * 500, task=task), EXECUTION, MAIN))
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
def test_two_steps_never_share_a_name(workflow: str, reference: str, other_workflow: str, other_reference: str) -> None:
    assume((workflow, reference) != (other_workflow, other_reference))
    ours = staging_names.staging_branch(attempt(workflow, reference), EXECUTION, MAIN)
    theirs = staging_names.staging_branch(attempt(other_workflow, other_reference), EXECUTION, MAIN)
    assert ours != theirs
    assert not theirs.startswith(ours)


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30), attempts)
@example("main", "main-2", attempt())
def test_one_prefix_selects_exactly_the_names_of_a_target(target: str, other: str, one: Attempt) -> None:
    assume(target != other)
    ours = staging_names.staging_branch(one, EXECUTION, BranchName(target))
    assert ours.startswith(staging_names.target_prefix(BranchName(target)))
    assert not ours.startswith(staging_names.target_prefix(BranchName(other)))


def first_edition(one: Attempt, execution: str, target: BranchName) -> BranchName:
    """As the first edition named it: the same fields, and the digest of the target at the end."""
    fields = staging_names.staging_branch(one, ExecutionId(execution), target).removeprefix(staging_names.target_prefix(target))
    return BranchName(f"{staging_names.PREFIX}{fields}_{staging_names.target_digest(target)}")


def test_a_name_of_the_first_edition_is_still_read() -> None:
    branch = BranchName(
        "perago-staging-3c5b2a10_77aa_4f2e_9d00_000000000001-build_features-seq-7-iteration-1"
        "-task-id-9110ce6a_0259-retry-2-exec-69191400313233343536_" + staging_names.target_digest(MAIN)
    )
    assert staging_names.parse(branch) == staging_names.StagingName(
        branch,
        retry_count=2,
        workflow_id=WorkflowId("3c5b2a10-77aa-4f2e-9d00-000000000001"),
        reference_name="build_features",
        task_id=TaskId("9110ce6a-0259"),
        execution_id=ExecutionId("69191400313233343536"),
        target=staging_names.target_digest(MAIN),
    )
    assert not staging_names.is_second_edition(branch)


@given(attempts, st.uuids().map(str))
@example(attempt("z0123456789ab", "w"), "e")
def test_the_two_editions_are_never_taken_for_each_other(one: Attempt, execution: str) -> None:
    earlier = first_edition(one, execution, MAIN)
    later = staging_names.staging_branch(one, ExecutionId(execution), MAIN)
    assert (staging_names.is_second_edition(earlier), staging_names.is_second_edition(later)) == (False, True)
    read, again = staging_names.parse(earlier), staging_names.parse(later)
    assert read is not None
    assert again is not None
    assert (read.workflow_id, read.reference_name, read.task_id, read.retry_count, read.target) == (
        again.workflow_id,
        again.reference_name,
        again.task_id,
        again.retry_count,
        again.target,
    )


@given(st.uuids().map(str), attempts)
def test_names_of_the_first_edition_sort_before_all_others(workflow: str, other: Attempt) -> None:
    """One name tells whether there are any. Conductor's workflow ids are UUIDs, which begin with a hexadecimal digit."""
    assert first_edition(attempt(workflow), "e", MAIN) < staging_names.staging_branch(other, EXECUTION, MAIN)


@pytest.mark.parametrize(
    "foreign",
    [
        "main",
        "perago-staging-",
        "perago-staging-mine",
        "tx-1",
        "perago-staging-w-r-seq-1-iteration-0",
        "perago-staging-z0123456789ab-",
    ],
)
def test_a_branch_that_perago_did_not_name_is_not_parsed(foreign: str) -> None:
    assert staging_names.parse(BranchName(foreign)) is None


def test_an_execution_id_carries_its_time_and_its_entropy() -> None:
    assert staging_names.execution_id(1_763_251_200.9, bytes(8)) == "69191400" + "0" * 16
    assert staging_names.execution_id(0, b"12345678") != staging_names.execution_id(0, b"12345679")
    assert len(staging_names.execution_id(2**33, bytes(8))) == 24


def test_an_execution_id_of_another_kind_has_no_time() -> None:
    name = staging_names.parse(staging_names.staging_branch(attempt(), ExecutionId("e1"), MAIN))
    assert name is not None
    assert name.made_at is None

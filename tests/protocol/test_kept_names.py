"""Names of the branches of kept attempts: safe, unique, in the order of their times, and never taken for another kind."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from perago.model import Attempt, BranchName, CommitId, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import commit_labels, kept_labels, kept_names, lane_names, staging_names

ATTEMPT = Attempt(WorkflowId("w-1"), TaskId("t"), 0, "clean", 1, 0, TaskType("clean"), WorkerId("n"), 1, 1)
EXECUTION = staging_names.execution_id(1_763_251_200, bytes(8))
TEXT = st.text(min_size=1, max_size=80)
TIME = st.integers(0, 0xFFFFFFFF)


@given(workflow=TEXT, reference=TEXT, task=TEXT, retry=st.integers(0, 99), until=TIME)
def test_names_are_safe_and_read_back(workflow: str, reference: str, task: str, retry: int, until: int) -> None:
    attempt = replace(
        ATTEMPT, workflow_id=WorkflowId(workflow), reference_name=reference, task_id=TaskId(task), retry_count=retry
    )
    branch = kept_names.kept_branch(attempt, EXECUTION, until)
    assert re.fullmatch(r"\w[-\w]*", branch, re.ASCII)
    assert len(branch) <= staging_names.MAX_LENGTH
    name = kept_names.parse(branch)
    assert name is not None
    assert name.workflow_id in (workflow, None)
    assert name.reference_name in (reference, None)
    assert name.task_id in (task, None)
    assert name.is_of(TaskId(task))
    assert not name.is_of(TaskId(f"{task}x"))
    assert (name.until, name.retry_count, name.execution_id, name.made_at) == (until, retry, EXECUTION, 1_763_251_200)


@given(target=TEXT, until=TIME)
def test_no_attempt_takes_one_for_a_rival_or_a_lane(target: str, until: int) -> None:
    branch = kept_names.kept_branch(ATTEMPT, EXECUTION, until)
    assert staging_names.parse(branch) is None
    assert lane_names.parse(branch) is None
    assert not branch.startswith((staging_names.PREFIX, lane_names.PREFIX, staging_names.target_prefix(BranchName(target))))
    assert kept_names.parse(staging_names.staging_branch(ATTEMPT, EXECUTION, BranchName(target))) is None


@given(one=TIME, other=TIME)
def test_a_listing_has_the_order_of_their_times(one: int, other: int) -> None:
    names = [kept_names.kept_branch(ATTEMPT, EXECUTION, until) for until in (one, other)]
    assert (names[0] < names[1]) == (one < other)


def test_a_time_that_the_name_cannot_hold_is_the_latest_one() -> None:
    name = kept_names.parse(kept_names.kept_branch(ATTEMPT, EXECUTION, 1e12))
    assert name is not None
    assert name.until == 0xFFFFFFFF


def test_no_reader_takes_the_commit_for_a_publication() -> None:
    labels = kept_labels.of_attempt(ATTEMPT, EXECUTION, BranchName("main"), CommitId("a"), "/shop", "x" * 9000, "link (symlinks)")
    written = kept_labels.write(labels)
    assert kept_labels.read(written) == labels
    assert len(labels.reason) == 4000
    assert commit_labels.read(written) is None
    assert commit_labels.command(written) == ""
    assert kept_labels.read(commit_labels.write(ATTEMPT, EXECUTION, CommitId("a"), 1)) is None

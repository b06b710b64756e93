"""Names of lane branches: safe, unique, listable by workflow and by step, and read back."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from perago.model import Attempt, BranchName, ExecutionId, TaskId, TaskType, WorkerId, WorkflowId
from perago.protocol import lane_names, staging_names

ATTEMPT = Attempt(WorkflowId("w-1"), TaskId("t"), 0, "begin", 1, 0, TaskType("perago.fork"), WorkerId("n"), 1, 1)
EXECUTION = staging_names.execution_id(1_763_251_200, bytes(8))
TEXT = st.text(min_size=1, max_size=80)


@given(workflow=TEXT, reference=TEXT, iteration=st.integers(0, 99), retry=st.integers(0, 99), lane=TEXT)
def test_names_are_safe_and_read_back(workflow: str, reference: str, iteration: int, retry: int, lane: str) -> None:
    attempt = replace(ATTEMPT, workflow_id=WorkflowId(workflow), reference_name=reference, iteration=iteration, retry_count=retry)
    branch = lane_names.lane_branch(attempt, EXECUTION, lane)
    assert re.fullmatch(r"\w[-\w]*", branch, re.ASCII)
    assert len(branch) <= staging_names.MAX_LENGTH
    assert branch.startswith(lane_names.step_prefix(attempt.logical_task))
    assert branch.startswith(lane_names.workflow_prefix(attempt.workflow_id))
    name = lane_names.parse(branch)
    assert name is not None
    assert name.workflow_id in (workflow, None)
    assert name.lane in (lane, None)
    assert (name.retry_count, name.execution_id, name.made_at) == (retry, EXECUTION, 1_763_251_200)
    assert name.step_prefix == lane_names.step_prefix(attempt.logical_task)


@given(one=TEXT, other=TEXT)
def test_two_lanes_never_share_a_branch(one: str, other: str) -> None:
    same = lane_names.lane_branch(ATTEMPT, EXECUTION, one) == lane_names.lane_branch(ATTEMPT, EXECUTION, other)
    assert same == (one == other)


@given(one=TEXT, other=TEXT)
def test_no_workflow_finds_the_branches_of_another(one: str, other: str) -> None:
    branch = lane_names.lane_branch(replace(ATTEMPT, workflow_id=WorkflowId(one)), EXECUTION, "lane")
    assert branch.startswith(lane_names.workflow_prefix(WorkflowId(other))) == (one == other)


def test_iterations_of_a_step_are_steps_of_their_own() -> None:
    prefixes = {lane_names.step_prefix(replace(ATTEMPT, iteration=number).logical_task) for number in (0, 1, 2)}
    assert len(prefixes) == 3


def test_a_scratch_branch_is_no_lane() -> None:
    name = lane_names.parse(lane_names.scratch_branch(ATTEMPT, EXECUTION, 3))
    assert name is not None
    assert (name.lane, name.workflow_id) == (None, "w-1")


def test_other_branches_are_not_taken_for_lanes() -> None:
    staging = staging_names.staging_branch(ATTEMPT, ExecutionId("e"), BranchName("main"))
    for other in ("main", "perago-lane-", "perago-lane-mine", staging):
        assert lane_names.parse(BranchName(other)) is None
    assert staging_names.parse(lane_names.lane_branch(ATTEMPT, EXECUTION, "a")) is None

"""Controls: accepted values, refused values with their messages, and the arithmetic of the publish budget."""

from collections.abc import Callable

import pytest

from perago import ExecutionLimits, PublishBudget, RetryPolicy, TaskControls, TimeoutPolicy

INT_MAX = 2**31 - 1


def budget(**changes: float) -> PublishBudget:
    values = {
        "observed_merge_p99_seconds": 2,
        "safety_margin_seconds": 3,
        "lakefs_merge_timeout_seconds": 5,
        "conductor_completion_timeout_seconds": 10,
        "worker_shutdown_grace_seconds": 20,
        "heartbeat_interval_seconds": 30,
    }
    return PublishBudget(**{**values, **changes})


ACCEPTED: list[Callable[[], TaskControls]] = [
    TaskControls,
    lambda: TaskControls(retry=RetryPolicy(count=0, delay_seconds=0)),
    lambda: TaskControls(retry=RetryPolicy(10, "EXPONENTIAL_BACKOFF", INT_MAX, INT_MAX, INT_MAX)),
    lambda: TaskControls(retry=RetryPolicy(logic="LINEAR_BACKOFF")),
    lambda: TaskControls(timeout=TimeoutPolicy(response_seconds=1)),
    lambda: TaskControls(timeout=TimeoutPolicy(response_seconds=600, seconds=600, total_seconds=600)),
    lambda: TaskControls(timeout=TimeoutPolicy(response_seconds=600, total_seconds=5)),
    lambda: TaskControls(timeout=TimeoutPolicy(policy="RETRY", poll_seconds=INT_MAX)),
    lambda: TaskControls(timeout=TimeoutPolicy(policy="ALERT_ONLY")),
    lambda: TaskControls(limits=ExecutionLimits(concurrent_exec_limit=1)),
    lambda: TaskControls(limits=ExecutionLimits(rate_limit_frequency_in_seconds=1, rate_limit_per_frequency=1)),
    lambda: TaskControls(publish_budget=budget()),
    lambda: TaskControls(publish_budget=budget(observed_merge_p99_seconds=0.5, safety_margin_seconds=0)),
]


@pytest.mark.parametrize("make", ACCEPTED)
def test_accepts(make: Callable[[], TaskControls]) -> None:
    assert list(make().problems()) == []


def test_defaults_are_those_of_the_manual() -> None:
    controls = TaskControls()
    assert controls.retry == RetryPolicy(count=3, logic="FIXED", delay_seconds=60, max_delay_seconds=0, jitter_ms=0)
    assert controls.timeout == TimeoutPolicy(
        response_seconds=600, seconds=0, total_seconds=0, poll_seconds=0, policy="TIME_OUT_WF"
    )
    assert controls.limits == ExecutionLimits(None, None, None)
    assert controls.publish_budget is None


REFUSED: list[tuple[Callable[[], TaskControls], str]] = [
    (lambda: TaskControls(retry=RetryPolicy(count=-1)), "retry.count: must be from 0 to 10, not -1"),
    (lambda: TaskControls(retry=RetryPolicy(count=11)), "retry.count: must be from 0 to 10, not 11"),
    (lambda: TaskControls(retry=RetryPolicy(count=True)), "retry.count: must be an integer, not True"),
    (lambda: TaskControls(retry=RetryPolicy(count=3.0)), "retry.count: must be an integer, not 3.0"),  # pyright: ignore[reportArgumentType]
    (
        lambda: TaskControls(retry=RetryPolicy(logic="fixed")),  # pyright: ignore[reportArgumentType]
        "retry.logic: must be one of FIXED, EXPONENTIAL_BACKOFF, LINEAR_BACKOFF, not 'fixed'",
    ),
    (lambda: TaskControls(retry=RetryPolicy(delay_seconds=-1)), "retry.delay_seconds: must be at least 0, not -1"),
    (lambda: TaskControls(retry=RetryPolicy(max_delay_seconds=-1)), "retry.max_delay_seconds: must be at least 0, not -1"),
    (lambda: TaskControls(retry=RetryPolicy(jitter_ms=-1)), "retry.jitter_ms: must be at least 0, not -1"),
    (
        lambda: TaskControls(retry=RetryPolicy(jitter_ms=INT_MAX + 1)),
        "retry.jitter_ms: must be at most 2147483647 (Conductor stores no more), not 2147483648",
    ),
    (lambda: TaskControls(retry=RetryPolicy(counts=1)), "retry.counts: unknown; did you mean 'count'?"),  # pyright: ignore[reportCallIssue]
    (lambda: TaskControls(retry=3), "retry: must be a RetryPolicy(...), not 3"),  # pyright: ignore[reportArgumentType]
    (lambda: TaskControls(timeout=TimeoutPolicy(response_seconds=0)), "timeout.response_seconds: must be at least 1, not 0"),
    (lambda: TaskControls(timeout=TimeoutPolicy(seconds=-1)), "timeout.seconds: must be at least 0, not -1"),
    (lambda: TaskControls(timeout=TimeoutPolicy(total_seconds=-1)), "timeout.total_seconds: must be at least 0, not -1"),
    (lambda: TaskControls(timeout=TimeoutPolicy(poll_seconds=-1)), "timeout.poll_seconds: must be at least 0, not -1"),
    (
        lambda: TaskControls(timeout=TimeoutPolicy(policy="FAIL")),  # pyright: ignore[reportArgumentType]
        "timeout.policy: must be one of RETRY, TIME_OUT_WF, ALERT_ONLY, not 'FAIL'",
    ),
    (
        lambda: TaskControls(timeout=TimeoutPolicy(response_seconds=600, seconds=599)),
        (
            "timeout.response_seconds: 600 is above timeout.seconds=599, which Conductor rejects; write at most 599, "
            "or raise timeout.seconds"
        ),
    ),
    (
        lambda: TaskControls(timeout=TimeoutPolicy(seconds=700, total_seconds=650)),
        "timeout.total_seconds: 650 is below timeout.seconds=700, which Conductor rejects; write at least 700, or 0 for no limit",
    ),
    (
        lambda: TaskControls(limits=ExecutionLimits(concurrent_exec_limit=0)),
        "limits.concurrent_exec_limit: must be at least 1, not 0",
    ),
    (
        lambda: TaskControls(limits=ExecutionLimits(rate_limit_per_frequency=5)),
        "limits.rate_limit_frequency_in_seconds: missing; the two rate limits go together: give both or neither",
    ),
    (
        lambda: TaskControls(limits=ExecutionLimits(rate_limit_frequency_in_seconds=5)),
        "limits.rate_limit_per_frequency: missing; the two rate limits go together: give both or neither",
    ),
    (
        lambda: TaskControls(publish_budget=budget(lakefs_merge_timeout_seconds=4.5)),
        (
            "publish_budget.lakefs_merge_timeout_seconds: 4.5 is below observed_merge_p99_seconds + safety_margin_seconds; "
            "write at least 5"
        ),
    ),
    (
        lambda: TaskControls(publish_budget=budget(heartbeat_interval_seconds=0)),
        "publish_budget.heartbeat_interval_seconds: must be above 0, not 0",
    ),
    (
        lambda: TaskControls(publish_budget=budget(safety_margin_seconds=-1)),
        "publish_budget.safety_margin_seconds: must be at least 0, not -1",
    ),
    (
        lambda: TaskControls(publish_budget=budget(safety_margin_seconds=float("nan"))),
        "publish_budget.safety_margin_seconds: must be a number of seconds, not nan",
    ),
    (lambda: TaskControls(colour=1), "colour: unknown; accepted are retry, timeout, limits, publish_budget"),  # pyright: ignore[reportCallIssue]
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refuses(make: Callable[[], TaskControls], message: str) -> None:
    assert [str(problem) for problem in make().problems()] == [message]


def test_every_budget_field_is_required() -> None:
    problems = [str(problem) for problem in PublishBudget().problems()]  # pyright: ignore[reportCallIssue]
    assert problems == [
        "observed_merge_p99_seconds: required",
        "safety_margin_seconds: required",
        "lakefs_merge_timeout_seconds: required",
        "conductor_completion_timeout_seconds: required",
        "worker_shutdown_grace_seconds: required",
        "heartbeat_interval_seconds: required",
    ]


def test_several_mistakes_are_all_reported() -> None:
    controls = TaskControls(retry=RetryPolicy(count=99, jitter_ms=-1), timeout=TimeoutPolicy(response_seconds=0))
    assert [problem.field for problem in controls.problems()] == ["retry.count", "retry.jitter_ms", "timeout.response_seconds"]


def test_too_many_and_doubled_arguments_are_reported() -> None:
    assert [str(p) for p in RetryPolicy(1, "FIXED", 2, 3, 4, 5).problems()] == [  # pyright: ignore[reportCallIssue]
        "takes 5 values (count, logic, delay_seconds, max_delay_seconds, jitter_ms), not 6"
    ]
    assert [str(p) for p in RetryPolicy(1, count=2).problems()] == ["count: given twice; give it once, by name"]  # pyright: ignore[reportCallIssue]


def test_budget_arithmetic() -> None:
    assert budget().response_timeout_seconds == 5 + 10 + 20 + 30


def test_a_response_timeout_below_the_budget_warns_and_one_at_it_does_not() -> None:
    tight = TaskControls(timeout=TimeoutPolicy(response_seconds=64), publish_budget=budget())
    assert list(tight.warnings()) == [
        "TaskControls.timeout.response_seconds=64 is below what publish_budget needs; write at least 65."
    ]
    assert list(TaskControls(timeout=TimeoutPolicy(response_seconds=65), publish_budget=budget()).warnings()) == []

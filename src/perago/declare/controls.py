"""Retry, timeout, limit and publish budget settings of a task, and their validation."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from perago.declare.problems import DeclaredValue, Problem, bounded, whole
from perago.protocol.budget import Budget

RetryLogic = Literal["FIXED", "EXPONENTIAL_BACKOFF", "LINEAR_BACKOFF"]
TimeoutReaction = Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"]

MOST_RETRIES = 10


def _one_of(name: str, value: object, accepted: tuple[str, ...]) -> Iterator[Problem]:
    if not (isinstance(value, str) and value in accepted):
        yield Problem(name, f"must be one of {', '.join(accepted)}, not {value!r}")


@dataclass(frozen=True, slots=True)
class RetryPolicy(DeclaredValue):
    """Whether and when Conductor retries a FAILED attempt."""

    count: int = 3
    logic: RetryLogic = "FIXED"
    delay_seconds: int = 60
    max_delay_seconds: int = 0
    jitter_ms: int = 0

    def value_problems(self) -> Iterator[Problem]:
        yield from whole("count", self.count, least=0, most=MOST_RETRIES)
        yield from _one_of("logic", self.logic, get_args(RetryLogic))
        yield from bounded("delay_seconds", self.delay_seconds, least=0)
        yield from bounded("max_delay_seconds", self.max_delay_seconds, least=0)
        yield from bounded("jitter_ms", self.jitter_ms, least=0)


@dataclass(frozen=True, slots=True)
class TimeoutPolicy(DeclaredValue):
    """How long Conductor waits. 0 means forever, except for `response_seconds`, the lease, which is always limited."""

    response_seconds: int = 600
    seconds: int = 0
    total_seconds: int = 0
    poll_seconds: int = 0
    policy: TimeoutReaction = "TIME_OUT_WF"

    def value_problems(self) -> Iterator[Problem]:
        single = [
            *bounded("response_seconds", self.response_seconds, least=1),
            *bounded("seconds", self.seconds, least=0),
            *bounded("total_seconds", self.total_seconds, least=0),
            *bounded("poll_seconds", self.poll_seconds, least=0),
            *_one_of("policy", self.policy, get_args(TimeoutReaction)),
        ]
        yield from single or self._contradictions()

    def _contradictions(self) -> Iterator[Problem]:
        """Combinations that Conductor rejects with status 400."""
        if 0 < self.seconds < self.response_seconds:
            yield Problem(
                "response_seconds",
                f"{self.response_seconds} is above timeout.seconds={self.seconds}, which Conductor rejects; "
                f"write at most {self.seconds}, or raise timeout.seconds",
            )
        if 0 < self.total_seconds < self.seconds:
            yield Problem(
                "total_seconds",
                f"{self.total_seconds} is below timeout.seconds={self.seconds}, which Conductor rejects; "
                f"write at least {self.seconds}, or 0 for no limit",
            )


@dataclass(frozen=True, slots=True)
class ExecutionLimits(DeclaredValue):
    """Limits on concurrent and on frequent execution. None means no limit."""

    concurrent_exec_limit: int | None = None
    rate_limit_frequency_in_seconds: int | None = None
    rate_limit_per_frequency: int | None = None

    def value_problems(self) -> Iterator[Problem]:
        for name in ("concurrent_exec_limit", "rate_limit_frequency_in_seconds", "rate_limit_per_frequency"):
            value = getattr(self, name)
            if value is not None:
                yield from bounded(name, value, least=1)
        if (self.rate_limit_frequency_in_seconds is None) != (self.rate_limit_per_frequency is None):
            missing = "rate_limit_per_frequency" if self.rate_limit_per_frequency is None else "rate_limit_frequency_in_seconds"
            yield Problem(missing, "missing; the two rate limits go together: give both or neither")


@dataclass(frozen=True, slots=True)
class PublishBudget(DeclaredValue):
    """How long the end of an attempt may take, based on observed times of lakeFS and Conductor, in seconds."""

    observed_merge_p99_seconds: float
    safety_margin_seconds: float
    lakefs_merge_timeout_seconds: float
    """Bounds the publish request."""
    conductor_completion_timeout_seconds: float
    """Bounds the completion request."""
    worker_shutdown_grace_seconds: float
    """Reserved in the response timeout for a worker that is delayed or stopped; limits nothing by itself."""
    heartbeat_interval_seconds: float
    """The time between two lease extensions."""

    @property
    def budget(self) -> Budget:
        """The time limits that the publication protocol enforces."""
        return Budget(
            publish_seconds=self.lakefs_merge_timeout_seconds,
            completion_seconds=self.conductor_completion_timeout_seconds,
            shutdown_grace_seconds=self.worker_shutdown_grace_seconds,
            heartbeat_seconds=self.heartbeat_interval_seconds,
        )

    @property
    def response_timeout_seconds(self) -> float:
        """The shortest response timeout in which lease extension, publication and completion all fit."""
        return self.budget.response_timeout_seconds

    def value_problems(self) -> Iterator[Problem]:
        single = [problem for f in fields(self) if f.init for problem in _seconds(f.name, getattr(self, f.name))]
        yield from single or self._too_short()

    def _too_short(self) -> Iterator[Problem]:
        least = self.observed_merge_p99_seconds + self.safety_margin_seconds
        if self.lakefs_merge_timeout_seconds < least:
            yield Problem(
                "lakefs_merge_timeout_seconds",
                f"{self.lakefs_merge_timeout_seconds:g} is below observed_merge_p99_seconds + safety_margin_seconds; "
                f"write at least {least:g}",
            )


_MAY_BE_ZERO = frozenset({"observed_merge_p99_seconds", "safety_margin_seconds", "worker_shutdown_grace_seconds"})


def _seconds(name: str, value: object) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        yield Problem(name, f"must be a number of seconds, not {value!r}")
    elif value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        yield Problem(name, f"must be {'at least' if name in _MAY_BE_ZERO else 'above'} 0, not {value:g}")


@dataclass(frozen=True, slots=True)
class TaskControls(DeclaredValue):
    """Everything about a task that Conductor or the publication enforces, outside the body."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: TimeoutPolicy = field(default_factory=TimeoutPolicy)
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    publish_budget: PublishBudget | None = None

    def value_problems(self) -> Iterator[Problem]:
        yield from nested_problems("retry", self.retry, RetryPolicy)
        yield from nested_problems("timeout", self.timeout, TimeoutPolicy)
        yield from nested_problems("limits", self.limits, ExecutionLimits)
        if self.publish_budget is not None:
            yield from nested_problems("publish_budget", self.publish_budget, PublishBudget)

    def warnings(self) -> Iterator[str]:
        budget = self.publish_budget
        if budget is not None and self.timeout.response_seconds < budget.response_timeout_seconds:
            yield (
                f"TaskControls.timeout.response_seconds={self.timeout.response_seconds} is below what publish_budget needs; "
                f"write at least {math.ceil(budget.response_timeout_seconds)}."
            )


def nested_problems(name: str, value: object, kind: type[DeclaredValue]) -> Iterator[Problem]:
    """The problems of a nested value, or that it has another type."""
    if isinstance(value, kind):
        yield from (problem.under(name) for problem in value.problems())
    else:
        yield Problem(name, f"must be a {kind.__name__}(...), not {value!r}")

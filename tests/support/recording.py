"""A lake that records every call, and a task that records its own, for tests and benchmarks of attempts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perago.attempt.port import DataChecks
from perago.declare.checks import When
from perago.lake.port import Lake
from perago.model import Listing
from perago.operate.protocol_check.dict_task import DictTask
from perago.operate.protocol_check.scene import Tap


class RecordingTap(Tap):
    """`verbs` lists all calls; `at_call` gets the number of each, from 1 on, and may act or raise."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        self.verbs: list[str] = []
        self.at_call: Callable[[int], None] = lambda _number: None

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        forward = super().__getattr__(verb)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.verbs.append(verb)
            self.at_call(len(self.verbs))
            return forward(*args, **kwargs)

        return call


def _holds(_listing: Listing) -> None:
    """A check that every workspace passes."""


@dataclass(frozen=True)
class RecordingTask(DictTask):
    """`calls` has the parameters of each call of the body; `pre` and `post` are its checks."""

    pre: Callable[[Listing], None] = _holds
    post: Callable[[Listing], None] = _holds
    calls: list[object] = field(default_factory=list[object])
    data: Mapping[When, DataChecks] = field(default_factory=dict[When, DataChecks])
    """The checks that need more than a listing."""

    def check_before(self, listing: Listing) -> None:
        self.pre(listing)

    def body(self, workspace: object, params: object) -> object:
        self.calls.append(params)
        return super().body(workspace, params)

    def check_after(self, listing: Listing) -> None:
        self.post(listing)

    def data_checks(self, when: When) -> DataChecks:
        return self.data.get(when, DataChecks())

"""A pipeline in the process of `perago run`: follows its steps, and names the one in which the process ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perago import events, ipc
from perago.errors import TaskStatus
from perago.local_run import messages
from perago.local_run.pipeline_run import LocalPipelineRun
from perago.local_run.task_process import AttemptClock, TaskProcess
from perago.model import Outcome


@dataclass(frozen=True, slots=True)
class IsolatedStep:
    """A step that has ended; its paths are gone when the process is closed."""

    begun: messages.StepBegins
    ended: messages.StepEnded
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.ended.outcome.status is TaskStatus.COMPLETED


@dataclass(frozen=True, slots=True)
class IsolatedPipelineRun:
    steps: tuple[IsolatedStep, ...]
    failed: IsolatedStep | None
    """The step that ended the pipeline."""
    done: LocalPipelineRun | None
    """None if the process was lost: the files of its store are not known then."""


@dataclass(slots=True)
class Follower:
    """What is told about the steps while they run."""

    begins: Callable[[messages.StepBegins], None]
    ended: Callable[[IsolatedStep], None]
    steps: list[IsolatedStep] = field(default_factory=list[IsolatedStep])

    def end(self, step: IsolatedStep) -> None:
        self.steps.append(step)
        self.ended(step)


def run(
    process: TaskProcess,
    workspace: Path | None,
    inputs: object,
    follower: Follower,
    emit: events.Emit,
    answers: Mapping[str, Any] | None = None,
    *,
    keep: bool = False,
) -> IsolatedPipelineRun:
    """Run the pipeline; raises what it is refused with before its first step begins."""
    process.send(messages.Run(workspace, inputs, keep, answers or {}))
    clock, begun = AttemptClock(), messages.StepBegins("", "", messages.TimeLimit(0, is_retried=False), is_builtin=False)
    while process.is_readable_within(clock.seconds_left()):
        match process.receive():
            case ipc.EventEmitted(event):
                clock.phase = event.phase
                emit(event)
            case ipc.Ready():
                pass
            case messages.StepBegins() as begun:
                follower.begins(begun)
                clock.begin(begun.limit)
                process.send(messages.Proceed())
            case messages.StepEnded() as ended:
                follower.end(IsolatedStep(begun, ended))
                clock.begin(messages.TimeLimit(0, is_retried=False))
            case messages.PipelineEnded() as ended:
                process.wait_for_exit()
                return _whole(follower, ended)
            case _:
                return _cut_off(follower, IsolatedStep(begun, _failed(clock.lost(process.exit_status()))))
    process.stop()
    return _cut_off(follower, IsolatedStep(begun, _failed(clock.expired()), timed_out=True))


def _whole(follower: Follower, ended: messages.PipelineEnded) -> IsolatedPipelineRun:
    failed = next((step for step in reversed(follower.steps) if step.begun.ref == ended.failed), None)
    done = LocalPipelineRun(ended.outputs, ended.failed, ended.given, ended.published, ended.notes, ended.kept)
    return IsolatedPipelineRun(tuple(follower.steps), failed, done)


def _cut_off(follower: Follower, step: IsolatedStep) -> IsolatedPipelineRun:
    follower.end(step)
    return IsolatedPipelineRun(tuple(follower.steps), step, None)


def _failed(outcome: Outcome) -> messages.StepEnded:
    return messages.StepEnded(outcome, optional=False, changes=(), warnings=())

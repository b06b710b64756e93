"""The actors of a simulation, which stop at every port call, and the requests that they send; each is a greenlet."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from perago.errors import ConductorUnavailable, ConductorUnknown, LakeUnavailable, LakeUnknown
from perago.in_memory.gate import RequestStep

UPDATES = frozenset({"merge", "relocate"})
"""Verbs with two steps on the server, which are always sent as separate requests."""
WRITES = UPDATES | {
    "create_branch",
    "delete_branch",
    "commit_branch",
    "interrupt_updates",
    "write",
    "delete_objects",
    "report",
}
CONDUCTOR = frozenset({"snapshot", "workflow", "task", "report"})


class CallOutcome(StrEnum):
    """The outcome of the port call at which an actor has stopped, or for which it waits."""

    GO = "go"
    DOWN = "cannot reach the server"
    LOSE = "loses the answer"
    """The request was sent, and the client stops waiting for the reply."""
    CRASH = "crashes before"
    DIE = "crashes during"
    """The request was sent, and the client crashes."""


class Crash(GreenletExit):
    """Ends a crashed process at once: its cleanup does not run either."""


@dataclass(eq=False)
class Request:
    """A request to a server, which continues whether or not its sender still waits."""

    name: str
    sender: "Actor"
    verb: str
    effect: Callable[[], Any]
    process: greenlet = field(init=False)
    has_begun: bool = False
    _answer: Any = None
    _error: Exception | None = None

    def __post_init__(self) -> None:
        self.process = greenlet(self._serve)

    def _serve(self) -> None:
        try:
            self._answer = self.effect()
        except Exception as error:  # noqa: BLE001  passed on to the sender, if it still waits
            self._error = error

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._answer


class Actor:
    """A process that sends requests: `work` runs in it and reaches the servers only through `call`."""

    def __init__(self, name: str, hub: "Hub", work: Callable[["Actor"], None]) -> None:
        self.name, self.hub = name, hub
        self.verb = "begin"
        self.waits_for: Request | None = None
        self.is_crashed = False
        self.faults: set[str] = set()
        self.last_head: str | None = None
        """The commit that it last read as the head of the target branch."""
        self.process = greenlet(lambda: work(self), hub.main)
        self._sent: dict[str, int] = {}
        self._effect: Callable[[], Any] | None = None

    def call(self, verb: str, effect: Callable[[], Any]) -> Any:
        if self.is_crashed:
            raise Crash
        self.verb, self._effect = verb, effect
        how = self._stop()
        if how is CallOutcome.DOWN:
            raise _down(verb)
        if how is CallOutcome.LOSE:
            self.send()
            raise _unknown(verb)
        return self._updated() if verb in UPDATES else effect()

    def _updated(self) -> Any:
        request = self.waits_for = self.send()
        how = self._stop()
        self.waits_for = None
        if how is CallOutcome.LOSE:
            raise _unknown(self.verb)
        return request.answer()

    def send(self) -> Request:
        """Send the current call as a separate request."""
        assert self._effect is not None
        number = self._sent[self.verb] = self._sent.get(self.verb, 0) + 1
        name = f"{self.name}/{self.verb}" + (f"-{number}" if number > 1 else "")
        return self.hub.add(Request(name, self, self.verb, self._effect))

    def _stop(self) -> CallOutcome:
        how: CallOutcome = self.hub.main.switch()
        return how

    def outcomes(self) -> tuple[CallOutcome, ...]:
        if self.waits_for is not None:
            return (CallOutcome.LOSE, CallOutcome.DIE)
        if self.verb in WRITES:
            return (CallOutcome.GO, CallOutcome.CRASH, CallOutcome.DOWN, CallOutcome.LOSE, CallOutcome.DIE)
        return (CallOutcome.GO, CallOutcome.CRASH, CallOutcome.DOWN)

    def crash(self) -> None:
        self.is_crashed = True
        self.process.throw(Crash)


class Hub:
    """Holds all actors and requests in the order of their last moves, and resumes one at a time.

    The greenlet that creates it is the one to which actors and requests return when they stop.
    """

    def __init__(self) -> None:
        self.main = getcurrent()
        self.actors: dict[str, Actor] = {}
        self.requests: dict[str, Request] = {}
        self.order: list[str] = []

    def gate(self, _verb: str, step: RequestStep) -> None:
        """The gate of the lake: an update stops between its two steps."""
        if step is RequestStep.BETWEEN:
            self.main.switch()

    def between_reads(self) -> None:
        """The hook of Conductor: an actor that asks about a task and its workflow stops between the two reads."""
        asking = next((actor for actor in self.actors.values() if actor.process is getcurrent()), None)
        if asking is not None:
            asking.call("workflow", _nothing)

    def add(self, request: Request) -> Request:
        self.requests[request.name] = request
        self.order.append(request.name)
        return request

    def start(self, actor: Actor) -> None:
        """Run the actor up to its first port call."""
        self.actors[actor.name] = actor
        self.order.append(actor.name)
        actor.process.switch()
        self._remove_if_ended(actor)

    def can_move(self) -> list[tuple[str, tuple[CallOutcome, ...]]]:
        """Actors and requests with their possible outcomes, last moved first. An actor that waits can only stop waiting."""
        return [(name, self._outcomes(name)) for name in reversed(self.order)]

    def verb_of(self, name: str) -> str:
        return (self.requests.get(name) or self.actors[name]).verb

    def has_update_of(self, name: str) -> bool:
        """The actor has an update in progress, sent before its current read and so independent of what it reads."""
        return any(request.sender.name == name and request.verb in UPDATES for request in self.requests.values())

    def _outcomes(self, name: str) -> tuple[CallOutcome, ...]:
        return (CallOutcome.GO,) if name in self.requests else self.actors[name].outcomes()

    def move(self, name: str, how: CallOutcome) -> None:
        self.order.remove(name)
        self.order.append(name)
        if (request := self.requests.get(name)) is not None:
            self._serve(request)
        else:
            self._resume(self.actors[name], how)

    def _resume(self, actor: Actor, how: CallOutcome) -> None:
        if how is not CallOutcome.GO:
            actor.faults.add(actor.verb)
        if how is CallOutcome.DIE and actor.waits_for is None:
            actor.send()
        if how in (CallOutcome.CRASH, CallOutcome.DIE):
            actor.crash()
        else:
            actor.process.switch(how)
        self._settle(actor)

    def _settle(self, actor: Actor) -> None:
        """Run the first step of an update together with its sending: a stop between the two would make no visible difference."""
        self._remove_if_ended(actor)
        request = actor.waits_for
        if request is not None and not request.has_begun and not actor.process.dead:
            self._serve(request)

    def _serve(self, request: Request) -> None:
        request.has_begun = True
        request.process.parent = self.main
        request.process.switch()
        if not request.process.dead:
            return
        del self.requests[request.name]
        self.order.remove(request.name)
        sender = request.sender
        if sender.waits_for is request and not sender.process.dead:
            self.order.remove(sender.name)
            self.order.append(sender.name)
            sender.process.switch(CallOutcome.GO)
            self._settle(sender)

    def _remove_if_ended(self, actor: Actor) -> None:
        if actor.process.dead and actor.name in self.actors:
            del self.actors[actor.name]
            self.order.remove(actor.name)

    def crash_all(self) -> None:
        for actor in list(self.actors.values()):
            actor.crash()
            self._remove_if_ended(actor)

    def drain(self) -> None:
        """Let all requests finish."""
        while self.requests:
            self._serve(next(iter(self.requests.values())))


def _nothing() -> None:
    """Do nothing: the read follows after the stop."""


def _down(verb: str) -> Exception:
    words = f"{verb}: no connection"
    return ConductorUnavailable(words) if verb in CONDUCTOR else LakeUnavailable(words)


def _unknown(verb: str) -> Exception:
    words = f"{verb}: no answer, it may or may not have happened"
    return ConductorUnknown(words) if verb in CONDUCTOR else LakeUnknown(words)

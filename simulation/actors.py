"""Who moves in a simulation: workers and the requests they sent, each a greenlet that stops at every port call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from perago.errors import ConductorUnavailable, ConductorUnknown, LakeUnavailable, LakeUnknown
from perago.in_memory.lake import RequestStep

UPDATES = frozenset({"merge", "relocate"})
"""Two steps on the server, so they are requests of their own from the start."""
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


class How(StrEnum):
    """What becomes of the port call that an actor stands before, or waits for."""

    GO = "go"
    DOWN = "cannot reach the server"
    LOSE = "loses the answer"
    """The request is on its way, and the client gives up waiting."""
    CRASH = "crashes before"
    DIE = "crashes during"
    """The request is on its way, and the client is no more."""


class Crash(GreenletExit):
    """A process that is gone: nothing of it runs any more, no cleanup either."""


@dataclass(eq=False)
class Request:
    """What a server was asked, going on whether or not its sender still waits."""

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
        except Exception as error:  # noqa: BLE001  the sender gets it, if there still is one
            self._error = error

    def answer(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._answer


class Actor:
    """A process that talks to servers: `work` runs in it and reaches them through `call` alone."""

    def __init__(self, name: str, hub: "Hub", work: Callable[["Actor"], None]) -> None:
        self.name, self.hub = name, hub
        self.verb = "begin"
        self.waits_for: Request | None = None
        self.is_crashed = False
        self.faults: set[str] = set()
        self.last_head: str | None = None
        """What the last read of the target's head showed."""
        self.process = greenlet(lambda: work(self), hub.main)
        self._sent: dict[str, int] = {}
        self._effect: Callable[[], Any] | None = None

    def call(self, verb: str, effect: Callable[[], Any]) -> Any:
        if self.is_crashed:
            raise Crash
        self.verb, self._effect = verb, effect
        how = self._stop()
        if how is How.DOWN:
            raise _down(verb)
        if how is How.LOSE:
            self.send()
            raise _unknown(verb)
        return self._updated() if verb in UPDATES else effect()

    def _updated(self) -> Any:
        request = self.waits_for = self.send()
        how = self._stop()
        self.waits_for = None
        if how is How.LOSE:
            raise _unknown(self.verb)
        return request.answer()

    def send(self) -> Request:
        """The call at hand as a request that goes its own way."""
        assert self._effect is not None
        number = self._sent[self.verb] = self._sent.get(self.verb, 0) + 1
        name = f"{self.name}/{self.verb}" + (f"-{number}" if number > 1 else "")
        return self.hub.add(Request(name, self, self.verb, self._effect))

    def _stop(self) -> How:
        how: How = self.hub.main.switch()
        return how

    def hows(self) -> tuple[How, ...]:
        if self.waits_for is not None:
            return (How.LOSE, How.DIE)
        if self.verb in WRITES:
            return (How.GO, How.CRASH, How.DOWN, How.LOSE, How.DIE)
        return (How.GO, How.CRASH, How.DOWN)

    def crash(self) -> None:
        self.is_crashed = True
        self.process.throw(Crash)


class Hub:
    """Who is there, most recently moved last; and how each of them moves. Runs in the greenlet that made it."""

    def __init__(self) -> None:
        self.main = getcurrent()
        self.actors: dict[str, Actor] = {}
        self.requests: dict[str, Request] = {}
        self.order: list[str] = []

    def gate(self, _verb: str, step: RequestStep) -> None:
        """The lake's: a request that is under way stops between its two steps."""
        if step is RequestStep.BETWEEN:
            self.main.switch()

    def between_reads(self) -> None:
        """Conductor's: who asks about a task and its workflow stops between the two reads."""
        asking = next((actor for actor in self.actors.values() if actor.process is getcurrent()), None)
        if asking is not None:
            asking.call("workflow", _nothing)

    def add(self, request: Request) -> Request:
        self.requests[request.name] = request
        self.order.append(request.name)
        return request

    def start(self, actor: Actor) -> None:
        """To its first port call."""
        self.actors[actor.name] = actor
        self.order.append(actor.name)
        actor.process.switch()
        self._bury(actor)

    def can_move(self) -> list[tuple[str, tuple[How, ...]]]:
        """Most recent first. Whoever waits for a request can only stop waiting."""
        return [(name, self._hows(name)) for name in reversed(self.order)]

    def verb_of(self, name: str) -> str:
        return (self.requests.get(name) or self.actors[name]).verb

    def has_update_of(self, name: str) -> bool:
        """Sent before what the actor reads now, and not to be changed by it."""
        return any(request.sender.name == name and request.verb in UPDATES for request in self.requests.values())

    def _hows(self, name: str) -> tuple[How, ...]:
        return (How.GO,) if name in self.requests else self.actors[name].hows()

    def move(self, name: str, how: How) -> None:
        self.order.remove(name)
        self.order.append(name)
        if (request := self.requests.get(name)) is not None:
            self._serve(request)
        else:
            self._resume(self.actors[name], how)

    def _resume(self, actor: Actor, how: How) -> None:
        if how is not How.GO:
            actor.faults.add(actor.verb)
        if how is How.DIE and actor.waits_for is None:
            actor.send()
        if how in (How.CRASH, How.DIE):
            actor.crash()
        else:
            actor.process.switch(how)
        self._settle(actor)

    def _settle(self, actor: Actor) -> None:
        """Sending an update and the server's first half of it are one step: apart from each other they look the same."""
        self._bury(actor)
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
            sender.process.switch(How.GO)
            self._settle(sender)

    def _bury(self, actor: Actor) -> None:
        if actor.process.dead and actor.name in self.actors:
            del self.actors[actor.name]
            self.order.remove(actor.name)

    def crash_all(self) -> None:
        for actor in list(self.actors.values()):
            actor.crash()
            self._bury(actor)

    def drain(self) -> None:
        """Let every request that is still under way come to its end."""
        while self.requests:
            self._serve(next(iter(self.requests.values())))


def _nothing() -> None:
    """The read itself is what the stop is in front of."""


def _down(verb: str) -> Exception:
    words = f"{verb}: no connection"
    return ConductorUnavailable(words) if verb in CONDUCTOR else LakeUnavailable(words)


def _unknown(verb: str) -> Exception:
    words = f"{verb}: no answer, it may or may not have happened"
    return ConductorUnknown(words) if verb in CONDUCTOR else LakeUnknown(words)

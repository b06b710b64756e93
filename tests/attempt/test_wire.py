"""Publication over a network that fails at the publish request: no false success, no second request."""

import contextlib
import re
import threading
from collections.abc import Callable, Generator
from dataclasses import replace

import pytest
from tests.support import fault_proxy as faults
from tests.support.attempts import AttemptScene
from tests.support.fault_proxy import Exchange, FaultProxy

from perago.attempt import transaction
from perago.dev.stack import Endpoints
from perago.errors import TaskStatus
from perago.http.request import HttpTimeouts
from perago.lake import client
from perago.model import Outcome
from perago.operate.protocol_check.scene import ref_of, writes
from perago.protocol.budget import DEFAULT

PUBLISH = {"merge": "POST .*/refs/perago-staging-.*/merge/", "relocate": "PUT .*/hard_reset"}
INTERRUPT = "POST .*/refs/main/merge/main"
PATIENCE = 0.5


answered_late = threading.Event()


def late(exchange: Exchange) -> None:
    """Forward the request to lakeFS long after its sender has stopped waiting."""
    answered_late.clear()
    exchange.wait(2 * PATIENCE)
    exchange.forward()
    answered_late.set()


APPLIED = {"reply dropped": faults.drop_reply(), "connection reset": faults.drop_reply(reset=True), "reply late": faults.delay(3)}
NOT_APPLIED = {
    "request cut": faults.cut(),
    "request half sent": faults.cut_request(60),
    "silence": faults.silence(),
    "late": late,
    "500": faults.answer(500, b'{"message": "boom"}'),
    "429": faults.answer(429),
    "423": faults.answer(423),
    "412": faults.answer(412, b'{"message": "hook says no"}'),
}


@pytest.fixture
def network(stack: Endpoints) -> Generator[tuple[FaultProxy, client.LakeFS]]:
    with FaultProxy(stack.lakefs_url) as proxy:
        keys = (stack.access_key_id, stack.secret_access_key)
        with contextlib.closing(client.LakeFS(proxy.url, *keys, timeouts=HttpTimeouts(connect=5, request=30))) as lake:
            yield proxy, lake


def publish(
    scene: AttemptScene, network: tuple[FaultProxy, client.LakeFS], verb: str, fault: Callable[[Exchange], None]
) -> Outcome:
    proxy, lake = network
    if verb == "relocate":
        scene.abandon()
    proxy.on(PUBLISH[verb], fault)
    polled = scene.start()
    execution = scene.execution(polled.attempt, writes("y"), lake)
    outcome = transaction.run(replace(execution, budget=replace(DEFAULT, publish_seconds=PATIENCE)), polled.input)
    sent = [seen for seen in proxy.seen if any(re.search(pattern, seen.line) for pattern in PUBLISH.values())]
    assert len(sent) == 1, "a publish request is never sent again"
    assert scene.staging_branches() == []
    return outcome


@pytest.mark.parametrize("verb", PUBLISH)
@pytest.mark.parametrize("fault", APPLIED.values(), ids=APPLIED.keys())
def test_a_publication_whose_reply_is_lost_is_found(
    real_scene: AttemptScene, network: tuple[FaultProxy, client.LakeFS], verb: str, fault: Callable[[Exchange], None]
) -> None:
    outcome = publish(real_scene, network, verb, fault)
    assert outcome.status is TaskStatus.COMPLETED, outcome.reason
    assert ref_of(outcome) == real_scene.head().id
    assert real_scene.head().parents == (real_scene.a,)


@pytest.mark.parametrize("verb", PUBLISH)
@pytest.mark.parametrize("fault", NOT_APPLIED.values(), ids=NOT_APPLIED.keys())
def test_a_publication_that_did_not_happen_is_never_reported(
    real_scene: AttemptScene, network: tuple[FaultProxy, client.LakeFS], verb: str, fault: Callable[[Exchange], None]
) -> None:
    outcome = publish(real_scene, network, verb, fault)
    assert outcome.status is TaskStatus.FAILED
    assert outcome.output is None
    before = real_scene.head()
    if fault is late:
        assert answered_late.wait(20)
    assert real_scene.head() == before
    assert before.id == real_scene.a or before.parents == (real_scene.a,)
    after = real_scene.run(real_scene.start(), writes("y"))
    assert ref_of(after) == real_scene.head().id
    assert real_scene.head().parents == (real_scene.a,)


@pytest.mark.parametrize(
    "fault",
    [faults.drop_reply(), faults.cut(), faults.answer(500, b'{"message": "boom"}'), faults.answer(429), faults.answer(404)],
    ids=["reply dropped", "request cut", "500", "429", "404"],
)
def test_an_interruption_that_may_not_have_happened_stops_the_relocation(
    real_scene: AttemptScene, network: tuple[FaultProxy, client.LakeFS], fault: Callable[[Exchange], None]
) -> None:
    proxy, lake = network
    abandoned = real_scene.abandon()
    proxy.on(INTERRUPT, fault)
    outcome = real_scene.run(real_scene.start(), writes("y"), lake)
    assert outcome.status is TaskStatus.FAILED
    assert not any("hard_reset" in seen.line for seen in proxy.seen)
    assert real_scene.head() == abandoned
    assert real_scene.staging_branches() == []

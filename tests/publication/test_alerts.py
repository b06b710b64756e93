"""Workflows that compete for a branch, as the page about monitoring describes it; other alerts are caused by other tests."""

import re
from pathlib import Path

from tests.support import alerts
from tests.support.fault_proxy import HeldRequest
from tests.support.publication import PublicationHarness, TargetBranch


def test_a_live_rival_that_started_later_is_revoked(harness: PublicationHarness, branch: TargetBranch) -> None:
    hold, gate = HeldRequest(), harness.gate()
    first = branch.start(branch.step("first", gate=gate))
    gate.reached()
    harness.lakefs.on(branch.merge_request, hold)
    second = branch.start(branch.step("second", retries=0))
    assert hold.reached.wait(30)
    with alerts.fires("workflows compete", harness.worker), alerts.fires("publications are refused", harness.worker):
        gate.open()
        mine = harness.completed(first, "first")
        hold.released.set()
        reason = harness.refused(second, "it starts from an older commit", step="second")
    assert reason.endswith(" [PG-360]")
    branch.shows(mine, files={"first"})


def test_every_alert_is_caused_by_a_test() -> None:
    sources = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert set(re.findall(r'alerts\.fires\("([^"]+)"', sources)) == set(alerts.table())

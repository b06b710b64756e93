"""Server outages: logged once, waited for, and no attempt is lost or spent because of them."""

import pytest
from tests.support import alerts
from tests.support.fault_proxy import Fault, FaultProxy, answer, cut, drop_reply
from tests.support.kill_matrix import TASK_UPDATE
from tests.support.waiting import eventually
from tests.support.worker_harness import GROW, PLAIN, WorkerHarness

ALWAYS = 10**9
METRICS = ("--register", "--metrics-port", "0")
DOWN: dict[str, Fault] = {"cut": cut(), "503": answer(503)}


@pytest.mark.parametrize("how", DOWN)
def test_conductor_outage_is_waited_for(harness: WorkerHarness, how: str) -> None:
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, jobs=2, options=METRICS, CONDUCTOR_SERVER_URL=proxy.url)
        with alerts.fires("Conductor is unreachable", worker):
            proxy.on(".*", DOWN[how], times=ALWAYS)
            worker.until("Conductor cannot be reached; requests are retried")
        assert worker.fetch("/readyz") == (503, "not ready: Conductor cannot be reached\n")
        workflow = harness.plain()
        asked = len(proxy.seen)
        eventually(lambda: len(proxy.seen) >= asked + 3)
        proxy.heal()
        assert harness.ended(workflow) == "COMPLETED"
        worker.until("Conductor can be reached again")
        assert len(worker.said("Conductor cannot be reached; requests are retried")) == 1
        assert worker.stop() == 0


def test_result_is_delivered_after_an_outage(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(GROW, CONDUCTOR_SERVER_URL=proxy.url)
        base, gate = harness.seed(), harness.gate()
        workflow = harness.grow(base, gate=str(gate), line="survives")
        gate.reached()
        proxy.on(".*", cut(), times=ALWAYS)
        gate.open()
        worker.until("Conductor cannot be reached; requests are retried")
        proxy.heal()
        assert harness.ended(workflow) == "COMPLETED"
        (task,) = harness.tasks(workflow)
        assert task["outputData"]["workspace"]["ref"] == harness.head().id


def test_completion_whose_reply_is_lost_is_sent_once(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.conductor_url) as proxy:
        worker = harness.start(PLAIN, CONDUCTOR_SERVER_URL=proxy.url)
        proxy.on(TASK_UPDATE, drop_reply())
        assert harness.ended(harness.plain()) == "COMPLETED"
        assert worker.until("attempt")["delivery"] == "accepted"
        assert len(proxy.requests(TASK_UPDATE)) == 1


def test_tasks_that_need_lakefs_wait_for_it_and_spend_one_retry(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.lakefs_url) as proxy:
        worker = harness.start(GROW, PLAIN, jobs=2, LAKECTL_SERVER_ENDPOINT_URL=proxy.url, E2E_RETRIES="2")
        base = harness.seed()
        proxy.on(".*", cut(), times=ALWAYS)
        workflow = harness.grow(base, line="later")
        worker.until("lakeFS does not respond; tasks that need it are not polled until it does")
        # What does not need it goes on meanwhile.
        assert harness.ended(harness.plain()) == "COMPLETED"
        asked = len(proxy.requests("GET /_health"))
        eventually(lambda: len(proxy.requests("GET /_health")) >= asked + 2)
        proxy.heal()
        assert harness.ended(workflow) == "COMPLETED"
        worker.until("lakeFS responds again")
        assert len(harness.tasks(workflow)) <= 3
        assert harness.log_at(harness.head().id) == "later\n"


def test_lakefs_outage_is_seen_without_an_attempt(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.lakefs_url) as proxy:
        worker = harness.start(GROW, options=METRICS, LAKECTL_SERVER_ENDPOINT_URL=proxy.url)
        assert worker.fetch("/readyz") == (200, "ready\n")
        with alerts.fires("lakeFS is unreachable", worker):
            proxy.on(".*", cut(), times=ALWAYS)
            worker.until("lakeFS does not respond; tasks that need it are not polled until it does")
        assert worker.fetch("/readyz") == (503, "not ready: lakeFS does not respond\n")
        proxy.heal()
        worker.until("lakeFS responds again")
        assert worker.fetch("/readyz") == (200, "ready\n")
        assert "\nperago_lakefs_up 1.0" in worker.fetch("/metrics")[1]
        assert worker.said("attempt") == []


def test_undeletable_staging_branch_is_logged_and_changes_no_result(harness: WorkerHarness) -> None:
    with FaultProxy(harness.stack.lakefs_url) as proxy:
        worker = harness.start(GROW, LAKECTL_SERVER_ENDPOINT_URL=proxy.url)
        base = harness.seed()
        proxy.on("DELETE .*/branches/perago-staging", answer(500), times=ALWAYS)
        workflow = harness.grow(base, line="published")
        assert harness.ended(workflow) == "COMPLETED"
        said = worker.until("failed to clean staging workspace")
        assert (said["level"], said["workflow_id"]) == ("warning", workflow)
        assert "perago-staging" not in said["error"]
        assert harness.log_at(harness.head().id) == "published\n"

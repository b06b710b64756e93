"""Spark tasks through a real Spark Connect server on this machine: published, cancelled, kept apart, refused."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.spark.test_attempts import completed, double, slow_rows
from tests.spark.test_data_checks import CHECKS, require_same_as_python, run_cases, write
from tests.support import spark_cluster
from tests.support.attempts import LakeFSAdmin
from tests.support.random_tables import RandomTable, random_tables
from tests.support.spark import SparkHarness
from tests.support.waiting import eventually

from perago import SparkWorkspace, events
from perago.dev.stack import Endpoints
from perago.errors import RuntimeConfigError, TaskStatus
from perago.model import LakeAccess
from perago.operate.protocol_check.scene import ref_of
from perago.process.child_process import ChildProcess
from perago.spark import connect, options, runtime, session
from perago.spark.driver import Driver
from perago.spark.tables import SETTINGS

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True)
class ConnectServer:
    url: str
    process: ChildProcess


@pytest.fixture(scope="module")
def server(
    driver: Driver, spark_runtime: runtime.SparkRuntime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectServer]:
    """A process can use one kind of Spark at a time, so the driver of the other tests is stopped."""
    driver.close()
    room = tmp_path_factory.mktemp("connect")
    file = room / "spark.properties"
    jars = {
        "spark.driver.extraClassPath": ":".join(map(str, spark_runtime.jars)),
        "spark.sql.warehouse.dir": str(room / "warehouse"),
    }
    file.write_text(options.render({**SMALL, **jars}))
    line = ["org.apache.spark.deploy.SparkSubmit", "--properties-file", str(file), "--class", SERVER, "spark-internal"]
    process = spark_cluster._start(spark_runtime, room / "server", line, memory="1g")
    try:
        port = spark_cluster._said(room / "server.log", r"Spark Connect server started at: \S+:(\d+)")
        yield ConnectServer(f"sc://127.0.0.1:{port}", process)
    finally:
        process.kill()


@pytest.fixture
def remote(server: ConnectServer, tmp_path: Path) -> Iterator[connect.ConnectEngine]:
    made = connect.ConnectEngine(options.SparkOptions(tmp_path, remote=server.url))
    yield made
    made.close()


@pytest.fixture
def harness(
    stack: Endpoints, access: LakeAccess, remote: connect.ConnectEngine, fresh_name: Callable[[], str]
) -> Iterator[SparkHarness]:
    lake, name = LakeFSAdmin(stack), fresh_name()
    scene = lake.scene(name)
    yield SparkHarness(scene, remote, access)
    assert scene.staging_branches() == []
    lake.remove(name)
    lake.close()


def test_a_task_publishes_through_the_server_and_one_without_changes_does_not(
    harness: SparkHarness, remote: connect.ConnectEngine
) -> None:
    remote.start()
    a = harness.csv("raw/rows.csv")
    outcome = harness.run(double)
    assert completed(outcome)
    assert outcome.output is not None
    assert outcome.output["result"] == {"rows": 10}
    assert harness.head().parents == (a,)
    new = set(harness.paths()) - set(harness.paths(a))
    assert new
    assert all(path.startswith("in/out/part-") and path.endswith(".parquet") for path in new)

    harness.scene.a = harness.head().id
    read = harness.run(lambda workspace: {"rows": workspace.spark.read.parquet(workspace.input("out")).count()})
    assert completed(read)
    assert (ref_of(read), harness.head().id) == (harness.scene.a, harness.scene.a)


def test_a_cancelled_attempt_is_interrupted_and_has_reported_its_tasks(harness: SparkHarness) -> None:
    a = harness.csv("raw/rows.csv")
    cancelled_at = harness.cancel_when_tasks_run()
    outcome = harness.run(lambda workspace: slow_rows(workspace).write.parquet(workspace.output("out")))
    assert outcome.status is TaskStatus.FAILED
    assert "OPERATION_CANCELED" in str(outcome.reason)
    assert time.monotonic() - cancelled_at[0] < 5
    assert harness.head().id == a
    told = next(event for event in harness.heard if isinstance(event, events.Progress) and event.unit == "tasks")
    assert (told.note, told.total_files) == ("1 stage: 0 of 8 tasks", 8)


def test_what_a_body_leaves_running_is_over_before_the_commit(harness: SparkHarness) -> None:
    ended: list[str] = []

    def body(workspace: SparkWorkspace) -> object:
        def left() -> None:
            try:
                slow_rows(workspace).write.parquet(workspace.output("late"))
            except Exception as error:  # noqa: BLE001  whatever it is, it is looked at
                ended.append(str(error))

        other = threading.Thread(target=left)
        other.start()
        client: Any = workspace.spark.client  # pyright: ignore[reportAttributeAccessIssue]  only Connect's has one
        eventually(lambda: list(client._get_operation_statuses().operation_statuses), within=30, what="an operation")
        workspace.write_text("done", "yes")
        threads.append(other)
        return {}

    threads: list[threading.Thread] = []
    assert completed(harness.run(body))
    threads[0].join(10)
    assert "OPERATION_CANCELED" in ended[0]
    assert [path for path in harness.paths() if "late" in path] == []
    assert "in/done" in harness.paths()


def test_views_and_settings_end_with_their_attempt_and_credentials_are_its_own(harness: SparkHarness) -> None:
    def litter(workspace: SparkWorkspace) -> object:
        workspace.spark.range(3).createOrReplaceTempView("mine")
        workspace.spark.conf.set("spark.sql.shuffle.partitions", "77")
        return {}

    def look(workspace: SparkWorkspace) -> object:
        settings = workspace.spark.conf.getAll
        holding = sorted(key for key, value in settings.items() if value == harness.access.secret_access_key)
        tables = [table.name for table in workspace.spark.catalog.listTables()]
        return {"tables": tables, "partitions": settings["spark.sql.shuffle.partitions"], "holding": holding}

    assert completed(harness.run(litter))
    outcome = harness.run(look)
    assert completed(outcome)
    assert outcome.output is not None
    own = f"fs.s3a.bucket.{harness.scene.repository}.secret.key"
    assert outcome.output["result"] == {"tables": [], "partitions": "2", "holding": [own]}


def test_a_body_that_stops_its_session_fails_without_effect_on_the_next(harness: SparkHarness) -> None:
    harness.csv("raw/rows.csv")

    def stop(workspace: SparkWorkspace) -> object:
        workspace.spark.stop()
        return {"rows": workspace.spark.range(3).count()}

    assert harness.run(stop).status is TaskStatus.FAILED
    assert completed(harness.run(double))


def test_properties_that_belong_to_the_server_are_refused_and_others_reach_the_session(
    server: ConnectServer, tmp_path: Path
) -> None:
    wanted = options.SparkOptions(tmp_path, remote=server.url, properties={"spark.executor.memory": "2g"})
    with pytest.raises(RuntimeConfigError, match=r"cannot set spark\.executor\.memory; set it when the server is started"):
        connect.ConnectEngine(wanted).start()
    wanted = options.SparkOptions(tmp_path, remote=server.url, properties={"spark.sql.session.timeZone": "Europe/Berlin"})
    engine = connect.ConnectEngine(wanted)
    session = engine.session({})
    assert session.spark.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    session.close()
    engine.close()


def test_a_server_without_the_jars_is_refused(remote: connect.ConnectEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_CLASSES", ("java.lang.String", "no.such.Committer"))
    with pytest.raises(RuntimeConfigError, match=r"lacks no\.such\.Committer; start it with --packages org\.apache\.hadoop:"):
        remote.start()


def test_every_rule_of_data_checks_and_random_tables(remote: connect.ConnectEngine, tmp_path: Path) -> None:
    opened = remote.session(SETTINGS)
    run_cases(opened, tmp_path)

    @settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
    @given(table=random_tables())
    def agrees(table: RandomTable) -> None:
        require_same_as_python(table, opened, tmp_path / secrets.token_hex(4))

    agrees()
    opened.close()


def test_data_checks_of_an_attempt(harness: SparkHarness) -> None:
    outcome = harness.run(write, data={"post": CHECKS})
    assert completed(outcome)
    a = harness.scene.a = harness.head().id
    outcome = harness.run(lambda workspace: write(workspace, extra=3), data={"post": CHECKS})
    assert "3 of 13 rows are not between 0 and 9 in column id: id 10, 11, 12" in str(outcome.reason)
    assert harness.head().id == a


def test_an_address_without_a_server_is_refused_without_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_BODY_RETRIES", 1)
    unreachable = connect.ConnectEngine(options.SparkOptions(tmp_path, remote="sc://127.0.0.1:1"))
    with pytest.raises(RuntimeConfigError, match=r"PERAGO_SPARK_REMOTE cannot be used: .*Connection refused"):
        unreachable.start()
    wrong = options.SparkOptions(tmp_path, remote="sc:///;token=hush")
    with pytest.raises(RuntimeConfigError, match="write sc://HOST:PORT") as refused:
        connect.ConnectEngine(wrong).start()
    assert "hush" not in f"{refused.value} {wrong!r}"
    unreachable.close()


def test_a_server_that_dies_costs_the_attempt_and_nothing_is_published(
    harness: SparkHarness, server: ConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last in this file: there is no server after it."""
    a = harness.csv("raw/rows.csv")
    monkeypatch.setattr(connect, "_BODY_RETRIES", 1)
    monkeypatch.setattr(session, "QUIET_SECONDS", 1.0)

    def body(workspace: SparkWorkspace) -> object:
        workspace.write_text("done", "yes")
        server.process.kill()
        return {}

    outcome = harness.run(body)
    assert outcome.status is TaskStatus.FAILED
    assert "still run" in str(outcome.reason)
    assert harness.head().id == a

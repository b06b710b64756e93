"""The files in `deploy/` are valid, their times fit the worker's, and what they start is a worker that runs tasks and stops."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
from tests.support import deployment
from tests.support.fault_proxy import FaultProxy, cut
from tests.support.waiting import eventually
from tests.support.worker_harness import PLAIN, Worker, WorkerHarness

from perago import human_units
from perago.settings import Settings
from perago.spark.runtime import SparkRuntime
from perago.supervisor.serve import SETTLE_SECONDS, ExitCode

KUBERNETES = "1.33.0"
PROGRAM = str(Path(sys.executable).with_name("perago"))
ALWAYS = 10**9


def pod(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return documents[1]["spec"]["template"]["spec"]


def container(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    (found,) = pod(documents)["containers"]
    return found


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def moved(value: str, folder: Path) -> str:
    """A path of the deployment, in the directory of the test."""
    return f"{folder}{value}" if value.startswith(("/var/", "/opt/perago-downloads")) else value


def run(harness: WorkerHarness, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Worker:
    """Start the command of a deployment with its environment, which is all that it gets apart from the tests' own modules."""
    program = [PROGRAM if word in {"perago", "/opt/perago/bin/perago"} else word for word in command]
    of_tests = {name: value for name, value in harness.environment().items() if name in {"PYTHONPATH", "E2E_PREFIX", "TMPDIR"}}
    # A coverage run starts measuring in each process by its own variables.
    of_tests |= {name: value for name, value in os.environ.items() if name.startswith("COV")}
    env = {"PATH": os.defpath, **of_tests, **{name: moved(value, folder) for name, value in environment.items()}}
    servers = harness.stack.environment()
    subprocess.run(
        [PROGRAM, "register", PLAIN], env={**env, **servers}, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60
    )
    output = folder / "worker.out"
    with output.open("wb") as sink:
        process = subprocess.Popen(program, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    worker = Worker(process, output, harness)
    harness.workers.append(worker)
    return worker


def probe(definition: Mapping[str, Any], ports: Mapping[str, int]) -> int:
    """The status of a probe, as the node sees it; 0 without an answer."""
    target = definition["httpGet"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[target['port']]}{target['path']}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return 0


def test_worker_of_the_unit_waits_polls_and_stops(harness: WorkerHarness, tmp_path: Path) -> None:
    """With the settings file that its comment shows: only the modules, the port and the servers are those of the test."""
    unit = deployment.unit("features")
    for directory in unit.directories():
        Path(moved(directory, tmp_path)).mkdir(parents=True)
    with FaultProxy(harness.stack.conductor_url) as conductor:
        conductor.on(".*", cut(), times=ALWAYS)
        of_test = {
            **harness.stack.environment(),
            "CONDUCTOR_SERVER_URL": conductor.url,
            "PERAGO_MODULES": PLAIN,
            "PERAGO_JOBS": "2",
            "PERAGO_METRICS_PORT": "0",
        }
        assert unit.example.keys() == of_test.keys()
        environment = unit.environment(of_test)
        worker = run(harness, unit.command(environment), environment, tmp_path)
        worker.until("waiting for Conductor")
        conductor.heal()
        worker.until("worker started")
        assert harness.ended(harness.plain()) == "COMPLETED"
        assert len(worker.executors()) == 2
        worker.signal(signal.Signals[unit.one("KillSignal")])
        assert worker.process.wait(20) == ExitCode.STOPPED
    assert "warning" not in {line.get("raw", "")[:7] for line in worker.lines()}
    created = tuple(moved(directory, tmp_path) for directory in unit.directories())
    written = [path for path in (tmp_path / "var").rglob("*") if path.is_file()]
    assert written
    assert all(str(path).startswith(created) for path in written)


def test_unit_writes_only_where_it_may() -> None:
    unit = deployment.unit("features")
    roots = {name: value for name, value in unit.environment({}).items() if name.endswith(("_ROOT", "_DIR"))}
    assert roots.keys() == {"PERAGO_WORKSPACE_ROOT", "PERAGO_CACHE_ROOT", "PERAGO_LOG_ROOT", "PERAGO_CACHE_DIR"}
    assert all(value.startswith(tuple(unit.directories())) for value in roots.values())
    assert unit.one("WorkingDirectory") in unit.directories()


def test_unit_starts_without_optional_settings() -> None:
    unit = deployment.unit("features")
    environment = unit.environment({"PERAGO_MODULES": "shop.features shop.report"})
    assert unit.command(environment)[:8] == [
        *("/opt/perago/bin/perago", "start", "shop.features", "shop.report"),
        *("--jobs", "1", "--metrics-port", "9464"),
    ]


def test_times_of_the_unit() -> None:
    """It is not killed while it reports, and not given up while servers are away: each start waits longer than the interval."""
    unit = deployment.unit("features")
    bound = human_units.seconds(unit.environment({})["PERAGO_SHUTDOWN_FORCE_KILL_AFTER"])
    assert deployment.systemd_seconds(unit.one("TimeoutStopSec")) >= bound + SETTLE_SECONDS
    assert unit.one("KillMode") == "mixed"
    command = unit.command({})
    wait = human_units.seconds(command[command.index("--wait") + 1])
    assert wait > deployment.systemd_seconds(unit.one("StartLimitIntervalSec"))
    assert str(ExitCode.CUT_SHORT.value) in unit.one("SuccessExitStatus").split()
    assert unit.one("RestartPreventExitStatus").split() == ["2", str(ExitCode.CUT_SHORT.value)]


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """The program and the user of the unit do not exist on this machine, so both are replaced; the rest is verified unchanged."""
    analyze = shutil.which("systemd-analyze")
    assert analyze is not None, "install systemd to check the unit"
    text = deployment.UNIT.read_text().replace("/opt/perago/bin/perago", "/bin/true").replace("User=perago", "")
    copy = tmp_path / "perago-worker@features.service"
    copy.write_text(text)
    judged = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in judged.stderr.splitlines() if "perago" in line]
    assert (judged.returncode, complaints) == (0, [])


def test_worker_of_the_pod_answers_its_probes(harness: WorkerHarness, tmp_path: Path) -> None:
    """In the image of the Dockerfile: the settings of the image, overridden by those of the pod."""
    documents = deployment.manifest(**{"9464": free_port(), "shop.features": PLAIN})
    described, servers = container(documents), harness.stack.environment()
    for mount in described["volumeMounts"]:
        Path(moved(mount["mountPath"], tmp_path)).mkdir(parents=True, exist_ok=True)
    secrets: dict[str, str] = {one["name"]: servers[one["name"]] for one in described["env"]}
    with FaultProxy(harness.stack.conductor_url) as conductor:
        conductor.on(".*", cut(), times=ALWAYS)
        of_test = {**servers, "CONDUCTOR_SERVER_URL": conductor.url}
        config: dict[str, str] = documents[0]["data"]
        given = {name: of_test.get(name, value) for name, value in config.items()}
        image = deployment.dockerfile()[-1].environment()
        worker = run(harness, described["command"], {**image, "PATH": os.defpath, **given, **secrets}, tmp_path)
        ports = {one["name"]: one["containerPort"] for one in described["ports"]}
        startup = described["startupProbe"]
        within = startup["periodSeconds"] * startup["failureThreshold"]
        eventually(lambda: probe(startup, ports) == 200, within=within, what="the startup probe")
        worker.until("waiting for Conductor")
        assert (probe(described["livenessProbe"], ports), probe(described["readinessProbe"], ports)) == (200, 503)
        conductor.heal()
        eventually(lambda: probe(described["readinessProbe"], ports) == 200, what="the readiness probe")
        assert harness.ended(harness.plain()) == "COMPLETED"
        assert worker.stop() == ExitCode.STOPPED


def test_pod_writes_only_to_its_volumes() -> None:
    documents = deployment.manifest()
    mounts = tuple(mount["mountPath"] for mount in container(documents)["volumeMounts"])
    assert container(documents)["securityContext"]["readOnlyRootFilesystem"] is True
    roots = {name: value for name, value in documents[0]["data"].items() if name.endswith(("_ROOT", "_DIR"))}
    assert roots.keys() == {"PERAGO_WORKSPACE_ROOT", "PERAGO_CACHE_ROOT", "PERAGO_LOG_ROOT", "PERAGO_CACHE_DIR"}
    assert all(value.startswith(mounts) for value in roots.values())


def test_every_document_satisfies_its_schema() -> None:
    for document in deployment.manifest():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_settings_of_the_files_are_settings() -> None:
    documents = deployment.manifest()
    names = {*documents[0]["data"], *(one["name"] for one in container(documents)["env"])}
    names |= {name for stage in deployment.dockerfile() for name in stage.environment() if name.startswith("PERAGO_")}
    assert {name.lower() for name in names} <= set(Settings.model_fields)


def test_a_pod_is_given_longer_than_the_worker_gives_its_attempts() -> None:
    documents = deployment.manifest()
    bound = human_units.seconds(documents[0]["data"]["PERAGO_SHUTDOWN_FORCE_KILL_AFTER"])
    assert pod(documents)["terminationGracePeriodSeconds"] >= bound + SETTLE_SECONDS


def test_command_of_the_image_runs_a_worker(harness: WorkerHarness, tmp_path: Path) -> None:
    image = deployment.dockerfile()[-1]
    (directory,) = image.values("WORKDIR")
    Path(moved(directory, tmp_path)).mkdir(parents=True)
    command = [word.replace("9464", free_port()).replace("shop.features", PLAIN) for word in image.command()]
    environment = {**image.environment(), **harness.stack.environment(), "PATH": os.defpath}
    worker = run(harness, command, environment, tmp_path)
    worker.until("worker started")
    assert harness.ended(harness.plain()) == "COMPLETED"
    assert worker.stop() == ExitCode.STOPPED


def test_downloads_are_baked_in_by_a_command_that_works(spark_runtime: SparkRuntime) -> None:
    """With the downloads of this machine, so that nothing is downloaded."""
    (line,) = [value for value in deployment.dockerfile()[0].values("RUN") if "$SPARK" in value]
    module = line.partition("python -m ")[2].partition(";")[0]
    assert module
    subprocess.run([sys.executable, "-W", "error", "-m", module], check=True, timeout=60)
    assert all(jar.is_file() for jar in spark_runtime.jars)


def test_stages_of_the_image() -> None:
    """The user is not root, what is copied from a stage is made there, and both stages use one directory of downloads."""
    build, image = deployment.dockerfile()
    (user,) = image.values("USER")
    assert int(user) == pod(deployment.manifest())["securityContext"]["runAsUser"] != 0
    copied = [value.split() for value in image.values("COPY")]
    assert {source for source, _, _ in copied} == {f"--from={build.name}"}
    assert all(origin == target and origin in f"{build.values('RUN')} {build.values('ENV')}" for _, origin, target in copied)
    assert build.environment()["PERAGO_CACHE_DIR"] == image.environment()["PERAGO_CACHE_DIR"]
    order = [word for word, _ in image.instructions]
    assert order.index("USER") > max(at for at, word in enumerate(order) if word == "RUN")

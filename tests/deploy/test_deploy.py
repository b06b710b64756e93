"""The systemd unit and the Kubernetes manifest in `deploy/` are valid, and their times fit the worker's."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from perago import human_units
from perago.settings import Settings
from perago.supervisor.serve import SETTLE_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = "1.33.0"


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def container() -> dict[str, Any]:
    (found,) = documents()[1]["spec"]["template"]["spec"]["containers"]
    return found


def unit() -> dict[str, str]:
    lines = (DEPLOY / "perago-worker@.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]\w+=", line) and not line.startswith("Environment="))


def test_every_document_satisfies_its_schema() -> None:
    for document in documents():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_settings_of_the_manifest_are_settings() -> None:
    names = {*documents()[0]["data"], *(one["name"] for one in container()["env"])}
    assert {name.lower() for name in names} <= set(Settings.model_fields)


def test_a_pod_is_given_longer_than_the_worker_gives_its_attempts() -> None:
    bound = human_units.seconds(documents()[0]["data"]["PERAGO_SHUTDOWN_FORCE_KILL_AFTER"])
    assert documents()[1]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= bound + SETTLE_SECONDS


def test_probes_ask_what_the_worker_serves() -> None:
    found = container()
    assert found["livenessProbe"]["httpGet"]["path"] == found["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert found["readinessProbe"]["httpGet"]["path"] == "/readyz"
    port = str(found["ports"][0]["containerPort"])
    assert found["command"][found["command"].index("--metrics-port") + 1] == port


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """The program and the user of the unit do not exist on this machine, so both are replaced; the rest is verified unchanged."""
    analyze = shutil.which("systemd-analyze")
    assert analyze is not None, "install systemd to check the unit"
    text = (
        (DEPLOY / "perago-worker@.service").read_text().replace("/opt/perago/bin/perago", "/bin/true").replace("User=perago", "")
    )
    copy = tmp_path / "perago-worker@features.service"
    copy.write_text(text)
    judged = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in judged.stderr.splitlines() if "perago" in line]
    assert (judged.returncode, complaints) == (0, [])


def test_systemd_waits_longer_than_the_worker_and_signals_only_the_supervisor() -> None:
    text = (DEPLOY / "perago-worker@.service").read_text()
    (bound,) = re.findall(r"PERAGO_SHUTDOWN_FORCE_KILL_AFTER=(\d+)min", text)
    assert unit()["TimeoutStopSec"] == f"{int(bound) + 1}min"
    assert unit()["KillMode"] == "mixed"

"""`perago doctor --publication` on a real lakeFS: every check holds, each can fail, and nothing is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.support.operator import OperatorHarness

from perago.lake.client import LakeFS
from perago.operate.protocol_check import checks, merge_interruption
from perago.operate.protocol_check.scene import Scene

SCRIPT = Path(__file__).parents[2] / "scripts" / "publication_smoke.py"


def tags(harness: OperatorHarness) -> list[str]:
    from tests.support.sdk_client import SdkClient  # noqa: PLC0415  the SDK takes a second to load

    client = SdkClient(harness.stack, harness.repository)
    try:
        return client.tags()
    finally:
        client.close()


def branches_and_tags(harness: OperatorHarness) -> list[str]:
    return [str(branch.name) for branch in harness.server.lake.branches(harness.repository, "")] + tags(harness)


def test_every_check_holds_and_nothing_is_left(harness: OperatorHarness) -> None:
    before = harness.head()
    said = harness.perago("doctor", "--publication", harness.repository)
    assert said.code == 0, said.out + said.err
    lines = said.out.splitlines()
    assert len(lines) == len(checks.CHECKS) == 14
    assert all(line.endswith(": ok") for line in lines)
    assert branches_and_tags(harness) == ["main"]
    assert harness.head() == before


def test_the_script_is_the_same(harness: OperatorHarness) -> None:
    harness.by_hand("x")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), harness.repository, "--base", "main", "--json"],
        env={**os.environ, **harness.stack.environment()},
        cwd=harness.folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('"holds": true') == len(checks.CHECKS)


def no_interruption(_lake: LakeFS, *_arguments: object) -> None:
    pass


def merge_by_commit(lake: LakeFS, repository: Any, source: Any, target: Any, **named: Any) -> Any:
    """As if names were resolved when the branch is made."""
    return merge(lake, repository, resolved.get(source, source), target, **named)


def remember(lake: LakeFS, repository: Any, branch: Any, *arguments: Any) -> Any:
    made = commit_branch(lake, repository, branch, *arguments)
    resolved[branch] = made.id
    return made


def without_labels(lake: LakeFS, repository: Any, source: Any, target: Any, **named: Any) -> Any:
    named["metadata"] = {}
    return merge(lake, repository, source, target, **named)


def list_nothing(lake: LakeFS, repository: Any, prefix: str, **named: Any) -> Any:
    return [] if prefix.startswith("perago-staging-") else branches(lake, repository, prefix, **named)


resolved: dict[Any, Any] = {}
merge, commit_branch, branches = LakeFS.merge, LakeFS.commit_branch, LakeFS.branches


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"interrupt_updates": no_interruption}, checks.interruption),
        ({"merge": merge_by_commit, "commit_branch": remember}, checks.by_name),
        ({"merge": merge_by_commit, "commit_branch": remember}, checks.revocation),
        ({"merge": without_labels}, checks.labels_survive),
        ({"branches": list_nothing}, checks.live_rivals),
        ({"branches": list_nothing}, checks.revocation),
    ],
)
def test_a_lakefs_that_does_not_do_what_it_should(
    harness: OperatorHarness, changes: dict[str, Any], check: Callable[[Scene], None]
) -> None:
    with mock.patch.multiple(LakeFS, **changes), mock.patch.object(checks, "CHECKS", (check,)):
        said = harness.perago("doctor", "--publication", harness.repository)
    assert said.code == 1, said.out
    assert ": FAILED: " in said.out
    assert harness.perago("gc", harness.repository, "--delete", "--older-than", "0s").code == 0
    assert branches_and_tags(harness) == ["main"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_an_interruption(harness: OperatorHarness, number: signal.Signals) -> None:
    """During the longest check, which has a merge in progress."""
    program = (
        "from perago.operate.protocol_check import checks; checks.CHECKS = (checks.merge, checks.interruption); "
        "from perago.cli.main import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program, "doctor", "--publication", harness.repository],
        env={**os.environ, **harness.stack.environment()},
        cwd=harness.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().endswith(": ok\n")
    while not tags(harness):
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert branches_and_tags(harness) == ["main"]


def test_what_cannot_be_checked_is_no_failure(harness: OperatorHarness) -> None:
    """A server that runs no hooks."""
    with (
        mock.patch.object(checks, "CHECKS", (checks.interruption,)),
        mock.patch.object(merge_interruption, "_waiting_hook", return_value=_no_hook),
    ):
        said = harness.perago("doctor", "--publication", harness.repository)
    assert said.code == 0, said.out
    assert "not checked: lakeFS does not run Lua hooks" in said.out
    assert branches_and_tags(harness) == ["main"]


_no_hook = "name: none\non:\n  post-merge:\nhooks:\n  - id: none\n    type: lua\n    properties:\n      script: print(1)\n"


def test_bad_input(harness: OperatorHarness) -> None:
    for arguments, code in (
        ([harness.target], 2),
        ([harness.repository, "--base", "a b"], 2),
        ([harness.repository, "--base", "no"], 1),
    ):
        said = harness.perago("doctor", "--publication", *arguments)
        assert said.code == code
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1
    assert harness.perago("doctor", "--publication", "no-such-repository").code == 1
    harness.environment["LAKECTL_SERVER_ENDPOINT_URL"] = ""
    harness.environment["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"] = ""
    harness.environment["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"] = ""
    said = harness.perago("doctor", "--publication", harness.repository)
    assert said.err.startswith("error: LakeFS config is required for perago doctor; set LAKECTL_SERVER_ENDPOINT_URL, ")

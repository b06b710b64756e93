"""`perago doctor` on real servers: each finding with the command that fixes it; and nothing is left behind."""

import contextlib
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import pytest
from tests.support.operator import OperatorHarness

from perago.model import BranchName
from perago.operate import clock_skew, evidence


def test_a_branch_without_problems(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    accepted = harness.accepted(seed)
    said = harness.perago("doctor", harness.target)
    assert said.code == 0, said.out
    lines = said.out.splitlines()
    assert lines[-1] == "nothing to do"
    assert all(line.startswith("ok: ") for line in lines[:-1])
    assert f"ok: {harness.target}: the head {accepted.commit} is accepted: step s0 of workflow conformance_" in said.out
    assert "version 1.86.0" in said.out
    assert "version 3.32" in said.out
    assert [branch.name for branch in harness.server.lake.branches(harness.repository, "")] == ["main"]
    assert harness.head().id == accepted.commit


def test_secrets_are_not_shown(harness: OperatorHarness) -> None:
    said = harness.perago("doctor", harness.repository)
    assert harness.stack.secret_access_key not in said.out + said.err
    assert harness.stack.access_key_id not in said.out + said.err


def test_without_a_branch_every_branch_that_perago_wrote_to(harness: OperatorHarness) -> None:
    assert harness.doctor(harness.repository)["scope"][0]["text"].endswith(": none")
    seed = harness.by_hand("in/x")
    abandoned = harness.abandoned(seed)
    harness.server.request("POST", f"/repositories/{harness.repository}/branches", {"name": "copy", "source": "main"})
    harness.server.request("POST", f"/repositories/{harness.repository}/branches", {"name": "other", "source": seed})
    found = harness.actions(harness.repository)
    assert {one["subject"] for one in found["unaccepted-head"]} == {harness.target, f"{harness.repository}/copy"}
    assert all(abandoned.commit in one["text"] for one in found["unaccepted-head"])


def test_an_unaccepted_head(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    accepted = harness.accepted(seed)
    abandoned = harness.abandoned(accepted.commit)
    (finding,) = harness.actions()["unaccepted-head"]
    assert finding["text"] == (
        f"the head {abandoned.commit} is not accepted: its task is CANCELED; the newest accepted commit is {accepted.commit}"
    )
    assert finding["fix"] == f"perago recover {harness.target}"


def test_a_head_whose_workflow_was_restarted_is_left_to_the_retry(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    abandoned = harness.abandoned(seed)
    workflow = abandoned.polled.attempt.workflow_id
    harness.real.call("POST", f"/workflow/{workflow}/restart")
    (note,) = harness.doctor()["head"]
    assert note["level"] == "note"
    assert "its workflow was restarted; a retry of its workflow replaces it" in note["text"]


def test_a_head_that_is_still_to_be_reported(harness: OperatorHarness) -> None:
    published = harness.run(harness.start(harness.by_hand("in/x")))
    assert not harness.actions()
    (note,) = harness.doctor()["head"]
    assert f"{published.commit} is still running: step s0" in note["text"]


def test_a_history_that_no_retry_can_pass(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    first = harness.abandoned(seed)
    second = harness.abandoned(first.commit)
    (finding,) = harness.actions()["stuck-history"]
    assert first.commit in finding["text"]
    assert second.commit in finding["text"]
    assert finding["fix"] == f"perago recover {harness.target}"


def test_a_hand_made_commit_on_an_unaccepted_one(harness: OperatorHarness) -> None:
    abandoned = harness.abandoned(harness.by_hand("in/x"))
    by_hand = harness.by_hand("notes")
    (finding,) = harness.actions()["stuck-history"]
    assert f"{by_hand} is not made by Perago" in finding["text"]
    assert abandoned.commit in finding["text"]
    assert finding["fix"] == f"perago recover {harness.target} --to COMMIT"


def test_an_accepted_commit_that_the_branch_does_not_hold(harness: OperatorHarness) -> None:
    accepted, shown = harness.displaced(harness.by_hand("in/x"))
    found = harness.actions()
    assert shown.commit == harness.head().id
    assert f"Conductor accepted {accepted.commit} from step s0" in found["displaced"][0]["text"]
    assert found["displaced"][0]["fix"] == f"perago recover {harness.target}"
    assert f"Conductor accepted {accepted.commit} from its task instead" in found["unaccepted-head"][0]["text"]


def test_a_step_that_can_only_be_refused(harness: OperatorHarness) -> None:
    """Its workflow waits for a worker while another one has published on what it starts from."""
    first = harness.run(harness.start(harness.by_hand("in/x"), steps=2))
    harness.report(first)
    waiting = harness.poll()
    assert not harness.actions()
    other = harness.accepted(first.commit)
    (finding,) = harness.actions()["blocked-step"]
    assert f"step s1 of workflow {waiting.attempt.workflow_id} is IN_PROGRESS" in finding["text"]
    assert f"Conductor accepted {other.commit}" in finding["text"]
    assert finding["fix"].endswith(f"start a new one from {other.commit}")


def test_staging_branches_and_their_owners(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    live, dead, older = harness.start(seed), harness.start(seed), harness.start(seed)
    used, left, first_edition = harness.staged(live), harness.staged(dead), harness.staged(older, first_edition=True)
    harness.terminate(dead.attempt.workflow_id)
    harness.terminate(older.attempt.workflow_id)
    harness.server.lake.create_branch(harness.repository, BranchName("perago-staging-by-hand"), seed)
    said = harness.perago("doctor", harness.target, "--json").json
    staging = [one for one in said["findings"] if one["check"] == "staging"]
    shown = {one["text"].split()[0]: (one["level"], one["text"].split(" ", 1)[1], one["fix"]) for one in staging}
    gc = f"perago gc {harness.repository} --delete"
    dead_text = f"of step s0 of workflow {dead.attempt.workflow_id} is left over"
    assert shown[used][0] == "ok"
    assert f"step s0 of workflow {live.attempt.workflow_id} is in use (1" in shown[used][1]
    assert shown[used][1].endswith("its task is IN_PROGRESS")
    assert (shown[left][0], shown[left][2]) == ("action", gc)
    assert shown[left][1].startswith(dead_text)
    assert shown[left][1].endswith("its attempt is over: CANCELED")
    assert (shown[first_edition][0], shown[first_edition][2]) == ("action", gc)
    assert shown["perago-staging-by-hand"][0] == "note"
    assert harness.perago("gc", harness.repository, "--delete").code == 0
    assert "staging" not in harness.actions()


def test_uncommitted_changes(harness: OperatorHarness) -> None:
    harness.write("dirt")
    (finding,) = harness.actions()["uncommitted"]
    assert finding["text"].startswith("1 uncommitted changes")
    assert finding["fix"].startswith(f"lakectl branch reset lakefs://{harness.target}")


def test_branch_protection(harness: OperatorHarness) -> None:
    rules = [{"pattern": "ma*"}, {"pattern": "release"}]
    harness.server.request("PUT", f"/repositories/{harness.repository}/settings/branch_protection", rules)
    (finding,) = harness.actions()["branch-protection"]
    assert "'ma*'" in finding["text"]
    assert finding["fix"] == f"lakectl branch-protect delete lakefs://{harness.repository} 'ma*'"


def test_hooks(harness: OperatorHarness) -> None:
    harness.by_hand(
        "_lakefs_actions/mine.yaml",
        b"name: mine\non:\n  post-merge:\nhooks:\n  - id: mine\n    type: lua\n    properties:\n      script: print(1)\n",
    )
    harness.by_hand(
        "_lakefs_actions/perago_protect_main.yaml",
        b"name: old\non:\n  post-merge:\nhooks:\n  - id: mine\n    type: lua\n    properties:\n      script: print(1)\n",
    )
    found = harness.doctor()["hooks"]
    assert [(one["level"], one["fix"]) for one in found] == [
        ("action", f"perago protect {harness.repository} main"),
        ("note", None),
    ]
    assert found[1]["text"].endswith(": _lakefs_actions/mine.yaml")


def test_a_repository_that_cannot_be_written_to(harness: OperatorHarness, fresh_name: object) -> None:
    name = f"{harness.repository[:50]}-ro"
    body = {"name": name, "storage_namespace": f"local://{name}", "read_only": True}
    harness.server.request("POST", "/repositories", body)
    try:
        found = harness.actions(f"{name}/main")
    finally:
        harness.server.remove(name)
    assert found["repository"][0]["text"].startswith("is read-only")
    assert found["permissions"][0]["text"].startswith("cannot create a hidden branch: ")
    assert "not tried after it: list branches, write an object" in found["permissions"][0]["text"]
    assert "fs:CreateBranch" in found["permissions"][0]["fix"]


@pytest.mark.parametrize("variable", ["CONDUCTOR_SERVER_URL", "LAKECTL_SERVER_ENDPOINT_URL"])
def test_a_server_that_cannot_be_reached(harness: OperatorHarness, variable: str) -> None:
    harness.environment[variable] = "http://127.0.0.1:9/api" if "CONDUCTOR" in variable else "http://127.0.0.1:9"
    (finding,) = harness.actions()["server"]
    assert "127.0.0.1" in finding["text"] or "cannot be reached" in finding["text"]
    assert finding["fix"] == f"check {variable} and the credentials"


def test_clocks_that_disagree(harness: OperatorHarness) -> None:
    with shifted(harness.stack.lakefs_url, -3600) as url:
        harness.environment["LAKECTL_SERVER_ENDPOINT_URL"] = url
        (finding,) = harness.actions()["clock"]
        assert finding["subject"] == "lakeFS"
        assert "behind this machine's" in finding["text"]
        skew = clock_skew.skew(url)
        assert skew is not None
        assert -3605 < skew <= -3598


def test_bad_input(harness: OperatorHarness) -> None:
    for arguments in (["doctor", "UPPER"], ["doctor", f"{harness.repository}/a b"], ["doctor"], ["doctor", "x/y/z"]):
        said = harness.perago(*arguments)
        assert said.code == 2
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1
    for target in ("no-such-repository", f"{harness.repository}/no-such-branch"):
        said = harness.perago("doctor", target)
        assert said.code == 1
        assert said.err.startswith("error: ")
        assert target.rpartition("/")[2] in said.err
        assert len(said.err.splitlines()) == 1
    harness.environment["CONDUCTOR_SERVER_URL"] = ""
    assert "CONDUCTOR_SERVER_URL is required for perago doctor" in harness.perago("doctor", harness.target).err


@contextlib.contextmanager
def shifted(url: str, seconds: float) -> Generator[str]:
    """The server behind a proxy that changes its time."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            passed = {name: value for name, value in self.headers.items() if name.lower() not in {"host", "content-length"}}
            request = urllib.request.Request(url + self.path, body, passed, method=self.command)
            try:
                with urllib.request.urlopen(request, timeout=30) as reply:
                    self.reply(reply.status, reply.headers.get("Content-Type", ""), reply.read())
            except urllib.error.HTTPError as error:
                with error:
                    self.reply(error.code, error.headers.get("Content-Type", ""), error.read())

        def reply(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815  names that the base class looks for

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + seconds)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_commit_deep_in_the_history_is_not_missed(harness: OperatorHarness) -> None:
    """One request tells whether the branch holds it, however long its history is."""
    first = harness.run(harness.start(harness.by_hand("in/x"), steps=2))
    harness.report(first)
    second = harness.run(harness.poll())
    harness.report(second)
    with mock.patch.object(evidence, "HISTORY", 1):
        assert not harness.actions()

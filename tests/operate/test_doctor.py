"""`perago doctor` on real servers: each finding provoked, with the command that fixes it; and nothing is left behind."""

import contextlib
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import pytest
from tests.support.operator import World

from perago.model import BranchName
from perago.operate import clock_skew, evidence


def test_a_branch_without_problems(world: World) -> None:
    seed = world.by_hand("in/x")
    accepted = world.accepted(seed)
    said = world.perago("doctor", world.target)
    assert said.code == 0, said.out
    lines = said.out.splitlines()
    assert lines[-1] == "nothing to do"
    assert all(line.startswith("ok: ") for line in lines[:-1])
    assert f"ok: {world.target}: the head {accepted.commit} is accepted: step s0 of workflow conformance_" in said.out
    assert "version 1.86.0" in said.out
    assert "version 3.32" in said.out
    assert [branch.name for branch in world.server.lake.branches(world.repository, "")] == ["main"]
    assert world.head().id == accepted.commit


def test_secrets_are_not_shown(world: World) -> None:
    said = world.perago("doctor", world.repository)
    assert world.stack.secret_access_key not in said.out + said.err
    assert world.stack.access_key_id not in said.out + said.err


def test_without_a_branch_every_branch_that_perago_wrote_to(world: World) -> None:
    assert world.doctor(world.repository)["scope"][0]["text"].endswith(": none")
    seed = world.by_hand("in/x")
    abandoned = world.abandoned(seed)
    world.server.request("POST", f"/repositories/{world.repository}/branches", {"name": "copy", "source": "main"})
    world.server.request("POST", f"/repositories/{world.repository}/branches", {"name": "other", "source": seed})
    found = world.actions(world.repository)
    assert {one["subject"] for one in found["unaccepted-head"]} == {world.target, f"{world.repository}/copy"}
    assert all(abandoned.commit in one["text"] for one in found["unaccepted-head"])


def test_an_unaccepted_head(world: World) -> None:
    seed = world.by_hand("in/x")
    accepted = world.accepted(seed)
    abandoned = world.abandoned(accepted.commit)
    (finding,) = world.actions()["unaccepted-head"]
    assert finding["text"] == (
        f"the head {abandoned.commit} is not accepted: its task is CANCELED; the newest accepted commit is {accepted.commit}"
    )
    assert finding["fix"] == f"perago recover {world.target}"


def test_a_head_whose_workflow_was_restarted_is_left_to_the_retry(world: World) -> None:
    seed = world.by_hand("in/x")
    abandoned = world.abandoned(seed)
    workflow = abandoned.polled.attempt.workflow_id
    world.real.call("POST", f"/workflow/{workflow}/restart")
    (note,) = world.doctor()["head"]
    assert note["level"] == "note"
    assert "its workflow was restarted; a retry of its workflow replaces it" in note["text"]


def test_a_head_that_is_still_to_be_reported(world: World) -> None:
    published = world.run(world.start(world.by_hand("in/x")))
    assert not world.actions()
    (note,) = world.doctor()["head"]
    assert f"{published.commit} is still running: step s0" in note["text"]


def test_a_history_that_no_retry_can_pass(world: World) -> None:
    seed = world.by_hand("in/x")
    first = world.abandoned(seed)
    second = world.abandoned(first.commit)
    (finding,) = world.actions()["stuck-history"]
    assert first.commit in finding["text"]
    assert second.commit in finding["text"]
    assert finding["fix"] == f"perago recover {world.target}"


def test_a_hand_made_commit_on_an_unaccepted_one(world: World) -> None:
    abandoned = world.abandoned(world.by_hand("in/x"))
    by_hand = world.by_hand("notes")
    (finding,) = world.actions()["stuck-history"]
    assert f"{by_hand} is not made by Perago" in finding["text"]
    assert abandoned.commit in finding["text"]
    assert finding["fix"] == f"perago recover {world.target} --to COMMIT"


def test_an_accepted_commit_that_the_branch_does_not_hold(world: World) -> None:
    accepted, shown = world.displaced(world.by_hand("in/x"))
    found = world.actions()
    assert shown.commit == world.head().id
    assert f"Conductor accepted {accepted.commit} from step s0" in found["displaced"][0]["text"]
    assert found["displaced"][0]["fix"] == f"perago recover {world.target}"
    assert f"Conductor accepted {accepted.commit} from its task instead" in found["unaccepted-head"][0]["text"]


def test_a_step_that_can_only_be_refused(world: World) -> None:
    """Its workflow waits for a worker while another one has published on what it starts from."""
    first = world.run(world.start(world.by_hand("in/x"), steps=2))
    world.report(first)
    waiting = world.poll()
    assert not world.actions()
    other = world.accepted(first.commit)
    (finding,) = world.actions()["blocked-step"]
    assert f"step s1 of workflow {waiting.attempt.workflow_id} is IN_PROGRESS" in finding["text"]
    assert f"Conductor accepted {other.commit}" in finding["text"]
    assert finding["fix"].endswith(f"start a new one from {other.commit}")


def test_staging_branches_and_their_owners(world: World) -> None:
    seed = world.by_hand("in/x")
    live, dead, older = world.start(seed), world.start(seed), world.start(seed)
    used, left, first_edition = world.staged(live), world.staged(dead), world.staged(older, first_edition=True)
    world.terminate(dead.attempt.workflow_id)
    world.terminate(older.attempt.workflow_id)
    world.server.lake.create_branch(world.repository, BranchName("perago-staging-by-hand"), seed)
    said = world.perago("doctor", world.target, "--json").json
    staging = [one for one in said["findings"] if one["check"] == "staging"]
    shown = {one["text"].split()[0]: (one["level"], one["text"].split(" ", 1)[1], one["fix"]) for one in staging}
    gc = f"perago gc {world.repository} --delete"
    dead_text = f"of step s0 of workflow {dead.attempt.workflow_id} is left over"
    assert shown[used][0] == "ok"
    assert f"step s0 of workflow {live.attempt.workflow_id} is in use (1" in shown[used][1]
    assert shown[used][1].endswith("its task is IN_PROGRESS")
    assert (shown[left][0], shown[left][2]) == ("action", gc)
    assert shown[left][1].startswith(dead_text)
    assert shown[left][1].endswith("its attempt is over: CANCELED")
    assert (shown[first_edition][0], shown[first_edition][2]) == ("action", gc)
    assert shown["perago-staging-by-hand"][0] == "note"
    assert world.perago("gc", world.repository, "--delete").code == 0
    assert "staging" not in world.actions()


def test_uncommitted_changes(world: World) -> None:
    world.write("dirt")
    (finding,) = world.actions()["uncommitted"]
    assert finding["text"].startswith("1 uncommitted changes")
    assert finding["fix"].startswith(f"lakectl branch reset lakefs://{world.target}")


def test_branch_protection(world: World) -> None:
    rules = [{"pattern": "ma*"}, {"pattern": "release"}]
    world.server.request("PUT", f"/repositories/{world.repository}/settings/branch_protection", rules)
    (finding,) = world.actions()["branch-protection"]
    assert "'ma*'" in finding["text"]
    assert finding["fix"] == f"lakectl branch-protect delete lakefs://{world.repository} 'ma*'"


def test_hooks(world: World) -> None:
    world.by_hand(
        "_lakefs_actions/mine.yaml",
        b"name: mine\non:\n  post-merge:\nhooks:\n  - id: mine\n    type: lua\n    properties:\n      script: print(1)\n",
    )
    world.by_hand(
        "_lakefs_actions/perago_protect_main.yaml",
        b"name: old\non:\n  post-merge:\nhooks:\n  - id: mine\n    type: lua\n    properties:\n      script: print(1)\n",
    )
    found = world.doctor()["hooks"]
    assert [(one["level"], one["fix"]) for one in found] == [
        ("action", f"perago protect {world.repository} main"),
        ("note", None),
    ]
    assert found[1]["text"].endswith(": _lakefs_actions/mine.yaml")


def test_a_repository_that_cannot_be_written_to(world: World, fresh_name: object) -> None:
    name = f"{world.repository[:50]}-ro"
    body = {"name": name, "storage_namespace": f"local://{name}", "read_only": True}
    world.server.request("POST", "/repositories", body)
    try:
        found = world.actions(f"{name}/main")
    finally:
        world.server.remove(name)
    assert found["repository"][0]["text"].startswith("is read-only")
    assert found["permissions"][0]["text"].startswith("cannot create a hidden branch: ")
    assert "not tried after it: list branches, write an object" in found["permissions"][0]["text"]
    assert "fs:CreateBranch" in found["permissions"][0]["fix"]


@pytest.mark.parametrize("variable", ["CONDUCTOR_SERVER_URL", "LAKECTL_SERVER_ENDPOINT_URL"])
def test_a_server_that_cannot_be_reached(world: World, variable: str) -> None:
    world.environment[variable] = "http://127.0.0.1:9/api" if "CONDUCTOR" in variable else "http://127.0.0.1:9"
    (finding,) = world.actions()["server"]
    assert "127.0.0.1" in finding["text"] or "cannot be reached" in finding["text"]
    assert finding["fix"] == f"check {variable} and the credentials"


def test_clocks_that_disagree(world: World) -> None:
    with shifted(world.stack.lakefs_url, -3600) as url:
        world.environment["LAKECTL_SERVER_ENDPOINT_URL"] = url
        (finding,) = world.actions()["clock"]
        assert finding["subject"] == "lakeFS"
        assert "behind this machine's" in finding["text"]
        skew = clock_skew.skew(url)
        assert skew is not None
        assert -3605 < skew <= -3598


def test_bad_input(world: World) -> None:
    for arguments in (["doctor", "UPPER"], ["doctor", f"{world.repository}/a b"], ["doctor"], ["doctor", "x/y/z"]):
        said = world.perago(*arguments)
        assert said.code == 2
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) == 1
    for target in ("no-such-repository", f"{world.repository}/no-such-branch"):
        said = world.perago("doctor", target)
        assert said.code == 1
        assert said.err.startswith("error: ")
        assert target.rpartition("/")[2] in said.err
        assert len(said.err.splitlines()) == 1
    world.environment["CONDUCTOR_SERVER_URL"] = ""
    assert "CONDUCTOR_SERVER_URL is required for perago doctor" in world.perago("doctor", world.target).err


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


def test_a_commit_deep_in_the_history_is_not_missed(world: World) -> None:
    """One request tells whether the branch holds it, however long its history is."""
    first = world.run(world.start(world.by_hand("in/x"), steps=2))
    world.report(first)
    second = world.run(world.poll())
    world.report(second)
    with mock.patch.object(evidence, "HISTORY", 1):
        assert not world.actions()

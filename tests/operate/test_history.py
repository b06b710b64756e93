"""`perago log`, `diff` and `blame` on real servers, about commits that attempts published."""

import contextlib
import re
import threading

from tests.support.fault_proxy import Exchange, FaultProxy, passed_on
from tests.support.operator import MAIN, OperatorHarness

from perago.model import BranchName, CommitId, ObjectPath

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def log(harness: OperatorHarness, *options: str) -> list[dict[str, object]]:
    said = harness.perago("log", harness.target, "--json", *options)
    assert (said.code, said.err) == (0, "")
    return said.json["publications"]


def test_log_shows_each_publication_and_whether_conductor_accepted_it(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    accepted = harness.accepted(seed)
    forgotten = harness.accepted(accepted.commit)
    harness.real.remove(forgotten.polled.attempt.workflow_id)
    head = harness.abandoned(forgotten.commit)
    harness.staged(head.polled)
    said = harness.perago("log", harness.target)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    attempt = accepted.polled.attempt
    made = rf"step s0, attempt 1, workflow \S+ {attempt.workflow_id}"
    assert re.fullmatch(rf"{accepted.commit[:12]}  {TIME}  accepted +{made}  \+1 ~0 -0 \d+ B", lines[2])
    assert [line.split()[0] for line in lines[:4]] == [one[:12] for one in (head.commit, forgotten.commit, accepted.commit, seed)]
    assert [line.split()[2] for line in lines] == ["unaccepted", "unknown", "accepted", "by", "first"]
    assert lines[3].endswith(f"by hand     'by hand' by {harness.server.lake.commit(harness.repository, seed).committer}")
    assert said.err == f"warning: Conductor did not accept the head; perago doctor {harness.target} tells what to do\n"
    found = log(harness)
    assert [one["standing"] for one in found] == ["unaccepted", "unknown", "accepted", "by hand", "first"]
    assert "its task is CANCELED" in str(found[0]["why"])
    assert (found[2]["commit"], found[2]["workflow_id"], found[2]["task_id"], found[2]["step"], found[2]["attempt"]) == (
        accepted.commit,
        attempt.workflow_id,
        attempt.task_id,
        "s0",
        0,
    )
    assert found[2]["workflow_name"]
    assert [one["commit"] for one in log(harness, "--limit", "2")] == [head.commit, forgotten.commit]
    assert "older commits follow" in harness.perago("log", harness.target, "--limit", "2").out


def test_log_shows_a_publication_that_is_not_reported_yet_and_hides_what_a_merge_brought(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    merged = merged_by_hand(harness, "by/hand")
    published = harness.run(harness.start(merged))
    found = log(harness)
    assert [(one["commit"], one["standing"]) for one in found[:3]] == [
        (published.commit, "running"),
        (merged, "by hand"),
        (seed, "by hand"),
    ]
    assert found[1]["message"] == "merged by hand"


def test_log_asks_conductor_once_per_workflow_and_for_several_at_once(harness: OperatorHarness) -> None:
    accepted = harness.run(harness.start(harness.by_hand("in/x"), steps=3))
    harness.report(accepted)
    for _ in range(2):
        accepted = harness.run(harness.poll())
        harness.report(accepted)
    last = harness.accepted(accepted.commit)
    together = threading.Barrier(2, timeout=20)

    def wait_for_the_other(exchange: Exchange) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()
        passed_on(exchange)

    with FaultProxy(harness.stack.conductor_url) as proxy:
        harness.environment["CONDUCTOR_SERVER_URL"] = proxy.url
        proxy.on("GET .*/workflow/", wait_for_the_other, times=2)
        found = log(harness)
    assert not together.broken
    assert [one["standing"] for one in found] == ["accepted"] * 4 + ["by hand", "first"]
    assert [one["step"] for one in found[:4]] == ["s0", "s2", "s1", "s0"]
    workflows = {one.polled.attempt.workflow_id for one in (accepted, last)}
    asked = [seen.line.partition("?")[0].partition("/api")[2] for seen in proxy.seen]
    assert sorted(asked) == sorted(f"/workflow/{workflow_id}" for workflow_id in workflows)


def merged_by_hand(harness: OperatorHarness, path: str) -> CommitId:
    """A merge with two parents; the commit on main."""
    branch = BranchName("side")
    harness.server.lake.create_branch(harness.repository, branch, harness.head().id)
    harness.by_hand(path, branch=branch)
    harness.server.request(
        "POST", f"/repositories/{harness.repository}/refs/{branch}/merge/{MAIN}", {"message": "merged by hand"}
    )
    assert len(harness.head().parents) == 2
    return harness.head().id


# diff


def test_diff_lists_what_was_added_changed_and_removed_with_sizes(harness: OperatorHarness) -> None:
    harness.write("a", b"1234")
    harness.write("gone", b"x" * 2000)
    before = harness.by_hand("same")
    harness.write("a", b"123456")
    harness.server.lake.delete_objects(harness.repository, MAIN, [ObjectPath("gone")])
    after = harness.by_hand("new\x1b[31m", b"")
    harness.write("uncommitted")
    said = harness.perago("diff", f"{harness.repository}/{before[:12]}", "main")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "~ a  4 B -> 6 B",
        "- gone  2 kB",
        "+ new\\x1b[31m  0 B",
        f"1 added, 1 changed, 1 removed, from {before[:12]} to {after[:12]}",
    ]
    found = harness.perago("diff", f"lakefs://{harness.repository}/{before}", "main", "--json", "--limit", "2").json
    assert (found["left"], found["right"], found["more"]) == (before, after, True)
    assert found["totals"] == {"added": 1, "changed": 1, "removed": 1}
    assert found["changes"] == [
        {"path": "a", "type": "changed", "size_before": 4, "size_after": 6},
        {"path": "gone", "type": "removed", "size_before": 2000, "size_after": None},
    ]
    short = harness.perago("diff", f"{harness.repository}/{before}", after, "--limit", "1").out.splitlines()
    assert short[1:] == ["… and 2 more; show more with --limit", said.out.splitlines()[-1]]
    same = harness.perago("diff", f"{harness.repository}/main", "main").out
    assert same.startswith("0 added, 0 changed, 0 removed")


# blame


def blame(harness: OperatorHarness, path: str, ref: str = "main") -> dict[str, object]:
    said = harness.perago("blame", f"{harness.repository}/{ref}", path, "--json")
    assert (said.code, said.err) == (0, "")
    (found,) = said.json["objects"]
    assert found["path"] == path
    return found["written_by"]


def test_blame_names_publication_run_step_and_attempt(harness: OperatorHarness) -> None:
    seed = harness.by_hand("in/x")
    replaced = harness.run(harness.start(seed), {"out": b"replaced"})
    harness.terminate(replaced.polled.attempt.workflow_id)
    accepted = harness.accepted(seed, {"out": b"accepted"})
    later = harness.accepted(accepted.commit, {"later": b"x"})
    assert replaced.commit not in [one["commit"] for one in log(harness)]
    attempt = accepted.polled.attempt
    path = "in/out"
    found = blame(harness, path)
    assert (found["commit"], found["standing"], found["step"], found["attempt"], found["workflow_id"], found["task_id"]) == (
        accepted.commit,
        "accepted",
        "s0",
        0,
        attempt.workflow_id,
        attempt.task_id,
    )
    assert blame(harness, "in/later")["commit"] == later.commit
    by_hand = blame(harness, "in/x", later.commit[:12])
    assert (by_hand["commit"], by_hand["standing"], by_hand["message"]) == (seed, "by hand", "by hand")
    said = harness.perago("blame", f"{harness.repository}/main", path)
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{path}  ")
    made = rf"step s0, attempt 1, workflow \S+ {attempt.workflow_id}"
    assert re.fullmatch(rf"  {accepted.commit[:12]}  {TIME}  accepted +{made}  \+1 ~0 -0 \d+ B", lines[1])


def test_blame_follows_merges_and_lists_a_folder(harness: OperatorHarness) -> None:
    first = harness.by_hand("in/x")
    merged = merged_by_hand(harness, "in/side")
    changed = harness.by_hand("in/x", b"other")
    harness.by_hand("in/z")
    brought = blame(harness, "in/side")
    assert (brought["standing"], brought["commit"] == merged) == ("by hand", False)
    assert brought["commit"] in harness.server.lake.commit(harness.repository, merged).parents
    assert blame(harness, "in/x")["commit"] == changed
    assert blame(harness, "in/x", merged)["commit"] == first
    said = harness.perago("blame", f"{harness.repository}/main", "in", "--json", "--limit", "2")
    assert ([one["path"] for one in said.json["objects"]], said.json["more"]) == (["in/side", "in/x"], True)
    assert "more objects follow" in harness.perago("blame", f"{harness.repository}/main", "in/", "--limit", "2").out


def test_blame_names_the_side_of_a_merge_whose_object_was_taken(harness: OperatorHarness) -> None:
    harness.by_hand("in/x")
    side = BranchName("side")
    harness.server.lake.create_branch(harness.repository, side, harness.head().id)
    taken = harness.by_hand("in/x", b"side", branch=side)
    dropped = harness.by_hand("in/x", b"main")
    body = {"message": "merged by hand", "strategy": "source-wins"}
    harness.server.request("POST", f"/repositories/{harness.repository}/refs/{side}/merge/{MAIN}", body)
    assert blame(harness, "in/x")["commit"] == taken
    assert blame(harness, "in/x", dropped)["commit"] == dropped


def test_bad_input_is_one_line_that_says_what_to_do(harness: OperatorHarness) -> None:
    harness.by_hand("in/x")
    for arguments, code, words in (
        (["log", harness.repository], 2, "name the branch too"),
        (["log", "no-such-repository/main"], 1, "repository no-such-repository does not exist in lakeFS at http"),
        (["log", f"{harness.repository}/none"], 1, f"branch none does not exist in repository {harness.repository}"),
        (["log", harness.target, "--limit", "0"], 2, "--limit"),
        (["diff", harness.repository, "main"], 2, "name a branch, tag or commit too"),
        (["diff", "no-such-repository/main", "main"], 1, "repository no-such-repository does not exist"),
        (["diff", harness.target, "none"], 1, f"none does not exist in repository {harness.repository}; name a branch"),
        (["diff", harness.target, "a b"], 2, "is not a lakeFS ref"),
        (["blame", f"{harness.repository}/none", "in/x"], 1, "none does not exist in repository"),
        (["blame", harness.target, "in/y"], 1, "'in/y' is neither an object nor a folder at"),
        (["undo", harness.repository, "abc"], 2, "name the branch too"),
        (["undo", "no-such-repository/main", "abc"], 1, "repository no-such-repository does not exist"),
        (["undo", f"{harness.repository}/none", "abc"], 1, "branch none does not exist"),
        (["undo", harness.target, "0123456789abcdef"], 1, "is not a commit of repository"),
        (["undo", harness.target, "main"], 1, "is not a commit id: it resolves to"),
        (["undo", harness.target, harness.head().id, "--json"], 2, "--json needs --yes"),
    ):
        said = harness.perago(*arguments)
        assert said.code == code, said
        assert said.err.startswith("error: ")
        assert words in said.err
        assert len(said.err.splitlines()) == 1

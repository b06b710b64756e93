"""Network faults: no wrong byte on disk, no write sent twice, no hang, and an error that says what is known."""

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.support import fault_proxy as faults
from tests.support.fault_proxy import FaultProxy
from tests.support.lake_sites import MAIN, RealSite, client, file, stage
from tests.support.waiting import eventually

from perago.dev.stack import Endpoints
from perago.errors import LakeConflict, LakeCorrupt, LakeError, LakeRejected, LakeUnavailable, LakeUnknown
from perago.http.client import READ_TRIES
from perago.http.request import HttpTimeouts, RequestRecord
from perago.lake.client import LakeFS
from perago.lake.port import SmallFile
from perago.model import BranchName, CommitId, ObjectPath

DATA = bytes(range(256)) * 2000
HASTY = HttpTimeouts(connect=5, request=1, slowest=1_000_000)

READ_FAULTS = {
    "cut": faults.cut(),
    "reset": faults.cut(reset=True),
    "reply dropped": faults.drop_reply(),
    "head truncated": faults.truncate(10, body_only=False),
    "body truncated": faults.truncate(20),
    "not http": faults.raw(b"SSH-2.0-OpenSSH\r\n\r\n"),
    "429": faults.answer(429, b'{"message": "slow down"}', Retry_After="0"),
    "500": faults.answer(500, b'{"message": "oops"}'),
    "502 html": faults.answer(502, b"<html>bad gateway</html>"),
    "503": faults.answer(503),
}


class Broken:
    """A repository with content, a client that reaches it through a proxy, and one that reaches it directly."""

    def __init__(self, site: RealSite, proxy: FaultProxy, stack: Endpoints) -> None:
        self.site = site
        self.repository = site.repository
        self.proxy = proxy
        self.records: list[RequestRecord] = []
        self.lake = client(stack, proxy.url, self.records)
        self.hasty = client(stack, proxy.url, self.records, HASTY)
        self.base = site.publish("main", {"a": DATA})
        self.staged = stage(site, "s1", self.base, {"a": b"new"})
        self.info = site.lake.objects(site.repository, self.base, "").objects[0]
        site.put("s1", "dirt", b"x")


@pytest.fixture
def broken(real: RealSite, stack: Endpoints) -> Generator[Broken]:
    with FaultProxy(stack.lakefs_url) as proxy:
        yield (made := Broken(real, proxy, stack))
        made.lake.close()
        made.hasty.close()


Call = Callable[[LakeFS, Broken, Path], object]
READS: dict[str, Call] = {
    "capabilities": lambda lake, broken, _: lake.capabilities(),
    "commit": lambda lake, broken, _: lake.commit(broken.repository, broken.base),
    "head": lambda lake, broken, _: lake.head(broken.repository, MAIN),
    "branches": lambda lake, broken, _: list(lake.branches(broken.repository, "s")),
    "objects": lambda lake, broken, _: lake.objects(broken.repository, broken.base, ""),
    "read": lambda lake, broken, folder: lake.read(broken.repository, broken.base, broken.info, folder / "into"),
    "uncommitted": lambda lake, broken, _: list(lake.uncommitted(broken.repository, BranchName("s1"))),
}
WRITES: dict[str, Call] = {
    "create_branch": lambda lake, broken, _: lake.create_branch(broken.repository, BranchName("s2"), broken.base),
    "delete_branch": lambda lake, broken, _: lake.delete_branch(broken.repository, BranchName("s1")),
    "commit_branch": lambda lake, broken, _: lake.commit_branch(broken.repository, BranchName("s1"), "m", {}),
    "merge": lambda lake, broken, _: lake.merge(
        broken.repository, BranchName("s1"), MAIN, message="m", metadata={}, timeout=HASTY.request
    ),
    "relocate": lambda lake, broken, _: lake.relocate(broken.repository, MAIN, BranchName("s1"), timeout=HASTY.request),
    "write": lambda lake, broken, folder: lake.write(
        broken.repository, BranchName("s1"), ObjectPath("b"), file(folder, DATA), content_type="text/plain", metadata={}
    ),
    "delete_objects": lambda lake, broken, _: lake.delete_objects(broken.repository, BranchName("s1"), [ObjectPath("a")]),
}
every_read = pytest.mark.parametrize("verb", READS)
every_write = pytest.mark.parametrize("verb", WRITES)


@every_read
@pytest.mark.parametrize("fault", READ_FAULTS)
def test_a_read_that_fails_once_is_tried_again(broken: Broken, tmp_path: Path, verb: str, fault: str) -> None:
    broken.proxy.on("GET ", READ_FAULTS[fault])
    (direct := tmp_path / "direct").mkdir()
    assert READS[verb](broken.lake, broken, tmp_path) == READS[verb](broken.site.lake, broken, direct)
    assert len(broken.proxy.seen) == 2
    if verb == "read":
        assert (tmp_path / "into").read_bytes() == DATA


@pytest.mark.parametrize("fault", READ_FAULTS)
def test_a_read_that_always_fails_is_given_up_and_leaves_no_file(broken: Broken, tmp_path: Path, fault: str) -> None:
    broken.proxy.on("GET ", READ_FAULTS[fault], times=100)
    with pytest.raises(LakeUnavailable, match=rf"^read 'a' of {broken.repository}@{broken.base}: "):
        READS["read"](broken.lake, broken, tmp_path)
    assert len(broken.proxy.seen) == READ_TRIES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", READ_FAULTS)
@pytest.mark.parametrize("after", [0, 3])
def test_small_objects_survive_a_fault_among_them(broken: Broken, fault: str, after: int) -> None:
    content = {f"{number}": b"%d" % number * 999 for number in range(6)}
    commit = broken.site.publish("main", content)
    infos = [info for info in broken.site.lake.objects(broken.repository, commit, "").objects if info.path in content]
    broken.proxy.on(f"GET .*path={after}$", READ_FAULTS[fault])
    got = broken.hasty.read_small(broken.repository, commit, infos)
    assert {info.path: data for info, (_, data) in zip(infos, got, strict=True)} == content
    assert len(broken.records) > len(infos)


def test_after_a_broken_connection_small_objects_are_asked_for_one_by_one(broken: Broken) -> None:
    commit = broken.site.publish("main", {"b": b"1", "c": b"2"})
    infos = [info for info in broken.site.lake.objects(broken.repository, commit, "").objects if info.path in {"b", "c"}]
    assert len(list(broken.lake.read_small(broken.repository, commit, infos))) == 2
    assert broken.proxy.connections == 1
    broken.proxy.on("GET .*path=c$", faults.cut())
    for _ in range(2):
        assert [data for _, data in broken.lake.read_small(broken.repository, commit, infos)] == [b"1", b"2"]
    assert [record.status for record in broken.records] == [200, 200, 200, None, 200, 200, 200]


@pytest.mark.parametrize("lost", [faults.cut(), faults.drop_reply()])
def test_small_files_are_never_sent_twice_and_what_has_no_answer_is_unknown(broken: Broken, lost: faults.Fault) -> None:
    files = [SmallFile(ObjectPath(f"{number}"), b"%d" % number, "text/plain", {}) for number in range(4)]
    broken.proxy.on("POST .*path=2$", lost)
    coming = broken.lake.write_small(broken.repository, BranchName("s1"), files)
    assert [next(coming).path, next(coming).path] == ["0", "1"]
    with pytest.raises(LakeUnknown, match="'2'"):
        next(coming)
    assert len(broken.proxy.requests("POST .*path=2$")) == 1
    rest = list(broken.lake.write_small(broken.repository, BranchName("s1"), files[2:]))
    assert [info.path for info in rest] == ["2", "3"]


def test_a_corrupted_byte_is_noticed_and_read_again(broken: Broken, tmp_path: Path) -> None:
    broken.proxy.on("GET .*objects", faults.corrupt(len(DATA) // 2))
    READS["read"](broken.lake, broken, tmp_path)
    assert (tmp_path / "into").read_bytes() == DATA


def test_bytes_that_stay_corrupt_never_reach_the_disk(broken: Broken, tmp_path: Path) -> None:
    broken.proxy.on("GET .*objects", faults.corrupt(-1), times=100)
    with pytest.raises(LakeCorrupt, match="MD5"):
        READS["read"](broken.lake, broken, tmp_path)
    assert list(tmp_path.iterdir()) == []


@every_write
@pytest.mark.parametrize("reset", [False, True])
def test_a_write_whose_reply_is_lost_is_unknown_and_sent_once(broken: Broken, tmp_path: Path, verb: str, *, reset: bool) -> None:
    broken.proxy.on("(POST|PUT|DELETE) ", faults.drop_reply(reset=reset))
    with pytest.raises(LakeUnknown, match="may or may not have happened"):
        WRITES[verb](broken.lake, broken, tmp_path)
    assert [seen.forwarded for seen in broken.proxy.seen] == [1]


@pytest.mark.parametrize("verb", ["merge", "commit_branch", "write", "delete_objects"])
def test_a_write_with_half_a_reply_is_unknown(broken: Broken, tmp_path: Path, verb: str) -> None:
    broken.proxy.on("POST ", faults.truncate(5))
    with pytest.raises(LakeUnknown):
        WRITES[verb](broken.lake, broken, tmp_path)
    assert [seen.forwarded for seen in broken.proxy.seen] == [1]


@pytest.mark.parametrize("verb", ["merge", "commit_branch", "write", "delete_objects"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"null", b'{"reference": ""}', b"<html>"])
def test_a_write_with_an_unreadable_reply_is_unknown(broken: Broken, tmp_path: Path, verb: str, body: bytes) -> None:
    broken.proxy.on("POST ", faults.answer(200, body))
    with pytest.raises(LakeUnknown, match="unreadable"):
        WRITES[verb](broken.lake, broken, tmp_path)
    assert len(broken.proxy.seen) == 1


@every_write
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, LakeUnknown),
        (502, LakeUnknown),
        (503, LakeUnknown),
        (423, LakeUnavailable),
        (429, LakeUnavailable),
        (409, LakeConflict),
        (412, LakeRejected),
        (307, LakeRejected),
    ],
)
def test_a_refused_write_is_not_sent_again(
    broken: Broken, tmp_path: Path, verb: str, status: int, error: type[LakeError]
) -> None:
    broken.proxy.on("(POST|PUT|DELETE) ", faults.answer(status, b'{"message": "said so"}', Location="/elsewhere"), times=9)
    with pytest.raises(error, match=rf"lakeFS answered {status} \(said so\)$"):
        WRITES[verb](broken.lake, broken, tmp_path)
    assert len(broken.proxy.seen) == 1


def test_a_500_that_says_the_branch_is_locked_was_not_applied(broken: Broken, tmp_path: Path) -> None:
    broken.proxy.on("POST ", faults.answer(500, b'{"message": "branch is currently locked, try again later"}'))
    with pytest.raises(LakeUnavailable):
        WRITES["merge"](broken.lake, broken, tmp_path)


@every_write
@pytest.mark.parametrize("fault", ["silence", "drip"])
def test_a_write_that_hangs_ends_at_its_deadline(broken: Broken, tmp_path: Path, verb: str, fault: str) -> None:
    broken.proxy.on("(POST|PUT|DELETE) ", faults.silence() if fault == "silence" else faults.drip(0.1))
    began = time.monotonic()
    with pytest.raises(LakeUnknown, match="timed out"):
        WRITES[verb](broken.hasty, broken, tmp_path)
    assert time.monotonic() - began < 12
    assert len(broken.proxy.seen) == 1


@pytest.mark.parametrize("verb", ["head", "read"])
@pytest.mark.parametrize("fault", ["silence", "drip"])
def test_a_read_that_hangs_ends_in_bounded_time(broken: Broken, tmp_path: Path, verb: str, fault: str) -> None:
    broken.proxy.on("GET ", faults.silence() if fault == "silence" else faults.drip(0.1), times=100)
    began = time.monotonic()
    with pytest.raises(LakeUnavailable, match="timed out"):
        READS[verb](broken.hasty, broken, tmp_path)
    assert time.monotonic() - began < 60
    assert list(tmp_path.iterdir()) == []


def test_a_transfer_without_progress_is_given_up_long_before_its_deadline(
    stack: Endpoints, broken: Broken, tmp_path: Path
) -> None:
    with client(stack, broken.proxy.url, timeouts=HttpTimeouts(connect=5, request=0.5, slowest=1)) as patient:
        broken.proxy.on("(GET|POST) ", faults.silence(), times=9)
        with pytest.raises(LakeUnavailable, match="timed out"):
            READS["read"](patient, broken, tmp_path)
        with pytest.raises(LakeUnknown, match="timed out"):
            WRITES["write"](patient, broken, tmp_path)


def test_a_late_reply_within_the_deadline_is_good(broken: Broken) -> None:
    broken.proxy.on("GET ", faults.delay(0.3))
    assert broken.hasty.head(broken.repository, MAIN).id == broken.base
    assert len(broken.proxy.seen) == 1


@every_write
def test_a_server_that_is_not_there_is_unavailable(stack: Endpoints, broken: Broken, tmp_path: Path, verb: str) -> None:
    nowhere = client(stack, "http://127.0.0.1:1")
    with pytest.raises(LakeUnavailable, match=r"Connection refused while connecting"):
        WRITES[verb](nowhere, broken, tmp_path)


def test_a_request_of_which_only_a_part_could_be_sent_has_no_effect(broken: Broken, tmp_path: Path) -> None:
    broken.proxy.on("POST ", faults.cut_request(after=400))
    with pytest.raises(LakeError):
        WRITES["write"](broken.lake, broken, tmp_path)
    assert "b" not in broken.site.content("s1")


def test_a_write_after_the_server_closed_the_idle_connection_goes_by_a_new_one(broken: Broken) -> None:
    def good_bye(exchange: faults.Exchange) -> None:
        faults.passed_on(exchange)
        raise faults.Gone

    broken.proxy.on("GET ", good_bye)
    broken.lake.head(broken.repository, MAIN)
    eventually(lambda: not broken.proxy.clients, within=10, what="the end of the connection")
    broken.lake.create_branch(broken.repository, BranchName("s9"), broken.base)
    assert [seen.line.split()[0] for seen in broken.proxy.seen] == ["GET", "POST"]


def test_retry_after_is_honoured_within_reason(stack: Endpoints, broken: Broken) -> None:
    pauses: list[float] = []
    patient = LakeFS(broken.proxy.url, stack.access_key_id, stack.secret_access_key, timeouts=HASTY, pause=pauses.append)
    broken.proxy.on("GET ", faults.answer(429, Retry_After="3"))
    broken.proxy.on("GET ", faults.answer(503, Retry_After="3600"))
    assert patient.head(broken.repository, MAIN).id == broken.base
    assert pauses == [3, 5]
    patient.close()


def test_messages_hold_no_credentials_and_one_line(stack: Endpoints, broken: Broken, tmp_path: Path) -> None:
    broken.proxy.on("POST ", faults.answer(400, b'{"message": "line one\\nline two ' + b"x" * 5000 + b'"}'))
    with pytest.raises(LakeRejected) as caught:
        WRITES["merge"](broken.lake, broken, tmp_path)
    text = str(caught.value) + repr(broken.lake)
    assert stack.secret_access_key not in text
    assert stack.access_key_id not in text
    assert "\n" not in text
    assert len(text) < 600


def test_wrong_credentials_are_forbidden(stack: Endpoints, broken: Broken) -> None:
    stranger = LakeFS(stack.lakefs_url, "unknown", "secret", timeouts=HASTY)
    with pytest.raises(LakeError, match="401") as caught:
        stranger.head(broken.repository, MAIN)
    assert type(caught.value).__name__ == "LakeForbidden"
    stranger.close()


def test_the_cause_of_an_error_is_kept(broken: Broken) -> None:
    broken.proxy.on("GET ", faults.cut(), times=9)
    with pytest.raises(LakeUnavailable) as caught:
        broken.lake.commit(broken.repository, CommitId(broken.base))
    assert caught.value.__cause__ is not None

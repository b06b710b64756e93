"""The official SDK reads what the client wrote, and the client sends the minimum number of requests."""

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.fault_proxy import FaultProxy
from tests.support.lake_sites import MAIN, RealSite, client, file, merge, stage

from perago.dev.stack import Endpoints
from perago.lake.port import PAGE, Capabilities
from perago.model import BranchName, ObjectInfo, ObjectPath


def test_the_sdk_sees_the_object_that_we_wrote(real: RealSite, tmp_path: Path) -> None:
    source, metadata = file(tmp_path, b"content"), {"perago-mode": "0755", "Other": " x "}
    sent = real.lake.write(
        real.repository, MAIN, ObjectPath("a +%#?/😀"), source, content_type="text/x-perago", metadata=metadata
    )
    found = real.stats("main")["a +%#?/😀"]
    assert (found.size_bytes, found.checksum, found.content_type, found.mtime) == (7, sent.checksum, "text/x-perago", sent.mtime)
    assert found.checksum == hashlib.md5(b"content").hexdigest()
    assert found.metadata == metadata


def test_the_sdk_sees_the_commits_and_branches_that_we_made(real: RealSite) -> None:
    base = real.publish("main", {"a": b"1"})
    staged = stage(real, "s1", base, {"a": b"2"})
    merged = real.lake.commit(real.repository, merge(real, "s1"))
    for ours in (staged, merged, real.lake.head(real.repository, MAIN)):
        theirs = real.sdk.commit(ours.id)
        assert (ours.id, list(ours.parents), ours.meta_range_id) == (theirs.id, theirs.parents, theirs.meta_range_id)
        assert (ours.message, ours.metadata) == (theirs.message, theirs.metadata or {})
    assert real.sdk.newest_commit("main") == merged.id
    assert real.sdk.head("s1") == staged.id


def test_our_listing_is_the_sdks_listing(real: RealSite) -> None:
    real.publish("main", {f"d{number % 3}/f{number}": bytes([number]) for number in range(30)})
    ours = {info.path: (info.size, info.checksum, info.content_type, info.mtime) for info in listing(real)}
    theirs = {path: (item.size_bytes, item.checksum, item.content_type, item.mtime) for path, item in real.stats("main").items()}
    assert ours == theirs


def test_a_local_blockstore_signs_no_links(real: RealSite) -> None:
    assert real.lake.capabilities() == Capabilities(presign_read=False, presign_write=False, multipart=False)
    assert real.lake.capabilities() == Capabilities()
    assert len(real.records) == 1


def test_each_verb_is_one_request(real: RealSite, tmp_path: Path) -> None:
    base = real.publish("main", {"a": b"1", "b": b"2"})
    info = listing(real)[0]
    real.records.clear()
    staging = BranchName("s1")
    real.lake.create_branch(real.repository, staging, base)
    real.lake.read(real.repository, base, info, tmp_path / "into")
    real.lake.write(real.repository, staging, ObjectPath("a"), tmp_path / "into", content_type="x/y", metadata={"k": "v"})
    real.lake.delete_objects(real.repository, staging, [ObjectPath("b")])
    real.lake.commit_branch(real.repository, staging, "m", {})
    list(real.lake.branches(real.repository, "s"))
    real.lake.head(real.repository, MAIN)
    real.lake.commit(real.repository, base)
    merge(real, "s1")
    real.lake.relocate(real.repository, MAIN, staging, timeout=9)
    list(real.lake.uncommitted(real.repository, staging))
    real.lake.delete_branch(real.repository, staging)
    assert max(Counter(record.verb for record in real.records).values()) == 1
    assert len(real.records) == 12
    assert {record.status for record in real.records} == {200, 201, 204}


def test_many_threads_share_as_many_connections(stack: Endpoints, real: RealSite, tmp_path: Path) -> None:
    commit = real.publish("main", {f"{number:03}": bytes([number]) * 5000 for number in range(40)})
    infos = listing(real)
    with FaultProxy(stack.lakefs_url) as proxy, ThreadPoolExecutor(4) as threads:
        lake = client(stack, proxy.url)
        for turn in range(3):
            (folder := tmp_path / str(turn)).mkdir()
            list(threads.map(lambda info, into=folder: lake.read(real.repository, commit, info, into / info.path), infos))
        assert proxy.connections <= 4
        assert len(proxy.seen) == 120
        lake.close()
    for number in range(40):
        assert (tmp_path / "2" / f"{number:03}").read_bytes() == bytes([number]) * 5000


def listing(site: RealSite) -> list[ObjectInfo]:
    page = site.lake.objects(site.repository, MAIN, "")
    assert len(page.objects) < PAGE
    return list(page.objects)

"""Details of HTTP as real servers and proxies use it: chunks, early refusals, closed connections, TLS, signed links."""

import hashlib
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support import fault_proxy as faults
from tests.support.fault_proxy import FaultProxy
from tests.support.lake_sites import file

from perago.errors import LakeForbidden, LakeNotFound, LakeUnavailable, LakeUnknown, RuntimeConfigError, WorkspaceError
from perago.http import connection
from perago.http.request import HttpTimeouts
from perago.lake import client as lake_client
from perago.lake import presigned
from perago.lake.client import LakeFS
from perago.lake.port import Capabilities
from perago.model import BranchName, CommitId, ObjectInfo, ObjectPath, Repository

REPOSITORY = Repository("repository")
COMMIT = CommitId("c" * 64)
HASTY = HttpTimeouts(connect=5, request=5)
CONFIG = {"storage_config": {"pre_sign_support": True, "pre_sign_multipart_upload": True}}
DATA = b"0123456789" * 30_000
INFO = ObjectInfo(ObjectPath("a"), len(DATA), hashlib.md5(DATA).hexdigest())


At = Callable[..., LakeFS]


@pytest.fixture
def lake_at() -> Generator[At]:
    """Makes clients for a URL, and closes them."""
    with ExitStack() as made:
        yield lambda url, timeouts=HASTY, tls=None: made.enter_context(
            LakeFS(url, "key", "secret", timeouts=timeouts, tls=tls, pause=lambda _seconds: None)
        )


@pytest.fixture
def server() -> Generator[FaultProxy]:
    with FaultProxy() as running:
        yield running


def raw_reply(*parts: bytes) -> faults.Fault:
    """Send the reply, and keep the connection open afterwards."""

    def fault(exchange: faults.Exchange) -> None:
        for part in parts:
            exchange.client.send(part)

    return fault


@pytest.mark.parametrize("cut", [1, 7, 1000, 70_000])
def test_a_chunked_body_is_put_together(lake_at: At, server: FaultProxy, tmp_path: Path, cut: int) -> None:
    pieces = [DATA[at : at + cut] for at in range(0, len(DATA), max(cut, len(DATA) // 300))] if cut < 1000 else []
    pieces = pieces or [DATA[at : at + cut] for at in range(0, len(DATA), cut)]
    body = b"".join(pieces)
    wired = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    info = ObjectInfo(ObjectPath("a"), len(body), hashlib.md5(body).hexdigest())
    server.on("GET ", raw_reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", wired, b"0\r\nTrailer: x\r\n\r\n"), 2)
    lake = lake_at(server.url)
    for name in ("first", "second"):
        lake.read(REPOSITORY, COMMIT, info, tmp_path / name)
        assert (tmp_path / name).read_bytes() == body
    assert server.connections == 1


def test_a_reply_is_read_whole_through_a_buffer_that_it_does_not_fit(
    lake_at: At, server: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    monkeypatch.setattr(connection, "BUFFER", len(head) + 1)
    wired = b"".join(b"7;padding\r\n%07d\r\n" % number for number in range(200))
    body = b"".join(b"%07d" % number for number in range(200))
    server.on("GET ", raw_reply(head + wired + b"0\r\n\r\n"))
    info = ObjectInfo(ObjectPath("a"), len(body), hashlib.md5(body).hexdigest())
    assert lake_at(server.url).read(REPOSITORY, COMMIT, info, tmp_path / "into") == info.checksum


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nabcdefgh\r\n", b"5\r\nab"])
def test_broken_chunks_are_no_content(lake_at: At, server: FaultProxy, tmp_path: Path, body: bytes) -> None:
    server.on("GET ", faults.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body), times=9)
    with pytest.raises(LakeUnavailable):
        lake_at(server.url).read(REPOSITORY, COMMIT, ObjectInfo(ObjectPath("a"), 5, ""), tmp_path / "into")
    assert list(tmp_path.iterdir()) == []


def test_a_body_that_ends_with_the_connection(lake_at: At, server: FaultProxy, tmp_path: Path) -> None:
    server.on("GET ", faults.raw(b"HTTP/1.0 200 OK\r\n\r\n" + DATA))
    assert lake_at(server.url).read(REPOSITORY, COMMIT, INFO, tmp_path / "into") == INFO.checksum


def test_interim_replies_are_passed_over(lake_at: At, server: FaultProxy) -> None:
    body = json.dumps(CONFIG).encode()
    server.on(
        "GET ",
        raw_reply(
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body
        ),
    )
    assert lake_at(server.url).capabilities() == Capabilities(presign_read=True, presign_write=True, multipart=True)


@pytest.mark.parametrize("head", [b"HTTP/2 200", b"HTTP/1.1 2x0 OK", b"HTTP/1.1 200 OK\r\nContent-Length: -5", b"x" * 300_000])
def test_what_is_not_http_is_unavailable(lake_at: At, server: FaultProxy, head: bytes) -> None:
    server.on("GET ", faults.raw(head + b"\r\n\r\n"), times=9)
    with pytest.raises(LakeUnavailable):
        lake_at(server.url).capabilities()


def test_a_connection_that_the_server_wants_closed_is_not_used_again(lake_at: At, server: FaultProxy) -> None:
    body = json.dumps(CONFIG).encode()
    server.on("GET ", faults.answer(404, body, Connection="close"))
    server.on("GET ", faults.answer(200, body))
    lake = lake_at(server.url)
    with pytest.raises(LakeNotFound):
        lake.capabilities()
    assert lake.capabilities().presign_read
    assert server.connections == 2


@contextmanager
def listening(serve: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None) -> Generator[int]:
    """A server that handles one connection with the given function."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            sock, _ = listener.accept()
            with sock:
                try:
                    wrapped = tls.wrap_socket(sock, server_side=True) if tls else sock
                except ssl.SSLError:
                    return  # the client does not trust us
                with wrapped:
                    serve(wrapped)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def test_a_refusal_before_the_body_was_read_is_received(lake_at: At, tmp_path: Path) -> None:
    heard = threading.Event()

    def refuse(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(b'HTTP/1.1 403 Forbidden\r\nContent-Length: 24\r\n\r\n{"message": "protected"}')
        heard.wait(20)

    source = file(tmp_path, b"x" * 15_000_000)
    with listening(refuse) as port:
        lake = lake_at(f"http://127.0.0.1:{port}", HttpTimeouts(connect=5, request=1))
        with pytest.raises(LakeForbidden, match="protected"):
            lake.write(REPOSITORY, BranchName("main"), ObjectPath("a"), source, content_type="x/y", metadata={})
        heard.set()


def test_a_write_that_could_not_be_sent_whole_did_not_happen(lake_at: At, tmp_path: Path) -> None:
    def hang_up(sock: socket.socket) -> None:
        sock.recv(1000)

    source = file(tmp_path, b"x" * 15_000_000)
    with listening(hang_up) as port, pytest.raises(LakeUnavailable, match="while sending"):
        lake_at(f"http://127.0.0.1:{port}").write(
            REPOSITORY, BranchName("main"), ObjectPath("a"), source, content_type="x/y", metadata={}
        )


def test_a_server_that_stops_reading_does_not_block_the_client(lake_at: At, tmp_path: Path) -> None:
    done = threading.Event()

    def stall(sock: socket.socket) -> None:
        sock.recv(1000)
        done.wait(20)

    source = file(tmp_path, b"x" * 15_000_000)
    with listening(stall) as port:
        lake = lake_at(f"http://127.0.0.1:{port}", HttpTimeouts(connect=5, request=1))
        with pytest.raises(LakeUnavailable, match="timed out while sending"):
            lake.write(REPOSITORY, BranchName("main"), ObjectPath("a"), source, content_type="x/y", metadata={})
        done.set()


def test_a_file_that_shrinks_on_its_way_breaks_the_request_off(
    lake_at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = file(tmp_path, b"x" * 300_000)
    got: list[bytes] = []

    def read_all(sock: socket.socket) -> None:
        while data := sock.recv(1 << 20):
            got.append(data)

    real_upload = lake_client.transfer.upload

    @contextmanager
    def shrinking(path: Path, md5: str | None) -> Generator[lake_client.transfer.UploadSource]:
        with real_upload(path, md5) as upload:
            path.write_bytes(b"x" * 100)
            yield upload

    monkeypatch.setattr(lake_client.transfer, "upload", shrinking)
    with listening(read_all) as port, pytest.raises(WorkspaceError, match="changed its size"):
        lake_at(f"http://127.0.0.1:{port}").write(
            REPOSITORY, BranchName("main"), ObjectPath("a"), source, content_type="x/y", metadata={}
        )
    assert len(b"".join(got).partition(b"\r\n\r\n")[2]) < 300_000


# signed links


def test_a_signed_link_is_read_without_credentials(lake_at: At, server: FaultProxy, tmp_path: Path) -> None:
    heard: list[bytes] = []

    def store(exchange: faults.Exchange) -> None:
        heard.append(exchange.request.head)
        faults.answer(200, DATA)(exchange)

    server.on("GET /bucket/a\\?sig=1", store)
    info = ObjectInfo(INFO.path, INFO.size, INFO.checksum, presigned_url=f"{server.url}/bucket/a?sig=1")
    assert lake_at("http://127.0.0.1:1").read(REPOSITORY, COMMIT, info, tmp_path / "into") == INFO.checksum
    assert b"authorization" not in heard[0].lower()


@pytest.mark.parametrize("link", ["refused", "corrupt", "closed", "nonsense"])
def test_a_link_that_does_not_work_falls_back_to_lakefs(lake_at: At, server: FaultProxy, tmp_path: Path, link: str) -> None:
    server.on(
        "GET /bucket",
        faults.answer(403, b"<Error>expired</Error>") if link == "refused" else faults.answer(200, b"x" * len(DATA)),
    )
    server.on("GET /api", faults.answer(200, DATA))
    url = {"closed": "http://127.0.0.1:1/x?sig=1", "nonsense": "file:///etc/passwd"}.get(link, f"{server.url}/bucket?sig=1")
    info = ObjectInfo(INFO.path, INFO.size, INFO.checksum, presigned_url=url)
    lake = lake_at(server.url)
    assert lake.read(REPOSITORY, COMMIT, info, tmp_path / "into") == INFO.checksum
    assert (tmp_path / "into").read_bytes() == DATA
    assert url not in repr(info)


def signing(server: FaultProxy, monkeypatch: pytest.MonkeyPatch, store: faults.Fault) -> None:
    """A lakeFS that signs links to itself for all files over 100 KB."""
    monkeypatch.setattr(presigned, "UPLOAD_FROM", 100_000)
    place = {"physical_address": "s3://bucket/x", "presigned_url": f"{server.url}/bucket/x?sig=1"}
    server.on("GET .*/config", faults.answer(200, json.dumps(CONFIG).encode()))
    server.on("GET .*/staging/backing", faults.answer(200, json.dumps(place).encode()))
    server.on("PUT /bucket/x", store)


def stats(metadata: dict[str, str]) -> bytes:
    item = {"path": "a", "size_bytes": INFO.size, "checksum": INFO.checksum, "mtime": 1, "metadata": metadata}
    return json.dumps({**item, "content_type": "x/y", "path_type": "object"}).encode()


def test_a_large_file_goes_straight_to_a_store_that_signs_links(
    lake_at: At, server: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked: list[bytes] = []
    stored: list[bytes] = []

    def store(exchange: faults.Exchange) -> None:
        stored.append(exchange.request.body)
        faults.answer(200, ETag=f'"{INFO.checksum}"')(exchange)

    def link(exchange: faults.Exchange) -> None:
        linked.append(exchange.request.body)
        faults.answer(200, stats({"Key": " v"}))(exchange)

    signing(server, monkeypatch, store)
    server.on("PUT .*/staging/backing", link)
    sent = lake_at(server.url).write(
        REPOSITORY, BranchName("s"), INFO.path, file(tmp_path, DATA), content_type="x/y", metadata={"Key": " v"}
    )
    assert (sent.checksum, stored) == (INFO.checksum, [DATA])
    body = json.loads(linked[0])
    assert (body["checksum"], body["size_bytes"], body["user_metadata"]) == (INFO.checksum, INFO.size, {"Key": " v"})
    assert body["staging"]["physical_address"] == "s3://bucket/x"


@pytest.mark.parametrize(
    "store", [faults.answer(403), faults.cut(), faults.answer(200, ETag=f'"{"0" * 32}"')], ids=["refused", "cut", "other bytes"]
)
def test_a_file_that_the_store_refuses_is_uploaded_through_lakefs(
    lake_at: At, server: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: faults.Fault
) -> None:
    signing(server, monkeypatch, store)
    server.on("POST .*/objects", faults.answer(201, stats({})))
    sent = lake_at(server.url).write(
        REPOSITORY, BranchName("s"), INFO.path, file(tmp_path, DATA), content_type="x/y", metadata={}
    )
    assert sent.checksum == INFO.checksum
    assert [seen.line.split()[0] for seen in server.seen] == ["GET", "GET", "PUT", "POST"]


def test_a_link_whose_last_step_is_lost_is_unknown(
    lake_at: At, server: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signing(server, monkeypatch, faults.answer(200))
    server.on("PUT .*/staging/backing", faults.cut())
    source = file(tmp_path, DATA)
    with pytest.raises(LakeUnknown):
        lake_at(server.url).write(REPOSITORY, BranchName("s"), INFO.path, source, content_type="x/y", metadata={})


@pytest.mark.parametrize("url", ["", "lakefs:8000", "ftp://host", "http://", "http://host/prefix", "http://key:secret@host"])
def test_an_invalid_address_is_refused(lake_at: At, url: str) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        lake_at(url)
    assert "secret" not in str(caught.value)


def test_the_address_may_name_the_api(lake_at: At, server: FaultProxy) -> None:
    server.on("GET /api/v1/config", faults.answer(200, json.dumps(CONFIG).encode()))
    assert lake_at(f"{server.url}/api/v1/").capabilities().presign_read


def test_tls_is_verified(lake_at: At, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run([*make, "-keyout", key, "-out", certificate, *names], check=True, capture_output=True)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    body = json.dumps(CONFIG).encode()

    def serve(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with listening(serve, ours) as port:
        trusting = ssl.create_default_context(cafile=certificate)
        assert lake_at(f"https://127.0.0.1:{port}", tls=trusting).capabilities().presign_read
    with listening(_never_reached, ours) as port, pytest.raises(LakeUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        lake_at(f"https://127.0.0.1:{port}").create_branch(REPOSITORY, BranchName("s"), COMMIT)


def _never_reached(_sock: socket.socket) -> None:
    raise AssertionError("this is never reached")

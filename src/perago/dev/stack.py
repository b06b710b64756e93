"""Runs a Conductor and a lakeFS server together, and gives their addresses and keys."""

import json
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from perago.dev import conductor, data_directory, lakefs, server
from perago.dev.server import HOST, Server
from perago.errors import DevStackError
from perago.process.stop_request import StopRequest
from perago.provision import artifact_cache
from perago.provision.progress import Report, quiet

VARIABLES = (
    "CONDUCTOR_SERVER_URL",
    "LAKECTL_SERVER_ENDPOINT_URL",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
)
"""The settings with which Perago uses these servers."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    """The user's choices. Port 0 means any free one; without a data directory a temporary one is used."""

    data_dir: Path | None = None
    conductor_port: int = 0
    lakefs_port: int = 0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of the servers and the keys for lakeFS: everything that a client needs."""

    conductor_url: str
    lakefs_url: str
    s3_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """The settings with which Perago uses these servers."""
        values = (self.conductor_url, self.lakefs_url, self.access_key_id, self.secret_access_key)
        return dict(zip(VARIABLES, values, strict=True))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote; further fields are ignored."""
        document = json.loads(text)
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})


def install(*, stop_request: StopRequest | None = None, report: Report = quiet, cache_root: Path | None = None) -> None:
    """Downloads and builds both servers, if they are not in the cache. Starts nothing."""
    store = artifact_cache.ArtifactCache(cache_root or artifact_cache.default_root(), stop_request or StopRequest(), report)
    lakefs.binaries(store)
    conductor.install(store)


class Stack:
    """A Conductor and a lakeFS server that run while the context is open."""

    def __init__(
        self,
        options: StackOptions | None = None,
        *,
        stop_request: StopRequest | None = None,
        report: Report = quiet,
        cache_root: Path | None = None,
    ) -> None:
        self._options = options or StackOptions()
        self._cache = artifact_cache.ArtifactCache(
            cache_root or artifact_cache.default_root(), stop_request or StopRequest(), report
        )
        self._data: data_directory.DataDirectory | None = None
        self._servers: dict[str, Server] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def conductor(self) -> Server:
        return self._server("conductor")

    @property
    def lakefs(self) -> Server:
        return self._server("lakefs")

    @property
    def data_dir(self) -> Path:
        return self._opened().path

    @property
    def endpoints(self) -> Endpoints:
        keys = self._opened().credentials
        address = f"http://{HOST}:{self.lakefs.port}"
        return Endpoints(f"http://{HOST}:{self.conductor.port}/api", address, address, keys.access_key_id, keys.secret_access_key)

    @property
    def conductor_url(self) -> str:
        return self.endpoints.conductor_url

    @property
    def lakefs_url(self) -> str:
        return self.endpoints.lakefs_url

    @property
    def s3_url(self) -> str:
        return self.endpoints.s3_url

    @property
    def access_key_id(self) -> str:
        return self.endpoints.access_key_id

    @property
    def secret_access_key(self) -> str:
        return self.endpoints.secret_access_key

    def environment(self) -> dict[str, str]:
        return self.endpoints.environment()

    def start(self) -> None:
        """Installs what is missing, starts both servers and waits until they are healthy; stops them if that fails."""
        if self._data is not None:
            raise DevStackError("the development servers are running already")
        try:
            with artifact_cache.explained_os_errors(
                "starting the servers", self._options.data_dir or Path(tempfile.gettempdir())
            ):
                self._prepare()
                self._launch()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        wanted = self._options
        # Wrong options are reported at once, before anything is downloaded or built.
        server.check_port("Conductor", wanted.conductor_port, "--conductor-port")
        server.check_port("lakeFS", wanted.lakefs_port, "--lakefs-port")
        if wanted.conductor_port and wanted.conductor_port == wanted.lakefs_port:
            raise DevStackError(f"Conductor and lakeFS cannot both use port {wanted.conductor_port}; choose two different ones")
        if wanted.data_dir is not None:
            self._data = data_directory.acquire(wanted.data_dir)
        lakefs.binaries(self._cache)
        installed = conductor.install(self._cache)
        # A temporary one is created only now, so that a build that is killed leaves none behind.
        self._data = self._data or data_directory.acquire(None)
        # Free ports are chosen as late as possible, so that they are still free when the servers bind them.
        place, port = self._data.command("lakefs"), wanted.lakefs_port or server.free_port()
        self._servers["lakefs"] = lakefs.server(self._cache, place, port, self._data.credentials)
        place, port = self._data.command("conductor"), wanted.conductor_port or server.free_port()
        self._servers["conductor"] = conductor.server(self._cache, installed, place, port)

    def _launch(self) -> None:
        for one in self._servers.values():
            one.launch()
        for one in self._servers.values():
            one.wait_healthy()

    def watch(self) -> None:
        """Blocks until a server ends, which raises DevStackError, or until a stop is requested."""
        while True:
            self.wait(60.0)

    def wait(self, seconds: float) -> None:
        """Waits; raises DevStackError if a server has ended, StopRequested if a stop is requested."""
        for one in self._servers.values():
            one.check()
        self._cache.stop_request.wait([one.descriptor for one in self._servers.values()], seconds)

    def stop(self) -> None:
        """Stops the servers that run and releases the data directory."""
        for one in self._servers.values():
            one.stop()
        self._servers.clear()
        if self._data is not None:
            self._data.close()
            self._data = None

    close = stop

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            raise DevStackError("the development servers are not running")
        return self._servers[name]

    def _opened(self) -> data_directory.DataDirectory:
        if self._data is None:
            raise DevStackError("the development servers are not running")
        return self._data

"""Both servers together: options go in; a running Conductor and a running lakeFS with their addresses and keys come out."""

import json
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from perago.dev import conductor, datadir, lakefs, server
from perago.dev.server import HOST, Server
from perago.errors import DevStackError
from perago.process.stop_request import StopRequest
from perago.provision import cache
from perago.provision.progress import Report, quiet


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose. Port 0 means any free one, no directory means a temporary one."""

    data_dir: Path | None = None
    conductor_port: int = 0
    lakefs_port: int = 0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the servers are and how to log in: all that a client needs."""

    conductor_url: str
    lakefs_url: str
    s3_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """The settings of Perago that point at these servers."""
        return {
            "CONDUCTOR_SERVER_URL": self.conductor_url,
            "LAKECTL_SERVER_ENDPOINT_URL": self.lakefs_url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote; further fields are ignored."""
        document = json.loads(text)
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})


def install(*, stop_request: StopRequest | None = None, report: Report = quiet, cache_root: Path | None = None) -> None:
    """Fetches and builds both servers into the cache, if they are not there yet, and starts nothing."""
    store = cache.Cache(cache_root or cache.default_root(), stop_request or StopRequest(), report)
    lakefs.binaries(store)
    conductor.install(store)


class Stack:
    """A real Conductor and a real lakeFS for as long as the context lasts."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        stop_request: StopRequest | None = None,
        report: Report = quiet,
        cache_root: Path | None = None,
    ) -> None:
        self._options = options or Options()
        self._cache = cache.Cache(cache_root or cache.default_root(), stop_request or StopRequest(), report)
        self._data: datadir.DataDir | None = None
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
        """Installs what is missing, starts both and waits until both are healthy; leaves nothing behind when that fails."""
        if self._data is not None:
            raise DevStackError("the development servers are running already")
        try:
            with cache.told_plainly("starting the servers", self._options.data_dir or Path(tempfile.gettempdir())):
                self._prepare()
                self._launch()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        wanted = self._options
        # What a person got wrong shows at once, before anything is downloaded or built.
        server.check_port("Conductor", wanted.conductor_port, "--conductor-port")
        server.check_port("lakeFS", wanted.lakefs_port, "--lakefs-port")
        if wanted.conductor_port and wanted.conductor_port == wanted.lakefs_port:
            raise DevStackError(f"Conductor and lakeFS cannot both use port {wanted.conductor_port}; choose two different ones")
        if wanted.data_dir is not None:
            self._data = datadir.acquire(wanted.data_dir)
        lakefs.binaries(self._cache)
        installed = conductor.install(self._cache)
        # A temporary one waits until now, so that a build that is killed leaves none behind.
        self._data = self._data or datadir.acquire(None)
        # Free ports are looked for as late as possible, so that they still are when the servers bind them.
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
        """Blocks until a server dies, and says so, or until a stop is requested."""
        while True:
            self.wait(60.0)

    def wait(self, seconds: float) -> None:
        """Lets time pass, unless a server has died, which is an error, or a stop is requested."""
        for one in self._servers.values():
            one.check()
        self._cache.stop_request.wait([one.descriptor for one in self._servers.values()], seconds)

    def stop(self) -> None:
        """Stops whatever runs and lets go of the data directory."""
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

    def _opened(self) -> datadir.DataDir:
        if self._data is None:
            raise DevStackError("the development servers are not running")
        return self._data

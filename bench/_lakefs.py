"""A real lakeFS for benchmarks: repositories, the server's count of requests, and lakectl."""

import json
import os
import re
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import urllib3

from perago.dev import lakefs
from perago.dev.stack import Endpoints, Stack
from perago.process.stop_request import StopRequest
from perago.provision import artifact_cache
from perago.provision.progress import quiet


@contextmanager
def alone() -> Generator[Endpoints]:
    """A lakeFS server without Conductor, or the one that PERAGO_TEST_STACK names."""
    if reused := os.environ.get("PERAGO_TEST_STACK"):
        yield Endpoints.from_json(Path(reused).read_text())
        return
    with Stack() as stack:
        endpoints = stack.endpoints
        stack.conductor.stop()
        yield endpoints


class Store:
    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self._http = urllib3.PoolManager(timeout=60, retries=False)

    def create_repository(self, name: str) -> str:
        body = {"name": name, "storage_namespace": f"local://{name}", "default_branch": "main"}
        self._request("POST", "/api/v1/repositories", body)
        return str(self._request("GET", f"/api/v1/repositories/{name}/branches/main")["commit_id"])

    def delete_repository(self, name: str) -> None:
        self._request("DELETE", f"/api/v1/repositories/{name}?force=true")

    def create_branch(self, repository: str, name: str, source: str) -> None:
        self._request("POST", f"/api/v1/repositories/{repository}/branches", {"name": name, "source": source})

    def requests(self) -> int:
        """The number of API requests that the server has answered so far, to all clients."""
        text = self._http.request("GET", self.endpoints.lakefs_url + "/metrics").data.decode()
        counts = re.findall(r"^api_request_duration_seconds_count\{.*\} (\S+)$", text, re.MULTILINE)
        return sum(int(float(count)) for count in counts)

    def _request(self, method: str, path: str, body: object = None) -> dict[str, object]:
        keys = f"{self.endpoints.access_key_id}:{self.endpoints.secret_access_key}"
        headers = {**urllib3.make_headers(basic_auth=keys), "Content-Type": "application/json"}
        encoded = json.dumps(body).encode() if body is not None else None
        reply = self._http.request(method, self.endpoints.lakefs_url + path, body=encoded, headers=headers)
        if reply.status >= 300:
            raise SystemExit(f"{method} {path}: {reply.status} {reply.data[:300]!r}")
        return json.loads(reply.data) if reply.data[:1] == b"{" else {}


class Lakectl:
    def __init__(self, endpoints: Endpoints, home: Path) -> None:
        _, self._program = lakefs.binaries(artifact_cache.ArtifactCache(artifact_cache.default_root(), StopRequest(), quiet))
        self._environment = {**os.environ, **endpoints.environment(), "HOME": str(home)}

    def run(self, *arguments: str) -> float:
        """Run lakectl; returns the seconds that it took."""
        line: Sequence[str] = [str(self._program), *arguments]
        began = time.perf_counter()
        done = subprocess.run(line, env=self._environment, check=False, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"lakectl {' '.join(arguments)}: {done.stdout} {done.stderr}")
        return seconds

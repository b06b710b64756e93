"""Builds lakeFS and lakectl from their Go module, and configures a lakeFS server with a local store."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perago.dev.data_directory import Credentials
from perago.dev.server import HOST, HealthCheck, Server
from perago.process import child_process
from perago.provision import go, install_step
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.progress import InstallProgress

VERSION = "1.86.0"
NAME = f"lakefs-{VERSION}"
_MODULE = "github.com/treeverse/lakefs"
_DISK = 5 << 30
_PACKAGES = 1475
_ADVICE = "check the network and the Go proxy settings (go env GOPROXY)"

# The module replaces one of its requirements, and Go applies a replacement only in the main module: hence this module. The
# checksum database does not serve these three sums.
_GO_MOD = f"""\
module perago/servers

go 1.26.4

require {_MODULE} v{VERSION}

replace github.com/csimplestring/delta-go => github.com/treeverse/delta-go v0.0.0-20260323095047-d2f80252d945
"""
_GO_SUM = f"""\
github.com/treeverse/delta-go v0.0.0-20260323095047-d2f80252d945 h1:lNeK0Ja041ImXOLqHard7vdeunaIAAUFtAgbNzYvLxw=
github.com/treeverse/delta-go v0.0.0-20260323095047-d2f80252d945/go.mod h1:E7uPCvF9rw8UQt6uDMN05snxpD45/I/UXAZxzVIYTgI=
{_MODULE} v{VERSION} h1:cODxuNUnDEFaueXRUI53G5tUq9FelXyR9A5Y9+WNWUk=
{_MODULE} v{VERSION}/go.mod h1:NP339fv365EtK/CcXFmAzyL6vYzZ/lJGS6rj1jEluVg=
github.com/treeverse/secret-detector v0.0.0-20250429145544-8c655b974a5f h1:7FOJn/bWOYZWYVSnYqTWWQzrk//rYxVxoQIEJJMX3mA=
github.com/treeverse/secret-detector v0.0.0-20250429145544-8c655b974a5f/go.mod h1:hqKBnS0lrpUZlrQLecveNbK7WCQdlVOzWo1yVmDoyvs=
"""


def binaries(cache: ArtifactCache) -> tuple[Path, Path]:
    """The lakefs and lakectl programs; built if they are not in the cache."""
    built = cache.ensure(Artifact(NAME, f"lakeFS {VERSION}", _DISK, lambda into: _build(cache, into)))
    return built / "lakefs", built / "lakectl"


def server(cache: ArtifactCache, command: child_process.Command, port: int, credentials: Credentials) -> Server:
    """A server, not started; directory, log and lock are those of the command."""
    program, _ = binaries(cache)
    settings = command.cwd / "lakefs.json"
    _write_for_owner_only(settings, json.dumps(_settings(command.cwd, port, credentials), indent=2))
    line = [str(program), "run", "--config", str(settings)]
    env = {key: value for key, value in os.environ.items() if not key.startswith("LAKEFS_")}
    complete = replace(command, line=line, env=env)
    return Server(
        f"lakeFS {VERSION}", complete, HealthCheck(port, "/_health", bool), stop_request=cache.stop_request, report=cache.report
    )


def _settings(directory: Path, port: int, credentials: Credentials) -> Mapping[str, object]:
    return {
        "listen_address": f"{HOST}:{port}",
        "database": {"type": "local", "local": {"path": str(directory / "metadata")}},
        "blockstore": {"type": "local", "local": {"path": str(directory / "objects")}},
        # The default is in the home directory, where all lakeFS servers of the user would share it.
        "committed": {"local_cache": {"dir": str(directory / "cache")}},
        "graveler": {"max_batch_delay": "0s"},
        "auth": {"encrypt": {"secret_key": credentials.encryption_key}},
        "installation": {
            "user_name": "perago",
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
        },
        "stats": {"enabled": False},
        "security": {"check_latest_version": False, "audit_check_interval": "0s"},
        "email_subscription": {"enabled": False},
    }


def _write_for_owner_only(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)


def _build(cache: ArtifactCache, into: Path) -> None:
    scratch = cache.scratch(NAME)
    (scratch / "tmp").mkdir(exist_ok=True)
    (scratch / "go.mod").write_text(_GO_MOD)
    (scratch / "go.sum").write_text(_GO_SUM)
    log = cache.log(NAME)
    flags = f"-s -w -X {_MODULE}/pkg/version.Version={VERSION}"
    command = [str(go.find(cache)), "build", "-v", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", f"{into}/"]
    line = [*command, f"{_MODULE}/cmd/lakefs", f"{_MODULE}/cmd/lakectl"]
    title = f"build lakeFS {VERSION}"
    install_step.run(
        cache, install_step.InstallStep(title, line, scratch, log, _ADVICE, _environment(scratch), lambda: _progress(title, log))
    )


def _environment(scratch: Path) -> Mapping[str, str]:
    """Go writes all files below one directory; the user's own proxy settings stay in force."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    unchecked = [os.environ.get("GONOSUMDB", ""), "github.com/treeverse/*"]
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "build"),
        "GOENV": os.environ.get("GOENV") or str(config / "go" / "env"),
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(scratch / "modules"),
        "GONOSUMDB": ",".join(filter(None, unchecked)),
        "GOPATH": str(scratch / "path"),
        "GOTMPDIR": str(scratch / "tmp"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # Go keeps its telemetry counters below the configuration directory.
        "XDG_CONFIG_HOME": str(scratch / "config"),
    }


def _progress(title: str, log: Path) -> InstallProgress:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    compiled = sum(not line.startswith("go: ") for line in lines)
    if compiled:
        return InstallProgress(title, f"compiled {compiled} of about {_PACKAGES} packages (some minutes, once per machine)")
    return InstallProgress(title, f"fetched {len(lines)} modules")

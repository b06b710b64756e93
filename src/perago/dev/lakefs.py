"""lakeFS: server and lakectl built from their Go module, and the server on a local store in a directory of its own."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perago.dev import go
from perago.dev.credentials import Credentials
from perago.dev.server import HOST, Health, Server
from perago.process import child_process
from perago.provision import install_step
from perago.provision.cache import Cache, Recipe
from perago.provision.progress import Progress

VERSION = "1.86.0"
NAME = f"lakefs-{VERSION}"
_MODULE = "github.com/treeverse/lakefs"
_DISK = 5 << 30
_PACKAGES = 1475
_ADVICE = "check the network and the Go proxy settings (go env GOPROXY)"

# The module replaces one of its requirements, and a replacement counts only in the main module: hence one of our own. The
# sums stand here because the checksum database does not serve these three.
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


def binaries(cache: Cache) -> tuple[Path, Path]:
    """The lakefs and lakectl programs, built once."""
    built = cache.ensure(Recipe(NAME, f"lakeFS {VERSION}", _DISK, lambda into: _build(cache, into)))
    return built / "lakefs", built / "lakectl"


def server(cache: Cache, command: child_process.Command, port: int, credentials: Credentials) -> Server:
    """A server that is not started yet; the command brings directory, log and lock."""
    program, _ = binaries(cache)
    settings = command.cwd / "lakefs.json"
    _write_privately(settings, json.dumps(_settings(command.cwd, port, credentials), indent=2))
    line = [str(program), "run", "--config", str(settings)]
    env = {key: value for key, value in os.environ.items() if not key.startswith("LAKEFS_")}
    complete = replace(command, line=line, env=env)
    return Server(
        f"lakeFS {VERSION}", complete, Health(port, "/_health", bool), stop_request=cache.stop_request, report=cache.report
    )


def _settings(directory: Path, port: int, credentials: Credentials) -> Mapping[str, object]:
    return {
        "listen_address": f"{HOST}:{port}",
        "database": {"type": "local", "local": {"path": str(directory / "metadata")}},
        "blockstore": {"type": "local", "local": {"path": str(directory / "objects")}},
        # By default this one lies in the home directory, where every other lakeFS of the person has it too.
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


def _write_privately(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)


def _build(cache: Cache, into: Path) -> None:
    scratch = cache.scratch(NAME)
    (scratch / "tmp").mkdir(exist_ok=True)
    (scratch / "go.mod").write_text(_GO_MOD)
    (scratch / "go.sum").write_text(_GO_SUM)
    log = cache.log(NAME)
    flags = f"-s -w -X {_MODULE}/pkg/version.Version={VERSION}"
    command = [str(go.find(cache)), "build", "-v", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", f"{into}/"]
    line = [*command, f"{_MODULE}/cmd/lakefs", f"{_MODULE}/cmd/lakectl"]
    title = f"build lakeFS {VERSION}"
    install_step.perform(
        cache, install_step.Step(title, line, scratch, log, _ADVICE, _environment(scratch), lambda: _news(title, log))
    )


def _environment(scratch: Path) -> Mapping[str, str]:
    """Every file Go writes goes below one directory; the person's own proxy settings stay in force."""
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


def _news(title: str, log: Path) -> Progress:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    compiled = sum(not line.startswith("go: ") for line in lines)
    if compiled:
        return Progress(title, f"compiled {compiled} of about {_PACKAGES} packages (some minutes, once per machine)")
    return Progress(title, f"fetched {len(lines)} modules")

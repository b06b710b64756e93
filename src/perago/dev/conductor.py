"""Conductor OSS: the boot jar unpacked, a start cache for this Java, and the server on SQLite in a directory of its own."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from perago.dev.server import HOST, Health, Server, free_port
from perago.process import child_process
from perago.provision import install_step, java, maven
from perago.provision.cache import Cache, Recipe
from perago.provision.java import Java
from perago.provision.progress import Progress, quiet

VERSION = "3.32.3"
_ARTIFACT = f"org.conductoross:conductor-server:{VERSION}:boot"
_SHA256 = "6b1615a5beb82bbbfa05219d0f1b84440aa8c0bef1371662803ef5588d7d507b"
_SIZE = 457_760_812
_NAME = f"conductor-{VERSION}"
_JAR = f"conductor-server-{VERSION}-boot.jar"
_DISK = 1 << 30
_UNPACKED = 1_700_000_000
_AHEAD_OF_TIME = 25
_ARCHIVE = "start.cache"
# The virtual machine writes the start cache when it ends; that takes a while on a busy machine.
_TRAINING_GRACE = 300.0


@dataclass(frozen=True, slots=True)
class Installed:
    """Everything needed to start a server. `flags` make it start faster on this very Java."""

    java: Java
    jar: Path
    flags: tuple[str, ...]
    artifacts: tuple[str, ...]


def install(cache: Cache) -> Installed:
    """Fetches and prepares Conductor once; afterwards this only looks."""
    runtime = java.find(cache)
    jar = cache.ensure(Recipe(_NAME, f"Conductor {VERSION}", _DISK, lambda into: _unpack(cache, runtime, into))) / _JAR
    bare = Installed(runtime, jar, (), (_NAME,))
    if not runtime.hotspot:
        return bare
    name = f"{_NAME}-start-{runtime.build}"
    recipe = Recipe(name, f"Conductor {VERSION} start cache", _DISK, lambda into: _train(cache, bare, into, cache.log(name)))
    archive = cache.ensure(recipe) / _ARCHIVE
    # A virtual machine may decline to write one; then Conductor starts as slowly as it must.
    flags = (_use_flag(runtime, archive),) if archive.exists() else ()
    return Installed(runtime, jar, flags, (_NAME, name))


def server(cache: Cache, installed: Installed, command: child_process.Command, port: int) -> Server:
    """A server that is not started yet; the command brings directory, log and lock."""
    line = _line(installed, command.cwd, port)
    complete = replace(command, line=line, env=_environment())
    (command.cwd / "tmp").mkdir(exist_ok=True)
    return Server(
        f"Conductor {VERSION}", complete, Health(port, "/health", _healthy), stop_request=cache.stop_request, report=cache.report
    )


def _line(installed: Installed, directory: Path, port: int) -> list[str]:
    return [
        str(installed.java.program),
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        *installed.flags,
        "--enable-native-access=ALL-UNNAMED",
        f"-Djava.io.tmpdir={directory / 'tmp'}",
        "-jar",
        str(installed.jar),
        f"--server.port={port}",
        f"--server.address={HOST}",
        "--spring.datasource.url=jdbc:sqlite:conductor.db?busy_timeout=15000&journal_mode=WAL",
        # Otherwise it takes the keys of AI and cloud providers out of the person's environment, and a fifth longer to start.
        "--conductor.integrations.ai.enabled=false",
    ]


def _healthy(body: bytes) -> bool:
    return b'"healthy":true' in body.replace(b" ", b"")


def _environment() -> dict[str, str]:
    meddling = ("SPRING_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    return {key: value for key, value in os.environ.items() if not key.startswith(meddling)}


def _unpack(cache: Cache, runtime: Java, into: Path) -> None:
    log = cache.log(_NAME)
    packed = into.with_name(f"{into.name}.jar")
    maven.download(cache, maven.Coordinates.parse(_ARTIFACT), packed, log, sha256=_SHA256, total=_SIZE)
    try:
        title = "unpack Conductor"
        line = [str(runtime.program), "-Djarmode=tools", "-jar", str(packed), "extract", "--force", "--destination", str(into)]
        install_step.perform(
            cache, install_step.Step(title, line, into, log, "check the free disk space", _environment(), lambda: Progress(title))
        )
        (into / packed.name).rename(into / _JAR)
        # The start cache holds good only for jars of the same time; the others keep theirs, this one was just made.
        os.utime(into / _JAR, (_UNPACKED, _UNPACKED))
    finally:
        packed.unlink()


def _train(cache: Cache, bare: Installed, into: Path, log: Path) -> None:
    """Starts and stops Conductor once while the virtual machine records what it loads."""
    directory = into.with_name(f"{into.name}.run")
    directory.mkdir()
    archive = into / _ARCHIVE
    recording = Installed(bare.java, bare.jar, (_record_flag(bare.java, archive),), bare.artifacts)
    watched = Cache(cache.root, cache.stop_request, quiet)
    trainee = server(
        watched,
        recording,
        child_process.Command((), directory, log, grace=_TRAINING_GRACE),
        free_port(),
    )
    try:
        cache.report(Progress(f"Conductor {VERSION} start cache", "first start, to make all later ones fast"))
        trainee.start()
        trainee.stop()
    except BaseException:
        trainee.kill()
        raise
    finally:
        shutil.rmtree(directory)


def _record_flag(runtime: Java, archive: Path) -> str:
    return f"-XX:AOTCacheOutput={archive}" if runtime.major >= _AHEAD_OF_TIME else f"-XX:ArchiveClassesAtExit={archive}"


def _use_flag(runtime: Java, archive: Path) -> str:
    return f"-XX:AOTCache={archive}" if runtime.major >= _AHEAD_OF_TIME else f"-XX:SharedArchiveFile={archive}"

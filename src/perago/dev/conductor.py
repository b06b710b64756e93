"""Installs Conductor OSS (boot jar, and a start cache for this Java), and configures a server that stores in SQLite."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from perago.dev.server import HOST, HealthCheck, Server, free_port
from perago.process import child_process
from perago.provision import install_step, java, maven
from perago.provision.artifact_cache import Artifact, ArtifactCache
from perago.provision.java import Java
from perago.provision.progress import InstallProgress, quiet

VERSION = "3.32.3"
_ARTIFACT = f"org.conductoross:conductor-server:{VERSION}:boot"
_SHA256 = "6b1615a5beb82bbbfa05219d0f1b84440aa8c0bef1371662803ef5588d7d507b"
_SIZE = 457_760_812
_NAME = f"conductor-{VERSION}"
_JAR = f"conductor-server-{VERSION}-boot.jar"
_DISK = 1 << 30
_UNPACKED = 1_700_000_000
_ARCHIVE = "start.cache"
# The virtual machine writes the start cache when it ends, which can take minutes on a busy machine.
_TRAINING_GRACE = 300.0


@dataclass(frozen=True, slots=True)
class InstalledConductor:
    """Everything needed to start a server. `flags` make it start faster on this build of Java."""

    java: Java
    jar: Path
    flags: tuple[str, ...]
    artifacts: tuple[str, ...]


def install(cache: ArtifactCache) -> InstalledConductor:
    """Downloads and prepares Conductor, unless it is in the cache."""
    runtime = java.find(cache)
    jar = cache.ensure(Artifact(_NAME, f"Conductor {VERSION}", _DISK, lambda into: _unpack(cache, runtime, into))) / _JAR
    without_archive = InstalledConductor(runtime, jar, (), (_NAME,))
    if not runtime.hotspot:
        return without_archive
    name = f"{_NAME}-start-{runtime.build}"
    artifact = Artifact(
        name, f"Conductor {VERSION} start cache", _DISK, lambda into: _train(cache, without_archive, into, cache.log(name))
    )
    archive = cache.ensure(artifact) / _ARCHIVE
    # If the virtual machine did not write one, Conductor starts without it, more slowly.
    flags = runtime.use_archive(archive) if archive.exists() else ()
    return InstalledConductor(runtime, jar, flags, (_NAME, name))


def server(cache: ArtifactCache, installed: InstalledConductor, command: child_process.Command, port: int) -> Server:
    """A server, not started; directory, log and lock are those of the command."""
    line = _line(installed, command.cwd, port)
    complete = replace(command, line=line, env=_environment())
    (command.cwd / "tmp").mkdir(exist_ok=True)
    return Server(
        f"Conductor {VERSION}",
        complete,
        HealthCheck(port, "/health", _healthy),
        stop_request=cache.stop_request,
        report=cache.report,
    )


def _line(installed: InstalledConductor, directory: Path, port: int) -> list[str]:
    return [
        str(installed.java.program),
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        # It seldom runs long enough to repay the second compiler: a start then takes two thirds of the processor time.
        "-XX:TieredStopAtLevel=1",
        *installed.flags,
        "--enable-native-access=ALL-UNNAMED",
        f"-Djava.io.tmpdir={directory / 'tmp'}",
        "-jar",
        str(installed.jar),
        f"--server.port={port}",
        f"--server.address={HOST}",
        "--spring.datasource.url=jdbc:sqlite:conductor.db?busy_timeout=15000&journal_mode=WAL",
        # Otherwise it reads the keys of AI and cloud providers from the user's environment, and takes a fifth longer to start.
        "--conductor.integrations.ai.enabled=false",
    ]


def _healthy(body: bytes) -> bool:
    return b'"healthy":true' in body.replace(b" ", b"")


def _environment() -> dict[str, str]:
    overriding = ("SPRING_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    return {key: value for key, value in os.environ.items() if not key.startswith(overriding)}


def _unpack(cache: ArtifactCache, runtime: Java, into: Path) -> None:
    log = cache.log(_NAME)
    packed = into.with_name(f"{into.name}.jar")
    maven.download(cache, maven.Coordinates.parse(_ARTIFACT), packed, log, sha256=_SHA256, total=_SIZE)
    try:
        title = "unpack Conductor"
        line = [str(runtime.program), "-Djarmode=tools", "-jar", str(packed), "extract", "--force", "--destination", str(into)]
        install_step.run(
            cache,
            install_step.InstallStep(
                title, line, into, log, "check the free disk space", _environment(), lambda: InstallProgress(title)
            ),
        )
        (into / packed.name).rename(into / _JAR)
        # The start cache is valid only for jars with an unchanged time; this one was just written.
        os.utime(into / _JAR, (_UNPACKED, _UNPACKED))
    finally:
        packed.unlink()


def _train(cache: ArtifactCache, installed: InstalledConductor, into: Path, log: Path) -> None:
    """Starts and stops Conductor once while the virtual machine records the classes that it loads."""
    directory = into.with_name(f"{into.name}.run")
    directory.mkdir()
    archive = into / _ARCHIVE
    recording = InstalledConductor(installed.java, installed.jar, (installed.java.record_archive(archive),), installed.artifacts)
    silent = ArtifactCache(cache.root, cache.stop_request, quiet)
    trainee = server(
        silent,
        recording,
        child_process.Command((), directory, log, grace=_TRAINING_GRACE),
        free_port(),
    )
    try:
        cache.report(InstallProgress(f"Conductor {VERSION} start cache", "first start, to make all later ones fast"))
        trainee.start()
        trainee.stop()
    except BaseException:
        trainee.kill()
        raise
    finally:
        shutil.rmtree(directory)

"""Options of Spark: where it runs, and the properties that a driver starts with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perago.errors import RuntimeConfigError
from perago.settings import DEFAULT_SPARK_MASTER, Settings

LOCAL = DEFAULT_SPARK_MASTER
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=:\s]\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    scratch: Path
    """Parent of the drivers' directories on this host; directories of dead drivers are removed from it."""
    master: str | None = None
    """`spark://…`, `k8s://…`, `yarn`, `local[N]`; by default this machine."""
    remote: str | None = field(default=None, repr=False)
    """`sc://…`: a Spark Connect server instead of a driver here. Its parameters may contain a token."""
    conf_file: Path | None = None
    """Spark properties that override Perago's."""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    """Properties that override those of the file."""

    def __post_init__(self) -> None:
        if self.master is not None and self.remote is not None:
            raise RuntimeConfigError("PERAGO_SPARK_MASTER and PERAGO_SPARK_REMOTE exclude each other; set one of them")

    def chosen(self) -> dict[str, str]:
        """The properties that the operator has chosen."""
        written = {} if self.conf_file is None else read_properties(self.conf_file)
        named = {} if self.master is None else {"spark.master": self.master}
        return {**written, **named, **self.properties}


def from_settings(settings: Settings) -> SparkOptions:
    """What a worker with these settings uses."""
    remote = settings.perago_spark_remote
    return SparkOptions(
        scratch=settings.perago_cache_root / "spark",
        master=settings.perago_spark_master,
        remote=None if remote is None else remote.get_secret_value(),
        conf_file=settings.perago_spark_conf_file,
    )


def read_properties(file: Path) -> dict[str, str]:
    """`key value` or `key=value` lines, as in spark-defaults.conf."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeConfigError(f"PERAGO_SPARK_CONF_FILE {file} cannot be read: {type(error).__name__}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        match = _PROPERTY.fullmatch(line)
        if match is None:
            raise RuntimeConfigError(f"PERAGO_SPARK_CONF_FILE {file}, line {number}: write `key value` or `key=value`")
        found[match[1]] = match[2]
    return found


def render(properties: Mapping[str, str]) -> str:
    """As a Java properties file."""
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(value, '')}\n" for key, value in properties.items())


def _escaped(text: str, more: str) -> str:
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    for character in more:
        plain = plain.replace(character, f"\\{character}")
    return "".join(character if character.isascii() else f"\\u{ord(character):04x}" for character in plain)


def is_local(properties: Mapping[str, str]) -> bool:
    return properties.get("spark.master", LOCAL).startswith("local")

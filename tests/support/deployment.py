"""Reads the files in `deploy/` as systemd, Kubernetes and an image builder do, so that tests can start what they describe."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "perago-worker@.service"
MANIFEST = DEPLOY / "kubernetes.yaml"
DOCKERFILE = DEPLOY / "Dockerfile"

_ASSIGNMENT = re.compile(r"^([A-Z]\w+)=(.*)$", re.MULTILINE)
_EXAMPLE = re.compile(r"^#   ([A-Z_]+)=(.*)$", re.MULTILINE)
_BRACED = re.compile(r"\$\{(\w+)\}")
_SYSTEMD_UNITS = {"s": 1, "min": 60, "h": 3600}
_INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR"}
"""Those that the Dockerfile uses; an unknown word is a mistake."""


@dataclass(frozen=True)
class Unit:
    """A systemd unit as an instance: `%i` is replaced, and a key that is repeated keeps all its values."""

    settings: Mapping[str, list[str]]
    example: Mapping[str, str]
    """The settings file that its comment shows."""

    def one(self, key: str) -> str:
        (value,) = self.settings[key]
        return value

    def environment(self, file: Mapping[str, str]) -> dict[str, str]:
        """Of the process; the file overrides the lines of the unit."""
        own = dict(word.split("=", 1) for line in self.settings["Environment"] for word in shlex.split(line))
        return {**own, **file}

    def command(self, environment: Mapping[str, str]) -> list[str]:
        """`$NAME` as a word becomes several words, `${NAME}` a part of one; there is no shell."""
        words: list[str] = []
        for word in shlex.split(self.one("ExecStart")):
            if re.fullmatch(r"\$\w+", word):
                words += environment.get(word[1:], "").split()
            else:
                words.append(_BRACED.sub(lambda match: environment.get(match[1], ""), word))
        return words

    def directories(self) -> list[str]:
        """That systemd creates for the user of the unit. It can write nowhere else, apart from private temporary directories."""
        below = {"CacheDirectory": "/var/cache", "LogsDirectory": "/var/log", "StateDirectory": "/var/lib"}
        return [f"{root}/{name}" for key, root in below.items() for name in self.one(key).split()]


def unit(instance: str) -> Unit:
    text = UNIT.read_text()
    settings: dict[str, list[str]] = {}
    for key, value in _ASSIGNMENT.findall(text):
        settings.setdefault(key, []).append(value.replace("%i", instance))
    return Unit(settings, dict(_EXAMPLE.findall(text)))


def systemd_seconds(text: str) -> float:
    """`10min`, `5s`: not the durations of Perago."""
    match = re.fullmatch(r"(\d+)(s|min|h)", text)
    assert match is not None, text
    return int(match[1]) * _SYSTEMD_UNITS[match[2]]


def manifest(**replaced: str) -> list[dict[str, Any]]:
    """The documents of the manifest; the texts that the keys of `replaced` name are replaced first."""
    text = MANIFEST.read_text()
    for name, value in replaced.items():
        text = text.replace(name, value)
    return list(yaml.safe_load_all(text))


@dataclass
class Stage:
    """One FROM of a Dockerfile and what follows it."""

    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def values(self, word: str) -> list[str]:
        return [value for name, value in self.instructions if name == word]

    def environment(self) -> dict[str, str]:
        return dict(word.split("=", 1) for value in self.values("ENV") for word in shlex.split(value))

    def command(self) -> list[str]:
        """The exec form; ValueError for the shell form."""
        (value,) = self.values("CMD")
        return json.loads(value)


def dockerfile() -> list[Stage]:
    """Its stages. AssertionError for an instruction that is not known."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#")]
    stages: list[Stage] = []
    for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines():
        word, _, value = line.partition(" ")
        assert word in _INSTRUCTIONS, line
        if word == "FROM":
            stages.append(Stage(value.partition(" AS ")[2] or str(len(stages))))
        elif stages:
            stages[-1].instructions.append((word, value))
        else:
            assert word == "ARG", line
    return stages

"""For `perago start --reload`: waits until a source file of the task modules changes."""

import asyncio
import os
from collections.abc import Iterable, Mapping

INTERVAL_SECONDS = 0.3
Stamp = tuple[int, int] | None
"""Time of the last change and size; None for a file that does not exist."""


class SourceWatch:
    """Knows the files that executors have imported; they are only added, because a module that fails to import names fewer."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}

    def add(self, files: Iterable[str]) -> None:
        for file in files:
            self._stamps.setdefault(file, stamp(file))

    async def changed(self) -> list[str]:
        """Wait for a change, and until the files stay the same for one interval: an editor may write several."""
        while not (files := self._differences()):  # noqa: ASYNC110  nothing announces that a file was written
            await asyncio.sleep(INTERVAL_SECONDS)
        while changed := self._differences():
            self._stamps |= changed
            files |= changed
            await asyncio.sleep(INTERVAL_SECONDS)
        return sorted(files)

    def _differences(self) -> dict[str, Stamp]:
        return differences(self._stamps, {file: stamp(file) for file in self._stamps})


def differences(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> dict[str, Stamp]:
    return {file: current for file, current in now.items() if before[file] != current}


def stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)  # noqa: PTH116  many times a second, on text
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size

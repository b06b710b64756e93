"""The files that declarations were read from beside Python modules: task files, schemas and the programs of commands.

Recorded also for a declaration that is refused, so that `perago start --reload` notices when one of them is corrected.
"""

from pathlib import Path

_files: set[str] = set()


def record(file: Path) -> None:
    _files.add(str(file))


def recorded() -> frozenset[str]:
    """Absolute paths; some may not exist."""
    return frozenset(_files)

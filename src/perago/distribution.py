"""The installed distribution: its name and version, where it came from, and another one that conflicts with it.

The import name and the command are `perago`; the distribution is not, because PyPI's `perago` is another implementation.
"""

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "perago-conductor"
OTHER_NAME = "perago"
"""PyPI's distribution of that name installs files at the same paths."""
_SOURCE_VERSION = "0+source"


def version() -> str:
    """Of the installed distribution; `0+source` in a source tree that is not installed."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return _SOURCE_VERSION


def requirement() -> str:
    """What a project writes into its dependencies to get the same Perago: where this one was installed from."""
    try:
        origin: dict[str, Any] = _origin(metadata.distribution(NAME))
    except metadata.PackageNotFoundError:
        origin = {"url": _source_tree().as_uri()}
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        found: dict[str, str] = origin["vcs_info"]
        return f"{NAME} @ {found['vcs']}+{url}@{found['commit_id']}"
    if url and _exists(url):
        return f"{NAME} @ {url}"
    return f"{NAME}>={version()}"


def conflict() -> str | None:
    """A line about a distribution `perago` in the same environment, None if there is none."""
    try:
        other = metadata.distribution(OTHER_NAME)
    except metadata.PackageNotFoundError:
        return None
    if _origin(other).get("dir_info", {}).get("editable"):
        # Installed under the old name from a source tree: it has no files of its own.
        return None
    return (
        f"the distribution {OTHER_NAME} {other.version} is installed too and its files overwrite those of {NAME}; "
        f"run: pip uninstall {OTHER_NAME}, then install {NAME} again"
    )


def _origin(installed: metadata.Distribution) -> dict[str, Any]:
    """What the installer recorded about a direct reference; empty for an installation from an index."""
    return json.loads(installed.read_text("direct_url.json") or "{}")


def _exists(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme != "file" or Path(unquote(parts.path)).exists()


def _source_tree() -> Path:
    return Path(__file__).resolve().parents[2]

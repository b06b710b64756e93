"""Checks names of repositories, branches, refs and objects, and quotes them as parts of a URL."""

import re
from urllib.parse import quote

from perago.errors import LakeRejected
from perago.lake.port import Ref
from perago.model import BranchName, ObjectPath, Repository

MAX_PATH_BYTES = 1024
_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_]*")
_REF = re.compile(r"[-\w.~^@]+", re.ASCII)


def repository(name: Repository) -> str:
    if not _REPOSITORY.fullmatch(name):
        raise LakeRejected(f"{name!r} is not a lakeFS repository name: 3 to 63 lower case letters, digits and dashes")
    return name


def branch(name: BranchName) -> str:
    if not _BRANCH.fullmatch(name):
        raise LakeRejected(f"{name!r} is not a lakeFS branch name: letters, digits, underscores and dashes, no dash at the start")
    return name


def ref(name: Ref) -> str:
    if not _REF.fullmatch(name) or name in (".", ".."):
        raise LakeRejected(f"{name!r} is not a lakeFS ref")
    return quote(name, safe="")


def path(name: ObjectPath) -> str:
    """Quoted for a query; all but unreserved characters and `/` are escaped, so `+`, `%`, `#` and newlines arrive as they are."""
    if not 0 < len(encoded(name)) <= MAX_PATH_BYTES:
        raise LakeRejected(f"object path {name[:80]!r} has {len(encoded(name))} bytes; lakeFS takes 1 to {MAX_PATH_BYTES}")
    return quote(name, safe="/")


def text(value: str) -> str:
    """Quoted for a query, of any length."""
    encoded(value)
    return quote(value, safe="")


def encoded(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise LakeRejected(f"{name[:80]!r} is not valid Unicode text, lakeFS cannot hold it") from error

"""Content type and user metadata of an object as headers of an upload."""

import re
from collections.abc import Mapping

from perago.errors import LakeRejected
from perago.lake.decode import DEFAULT_CONTENT_TYPE

_FORM = "multipart/form-data"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_NAME = re.compile(r"[-a-z0-9_.]+")


def headers(what: str, content_type: str, metadata: Mapping[str, str]) -> str:
    """The content type, and the metadata if headers can hold all of it. `LakeRejected` for a content type that they cannot."""
    kind = content_type or DEFAULT_CONTENT_TYPE
    if not kind.isascii() or not _fits("content-type", kind) or kind.lower().startswith(_FORM):
        raise LakeRejected(f"{what}: lakeFS cannot be told the content type {kind[:80]!r}")
    entries = metadata.items() if fit(metadata) else ()
    return f"Content-Type: {kind}\r\n" + "".join(f"x-lakefs-meta-{key}: {value}\r\n" for key, value in entries)


def fit(metadata: Mapping[str, str]) -> bool:
    """Whether headers can hold the metadata: upper case keys, control characters and outer spaces would be lost or changed."""
    return all(_fits(key, value) for key, value in metadata.items())


def _fits(key: str, value: str) -> bool:
    """Whether a piece of user metadata can be an HTTP header: lower case name, no control characters, no outer spaces."""
    return _NAME.fullmatch(key) is not None and value == value.strip() and _CONTROL.search(value) is None

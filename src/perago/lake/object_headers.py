"""Content type and user metadata of an object as a request can carry them."""

from collections.abc import Mapping

from perago.errors import LakeRejected
from perago.lake import url_parts
from perago.lake.decode import DEFAULT_CONTENT_TYPE

_FORM = "multipart/form-data"


def headers(what: str, content_type: str, metadata: Mapping[str, str]) -> str:
    """All of it, if headers can hold all of it; the content type alone otherwise."""
    kind = content_type or DEFAULT_CONTENT_TYPE
    if not kind.isascii() or not url_parts.fits_header("content-type", kind) or kind.lower().startswith(_FORM):
        raise LakeRejected(f"{what}: lakeFS cannot be told the content type {kind[:80]!r}")
    labels = metadata.items() if fit(metadata) else ()
    return f"Content-Type: {kind}\r\n" + "".join(f"x-lakefs-meta-{key}: {value}\r\n" for key, value in labels)


def fit(metadata: Mapping[str, str]) -> bool:
    """Upper case keys, control characters and outer spaces would not survive; such metadata takes a request of its own."""
    return all(url_parts.fits_header(key, value) for key, value in metadata.items())

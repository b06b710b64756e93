"""Converts lakeFS's JSON to values of the model. `KeyError`, `TypeError` or `ValueError` mean that a reply is incomplete."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from perago.lake.port import BranchHead, Capabilities, ChangeType, ObjectChange, ObjectDifference, ObjectPage
from perago.model import BranchName, Commit, CommitId, MetaRangeId, ObjectInfo, ObjectPath

Json = Mapping[str, Any]

DEFAULT_CONTENT_TYPE = "application/octet-stream"
_NO_METADATA: Mapping[str, str] = {}


def capabilities(reply: Json) -> Capabilities:
    storage = reply["storage_config"]
    presign = bool(storage["pre_sign_support"])
    return Capabilities(presign, presign, bool(storage.get("pre_sign_multipart_upload")))


def commit(reply: Json) -> Commit:
    return Commit(
        id=CommitId(_text(reply, "id")),
        parents=tuple(CommitId(parent) for parent in reply["parents"]),
        meta_range_id=MetaRangeId(reply["meta_range_id"]),
        message=reply["message"],
        metadata=reply.get("metadata") or {},
        committer=reply.get("committer") or "",
        created=int(reply["creation_date"]),
    )


def newest(reply: Json) -> Commit:
    return commit(reply["results"][0])


def merged(reply: Json) -> CommitId:
    return CommitId(_text(reply, "reference"))


def branch_head(item: Json) -> BranchHead:
    return BranchHead(BranchName(item["id"]), CommitId(item["commit_id"]))


def change(item: Json) -> ObjectChange:
    return ObjectChange(ObjectPath(item["path"]), ChangeType(item["type"]))


def difference(item: Json) -> ObjectDifference:
    path, kind, size = ObjectPath(item["path"]), ChangeType(item["type"]), int(item.get("size_bytes") or 0)
    if kind is ChangeType.REMOVED:
        return ObjectDifference(path, kind, size)
    stats = item["right"]
    # One text for all: a join keeps many of these in memory.
    content_type = sys.intern(stats.get("content_type") or DEFAULT_CONTENT_TYPE)
    return ObjectDifference(path, kind, size, stats["checksum"], content_type, stats.get("metadata") or _NO_METADATA)


def page(reply: Json) -> ObjectPage:
    items, after = results(reply)
    objects = [object_info(item) for item in items if item["path_type"] == "object"]
    return ObjectPage(objects, None if after is None else ObjectPath(after))


def results(reply: Json) -> tuple[Sequence[Json], str | None]:
    """The items of one page, and after which of them the next page begins, None if this is the last."""
    more = reply["pagination"]
    return reply["results"], _text(more, "next_offset") if more["has_more"] else None


def location(reply: Json) -> tuple[str, str]:
    """A physical address, and the presigned link to upload to it."""
    return _text(reply, "physical_address"), _text(reply, "presigned_url")


def object_info(item: Json) -> ObjectInfo:
    return ObjectInfo(
        path=ObjectPath(item["path"]),
        size=int(item["size_bytes"]),
        checksum=item["checksum"],
        content_type=item.get("content_type") or DEFAULT_CONTENT_TYPE,
        metadata=item.get("metadata") or {},
        mtime=item["mtime"],
        presigned_url=_presigned(item),
    )


def refused_deletes(reply: Json) -> Sequence[tuple[int, str, str]]:
    """LakeFS answers 200 to a bulk delete and lists what it refused: status, path and reason."""
    return [(int(item["status_code"]), str(item.get("path")), str(item["message"])) for item in reply["errors"]]


def _text(reply: Json, key: str) -> str:
    value = reply[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is empty")
    return value


def _presigned(item: Json) -> str | None:
    """With `presign`, the physical address is a link that needs no login; without, it is internal to lakeFS."""
    return item["physical_address"] if item.get("physical_address_expiry") else None

"""Checksums of objects that were uploaded in parts: correct bytes pass, wrong ones do not."""

import hashlib
from pathlib import Path

import pytest

from perago.errors import LakeCorrupt
from perago.http.request import ReplyHead
from perago.lake import multipart_etag, transfer
from perago.model import ObjectInfo, ObjectPath


def md5(content: bytes) -> bytes:
    return hashlib.md5(content, usedforsecurity=False).digest()


def composite(content: bytes, part: int) -> str:
    return md5(b"".join(md5(content[at : at + part]) for at in range(0, len(content), part))).hex()


def receive(content: bytes, checksum: str, into: Path) -> str:
    info = ObjectInfo(ObjectPath("a"), len(content), checksum)
    return transfer.save("read", info, into)(ReplyHead(200, {}, None), [memoryview(content)])


@pytest.mark.parametrize(
    ("size", "part"),
    [(10, 1 << 40), (multipart_etag.SMALLEST + 3, multipart_etag.SMALLEST), (20 * multipart_etag.MIB, 8 * multipart_etag.MIB)],
)
def test_what_was_uploaded_in_parts_is_known_by_its_parts(size: int, part: int, tmp_path: Path) -> None:
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]
    announced = composite(content, part)
    assert announced != md5(content).hex()
    assert receive(content, announced, tmp_path / "right") == md5(content).hex()
    wrong = bytearray(content)
    wrong[-1] ^= 1
    with pytest.raises(LakeCorrupt, match="MD5"):
        receive(bytes(wrong), announced, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()

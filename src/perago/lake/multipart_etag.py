"""Whether a file has the bytes of an object that was uploaded in parts, by the object's checksum.

It is the MD5 of the parts' MD5s and their number; lakeFS drops the number, so that it looks like a plain MD5.
"""

import hashlib
import re
from pathlib import Path

MIB = 1 << 20
SMALLEST = 5 * MIB
"""Bytes of each part except the last."""
_USUAL = tuple(size * MIB for size in (64, 8, 5, 16, 32, 128, 10, 15, 20, 25, 50, 100, 256, 512))
"""Part sizes of S3A, boto3, rclone, s3cmd and similar clients; to try one more costs another read of the file."""
_BUFFER = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{32}")


def is_digest(checksum: str) -> bool:
    """Whether it looks like an MD5."""
    return _DIGEST.fullmatch(checksum) is not None


def match(path: Path, size: int, whole_md5: str, announced: str) -> bool:
    return is_one_part(whole_md5, announced) or any(
        _of(_digests(path, part)) == announced for part in _USUAL if SMALLEST <= part < size
    )


def is_one_part(whole_md5: str, announced: str) -> bool:
    return _of([bytes.fromhex(whole_md5)]) == announced


def _of(digests: list[bytes]) -> str:
    return hashlib.md5(b"".join(digests), usedforsecurity=False).hexdigest()


def _digests(path: Path, part: int) -> list[bytes]:
    found: list[bytes] = []
    with path.open("rb") as file:
        while block := file.read(min(part, _BUFFER)):
            md5, left = hashlib.md5(block, usedforsecurity=False), part - len(block)
            while left and (block := file.read(min(left, _BUFFER))):
                md5.update(block)
                left -= len(block)
            found.append(md5.digest())
    return found

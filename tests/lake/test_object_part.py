"""Replies to requests for a part of an object: what is checked, and which reply means that the server ignores ranges."""

import pytest

from perago.errors import LakeCorrupt
from perago.http.request import HttpRequest, ReplyHead
from perago.lake import object_part
from perago.model import ObjectInfo, ObjectPath

INFO = ObjectInfo(ObjectPath("a"), 10, "")
WHOLE = HttpRequest("read", "read 'a'", "GET", "/a", 100.0, "X: 1\r\n")
RIGHT = {"content-range": "bytes 2-5/10"}


def receive(
    status: int, headers: dict[str, str], parts: list[bytes], length: int | None = 4, *, start: int = 2, size: int = 4
) -> tuple[bool, bytes]:
    written = bytearray(b"." * 10)

    def write(data: memoryview, position: int) -> None:
        written[position : position + len(data)] = data

    received = object_part.receive("read 'a'", INFO, start, size, write)(
        ReplyHead(status, headers, length), map(memoryview, parts)
    )
    return received, bytes(written)


def test_the_request_names_the_range_and_a_whole_object_needs_none() -> None:
    assert object_part.request(WHOLE, INFO, 2, 4, 7.0).headers == "X: 1\r\nRange: bytes=2-5\r\n"
    assert object_part.request(WHOLE, INFO, 2, 4, 7.0).timeout == 7.0
    assert object_part.request(WHOLE, INFO, 0, 10, 7.0) is WHOLE


@pytest.mark.parametrize("length", [4, None, -1])
@pytest.mark.parametrize("stated", ["bytes 2-5/10", "bytes 2-5/*"])
def test_a_part_is_written_where_it_belongs(length: int | None, stated: str) -> None:
    assert receive(206, {"content-range": stated}, [b"c", b"def"], length) == (True, b"..cdef....")


def test_a_server_that_sends_the_whole_object_ignores_ranges() -> None:
    assert receive(200, {}, [b"abcdefghij"], 10) == (False, b"." * 10)
    assert receive(200, {}, [b"abcdefghij"], 10, start=0, size=10) == (True, b"abcdefghij")


@pytest.mark.parametrize(
    ("headers", "parts", "length"),
    [
        ({}, [b"cdef"], 4),
        ({"content-range": "bytes 0-3/10"}, [b"cdef"], 4),
        ({"content-range": "bytes 2-6/10"}, [b"cdef"], 4),
        ({"content-range": "bytes 2-5/11"}, [b"cdef"], 4),
        ({"content-range": "items 2-5/10"}, [b"cdef"], 4),
        (RIGHT, [b"cdef"], 5),
        (RIGHT, [b"cd"], None),
        (RIGHT, [b"cdef", b"g"], None),
    ],
)
def test_any_other_part_is_corrupt(headers: dict[str, str], parts: list[bytes], length: int | None) -> None:
    with pytest.raises(LakeCorrupt, match="read 'a'"):
        receive(206, headers, parts, length)

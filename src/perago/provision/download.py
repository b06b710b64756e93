"""Script: downloads one file and continues an earlier download; arguments are URL, destination and checksum.

It runs as a process of its own, so that a stop request can end it in the middle of a read. It uses the standard library, not
`perago.http`, which has neither redirects nor the proxies of the environment: downloads from public registries need both.
"""

import hashlib
import http.client
import sys
import urllib.error
import urllib.request
from pathlib import Path

_TIMEOUT = 60.0
_CHUNK = 1 << 20
_PARTIAL = 206
_RANGE_REFUSED = 416


def main(url: str, destination: str, checksum: str) -> int:
    """`checksum` is a SHA-1 or SHA-256 in hexadecimal, or empty."""
    part = Path(destination)
    try:
        _fetch(url, part)
    except urllib.error.HTTPError as error:
        if error.code == _RANGE_REFUSED:
            part.unlink(missing_ok=True)
        return _fail(f"HTTP {error.code} {error.reason} from {url}")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        return _fail(f"the download of {url} broke off: {error}")
    if checksum and _digest(part, len(checksum)) != checksum:
        part.unlink()
        return _fail(f"checksum mismatch for {url}")
    return 0


def _fetch(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310 - the caller's registry
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
        resumed = have > 0 and answer.status == _PARTIAL
        expected = answer.length
        got = 0
        with part.open("ab" if resumed else "wb") as sink:
            while chunk := answer.read(_CHUNK):
                sink.write(chunk)
                got += len(chunk)
    if expected is not None and got != expected:
        raise http.client.IncompleteRead(b"", expected - got)


def _digest(path: Path, length: int) -> str:
    algorithm = {40: "sha1", 64: "sha256"}[length]
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, algorithm).hexdigest()


def _fail(line: str) -> int:
    print(line, flush=True)  # noqa: T201 - the output goes to the log
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))

"""The secrets of one data directory: made once, kept in a file only its owner may read."""

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from perago.errors import DevStackError


@dataclass(frozen=True, slots=True)
class Credentials:
    """lakeFS administrator keys, and the key with which lakeFS encrypts its own records."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    encryption_key: str = field(repr=False)


def load_or_make(path: Path) -> Credentials:
    """Reads the file, or makes it with random content."""
    try:
        return Credentials(**json.loads(path.read_text()))
    except FileNotFoundError:
        return _make(path)
    except (ValueError, TypeError) as error:
        raise DevStackError(f"{path} is damaged; remove its data directory or restore the file") from error


def _make(path: Path) -> Credentials:
    fresh = Credentials(f"PERAGO{secrets.token_hex(7).upper()}", secrets.token_urlsafe(30), secrets.token_hex(32))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        json.dump(asdict(fresh), handle)
    return fresh

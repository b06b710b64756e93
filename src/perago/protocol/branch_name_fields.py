"""Fields of branch names that Perago makes: any text as letters, digits and `_`, and back."""

import hashlib
import re
import string

_DIGEST_LENGTH = 24
_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)


def escape(text: str, plain: str, length: int) -> str:
    """Reversibly escaped to letters, digits and `_`: `plain` between two of them becomes `_`, all else `__` and hex bytes.

    `plain` is the character that is common in such texts: `-` in ids, `_` in task names.
    """
    written = "".join(_escaped_char(text, at, plain) for at in range(len(text))) or "__"
    if len(written) <= length:
        return written
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{written[: length - _DIGEST_LENGTH - 3]}__h{digest}"


def _escaped_char(text: str, at: int, plain: str) -> str:
    char = text[at]
    if char in _ALPHANUMERIC:
        return char
    if char == plain and 0 < at < len(text) - 1 and text[at - 1] in _ALPHANUMERIC and text[at + 1] in _ALPHANUMERIC:
        return "_"
    return "".join(f"__{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def unescape(written: str, plain: str) -> str | None:
    """None for a text that was too long and was replaced by a digest."""
    if "__h" in written:
        return None
    parts = re.split(r"__([0-9a-f]{2})", written.removesuffix("__") if written == "__" else written)
    plains = [part.replace("_", plain).encode() for part in parts[::2]]
    escaped = [bytes.fromhex(part) for part in parts[1::2]]
    joined = plains[0] + b"".join(byte + text for byte, text in zip(escaped, plains[1:], strict=True))
    return joined.decode("utf-8", "surrogatepass")

"""What the file system under a directory does, found out by trying: whether it folds names, and when its clock has moved on."""

import contextlib
import os
import time
import unicodedata
import uuid

_PATIENCE_SECONDS = 0.05
_STEP_SECONDS = 0.001
_PROBE = ".Probe-É"


def folds_names(directory: str) -> bool:
    """Whether two names that differ in case or Unicode form only are one file in this empty directory."""
    path = f"{directory}/{_PROBE}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        variants = (_PROBE.lower(), unicodedata.normalize("NFD", _PROBE))
        return any(os.path.lexists(f"{directory}/{variant}") for variant in variants)
    finally:
        os.unlink(path)  # noqa: PTH108 (strings throughout: see copying)


def settle(directory: str, newest_ns: int) -> int:
    """Wait until a write gets a later time than `newest_ns`, so that no later write can hide in the same tick of the clock.

    The time such a write gets now. On a file system with a coarse clock patience ends first, and the answer is not later.
    """
    path = f"{directory}/.clock-{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + _PATIENCE_SECONDS
        while (now := _touch(descriptor)) <= newest_ns and time.monotonic() < end:
            time.sleep(_STEP_SECONDS)
        return now
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


def _touch(descriptor: int) -> int:
    os.pwrite(descriptor, b".", 0)
    return os.fstat(descriptor).st_ctime_ns

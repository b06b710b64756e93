"""Properties of a file system, found by trying: whether it folds names, and whether its clock has advanced."""

import contextlib
import os
import time
import unicodedata
import uuid

_TIMEOUT_SECONDS = 0.05
_STEP_SECONDS = 0.001
_PROBE = ".Probe-É"


def folds_names(directory: str) -> bool:
    """Whether two names that differ only in case or Unicode normalisation are the same file in this empty directory."""
    path = f"{directory}/{_PROBE}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        variants = (_PROBE.lower(), unicodedata.normalize("NFD", _PROBE))
        return any(os.path.lexists(f"{directory}/{variant}") for variant in variants)
    finally:
        os.unlink(path)  # noqa: PTH108 (strings throughout: see file_copy)


def wait_for_clock(directory: str, newest_ns: int) -> int:
    """Wait until a new write gets a later time than `newest_ns`, so that stat data shows every write from then on.

    Returns the time that a write gets now. It is not later than `newest_ns` if the file system's clock is too coarse.
    """
    path = f"{directory}/.clock-{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + _TIMEOUT_SECONDS
        # Linux 6.13 and later give the second write its exact time, because the time of the first was read.
        now = max(_touch(descriptor), _touch(descriptor))
        while now <= newest_ns and time.monotonic() < end:
            time.sleep(_STEP_SECONDS)
            now = _touch(descriptor)
        return now
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


def _touch(descriptor: int) -> int:
    os.pwrite(descriptor, b".", 0)
    return os.fstat(descriptor).st_ctime_ns

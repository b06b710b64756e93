"""Which tests run in one process of a parallel run: those of a file, and those of files that share what is slow to start."""

from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "warm driver": {f"tests/spark/test_{name}.py" for name in ("attempts", "delta", "isolation", "tables")},
    "own servers": {"tests/dev/test_stack.py", "tests/supervisor/test_kill_servers.py"},
}
"""Each process that runs one of them starts a Spark driver, or a Conductor, which takes longer than most of the tests."""
_GROUPS = {file: group for group, files in TOGETHER.items() for file in files}


class SharedStartScheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _GROUPS.get(file, file)

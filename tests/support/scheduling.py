"""Which tests run in one process of a parallel run: those of a file, and those of files that share something."""

from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "warm driver": {
        f"tests/spark/test_{name}.py" for name in ("attempts", "class_archive", "delta", "isolation", "streams", "tables")
    },
    "own servers": {"tests/dev/test_stack.py", "tests/supervisor/test_kill_servers.py"},
    "built-in tasks": {
        "tests/builtin/test_end_to_end.py",
        "tests/builtin/test_kill_lanes.py",
        "tests/operate/test_submit.py",
        "tests/pipeline/test_compiled_runs.py",
        "tests/pipeline/test_random_pipelines.py",
    },
}
"""Each process that runs one of the first two groups starts a Spark driver, or a Conductor, which takes longer than most of the
tests. Those of the last serve the built-in tasks, and would take them from each other."""
_GROUPS = {file: group for group, files in TOGETHER.items() for file in files}


class SharedStartScheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _GROUPS.get(file, file)

"""Which tests run in one process of a parallel run: those of one file, and those of all files that use the same Spark driver."""

from xdist.scheduler import LoadFileScheduling

WITH_WARM_DRIVER = {f"tests/spark/test_{name}.py" for name in ("attempts", "delta", "isolation", "tables")}
"""Each process that runs one of them starts a driver, which takes longer than most of the tests."""


class WarmDriverScheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "warm driver" if file in WITH_WARM_DRIVER else file

"""Random lanes: the join holds the union of their changes, or names a conflict; on a lake whose merges lose objects too."""

from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.attempts import LakeFSAdmin, memory_scene
from tests.support.lanes import Edits, LaneScene

from perago.builtin import composition, lane_changes
from perago.dev.stack import Endpoints
from perago.in_memory.lake import MemoryLake

PATHS = ("a", "b", "b/c", "m", "z")
CONTENTS = (b"", b"1", b"2")
FILES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(CONTENTS), min_size=1)
EDITS = st.dictionaries(st.sampled_from(PATHS), st.sampled_from([*CONTENTS, None]))
LANES = st.lists(EDITS, max_size=4)


@pytest.fixture(params=[-1, 1, 16], ids=["merged", "both", "copied"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(composition, "FEW", request.param)
    monkeypatch.setattr(lane_changes, "KEPT", 4)
    monkeypatch.setattr(lane_changes, "_LEAST_PAGE", 1)


def real_edits(base: Mapping[str, bytes], edits: Edits) -> dict[str, bytes | None]:
    """Those that change something; lakeFS makes no commit of the others."""
    return {path: data for path, data in edits.items() if base.get(path) != data}


def check(lanes: LaneScene, base: Mapping[str, bytes], given_edits: list[Edits]) -> None:
    lanes.set_base(base)
    edits = {f"lane{number}": real_edits(base, one) for number, one in enumerate(given_edits)}
    wanted: dict[str, bytes | None] = dict(base)
    values: dict[str, set[bytes | None]] = {}
    for one in edits.values():
        wanted.update(one)
        for path, data in one.items():
            values.setdefault(path, set()).add(data)
    differing = {path for path, found in values.items() if len(found) > 1}
    outcome = lanes.joined(edits)
    if differing:
        assert outcome.error == "LaneConflictError"
        assert all(repr(path) in (outcome.reason or "") for path in differing)
        assert lanes.scene.head().id == lanes.scene.a
    elif not values:
        assert lanes.scene.head().id == lanes.scene.a
    else:
        assert lanes.published(outcome) == {path: data for path, data in wanted.items() if data is not None}
    assert not [name for name in lanes.lane_branches() if "-scratch-" in name]


@given(base=FILES, edits=LANES, defective=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_lanes_in_memory(base: dict[str, bytes], edits: list[Edits], defective: bool) -> None:
    lanes = LaneScene(memory_scene())
    cast("MemoryLake", lanes.scene.lake).merges_with_defects = defective
    check(lanes, {**base, "kept": b"always there"}, edits)


def test_random_lanes_on_lakefs(stack: Endpoints, fresh_name: object) -> None:
    server = LakeFSAdmin(stack)
    name = cast("str", fresh_name()) if callable(fresh_name) else ""
    scene = server.scene(name)

    @given(base=FILES, edits=LANES)
    @settings(max_examples=6)
    def examples(base: dict[str, bytes], edits: list[Edits]) -> None:
        scene.publish({"round": str(len(scene.heard)).encode()})
        check(LaneScene(scene), {**base, "kept": b"always there"}, edits)

    try:
        examples()
    finally:
        server.remove(name)
        server.close()

"""`perago run --from`: the input comes from lakeFS, and nothing is written there."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Perago
from tests.cli.test_authoring import assert_refused
from tests.support.lake_sites import RealSite

from perago.dev.stack import Endpoints

PARAMS = '{"word": "hi", "times": 1}'


@pytest.fixture
def site(stack: Endpoints) -> Iterator[RealSite]:
    made = RealSite(stack, f"run-{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


def test_the_input_is_a_commit_in_lakefs(perago: Perago, project: Path, stack: Endpoints, site: RealSite) -> None:
    head = site.publish("main", {"words/in/a.txt": b"alpha\n", "elsewhere/in/b.txt": b"not in the prefix"})
    before = site.content("main")

    done = perago("run", "words", "--from", f"{site.repository}/main", "-p", PARAMS, "--write", "out", env=stack.environment())
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"input: {site.repository}/main, commit {head}\n"
    assert "+ out/words.txt  3 B" in done.stdout
    assert sorted(path.name for path in (project / "out").rglob("*.txt")) == ["a.txt", "words.txt"]
    assert site.content("main") == before
    assert [branch.name for branch in site.lake.branches(site.repository, "")] == ["main"]

    def refused(source: str, said: str, *more: str) -> None:
        assert_refused(perago("run", "words", "--from", source, "-p", PARAMS, *more, env=stack.environment()), said)

    refused(f"{site.repository}/none", f"--from: none in repository {site.repository} does not exist")
    refused("there-is-none/main", "--from: repository there-is-none does not exist")
    refused(site.repository, "names no branch, tag or commit; write REPOSITORY/REF")
    refused(f"{site.repository}/main", "--workspace and --from both name the input", "-w", "ws")
    without = perago("run", "words", "--from", f"{site.repository}/main", "-p", PARAMS)
    assert_refused(without, "LakeFS config is required for perago run --from")


PIPELINE = """
import words
from perago import Flow, pipeline

@pipeline(name="words.twice", owner_email="a@example.com")
def twice(flow: Flow) -> None:
    flow.step(words.repeat, ref="first", word="one", times=1)
    flow.step(words.repeat, ref="second", word="two", times=2)
"""


def test_a_pipeline_gets_what_lies_under_the_prefixes_of_its_tasks(
    perago: Perago, project: Path, stack: Endpoints, site: RealSite
) -> None:
    (project / "twice.py").write_text(PIPELINE)
    site.publish("main", {"words/in/a.txt": b"alpha\n", "elsewhere/in/b.txt": b"not under a prefix"})
    before = site.content("main")
    done = perago("run", "twice", "--from", f"{site.repository}/main", "--write", "out", env=stack.environment())
    assert done.returncode == 0, done.stderr
    written = sorted(str(path.relative_to(project / "out")) for path in (project / "out").rglob("*.txt"))
    assert written == ["words/in/a.txt", "words/out/words.txt"]
    assert (project / "out/words/out/words.txt").read_text() == "two\ntwo\n"
    assert site.content("main") == before

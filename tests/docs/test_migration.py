"""The page about perago 0.6 says what this implementation accepts, exports and recognises."""

import re
from typing import Any

import pytest
from tests.support import manual

import perago
from perago import settings
from perago.errors import TaskDefinitionError
from perago.model import BranchName
from perago.protocol import staging_names

PAGE = manual.DOCS / "how-to" / "migrate-from-perago-0.6.md"
BRANCH_OF_0_6 = BranchName(
    "perago-staging-6f1cabcd-0000-4000-8000-000000000001-clean-seq-1-iteration-0"
    "-task-id-0a9f0000-0000-4000-8000-000000000002-retry-0-exec-0123456789abcdef0123456789abcdef"
)


def _section(heading: str) -> str:
    return PAGE.read_text().split(f"# {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_names_that_are_the_same_are_exported() -> None:
    named = {name for name in re.findall(r"`([A-Z]\w+)`", _section("What is the same")) if not name.isupper() and "_" not in name}
    assert len(named) > 10
    assert named <= set(perago.__all__)


def test_names_that_differ_are_not_exported() -> None:
    rows = [row for row in manual.rows(PAGE, "Declarations and imports") if row[-1].startswith("not exported")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert len(named) > 10
    assert named & set(perago.__all__) == set()


def test_settings_that_are_the_same_exist() -> None:
    named = set(re.findall(r"`(PERAGO_\w+|CONDUCTOR_\w+)`", _section("What is the same")))
    assert len(named) > 8
    assert named <= {name.upper() for name in settings.Settings.model_fields}


def test_settings_that_differ_do_not_exist() -> None:
    rows = manual.rows(PAGE, "Commands and settings")
    gone = {name for row in rows if "PERAGO_LOG" not in row[0] for name in re.findall(r"`(PERAGO_\w+)`", row[0])}
    assert gone == {"PERAGO_EXECUTION_MODE", "PERAGO_INSTANCE_ID"}
    assert gone & {name.upper() for name in settings.Settings.model_fields} == set()


def test_staging_branches_of_0_6_are_not_recognised() -> None:
    assert staging_names.parse(BRANCH_OF_0_6) is None


@pytest.mark.parametrize("keyword", ["strict_params", "metrics"])
def test_removed_keywords_of_task_are_refused(keyword: str) -> None:
    task: Any = perago.task
    with pytest.raises(TaskDefinitionError, match=keyword):
        task(name="a.b", owner_email="a@example.com", **{keyword: True})(_body)


def _body(params: object) -> object:
    return params

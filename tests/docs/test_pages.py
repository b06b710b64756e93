"""The reference says what the program does: codes, error texts, settings, metrics, phases, log fields, controls, links."""

import ast
import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs import pages

import perago
from perago import errors, events, testing
from perago.conductor import completion
from perago.declare import controls, taskdef
from perago.declare import task as declared
from perago.protocol import decision
from perago.worker import logs, metrics, settings, tally

TROUBLE = pages.DOCS / "troubleshooting.md"
REFERENCE = pages.DOCS / "reference"


def codes_of(kind: type[errors.PeragoError]) -> Iterator[tuple[str, type[errors.PeragoError]]]:
    if "code" in vars(kind) and kind.code:
        yield kind.code, kind
    for below in kind.__subclasses__():
        yield from codes_of(below)


def test_every_error_has_a_code_and_a_heading_of_its_own() -> None:
    found = dict(codes_of(errors.PeragoError))
    headings = re.findall(r"^## (PG-\d+) (\w+)$", TROUBLE.read_text(), re.MULTILINE)
    assert headings == sorted((code, kind.__name__) for code, kind in found.items())


def test_no_error_without_a_code_is_raised_by_itself() -> None:
    """Those without one are only there to be caught."""
    bare = {kind.__name__ for kind in _tree(errors.PeragoError) if not kind.code}
    assert bare == {
        "PeragoError",
        "AttemptError",
        "TerminalError",
        "GuardrailViolation",
        "RetryableError",
        "LakeError",
        "ConductorError",
    }
    assert len({code for code, _ in codes_of(errors.PeragoError)}) == len(list(_tree(errors.PeragoError))) - len(bare)


def _tree(kind: type[errors.PeragoError]) -> set[type[errors.PeragoError]]:
    return {kind}.union(*(_tree(below) for below in kind.__subclasses__()))


FILLED_IN = re.compile(r"…|error: |(?:pre|post) |\w+_glob\('…'\)|0 files|1 file|unknown; |symlinks")
"""What the program puts into its texts, as the page shows it."""


def test_error_texts_are_those_of_the_program() -> None:
    said = "\n".join(texts())
    listed = re.findall(r"^- (`[^`]+`(?:, `[^`]+`)*)", TROUBLE.read_text().split("## PG-100")[1], re.MULTILINE)
    assert len(listed) > 60
    for quoted in listed:
        for text in re.findall(r"`([^`]+)`", quoted):
            for part in FILLED_IN.split(text):
                assert part.strip(" :;,)(?") in said, f"nothing in the program says {part!r} of {text!r}"


def texts() -> Iterator[str]:
    """Every text in the program's source, joined as it is written, with a gap for what is filled in."""
    for file in (pages.ROOT / "src" / "perago").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_settings_are_all_there_with_their_defaults() -> None:
    listed = {row[0].strip("`"): row[1] for name in ("The servers", "The worker", "Spark") for row in rows("settings.md", name)}
    assert set(listed) == {name.upper() for name in settings.Settings.model_fields}
    resolved = settings.load(Path("nowhere"), {}).resolved()
    for name, default in listed.items():
        shown = resolved.get(name, "none")
        if default.startswith("`") and "temporary directory" not in default:
            assert default == f"`{shown}`", name
        elif "temporary directory" in default:
            assert shown.endswith(default.split("`")[1])
        else:
            assert default in {"none", "unset", "the module's name, letters and digits only"}, name


def rows(page: str, heading: str | None = None) -> list[list[str]]:
    """Without the head of each table."""
    return [row for row in pages.rows(REFERENCE / page, heading) if row[0].startswith("`")]


def test_metrics_are_all_there_with_their_labels() -> None:
    listed = {row[0].strip("`"): (row[1], re.findall(r"`(\w+)`", row[2])) for row in rows("metrics.md")}
    own: Any = metrics.Metrics().registry
    collectors = {one._name: (one._type, list(one._labelnames)) for one in own._collector_to_names}
    assert listed == collectors


def test_phases_are_all_there_in_their_order() -> None:
    assert [row[0].strip("`") for row in rows("statuses.md", "Phases")] == [phase.value for phase in events.Phase]


def test_deliveries_are_all_there() -> None:
    shown = {row[0].strip("`") for row in rows("statuses.md", "What became of the report")}
    kinds: tuple[Any, ...] = completion.Delivery.__args__
    assert shown == {metrics.delivery_word(object.__new__(kind)) for kind in kinds}


def test_log_fields_are_those_of_the_program() -> None:
    of_attempt = [row[0].strip("`") for row in rows("logs.md", "Every line of an attempt")]
    attempt: Any = type("Attempt", (), dict.fromkeys(("task_type", "workflow_id", "task_id", "retry_count"), ""))
    assert of_attempt == list(logs.of_attempt(attempt, attempt))
    summary = {row[0].strip("`") for row in rows("logs.md", "The line that sums up an attempt")}
    assert summary == {"slot", "status", "delivery", "delivery_reason", "reason", *tally.Tally(0.0).summary(0.0)}


def test_controls_are_all_there_with_field_and_default() -> None:
    listed = {row[0].strip("`"): (row[1].strip("`"), row[2].strip("`")) for row in rows("controls.md")}
    parts = {"retry": controls.RetryPolicy(), "timeout": controls.TimeoutPolicy(), "limits": controls.ExecutionLimits()}
    known = {f"{part}.{field.name}": getattr(value, field.name) for part, value in parts.items() for field in fields(value)}
    assert {name: default for name, (_, default) in listed.items()} == {
        name: "left out" if default is None else str(default) for name, default in known.items()
    }
    source = Path(taskdef.__file__).read_text()
    assert all(f'"{field}"' in source for field, _ in listed.values())


def fields(value: Any) -> list[Any]:
    return [field for field in dataclasses.fields(value) if field.init]


def test_the_api_page_has_everything_that_can_be_imported() -> None:
    named = set(re.findall(r"^\.\. (?:auto\w+|py:function):: perago\.([\w.]+)", (REFERENCE / "api.md").read_text(), re.MULTILINE))
    assert named == set(perago.__all__) | {f"testing.{name}" for name in testing.__all__}


@pytest.mark.parametrize("name", ["task", "require_file", "require_dir", "require_glob", "forbid_glob"])
def test_signatures_written_by_hand_are_those_of_the_program(name: str) -> None:
    written = re.search(rf"perago\.{name}\((?:\*, )?(.*)\)", (REFERENCE / "api.md").read_text())
    assert written is not None
    thing: Any = getattr(perago, name)
    known = list(declared._ACCEPTED) if name == "task" else [_shown(field) for field in fields(thing)]
    given = written[1].split(", ")
    assert ([part.split("=")[0] for part in given] if name == "task" else given) == known


def _shown(field: Any) -> str:
    return field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default!r}"


def test_every_command_has_its_section() -> None:
    from perago.cli import main  # noqa: PLC0415

    listed = re.findall(r"^## `perago (\w+)`$", (REFERENCE / "cli.md").read_text(), re.MULTILINE)
    assert listed == [command.name for command in main.app.registered_commands]


def test_the_drawing_of_the_decision_has_a_row_for_each_plan() -> None:
    """A new plan would need a new drawing and new words."""
    assert {plan.__name__ for plan in decision.Plan.__args__} == {"Merge", "Replace", "Keep", "MoveBack", "Refuse"}


def test_every_make_target_stands_in_contributing() -> None:
    targets = re.findall(r"^([a-z]+):.*## ", (pages.ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = re.findall(r"^\| `make (\w+)` \|", (pages.ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(set(targets) - {"help"})


def test_the_manual_builds_without_a_warning(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "sphinx", "-qW", "--keep-going", "-d", tmp_path / "trees", pages.DOCS, tmp_path / "site"]
    built = subprocess.run(line, capture_output=True, text=True, check=False, timeout=110)
    assert (built.returncode, built.stderr) == (0, "")
    assert "PG-360" in (tmp_path / "site" / "searchindex.js").read_text().upper()


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_pages_outside_the_manual_lead_somewhere(name: str) -> None:
    for link in pages.links(pages.ROOT / name):
        if not link.startswith(("http://", "https://", "#")):
            assert (pages.ROOT / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", sorted(pages.DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(pages.DOCS)))
def test_links_within_the_manual_lead_somewhere(page: Path) -> None:
    for link in pages.links(page):
        if not link.startswith(("http://", "https://", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link

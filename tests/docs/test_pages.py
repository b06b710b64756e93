"""Compares the manual with the program: error codes and texts, settings, metrics, phases, log fields, controls, commands."""

import ast
import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import manual

import perago
from perago import errors, events, model, settings, testing
from perago.attempt import outcome, publish
from perago.command_body import environment
from perago.conductor import reporting
from perago.declare import command_task, controls, schema_keywords, taskdef
from perago.declare import task as declared
from perago.declare.checks import FILE_CHECKS_BY_NAME
from perago.protocol import commit_labels, decision, head, rivals, staging_names
from perago.supervisor import attempt_stats, logs, metrics

TROUBLE = manual.DOCS / "troubleshooting.md"
REFERENCE = manual.DOCS / "reference"
EXECUTION = model.ExecutionId("691b5c80" + "0" * 16)


def codes_of(kind: type[errors.PeragoError]) -> Iterator[tuple[str, type[errors.PeragoError]]]:
    if "code" in vars(kind) and kind.code:
        yield kind.code, kind
    for below in kind.__subclasses__():
        yield from codes_of(below)


def test_every_error_code_has_a_section() -> None:
    found = dict(codes_of(errors.PeragoError))
    headings = re.findall(r"^## (PG-\d+) (\w+)$", TROUBLE.read_text(), re.MULTILINE)
    assert headings == sorted((code, kind.__name__) for code, kind in found.items())


def test_only_base_classes_of_errors_have_no_code() -> None:
    """They exist to be caught and are never raised themselves."""
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
"""Variable parts of error texts, as the page shows them."""


def test_quoted_error_texts_exist_in_the_program() -> None:
    listed = re.findall(r"^- (`[^`]+`(?:,\s+`[^`]+`)*)", TROUBLE.read_text().split("## PG-100")[1], re.MULTILINE)
    assert len(listed) > 60
    for quoted in listed:
        for text in re.findall(r"`([^`]+)`", quoted):
            require_said(text)


def test_quoted_refusals_match_the_program() -> None:
    page = manual.DOCS / "how-to" / "wire-a-workflow.md"
    shown = [block.text.strip() for block in manual.blocks(page) if block.language == "text"]
    shown += [row[1].strip("`") for row in manual.rows(page, "Forks")[1:]]
    said = list(refusals())
    assert len(shown) > 6
    for text in shown:
        pattern = re.compile(".*".join(map(re.escape, text.split("…"))))
        assert any(pattern.fullmatch(one) for one in said), text


def refusals() -> Iterator[str]:
    """The reasons of refused attempts in the situations of the page about wiring."""
    clean, train = (commit_labels.Labels(model.WorkflowId("w"), model.TaskId("t"), step, 1) for step in ("clean", "train__1"))
    yield refusal("report", head.AcceptedCommit(clean, "sales"))
    yield refusal("train__2", head.AcceptedCommit(train, "sales"))
    yield refusal("report", head.AcceptedCommit(dataclasses.replace(clean, workflow_id=model.WorkflowId("v")), "sales"))
    yield refusal("report", head.InProgress(clean, "sales"))
    made = model.Commit(model.CommitId("h"), (), model.MetaRangeId("m"), metadata=written_by("train__1"))
    yield refusal("train__2", head.judge(made, None, own=attempt_of("train__2"), own_run=1))
    yield refusal("report", None, head.Place.ELSEWHERE)
    rival = rivals.Rival(staging_name("clean"), None)
    yield str(publish._yields(rival, model.BranchName("main")))
    yield str(publish.revoked())


def refusal(step: str, acceptance: head.Acceptance | None, place: head.Place = head.Place.ON_INPUT) -> str:
    target = head.Head(model.CommitId("h"), place, acceptance)
    refused = decision.refusal(attempt_of(step), model.CommitId("a"), target)
    assert refused is not None
    return refused.reason


def attempt_of(step: str, workflow: str = "w", task: str = "t") -> model.Attempt:
    ids = model.WorkflowId(workflow), model.TaskId(task)
    return model.Attempt(*ids, 1, step, 4, 2, model.TaskType("task"), model.WorkerId("worker"), 0, 1)


def written_by(step: str) -> dict[str, str]:
    return commit_labels.write(attempt_of(step), EXECUTION, model.CommitId("a"), 1)


def staging_name(step: str) -> staging_names.StagingName:
    parsed = staging_names.parse(staging_names.staging_branch(attempt_of(step), EXECUTION, model.BranchName("main")))
    assert parsed is not None
    return parsed


def test_demo_output_in_the_readme_exists_in_the_program() -> None:
    transcript = next(block.text for block in manual.blocks(manual.ROOT / "README.md") if "perago demo" in block.text)
    lines = [line for line in transcript.splitlines() if line.startswith(("killed", "features was", "The branch", "Report:"))]
    assert len(lines) == 4
    for line in lines:
        require_said(re.sub(r"\bfeatures\b|\b[0-9a-f]{12}\b|\b\d+ s$|perago-demo\.html", "…", line))


def require_said(text: str) -> None:
    """`text` may span several lines of the page."""
    said = "\n".join(texts())
    for part in FILLED_IN.split(" ".join(text.split())):
        assert part.strip(" :;,)(?") in said, f"{part!r} of {text!r} is not in the source"


@functools.cache
def texts() -> list[str]:
    """Every string literal in the source of the program; NUL stands for the values in an f-string."""
    return list(_texts())


def _texts() -> Iterator[str]:
    for file in (manual.ROOT / "src" / "perago").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


CACHE_DIR = "`perago` in `$XDG_CACHE_HOME` or `~/.cache`"


def test_settings_and_defaults_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    headings = ("The servers", "The worker", "Spark", "Downloads")
    listed = {row[0].strip("`"): row[1] for name in headings for row in rows("settings.md", name)}
    assert set(listed) == {name.upper() for name in settings.Settings.model_fields}
    for name in listed:
        monkeypatch.delenv(name, raising=False)
    resolved = settings.load().resolved()
    for name, default in listed.items():
        shown = resolved.get(name, "none")
        if default.startswith("`") and "temporary directory" not in default and default != CACHE_DIR:
            assert default == f"`{shown}`", name
        elif "temporary directory" in default:
            assert shown.endswith(default.split("`")[1].replace("<uid>", str(os.getuid())))
        else:
            assert default in {
                "none",
                "unset",
                "the module's name, letters and digits only",
                "the login name",
                "Maven Central",
                CACHE_DIR,
            }, name


def rows(page: str, heading: str | None = None) -> list[list[str]]:
    """The rows whose first cell is code, that is, without table headers."""
    return [row for row in manual.rows(REFERENCE / page, heading) if row[0].startswith("`")]


def test_metrics_and_labels_match() -> None:
    listed = {row[0].strip("`"): (row[1], re.findall(r"`(\w+)`", row[2])) for row in rows("metrics.md", "Metrics")}
    own: Any = metrics.Metrics().registry
    collectors = {one._name: (one._type, list(one._labelnames)) for one in own._collector_to_names}
    assert listed == collectors


def test_kinds_of_removal_match() -> None:
    assert [row[0].strip("`") for row in rows("metrics.md", "Kinds of removal")] == [kind.value for kind in events.Removal]


def test_phases_match_in_order() -> None:
    assert [row[0].strip("`") for row in rows("statuses.md", "Phases")] == [phase.value for phase in events.Phase]


def test_report_outcomes_match() -> None:
    shown = {row[0].strip("`") for row in rows("statuses.md", "Outcome of the report")}
    kinds: tuple[Any, ...] = reporting.Delivery.__args__
    assert shown == {metrics.delivery_word(object.__new__(kind)) for kind in kinds}


def test_log_fields_match() -> None:
    of_attempt = [row[0].strip("`") for row in rows("logs.md", "Every line of an attempt")]
    attempt: Any = type("Attempt", (), dict.fromkeys(("task_type", "workflow_id", "task_id", "retry_count"), ""))
    assert of_attempt == list(logs.of_attempt(attempt, attempt))
    summary = {row[0].strip("`") for row in rows("logs.md", "The summary line of an attempt")}
    stats = attempt_stats.AttemptStats(0.0)
    stats.add(events.Removed(events.Removal.REPLACE, "main", "old", "new", "abandoned"))
    workspace = model.WorkspaceRef(model.Repository("r"), model.BranchName("main"), model.CommitId("c"))
    origin = logs.of_origin(attempt_of("clean"), "sales", workspace)
    ends = [outcome.completed(workspace, {}), outcome.failed(errors.TaskFailed("later"))]
    known = {*stats.summary(0.0), *origin, *(name for end in ends for name in logs.of_outcome(end))}
    assert summary == {"slot", "status", "delivery", "delivery_reason", *known}


def test_controls_fields_and_defaults_match() -> None:
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


def test_api_page_lists_all_exports() -> None:
    named = set(re.findall(r"^\.\. (?:auto\w+|py:function):: perago\.([\w.]+)", (REFERENCE / "api.md").read_text(), re.MULTILINE))
    assert named == set(perago.__all__) | {f"testing.{name}" for name in testing.__all__}


@pytest.mark.parametrize("name", ["task", "command", "require_file", "require_dir", "require_glob", "forbid_glob"])
def test_handwritten_signatures_match(name: str) -> None:
    written = re.search(rf"perago\.{name}\((?:line, )?(?:\*, )?(.*)\)", (REFERENCE / "api.md").read_text())
    assert written is not None
    accepted = {"task": declared._ACCEPTED, "command": [one for one in command_task.ACCEPTED if one != "command"]}
    given = written[1].split(", ")
    if name in accepted:
        assert sorted(part.split("=")[0] for part in given) == sorted(accepted[name])
    else:
        assert given == [_shown(field) for field in fields(getattr(perago, name))]


def _shown(field: Any) -> str:
    return field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default!r}"


def test_fields_of_task_files_match() -> None:
    assert [row[0].strip("`") for row in rows("task-files.md", "Fields")] == [*command_task.ACCEPTED, *FILE_CHECKS_BY_NAME]
    listed = [name for row in rows("task-files.md", "What the command gets") for name in re.findall(r"`(\w+)`", row[0])]
    assert set(environment.PASSED) <= set(listed)
    known = {name: set(keywords) for name, keywords in schema_keywords.KEYWORDS.items()}
    for row in rows("task-files.md", "Schemas"):
        for name in re.findall(r"`(\w+)`", row[0]):
            assert set(re.findall(r"`(\w+)`", row[1])) & {one for some in known.values() for one in some} == known.pop(name)
    assert known == {}


def test_every_command_has_a_section() -> None:
    from perago.cli import commands  # noqa: PLC0415

    listed = re.findall(r"^## `perago (\w+)`$", (REFERENCE / "cli.md").read_text(), re.MULTILINE)
    assert listed == list(commands.COMMANDS)


def test_decision_diagram_covers_all_plans() -> None:
    """A new plan needs a change of the diagram and of the page."""
    assert {plan.__name__ for plan in decision.Plan.__args__} == {"Merge", "Replace", "Keep", "MoveBack", "Refuse"}


def test_staging_branch_example_matches() -> None:
    made = staging_names.staging_branch(attempt_of("train__2", "6f1c-01", "0a-9"), EXECUTION, model.BranchName("main"))
    assert f"\n{made}\n" in (REFERENCE / "protocol.md").read_text()


def test_commit_labels_match() -> None:
    assert [row[0].strip("`") for row in rows("protocol.md", "Labels")] == list(written_by("clean"))


def test_doctor_findings_exist_in_the_program() -> None:
    listed = [row[0] for row in manual.rows(manual.DOCS / "how-to" / "recover.md", "Find the cause")[1:]]
    checks = [name for cell in listed for name in re.findall(r"`([\w-]+)`", cell)]
    assert len(checks) > 8
    assert set(checks) <= set(texts())


def test_protocol_rules_match_the_model() -> None:
    model_rules = re.search(
        r"^Rules == \{(.*?)\}", (manual.ROOT / "model" / "Publication.tla").read_text(), re.MULTILINE | re.DOTALL
    )
    assert model_rules is not None
    listed = re.findall(r"^\| `([a-z-]+)` \|", (manual.DOCS / "publication.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(re.findall(r'"([a-z-]+)"', model_rules[1]))


def test_contributing_lists_all_make_targets() -> None:
    targets = re.findall(r"^([a-z]+):.*## ", (manual.ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = re.findall(r"^\| `make (\w+)` \|", (manual.ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(set(targets) - {"help"})

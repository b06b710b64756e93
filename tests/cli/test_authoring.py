"""`perago check`, `extract` and `register` as commands: exit code, stdout and stderr."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from tests.cli.conftest import GOOD, OnTerminal, Perago, Result

from perago.dev.stack import Endpoints


def assert_refused(result: Result, *said: str, code: int = 1) -> None:
    assert result.returncode == code, result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    for words in said:
        assert words in result.stderr


def test_check_says_ok_the_settings_and_the_servers_in_plain_lines(perago: Perago) -> None:
    result = perago("check", "words")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "ok: words.repeat"
    assert "PERAGO_LOG_RETENTION: 30d" in lines
    assert "PERAGO_WORKER_ID_PREFIX: words" in lines
    assert lines[-2:] == ["conductor: not configured", "lakefs: not configured"]
    assert "\x1b" not in result.stdout


def test_a_file_is_accepted_as_a_module(inside: Perago, project: Path) -> None:
    (project / "tasks").mkdir()
    (project / "words.py").rename(project / "tasks" / "words.py")
    result = inside("check", "tasks/words.py", "--json")
    assert json.loads(result.stdout)["tasks"][0]["module"] == "tasks.words"
    assert inside("extract", "./tasks/words.py", "-o", "words.json").returncode == 0


def test_check_shows_errors_before_the_settings(on_terminal: OnTerminal) -> None:
    _, shown = on_terminal("check", "words", "nowhere", env={"NO_COLOR": "1"})
    words = (" words.repeat", " no module 'nowhere'", "PERAGO_WORKSPACE_ROOT")
    positions = [shown.index(word) for word in words]
    assert positions == sorted(positions)


def test_check_reads_the_env_file_and_keeps_its_secrets(perago: Perago, project: Path) -> None:
    (project / ".env").write_text(
        "CONDUCTOR_SERVER_URL=http://conductor.example/api\nCONDUCTOR_AUTH_KEY=key-a\nCONDUCTOR_AUTH_SECRET=secret-a\n"
        "LAKECTL_SERVER_ENDPOINT_URL=http://lake.example\n"
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID=key-b\nLAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=secret-b\n"
    )
    for options in ([], ["--json"]):
        result = perago("check", "words", *options)
        assert result.returncode == 0, result.stderr
        assert not any(secret in result.stdout for secret in ("key-a", "secret-a", "key-b", "secret-b"))
    assert json.loads(result.stdout)["conductor"] == "configured"
    assert json.loads(result.stdout)["lakefs"] == "configured"


def test_check_looks_at_every_module_and_reports_each(inside: Perago, project: Path) -> None:
    (project / "more.py").write_text(GOOD.replace("words.repeat", "more.repeat"))
    result = inside("check", "words", "nowhere", "more", "nothing")
    assert result.returncode == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("ok:")] == ["ok: words.repeat", "ok: more.repeat"]
    assert [line[:17] for line in result.stderr.splitlines()] == ["error: no module "] * 2


def test_check_as_json_is_one_document(inside: Perago) -> None:
    result = inside("check", "words", "nowhere", "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert document["tasks"] == [{"module": "words", "name": "words.repeat", "workspace": "local", "warnings": []}]
    assert len(document["errors"]) == 1


def test_what_a_module_prints_while_it_is_imported_stays_out_of_stdout(perago: Perago, project: Path) -> None:
    (project / "words.py").write_text("import os\nprint('loud')\nos.system('echo louder')\n" + GOOD)
    result = perago("check", "words", "--json")
    assert json.loads(result.stdout)["errors"] == []
    assert set(result.stderr.splitlines()) == {"loud", "louder"}


def test_check_passes_on_warnings(inside: Perago, project: Path) -> None:
    warned = GOOD.replace("class Output(BaseModel):", "class Output(BaseModel):\n    model_config = {'frozen': True}\n")
    (project / "words.py").write_text(warned)
    result = inside("check", "words")
    assert result.returncode == 0
    assert result.stderr.startswith("warning: words.repeat: ")


def test_check_with_broken_settings_still_says_what_is_right(inside: Perago, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", "http://lake.example")
    result = inside("check", "words")
    assert result.stdout == "ok: words.repeat\n"
    assert_refused(result, "LakeFS config is incomplete; missing LAKECTL_CREDENTIALS_ACCESS_KEY_ID")


@pytest.mark.parametrize("command", [["check"], ["register"], ["extract", "-o", "x.json"], ["run"]])
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("wrods.py", "there is no file 'wrods.py'; did you mean words?"),
        ("wrods", "or on the Python path; did you mean words?"),
        ("nowhere", "no module 'nowhere'"),
        ("nowhere.deep", "no module 'nowhere.deep'"),
        ("a-b", "is not a module name"),
        ("empty", "declares no task"),
        ("two", "declares 2 tasks ('words.repeat', 'words.other')"),
    ],
)
def test_a_module_that_names_no_task(inside: Perago, project: Path, command: list[str], module: str, said: str) -> None:
    (project / "empty.py").touch()
    (project / "two.py").write_text(GOOD + GOOD.replace("words.repeat", "words.other"))
    result = inside(*command, module)
    assert_refused(result, said)
    assert result.stdout.count("ok:") == 0


def test_an_import_error_inside_the_module_shows_the_authors_own_frames(perago: Perago, project: Path) -> None:
    (project / "helper.py").write_text("def setting():\n    return {}['missing']\n")
    (project / "broken.py").write_text("import helper\n\nVALUE = helper.setting()\n")
    result = perago("check", "broken")
    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == "error: broken: importing it failed with KeyError: 'missing' [PG-110]"
    assert "broken.py" in result.stderr
    assert "helper.setting()" in result.stderr
    assert "importlib" not in result.stderr
    assert "perago/" not in result.stderr.replace(str(project), "")


def test_a_syntax_error_names_file_and_line(perago: Perago, project: Path) -> None:
    (project / "broken.py").write_text("x = (\n")
    result = perago("check", "broken")
    assert_refused(result, "SyntaxError", "broken.py")


def test_every_problem_of_a_declaration_has_its_line(inside: Perago, project: Path) -> None:
    (project / "words.py").write_text(GOOD.replace('"words.repeat"', '"a b"').replace('"data@example.com"', '"nobody"'))
    result = inside("check", "words")
    assert_refused(result, "2 problems")
    assert len(result.stderr.splitlines()) == 3


def test_usage_errors_are_2(inside: Perago) -> None:
    for args in (["check"], ["extract", "words"], ["nonsense"], ["check", "words", "--nonsense"]):
        assert_refused(inside(*args), code=2)


def test_extract_writes_the_taskdef_and_prints_its_path(perago: Perago, project: Path) -> None:
    result = perago("extract", "words", "-o", "deep/er/words.json")
    assert (result.returncode, result.stdout, result.stderr) == (0, "deep/er/words.json\n", "")
    definition = json.loads((project / "deep/er/words.json").read_text())
    assert definition["name"] == "words.repeat"
    assert definition["inputKeys"] == ["workspace", "params"]
    assert [path.name for path in (project / "deep/er").iterdir()] == ["words.json"]


def test_extract_refuses_other_endings_and_places_it_cannot_write(inside: Perago, project: Path) -> None:
    assert_refused(inside("extract", "words", "-o", "words.yaml"), "must end in .json")
    assert_refused(inside("extract", "words", "-o", "words.py/x.json"), "cannot write words.py/x.json")
    (project / "is_a_dir.json").mkdir()
    assert_refused(inside("extract", "words", "-o", "is_a_dir.json"), "cannot write is_a_dir.json")
    assert not list(project.glob(".*json*"))


def test_register_needs_conductor(inside: Perago) -> None:
    result = inside("register", "words")
    assert_refused(result, "CONDUCTOR_SERVER_URL is required for perago register; set it in the environment or in .env")
    assert "perago dev --env-file .env" in result.stderr


def test_misspelt_variable_of_a_server_is_named(inside: Perago, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    monkeypatch.setenv("CONDUCTOR_SEVER_URL", "http://secret.example")
    (project / ".env").write_text("LAKECTL_SERVER_ENDPOINT=http://secret.example\n")
    result = inside("register", "words")
    assert_refused(result, "CONDUCTOR_SEVER_URL is not a setting of Perago: did you mean CONDUCTOR_SERVER_URL?")
    result = inside("gc", "repository")
    assert_refused(
        result,
        "LakeFS config is required for perago gc; set LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_ACCESS_KEY_ID, ",
        "in .env",
        "LAKECTL_SERVER_ENDPOINT is not a setting of Perago: did you mean LAKECTL_SERVER_ENDPOINT_URL?",
    )
    assert "secret.example" not in result.stderr


def test_usage_error_of_the_installed_command(perago: Perago) -> None:
    assert_refused(perago("check", "nowhere.py"), "there is no file")
    assert_refused(perago("check"), "missing argument", code=2)


def test_register_with_an_unreachable_conductor_prints_one_line(perago: Perago) -> None:
    result = perago("register", "words", env={"CONDUCTOR_SERVER_URL": "http://127.0.0.1:9/api"})
    assert_refused(result)
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def task_name(stack: Endpoints, fresh_name: Callable[[], str]) -> Any:
    name = fresh_name()
    yield name
    urllib3.request("DELETE", f"{stack.conductor_url}/metadata/taskdefs/{name}", timeout=10)


def test_extract_register_read_back_equal_then_unchanged_then_updated(
    perago: Perago, project: Path, stack: Endpoints, task_name: str
) -> None:
    env = {"CONDUCTOR_SERVER_URL": stack.conductor_url}
    (project / "words.py").write_text(GOOD.replace("words.repeat", task_name))
    perago("extract", "words", "-o", "words.json")
    extracted = json.loads((project / "words.json").read_text())

    assert perago("register", "words", env=env).stdout == f"created: {task_name}\n"
    held = urllib3.request("GET", f"{stack.conductor_url}/metadata/taskdefs/{task_name}", timeout=10).json()
    assert {field: held[field] for field in extracted if "Schema" not in field} == {
        field: value for field, value in extracted.items() if "Schema" not in field
    }
    assert held["inputSchema"]["data"] == extracted["inputSchema"]["data"]
    assert held["outputSchema"]["data"] == extracted["outputSchema"]["data"]

    assert perago("register", "words", env=env).stdout == f"unchanged: {task_name}\n"

    source = (project / "words.py").read_text()
    controls = "controls=TaskControls(retry=RetryPolicy(count=7)),\n    owner_email="
    changed = source.replace("owner_email=", controls, 1).replace(
        "import TaskFailed", "import RetryPolicy, TaskControls, TaskFailed"
    )
    (project / "words.py").write_text(changed.replace("ge=1", "ge=2"))
    result = perago("register", "words", "--json", env=env)
    assert result.returncode == 0, result.stderr
    (one,) = json.loads(result.stdout)
    assert (one["name"], one["verdict"]) == (task_name, "updated")
    assert one["changes"] == [
        {"field": "retryCount", "before": 3, "after": 7},
        {"field": "inputSchema.data.properties.params.properties.times.minimum", "before": 1, "after": 2},
    ]
    (project / "words.py").write_text(source)
    result = perago("register", "words", env=env)
    assert result.stdout.splitlines()[:2] == [f"updated: {task_name}", "  retryCount: 7 -> 3"]


def test_a_wrong_module_keeps_all_of_them_from_being_registered(
    perago: Perago, project: Path, stack: Endpoints, task_name: str
) -> None:
    (project / "words.py").write_text(GOOD.replace("words.repeat", task_name))
    assert_refused(perago("register", "words", "nowhere", env={"CONDUCTOR_SERVER_URL": stack.conductor_url}))
    assert urllib3.request("GET", f"{stack.conductor_url}/metadata/taskdefs/{task_name}", timeout=10).status == 404


def test_a_terminal_gets_colour(on_terminal: OnTerminal) -> None:
    code, seen = on_terminal("check", "words")
    assert code == 0
    assert "\x1b[1;32mok:\x1b[0m words.repeat" in seen
    assert "\x1b[36m  PERAGO_LOG_ROOT" in seen


def test_no_color_is_respected_by_the_command(on_terminal: OnTerminal) -> None:
    _, seen = on_terminal("check", "words", env={"NO_COLOR": "1"})
    assert "ok: words.repeat" in seen.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "\x1b[36m" not in seen

"""Task files and `perago.command`: what they declare, and one clear line for everything that is wrong with one."""

import os
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

import perago
from perago import PublishBudget, RetryPolicy, TaskControls, TaskDefinitionError, WorkspaceSpec, require_file, require_glob
from perago.declare import module_loader, module_names, source_record, task_file, taskdef
from perago.declare.command_line import Command
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration, declaration_of, declared_in

GOOD = """
name = "site.render"
owner_email = "web@example.com"
description = "Render the pages."
command = ["sh", "render.sh", "--strict", "pages"]
environment = ["SITE_KEY"]
params = "params.schema.json"

[result]
type = "object"
properties = { pages = { type = "integer" } }
required = ["pages"]
additionalProperties = false

[workspace]
prefix = "/site"
pre = [{ require_glob = "pages/**/*.md", min_count = 2 }, { require_dir = "pages" }]
post = [{ require_file = "index.html" }, { forbid_glob = "**/*.tmp" }]

[controls.retry]
count = 2
[controls.timeout]
response_seconds = 90
"""
PARAMS = """{"type": "object", "additionalProperties": false, "properties": {"title": {"type": "string", "default": "T"}}}"""
LEAST = 'name = "a.b"\nowner_email = "a@b.c"\ncommand = ["sh"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "tasks"
    made.mkdir()
    (made / "render.sh").write_text("exit 0\n")
    (made / "params.schema.json").write_text(PARAMS)
    return made


def load(folder: Path, text: str) -> TaskDeclaration:
    (folder / "render.task.toml").write_text(text)
    return module_loader.load("tasks/render.task.toml")


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(TaskDefinitionError) as refused:
        load(folder, text)
    return str(refused.value).removeprefix("tasks/render.task.toml: ").removeprefix("task 'a.b': ")


def test_everything_that_a_file_says_is_in_the_declaration(folder: Path) -> None:
    found = load(folder, GOOD)
    assert (found.name, found.owner_email, found.description) == ("site.render", "web@example.com", "Render the pages.")
    assert (found.module, found.kind, found.step_name) == ("tasks/render.task.toml", WorkspaceKind.LOCAL, "render")
    assert found.body == Command(
        ("sh", str(folder / "render.sh"), "--strict", "pages"), folder, environment=("SITE_KEY",), step_name="render"
    )
    assert found.workspace == WorkspaceSpec(
        prefix="/site",
        pre=[require_glob("pages/**/*.md", min_count=2), perago.require_dir("pages")],
        post=[require_file("index.html"), perago.forbid_glob("**/*.tmp")],
    )
    assert (found.controls.retry, found.controls.timeout.response_seconds) == (RetryPolicy(count=2), 90)
    assert found.warnings == ()
    assert {str(folder / name) for name in ("render.task.toml", "render.sh", "params.schema.json")} <= source_record.recorded()


def test_its_taskdef_is_that_of_the_same_python_task(folder: Path) -> None:
    class Params(BaseModel):
        title: str = "T"

    class Result(BaseModel):
        pages: int

    @perago.task(
        name="site.render",
        owner_email="web@example.com",
        description="Render the pages.",
        workspace=WorkspaceSpec(prefix="/site"),
        controls=TaskControls(retry=RetryPolicy(count=2), timeout=perago.TimeoutPolicy(response_seconds=90)),
    )
    def render(workspace: Path, params: Params) -> Result:
        raise NotImplementedError

    same = declaration_of(render)
    assert same is not None
    assert taskdef.of(load(folder, GOOD)) == taskdef.of(same)


def test_params_and_result_may_be_left_out(folder: Path) -> None:
    found = load(folder, LEAST)
    assert found.kind is WorkspaceKind.NONE
    assert found.contract.parse_params({}).model_dump() == {}


def test_the_same_file_is_the_same_task_until_it_changes(folder: Path) -> None:
    found = load(folder, GOOD)
    assert module_loader.load(str(folder / "render.task.toml")) is found
    assert load(folder, LEAST) is not found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is not TOML: Invalid value (at end of document)"),
        (LEAST.replace("a.b", "a b"), "task 'a b': name: 'a b' has ' '; use letters, digits, '.', '_' and '-'"),
        ('command = ["sh"]\nowner_email = "a@b.c"', "name: required; write name='...'"),
        ('name = "a.b"\ncommand = ["sh"]', "owner_email: required; write owner_email='team@example.com'"),
        (
            'name = "a.b"\nowner_email = "a@b.c"',
            "command: must be a list of the program and its arguments, such as ['node', 'render.mjs'], not None",
        ),
        (
            LEAST.replace('["sh"]', '"sh"'),
            "command: must be a list of the program and its arguments, such as ['node', 'render.mjs'], not 'sh'",
        ),
        (LEAST.replace('["sh"]', '["sh", 3]'), "command[1]: must be text, not 3; write '3'"),
        (LEAST.replace('["sh"]', '[""]'), "command[0]: '' cannot be started; write the name of a program"),
        (LEAST + "comand = []", "comand: unknown; did you mean 'command'?"),
        (LEAST + "workspace = 3", "workspace: must be a table, not 3"),
        (LEAST + "[workspace]\nprefx = '/'", "workspace.prefx: unknown; did you mean 'prefix'?"),
        (LEAST + "[workspace]\nprefix = 3", "workspace.prefix: must be a str such as '/audio/render', not 3"),
        (LEAST + "[workspace]\nread_only = 'yes'", "workspace.read_only: must be True or False, not 'yes'"),
        (LEAST + "[workspace]\npre = 'x'", "workspace.pre: must be a list of checks, such as [{ require_file = 'x' }], not 'x'"),
        (LEAST + "[workspace]\npre = ['x']", "workspace.pre[0]: must be a table, not 'x'"),
        (
            LEAST + "[workspace]\npost = [{ requir = 'x' }]",
            "workspace.post[0]: must have exactly one of require_file, require_dir, require_glob, forbid_glob; it has requir",
        ),
        (
            LEAST + "[workspace]\npost = [{ require_glob = 'x', min_cuont = 1 }]",
            "workspace.post[0].min_cuont: unknown; did you mean 'min_count'?",
        ),
        (
            LEAST + "[workspace]\npost = [{ require_file = '/x' }]",
            "workspace.post[0].path: '/x' is absolute; write it relative to the workspace root: 'x'",
        ),
        (LEAST + "[controls.retyr]\ncount = 1", "controls.retyr: unknown; did you mean 'retry'?"),
        (LEAST + "[controls.retry]\ncuont = 1", "controls.retry.cuont: unknown; did you mean 'count'?"),
        (LEAST + "[controls.retry]\ncount = '1'", "controls.retry.count: must be an integer, not '1'"),
        (LEAST + "[controls]\nretry = 3", "controls.retry: must be a table, not 3"),
        (LEAST + "environment = 'X'", "environment: must be a list of names of variables, not 'X'"),
        (LEAST + "environment = ['A=B']", "environment[0]: must be the name of a variable, such as 'TZ', not 'A=B'"),
        (
            LEAST + "environment = ['LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY']",
            (
                "environment[0]: LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY is a setting of Perago or of its servers "
                "and is never passed to a command; leave it out"
            ),
        ),
        (LEAST + "params = 3", "params: must be the file of a JSON Schema or the schema itself, not 3"),
        (
            LEAST + "params = { default = 2026-01-01 }",
            "params.default: 2026-01-01 has no JSON form; write text or a finite number",
        ),
        (LEAST + "params = { minimum = nan }", "params.minimum: nan has no JSON form; write text or a finite number"),
        (
            LEAST + "params = { type = 'string' }",
            'params: must be an object with named fields; write "type": "object" and "properties"',
        ),
    ],
)
def test_a_wrong_file_is_one_clear_line(folder: Path, text: str, said: str) -> None:
    assert refusal(folder, text) == said


def test_a_budget_is_read_like_the_other_controls(folder: Path) -> None:
    names = [field for field in PublishBudget.__dataclass_fields__ if field.endswith("_seconds")]
    budget = "[workspace]\n[controls.publish_budget]\n" + "".join(f"{name} = 5\n" for name in names)
    assert "lakefs_merge_timeout_seconds: 5 is below" in refusal(folder, LEAST + budget)
    found = load(folder, LEAST + budget.replace("lakefs_merge_timeout_seconds = 5", "lakefs_merge_timeout_seconds = 10"))
    assert found.controls.publish_budget is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "params: the schema file 'x.json' does not exist; it is looked up in {folder}"),
        (b"", "params: the schema file 'x.json' is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "params: the schema file 'x.json' is not UTF-8 text"),
        (b'{"minimum": NaN}', "params: the schema file 'x.json' is not JSON: NaN has no JSON form"),
        (b'{"a": 1, "a": 2}', "params: the schema file 'x.json' is not JSON: 'a' is written twice in one object"),
        (b"[" * 200_000, "params: the schema file 'x.json' is nested too deeply"),
    ],
)
def test_a_wrong_schema_file_is_one_clear_line(folder: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (folder / "x.json").write_bytes(content)
    assert refusal(folder, LEAST + 'params = "x.json"') == said.format(folder=folder)


def test_a_schema_file_that_is_no_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "the schema file 'pipe' is not a file" in refusal(folder, LEAST + 'params = "pipe"')


def test_programs_that_cannot_be_started(folder: Path) -> None:
    missing = LEAST.replace('"sh"', '"./none.sh"')
    assert refusal(folder, missing) == f"command[0]: there is no file '{folder}/none.sh'"
    plain = refusal(folder, LEAST.replace('"sh"', '"./render.sh"'))
    assert plain == f"command[0]: '{folder}/render.sh' is not executable; run: chmod +x {folder}/render.sh"
    beside = refusal(folder, LEAST.replace('"sh"', '"render.sh"'))
    assert beside == "command[0]: 'render.sh' is not in the PATH, but a file beside the declaration; write './render.sh'"
    (folder / "render.sh").chmod(0o755)
    assert load(folder, LEAST.replace('"sh"', '"./render.sh"')).warnings == ()


def test_a_program_that_only_other_machines_have_is_a_warning_and_refused_where_it_is_run(folder: Path) -> None:
    found = load(folder, LEAST.replace('"sh"', '"no-such-program", "none.mjs"'))
    missing = "the program 'no-such-program' is not in the PATH of this machine; install it, or write its path"
    assert found.warnings == (
        f"command: {missing}.",
        f"command[1]: there is no file 'none.mjs' in {folder}; the command looks for it in its workspace.",
    )
    with pytest.raises(TaskDefinitionError, match=missing):
        module_loader.require_programs([found])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tasks/rendr.task.toml", "there is no file 'tasks/rendr.task.toml'; did you mean tasks/render.task.toml?"),
        ("site.render", "; that is the name of a task: write its module, tasks/render.task.toml"),
        ("pyproject.toml", "'pyproject.toml' is not a task file; the name of one ends in .task.toml, such as render.task.toml"),
    ],
)
def test_names_that_are_nearly_right(folder: Path, given: str, said: str) -> None:
    (folder / "render.task.toml").write_text(GOOD)
    with pytest.raises(TaskDefinitionError) as refused:
        module_loader.load(module_names.dotted(given))
    assert str(refused.value).endswith(said)


def test_names_of_task_files(folder: Path) -> None:
    (folder / "render.task.toml").write_text(GOOD)
    assert list(module_names.in_working_directory()) == ["tasks/render.task.toml"]
    assert module_names.dotted("./tasks/../tasks/render.task.toml") == "tasks/render.task.toml"
    assert module_names.dotted("/elsewhere/x.task.toml") == "/elsewhere/x.task.toml"
    assert module_names.label("tasks/render.task.toml") == "tasks.render"
    assert module_names.label("/elsewhere/x.task.toml") == "x"
    assert module_names.label("tasks.render") == "tasks.render"


class Params(BaseModel):
    title: str


class Secret(BaseModel):
    key: SecretStr


class Output(BaseModel):
    pages: int = 0


render = perago.command(
    ["sh", "-c", "exit 0"],
    name="site.render-pages",
    owner_email="web@example.com",
    params=Params,
    result=Output,
    workspace=WorkspaceSpec(prefix="/site"),
)


def test_a_command_in_python_is_the_task_of_its_module() -> None:
    found = declaration_of(render)
    assert found is not None
    assert found in declared_in(globals())
    assert (found.module, found.step_name, found.contract.params) == (__name__, "render_pages", Params)
    assert isinstance(found.body, Command)
    assert found.body.directory == Path(__file__).parent
    with pytest.raises(TypeError, match=r"is not called; run it with perago.testing.run_task"):
        render(Path(), Params(title="x"))


def test_what_is_wrong_with_a_command_in_python() -> None:
    with pytest.raises(TaskDefinitionError, match="name: required"):
        perago.command(["sh"], owner_email="a@b.c")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TaskDefinitionError, match=r"params\.key: a secret is written as asterisks; write str"):
        perago.command(["sh"], name="a.b", owner_email="a@b.c", params=Secret, result=Output)
    with pytest.raises(TaskDefinitionError, match=r"perago\.command takes one list, not 2 values"):
        perago.command(["sh"], ["x"], name="a.b", owner_email="a@b.c")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def test_a_task_file_for_a_pipeline_is_found_beside_the_calling_module(folder: Path) -> None:
    with pytest.raises(TaskDefinitionError, match=r"there is no file '.*/tests/declare/none.task.toml'"):
        perago.task_file("none.task.toml")
    (folder / "render.task.toml").write_text(GOOD)
    found = declaration_of(perago.task_file(folder / "render.task.toml"))
    assert found is task_file.load("tasks/render.task.toml")

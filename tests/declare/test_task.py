"""The @task decorator: valid and invalid declarations, with the error messages."""

import functools
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, RootModel
from pydantic_settings import BaseSettings

from perago import (
    PublishBudget,
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    TaskDefinitionError,
    TimeoutPolicy,
    WorkspaceSpec,
    forbid_glob,
    require_file,
    require_glob,
    task,
)
from perago.declare.lanes import Lanes
from perago.declare.signature import WorkspaceKind
from perago.declare.task import TaskDeclaration, declaration_of

if TYPE_CHECKING:
    from decimal import Decimal as Unseen


class P(BaseModel):
    n: int


class R(BaseModel):
    n: int


class Rooted(RootModel[list[int]]):
    pass


class Settings(BaseSettings):
    n: int = 1


class Configured(BaseModel):
    model_config = ConfigDict(extra="allow", str_strip_whitespace=True)
    n: int


class HoldsConfigured(BaseModel):
    inner: list[Configured]


def plain(params: P) -> R:
    return R(n=params.n)


def local(workspace: Path, params: P) -> R:
    return R(n=params.n)


def spark(workspace: SparkWorkspace, params: P) -> R:
    return R(n=params.n)


USUAL: dict[str, Any] = {"name": "t", "owner_email": "a@example.com"}


def declare(function: Callable[..., Any] = plain, **given: Any) -> TaskDeclaration:
    @functools.wraps(function)
    def fresh(*args: Any) -> Any:
        return function(*args)

    found = declaration_of(task(**(USUAL | given))(fresh))
    assert found is not None
    return found


def refused(function: Any = plain, **given: Any) -> list[str]:
    """The problems of a declaration, without the heading, which has its own test."""
    with pytest.raises(TaskDefinitionError) as caught:
        task(**(USUAL | given))(function)
    heading, *rest = str(caught.value).split("\n  - ")
    return rest or [heading.partition(": task 't': ")[2] or heading.partition(": ")[2]]


def test_the_function_stays_the_function_and_carries_its_declaration() -> None:
    @task(name="x.y", owner_email="a@example.com", description="d")
    def body(params: P) -> R:
        return R(n=params.n + 1)

    declaration = declaration_of(body)
    assert declaration is not None
    assert body(P(n=1)) == R(n=2)
    assert (declaration.name, declaration.owner_email, declaration.description) == ("x.y", "a@example.com", "d")
    assert declaration.body is body
    assert declaration.module == __name__
    assert declaration.workspace is None
    assert declaration.controls == TaskControls()
    assert declaration.warnings == ()
    assert declaration_of(plain) is None


@pytest.mark.parametrize(
    ("function", "workspace", "kind"),
    [
        (plain, None, WorkspaceKind.NONE),
        (local, WorkspaceSpec(), WorkspaceKind.LOCAL),
        (spark, WorkspaceSpec(prefix="/a/b"), WorkspaceKind.SPARK),
    ],
)
def test_the_three_signatures(function: Callable[..., Any], workspace: WorkspaceSpec | None, kind: WorkspaceKind) -> None:
    declaration = declare(function, workspace=workspace)
    assert declaration.kind is kind
    assert (declaration.contract.params, declaration.contract.result) == (P, R)
    assert declaration.publishes == (kind is not WorkspaceKind.NONE)


def test_positional_only_parameters_are_positional() -> None:
    def body(workspace: Path, params: P, /) -> R:
        return R(n=1)

    assert declare(body, workspace=WorkspaceSpec()).kind is WorkspaceKind.LOCAL


@pytest.mark.parametrize("name", ["features.build", "a", "A_b-c.d", "größe", "x" * 255, "..x", "a:b", "http"])
def test_names_that_are_accepted(name: str) -> None:
    assert declare(name=name).name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "name: must be text such as 'features.build', not ''"),
        (None, "name: must be text such as 'features.build', not None"),
        (5, "name: must be text such as 'features.build', not 5"),
        (".", "name: '.' is not a path segment; write a name such as 'features.build'"),
        ("..", "name: '..' is not a path segment; write a name such as 'features.build'"),
        ("a/b", "name: 'a/b' has '/'; use letters, digits, '.', '_' and '-'"),
        ("a\\b", r"name: 'a\\b' has '\\'; use letters, digits, '.', '_' and '-'"),
        ("a b", "name: 'a b' has ' '; use letters, digits, '.', '_' and '-'"),
        ("a\n", r"name: 'a\n' has '\n'; use letters, digits, '.', '_' and '-'"),
        ("a\u3000b", r"name: 'a\u3000b' has '\u3000'; use letters, digits, '.', '_' and '-'"),
        ("a\x00b", r"name: 'a\x00b' has a control character; use letters, digits, '.', '_' and '-'"),
        ("a\u200bb", r"name: 'a\u200bb' has a control character; use letters, digits, '.', '_' and '-'"),
        ("x" * 256, "name: is longer than 255 bytes; write a shorter one"),
        ("perago.fork", "name: 'perago.fork' begins with 'perago.', as Perago's own tasks do; write 'fork'"),
        ("HTTP", "name: 'HTTP' is one of Conductor's own task types; write another, such as 'features.build'"),
    ],
)
def test_names_that_are_refused(name: object, message: str) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        task(name=name, owner_email="a@example.com")(plain)  # pyright: ignore[reportArgumentType]
    assert str(caught.value).endswith(message)
    assert str(caught.value).startswith(f"{__name__}: ")


@pytest.mark.parametrize("email", ["", "nobody", "a@", "@b", "a b@c", "a@b@c", None, "a@b\n"])
def test_owner_emails_that_are_refused(email: object) -> None:
    assert refused(owner_email=email) == [f"owner_email: must be an e-mail address such as 'team@example.com', not {email!r}"]


@pytest.mark.parametrize("email", ["data@example.com", "a@localhost", "team+x@sub.example.co.uk"])
def test_owner_emails_that_are_accepted(email: str) -> None:
    assert declare(owner_email=email).owner_email == email


WRONG_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"inputTemplate": {}}, "inputTemplate: unknown; accepted are name, owner_email, description, workspace, controls"),
    ({"owner": "x"}, "owner: unknown; did you mean 'owner_email'?"),
    ({"description": 5}, "description: must be a str, not 5"),
    ({"controls": {}}, "controls: must be a TaskControls(...), not {}"),
    ({"controls": TaskControls(retry=RetryPolicy(count=11))}, "controls.retry.count: must be from 0 to 10, not 11"),
]


@pytest.mark.parametrize(("given", "message"), WRONG_ARGUMENTS)
def test_arguments_that_are_refused(given: dict[str, Any], message: str) -> None:
    assert refused(**given) == [message]


def test_name_and_owner_are_required() -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        task()(plain)  # pyright: ignore[reportCallIssue]
    assert str(caught.value) == (
        f"{__name__}: 2 problems"
        "\n  - name: required; write name='...'"
        "\n  - owner_email: required; write owner_email='team@example.com'"
    )


def test_task_without_parentheses_is_refused() -> None:
    with pytest.raises(TaskDefinitionError, match=r"name, owner_email: required; write @task\(name='...', owner_email='...'\)"):
        task(plain)  # pyright: ignore[reportCallIssue]


def test_positional_arguments_are_refused() -> None:
    with pytest.raises(
        TaskDefinitionError, match=r"@task takes no positional values; write name=\.\.\., owner_email=\.\.\., not 'x'"
    ):
        task("x", owner_email="a@example.com")(plain)  # pyright: ignore[reportCallIssue]


def test_a_decorated_function_is_a_function() -> None:
    cached = functools.lru_cache(plain)
    assert task(name="t", owner_email="a@example.com")(cached) is cached
    found = declaration_of(cached)
    assert found is not None
    assert found.module == __name__


def test_only_functions_are_tasks() -> None:
    partial = functools.partial(plain)
    with pytest.raises(TaskDefinitionError, match=r"@task goes on a function, not on functools\.partial"):
        task(name="t", owner_email="a@example.com")(partial)
    assert refused(P) == [f"@task goes on a function, not on {P!r}"]


@pytest.mark.parametrize("prefix", ["/", "/audio/render", "audio/render", "a b", "ünï", "a.b/..c", "C:x"])
def test_prefixes_that_are_accepted(prefix: str) -> None:
    assert declare(local, workspace=WorkspaceSpec(prefix=prefix)).workspace == WorkspaceSpec(prefix=prefix)


@pytest.mark.parametrize(
    ("prefix", "objects"), [("/", ""), ("/audio/render", "audio/render/"), ("audio", "audio/"), ("/audio", "audio/")]
)
def test_the_object_prefix_ends_in_a_slash(prefix: str, objects: str) -> None:
    assert WorkspaceSpec(prefix=prefix).object_prefix == objects


NO_CHECK: Any = "*.tmp"

WRONG_SPECS: list[tuple[Any, str]] = [
    (WorkspaceSpec(prefix=""), "workspace.prefix: must not be empty; write '/' for the whole repository"),
    (WorkspaceSpec(prefix=" /audio"), "workspace.prefix: ' /audio' begins or ends with a space; write '/audio'"),
    (WorkspaceSpec(prefix="/ audio"), "workspace.prefix: '/ audio' begins or ends with a space; write '/audio'"),
    (WorkspaceSpec(prefix="/audio "), "workspace.prefix: '/audio ' begins or ends with a space; write '/audio'"),
    (WorkspaceSpec(prefix="/audio/ "), "workspace.prefix: '/audio/ ' begins or ends with a space; write '/audio'"),
    (WorkspaceSpec(prefix=" "), "workspace.prefix: ' ' begins or ends with a space; write '/'"),
    (WorkspaceSpec(prefix="\u00a0audio"), r"workspace.prefix: '\xa0audio' begins or ends with a space; write '/audio'"),
    (WorkspaceSpec(prefix=".."), "workspace.prefix: '..' leaves the root through '..'; write the path without '..'"),
    (WorkspaceSpec(prefix="/a/../b"), "workspace.prefix: 'a/../b' leaves the root through '..'; write the path without '..'"),
    (WorkspaceSpec(prefix="/./a"), "workspace.prefix: './a' has an empty or '.' segment; write 'a'"),
    (WorkspaceSpec(prefix="/a//b"), "workspace.prefix: 'a//b' has an empty or '.' segment; write 'a/b'"),
    (WorkspaceSpec(prefix="/a/"), "workspace.prefix: 'a/' has an empty or '.' segment; write 'a'"),
    (WorkspaceSpec(prefix="//"), "workspace.prefix: '/' names nothing below the root"),
    (WorkspaceSpec(prefix="a\\b"), r"workspace.prefix: 'a\\b' has a backslash; separate with '/': 'a/b'"),
    (
        WorkspaceSpec(prefix="C:\\data"),
        r"workspace.prefix: 'C:\\data' is a path on the local machine; write it relative to the workspace root",
    ),
    (
        WorkspaceSpec(prefix="C:/data"),
        "workspace.prefix: 'C:/data' is a path on the local machine; write it relative to the workspace root",
    ),
    (WorkspaceSpec(prefix=Path("/a")), f"workspace.prefix: must be a str such as '/audio/render', not {Path('/a')!r}"),  # pyright: ignore[reportArgumentType]
    (WorkspaceSpec(read_only=1), "workspace.read_only: must be True or False, not 1"),  # pyright: ignore[reportArgumentType]
    (WorkspaceSpec(readonly=True), "workspace.readonly: unknown; did you mean 'read_only'?"),  # pyright: ignore[reportCallIssue]
    (WorkspaceSpec(pre=require_file("a")), "workspace.pre: must be a list of checks, such as [require_glob('raw/**/*.parquet')]"),  # pyright: ignore[reportArgumentType]
    (
        WorkspaceSpec(post=[NO_CHECK]),  # pyright: ignore[reportArgumentType]
        (
            "workspace.post[0]: must be require_table, require_file, require_dir, require_glob, forbid_glob or a function of the "
            "workspace, not '*.tmp'"
        ),
    ),
    (WorkspaceSpec(pre=[require_file("a"), require_file("../a")]), "workspace.pre[1].path: '../a' leaves the root through '..'"),
    ("/audio", "workspace: must be a WorkspaceSpec(...), not '/audio'"),
]


@pytest.mark.parametrize(("spec", "message"), WRONG_SPECS)
def test_workspaces_that_are_refused(spec: Any, message: str) -> None:
    (found,) = refused(local, workspace=spec)
    assert found.startswith(message)


def no_annotation(params) -> R:  # noqa: ANN001
    return R(n=1)


def no_return(params: P):  # noqa: ANN201
    return R(n=1)


async def coroutine(params: P) -> R:
    return R(n=1)


def generator(params: P) -> R:  # pyright: ignore[reportInvalidTypeForm]
    yield R(n=1)  # pyright: ignore[reportReturnType]


def other_name(parameters: P) -> R:
    return R(n=1)


def swapped(params: P, workspace: Path) -> R:
    return R(n=1)


def with_default(params: P = P(n=1)) -> R:  # noqa: B008
    return params  # pyright: ignore[reportReturnType]


def keyword_only(*, params: P) -> R:
    return R(n=1)


def variadic(*params: P) -> R:
    return R(n=1)


def mapping_params(params: dict[str, int]) -> R:
    return R(n=1)


def optional_params(params: P | None) -> R:
    return R(n=1)


def base_params(params: BaseModel) -> R:
    return R(n=1)


def root_params(params: Rooted) -> R:
    return R(n=1)


def settings_params(params: Settings) -> R:
    return R(n=1)


def annotated_params(params: Annotated[P, "x"]) -> R:
    return R(n=1)


def no_result(params: P) -> None:
    return None


def unresolved(params: P) -> "Nowhere":  # pyright: ignore[reportUndefinedVariable]  # noqa: F821
    return R(n=1)


def type_checking_only(params: "Unseen") -> R:
    return R(n=1)


def pure_path(workspace: PurePath, params: P) -> R:
    return R(n=1)


SHAPES = "write (workspace: Path, params: P) -> R with a WorkspaceSpec, or (params: P) -> R without one"

WRONG_SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (no_annotation, f"signature.params: has no annotation; {SHAPES}"),
    (no_return, f"signature.return: has no annotation; {SHAPES}"),
    (coroutine, "signature: async is not supported; write a plain def"),
    (generator, "signature: the body yields; return the result instead"),
    (other_name, f"signature: parameters are (parameters: {__name__}.P); {SHAPES}"),
    (with_default, "signature.params: must have no default; defaults belong in the params model"),
    (keyword_only, "signature.params: must be positional: no *args, **kwargs or keyword-only parameters"),
    (variadic, "signature.params: must be positional: no *args, **kwargs or keyword-only parameters"),
    (mapping_params, "signature.params: must be a Pydantic model (class X(BaseModel)), not dict"),
    (optional_params, f"signature.params: must be a Pydantic model (class X(BaseModel)), not {__name__}.P | None"),
    (base_params, "signature.params: must be a Pydantic model (class X(BaseModel)), not BaseModel"),
    (root_params, "signature.params: Rooted is a RootModel; write a model with named fields"),
    (settings_params, "signature.params: Settings is a BaseSettings, which reads the environment; write a BaseModel"),
    (annotated_params, "signature.params: must be a Pydantic model (class X(BaseModel)), not "),
    (no_result, "signature.return: must be a Pydantic model (class X(BaseModel)), not NoneType"),
    (
        unresolved,
        (
            "signature: annotation 'Nowhere' cannot be resolved; define or import it at module level above the task, "
            "not under TYPE_CHECKING"
        ),
    ),
    (
        type_checking_only,
        (
            "signature: annotation 'Unseen' cannot be resolved; define or import it at module level above the task, "
            "not under TYPE_CHECKING"
        ),
    ),
    (local, f"workspace: the function takes a workspace, but @task has no workspace=WorkspaceSpec(...); {SHAPES}"),
]


@pytest.mark.parametrize(("function", "message"), WRONG_SIGNATURES)
def test_signatures_that_are_refused(function: Callable[..., Any], message: str) -> None:
    (found,) = refused(function)
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (plain, f"workspace: @task has a WorkspaceSpec, but the function takes no workspace; {SHAPES}"),
        (swapped, f"signature: parameters are (params: {__name__}.P, workspace: pathlib.Path); {SHAPES}"),
        (pure_path, "signature.workspace: must be annotated Path or SparkWorkspace, not <class 'pathlib.PurePath'>"),
    ],
)
def test_signatures_that_are_refused_with_a_workspace(function: Callable[..., Any], message: str) -> None:
    assert refused(function, workspace=WorkspaceSpec()) == [message]


def test_all_problems_of_a_declaration_come_at_once_under_module_and_task() -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        task(
            name="features.build",
            owner_email="nobody",
            schema={},  # pyright: ignore[reportCallIssue]
            workspace=WorkspaceSpec(prefix="../x", pre=[require_file("/a")], post=[forbid_glob("..")]),
            controls=TaskControls(timeout=TimeoutPolicy(response_seconds=0)),
        )(keyword_only)
    heading, *problems = str(caught.value).split("\n  - ")
    assert heading == f"{__name__}: task 'features.build': 8 problems"
    assert [p.partition(":")[0] for p in problems] == [
        "schema",
        "owner_email",
        "workspace.prefix",
        "workspace.pre[0].path",
        "workspace.post[0].pattern",
        "controls.timeout.response_seconds",
        "workspace",
        "signature.params",
    ]


BUDGET = PublishBudget(1, 1, 2, 1, 1, 1)


def test_a_budget_without_a_workspace_is_refused() -> None:
    controls = TaskControls(publish_budget=BUDGET)
    assert refused(controls=controls) == ["controls.publish_budget: a task without a workspace publishes nothing; remove it"]


def test_a_budget_on_a_read_only_workspace_warns_once() -> None:
    controls = TaskControls(timeout=TimeoutPolicy(response_seconds=1), publish_budget=BUDGET)
    declaration = declare(local, workspace=WorkspaceSpec(read_only=True), controls=controls)
    assert declaration.warnings == (
        "WorkspaceSpec(read_only=True) disables workspace publication; TaskControls.publish_budget is ignored.",
    )
    assert not declaration.publishes


def test_a_budget_above_the_response_timeout_warns() -> None:
    controls = TaskControls(timeout=TimeoutPolicy(response_seconds=4), publish_budget=BUDGET)
    (warning,) = declare(local, workspace=WorkspaceSpec(), controls=controls).warnings
    assert warning == "TaskControls.timeout.response_seconds=4 is below what publish_budget needs; write at least 5."


def test_models_with_a_configuration_of_their_own_warn_at_any_depth() -> None:
    def body(params: HoldsConfigured) -> Configured:
        return params.inner[0]

    assert declare(body).warnings == (
        (
            "Configured has its own model_config (extra, str_strip_whitespace); "
            "Perago refuses unknown fields in every model regardless."
        ),
    )


def test_checks_may_be_a_tuple_or_a_list() -> None:
    spec = WorkspaceSpec(pre=[require_glob("*")], post=(forbid_glob("*"),))
    declaration = declare(local, workspace=spec)
    assert declaration.workspace is not None
    assert declaration.workspace.pre == (require_glob("*"),)
    assert declaration.workspace.post == (forbid_glob("*"),)


def test_the_workspace_of_built_in_tasks_is_refused() -> None:
    def body(workspace: Lanes, params: P) -> R:
        raise NotImplementedError

    with pytest.raises(TaskDefinitionError, match="must be annotated Path or SparkWorkspace"):
        task(name="mine", owner_email="team@example.com", workspace=WorkspaceSpec())(body)

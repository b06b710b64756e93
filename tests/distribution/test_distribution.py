"""The distribution's own name: version, where a project gets it from, and another distribution named `perago`."""

import ast
import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import perago
from perago import distribution
from perago.cli import init, main

CLONE = Path(__file__).parents[2]
PROJECT = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]


def installed(folder: Path, name: str, version: str, origin: object = None) -> None:
    """The metadata that an installer writes for a distribution, as far as it is read."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without any distribution."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_name_is_the_one_of_the_project() -> None:
    assert PROJECT["name"] == distribution.NAME


def test_version_is_the_installed_one(environment: Path) -> None:
    installed(environment, "perago", "0.6.1")
    installed(environment, distribution.NAME, "1.2.3")
    assert perago.__version__ == "1.2.3"


def test_version_in_a_source_tree(environment: Path) -> None:
    assert perago.__version__ == "0+source"
    with pytest.raises(AttributeError):
        _ = perago.__no_such_name__


def test_command_prints_version(environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    installed(environment, distribution.NAME, "1.2.3")
    monkeypatch.setattr(sys, "argv", ["perago", "--version"])
    with pytest.raises(SystemExit):
        main.main()
    assert capsys.readouterr().out == "1.2.3\n"


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, "perago-conductor>=1.2.3"),
        ({"url": CLONE.as_uri(), "dir_info": {}}, f"perago-conductor @ {CLONE.as_uri()}"),
        ({"url": "file:///gone", "dir_info": {}}, "perago-conductor>=1.2.3"),
        (
            {"url": "https://git.example/perago", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "perago-conductor @ git+https://git.example/perago@abc",
        ),
    ],
)
def test_requirement_is_where_it_was_installed_from(environment: Path, origin: object, requirement: str) -> None:
    installed(environment, distribution.NAME, "1.2.3", origin)
    assert distribution.requirement() == requirement


def test_requirement_of_a_source_tree(environment: Path) -> None:
    assert distribution.requirement() == f"perago-conductor @ {CLONE.as_uri()}"


def test_other_distribution_is_a_conflict(environment: Path) -> None:
    assert distribution.conflict() is None
    installed(environment, "perago", "0.6.1")
    assert distribution.conflict() == (
        "the distribution perago 0.6.1 is installed too and its files overwrite those of perago-conductor; "
        "run: pip uninstall perago, then install perago-conductor again"
    )


def test_source_tree_installed_under_the_old_name_is_no_conflict(environment: Path) -> None:
    installed(environment, "perago", "0.1.0", {"url": CLONE.as_uri(), "dir_info": {"editable": True}})
    assert distribution.conflict() is None


@pytest.mark.parametrize("arguments", [["check", "no_such_module"], ["start", "no_such_module"]])
def test_commands_warn_about_other_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    installed(tmp_path, "perago", "0.6.1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["perago", *arguments])
    with pytest.raises(SystemExit):
        main.main()
    warnings = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: the distribution perago 0.6.1")
    ]
    assert len(warnings) == 1


def test_no_hint_names_the_other_distribution() -> None:
    files = [path for path in (CLONE / "src").rglob("*") if path.suffix in {".py", ".template"}]
    assert [path for path in files if "pip install perago" in path.read_text() or "install 'perago" in path.read_text()] == []


def _imported(node: ast.AST) -> list[str]:
    """The top-level packages that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return [one.name.partition(".")[0] for one in node.names] if isinstance(node, ast.Import) else []


def test_every_imported_distribution_is_declared() -> None:
    declared = {requirement.partition(">")[0].strip() for requirement in PROJECT["dependencies"]}
    # Extras, and pydantic-core, which pydantic pins exactly and documents for direct use.
    optional = {"pyspark", "delta-spark", "py4j", "grpcio", "duckdb", "pandera", "pydantic-core"}
    modules = metadata.packages_distributions()
    own = {"perago", "examples"}
    imported = {
        name
        for path in (CLONE / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if name not in sys.stdlib_module_names and name not in own
    }
    used = {modules[name][0].lower().replace("_", "-") for name in imported}
    assert used - optional == declared


@pytest.mark.server  # fetches packages
@pytest.mark.timeout(300)
def test_new_project_installs_in_a_fresh_environment(tmp_path: Path) -> None:
    init.create(tmp_path / "sales")
    python = tmp_path / "venv" / "bin" / "python"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv")], check=True, timeout=60)
    line = [uv, "pip", "install", "--quiet", "--python", str(python), str(tmp_path / "sales")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    line = [str(python.with_name("perago")), "check", "summarize_sales"]
    checked = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (checked.stdout.splitlines()[:1], checked.stderr) == (["ok: sales.summarize"], "")

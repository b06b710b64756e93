"""The manual builds without warnings, and every link, file and program element that it names exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import manual

OUTSIDE = [manual.ROOT / f"{name}.md" for name in ("README", "README.zh-CN", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
PAGES = sorted([*OUTSIDE, *manual.DOCS.rglob("*.md")])
PACKAGE = manual.ROOT / "src" / "perago"

_CODE = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w.-]+(?:/[\w.@-]+)*/(?:[\w.@-]+\.(?:py|tla|go|md|yaml|yml|txt|toml|service))?")
_OF_AUTHORS = re.compile(r"(tests/test_find_notes|_lakefs_actions/|sub/|result/|sample/)")
"""Paths in workspaces and in projects of task authors."""
_CREATED = {"site/"}
"""Directories that commands create."""

_REPLACED = {
    "called off": "cancelled",
    "for ever": "forever",
    "nobody": "no worker, no user, …",
    "orphanage": "orphan reaper",
    "somebody": "a user, another program, …",
    "spine": "transaction",
    "warden": "guardian",
    "whoever": "the user who, the attempt that, …",
    "zombie": "abandoned attempt",
}
"""Words that the manual does not use, and the terms of the glossary or plain words to use instead."""


def _name(page: Path) -> str:
    return str(page.relative_to(manual.ROOT))


def _prose(page: Path) -> str:
    """Without code blocks and code spans, which may quote the program."""
    return re.sub(r"`+[^`]*`+", "", _FENCED.sub("", page.read_text()))


@pytest.mark.slow
def test_manual_builds_without_warnings(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "sphinx", "-qW", "--keep-going", "-d", tmp_path / "trees", manual.DOCS, tmp_path / "site"]
    built = subprocess.run(line, capture_output=True, text=True, check=False, timeout=110)
    assert (built.returncode, built.stderr) == (0, "")
    assert "PG-360" in (tmp_path / "site" / "searchindex.js").read_text().upper()
    assert "_static/copy.js" in (tmp_path / "site" / "index.html").read_text()


def test_terminal_sessions_can_be_copied_without_prompts() -> None:
    """The button copies the lines that begin with a prompt, so that no command may continue on the next line."""
    sessions = [block for page in PAGES for block in manual.blocks(page) if block.language == "console"]
    assert len(sessions) > 10
    for session in sessions:
        assert session.text.startswith("$ ")
        assert not re.search(r"^\$ .*\\$", session.text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_linked_files_exist(page: Path) -> None:
    for link in manual.links(page):
        if not link.startswith(("http://", "https://", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_named_files_exist(page: Path) -> None:
    """A file or directory in a code span is named from the root of the repository or from the package."""
    named = [text for text in _CODE.findall(_FENCED.sub("", page.read_text())) if _FILE.fullmatch(text)]
    for text in named:
        if not _OF_AUTHORS.match(text):
            assert any((base / text).exists() for base in (manual.ROOT, PACKAGE)) or text in _CREATED, text


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_pages_use_the_terms_of_the_glossary(page: Path) -> None:
    text = " ".join(_prose(page).lower().split())
    found = {word: instead for word, instead in _REPLACED.items() if re.search(rf"\b{word}\b", text)}
    assert found == {}


def test_glossary_terms_in_italics_are_defined() -> None:
    text = (manual.DOCS / "glossary.md").read_text()
    entries = {word.strip().lower() for line in re.findall(r"^(.+)\n: ", text, re.MULTILINE) for word in line.split(",")}
    defined = entries | {word.lower() for word in re.findall(r"\*\*([^*]+)\*\*", text)}
    used = {" ".join(word.lower().split()) for word in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", text)}
    assert len(used) > 20
    assert {word for word in used if not any(word in _forms(term) for term in defined)} == set()


def _forms(term: str) -> set[str]:
    return {term, f"{term}s", f"{term}es", f"{term}ed", f"{term.removesuffix('e')}ed", f"{term.removesuffix('ate')}ation"}

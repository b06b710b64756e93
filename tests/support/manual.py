"""The manual as data: pages in; their code blocks, tables and links out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<what>file|terminal): (?P<name>\S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source) [^>]*?\bsrc(?:set)?=\"([^\"]+)\"")


@dataclass(frozen=True, slots=True)
class Block:
    """`file` and `terminal` are what the comment above it says, empty if it says nothing."""

    language: str
    text: str
    file: str = ""
    terminal: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A line after `$ `, and the lines that the page shows for it."""

    line: str
    shown: tuple[str, ...]


def blocks(page: Path) -> Iterator[Block]:
    for found in _BLOCK.finditer(page.read_text()):
        name = {found["what"]: found["name"]} if found["what"] else {}
        yield Block(found["language"], found["text"], **name)


def commands(block: Block) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        yield Command(line, tuple(shown))


def as_pattern(shown: tuple[str, ...]) -> str:
    """`…` alone stands for any lines, inside a line for any text."""
    lines = (r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in shown)
    return "".join(lines)


def rows(page: Path, heading: str | None = None) -> list[list[str]]:
    """The cells of all tables of a page, or of those below one heading."""
    text = page.read_text()
    if heading is not None:
        text = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in found if not set("".join(row)) <= set("-| ")]


def links(page: Path) -> list[str]:
    return [link or image for link, image in _LINK.findall(_FENCE.sub("", page.read_text()))]

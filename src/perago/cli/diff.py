"""The diff that a person sees: changed files in, lines with signs, sizes, differing text and totals out."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from perago.cli import console
from perago.local_run.changes import FileChange, Kind, unified

MAX_FILES = 200
MAX_TEXT_LINES = 400
MAX_LINES_OF_A_FILE = 40
_WIDEST = 60

_LOOK = {Kind.ADDED: ("+", "green"), Kind.CHANGED: ("~", "yellow"), Kind.DELETED: ("-", "red")}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def render(changes: Sequence[FileChange]) -> Iterator[Text]:
    """One line per file, its differing lines below it, totals last."""
    shown = changes[:MAX_FILES]
    width = min(_WIDEST, max((len(console.printable(change.path)) for change in shown), default=0))
    room = MAX_TEXT_LINES
    for change in shown:
        yield _headline(change, width)
        lines = list(_text_lines(change, min(room, MAX_LINES_OF_A_FILE)))
        room -= len(lines)
        yield from lines
    if len(changes) > MAX_FILES:
        yield Text(f"… and {len(changes) - MAX_FILES} more files", style="dim")
    yield totals(changes)


def totals(changes: Sequence[FileChange]) -> Text:
    counts = Counter(change.kind for change in changes)
    upload = sum(change.after.size for change in changes if change.after is not None)
    parts = [Text(f"{counts[kind]} {kind}", style=_LOOK[kind][1] if counts[kind] else "dim") for kind in Kind]
    return Text(", ").join(parts).append(f"; {console.size(upload)} to upload", style="dim")


def _headline(change: FileChange, width: int) -> Text:
    sign, style = _LOOK[change.kind]
    return Text.assemble((f"{sign} {console.printable(change.path):<{width}}", style), (f"  {_sizes(change)}", "dim"))


def _sizes(change: FileChange) -> str:
    sides = [side for side in (change.before, change.after) if side is not None]
    note = ", now executable" if sides[-1].executable and not sides[0].executable else ""
    if len(sides) > 1 and sides[0].executable and not sides[-1].executable:
        note = ", no longer executable"
    return " -> ".join(console.size(side.size) for side in sides) + note


def _text_lines(change: FileChange, room: int) -> Iterator[Text]:
    if change.kind is Kind.DELETED or room <= 0:
        return
    lines = unified(change)
    if lines is None:
        return
    for line in lines[:room]:
        yield Text(f"    {console.printable(line, keep=chr(9))}", style=_LINE_STYLES.get(line[:1], "dim"))
    if len(lines) > room:
        yield Text(f"    … {len(lines) - room} more lines", style="dim")

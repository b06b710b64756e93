from pathlib import Path

from perago.local_run.changes import ChangeKind, FileChange, unified
from perago.local_run.folder_lake import Stored
from perago.model import FilePath
from perago.terminal import diff_view


def stored(folder: Path, name: str, content: bytes) -> Stored:
    at = folder / name
    at.write_bytes(content)
    return Stored(at, len(content), name)


def change(folder: Path, path: str, before: bytes | None, after: bytes | None) -> FileChange:
    sides = [None if side is None else stored(folder, f"{abs(hash(path))}{n}", side) for n, side in enumerate((before, after))]
    return FileChange(FilePath(path), *sides)


def lines(*changes: FileChange) -> list[str]:
    return [text.plain for text in diff_view.render(changes)]


def test_each_kind_has_its_sign_its_sizes_and_its_count(tmp_path: Path) -> None:
    shown = lines(
        change(tmp_path, "added.bin", None, b"\0" * 1500),
        change(tmp_path, "changed.bin", b"\0", b"\0\0"),
        change(tmp_path, "deleted.txt", b"gone\n", None),
    )
    assert shown == [
        "+ added.bin    1.5 kB",
        "~ changed.bin  1 B -> 2 B",
        "- deleted.txt  5 B",
        "1 added, 1 changed, 1 deleted; 1.5 kB to upload",
    ]


def test_small_text_is_shown_line_by_line(tmp_path: Path) -> None:
    shown = lines(change(tmp_path, "t.csv", b"a\nb\nc\n", b"a\nB\nc\n"))
    assert shown[1:-1] == ["    @@ -1,3 +1,3 @@", "     a", "    -b", "    +B", "     c"]


def test_large_and_binary_files_are_shown_by_size_only(tmp_path: Path) -> None:
    assert unified(change(tmp_path, "big", None, b"x\n" * 40_000)) is None
    assert unified(change(tmp_path, "latin", b"\xe9\n", b"x\n")) is None
    assert unified(change(tmp_path, "nul", b"a\0b", b"x\n")) is None


def test_long_text_is_cut_with_a_count(tmp_path: Path) -> None:
    shown = lines(change(tmp_path, "long.txt", None, b"x\n" * 100))
    assert shown[-2] == "    … 61 more lines"
    assert len(shown) == diff_view.MAX_LINES_OF_A_FILE + 3


def test_many_files_are_cut_with_a_count_but_the_totals_hold_all(tmp_path: Path) -> None:
    one = stored(tmp_path, "one", b"\0")
    shown = lines(*(FileChange(FilePath(f"f{n:04d}"), None, one) for n in range(250)))
    assert shown[-2] == "… and 50 more files"
    assert shown[-1] == "250 added, 0 changed, 0 deleted; 250 B to upload"


def test_escape_sequences_in_names_and_text_never_reach_the_terminal(tmp_path: Path) -> None:
    shown = "\n".join(lines(change(tmp_path, "a\x1b[2J.txt", None, b"\x1b]0;title\x07\n")))
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_kinds(tmp_path: Path) -> None:
    assert change(tmp_path, "k", None, b"").kind is ChangeKind.ADDED
    assert change(tmp_path, "k", b"", b"").kind is ChangeKind.CHANGED
    assert change(tmp_path, "k", b"", None).kind is ChangeKind.DELETED

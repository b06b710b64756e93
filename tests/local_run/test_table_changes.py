"""Tables among the changes: which files form one, its rows and columns before and after, and how that is shown."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from perago import WorkspaceSpec, task
from perago.local_run import changes, table_changes, table_files
from perago.local_run.changes import ChangeKind
from perago.local_run.folder_lake import Stored
from perago.model import ObjectPath
from perago.terminal import diff_view, table_view
from perago.testing import TableChange, TableSide, run_task

Side = dict[ObjectPath, Stored]


class Folder:
    """Files on disk as the objects of a commit."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0

    def stored(self, data: bytes | pa.Table) -> Stored:
        self._count += 1
        at = self._root / str(self._count)
        if isinstance(data, bytes):
            at.write_bytes(data)
        else:
            pq.write_table(data, at)
        return Stored(at, at.stat().st_size, str(self._count))

    def side(self, files: dict[str, bytes | pa.Table]) -> Side:
        return {ObjectPath(path): self.stored(data) for path, data in files.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def rows(count: int, **columns: type) -> pa.Table:
    kinds = columns or {"id": int}
    return pa.table({name: [kind(number) for number in range(count)] for name, kind in kinds.items()})


def shown(before: Side, after: Side) -> list[str]:
    found = table_changes.between(before, after, "")
    return [text.plain for text in diff_view.render(changes.between(before, after, ""), found)]


def summary(one: TableChange) -> tuple[str, int | None, int | None]:
    return one.path, one.before.rows if one.before else None, one.after.rows if one.after else None


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("orders.parquet", ("", "parquet", "orders")),
        ("clean/part-0001-ab12cd34.snappy.parquet", ("clean", "parquet", "part-")),
        ("clean/day=1/hour=2/part-0.parquet", ("clean", "parquet", "part-")),
        ("clean/2024-01.csv", ("clean", "csv", "*-*")),
        ("log/part-00.json", ("log", "json lines", "part-")),
        ("events.jsonl", ("", "json lines", "events")),
    ],
)
def test_files_belong_to_the_table_of_their_directory_and_name(path: str, key: tuple[str, str, str]) -> None:
    assert table_files.key_of(path) == table_files.TableKey(*key)


@pytest.mark.parametrize("path", ["a.txt", "config.json", "_SUCCESS", ".part-0.parquet.crc", "_delta_log/0.parquet", "parquet"])
def test_other_files_belong_to_none(path: str) -> None:
    assert table_files.key_of(path) is None


def test_a_table_of_many_files_is_one_line_with_files_that_did_not_change_counted(folder: Folder) -> None:
    kept = folder.side({"orders/part-0.parquet": rows(1000, id=int, amount=int, old=str)})
    before = {**kept, **folder.side({"orders/part-1.parquet": rows(10, id=int, amount=int, old=str), "a.txt": b"x\n"})}
    new = rows(300, id=int, amount=float, note=str)
    after = {**kept, **folder.side({"orders/part-1.parquet": new, "orders/part-2.parquet": new, "a.txt": b"y\n"})}
    assert shown(before, after)[:4] == [
        "~ orders/  parquet, 2 -> 3 files, 1,010 -> 1,600 rows, 3 -> 4 columns",
        "    + column note string",
        "~ a.txt  2 B -> 2 B",
        "    @@ -1 +1 @@",
    ]


def test_columns_that_were_removed_or_have_another_type_are_listed(folder: Folder) -> None:
    before = folder.side({"orders.parquet": rows(2, id=int, amount=int, old=str)})
    after = folder.side({"orders.parquet": rows(3, id=int, amount=float, note=str)})
    lines = shown(before, after)
    assert lines[0].startswith("~ orders.parquet  ")
    assert lines[1:5] == [
        "    parquet, 2 -> 3 rows, 3 columns",
        "    + column note string",
        "    - column old string",
        "    ~ column amount int64 -> double",
    ]


def test_new_and_deleted_tables_and_partitions(folder: Folder) -> None:
    before = folder.side({"gone/part-0.parquet": rows(5), "gone/part-1.parquet": rows(5)})
    after = folder.side({f"new/day={day}/x.parquet": rows(day) for day in (1, 2)})
    found = table_changes.between(before, after, "")
    assert [(summary(one), one.kind) for one in found] == [
        (("gone/", 10, None), ChangeKind.DELETED),
        (("new/", None, 3), ChangeKind.ADDED),
    ]
    assert found[1].after is not None
    assert found[1].after.columns == {"id": "int64", "day": "partition"}
    assert shown(before, after)[:2] == [
        "- gone/  parquet, 2 files, 10 rows, 1 column",
        "+ new/  parquet, 2 files, 3 rows, 2 columns",
    ]


def test_two_tables_in_one_directory_stay_apart_and_numbered_files_are_one(folder: Folder) -> None:
    files = {"raw/orders.parquet": rows(1), "raw/customers.parquet": rows(2), "raw/2024-01.parquet": rows(3)}
    after = folder.side({**files, "raw/2024-02.parquet": rows(4)})
    found = table_changes.between({}, after, "")
    assert [summary(one) for one in found] == [
        ("raw/*-*", None, 7),
        ("raw/customers.parquet", None, 2),
        ("raw/orders.parquet", None, 1),
    ]


def test_small_text_keeps_its_lines_and_large_text_gets_its_rows(folder: Folder) -> None:
    small = folder.side({"s.csv": b"id,name\n1,a\n"})
    assert table_changes.between({}, small, "") == ()
    lines = b"".join(b'%d,"a\nb"\n' % number for number in range(20_000))
    large = folder.side({"big.csv": b"id,name\n" + lines, "big.jsonl": b'{"a": 1, "b": null}\n' * 40_000})
    csv_table, json_table = table_changes.between({}, large, "")
    assert csv_table.after == TableSide(1, 20_000, {"id": "", "name": ""})
    assert json_table.after == TableSide(1, 40_000, {"a": "", "b": ""})


def test_text_in_several_files_has_a_line_before_its_files(folder: Folder) -> None:
    after = folder.side({"t/part-0.csv": b"1,x\n2,y\n", "t/part-1.csv": b"3,z\n"})
    assert shown({}, after)[:2] == ["+ t/  csv, 2 files, 3 rows, 2 columns", "+ t/part-0.csv  8 B"]


def test_a_file_that_is_not_what_its_name_says_is_shown_as_before(folder: Folder) -> None:
    after = folder.side({"x.parquet": b"\0not parquet"})
    assert table_changes.between({}, after, "") == ()
    mixed = folder.side({"t/part-0.parquet": rows(2), "t/part-1.parquet": b"\0not parquet"})
    assert shown({}, mixed)[0] == "+ t/  parquet, 2 files, ? rows, 1 column"


def test_a_delta_table_is_not_counted(folder: Folder) -> None:
    after = folder.side({"d/part-0.parquet": rows(2), "d/_delta_log/00.json": b"{}"})
    assert table_changes.between({}, after, "") == ()


def test_nothing_is_read_of_tables_that_did_not_change(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder.side({"t/part-0.parquet": rows(2), "u.parquet": rows(1)})
    read: list[Path] = []
    facts = table_files.facts

    def recorded(path: Path, table_format: str) -> table_files.FileFacts | None:
        read.append(path)
        return facts(path, table_format)

    monkeypatch.setattr(table_files, "facts", recorded)
    after = {**before, **folder.side({"u.parquet": rows(9)})}
    assert [summary(one) for one in table_changes.between(before, after, "")] == [("u.parquet", 1, 9)]
    assert read == [before[ObjectPath("u.parquet")].at, after[ObjectPath("u.parquet")].at]


def test_the_prefix_is_not_shown(folder: Folder) -> None:
    after = folder.side({"shop/orders.parquet": rows(1)})
    assert [one.path for one in table_changes.between({}, after, "shop/")] == ["orders.parquet"]


def test_what_is_shown_is_bounded(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = pa.table({f"c{number}": [1] for number in range(60)})
    before, after = folder.side({"t.parquet": rows(1)}), folder.side({"t.parquet": wide})
    assert "    … 41 more columns" in shown(before, after)
    many = folder.side({f"t{chr(97 + n // 26)}{chr(97 + n % 26)}/part-0.parquet": rows(1) for n in range(60)})
    assert shown({}, many)[table_view.MAX_TABLES] == "… and 10 more tables"
    monkeypatch.setattr(table_changes, "MAX_FILES", 1)
    two = folder.side({"t/part-0.parquet": rows(1), "t/part-1.parquet": rows(1)})
    assert shown({}, two)[0] == "+ t/  parquet, 2 files, ? rows, 0 columns"


class Empty(BaseModel):
    pass


@task(name="t.tables", owner_email="a@example.com", workspace=WorkspaceSpec(prefix="/shop"))
def write_table(workspace: Path, params: Empty) -> Empty:
    del params
    pq.write_table(rows(5, id=int, note=str), workspace / "orders.parquet")
    return Empty()


def test_a_test_of_a_task_sees_its_tables(folder: Folder) -> None:
    before = folder.stored(rows(3)).at.read_bytes()
    run = run_task(write_table, files={"orders.parquet": before})
    assert run.ok, run.report()
    (table,) = run.tables
    assert (summary(table), table.added_columns) == (("orders.parquet", 3, 5), {"note": "string"})

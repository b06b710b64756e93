"""Checks on a listing: what they accept, their messages, and globs compared with an independent implementation."""

import time
from collections.abc import Callable, Sequence
from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcmatch import glob as wcglob

from perago import PostGuardrailViolation, PreGuardrailViolation, forbid_glob, require_dir, require_file, require_glob
from perago.declare import checks, globs
from perago.model import MARKER_NAME, FilePath, Listing


def listing(*files: str, empty: Sequence[str] = ()) -> Listing:
    return Listing([FilePath(f) for f in files], [FilePath(d) for d in empty])


HOLDS: list[tuple[checks.Check, Listing]] = [
    (require_file("a"), listing("a")),
    (require_file("a/b.txt"), listing("a/b.txt")),
    (require_file(PurePosixPath("a/b.txt")), listing("a/b.txt")),
    (require_file(PureWindowsPath("a\\b.txt")), listing("a/b.txt")),
    (require_dir("a"), listing("a/b/c")),
    (require_dir("a/b"), listing("a/b/c")),
    (require_dir("a/b/"), listing("a/b/c")),
    (require_dir("a"), listing(empty=["a"])),
    (require_dir("a"), listing(empty=["a/b"])),
    (require_glob("raw/**/*.parquet"), listing("raw/x.parquet")),
    (require_glob("raw/**/*.parquet"), listing("raw/1/2/3/x.parquet")),
    (require_glob("raw/**"), listing("raw/1/2")),
    (require_glob("**"), listing("x")),
    (require_glob("**/x"), listing("x")),
    (require_glob("*", min_count=2, max_count=2), listing("a", "b", "c/d")),
    (require_glob("x", min_count=0, max_count=0), listing("y")),
    (require_glob("[ab]?.t[!m]t"), listing("a1.txt")),
    (require_glob(PurePath("raw") / "*.csv"), listing("raw/a.csv")),
    (forbid_glob("**/*.tmp"), listing("a/b.txt", "tmp/x", "x.tmp/y")),
    (forbid_glob("*.tmp"), listing("deep/x.tmp")),
    (forbid_glob("**/*"), listing(MARKER_NAME, f"sub/{MARKER_NAME}", empty=["a"])),
    (forbid_glob("raw/**"), listing("raw2/x", "raw")),
]


@pytest.mark.parametrize(("check", "files"), HOLDS)
def test_holds(check: checks.FileCheck, files: Listing) -> None:
    assert list(check.problems()) == []
    assert checks.violations([check], files, "pre") == []


BROKEN: list[tuple[checks.Check, Listing, str]] = [
    (require_glob("raw/**/*.parquet"), listing(), "require_glob('raw/**/*.parquet') matched 0 files; min_count=1"),
    (require_glob("*", min_count=3), listing("a", "b"), "require_glob('*') matched 2 files; min_count=3"),
    (require_glob("*", max_count=1), listing("a", "b"), "require_glob('*') matched 2 files; max_count=1"),
    (require_glob("*", min_count=2), listing("a"), "require_glob('*') matched 1 file; min_count=2"),
    (require_glob("**/*"), listing(MARKER_NAME, empty=["a"]), "require_glob('**/*') matched 0 files; min_count=1"),
    (require_glob("raw/*"), listing("raw/a/b"), "require_glob('raw/*') matched 0 files; min_count=1"),
    (require_glob("A"), listing("a"), "require_glob('A') matched 0 files; min_count=1"),
    (require_file("a"), listing("b"), "require_file('a') found no such file"),
    (require_file("a"), listing("a/b"), "require_file('a') found a directory, not a file"),
    (require_dir("a"), listing("ab/c"), "require_dir('a') found no such directory"),
    (require_dir("a"), listing("a"), "require_dir('a') found a file, not a directory"),
    (forbid_glob("**/*.tmp"), listing("x.tmp"), "forbid_glob('**/*.tmp') matched 1 file: x.tmp"),
    (forbid_glob("**/*.tmp"), listing("a/.x.tmp"), "forbid_glob('**/*.tmp') matched 1 file: a/.x.tmp"),
    (forbid_glob("**/*"), listing(".hidden/.x"), "forbid_glob('**/*') matched 1 file: .hidden/.x"),
    (forbid_glob("*"), listing("d", "c", "b", "a", "e"), "forbid_glob('*') matched 5 files: a, b, c and 2 more"),
]


@pytest.mark.parametrize(("check", "files", "message"), BROKEN)
def test_does_not_hold(check: checks.Check, files: Listing, message: str) -> None:
    assert checks.violations([check], files, "pre") == [f"pre guardrail {message}"]


def test_all_broken_checks_are_in_the_error_and_its_class_says_when() -> None:
    broken = [require_file("a"), require_file("here"), require_dir("b")]
    with pytest.raises(PreGuardrailViolation) as pre:
        checks.refuse(checks.violations(broken, listing("here"), "pre"), "pre")
    assert str(pre.value) == (
        "pre guardrail require_file('a') found no such file | pre guardrail require_dir('b') found no such directory"
    )
    with pytest.raises(PostGuardrailViolation, match="post guardrail require_dir"):
        checks.refuse(checks.violations(broken, listing("here"), "post"), "post")
    checks.refuse(checks.violations(broken[1:2], listing("here"), "post"), "post")


REFUSED: list[tuple[Callable[[], checks.Check], str]] = [
    (lambda: require_file("/a/b"), "path: '/a/b' is absolute; write it relative to the workspace root: 'a/b'"),
    (lambda: require_file(PurePosixPath("/a")), "path: '/a' is absolute; write it relative to the workspace root: 'a'"),
    (lambda: require_dir("../a"), "path: '../a' leaves the root through '..'; write the path without '..'"),
    (lambda: require_dir("a/../b"), "path: 'a/../b' leaves the root through '..'; write the path without '..'"),
    (lambda: require_file("a\\b"), "path: 'a\\\\b' has a backslash; separate with '/': 'a/b'"),
    (lambda: require_file("C:\\a"), "path: 'C:\\\\a' is a path on the local machine; write it relative to the workspace root"),
    (
        lambda: require_file(PureWindowsPath("C:/a")),
        "path: 'C:/a' is a path on the local machine; write it relative to the workspace root",
    ),
    (lambda: require_file("./a"), "path: './a' has an empty or '.' segment; write 'a'"),
    (lambda: require_file("a//b"), "path: 'a//b' has an empty or '.' segment; write 'a/b'"),
    (lambda: require_file("a/"), "path: 'a/' has an empty or '.' segment; write 'a'"),
    (lambda: require_dir("."), "path: '.' names nothing below the root"),
    (lambda: require_file(""), "path: '' names nothing below the root"),
    (lambda: require_file("a\0"), "path: 'a\\x00' has a control character; leave it out"),
    (lambda: require_file(3), "path: must be a str or a PurePath, not 3"),  # pyright: ignore[reportArgumentType]
    (require_file, "path: required"),  # pyright: ignore[reportAssignmentType]
    (lambda: forbid_glob("/**/*.tmp"), "pattern: '/**/*.tmp' is absolute; write it relative to the workspace root: '**/*.tmp'"),
    (lambda: forbid_glob("**\\*.tmp"), "pattern: '**\\\\*.tmp' has a backslash; separate with '/': '**/*.tmp'"),
    (lambda: forbid_glob("../*"), "pattern: '../*' leaves the root through '..'; write the path without '..'"),
    (
        lambda: forbid_glob("a**/b"),
        "pattern: 'a**/b' has '**' beside other characters; '**' is a whole segment, as in 'raw/**/*.parquet'",
    ),
    (lambda: require_glob("*", min_count=-1), "min_count: must be at least 0, not -1"),
    (lambda: require_glob("*", max_count=-1), "max_count: must be at least 0, not -1"),
    (lambda: require_glob("*", min_count="1"), "min_count: must be an integer, not '1'"),  # pyright: ignore[reportArgumentType]
    (lambda: require_glob("*", min_count=2, max_count=1), "max_count: 1 is below min_count=2; write at least 2"),
    (lambda: require_glob("*", max_count=0), "max_count: 0 is below min_count=1; write forbid_glob(...) for none"),
    (lambda: require_glob("*", mincount=1), "mincount: unknown; did you mean 'min_count'?"),  # pyright: ignore[reportCallIssue]
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refuses(make: Callable[[], checks.FileCheck], message: str) -> None:
    assert [str(problem) for problem in make().problems()] == [message]


names = st.text("ab.-x[]!^", min_size=1, max_size=4).filter(lambda s: s not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
segments = st.one_of(
    st.just("**"), st.text("ab.*?-x", min_size=1, max_size=4).filter(lambda s: "**" not in s and s not in {".", ".."})
)
patterns = st.lists(segments, min_size=1, max_size=4).map("/".join)


@given(patterns, st.lists(paths, max_size=8))
def test_globs_agree_with_wcmatch(pattern: str, files: list[str]) -> None:
    flags = wcglob.GLOBSTAR | wcglob.DOTGLOB | wcglob.CASE | wcglob.FORCEUNIX
    # wcmatch lets a trailing `**` match the directory above it too; files are never that.
    oracle = f"{pattern}/*" if pattern.endswith("**") else pattern
    assert globs.matching(pattern, files) == [f for f in files if wcglob.globmatch(f, oracle, flags=flags)]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("[a-c]", ["a", "b", "c"]),
        ("[!a-c]", ["-", "]", "^", "d"]),
        ("[]]", ["]"]),
        ("[!]]", ["-", "^", "a", "b", "c", "d"]),
        ("[-]", ["-"]),
        ("[^]", ["^"]),
        ("[", []),
        ("a[/]b", []),
        ("a[!x]b", []),
    ],
)
def test_character_classes(pattern: str, matched: list[str]) -> None:
    assert sorted(globs.matching(pattern, ["a", "b", "c", "d", "]", "-", "^", "a/b"])) == matched


def test_an_unclosed_bracket_is_a_bracket() -> None:
    assert globs.matching("x[a", ["x[a", "xa"]) == ["x[a"]


def test_a_pattern_of_many_stars_stays_quick() -> None:
    began = time.perf_counter()
    assert globs.matching("*a" * 30 + "b", ["a" * 200]) == []
    assert time.perf_counter() - began < 1


TEN_GLOBS = [
    require_glob("raw/**/*.parquet"),
    require_glob("**/*"),
    require_glob("**/part-*"),
    require_glob("raw/day=*/**/part-?????.parquet"),
    require_glob("**/[a-z]*/*"),
    require_glob("**/hour=1*/**"),
    forbid_glob("**/*.tmp"),
    forbid_glob("**/_temporary/**"),
    forbid_glob("**/.*"),
    forbid_glob("**/*.crc"),
]


def test_ten_globs_over_a_hundred_thousand_files_take_less_than_a_second() -> None:
    files = listing(*(f"raw/day={i % 365:03}/hour={i % 24:02}/part-{i:05}.parquet" for i in range(100_000)))
    began = time.process_time()
    assert checks.violations(TEN_GLOBS, files, "post") == []
    assert time.process_time() - began < 1

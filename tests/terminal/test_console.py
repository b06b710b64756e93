import json

import pytest

from perago.terminal import console


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1400, "1.4 kB"),
        (999_600, "1 MB"),
        (2_345_678, "2.35 MB"),
        (5 * 10**12, "5 TB"),
    ],
)
def test_sizes_read_like_a_person_writes_them(count: int, text: str) -> None:
    assert console.size(count) == text


def test_what_a_terminal_would_obey_is_made_visible() -> None:
    assert console.printable("a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"
    assert console.printable("naïve 文件 🙂") == "naïve 文件 🙂"
    assert console.printable("a\tb", keep="\t") == "a\tb"
    assert console.printable("bad\udce9name") == "bad\\udce9name"


def test_an_error_is_a_line_on_stderr_and_its_items_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    console.error("two problems\n  - a [bold]line[/bold] \x1b[2J\n  - another")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: two problems\n  - a [bold]line[/bold] \\x1b[2J\n  - another\n"


def test_a_pipe_gets_plain_uncut_lines(capsys: pytest.CaptureFixture[str]) -> None:
    value = "x" * 500
    console.pairs("settings", [("NAME", value), ("OTHER", "two words")])
    assert capsys.readouterr().out == f"NAME: {value}\nOTHER: two words\n"


def test_a_terminal_gets_a_titled_block_with_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    console.pairs("settings", [("NAME", "value"), ("LONGER", ("good", "green"))])
    title, first, second = capsys.readouterr().out.splitlines()
    assert title == "\x1b[1msettings\x1b[0m"
    assert first == "\x1b[36m  NAME  \x1b[0m  value"
    assert second == "\x1b[36m  LONGER\x1b[0m  \x1b[32mgood\x1b[0m"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_switched_off(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console.error("with colours")
    monkeypatch.setenv(name, value)
    console.error("without")
    assert capsys.readouterr().err == "\x1b[1;31merror:\x1b[0m with colours\nerror: without\n"


def test_json_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    console.write_json({"name": "größe", "n": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"name": "größe", "n": [1, None]}

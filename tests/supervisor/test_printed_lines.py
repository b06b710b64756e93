"""What a body prints reaches Conductor's task log in few entries, each with the last lines."""

from perago.supervisor.printed_lines import ENTRIES, FIRST_SECONDS, KEPT_LINES, LONGEST_LINE, PrintedLines


def test_lines_of_a_body_that_prints_without_end_are_bounded() -> None:
    printed, times = PrintedLines(due=FIRST_SECONDS), []
    for second in range(100_000):
        printed.add("stdout", f"{second} {'x' * 2000}")
        if entry := printed.entry(float(second)):
            times.append(second)
            assert len(entry) <= KEPT_LINES + 1
            assert max(map(len, entry)) <= LONGEST_LINE
            assert entry[-1].startswith(f"{second} ")
    assert times == [5, 20, 65, 200, 605, 1820, 5465]
    assert len(times) == ENTRIES
    left_out, *rest = printed.take()
    assert left_out == f"… {100_000 - 5466 - KEPT_LINES} lines left out; the worker's log has all of them …"
    assert len(rest) == KEPT_LINES


def test_no_line_is_written_twice() -> None:
    printed = PrintedLines(due=5.0)
    assert printed.entry(6.0) == ()
    printed.add("stdout", "one")
    assert printed.entry(4.0) == ()
    assert printed.entry(7.0) == ("one",)
    assert printed.take() == ()


def test_streams_keep_their_order_and_their_own_last_lines() -> None:
    printed = PrintedLines(due=0.0)
    for stream, line in (("stdout", "a"), ("stderr", "b"), ("stdout", "c")):
        printed.add(stream, line)
    assert printed.take() == ("a", "b", "c")
    printed.add("stderr", "why it failed")
    for _ in range(100):
        printed.add("stdout", "y")
    assert printed.take()[1:] == ("why it failed", *["y"] * KEPT_LINES)

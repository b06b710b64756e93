"""Progress of a test run as lines: percent, counts and time at each further percent or so, and each failure at once."""

import time

import pytest

SECONDS_BETWEEN_LINES = 5.0


class ProgressLines:
    """A pytest plugin that replaces the row of dots, with and without xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = self._last_line = time.monotonic()
        self._finished: set[str] = set()
        self._failed = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letters: passed tests are only counted, and failed ones get a separate line."""
        if not self._is_plain() or not (report.passed or report.failed):
            return None
        if report.passed:
            return ("passed" if report.when == "call" else "", "", "")
        return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed += 1
            self._write(f"FAILED {report.nodeid} ({report.when})")
        if report.when == "teardown":
            self._finished.add(report.nodeid)
            if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
                self._write(self._line(report.nodeid))

    def _line(self, nodeid: str) -> str:
        total = self._session.testscollected or len(self._finished)
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        failed = f", {self._failed} failed" if self._failed else ""
        done = len(self._finished)
        return f"{done / total:4.0%}  {done} of {total} tests{failed}  {minutes}:{seconds:02d}  {nodeid.partition('::')[0]}"

    def _is_plain(self) -> bool:
        return self._config.get_verbosity() == 0

    def _write(self, line: str) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._is_plain():
            self._last_line = time.monotonic()
            terminal.ensure_newline()
            terminal.write_line(line)

"""The part of the saved report that tells how the pipeline ran: every attempt, its commit, and what was replaced."""

from collections.abc import Iterator, Sequence
from html import escape

from perago.model import Commit
from perago.operate.run_state import StepAttempt

_SHORT_ID = 12
_STYLE = """<style>
.runs table { border-collapse: collapse } .runs tr { border-bottom: 1px solid #8884 }
.runs td, .runs th { text-align: left; padding: .3rem 1rem .3rem 0 } .runs td:nth-child(-n+5) { white-space: nowrap }
@media (max-width: 600px) {
  .runs table, .runs tbody { display: block } .runs td:empty, .runs th:empty { display: none }
  .runs tr { display: grid; grid-template-columns: 5.5rem 5rem 6.5rem 1fr; gap: 0 .3rem; padding: .3rem 0 }
  .runs td, .runs th { padding: 0 }
  .runs :is(td, th):nth-child(5) { grid-column: 1 / 3 } .runs td:nth-child(6) { grid-column: 3 / -1 }
}
</style>"""
_COLUMNS = ("step", "attempt", "status", "time", "commit", "")


def added(page: str, attempts: Sequence[StepAttempt], abandoned: Commit) -> str:
    """The page of the pipeline with a section about its run. `abandoned` was published by the worker that was killed."""
    rows = "".join(_html(row, "td") for row in rows_of(attempts, abandoned))
    section = (
        f"{_STYLE}<section><h2>How this page was made</h2>"
        f"<p>The worker was killed after it had published {abandoned.id[:_SHORT_ID]} "
        "and before Conductor got its report. Conductor timed the attempt out, and the next attempt replaced that commit.</p>"
        f'<div class="runs"><table>{_html(_COLUMNS, "th")}{rows}</table></div></section>'
    )
    before, end, after = page.rpartition("</html>")
    return f"{before}{section}{end}{after}" if end else f"{page}{section}"


def rows_of(attempts: Sequence[StepAttempt], abandoned: Commit) -> Iterator[tuple[str, ...]]:
    """One row per attempt, in the order in which Conductor scheduled them."""
    accepted = {one.step: one.commit for one in attempts if one.status == "COMPLETED"}
    for one in attempts:
        commit, note = one.commit, ""
        if one.status == "TIMED_OUT":
            commit, note = abandoned.id, f"worker killed, replaced by {accepted.get(one.step, '')[:_SHORT_ID]}"
        elif one.status == "COMPLETED" and not commit:
            note = "read-only"
        yield one.step, str(one.attempt), one.status, f"{one.seconds:.1f} s", commit[:_SHORT_ID], note


def _html(cells: Sequence[str], kind: str) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"

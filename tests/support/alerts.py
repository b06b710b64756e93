"""The alerts of the page about monitoring, evaluated on what a worker serves and logs."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from tests.support import manual
from tests.support.waiting import eventually
from tests.support.worker_harness import Worker

PAGE = manual.DOCS / "how-to" / "monitor.md"
_QUERY = re.compile(r"(?:increase\()?(perago_\w+)(?:\{(.*)\})?(?:\[\w+\]\))? (> 0|== 0)")
_SERIES = re.compile(r"(perago_\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
Scrape = dict[tuple[str, str], float]


def table() -> dict[str, list[str]]:
    """The code in the second column, by the name of the alert."""
    rows = manual.rows(PAGE, "What to alert on")[1:]
    return {row[0]: re.findall(r"`([^`]+)`", row[1].replace(r"\|", "|")) for row in rows if not row[0].startswith("-")}


@contextmanager
def fires(name: str, worker: Worker) -> Generator[None]:
    """What happens in the block causes the alert, which was silent before."""
    before = scrape(worker)
    queries = [text for text in table()[name] if text.startswith(("perago_", "increase("))]
    events = [text for text in table()[name] if text not in queries]
    assert queries
    assert not any(is_true(query, before, before) for query in queries)
    said = {event: len(worker.said(event)) for event in events}
    yield
    for query in queries:
        eventually(lambda query=query: is_true(query, before, scrape(worker)), what=query)
    for event in events:
        worker.until(event, count=said[event] + 1)


def scrape(worker: Worker) -> Scrape:
    lines = worker.fetch("/metrics")[1].splitlines()
    found = [made for line in lines if (made := _SERIES.fullmatch(line))]
    return {(one[1], one[2] or ""): float(one[3]) for one in found}


def is_true(query: str, before: Scrape, after: Scrape) -> bool:
    """As Prometheus evaluates it: the increase of a series counts only if the series existed before."""
    parsed = _QUERY.fullmatch(query)
    assert parsed, f"not understood: {query}"
    name, wanted, comparison = parsed.groups()
    chosen = [key for key in after if key[0] == name and _matches(key[1], wanted or "")]
    assert chosen, f"the worker serves nothing for {query}"
    if comparison == "== 0":
        return any(after[key] == 0 for key in chosen)
    return any(after[key] > before[key] for key in chosen if key in before)


def _matches(labels: str, wanted: str) -> bool:
    given = {name: value for name, _, value in _LABEL.findall(labels)}
    for name, operator, value in _LABEL.findall(wanted):
        is_equal = bool(re.fullmatch(value, given[name])) if operator == "=~" else given[name] == value
        if is_equal is (operator == "!="):
            return False
    return True

"""The command of `make model`: checks every case with TLC and prints a table; exit code 1 if a result is not as expected."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from model import cases, story, tlc
from perago.errors import PeragoError
from perago.process.stop_request import StopRequest
from perago.provision.artifact_cache import ArtifactCache, default_root
from perago.terminal import progress

_BROKEN = {
    "NeverLost": "an accepted publication is lost",
    "NeverLostAtAll": "an accepted output is lost",
    "OnItsInput": "an accepted publication is not directly on its input",
    "NeverBuried": "an accepted publication is buried",
    "HandKept": "a commit made by hand is lost",
    "Restorable": "an accepted commit cannot be put back any more",
    "Restored": "an accepted commit was not put back",
    "OneWins": "all attempts failed",
    "NeverStuck": "no attempt can publish before the branch is reset",
}
_PIPED_WIDTH = 160


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    screen = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        checker = _install(options.workers)
        if options.show:
            return _show(screen, checker, options.show)
        return _check_all(screen, checker, cases.cases(options.depth), options.jobs)
    except KeyboardInterrupt:
        return 130
    except (PeragoError, tlc.CheckerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make model", description="Check the publication protocol with TLC.")
    parser.add_argument(
        "--depth", type=int, default=0, metavar="N", help="additional executions in the cases in which the protocol has to hold"
    )
    parser.add_argument(
        "--show", metavar="CASE", choices=[case.name for case in cases.cases()], help="print the counterexample of one case"
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="cases to check at once")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="threads for each case")
    return parser.parse_args(arguments)


def _install(workers: int) -> tlc.Checker:
    stop_request = StopRequest()
    try:
        with progress.shown() as report:
            return tlc.install(ArtifactCache(default_root(), stop_request, report), workers)
    finally:
        stop_request.close()


def _check_all(screen: Console, checker: tlc.Checker, wanted: Sequence[cases.Case], jobs: int) -> int:
    with ThreadPoolExecutor(jobs) as pool:
        try:
            asked = {pool.submit(checker.check, case): case for case in wanted}
            verdicts = _collect_verdicts(asked)
        except BaseException:
            checker.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    screen.print(_table(wanted, verdicts))
    wrong = [case for case in wanted if verdicts[case.name].holds != case.holds]
    for case in wrong:
        _print_counterexample(screen, case, verdicts[case.name])
    screen.print(
        f"{len(wrong)} of {len(wanted)} cases are not as expected" if wrong else f"all {len(wanted)} cases are as expected"
    )
    return 1 if wrong else 0


def _collect_verdicts(asked: dict[Future[tlc.TlcVerdict], cases.Case]) -> dict[str, tlc.TlcVerdict]:
    """The verdicts by name of the case. Prints a line for each case that ends, and a progress bar on a terminal."""
    verdicts: dict[str, tlc.TlcVerdict] = {}
    screen = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed} of {task.total} cases"), TimeElapsedColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=len(asked))
        for done in as_completed(asked):
            case = asked[done]
            verdict = verdicts[case.name] = done.result()
            screen.print(
                f"{case.name}: {_found(verdict)}, {verdict.states:,} states, {verdict.seconds:.0f} s",
                highlight=False,
                soft_wrap=True,
            )
            bar.advance(task)
    return verdicts


def _table(wanted: Sequence[cases.Case], verdicts: dict[str, tlc.TlcVerdict]) -> Table:
    table = Table(
        "case", "what is different", "expected", "found", "steps", "states", "seconds", title="The publication protocol"
    )
    for column in table.columns[-3:]:
        column.justify = "right"
    group = None
    for case in wanted:
        if case.group != group:
            table.add_section()
            table.add_row(f"[bold]{case.group}[/bold]")
            group = case.group
        table.add_row(*_row(case, verdicts[case.name]))
    return table


def _row(case: cases.Case, verdict: tlc.TlcVerdict) -> tuple[str, ...]:
    colour = "green" if verdict.holds == case.holds else "bold red"
    expected = "holds" if case.holds else "counterexample"
    length = "" if verdict.holds else str(len(verdict.trace) - 1)
    return (
        case.name,
        case.description,
        expected,
        f"[{colour}]{_found(verdict)}[/]",
        length,
        f"{verdict.states:,}",
        f"{verdict.seconds:.1f}",
    )


def _found(verdict: tlc.TlcVerdict) -> str:
    return "holds" if verdict.violated is None else _BROKEN[verdict.violated]


def _show(screen: Console, checker: tlc.Checker, name: str) -> int:
    case = next(case for case in cases.cases() if case.name == name)
    try:
        verdict = checker.check(case)
    except BaseException:
        checker.stop()
        raise
    _print_counterexample(screen, case, verdict)
    return 0 if verdict.holds == case.holds else 1


def _print_counterexample(screen: Console, case: cases.Case, verdict: tlc.TlcVerdict) -> None:
    screen.print(f"\n[bold]{case.name}[/bold]: {case.description}: {_found(verdict)}")
    if verdict.holds:
        return
    table = Table("", "who", "does what", "the target branch shows")
    for number, line in enumerate(story.describe(verdict.trace), 1):
        table.add_row(str(number), line.who, line.did, line.target)
    screen.print(table)
    screen.print(
        "A: the branch's first commit. Cn: what execution n staged. Mn: the merge commit of execution n. Hn: made by hand."
    )


if __name__ == "__main__":
    sys.exit(main())

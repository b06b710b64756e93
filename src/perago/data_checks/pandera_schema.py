"""Schemas of pandera as checks: what does not hold, without values of the data."""

from collections import Counter
from typing import Any

from perago.data_checks.port import UnreadableTable

_ABOUT_COLUMNS = {"column_in_dataframe", "column_in_schema"}


def failures(schema: Any, frame: object) -> list[str]:
    """One text for each column and check that fails; `UnreadableTable` if pandera cannot evaluate the schema on this frame."""
    try:
        from pandera.errors import SchemaError, SchemaErrors  # noqa: PLC0415  the schema's own package is loaded already
    except ImportError as error:
        raise UnreadableTable(f"pandera cannot be imported: {error}") from error
    try:
        validated = schema.validate(frame, lazy=True)
    except SchemaErrors as errors:
        return _of_cases(errors.failure_cases)  # pyright: ignore[reportUnknownMemberType]  a data frame
    except SchemaError as error:
        return [f"pandera: {_line(error)}"]
    except Exception as error:  # a schema runs code of its author
        raise UnreadableTable(f"pandera: {type(error).__name__}: {_line(error)}") from error
    # On Spark nothing is raised: what does not hold is an attribute of the frame.
    accessor = getattr(validated, "pandera", None)
    return _of_report(getattr(accessor, "errors", None) or {})


def _of_cases(cases: Any) -> list[str]:
    """A case is a value of a column, which is not shown, or the name of a column that is missing or not declared."""
    found: Counter[tuple[str, str]] = Counter()
    for case in cases.to_dict("records"):
        check = str(case["check"])
        found[str(case["failure_case"] if check in _ABOUT_COLUMNS else case["column"]), check] += 1
    return [f"pandera: column {column}: {count:,} cases of {check}" for (column, check), count in found.items()]


def _of_report(report: Any) -> list[str]:
    """By kind of error (SCHEMA, DATA) and by reason, lists of `{"column": …, "check": …, "error": …}`."""
    return [
        f"pandera: column {case.get('column')}: {case.get('check')}"
        for reasons in report.values()
        for cases in reasons.values()
        for case in cases
    ]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]

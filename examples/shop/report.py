"""Step 6: a local task. It reads what Spark wrote and creates one HTML page with charts, without further libraries."""

import csv
import math
from html import escape
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, require_file, require_glob, task

BLUE, GRID = "#3867d6", "#8884"
TITLES = ("Revenue by category", "Revenue by country", "Revenue by customer segment")


class Params(BaseModel):
    title: str = "The shop, day by day"
    currency: str = "EUR"


class Output(BaseModel):
    page: str
    charts: int


@task(
    name="shop.report",
    owner_email="data@example.com",
    description="Draw the summary as one HTML page.",
    workspace=WorkspaceSpec(prefix="/shop", pre=[require_glob("summary/by_day/*.csv")], post=[require_file("report/index.html")]),
)
def report(workspace: Path, params: Params) -> Output:
    days, *groups = (table(workspace / "summary" / name) for name in ("by_day", "by_category", "by_country", "by_segment"))
    charts = [
        (f"Revenue by day, {params.currency}", line_chart(days)),
        *((title, bar_chart(rows, params.currency)) for title, rows in zip(TITLES, groups, strict=True)),
    ]
    page = workspace / "report" / "index.html"
    page.parent.mkdir(exist_ok=True)
    total = f"{sum(value for _, value in days):,.2f} {params.currency}"
    page.write_text(document(params.title, total, charts), encoding="utf-8")
    return Output(page="report/index.html", charts=len(charts))


def table(folder: Path) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for part in sorted(folder.glob("*.csv")):
        with part.open(newline="", encoding="utf-8") as lines:
            rows += [(row[0], float(row[1])) for row in list(csv.reader(lines))[1:]]
    return rows


def ticks(top: float) -> list[float]:
    """Round values from 0 to at least `top`, at most six."""
    size = 10 ** math.floor(math.log10(max(top, 1) / 5))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor * 5 >= top)
    return [step * count for count in range(math.ceil(top / step) + 1)]


def line_chart(rows: list[tuple[str, float]], width: int = 860, height: int = 260) -> str:
    """Days from left to right, values from 0 upwards, with the values of the grid lines on the left."""
    values = ticks(max(value for _, value in rows))
    step = width / max(1, len(rows) - 1)
    path = " ".join(f"{index * step:.1f},{height - value / values[-1] * height:.1f}" for index, (_, value) in enumerate(rows))
    grid = "".join(
        f'<line x1="0" x2="{width}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>'
        f'<text x="-8" y="{y:.1f}" text-anchor="end" dominant-baseline="central">{value:,.0f}</text>'
        for value, y in ((value, height - value / values[-1] * height) for value in values)
    )
    ends = ((0, "start"), (len(rows) // 2, "middle"), (len(rows) - 1, "end"))
    days = "".join(
        f'<text x="{index * step:.1f}" y="{height + 32}" text-anchor="{anchor}">{escape(rows[index][0])}</text>'
        for index, anchor in ends
    )
    return (
        f'<svg class="wide" viewBox="-130 -10 {width + 140} {height + 50}" role="img">{grid}{days}'
        f'<polygon points="0,{height} {path} {width},{height}" fill="{BLUE}" opacity=".15"/>'
        f'<polyline points="{path}" fill="none" stroke="{BLUE}" stroke-width="2" vector-effect="non-scaling-stroke"/></svg>'
    )


def bar_chart(rows: list[tuple[str, float]], unit: str, width: int = 320, row_height: int = 30) -> str:
    """The largest value first."""
    ordered = sorted(rows, key=lambda row: -row[1])
    scale = (width - 200) / ordered[0][1]
    bars = "".join(
        f'<rect x="90" y="{i * row_height}" width="{value * scale:.1f}" height="20" rx="3" fill="{BLUE}"/>'
        f'<text x="82" y="{i * row_height + 15}" text-anchor="end">{escape(name)}</text>'
        f'<text x="{96 + value * scale:.1f}" y="{i * row_height + 15}">{value:,.0f} {escape(unit)}</text>'
        for i, (name, value) in enumerate(ordered)
    )
    return f'<svg viewBox="0 0 {width} {len(rows) * row_height}" role="img">{bars}</svg>'


def document(title: str, revenue: str, charts: list[tuple[str, str]]) -> str:
    figures = "".join(f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>" for name, svg in charts)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }}
body {{ max-width: 1040px; margin: 3rem auto; padding: 0 1rem }}
h1 {{ margin-bottom: 0 }} p {{ opacity: .7; margin-top: .2rem }}
main {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 1rem }}
figure {{ margin: 0; padding: 1rem; border: 1px solid {GRID}; border-radius: 10px }} figure:first-child {{ grid-column: 1 / -1 }}
figcaption {{ font-weight: 600; margin-bottom: .6rem }} svg {{ width: 100%; font-size: 12px }} text {{ fill: currentColor }}
@media (max-width: 600px) {{ .wide {{ font-size: 28px; overflow: visible }} }}
</style>
<h1>{escape(title)}</h1><p>Total revenue: {escape(revenue)}</p><main>{figures}</main></html>
"""

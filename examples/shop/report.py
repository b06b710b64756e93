"""Step 6: a local task. It reads what Spark wrote and creates one HTML page with charts, without further libraries."""

import csv
from html import escape
from pathlib import Path

from pydantic import BaseModel

from perago import WorkspaceSpec, require_file, require_glob, task

BLUE, GRID = "#3867d6", "#8884"


class Params(BaseModel):
    title: str = "The shop, day by day"


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
        ("Revenue by day", line_chart(days)),
        *((title, bar_chart(rows)) for title, rows in zip(("By category", "By country", "By segment"), groups, strict=True)),
    ]
    page = workspace / "report" / "index.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text(document(params.title, sum(value for _, value in days), charts), encoding="utf-8")
    return Output(page="report/index.html", charts=len(charts))


def table(folder: Path) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for part in sorted(folder.glob("*.csv")):
        with part.open(newline="", encoding="utf-8") as lines:
            rows += [(row[0], float(row[1])) for row in list(csv.reader(lines))[1:]]
    return rows


def line_chart(rows: list[tuple[str, float]], width: int = 960, height: int = 260) -> str:
    top = max(value for _, value in rows) * 1.05
    step = width / max(1, len(rows) - 1)
    points = [(index * step, height - value / top * height) for index, (_, value) in enumerate(rows)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    lines = "".join(
        f'<line x1="0" x2="{width}" y1="{height * k / 4:.0f}" y2="{height * k / 4:.0f}" stroke="{GRID}"/>' for k in range(5)
    )
    return (
        f'<svg viewBox="-4 -4 {width + 8} {height + 28}" role="img">{lines}'
        f'<polygon points="0,{height} {path} {width},{height}" fill="{BLUE}" opacity=".15"/>'
        f'<polyline points="{path}" fill="none" stroke="{BLUE}" stroke-width="2"/>'
        f'<text x="0" y="{height + 20}">{escape(rows[0][0])}</text>'
        f'<text x="{width}" y="{height + 20}" text-anchor="end">{escape(rows[-1][0])}</text></svg>'
    )


def bar_chart(rows: list[tuple[str, float]], width: int = 300, row_height: int = 30) -> str:
    top = max(value for _, value in rows)
    bars = "".join(
        f'<rect x="90" y="{i * row_height}" width="{value / top * (width - 170):.1f}" height="20" rx="3" fill="{BLUE}"/>'
        f'<text x="82" y="{i * row_height + 15}" text-anchor="end">{escape(name)}</text>'
        f'<text x="{96 + value / top * (width - 170):.1f}" y="{i * row_height + 15}">{value:,.0f}</text>'
        for i, (name, value) in enumerate(rows)
    )
    return f'<svg viewBox="0 0 {width} {len(rows) * row_height}" role="img">{bars}</svg>'


def document(title: str, revenue: float, charts: list[tuple[str, str]]) -> str:
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
</style>
<h1>{escape(title)}</h1><p>Total revenue: {revenue:,.2f}</p><main>{figures}</main></html>
"""

"""
Documents: charts as one file that stands by itself, an SVG picture or an HTML page.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from serve.charts.chart import HEIGHT, WIDTH, Chart, figure, number, svg

_STATIC = Path(__file__).parents[1] / "dashboard" / "static"
_COLUMNS, _GAP, _HEAD, _KEY = 2, 36, 56, 68
# plain colours: what draws a file of SVG may know neither variables nor dark
_PLAIN = """
text{font:10.5px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#5c5c68}
.title{font-size:18px;font-weight:600;fill:#1b1b20}.caption{font-size:13px;font-weight:600;fill:#1b1b20}
.name,.value{fill:#1b1b20}.empty{font-size:13px}
.grid{stroke:#e2e2e8}.axis{stroke:#8b8b97}.rule{stroke:#5c5c68;stroke-dasharray:3 3}
.line{fill:none;stroke:#4a4fc4;stroke-width:1.75}.area{fill:#4a4fc4;fill-opacity:.14}
.f1{fill:#4a4fc4}.f2{fill:#c2571a}.f3{fill:#17784a}.f4{fill:#a63a8a}
""".strip()


def picture(title: str, charts: Sequence[Chart]) -> str:
    """Return the charts beside and below one another, two in a row, as one file of SVG."""
    drawn: list[str] = []
    y = _HEAD
    for start in range(0, len(charts), _COLUMNS):
        row = charts[start : start + _COLUMNS]
        for place, chart in enumerate(row):
            x = _GAP + place * (WIDTH + _GAP)
            caption = f'<text class="caption" x="{x}" y="{y + 12}">{escape(chart.title)}</text>'
            drawn.append(caption + _legend(chart, x, y) + _nested(chart, x, y + 20))
        y += max((chart.height for chart in row), default=HEIGHT) + 20 + _GAP
    width = _GAP + _COLUMNS * (WIDTH + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" '
        f'width="{width}" height="{y}"><style>{_PLAIN}</style>'
        f'<rect width="{width}" height="{y}" fill="#fff"/>'
        f'<text class="title" x="{_GAP}" y="34">{escape(title)}</text>{"".join(drawn)}</svg>\n'
    )


def page(title: str, charts: Sequence[Chart]) -> str:
    """Return the charts, and their figures, as one HTML file that loads nothing."""
    style = "".join((_STATIC / name).read_text("utf-8") for name in ("mnemolog.css", "charts.css"))
    figures = "".join(f'<section class="card">{figure(chart)}</section>' for chart in charts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<main><h1>{escape(title)}</h1><div class="halves">{figures}</div></main>'
        "</body></html>\n"
    )


def _nested(chart: Chart, x: int, y: int) -> str:
    place = f'x="{x}" y="{y}" width="{number(chart.width)}" height="{number(chart.height)}"'
    return svg(chart).replace("<svg ", f'<svg {place} overflow="visible" ', 1)


def _legend(chart: Chart, x: int, y: int) -> str:
    """Return the names of the series, to the right of the caption."""
    start = x + WIDTH - _KEY * len(chart.legend)
    places = [start + _KEY * place for place in range(len(chart.legend))]
    return "".join(
        f'<rect class="f{place}" x="{left}" y="{y + 4}" width="8" height="8"/>'
        f'<text x="{left + 12}" y="{y + 12}">{escape(name)}</text>'
        for place, (left, name) in enumerate(zip(places, chart.legend, strict=True), 1)
    )

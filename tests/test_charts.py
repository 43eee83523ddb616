"""Charts: well-formed SVG of any data, escaped, without styles, and its figures as a table."""

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from serve import formatting
from serve.reports import charts, statistics_plots
from serve.reports.charts import Chart, Scale, empty_chart, render_figure, render_svg, ticks

DAY = 86_400_000_000
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</svg><script>alert(1)</script> & "quoted" \u202e'


def drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(render_svg(chart))


def days(count: int) -> list[int]:
    return [1_790_000_000_000_000 + place * DAY for place in range(count)]


def every_chart() -> list[Chart]:
    series = ([], [0], [5], [0, 0, 0], [1, 2, 3], [1e15, 0, 2], [math.nan, math.inf, 1], [-3, 4])
    pictures = [empty_chart("Nothing")]
    for values in series:
        at = days(len(values))
        pictures.append(charts.area_chart("Area", at, values, "Said"))
        pictures.append(charts.bar_chart("Bars", at, {"a": values, "b": values}))
        pictures.append(
            charts.row_chart("Rows", {f"name {place}": value for place, value in enumerate(values)})
        )
        pictures.append(charts.sparkline("Spark", values))
    for counts in ([], [0, 0], [1], [3, 0, 10**9]):
        edges = [float(place) for place in range(len(counts) + 1)]
        pictures.append(charts.histogram("Histogram", edges, counts, "Said", marks={"p50": 0.5}))
    return pictures


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.title)
def test_a_chart_of_any_data_is_well_formed_and_has_a_title_and_a_description(chart: Chart):
    root = drawn(chart)
    assert root.get("role") == "img"
    ids = {element.get("id") for element in root if element.tag in (f"{SVG}title", f"{SVG}desc")}
    assert set(root.get("aria-labelledby", "").split()) == ids and len(ids) == 2
    for element in root.iter():
        assert "style" not in element.attrib
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height"):
            assert math.isfinite(float(element.get(name, "0")))
        assert "nan" not in element.get("d", "") and "inf" not in element.get("d", "")


def test_a_chart_without_data_has_a_note_and_no_marks():
    root = drawn(charts.bar_chart("Bars", [], {}))
    assert [label.text for label in root.iter(f"{SVG}text")] == ["nothing yet"]
    assert not list(root.iter(f"{SVG}rect"))


def test_one_point_is_a_mark_and_no_line():
    root = drawn(charts.area_chart("Area", days(1), [7], "Said"))
    assert len(list(root.iter(f"{SVG}rect"))) == 1
    assert not list(root.iter(f"{SVG}path"))


def test_names_are_escaped_in_the_picture_and_in_the_table():
    chart = charts.row_chart(HOSTILE, {HOSTILE: 3.0}, said=HOSTILE)
    html = render_figure(chart)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    ElementTree.fromstring(html)


def test_a_bar_is_as_tall_as_its_value():
    root = drawn(charts.bar_chart("Bars", days(2), {"a": [50, 100]}))
    low, high = (float(bar.get("height", "0")) for bar in root.iter(f"{SVG}rect"))
    assert high == pytest.approx(2 * low, abs=0.2)


def test_series_are_stacked():
    root = drawn(charts.bar_chart("Bars", days(1), {"a": [30], "b": [70]}))
    first, second = root.iter(f"{SVG}rect")
    foot = float(second.get("y", "0")) + float(second.get("height", "0"))
    assert foot == pytest.approx(float(first.get("y", "0")), abs=0.2)


def test_a_value_below_zero_goes_the_other_way():
    chart = charts.row_chart("Rows", {"up": 2.0, "down": -1.0})
    up, down = drawn(chart).iter(f"{SVG}rect")
    assert float(down.get("x", "0")) < float(up.get("x", "0"))
    assert [bar.get("class") for bar in (up, down)] == ["column f1", "column f2"]


def test_the_table_has_every_figure():
    chart = charts.area_chart("Area", days(3), [1, 20_000, 3], "Said")
    html = ElementTree.fromstring(render_figure(chart))
    cells = [cell.text for cell in html.iter("td")]
    assert cells == ["1", "20,000", "3"]


def test_a_histogram_names_its_last_step_without_an_end():
    chart = charts.histogram("H", (0.0, 10.0, math.inf), (1, 3), "Said", formatting.milliseconds)
    assert [row[0] for row in chart.rows] == ["0.0 ms to 10 ms", "10 ms or more"]


@pytest.mark.parametrize("high", [0.003, 0.7, 1, 3, 9.9, 10, 12, 99, 12_345, 1e12])
def test_ticks_are_round_and_reach_the_greatest(high: float):
    values = ticks(high)
    assert values[0] == 0 and values[-1] >= high * (1 - 1e-9)
    assert 2 <= len(values) <= 6
    assert [b - a for a, b in pairwise(values)] == pytest.approx([values[1]] * (len(values) - 1))


def test_counts_have_whole_ticks():
    assert ticks(2, whole=True) == [0, 1, 2]
    assert ticks(1, whole=True) == [0, 1]


def test_a_scale_of_one_value_has_it_in_the_middle():
    assert Scale(3, 3, 0, 10)(3) == 5


@pytest.mark.parametrize(
    ("written", "value", "said"),
    [
        (formatting.count, 12_345, "12,345"),
        (formatting.short_number, 12_345, "12.3k"),
        (formatting.short_number, 0.5, "0.5"),
        (formatting.percent, 0.215, "22 %"),
        (formatting.milliseconds, 8.84, "8.8 ms"),
        (formatting.milliseconds, 1_240, "1.24 s"),
        (formatting.dollars, 0.0021, "$0.0021"),
        (formatting.dollars, 12.3, "$12.30"),
        (formatting.size, 5 << 20, "5.0 MiB"),
        (formatting.day, 1_790_000_000_000_000, "2026-09-21"),
    ],
)
def test_numbers_are_formatted(written, value, said):
    assert written(value) == said


def test_a_file_of_pictures_is_one_svg_and_a_page_loads_nothing():
    charts = every_chart()
    root = ElementTree.fromstring(statistics_plots.svg_document("All <of> it", charts))
    assert len(list(root.iter(f"{SVG}svg"))) == 1 + len(charts)
    html = statistics_plots.html_document("All <of> it", charts)
    assert "<h1>All &lt;of&gt; it</h1>" in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")

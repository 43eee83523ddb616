"""The tables of docs/sizing.md follow the arithmetic, and its constants match their sources."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from test_docs import ROOT

from serve.server.open_tenants import MOST_OPEN
from store.snapshots.manifest import KEEP

PAGE = ROOT / "docs" / "sizing.md"
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.fixture
def sizing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")
    import sizing

    return sizing


def parts(page: Path) -> dict[str, list[str]]:
    """Return the compared parts of a page by name, each up to the next empty line."""
    matches = re.findall(
        r"<!-- tests/test_sizing.py compares: (\w+) -->\n\n(.*?)(?:\n\n|\n\Z)",
        page.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    return {name: text.splitlines() for name, text in matches}


def test_the_tables_of_the_page_are_the_arithmetics(sizing: ModuleType):
    shown_parts = parts(PAGE)
    for name, lines in sizing.blocks().items():
        assert shown_parts.pop(name) == list(lines), (
            "run tests/bench/sizing.py and paste what it prints"
        )
    assert not shown_parts


def test_what_the_program_sets_is_what_it_sets(sizing: ModuleType):
    assert (sizing.KEPT_BUILDS, sizing.MOST_OPEN) == (KEEP, MOST_OPEN)


@pytest.mark.parametrize(
    ("measured", "what"),
    [
        ("RECALL_MS", "recall over HTTP, auto, CPU"),
        ("SERVER_MIB", "server's anonymous memory, after recalls"),
    ],
)
def test_figures_of_the_benchmarks_are_theirs(sizing: ModuleType, measured: str, what: str):
    rows = re.findall(rf"^\| {re.escape(what)} \| mnemolog \|(.*)\|$", BENCHMARKS, re.MULTILINE)
    numbers = [
        float(number) for row in rows for number in re.findall(r" ([0-9.]+) (?:ms|MiB)", row)
    ]
    ours = getattr(sizing, measured)
    assert numbers == [ours[size] for size in sorted(ours) if size >= 10_000]


def test_a_figure_is_measured_or_lies_on_the_line_through_the_nearest(sizing: ModuleType):
    measured = {10: 1.0, 20: 3.0, 40: 4.0}
    assert [sizing.at(measured, size) for size in (5, 10, 15, 20, 30)] == [1.0, 1.0, 2.0, 3.0, 3.5]
    assert sizing.at(measured, 80) == 6.0
    assert sizing.bytes_at(measured, 80) == 80 * 4.0


def test_one_row_by_hand(sizing: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sizing, "LOG_BYTES", {1_000: 500.0})
    monkeypatch.setattr(sizing, "BUILT_BYTES", {1_000: 2_000.0})
    monkeypatch.setattr(sizing, "TENANT_BYTES", 100)
    monkeypatch.setattr(sizing, "RECEIPT_BYTES", 1)
    home = sizing.Home(2_000, 2)
    assert home.disk_bytes == 2 * (100 + 1_000 * (500 + 3 * 2_000) + 365 * 300)
    monkeypatch.setattr(sizing, "RECALL_MS", {1_000: 96.0})
    assert home.recall_cores == pytest.approx(2 * 300 * 0.096 / 28_800)
    assert sizing.Home(20_000_000, 20_000).servers == 40  # 20 cores at half load

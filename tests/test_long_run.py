"""`make soak` exercises everything without a wrong answer, and detects anything that grows."""

from dataclasses import replace
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent / "bench"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="what a process holds is read from /proc"
)


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import the script's parts of the benchmarks by their names."""
    monkeypatch.syspath_prepend(BENCH)


def test_a_short_run_of_all_actors_finds_no_fault(tmp_path, monkeypatch) -> None:
    import builds
    from corpus import texts
    from process import serve
    from torture import long_run

    monkeypatch.setattr(long_run, "EVERY_S", 0.5)
    builds.added(tmp_path, texts(100), "m")
    with serve(tmp_path) as server:
        run, samples, _ = long_run.lived(tmp_path, server, 5.0)
    assert list(long_run.told(run, tmp_path)) == []
    assert {"write", "recall", "hook Stop", "mcp", "a state held open and read again"} <= set(
        run.done
    )
    assert samples[-1].handles and samples[-1].log


def test_unbounded_growth_is_detected() -> None:
    from torture.held import Held
    from torture.long_run import bounds, leaks

    flat = [
        Held(n * 10.0, 150.0, 80.0, 20, 16, 0, 4 * MIB, 3, 9 * MIB, 3 * MIB, MIB, MIB, MIB)
        for n in range(60)
    ]
    assert list(bounds(flat)) == []
    for name, grown, text in (
        ("handles", 60, "handles grew"),
        ("threads", 30, "threads grew"),
        ("wal", 90 * MIB, "wal was 90 MiB"),
        ("manifests", 9, "9 manifests"),
        ("snapshots", 30 * MIB, "snapshots were 10.0 times"),
        ("deleted", 30 * MIB, "deleted were 10.0 times"),
        ("dagster", 900 * MIB, "dagster was 900 MiB"),
        ("other", 900 * MIB, "other was 900 MiB"),
    ):
        later = [replace(sample, **{name: grown}) for sample in flat[40:]]
        (problem,) = bounds([*flat[:40], *later])
        assert problem.startswith(text)
    rewritten = replace(flat[50], log=90 * MIB, wal=91 * MIB)  # by an erasing
    assert list(bounds([*flat[:50], rewritten, *flat[51:]])) == []
    (problem,) = bounds(
        [*flat[:40], *[replace(rewritten, second=sample.second) for sample in flat[40:]]]
    )
    assert problem.startswith("wal stayed at 91 MiB")
    assert list(leaks(flat, flat)) == []
    (problem,) = leaks([replace(flat[0], anonymous=200.0)], flat)
    assert problem.startswith("120 MiB leaked")
    (problem,) = bounds(flat[:3])
    assert "too short" in problem

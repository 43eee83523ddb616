"""The soak reports faults, and reports none in a short run of our own server."""

from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent / "bench"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import the benchmark's modules by their file names, as its script does."""
    monkeypatch.syspath_prepend(BENCH)


def test_clients_a_writer_and_a_build_do_not_disturb_each_other(tmp_path: Path) -> None:
    import builds
    import soak
    from figure import Figure, Note

    builds.added(tmp_path, builds.texts(200), "m")
    rows = list(soak.figures(200, tmp_path, 3.0, builds=1, clients=2, is_quick_first=True))
    (wrong,) = (row for row in rows if isinstance(row, Figure) and soak.PROBLEMS in row.what)
    (note,) = (row.text for row in rows if isinstance(row, Note))
    assert wrong.value == 0, note
    assert "1 builds" in note


def test_each_kind_of_wrong_answer_is_found() -> None:
    import soak
    from soakers import Asked, Done

    written = [Done("a", 1, 2), Done("b", 1, 2), Done("c", 1, 2, problem="500")]
    forgotten = [Done("b", 3, 4)]
    recalls = {
        "found": Asked("a", 5, 6, ("a", "x")),
        "not yet acknowledged": Asked("a", 1.5, 3, ()),
        "missing": Asked("a", 5, 6, ("x",)),
        "rightly gone": Asked("b", 5, 6, ()),
        "gone meanwhile": Asked("b", 2.5, 3.5, ()),
        "still there meanwhile": Asked("b", 3.5, 4.5, ("b",)),
        "forgotten": Asked("b", 5, 6, ("b",)),
        "twice": Asked("", 5, 6, ("x", "x")),
        "refused": Asked("", 5, 6, problem="503"),
        "behind, and says so": Asked("a", 5, 6, ("x",), is_behind=True),
        "never written": Asked("c", 5, 6, ()),
    }
    outcome = soak.Told(list(recalls.values()), written, forgotten, [0.1, soak.LATE_S], 1, 1.0)
    assert soak.problems(outcome) == [
        "write: 500",
        "a build was not answered from",
        "a memory that had been acknowledged was missing",
        "a memory came that had been forgotten",
        "a memory came twice",
        "recall: 503",
    ]

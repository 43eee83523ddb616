"""`make bench` runs end to end at a small size, and its tables follow from the measurements."""

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "tests" / "bench"

pytestmark = pytest.mark.usefixtures("bench_on_path")


def test_the_bench_writes_a_table_and_a_plot(tmp_path: Path) -> None:
    words = ["--sizes", "300", "--only", "lexical", "--only", "dense", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, str(BENCH / "run.py"), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    report = (tmp_path / "bench.md").read_text()
    for rival in ("rank_bm25", "SQLite FTS5", "LanceDB full text", "LanceDB flat", "LanceDB HNSW"):
        assert f"| {rival}" in report
    assert "the best 10 are rank_bm25's" in report
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_rival_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import lexical
    from figure import Note

    monkeypatch.setattr(lexical, "RIVALS", {"no such rival": ("no_such_module", lexical.bm25s)})
    notes = [figure.text for figure in lexical.figures(50) if isinstance(figure, Note)]
    assert notes == ["no such rival is left out: `pip install no_such_module`"]


def test_the_exponent_is_that_of_the_curve() -> None:
    import growth
    from figure import OURS, Figure

    sizes = (100, 1_000, 10_000)
    assert growth.exponent([Figure(n, "x", OURS, 3e-4 * n**1.5, "ms") for n in sizes]) == (
        pytest.approx(1.5)
    )
    assert growth.exponent([Figure(100, "x", OURS, 1.0, "ms")]) is None


def test_a_rival_is_shown_as_a_multiple_of_ours() -> None:
    import table
    from figure import OURS, Figure

    shown = table.markdown(
        [Figure(10, "x", OURS, 2.0, "ms"), Figure(10, "x", "other", 50.0, "ms", recall=0.5)]
    )
    assert "| x | other | 50.0 ms, **25x**, recall 0.500 |" in shown


def test_a_goal_is_met_missed_or_not_measured() -> None:
    import goals
    from figure import OURS, Figure

    figures = [Figure(10, "x", OURS, 2.0, "ms"), Figure(10, "x", "other", 50.0, "ms")]
    asked = [
        goals.Goal("fast", 10, goals.ratio("x", "other"), 20, is_least=True),
        goals.Goal("faster", 10, goals.ratio("x", "other"), 30, is_least=True),
        goals.Goal("cheap", 20, goals.value("x"), 1),
    ]
    shown = goals.markdown(figures, asked)
    assert "| fast | 10 | at least 20 | 25x | met |" in shown
    assert "| faster | 10 | at least 30 | 25x | **missed** |" in shown
    assert "did not measure: cheap at 20" in shown


def test_the_same_seed_gives_the_same_memories() -> None:
    from corpus import questions, texts

    few = list(texts(20))
    assert few == list(texts(2_500))[:20]
    assert few != list(texts(20, seed=8))
    held = [set(text.split()) for text in few]
    assert all(
        any(set(question.split()) <= words for words in held) for question in questions(few, 5)
    )


def test_recall_at_ten_counts_what_ties() -> None:
    import dense

    vectors = np.eye(20, dtype=np.float32)
    asked = vectors[3]
    assert dense.recall(vectors, [asked], lambda _: np.arange(10)) == 1.0
    assert dense.recall(vectors[:10], [asked], lambda _: np.arange(5)) == 1.0
    near = np.linspace(1, 0, 20, dtype=np.float32)[:, None]
    one = np.ones(1, np.float32)
    assert dense.recall(near, [one], lambda _: np.arange(5, 15)) == 0.5


def test_what_ten_times_the_memories_cost_is_shown_by_step() -> None:
    import growth
    import lexical
    from figure import OURS, Figure

    shown = growth.tenfold(
        [Figure(n, lexical.QUESTION, OURS, ms, "ms") for n, ms in ((10, 1.0), (100, 2.5))]
    )
    assert f"| {lexical.QUESTION} | 2.5x |" in shown
    assert growth.tenfold([]) == ""


def test_growth_over_two_decades_is_that_of_one() -> None:
    import goals
    from figure import OURS, Figure

    figures = {
        ("x", OURS, n): Figure(n, "x", OURS, ms, "ms") for n, ms in ((10, 1.0), (1_000, 9.0))
    }
    found = goals.growth("x", 10)(figures, 1_000)
    assert found is not None and found[0] == pytest.approx(3.0)


def test_hooks_are_timed_over_http_and_by_the_client(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import goals
    import hooks
    from process import serve

    monkeypatch.setattr(hooks, "RUNS", 2)
    monkeypatch.setattr(hooks, "CALLS", 25)
    home.mkdir()
    with serve(home) as server:
        asked = [f"where is the deploy number {number}?" for number in range(25)]
        found = list(hooks.figures(10_000, home, server, asked))
    assert all(row.value > 0 for row in found if row.what.startswith((hooks.PROMPT, hooks.CLIENT)))
    assert goals.markdown(found).count("| 10,000 |") == 3


def test_memory_counts_what_a_process_started(tmp_path: Path) -> None:
    import memory

    grow = "held = bytearray(64 * 2**20); input()"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grow!r}])"
    command = [sys.executable, "-c", start]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as child:
        if memory.anonymous_mib(child.pid) is None:
            child.communicate("\n")
            pytest.skip("no /proc tells of memory here")
        with memory.Peak(child.pid) as peak:
            while len(memory.family(child.pid)) < 2 or (peak.anonymous_mib or 0) < 64:
                assert child.poll() is None
                time.sleep(0.01)
        child.communicate("\n")
    assert peak.anonymous_mib is not None and peak.anonymous_mib >= 64


def test_a_static_table_is_what_our_table_embedder_reads(tmp_path: Path) -> None:
    import models
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    from store.embedders.token_table import TableEmbedder

    model = tmp_path / "model"
    model.mkdir()
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "north": 1, "east": 2}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(model / "tokenizer.json"))
    table = np.float32([[9, 9], [0, 1], [1, 0]])
    tensors = {"other": np.float32([7]), "embeddings.word_embeddings.weight": table}
    (model / "model.safetensors").write_bytes(_safetensors(tensors))
    folder = models.static(model, tmp_path / "static")
    vectors = TableEmbedder(str(folder)).embed(["east", "north east"])
    assert np.allclose(vectors, [[1, 0], [0.5**0.5, 0.5**0.5]])


def _safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    header: dict[str, object] = {}
    data = b""
    for name, one in tensors.items():
        offsets = [len(data), len(data) + one.nbytes]
        header[name] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": offsets}
        data += one.tobytes()
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def test_a_profile_counts_functions_by_themselves_and_with_what_they_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import profiling

    profiling.report(
        "a build", ["run (serve/a.py:1);score (b.py:7) 30", "run (serve/a.py:2) 10", "10"]
    )
    text = " ".join(capsys.readouterr().out.split())
    assert "by itself 75.0% score (b.py) 25.0% run (serve/a.py) ours" in text
    assert text.endswith("with what it calls 100.0% run (serve/a.py)")


def test_a_load_under_which_something_did_not_hold_is_told_of() -> None:
    import load
    from load import RECALL, WRITE, Done, Held

    quick = [Done(RECALL, 0.0, 20.0, 200, 10.0)] * 200
    away, broken = Done(RECALL, 0.0, 1.0, 503), Done(WRITE, 0.0, 1.0, 500, problem="500 internal")
    then, grown = Held(300.0, 90.0, 14, 20), Held(351.0, 141.0, 14, 20)
    assert load.failures([*quick, away], then, then) == []
    slow = [*quick, *[Done(RECALL, 0.0, 101.0, 200)] * 5, broken]
    assert load.failures(slow, then, grown) == [
        "1 x 500 internal",
        "p99 of recall is 101 ms, not under 100",
        "the server grew by 51 MiB, not under 50",
    ]
    assert "1 x 503" in load.report([*quick, away], 32, 0.0, 60.0, then, grown)


# Of the 42 needs of a life of 43 sessions, and of the 12 rules among them: 25 and 11 when recorded,
# in briefs of a median 2,440 bytes, out of the 2,560 allowed.
SERVED, STANDING = 23, 11


# Of the 72 needs of two stories, in English and Spanish: 35 when recorded.
TIDY = 32


def test_what_was_said_in_tidy_prompts_is_served_no_less_than_before() -> None:
    import stories

    probes = [probe for story in stories.stories("pollen|veleta") for probe in stories.told(story)]
    served, needs = stories.figures(probes).served
    assert needs == 72
    assert served >= TIDY


def test_a_life_is_served_no_less_than_before() -> None:
    import ordinary
    import stories

    short = next(stories.stories("quarry"))
    found = list(stories.told(ordinary.life(short, 40, 6), nights=100))
    figures = stories.figures(found)
    standing = [memory for memory in found if memory.kind in ("rule", "deed")]
    assert len(standing) == 12 and figures.served[1] == 42
    assert figures.served[0] >= SERVED
    assert sum(memory.is_served for memory in standing) >= STANDING
    assert figures.noise[0] == figures.idle[0] == 0
    assert figures.brief <= 2_450

"""Measures checked by hand arithmetic, and a small dataset run through the command line."""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from serve.cli import main
from serve.evaluation import dataset, report
from serve.evaluation.dataset import Query, Workspace
from serve.evaluation.harness import CachedEmbedder
from serve.evaluation.report import compare_results, score_report
from store.embedders.embedder import Matrix
from store.home.errors import InvalidInput, SourceError
from store.home.tenant import list_tenants
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog

IDS = st.sampled_from("abcdefghijklmnopqrstuvwxyz")
RANKINGS = st.lists(st.lists(IDS, max_size=30), min_size=1, max_size=8)
RELEVANT = st.sets(IDS, min_size=1, max_size=15)
UNITS = st.lists(st.floats(0, 1), min_size=1, max_size=60)


def judge(ranking: str, relevant: str) -> report.Judged:
    return report.judge([ranking], [relevant])


def test_recall_is_the_relevant_share_and_a_hit_is_zero_or_one():
    judged = judge("axbyc", "abz")
    assert [report.recall_at(judged, k)[0] for k in (1, 3, 5)] == pytest.approx(
        [1 / 3, 2 / 3, 2 / 3]
    )
    assert report.hit_at(judged, 1) == 1.0
    assert report.hit_at(judge("xyz", "a"), 3) == 0.0


def test_mrr_uses_the_first_relevant_rank_of_ten():
    assert report.mrr(judge("xab", "ab"), 10) == 0.5
    assert report.mrr(judge("0123456789a", "a"), 10) == 0.0


def test_ndcg_equals_a_calculation_by_hand():
    gained = 1 + 1 / math.log2(4)  # at ranks 1 and 3
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert report.ndcg(judge("axb", "abc"), 10)[0] == pytest.approx(gained / ideal)


def test_ndcg_is_perfect_with_more_relevant_ids_than_ranks():
    assert report.ndcg(judge("abcdefghijklm", "abcdefghijklm"), 10)[0] == pytest.approx(1.0)


def test_a_repeated_id_counts_once_and_later_ids_move_up():
    assert report.mrr(judge("xxxa", "a"), 10) == 0.5
    assert report.recall_at(judge("aab", "ab"), 2) == 1.0


def test_an_empty_ranking_scores_zero():
    assert {float(value[0]) for value in report.measures(judge("", "a")).values()} == {0.0}


@given(RANKINGS, RELEVANT)
def test_measures_are_shares_and_grow_with_the_cut(rankings: list[list[str]], relevant: set[str]):
    measures = report.measures(report.judge(rankings, [relevant] * len(rankings)))
    for value in measures.values():
        assert value.shape == (len(rankings),)
        assert ((value >= 0) & (value <= 1 + 1e-12)).all()
    for kind in ("recall", "hit"):
        cuts = np.array([measures[f"{kind}@{k}"] for k in report.CUTS])
        assert (np.diff(cuts, axis=0) >= 0).all()


@given(RANKINGS, RELEVANT)
def test_measures_equal_a_plain_count(rankings: list[list[str]], relevant: set[str]):
    measures = report.measures(report.judge(rankings, [relevant] * len(rankings)))
    for place, ranking in enumerate(rankings):
        distinct = [id_ for n, id_ in enumerate(ranking) if id_ not in ranking[:n]]
        places = [rank for rank, id_ in enumerate(distinct, 1) if id_ in relevant]
        for k in report.CUTS:
            count = sum(rank <= k for rank in places)
            assert measures[f"recall@{k}"][place] == pytest.approx(count / len(relevant))
            assert measures[f"hit@{k}"][place] == (count > 0)
        first = places[0] if places and places[0] <= 10 else math.inf
        assert measures["mrr@10"][place] == pytest.approx(1 / first)


@given(RELEVANT, st.randoms(use_true_random=False))
def test_no_order_beats_the_relevant_ones_first(relevant: set[str], random):
    every = list("abcdefghijklmnopqrstuvwxyz")
    random.shuffle(every)
    best = sorted(every, key=lambda id_: id_ not in relevant)
    shuffled, first = report.ndcg(report.judge([every, best], [relevant, relevant]), 10)
    assert shuffled <= first == pytest.approx(1.0)


@given(UNITS, st.floats(0.01, 1))
def test_the_threshold_keeps_the_promised_share(confidences: list[float], keep: float):
    values = np.array(confidences)
    bar = report.threshold_keeping(values, keep)
    assert report.share_above(values, bar) >= keep - 1e-9
    assert bar in confidences


def test_the_threshold_equals_a_calculation_by_hand():
    values = np.array([0.9, 0.1, 0.5, 0.7])
    assert report.threshold_keeping(values, 0.75) == 0.5
    assert report.share_above(np.array([0.4, 0.5, 0.6]), 0.5) == pytest.approx(2 / 3)
    assert report.share_above(np.empty(0), 0.5) == 0.0


def bootstrap(differences: list[float]) -> report.Interval:
    return report.paired_bootstrap(np.array(differences), np.random.default_rng(1))


def test_the_bootstrap_comes_close_to_the_normal_interval():
    interval = bootstrap([1.0, -1.0] * 200 + [1.0] * 100)
    error = math.sqrt((1 - 0.2**2) / 500)
    assert interval.mean == pytest.approx(0.2)
    assert (interval.low, interval.high) == pytest.approx(
        (0.2 - 1.96 * error, 0.2 + 1.96 * error), abs=0.01
    )


def test_the_bootstrap_is_the_same_each_time_and_sure_of_a_constant():
    assert bootstrap([0.0, 1.0, 0.5]) == bootstrap([0.0, 1.0, 0.5])
    assert bootstrap([0.25] * 9) == report.Interval(0.25, 0.25, 0.25)


def lines(path: Path, *rows: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def memory(id_: str, text: str, day: int, speaker: str = "Ada") -> dict[str, object]:
    at = f"2026-03-{day:02}T09:00:00"
    return {"id": id_, "text": text, "ts": at, "session": f"S{day}", "speaker": speaker}


def query(id_: str, text: str, relevant: str, day: int, **more: str) -> dict[str, object]:
    return {
        "id": id_,
        "query": text,
        "relevant": [relevant],
        "relevant_sessions": [f"S{day}"],
        "category": "plain",
    } | more


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two workspaces: an agent's notes, where only the past counts, and a conversation."""
    folder = tmp_path / "data"
    lines(folder / "index.json", {"workspaces": ["notes/one", "talk/two"]})
    lines(
        folder / "notes/one/memories.jsonl",
        memory("0", "The deploy failed because the token had expired", 1, "agent"),
        memory("1", "Invoices are rounded half to even in billing", 2, "agent"),
        memory(
            "2",
            "The deploy failed again: the token was for staging; rotate it in the vault",
            9,
            "agent",
        ),
    )
    lines(
        folder / "notes/one/queries.jsonl",
        query("n-now", "which deploy token for staging do we rotate in the vault?", "2", 9),
        query("n-then", "why did the deploy fail?", "0", 1, before_ts="2026-03-05T00:00:00Z"),
    )
    lines(
        folder / "talk/two/memories.jsonl",
        memory("0", "I adopted a grey kitten called Pepper", 1),
        memory("0:1", "Ok", 1, "Bob"),
        memory("x y", "My sister moved to Lisbon last summer", 3),
    )
    lines(
        folder / "talk/two/queries.jsonl",
        query("t-cat", "what is the kitten called?", "0", 1),
        query("t-none", "zebra", "0", 1),
    )
    lines(
        folder / "silence.jsonl",
        {"id": "s1", "workspace": "talk/two", "query": "continue", "kind": "control"},
        {"id": "s2", "workspace": "notes/one", "query": "the kitten Pepper", "kind": "foreign"},
    )
    return folder


def evaluated(*words: object) -> Result:
    return CliRunner().invoke(main, ["eval", *map(str, words)])


def answer(*words: object) -> dict:
    result = evaluated(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def answer_to(data: Path, a: Path, b: Path) -> dict:
    return answer(data, "--compare", a, b)


def rows(path: Path) -> dict[str, dict]:
    return {row["query_id"]: row for row in map(json.loads, path.read_text().splitlines())}


def test_a_dataset_is_asked_and_reported(data, tmp_path):
    payload = answer(data, "--output", tmp_path / "a.jsonl")
    assert payload["overall"]["queries"] == 4
    assert payload["overall"]["measures"]["recall@5"] == 0.75
    assert payload["datasets"]["notes"]["measures"]["recall@1"] == 1.0
    assert payload["categories"]["plain"]["queries"] == 4
    assert payload["refused"] == 1  # "Ok"
    ranked = rows(tmp_path / "a.jsonl")
    assert list(ranked) == ["n-now", "n-then", "s2", "t-cat", "t-none", "s1"]
    assert ranked["n-then"]["ranked"] == ["0"]  # the later failure was not known then
    assert ranked["t-none"] == {"query_id": "t-none", "ranked": [], "gate": 0.0, "said": []}


def test_silence_is_measured_where_answers_were_right(data):
    payload = answer(data)
    assert payload["prompts"] == {"control": 1, "foreign": 1}
    assert [row["keep"] for row in payload["silence"]] == [None, 0.95, 0.9, 0.8]
    assert payload["silence"][1]["kept"] == 1.0
    assert payload["silence"][1]["injected"] == {"control": 0.0, "foreign": 0.0}


def test_silence_is_measured_at_the_threshold_that_is_set(data):
    payload = answer(data, "--set", "min_confidence=0.99")
    assert (payload["silence"][0]["bar"], payload["silence"][0]["keep"]) == (0.99, None)
    assert payload["overall"] == answer(data)["overall"]
    assert "as set" in evaluated(data).stdout


def test_injections_of_the_prompt_hook_are_measured(data, tmp_path):
    lines(
        data / "silence.jsonl",
        {"id": "s1", "workspace": "talk/two", "query": "ok, go on", "kind": "control"},
        {"id": "s2", "workspace": "notes/one", "query": "a deploy token", "kind": "near"},
    )
    found = answer(data, "--set", "min_confidence=0.99", "--output", tmp_path / "a.jsonl")
    payload = {id_: row["said"] for id_, row in rows(tmp_path / "a.jsonl").items()}
    assert payload["n-now"][0] == "2"
    assert payload["s1"] == []
    asked = found["unasked"]
    assert asked["queries"] == 2  # a hook asks in the present, never in the past
    assert asked["right"] == sum(bool(payload[id_]) for id_ in ("n-now", "t-cat")) / 2
    assert asked["injected"] == {"control": 0.0, "near": float(bool(payload["s2"]))}
    assert "correct answers: a right memory" in evaluated(data).stdout


def test_labelled_prompts_record_no_statements(data, tmp_path):
    rule = "From now on never deploy on a Friday."
    lines(
        data / "silence.jsonl",
        {"id": "s1", "workspace": "notes/one", "query": rule, "kind": "foreign"},
    )
    before = answer(data, "--keep", tmp_path / "kept")
    for tenant in list_tenants(tmp_path / "kept"):
        with EventLog(tenant.log) as log:
            assert rule not in str(list(log.read()))
    assert answer(data, "--keep", tmp_path / "kept") == before


def test_people_get_tables(data):
    printed = evaluated(data, "--level", "session").stdout
    assert "dataset talk" in printed
    assert "correct answers kept" in printed
    assert "workspaces 2, memories 6, refused 1" in printed


def test_an_evaluation_leaves_no_memory_behind(data, home, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    answer(data)
    assert not home.exists()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_memories_keep_their_speaker_and_time(data, tmp_path):
    answer(data, "--keep", tmp_path / "kept")
    for tenant in list_tenants(tmp_path / "kept"):
        with EventLog(tenant.log) as log:
            first = next(log.read())
        assert isinstance(first.body, Recorded)
        said = (first.session, first.body.kind, first.body.created_by, first.body.created_at)
        by_agent = tenant.name.startswith("notes-one-")
        kind, speaker = ("fact", "agent") if by_agent else ("raw_turn", "Ada")
        assert said == ("S1", kind, speaker, datetime(2026, 3, 1, 9))


def test_a_workspace_named_by_digits_is_asked(tmp_path):
    folder = tmp_path / "chats" / "beam" / "beam-100K-1"
    lines(folder / "memories.jsonl", memory("a", "We chose Lisbon", 1))
    lines(folder / "queries.jsonl", query("q", "Which city?", "a", 9))
    lines(tmp_path / "chats" / "index.json", {"workspaces": ["beam/beam-100K-1"]})
    assert answer(tmp_path / "chats")["overall"]["queries"] == 1


def test_the_option_only_selects_workspaces_by_prefix(data):
    assert list(answer(data, "--only", "talk/")["datasets"]) == ["talk"]
    assert evaluated(data, "--only", "chat").exit_code == 2


def test_settings_and_mode_can_be_tried(data):
    payload = answer(data, "--set", "fusion=rrf", "--mode", "lexical")
    assert (payload["fusion"], payload["mode"]) == ("rrf", "lexical")
    for wrong in ("fusion", "fusion=best", "speed=1"):
        assert evaluated(data, "--set", wrong).exit_code == 2
    assert "unknown setting speed" in evaluated(data, "--set", "speed=1").stderr


def test_a_removed_setting_is_reported_as_without_effect(data):
    result = evaluated(data, "--set", "layers=parts")
    assert result.exit_code == 0 and "--set layers has no effect" in result.stderr


def test_an_unknown_profile_is_refused(data):
    result = evaluated(data, "--profile", "guesswork")
    assert result.exit_code == 2
    assert "profile" in result.stderr


def test_a_kept_home_serves_again_until_the_memories_change(data, tmp_path, monkeypatch):
    home = tmp_path / "kept"
    first = answer(data, "--keep", home)

    def refuse(*_: object) -> None:
        raise AssertionError("built though nothing changed")

    with monkeypatch.context() as patch:
        patch.setattr("store.maintenance.build.rebuild", refuse)
        assert answer(data, "--keep", home) == first
    lines(data / "talk/two/memories.jsonl", memory("new", "The kitten is called Pepper", 1))
    assert answer(data, "--keep", home)["refused"] == 0
    assert len(list((home / "tenants").iterdir())) == 3


class Counting:
    """A model that counts the texts it embeds."""

    model, dimension, is_cheap, is_local = "counting", 2, False, True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.asked += texts
        found = [[len(text), text.count("e") + 1] for text in texts]
        rows = np.array(found, np.float32).reshape(-1, 2)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def embed_queries(self, texts):
        return self.embed(texts)

    def knows(self, text):
        return True


def test_a_cached_model_embeds_each_text_once_over_all_runs(tmp_path):
    model = Counting()
    cached = CachedEmbedder(model, tmp_path)
    first = cached.embed(["a kitten", "a deploy", "a kitten"])
    cached.save()
    again = CachedEmbedder(model, tmp_path).embed(["a deploy", "a kitten", "new"])
    assert model.asked == ["a kitten", "a deploy", "new"]
    assert again[:2].tolist() == first[[1, 0]].tolist()
    assert cached.embed([]).shape == (0, 2)


def test_vectors_of_another_model_or_a_torn_file_are_not_reused(tmp_path):
    cached = CachedEmbedder(Counting(), tmp_path)
    cached.embed(["a kitten"])
    cached.save()
    other = Counting()
    other.model = "counting-2"
    CachedEmbedder(other, tmp_path).embed(["a kitten"])
    assert other.asked == ["a kitten"]
    (file,) = tmp_path.rglob("*.arrow")
    file.write_bytes(file.read_bytes()[:100])
    model = Counting()
    CachedEmbedder(model, tmp_path).embed(["a kitten"])
    assert model.asked == ["a kitten"]


def test_a_second_run_embeds_nothing(data, tmp_path, monkeypatch):
    model = Counting()
    monkeypatch.setattr("serve.evaluation.harness.make_embedder", lambda name, home: model)
    first = answer(data, "--cache", tmp_path / "cache")
    count = len(model.asked)
    assert count == len(set(model.asked)) > 5
    assert answer(data, "--cache", tmp_path / "cache") == first
    assert len(model.asked) == count


def test_a_lexical_run_writes_no_cache(data, tmp_path):
    answer(data, "--cache", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_an_interrupted_build_is_finished(data, tmp_path):
    home = tmp_path / "kept"
    first = answer(data, "--keep", home)
    for head in home.glob("tenants/*/HEAD"):
        head.unlink()
    assert answer(data, "--keep", home) == first
    assert len(list(home.glob("tenants/*/HEAD"))) == 2


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("talk/two/memories.jsonl", '{"id": "9", "text": "no time"}', "line 4.*`ts`"),
        (
            "talk/two/memories.jsonl",
            '{"id": "0", "text": "a", "ts": "2026-03-01T00:00:00"}',
            "line 4",
        ),
        ("talk/two/queries.jsonl", "{not JSON", "line 3"),
        ("notes/one/queries.jsonl", json.dumps(query("t-cat", "again?", "0", 1)), "'t-cat'"),
        ("silence.jsonl", '{"id": "s9"}', "line 3"),
    ],
)
def test_a_bad_line_is_named(data, file, line, says):
    with (data / file).open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(SourceError, match=says):
        dataset.read_workspaces(data)
    assert evaluated(data).exit_code == 2


def test_a_query_needs_something_relevant(data):
    lines(data / "talk/two/queries.jsonl", query("q", "what?", "0", 1) | {"relevant": []})
    with pytest.raises(SourceError, match="relevant"):
        dataset.read_workspaces(data)


def test_a_folder_without_a_dataset_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"index\.json cannot be read"):
        dataset.read_workspaces(tmp_path)


def test_output_that_cannot_be_written_is_refused_before_the_work(data, tmp_path):
    result = evaluated(data, "--output", tmp_path / "missing" / "a.jsonl")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def ranked(tmp_path: Path, name: str, rankings: dict[str, list[str]]) -> Path:
    results = ({"query_id": id_, "ranked": ids} for id_, ids in rankings.items())
    return lines(tmp_path / f"{name}.jsonl", *results)


def test_two_runs_are_compared_query_by_query(data, tmp_path):
    a = ranked(tmp_path, "a", {"n-now": ["0"], "t-cat": ["0"], "t-none": []})
    b = ranked(tmp_path, "b", {"n-now": ["0", "2"], "t-cat": ["x y", "0"], "n-then": ["0"]})
    payload = answer(data, "--compare", a, b)
    assert (payload["queries"], payload["left_out"]) == (2, 2)
    at_5 = payload["differences"][0]
    assert (at_5["measure"], at_5["a"], at_5["b"], at_5["mean"]) == ("recall@5", 0.5, 1.0, 0.5)
    assert (at_5["low"], at_5["high"]) == (0.0, 1.0)
    assert (at_5["wins"], at_5["losses"], at_5["ties"]) == (1, 0, 1)
    assert "recall@10" in evaluated(data, "--compare", a, b).stdout


def test_a_comparison_names_the_queries_won_and_lost(data, tmp_path):
    a = ranked(tmp_path, "a", {"n-now": ["0"], "t-cat": ["0"], "n-then": ["0"]})
    b = ranked(tmp_path, "b", {"n-now": ["2"], "t-cat": [], "n-then": ["0"]})
    changes = [
        (change["query_id"], change["a"], change["b"])
        for change in answer_to(data, a, b)["changes"]
    ]
    assert changes == [("n-now", 0.0, 1.0), ("t-cat", 1.0, 0.0)]
    printed = evaluated(data, "--compare", a, b, "--each").stdout
    assert ["won", "lost"] == [line.split()[0] for line in printed.splitlines()[-2:]]
    assert "what is the kitten called?" in printed
    assert evaluated(data, "--each").exit_code == 2


def test_later_memories_do_not_count_for_a_query_about_the_past(data, tmp_path):
    a = ranked(tmp_path, "a", {"n-then": ["2", "0"]})
    scores = score_report(dataset.read_workspaces(data), dataset.read_results(a), "memory")
    assert scores.datasets["notes"].measures["recall@1"] == 0.5


def test_the_session_level_ranks_sessions_where_their_first_memory_stands(data, tmp_path):
    a = ranked(tmp_path, "a", {"t-cat": ["x y", "0:1", "0"]})
    workspaces = dataset.read_workspaces(data, "talk")
    memories = score_report(workspaces, dataset.read_results(a), "memory").overall.measures
    sessions = score_report(workspaces, dataset.read_results(a), "session").overall.measures
    assert (memories["mrr@10"], sessions["mrr@10"]) == (round(1 / 3 / 2, 4), 0.25)


def test_incomparable_rankings_are_refused(data, tmp_path):
    a = ranked(tmp_path, "a", {"n-now": ["0"]})
    b = ranked(tmp_path, "b", {"t-cat": ["0"]})
    assert evaluated(data, "--compare", a, b).exit_code == 2
    assert evaluated(data, "--compare", a, a, "--set", "fusion=rrf").exit_code == 2
    assert evaluated(data, "--compare", a, tmp_path / "none.jsonl").exit_code == 2


def test_workspaces_without_a_query_measure_nothing():
    with pytest.raises(InvalidInput, match="no query"):
        score_report([Workspace("a/b", (), (), ())], {}, "memory")
    with pytest.raises(InvalidInput, match="no query"):
        compare_results(
            [Workspace("a/b", (), (Query("q", "?", ("1",), ("S",), "c"),), ())], {}, {}, "memory"
        )

"""The analysis of a question before any search."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import numpy as np
import pytest

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall import evidence
from serve.recall.analysis import Analysis, Question, analyse
from serve.recall.classification import KINDS
from serve.recall.recall import recall
from store.embedders.embedder import Embedder
from store.embedders.lexical import LexicalEmbedder
from store.embedders.model_facts import Calibration

NOW = int(datetime(2023, 11, 17, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.fixture
def view(built) -> View:
    with Reader(built.tenant, built.log, built.embedder).view() as one:
        return one


def analysed(view: View, text: str) -> Analysis:
    return analyse(view, Question(text, Filter(now=NOW), 5), [])


def test_everything_that_was_read_is_shown(view: View):
    payload = analysed(view, "why did store/log.py fail with ENOENT last week?").to_json()
    assert payload == {
        "language": "en",
        "identifiers": ["store/log.py", "ENOENT"],
        "answer_type": "why",
        "task_mode": "debug",
        "interval": {
            "since": "2023-11-06T00:00:00Z",
            "until": "2023-11-13T00:00:00Z",
            "words": "last week",
            "use": "boost",
        },
    }


def test_what_was_not_found_is_left_out(view: View):
    assert analysed(view, "Postgres").to_json() == {}


def test_why_tells_the_analysis_as_json(view: View):
    question = Question("when did we drop Redis?", Filter(now=NOW), 5, explain=True)
    why = recall(view, question).why
    assert why is not None
    assert msgspec.json.decode(msgspec.json.encode(why))["analysis"]["answer_type"] == "when"


def test_the_askers_clock_decides_and_no_other(view: View):
    later = Question("yesterday", Filter(now=NOW + 86_400_000_000), 5)
    interval, two = (
        analyse(view, question, []).interval
        for question in (Question("yesterday", Filter(now=NOW), 5), later)
    )
    assert interval is not None
    assert two is not None
    assert two.since == interval.until


def test_a_profile_hears_what_the_asker_is_at(view: View):
    def fits(text: str) -> set[float]:
        question = Question(
            text, Filter(now=NOW), 5, fusion="weighted", profile="match", explain=True
        )
        hits = recall(view, question).hits
        return {hit.why["signals"]["route_fit"] for hit in hits if hit.memory.kind == "fact"}

    assert fits("where does the staging cluster run") == {0.5}  # no memory knows
    assert fits("debug the staging cluster") == {KINDS["debug"]["fact"]}


def test_of_a_long_question_words_that_memories_hold_are_asked_before_all_others(view: View):
    held = analysed(view, view.snapshots.rows.take([0])[0].content).topic
    strange = [f"zq{number}xv" for number in range(200)]
    assert set(held) <= set(analysed(view, " ".join([*strange, *held])).topic)


def test_the_first_line_of_a_report_counts_for_more_than_what_it_pastes(view: View):
    def first(text: str) -> str:
        return recall(view, Question(text, Filter(now=NOW), 1)).hits[0].memory.content

    title = "The flaky race of two threads, closing"
    pasted = "The recall server listens on 127.0.0.1:7437 and refuses any other Host header."
    assert "server" in first(f"{title}: {pasted}")
    assert "flaky" in first(f"{title}\n{pasted}")
    assert analysed(view, f"{title}\n").topic == analysed(view, title).topic


def test_a_pasted_report_asks_for_no_removal(view: View):
    assert analysed(view, "Why was the delete command dropped?").removal
    report = "The delete command fails\n\n  File delete.py, line 3"
    assert not analysed(view, report).removal


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("Hangi sunucu yavaş?", {"sunucu", "yava"}),
        ("¿Cuándo caducan los tokens?", {"caducan", "los", "token"}),
        ("Где лежат логи?", {"лежат", "лог"}),
        ("Which server is slow?", {"server", "slow"}),
        ("Was ist was?", {"ist"}),
    ],
)
def test_words_that_ask_are_no_topic_in_any_language(view: View, question: str, topic: set[str]):
    assert set(analysed(view, question).weights) == topic


def test_a_sentence_model_counts_for_less_where_a_report_is_pasted(view: View):
    def weighed(view: View, text: str) -> float:
        return evidence.evidence_weights(view, analysed(view, text))["vector"]

    vectors = replace(view.snapshots.vectors, calibration=Calibration(0.1, 0.6, knows_meaning=True))
    knowing = replace(view, snapshots=replace(view.snapshots, vectors=vectors))
    assert weighed(knowing, "It crashes\n\n  File x.py") < weighed(knowing, "It crashes")
    assert weighed(view, "It crashes\n\n  File x.py") == weighed(view, "It crashes")


class EnglishModel(LexicalEmbedder):
    def knows(self, text: str) -> bool:
        return text.isascii()


@pytest.mark.parametrize(
    ("question", "is_less"),
    [
        ("Hangi sunucu dün gece yavaş ve neden?", True),
        ("¿Cuándo caducan los tokens de la sesión?", True),
        ("Which server is slow?", False),
        ("ENOENT", False),  # of no language
    ],
)
def test_an_english_model_counts_for_less_in_other_languages(
    view: View, question: str, is_less: bool
):
    vectors = replace(view.snapshots.vectors, calibration=Calibration(0.1, 0.6, knows_meaning=True))
    asked = Question(question, Filter(now=NOW), 5)

    def weight(model: Embedder) -> float:
        knowing = replace(view, snapshots=replace(view.snapshots, vectors=vectors, embedder=model))
        return evidence.evidence_weights(knowing, analyse(knowing, asked, []))["vector"]

    english, any_language = weight(EnglishModel()), weight(LexicalEmbedder())
    assert (english < any_language) is is_less and english > 0.0


def test_a_narrow_sentence_model_counts_as_much_as_a_wide_one(view: View):
    def told(stretch: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the vector's weight, its evidence and a rule's, each of unrelated and related."""
        nothing = 0.6 - stretch * 0.1
        calibration = Calibration(nothing, 0.6, knows_meaning=True, stretch=stretch)
        vectors = replace(view.snapshots.vectors, calibration=calibration)
        knowing = replace(view, snapshots=replace(view.snapshots, vectors=vectors, sessions=None))
        place = evidence.place_in_conversations(knowing, np.arange(2), np.ones(2, np.bool_))
        near = calibration.evidence(np.array([0.5, 0.6], np.float32)).astype(np.float64)
        rules = msgspec.structs.replace(place, rule=np.ones(2, np.bool_))
        found = evidence.context_vectors(
            knowing, rules, near, calibration.evidence, np.ones(view.size, np.bool_)
        )
        weights = evidence.evidence_weights(knowing, analysed(knowing, "Who reviews it?"))
        return weights["vector"], near, found["rule"]

    wide, narrow = told(1.0), told(2.0)
    gains = [weight * float(near[1] - near[0]) for weight, near, _ in (wide, narrow)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-4)
    assert wide[2][0] == pytest.approx(0.0, abs=1e-6) and narrow[2][0] == pytest.approx(
        0.0, abs=1e-6
    )
    assert narrow[2][1] > 0.2

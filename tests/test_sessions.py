"""The turns around a memory, its session and its speaker, and their effect on its rank."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import store.derived.sessions
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall import analysis
from serve.recall.recall import Question, recall
from store.derived.sessions import SESSIONS_PROJECTION, Sessions, by_part
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.index import segments
from store.index.postings import POSTINGS_PROJECTION, PostingsIndex
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Forgotten, Recorded, Restored, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import FORGOTTEN, searched_text
from store.memories.table import read_memories
from store.snapshots import snapshot
from store.snapshots.projection import Built, Inputs, Previous, build_checked, digest
from store.text import tokenizer
from store.text.mentions import speaker_name

NOW = 1_800_000_000_000_000  # 15 January 2027
EMBEDDER = LexicalEmbedder()

# id, speaker, session, project, text
TURNS = [
    ("q", "Ana Ruiz", "s1", None, "Where did you spend your holidays, Tom?"),
    ("a", "Tom", "s1", None, "By the lake, with my sister"),
    ("b", "Tom", "s1", None, "It rained all week"),
    ("c", "Ana Ruiz", "s1", None, "We should paint the fence"),
    ("n1", "user", "s2", None, "Holidays are entered in the calendar"),
    ("n2", "user", "s2", None, "The calendar locks at noon"),
    ("x1", "Ana Ruiz", "s1", "shop", "Where is the shop?"),
    ("x2", "Tom", "s1", "shop", "Next to the station"),
    ("alone", None, "s3", None, "Backups run at night"),
    ("none", None, None, None, "The printer is on the second floor"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[View, Sessions]]:
    home = tenant(tmp_path_factory.mktemp("home"))
    with EventLog(home.log, create=True) as log:
        drafts = [
            Draft(id=id_, content=text, created_by=who, session=session, project=project)
            for id_, who, session, project, text in TURNS
        ]
        commands.record_batch(log, drafts, NOW)
        manifest = rebuild(home, log, EMBEDDER, NOW)
        ref = manifest.projections["sessions"]
        with Reader(home, log, EMBEDDER).view() as view:
            yield view, Sessions.open(snapshot.read(home.snapshots, ref, SESSIONS_PROJECTION))


def ids(view: View, query: str, **choices: object) -> list[str]:
    question = Question(query, Filter(now=NOW), 10, fusion="weighted")
    return [hit.memory.id for hit in recall(view, replace(question, **choices)).hits]


def test_neighbours_are_turns_of_another_speaker_in_one_session_of_one_project(place):
    _, sessions = place
    assert sessions.before.tolist() == [-1, 0, -1, 2, -1, -1, -1, 6, -1, -1]
    assert sessions.after.tolist() == [1, -1, 3, -1, -1, -1, 7, -1, -1, -1]
    assert sessions.session.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, -1, -1]


SAID = st.sampled_from(["Where is it?", "By the lake", "It rained, and I was late", "always lint"])
WHO = st.sampled_from([None, "", "Ana Ruiz", "Tom", "user"])
SESSION = st.sampled_from([None, "s1", "s2", "s3"])
STEP = st.one_of(
    st.tuples(st.just("record"), SAID, WHO, SESSION, st.sampled_from([None, "p"])),
    st.tuples(st.just("record"), SAID, WHO, SESSION, st.sampled_from([None, "p"])),
    st.tuples(st.sampled_from(["forget", "restore"]), st.integers(0, 20)),
    st.tuples(st.just("revise"), st.integers(0, 20), SAID),
)


def logged(steps: Sequence[tuple[Any, ...]]) -> list[Event]:
    events: list[Event] = []
    count = 0
    for seq, (kind, *rest) in enumerate(steps, start=1):
        id_ = f"e{seq}"
        if kind == "record":
            content, who, session, project = rest
            body = Recorded(content=content, created_by=who)
            id_, count = f"m{count}", count + 1
            events.append(Event(id_, NOW - seq % 3, body, id_, project, session=session, seq=seq))
            continue
        change = {"forget": Forgotten(), "restore": Restored()}.get(kind)
        events.append(Event(id_, NOW, change or Revised(content=rest[1]), f"m{rest[0]}", seq=seq))
    return events


def made_of(
    events: list[Event], before: tuple[int, Mapping[str, Built]] | None = None
) -> dict[str, Built]:
    tables: dict[str, Built] = {}
    for projection in (MEMORIES_PROJECTION, POSTINGS_PROJECTION, SESSIONS_PROJECTION):
        inputs = Inputs(len(events), lambda after: iter(events[after:]), tables)
        old = Previous(before[0], before[1][projection.name]) if before else None
        tables[projection.name] = build_checked(projection, inputs, old)
    return tables


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=30), st.data())
def test_sessions_are_the_same_however_they_grew(steps, data):
    events = logged(steps)
    cut = data.draw(st.integers(0, len(events)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "BASE", 2)
        patch.setattr(store.derived.sessions, "_MEMBERS", 3)
        grown = made_of(events, (cut, made_of(events[:cut])))
        whole = made_of(events)
    for name in whole["sessions"]:
        assert grown["sessions"][name].equals(whole["sessions"][name]), name
    assert digest(grown["sessions"]) == digest(whole["sessions"])


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_turns_and_sessions_words_are_those_of_a_plain_reading(steps):
    tables = made_of(logged(steps))
    rows = list(read_memories(tables["memories"]["memories"]))
    sessions = Sessions.open(tables["sessions"])
    groups: dict[tuple[str | None, str], list[int]] = {}
    numbered: list[tuple[str | None, str]] = []
    for row, memory in enumerate(rows):
        if memory.session is not None:
            of = groups.setdefault((memory.project, memory.session), [])
            of.append(row)
            numbered += [(memory.project, memory.session)] if len(of) == 2 else []
    assert len(sessions.starts) == len(numbered) + 1
    alone = [-1] * len(rows)
    session, before, after = alone[:], alone[:], alone[:]
    for number, key in enumerate(numbered):
        live = [row for row in groups[key] if rows[row].state != FORGOTTEN]
        live = sorted(live, key=lambda row: (rows[row].created_at, row)) if len(live) > 1 else []
        assert sessions.members[slice(*sessions.starts[number : number + 2])].tolist() == live
        for row in live:
            session[row] = number
        for earlier, other in pairwise(live):
            if len({rows[row].created_by or rows[row].trust for row in (earlier, other)}) == 2:
                after[earlier], before[other] = other, earlier
        counts = Counter(term for row in live for term in tokenizer.terms(rows[row].searched_text))
        assert sessions.index.lengths[number] == (counts.total() if live else -1)
        for term in counts:
            assert number in sessions.index.posting_list(term)[0]
    assert sessions.session.tolist() == session
    assert (sessions.before.tolist(), sessions.after.tolist()) == (before, after)
    names = [speaker_name(memory.created_by or "") for memory in rows]
    speakers = [sessions.names[place] if place >= 0 else None for place in sessions.speaker]
    assert speakers == names and list(sessions.names) == sorted(set(names) - {None})
    asks = [memory.state != FORGOTTEN and memory.content.endswith("?") for memory in rows]
    assert sessions.asks.tolist() == asks


def test_a_turn_asks_where_it_ends_as_a_question(place):
    assert place[1].asks.tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]


def test_members_are_the_rows_of_each_session_in_the_order_they_were_said(place):
    assert place[1].starts.tolist() == [0, 4, 6, 8]
    assert place[1].members.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_question_about_the_time_prefers_the_turn_that_names_one(place):
    view, _ = place
    question = Question("When did it rain?", Filter(now=NOW), 10, fusion="weighted", explain=True)
    evidence = {hit.memory.id: hit.why["evidence"] for hit in recall(view, question).hits}
    assert evidence["b"]["dated"] == evidence["b"]["statement"] == 1.0
    assert "dated" not in evidence.get("a", {})


def test_only_people_are_speakers(place):
    _, sessions = place
    assert sessions.names == ("ana ruiz", "tom")
    assert sessions.speaker.tolist() == [0, 1, 1, 0, -1, -1, 0, 1, -1, -1]


def test_a_session_is_found_by_the_words_of_all_its_turns(place):
    index: PostingsIndex = place[1].index
    assert index.size == 3
    assert index.posting_list("lake")[0].tolist() == index.posting_list("fenc")[0].tolist() == [0]


def test_an_answer_without_a_word_of_the_question_comes_back(place):
    view, _ = place
    assert ids(view, "Where did Tom spend his holidays?")[0] == "a"
    assert "a" not in ids(view, "spend holidays", mode="lexical")


def test_why_shows_what_the_conversation_lent(place):
    question = Question("spend holidays", Filter(now=NOW), 10, fusion="weighted", explain=True)
    answer = recall(place[0], question)
    why = {hit.memory.id: hit.why for hit in answer.hits}["a"]
    assert why["evidence"]["question"] == why["evidence"]["before"] == 1.0
    assert why["words"] == {}
    assert why["question_words"].keys() == {"spend", "holiday"}


def test_a_filtered_turn_lends_nothing_to_those_beside_it(place):
    view, _ = place
    only_shop = Filter(now=NOW, project="shop")
    assert "x2" in ids(view, "where is the shop?", filter=only_shop)
    elsewhere = Filter(now=NOW, project="bank")
    assert not {"x1", "x2"} & set(ids(view, "where is the shop?", filter=elsewhere))


def test_a_forgotten_turn_lends_nothing_at_once_and_nothing_after_a_build(tmp_path: Path):
    home = tenant(tmp_path)
    with EventLog(home.log, create=True) as log:
        drafts = [Draft(id=i, content=t, created_by=w, session="s1") for i, w, _, _, t in TURNS[:2]]
        commands.record_batch(log, drafts, NOW)
        rebuild(home, log, EMBEDDER, NOW)
        reader = Reader(home, log, EMBEDDER)
        with reader.view() as view:
            assert "a" in ids(view, "spend holidays")
        commands.forget(log, "q", NOW)
        with reader.view() as view:
            assert ids(view, "spend holidays") == []
        rebuild(home, log, EMBEDDER, NOW)
        reader.poll()
        with reader.view() as view:
            assert ids(view, "spend holidays") == []


@pytest.mark.parametrize("built", [True, False])
def test_of_two_who_say_the_same_the_one_named_comes_first(tmp_path: Path, built: bool):
    home = tenant(tmp_path)
    with EventLog(home.log, create=True) as log:
        turns = [("Tom", "The boiler needs new copper pipes"), ("Ana Ruiz", "Copper pipes leak")]
        drafts = [Draft(id=f"m{n}", content=t, created_by=w) for n, (w, t) in enumerate(turns)]
        commands.record_batch(log, drafts, NOW)
        if built:
            rebuild(home, log, EMBEDDER, NOW)
        with Reader(home, log, EMBEDDER).view() as view:
            assert ids(view, "What did Ana say about copper pipes?")[0] == "m1"
            assert ids(view, "What did Tom say about copper pipes?")[0] == "m0"


def test_a_text_is_searched_with_its_speaker_and_its_day():
    assert searched_text("It rained", "Tom", NOW) == "Tom\nIt rained\n15 January 2027"
    assert searched_text("It rained", "user", 0) == "It rained\n1 January 1970"
    assert searched_text("It rained", None, -1) == "It rained\n31 December 1969"


KNOWN = by_part(["ana ruiz", "tom", "@mark"])


@pytest.mark.parametrize(
    ("asked", "names", "rest"),
    [
        ("What does Ana like?", {"ana ruiz"}, "What does   like?"),
        ("Tom's and Ruiz\u2019s fence", {"tom", "ana ruiz"}, "  and   fence"),
        ("ask @mark", {"@mark"}, "ask  "),
        ("mark the tomato", set(), "mark the tomato"),
        ("Tomatoes", set(), "Tomatoes"),
        ("", set(), ""),
    ],
)
def test_names_are_taken_out_of_the_question(asked: str, names: set[str], rest: str):
    assert analysis.split_names(asked, KNOWN) == (names, rest)


def test_a_note_that_answers_stands_before_turns_that_only_share_a_word(tmp_path: Path):
    home = tenant(tmp_path)
    texts = ("Did you paint the fence?", "I did, all of it", "And the gate?", "I painted it first")
    with EventLog(home.log, create=True) as log:
        turns = [
            Draft(content=text, session="s1", created_by=("Ana Ruiz", "Tom")[number % 2])
            for number, text in enumerate(texts)
        ]
        note = Draft(id="note", content="The paint for the fence is oil based")
        commands.record_batch(log, [*turns, note], NOW)
        rebuild(home, log, EMBEDDER, NOW)
        with Reader(home, log, EMBEDDER).view() as view:
            assert ids(view, "which paint is on the fence, oil or acrylic?")[0] == "note"


def test_a_common_word_nobody_holds_silences_nothing(tmp_path: Path):
    home = tenant(tmp_path)
    notes = ["Secrets are found and redacted", "The log lies in store", "Tests take a minute"]
    with EventLog(home.log, create=True) as log:
        commands.record_batch(log, [Draft(content=note) for note in notes], NOW)
        rebuild(home, log, EMBEDDER, NOW)
        with Reader(home, log, EMBEDDER).view() as view:
            sure = {
                query: recall(view, Question(query, Filter(now=NOW), 1)).hits[0]
                for query in ("how are secrets kept?", "how are secrets watermarked?")
            }
    sure_one, watermarked = (hit.confidence for hit in sure.values())
    assert sure_one > watermarked + 0.1

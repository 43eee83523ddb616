"""A filter gives the same result for a column and for a single memory, and precedes any cut."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mnemolog import wire

from serve.api.memory_lists import OfMemories
from serve.reader.filters import Filter, Masks, RowMasks
from serve.reader.reader import Reader
from serve.reader.tail import LiveTail
from serve.reader.view import View
from serve.recall.recall import Mode, Question, recall
from serve.recall.request import RecallRequest
from store.embedders.lexical import LexicalEmbedder
from store.home.instants import moment
from store.home.tenant import tenant
from store.index import postings
from store.index.postings import PostingsIndex
from store.log.commands import Draft, record_batch
from store.log.event_kinds import (
    MEMORY_KINDS,
    TIERS,
    TRUSTS,
    Archived,
    Body,
    Forgotten,
    Recorded,
    Restored,
    Superseded,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import FILTERS
from store.memories.rows import MemoryRows
from store.snapshots.projection import Inputs, build_checked

NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
PROJECTS = (None, "shop", "bank", "github.com/pallets/flask")
TAGS = ("api", "db", "ünïcode", "two words")
TIMES = st.integers(NOW - 4 * HOUR, NOW + HOUR)
# the filters with a fixed vocabulary or tags
_KNOWN = ("kinds", "tiers", "trusts", "tags")
OTHERS = {name: FILTERS[name] for name in FILTERS if name not in _KNOWN}

DRAFTS = st.builds(
    Draft,
    content=st.sampled_from(["alpha rule", "beta rule", "gamma rule"]),
    kind=st.sampled_from(MEMORY_KINDS),
    tier=st.sampled_from(TIERS),
    trust=st.sampled_from(TRUSTS),
    project=st.sampled_from(PROJECTS),
    tags=st.lists(st.sampled_from(TAGS), max_size=3).map(tuple),
    ttl_s=st.none() | st.integers(1, 7_200),
    created_at=st.none() | TIMES.map(moment),
    key=st.sampled_from([None, "deploy.region"]),
    **{field: st.sampled_from([None, "anna", "ben"]) for field in OTHERS.values()},
)
FATES = st.lists(
    st.tuples(
        st.integers(0, 11),
        st.sampled_from([Forgotten(), Archived(), Restored(), Superseded(by="m0")]),
    ),
    max_size=8,
)
ASKED = st.builds(
    Filter,
    now=TIMES,
    project=st.sampled_from([*PROJECTS, "unknown"]),
    kinds=st.lists(st.sampled_from(MEMORY_KINDS), max_size=3).map(tuple),
    tiers=st.lists(st.sampled_from(TIERS), max_size=2).map(tuple),
    trusts=st.lists(st.sampled_from(TRUSTS), max_size=2).map(tuple),
    tags=st.lists(st.sampled_from([*TAGS, "unknown"]), max_size=2).map(tuple),
    since=st.none() | TIMES,
    until=st.none() | TIMES,
    active_only=st.booleans(),
    as_of=st.none() | TIMES,
    cold=st.booleans(),
    **{
        name: st.lists(st.sampled_from(["anna", "ben", "unknown"]), max_size=2).map(tuple)
        for name in OTHERS
    },
)


def rows_of(drafts: list[Draft], fates: list[tuple[int, Body]]) -> MemoryRows:
    """Return the rows after these drafts and the events about them, without a disk."""
    fields = Recorded.__struct_fields__
    bodies = [Recorded(**{name: getattr(draft, name) for name in fields}) for draft in drafts]
    events = [
        Event(
            f"m{n}",
            NOW - 2 * HOUR,
            body,
            f"m{n}",
            draft.project,
            draft.session,
            trust=draft.trust,
            seq=n + 1,
        )
        for n, (body, draft) in enumerate(zip(bodies, drafts, strict=True))
    ]
    events += [
        Event(f"e{n}", NOW - HOUR, body, f"m{which}", seq=len(drafts) + n + 1)
        for n, (which, body) in enumerate(fates)
    ]
    inputs = Inputs(len(events), lambda after: iter(events[after:]))
    return MemoryRows.open(build_checked(MEMORIES_PROJECTION, inputs, None))


def agree(rows: MemoryRows, filter_: Filter) -> bool:
    memories = rows.take(range(len(rows)))
    return filter_.mask(rows).tolist() == [filter_.accepts(memory) for memory in memories]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A snapshot of 500 memories that repeat the query's words, and one that has them once."""
    found = tenant(tmp_path_factory.mktemp("home"))
    loud = "rotate the signing key in `src/keys.py`"
    with EventLog(found.log, create=True) as log:
        crowd = [
            Draft(
                content=f"{loud} {n}",
                kind="fact" if n % 2 else "lesson",
                project="bank",
                tags=("old",),
                created_at=moment(NOW - 3 * HOUR),
            )
            for n in range(500)
        ]
        wanted = Draft(
            id="wanted",
            content=f"{loud}, but never on a friday before the weekly report went out to all",
            kind="decision",
            project="shop",
            tags=("new",),
            tier="working",
        )
        record_batch(log, [wanted, *crowd], NOW - HOUR)
        rebuild(found, log, LexicalEmbedder(), NOW)
        with Reader(found, log, LexicalEmbedder()).view() as view:
            return view


@given(st.lists(DRAFTS, max_size=12), FATES, ASKED)
@settings(deadline=None)
def test_mask_and_accepts_agree_on_any_memories(
    drafts: list[Draft], fates: list[tuple[int, Body]], filter_: Filter
):
    assert agree(rows_of(drafts, fates), filter_)


@given(st.lists(DRAFTS, max_size=12), FATES, st.lists(ASKED, min_size=2, max_size=12))
@settings(deadline=None)
def test_a_mask_kept_at_hand_is_the_one_made_anew(
    drafts: list[Draft], fates: list[tuple[int, Body]], asked: list[Filter]
):
    rows = rows_of(drafts, fates)
    index = {name: table.combine_chunks() for name, table in postings.index([]).items()}
    empty = LiveTail(rows, PostingsIndex.open(index), LexicalEmbedder())
    masks = Masks(RowMasks(rows), empty.now())
    for conditions in (*asked, *asked):
        assert masks.of(conditions).tolist() == conditions.mask(rows).tolist()


def test_a_mask_knows_when_a_memory_of_the_tail_expires(log: EventLog, home: Path):
    record_batch(log, [Draft(content="alpha rule", ttl_s=3_600)], NOW)
    with Reader(tenant(home), log, LexicalEmbedder()).view() as view:
        passing = [view.masks.of(Filter(now=NOW + hours * HOUR)).tolist() for hours in (0, 1, 0)]
    assert passing == [[True], [False], [True]]


@given(ASKED)
@settings(deadline=None, max_examples=50)
def test_they_agree_on_a_mapped_snapshot(crowded: View, filter_: Filter):
    assert agree(crowded.snapshots.rows, filter_)


def test_a_forgotten_memory_passes_no_filter():
    rows = rows_of([Draft(content="alpha rule")], [(0, Forgotten())])
    for active_only in (True, False):
        assert not Filter(now=NOW, active_only=active_only).mask(rows).any()


def test_a_project_sees_itself_and_what_belongs_to_none():
    rows = rows_of([Draft(content="alpha rule", project=name) for name in PROJECTS], [])
    assert Filter(now=NOW, project="shop").mask(rows).tolist() == [True, True, False, False]


def test_a_memory_is_over_at_the_moment_its_ttl_ends():
    rows = rows_of([Draft(content="alpha rule", ttl_s=3_600)], [])
    ends = NOW - HOUR
    for moment_, passes in ((ends - 1, True), (ends, False)):
        assert Filter(now=moment_).mask(rows).tolist() == [passes]
        assert Filter(now=moment_).accepts(rows.take([0])[0]) == passes


def test_since_is_inclusive_and_until_is_not():
    rows = rows_of([Draft(content="alpha rule", created_at=moment(NOW))], [])
    assert Filter(now=NOW, since=NOW).mask(rows).tolist() == [True]
    assert Filter(now=NOW, until=NOW).mask(rows).tolist() == [False]


@pytest.mark.parametrize("mode", ["auto", "lexical", "vector", "entity"])
@pytest.mark.parametrize(
    "only",
    [
        {"kinds": ("decision",)},
        {"project": "shop"},
        {"tags": ("new",)},
        {"tiers": ("working",)},
        {"since": NOW - 2 * HOUR},
    ],
    ids=lambda only: next(iter(only)),
)
def test_a_crowd_that_is_filtered_out_takes_no_place(crowded: View, only: dict, mode: Mode):
    question = Question("rotate the signing key in src/keys.py", Filter(now=NOW, **only), 1, mode)
    answer = recall(crowded, question)
    assert [hit.memory.id for hit in answer.hits] == ["wanted"]


def test_without_the_filter_the_crowd_would_have_taken_it(crowded: View):
    question = Question("rotate the signing key", Filter(now=NOW), 50)
    answer = recall(crowded, question)
    assert len(answer.hits) == 50
    assert "wanted" not in [hit.memory.id for hit in answer.hits]


def test_every_filter_of_a_field_can_be_asked_for_at_each_door():
    for name in FILTERS:
        assert name in Filter.__struct_fields__
        assert name in RecallRequest.__struct_fields__
        assert name in wire.Question.__annotations__
        assert name.removesuffix("s") in OfMemories.__struct_fields__
        assert name.removesuffix("s") in wire.Filters.__annotations__

"""A list of memories equals a check of each single memory, page after page."""

from collections.abc import Callable, Iterator

import pytest
from conftest import NOW, Built
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.reports.listing import Listing, Position, memory_fields, page
from store.home.instants import moment
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.memories.memory import ACTIVE, FORGOTTEN, Memory

LATER = NOW + 100_000_000
HOUR = 3_600_000_000


@pytest.fixture
def changed(built: Built) -> Built:
    """The built memory, with changes of each kind since the build."""
    log = built.log
    fresh = [
        Draft(
            id=f"f{number}",
            content=f"Fresh note {number} about tides and migrations",
            kind="lesson" if number % 2 else "decision",
            tags=("team", "sea") if number % 3 else (),
            project=("acme/web", "acme/api", None)[number % 3],
            pinned=number % 4 == 0,
            importance=number / 10,
            created_at=moment(NOW - number * HOUR),
        )
        for number in range(10)
    ]
    commands.record_batch(log, fresh, NOW)
    for id_ in ("m01", "f9"):
        commands.forget(log, id_, NOW)
    commands.archive(log, "m02", NOW + 1)
    commands.restore(log, "m06", NOW + 2)
    commands.supersede(log, "m03", "f1", NOW + 3)
    commands.pin(log, "m04", NOW + 4)
    commands.revise(log, "m05", Revised(importance=0.95, tags=("sea",)), NOW + 5)
    newer = Draft(id="k3", key="deploy.region", value="ap", content="We deploy to ap-south-1")
    short = Draft(id="t1", content="The badge is red until noon", ttl_s=1)
    commands.record_batch(log, [newer, short], NOW + 6)
    return built


@pytest.fixture
def view(changed: Built) -> Iterator[View]:
    with Reader(changed.tenant, changed.log, changed.embedder).view() as view_:
        yield view_


def all_of(view: View) -> list[Memory]:
    rows = view.snapshots.rows
    ids = [other.id for other in rows.take(range(len(rows)))]
    ids += [other.id for other in view.tail.current() if other.id not in ids]
    return [memory for id_ in ids if (memory := view.tail.find(id_))]


def passes(memory: Memory, listing: Listing) -> bool:
    """The filter again, written plainly."""
    those, over = listing.those, memory.expires_at is not None and memory.expires_at <= LATER
    state = "expired" if memory.state == ACTIVE and over else memory.state
    as_active = replace(those, active_only=False)
    in_state = listing.state in ("any", state)
    if memory.state == FORGOTTEN:
        other = not (those.kinds or those.tiers or those.tags or those.project)
    else:
        other = as_active.accepts(memory)
    of_key = listing.key is None or memory.key == listing.key
    return in_state and other and of_key and listing.pinned in (None, memory.pinned)


ASKED = {
    "plain": Listing(Filter(LATER)),
    "kinds": Listing(Filter(LATER, kinds=("lesson", "goal"))),
    "tiers": Listing(Filter(LATER, tiers=("semantic",))),
    "tags": Listing(Filter(LATER, tags=("team", "sea"))),
    "project": Listing(Filter(LATER, project="acme/web")),
    "none": Listing(Filter(LATER, project="")),
    "since": Listing(Filter(LATER, since=NOW - 5 * HOUR, until=NOW)),
    "pinned": Listing(Filter(LATER), pinned=True),
    "unpinned": Listing(Filter(LATER, kinds=("decision",)), pinned=False),
    "archived": Listing(Filter(LATER), "archived"),
    "superseded": Listing(Filter(LATER), "superseded"),
    "forgotten": Listing(Filter(LATER), "forgotten"),
    "stale": Listing(Filter(LATER), "stale"),
    "expired": Listing(Filter(LATER), "expired"),
    "any": Listing(Filter(LATER), "any"),
    "key": Listing(Filter(LATER), "any", key="deploy.region"),
    "no key": Listing(Filter(LATER), "any", key="deploy.nothing"),
}
KEYS: dict[str, Callable[[Memory], tuple[float, int]]] = {
    "-created_at": lambda memory: (-memory.created_at, -memory.seq),
    "created_at": lambda memory: (memory.created_at, memory.seq),
    "-updated_at": lambda memory: (-memory.updated_at, -memory.seq),
    "updated_at": lambda memory: (memory.updated_at, memory.seq),
    "-importance": lambda memory: (-memory.importance, -memory.seq),
}


def walked(view: View, listing: Listing, limit: int) -> Iterator[Memory]:
    after: Position | None = None
    while True:
        listed = page(view, listing, limit, after)
        yield from listed.memories
        after = listed.next
        if after is None:
            return


@pytest.mark.parametrize("name", ASKED)
def test_a_list_has_the_memories_that_pass_in_order_and_their_count(view: View, name: str):
    listing = ASKED[name]
    expected = sorted(
        (memory for memory in all_of(view) if passes(memory, listing)), key=KEYS[listing.sort]
    )
    listed = page(view, listing, 200)
    assert [memory.id for memory in listed.memories] == [memory.id for memory in expected]
    assert (listed.total, listed.next) == (len(expected), None)
    assert bool(expected) == (name not in ("stale", "no key"))


@pytest.mark.parametrize("sort", KEYS)
@pytest.mark.parametrize("limit", [1, 7, 200])
def test_the_pages_of_a_list_join_to_the_whole_list(view: View, sort: str, limit: int):
    listing = replace(ASKED["any"], sort=sort)
    expected = sorted(all_of(view), key=KEYS[sort])
    assert list(walked(view, listing, limit)) == expected


def test_a_memory_built_from_nothing_lists_nothing(tenant, log, embedder):
    with Reader(tenant, log, embedder).view() as view:
        for listing in (ASKED["any"], ASKED["key"]):
            listed = page(view, listing, 5)
            assert (listed.memories, listed.next, listed.total) == ([], None, 0)


def test_a_build_changes_nothing_in_a_list(changed: Built):
    def listed() -> list[list[Memory]]:
        with Reader(changed.tenant, changed.log, changed.embedder).view() as view:
            return [page(view, listing, 200).memories for listing in ASKED.values()]

    before = listed()
    changed.rebuild()
    assert listed() == before


# Words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sqlite WAL", ["m01"]),
        ("wal tides", []),
        ("tides migrations", [f"f{number}" for number in range(10)]),
        ("?!", []),
    ],
)
def test_a_memory_must_have_every_word(built: Built, words: str, expected: list[str]):
    fresh = [Draft(id=f"f{n}", content=f"Note {n} about tides and migrations") for n in range(10)]
    commands.record_batch(built.log, fresh, NOW)
    with Reader(built.tenant, built.log, built.embedder).view() as view:
        memories = page(view, replace(ASKED["plain"], words=words), 200).memories
    assert sorted(memory.id for memory in memories) == expected


def test_words_of_a_forgotten_memory_find_nothing(view: View):
    for state in ("any", "forgotten"):
        listing = replace(ASKED["plain"], state=state, words="tides")
        assert "f9" not in [memory.id for memory in page(view, listing, 200).memories]


# Writing while a list is read


def walked_while(changed: Built, listing: Listing, write: Callable[[int], object]) -> list[str]:
    """Return the ids on the pages of a list, with a write after each page."""
    reader = Reader(changed.tenant, changed.log, changed.embedder)
    ids: list[str] = []
    after: Position | None = None
    for turn in range(100):
        with reader.view() as view:
            listed = page(view, listing, 3, after)
        ids += [memory.id for memory in listed.memories]
        after = listed.next
        if after is None:
            return ids
        write(turn)
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("sort", ["-created_at", "created_at"])
def test_writes_between_pages_repeat_or_skip_no_memory(changed: Built, sort: str):
    with Reader(changed.tenant, changed.log, changed.embedder).view() as view:
        before = [memory.id for memory in page(view, ASKED["plain"], 200).memories]
    removed = before[::5]
    remaining = [id_ for id_ in before if id_ not in removed]

    def write(turn: int) -> None:
        log = changed.log
        for back in (0, turn, 40):  # before, at and behind the list's position
            note = f"written {turn} {back} h back"
            at = moment(NOW - back * HOUR)
            commands.record(log, Draft(content=note, created_at=at), NOW + turn)
        if turn < len(removed):
            commands.forget(log, removed[turn], NOW + turn)
        revised = Revised(importance=turn % 10 / 10, tags=("x",))
        commands.revise(log, remaining[turn % len(remaining)], revised, NOW + turn)
        if turn == 4:
            changed.rebuild()

    ids = walked_while(changed, replace(ASKED["plain"], sort=sort), write)
    assert len(ids) == len(set(ids))
    assert set(remaining) <= set(ids)


def test_a_changed_memory_moves_to_the_end_when_sorted_by_update(changed: Built):
    with Reader(changed.tenant, changed.log, changed.embedder).view() as view:
        listing = replace(ASKED["plain"], sort="updated_at")
        before = [memory.id for memory in page(view, listing, 200).memories]

    def write(turn: int) -> None:
        if turn == 2:  # one already listed and one not yet
            for id_ in (before[0], before[-1]):
                commands.revise(changed.log, id_, Revised(importance=0.1), LATER)

    ids = walked_while(changed, listing, write)
    assert set(before) == set(ids)
    assert ids[-2:] == [before[0], before[-1]]
    assert [id_ for id_ in before if ids.count(id_) == 2] == [before[0]]


# Displayed fields


def test_a_listed_memory_has_the_fields_of_sorting_and_filtering(view: View):
    ids = {
        memory.id: memory_fields(memory, LATER) for memory in page(view, ASKED["any"], 200).memories
    }
    assert ids["k3"]["key"] == "deploy.region"
    assert ids["m05"]["importance"] == 0.95
    assert ids["t1"]["state"] == "expired"
    assert ids["m01"]["text"] == ""
    assert "importance" not in ids["m01"]

"""
lived: a memory that undergoes random operations in any order, compared with a dictionary of its
expected state.

Each memory has a unique word, so that a query for it finds that memory or nothing.
"""

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from folds import fold_log
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.recall import Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import MnemologError, NotFound
from store.home.tenant import tenant
from store.log import commands, erasing
from store.log.commands import Draft
from store.log.event_kinds import Planned, Revised
from store.log.event_log import EventLog
from store.maintenance.build import rebuild
from store.memories.memory import ACTIVE, ARCHIVED, FORGOTTEN, SUPERSEDED, Memory
from store.plans import plans, steps

START = 1_800_000_000_000_000
SECOND = 1_000_000
EMBEDDER = LexicalEmbedder()
KEYS = ("deploy.region", "deploy.branch")
WORDS = ("anchor", "badger", "copper", "dragon", "ember", "falcon")
LEAST_TOLD = 4  # events between two builds, so that most of a life is not building


@dataclass(frozen=True, slots=True)
class Known:
    """The expected state of a memory. `word` is unique to it; `changes` counts its changes."""

    word: str
    state: str = ACTIVE
    key: str | None = None
    expires_at: int | None = None
    pinned: bool = False
    is_erased: bool = False
    changes: int = 0

    def is_seen(self, now: int) -> bool:
        return self.state == ACTIVE and (self.expires_at is None or self.expires_at > now)


class Life(RuleBasedStateMachine):
    """One life. `lived` counts the operations of all lives, by name."""

    lived: ClassVar[Counter[str]] = Counter()

    ids = Bundle("ids")
    planned = Bundle("planned")

    @initialize(target=ids)
    def begin(self) -> Any:
        """Open a new memory with a few notes, two of them values of one key."""
        self.folder = Path(tempfile.mkdtemp(prefix="mnemolog-life-"))
        self.tenant = tenant(self.folder)
        self.now, self.number = START, itertools.count()
        self.model: dict[str, Known] = {}
        self.plans: dict[str, tuple[str, Known, int]] = {}
        self.links: set[tuple[str, str]] = set()
        self.dropped: list[Any] = []  # handles left open, as after a kill
        self.told = 0
        self._open(create=True)
        keys = (None, KEYS[0], None, KEYS[0])
        return multiple(
            *(self._add(word, key, None) for word, key in zip(WORDS, keys, strict=False))
        )

    def _open(self, *, create: bool = False) -> None:
        self.log = EventLog(self.tenant.log, create=create)
        self.reader = Reader(self.tenant, self.log, EMBEDDER)

    def _did(self, name: str) -> None:
        type(self).lived[name] += 1
        self.now += SECOND

    def _set(self, id_: str, **changes: Any) -> None:
        self.told += 1
        old = self.model[id_]
        self.model[id_] = replace(old, changes=old.changes + 1, **changes)

    def _gives_way(self, id_: str) -> None:
        """Supersede the other holders of a memory's key, as the memory has become current."""
        key = self.model[id_].key
        for other, memory in self.model.items():
            if other != id_ and key is not None and memory.key == key and memory.state == ACTIVE:
                self._set(other, state=SUPERSEDED)
        for plan, (other, before, applied) in self.plans.items():
            is_away = applied >= 0 and other != id_ and before.state == ACTIVE
            if is_away and key is not None and before.key == key:  # undone, it is not the newest
                self.plans[plan] = (other, replace(before, state=SUPERSEDED), applied)

    def _do(self, name: str, act: Callable[[], Any], *about: str) -> bool:
        """Do it; return False if a memory is erased, which must raise NotFound."""
        self._did(name)
        if any(self.model[id_].is_erased for id_ in about):
            try:
                act()
            except NotFound:
                return False
            raise AssertionError(f"{name} of what was erased was taken")
        act()
        return True

    # Events

    @rule(
        target=ids,
        word=st.sampled_from(WORDS),
        key=st.sampled_from([None, None, *KEYS]),
        ttl_s=st.sampled_from([None, None, None, 5, 3_600]),
    )
    def add(self, word: str, key: str | None, ttl_s: int | None) -> str:
        return self._add(word, key, ttl_s)

    def _add(self, word: str, key: str | None, ttl_s: int | None) -> str:
        self._did("add")
        number = next(self.number)
        id_, own = f"m{number}", f"marker{number}x"
        draft = Draft(id=id_, content=f"the {word} is of {own}", key=key, value=own, ttl_s=ttl_s)
        commands.record(self.log, draft, self.now)
        self.told += 1
        ends = None if ttl_s is None else self.now + ttl_s * SECOND
        self.model[id_] = Known(own, key=key, expires_at=ends)
        self._gives_way(id_)
        return id_

    @rule(id_=ids)
    def add_again(self, id_: str) -> None:
        """Record the same id with another text: it is refused, and nothing is written."""
        self._did("add again")
        head = self.log.head()
        try:
            commands.record(self.log, Draft(id=id_, content="another text altogether"), self.now)
        except MnemologError:
            pass
        assert self.log.head() == head

    @rule(id_=ids, word=st.sampled_from(WORDS))
    def revise(self, id_: str, word: str) -> None:
        own = f"marker{next(self.number)}r"
        changes = Revised(content=f"now the {word} is of {own}")
        if self._do("revise", lambda: commands.revise(self.log, id_, changes, self.now), id_):
            self._set(id_, word=own)

    @rule(id_=ids, by=ids)
    def supersede(self, id_: str, by: str) -> None:
        if id_ == by:
            return
        if self._do("supersede", lambda: commands.supersede(self.log, id_, by, self.now), id_, by):
            self._ends(id_, SUPERSEDED)

    @rule(id_=ids)
    def forget(self, id_: str) -> None:
        if self._do("forget", lambda: self._forgotten(id_), id_):
            self._set(id_, state=FORGOTTEN)

    def _forgotten(self, id_: str) -> None:
        commands.forget(self.log, id_, self.now)

    @rule(id_=ids)
    def archive(self, id_: str) -> None:
        if self._do("archive", lambda: commands.archive(self.log, id_, self.now), id_):
            self._ends(id_, ARCHIVED)

    def _ends(self, id_: str, state: str) -> None:
        """Set a state; a forgotten memory stays forgotten, as only a restore brings it back."""
        is_gone = self.model[id_].state == FORGOTTEN
        self._set(id_, state=FORGOTTEN if is_gone else state)

    @rule(id_=ids)
    def restore(self, id_: str) -> None:
        if self._do("restore", lambda: commands.restore(self.log, id_, self.now), id_):
            self._set(id_, state=ACTIVE, expires_at=None)
            self._gives_way(id_)

    @rule(id_=ids, pinned=st.booleans())
    def pin(self, id_: str, pinned: bool) -> None:
        if self._do("pin", lambda: commands.pin(self.log, id_, self.now, pinned=pinned), id_):
            self._set(id_, pinned=pinned)

    @rule(id_=ids, to=ids)
    def link(self, id_: str, to: str) -> None:
        if self._do("link", lambda: commands.link(self.log, id_, to, "support", self.now), id_, to):
            self._set(id_)  # a link's event belongs to its source
            self.links.add((id_, to))

    @rule(id_=ids)
    def erase(self, id_: str) -> None:
        self._did("erase")
        erasing.erase(self.log, [id_], self.now)
        self._set(id_, state=FORGOTTEN, is_erased=True, expires_at=None, pinned=False, key=None)

    # Plans

    @rule(target=planned, id_=ids)
    def plan(self, id_: str) -> Any:
        """Propose to archive a memory, as a job does."""
        memory = fold_log(self.log).rows.get(id_)
        if memory is None or self.model[id_].state != ACTIVE:
            return multiple()
        self._did("plan")
        step = steps.archive(memory, "nobody asks for it")
        body = Planned(job="archive", watermark=self.log.head(), steps=(step,))
        plan = plans.propose(self.log, body, self.now).id
        self.plans.setdefault(plan, (id_, self.model[id_], -1))
        return plan

    @rule(plan=planned)
    def apply(self, plan: str) -> None:
        id_, _, applied = self.plans[plan]
        self._did("apply")
        is_waiting = plans.find(self.log, plan).state == "waiting"
        try:
            plans.apply(self.log, plan, self.now)
        except MnemologError:
            assert not is_waiting
            return
        if applied < 0:
            assert self.model[id_].state == ACTIVE or self.model[id_].expires_at is not None
            self.plans[plan] = (id_, self.model[id_], self.model[id_].changes + 1)
            self._set(id_, state=ARCHIVED)

    @rule(plan=planned)
    def undo(self, plan: str) -> None:
        id_, before, applied = self.plans[plan]
        self._did("undo")
        was = plans.find(self.log, plan).state
        try:
            plans.undo(self.log, plan, self.now)
        except MnemologError:
            assert was != "applied" or self.model[id_].changes != applied
            return
        if was == "applied":
            assert self.model[id_].changes == applied, "what was changed since was lost"
            self._set(id_, state=before.state, expires_at=before.expires_at)

    # Builds and accidents

    @precondition(lambda self: self.told >= LEAST_TOLD)
    @rule(full=st.booleans(), poll=st.booleans())
    def build(self, full: bool, poll: bool) -> None:
        self._did("full build" if full else "build")
        self.told = 0
        rebuild(self.tenant, self.log, EMBEDDER, self.now, full=full)
        if poll:
            self.reader.poll()

    @precondition(lambda self: self.told)
    @rule()
    def crash(self) -> None:
        """Close nothing: the files as they are must suffice for the next process."""
        self._did("crash")
        self.dropped += [self.log, self.reader]
        self._open()

    @rule(by_s=st.sampled_from([-10 * 365 * 86_400, -3_600, -1, 10, 3_600, 10 * 365 * 86_400]))
    def jump(self, by_s: int) -> None:
        self._did("clock jump")
        self.now += by_s * SECOND

    # Invariants

    @rule(id_=ids, wide=st.booleans(), project=st.sampled_from([None, "", "shop"]))
    def ask(self, id_: str, wide: bool, project: str | None) -> None:
        self._did("recall")
        expected = self.model[id_]
        brought = self._found(expected.word, active_only=not wide, project=project)
        self._must_be(id_, brought, wide=wide)

    @rule(word=st.sampled_from(WORDS))
    def ask_all(self, word: str) -> None:
        self._did("recall")
        visible = {id_ for id_, memory in self.model.items() if memory.is_seen(self.now)}
        assert self._found(word) <= visible

    @invariant()
    def what_is_active_is_what_the_view_says(self) -> None:
        if not hasattr(self, "model"):
            return
        with self.reader.view() as view:
            for id_, expected in self.model.items():
                memory = view.tail.find(id_)
                assert memory is not None, f"{id_} is lost"
                state = memory.state, memory.pinned, memory.expires_at
                as_told = expected.state, expected.pinned, expected.expires_at
                assert state == as_told, (id_, expected, state)

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        try:
            self._same_as_built_anew()
        finally:
            self.log.close()
            for dropped in self.dropped:
                if isinstance(dropped, EventLog):
                    dropped.close()
            shutil.rmtree(self.folder)

    def _same_as_built_anew(self) -> None:
        """Check that the tail over a snapshot equals a full build, and the log has each id once."""
        events = list(self.log.read())
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len({event.id for event in events}) == len(events)
        laid_over = self._told()
        rebuild(self.tenant, self.log, EMBEDDER, self.now, full=True)
        self._open_anew()
        built = self._told()
        assert laid_over == built, list(_apart(laid_over, built))

    def _open_anew(self) -> None:
        self.log.close()
        self._open()

    def _told(self) -> dict[str, Any]:
        with self.reader.view() as view:
            rows = {id_: view.tail.find(id_) for id_ in self.model}
        differences = {
            f"{id_} {wide}": frozenset(self._found(memory.word, active_only=not wide))
            for id_, memory in self.model.items()
            for wide in (False, True)
        }
        for name, ids in differences.items():
            id_, wide = name.split()
            self._must_be(id_, ids, wide=wide == "True")
        return rows | differences

    def _must_be(self, id_: str, ids: Iterable[str], *, wide: bool) -> None:
        """Check that a query for a memory's word finds it if visible, and nothing hidden."""
        visible = {
            known_id
            for known_id, memory in self.model.items()
            if (memory.state != FORGOTTEN if wide else memory.is_seen(self.now))
        }
        assert set(ids) <= visible, (set(ids) - visible, "is hidden")
        assert (id_ in ids) == (id_ in visible), (id_, self.model[id_], ids)

    def _found(self, query: str, **only: Any) -> set[str]:
        question = Question(query, Filter(now=self.now, **only), 200, "lexical", min_confidence=0.0)
        with self.reader.view() as view:
            return {hit.memory.id for hit in recall(view, question).hits}


def _apart(state: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """Yield the differences of two states, field by field."""
    for place, was in state.items():
        if was != (value := other[place]):
            fields = was.__struct_fields__ if isinstance(was, Memory) else ()
            apart = [
                f"{name} {getattr(was, name)!r}, {getattr(value, name)!r}"
                for name in fields
                if getattr(was, name) != getattr(value, name)
            ]
            yield f"{place}: {apart or (was, value)}"

"""Audits of the memories, and the types shared by all audits: input, result and cure."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.home.instants import micros
from store.log import integrity, log_queries, merging
from store.log.event_kinds import (
    EPISODE,
    Archived,
    Erased,
    Forgotten,
    Pinned,
    Prompted,
    Quarantined,
    Recorded,
    Restored,
    Revised,
    Staled,
    Superseded,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_head import numbers
from store.maintenance import quarantine
from store.memories.memory import ACTIVE, FORGOTTEN, STALE, STATES, Memory
from store.memories.parts import MemoryParts, Places, fields_of, parts_of
from store.redaction import redact
from store.snapshots.projection import Built, Part, Tables
from store.text import frame
from store.text.excerpt import plural
from store.text.tokenizer import filing_hash

NAMED = 3  # memories named in a sentence


class AuditResult(NamedTuple):
    """An audit's finding, in one sentence; `rows` are the ids of the memories it fails on.

    It `isolates` them if each of them fails by itself and all others pass; it only `warns` if it
    could not check.
    """

    passed: bool
    detail: str
    rows: Sequence[str] = ()
    isolates: bool = False
    warns: bool = False

    @property
    def sentence(self) -> str:
        """The detail, and the first of the memories it fails on."""
        if not self.rows:
            return self.detail
        more = ", ..." if len(self.rows) > NAMED else ""
        return f"{self.detail}: memory {', '.join(self.rows[:NAMED])}{more}"


class AuditInput(msgspec.Struct, frozen=True):
    """The candidate and the published tables that an audit compares.

    `of_memories` are the candidate's memories, or the projection's own tables if it is not made of
    memories. `published` are the published tables of the same projection; None if there are none,
    or if they cannot be read: `unread` is then the reason.
    """

    log: EventLog
    watermark: int
    tables: Tables
    of_memories: Tables
    published: Tables | None
    published_watermark: int
    unread: str = ""

    @property
    def memories(self) -> pa.Table:
        """The memories table; reading it opens all its parts."""
        return self.of_memories["memories"]

    @property
    def count(self) -> int:
        """The number of memories."""
        return sum(part.rows for part in parts_of(self.of_memories, "memories"))

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Return the ids of the memories of some rows, in order; rows out of range are skipped."""
        there = sorted({int(row) for row in rows if 0 <= row < self.count})
        table = fields_of(self.of_memories, np.array(there, np.int64), ("id",))
        ids: list[str] = table.column("id").to_pylist()
        return ids

    def fresh(self, name: str) -> Iterator[tuple[int, Part]]:
        """Yield a table's unpublished parts, each with its first row.

        A part in the same file at the same place was audited when it was published.
        """
        before = self.published.parts[name] if isinstance(self.published, Built) else ()
        start = 0
        for number, part in enumerate(parts_of(self.tables, name)):
            there = before[number].file if number < len(before) else None
            if there is None or part.file is None or there.path != part.file.path:
                yield start, part
            start += part.rows


# The requirements for a candidate's memories before they are published.
#
# Parts that the candidate shares with the published snapshot were audited when they were published,
# so only its new parts and the events since are checked. A candidate that shares nothing is
# compared with the whole log.

Run = Callable[[AuditInput], AuditResult]

ANEW = "`mnemolog build --full` rebuilds it from the log"
CHECK_LOG = (
    "`mnemolog doctor` checks that the log is whole; if it is, `mnemolog build --full` fixes this"
)
ASK_MODEL = (
    "`mnemolog embedder test` tests the model; `mnemolog build --full` embeds all texts again"
)
ERASE = "`mnemolog erase ID` destroys its text"


class Audit(msgspec.Struct, frozen=True):
    """A check of one projection; `cure` is the advice if it fails."""

    name: str
    projection: str
    description: str
    run: Run
    cure: str


KNOWN: list[Audit] = []  # grows as modules are read: `store.maintenance.audits.AUDITS` has all


def audit_of(projection: str, cure: str) -> Callable[[Run], Run]:
    """Make a function an audit of a projection, described by its first docstring paragraph."""

    def known(run: Run) -> Run:
        first, _, _ = (run.__doc__ or "").partition("\n\n")
        KNOWN.append(Audit(run.__name__, projection, " ".join(first.split()), run, cure))
        return run

    return known


_TEXTS = ("content", "context", "action", "result")
_AT_ONCE = 10_000  # memories compared at a time


@audit_of("memories", cure=CHECK_LOG)
def rows_match_log(audited: AuditInput) -> AuditResult:
    """Every recorded memory and prompt has one row, in the order of the log, with its latest text.

    A text kept by an earlier version is redacted by today's patterns.
    """
    base = _served_rows(audited)
    row, after = (0, 0) if base is None else (len(base), audited.published_watermark)
    revised: dict[str, str] = {}  # by id
    others: list[str] = []  # ids of rows whose text differs from the first one compared
    for ids, contents in _contents_since(audited, after, revised):
        there = audited.memories.slice(row, len(ids))
        if there.column("id").to_pylist() != ids:
            text = f"the rows from {row} on differ from the log"
            return AuditResult(False, text, ids[:1])
        others += _mismatches(there, pa.array(contents, pa.string()))
        row += len(ids)
    if row != audited.count:
        text = f"{audited.count} rows for {row} recorded memories"
        return AuditResult(False, text, audited.ids(range(row, audited.count)))
    if base is not None:
        for start, part in audited.fresh("memories"):
            served = base.slice(start, part.rows)
            there = part.table.slice(0, len(served))
            if not there.column("id").equals(served.column("id")):
                text = f"the rows from {start} on are not the memories that are served"
                return AuditResult(False, text, audited.ids([start]))
            others += _mismatches(there, served.column("content"))
    memories = MemoryParts.open(audited.tables)
    wrong = [id_ for id_ in others if id_ not in revised]
    for id_, content in revised.items():
        place = memories.row(id_)  # none: a revision of an unknown memory
        if place is not None and not _is_of(memories.value(place, "content"), content):
            wrong.append(id_)
    wrong = [id_ for id_ in wrong if not _is_as_merged(audited, memories, id_)]
    if wrong:
        return AuditResult(False, f"{len(wrong)} rows differ from the log", wrong)
    return AuditResult(True, f"{audited.count} rows match the log")


def _is_as_merged(audited: AuditInput, memories: MemoryParts, id_: str) -> bool:
    """Return True if a memory has the newest of its texts by the order of all homes."""
    row = memories.row(id_)
    if row is None or not audited.log.is_merged():
        return False
    newest: str | None = None
    for event in merging.events_about(audited.log, [id_], audited.watermark):
        match event.body:
            case Recorded(content=text) | Revised(content=str(text)) if event.subject == id_:
                newest = text
            case Prompted(prompt=text) if event.id == id_:
                newest = text
            case Erased():
                newest = ""
    return newest is not None and _is_of(memories.value(row, "content"), newest)


@audit_of("memories", cure=ANEW)
def fields_match_log(audited: AuditInput) -> AuditResult:
    """Memories have the project, kind, time and trust that the log says, and are put away where it
    says so.

    A sample of the new rows is compared with the log, and the memories most recently forgotten,
    superseded, archived or pinned.
    """
    since = 0 if _served_rows(audited) is None else audited.published_watermark
    memories = MemoryParts.open(audited.tables)
    fresh = [
        start + place
        for start, part in audited.fresh("memories")
        for place in range(0, part.rows, max(1, part.rows // _SAMPLE))
    ]
    changed = log_queries.newest_subjects(
        audited.log, _PUT_AWAY, since, audited.watermark, _MOST_CHANGED
    )
    rows = {*fresh[:: max(1, len(fresh) // _SAMPLE)]}
    rows |= {row for id_ in changed if (row := memories.row(id_)) is not None}
    undone, is_merged = audited.log.undone_ids(audited.watermark), audited.log.is_merged()
    rows = {row for row in rows if row < len(audited.tables["columns"])}
    places = pa.array(sorted(rows), pa.int64())
    columns = audited.tables["columns"].select(["state", "project"]).take(places)
    codes = zip(*(columns.column(name).to_pylist() for name in ("state", "project")), strict=True)
    projects = [None, *audited.tables["projects"].column("name").to_pylist()]
    wrong: dict[str, str] = {}  # the first field that differs, by memory
    for row, (state, project) in zip(sorted(rows), codes, strict=True):
        memory = memories.memory(row)
        if is_merged:
            events = merging.events_about(audited.log, [memory.id], audited.watermark)
        else:
            events = [
                event
                for event in audited.log.events_for(memory.id)
                if event.seq <= audited.watermark and event.id not in undone
            ]
        if differing := _differing(memory, events):
            wrong[memory.id] = differing
        elif (STATES[state], projects[project + 1]) != (memory.state, memory.project):
            wrong[memory.id] = "column of states or projects"
    if wrong:
        text = f"{plural(len(wrong), 'memory')} of {len(rows)} with another "
        return AuditResult(False, text + ", ".join(sorted({*wrong.values()})), [*wrong])
    return AuditResult(True, f"{len(rows)} memories are what the log says of them")


_SAMPLE = 200  # rows whose fields are compared with the log
_MOST_CHANGED = 500  # memories that were put away or pinned
_PUT_AWAY = ("forgotten", "quarantined", "erased", "superseded", "archived", "staled", "pinned")


def _differing(memory: Memory, events: Sequence[Event]) -> str:
    """Return the field in which a memory differs from its events; empty if there is none."""
    recorded = next(
        (other for other in events if isinstance(other.body, (Recorded, Prompted))), None
    )
    if recorded is None:
        return ""  # an earlier version archived its prompt
    if memory.project != recorded.project:
        return "project"
    hidden = away = False
    for event in events:
        match event.body:
            case Forgotten() | Quarantined() | Erased():
                hidden = away = True
            case Superseded() | Archived() | Staled():
                away = True
            case Restored():
                hidden = away = False
    if (hidden and memory.state != FORGOTTEN) or (away and memory.state == ACTIVE):
        return "state"
    body = recorded.body
    if not isinstance(body, Recorded) or any(isinstance(other.body, Erased) for other in events):
        return ""
    pins = [other.body.pinned for other in events if isinstance(other.body, Pinned)]
    is_revised = any(isinstance(other.body, Revised) for other in events)
    is_restored = any(isinstance(other.body, Restored) for other in events)
    differs = {
        "kind": memory.kind != body.kind,
        "time": memory.created_at != (micros(body.created_at) if body.created_at else recorded.at),
        "trust": not is_revised and memory.trust != recorded.trust,
        "author": not is_revised and memory.author != recorded.author,
        "pin": bool(pins) and memory.pinned != pins[-1],
        "importance": not is_revised
        and body.importance is not None
        and abs(memory.importance - body.importance) > _ROUNDING,
        "end": bool(body.ttl_s)
        and not is_revised
        and not is_restored
        and memory.expires_at is None,
    }
    return next((name for name, is_other in differs.items() if is_other), "")


_ROUNDING = 1e-6  # of a number kept as a float32


@audit_of("memories", cure=ANEW)
def no_duplicate_ids(audited: AuditInput) -> AuditResult:
    """Ids are unique, and looking one up finds its row."""
    rows, ids = audited.count, Places.open(audited.tables["ids"])
    if not np.array_equal(np.sort(ids.documents), np.arange(rows)):
        astray = np.setdiff1d(np.arange(rows), ids.documents)
        return AuditResult(False, f"{len(ids.documents)} ids in {rows} rows", audited.ids(astray))
    by_row = np.empty(rows, np.uint64)
    by_row[ids.documents] = ids.hashes
    for start, part in audited.fresh("memories"):
        hashes = map(filing_hash, part.table.column("id").to_pylist())
        there = by_row[start : start + part.rows]
        astray = np.flatnonzero(np.fromiter(hashes, np.uint64, part.rows) != there)
        if len(astray):
            return AuditResult(
                False, f"{len(astray)} ids lead to another row", audited.ids(start + astray)
            )
    if (ids.hashes[1:] < ids.hashes[:-1]).any():
        return AuditResult(False, "ids are not sorted by their hashes")
    # the same id has the same hash, so only neighbours are compared
    before = np.flatnonzero(ids.hashes[1:] == ids.hashes[:-1])
    places = np.union1d(before, before + 1)
    twice: list[str] = []
    if len(places):
        alike = audited.memories.column("id").take(pa.array(ids.documents[places]))
        twice = [id_ for id_, times in Counter(alike.to_pylist()).items() if times > 1]
    return AuditResult(not twice, f"{rows} rows, {len(twice)} duplicate ids", twice)


@audit_of("memories", cure=CHECK_LOG)
def did_not_shrink(audited: AuditInput) -> AuditResult:
    """No row is lost, and there are fewer active memories only where the log has an event for it.

    Undoing a plan removes its records, a job's memory goes with its sources, and a turn with the
    words that an erasing cut out of its prompt.
    """
    if audited.unread:
        text = f"{audited.count} rows, compared with nothing: {audited.unread}"
        return AuditResult(False, text, warns=True)
    if audited.published is None:
        return AuditResult(True, f"first build, {audited.count} rows")
    since = audited.published_watermark
    if gaps := integrity.gaps(audited.log, after=since, until=audited.watermark):
        return AuditResult(True, f"lost: {numbers(gaps)}")
    undone = audited.log.undone_ids(audited.watermark, since)
    before = len(audited.published["columns"])
    if audited.count + len(undone) < before:
        text = f"{audited.count} rows, {before} are served now"
        return AuditResult(False, text, _no_longer_active(audited, undone))
    active, served = (_in_state(of, ACTIVE) for of in (audited.tables, audited.published))
    excused, cut = len(undone), 0
    for id_, subject, body in audited.log.bodies(since, audited.watermark, cold=False):
        if isinstance(body, Erased) and id_ == subject:  # of words in other events
            cut += body.events
        else:
            excused += isinstance(
                body, (Archived, Erased, Forgotten, Quarantined, Superseded, Staled)
            ) or (isinstance(body, Recorded) and body.key is not None)
    stale, were_stale = (_in_state(of, STALE) for of in (audited.tables, audited.published))
    excused += max(0, stale - were_stale)
    if cut and served - active > excused:
        gone = _active_episodes(audited.published) - _active_episodes(audited.tables)
        excused += min(cut, len(gone))
    detail = f"{active} active memories, {served} served now, {excused} put away"
    if served - active > excused:
        return AuditResult(False, detail, _no_longer_active(audited, undone))
    return AuditResult(True, detail)


def _no_longer_active(audited: AuditInput, undone: Container[str]) -> list[str]:
    """Return the ids of memories that are published as active and no longer are."""
    assert audited.published is not None
    there = set(_active_ids(audited.tables))
    return [id_ for id_ in _active_ids(audited.published) if id_ not in there and id_ not in undone]


def _active_ids(tables: Tables) -> list[str]:
    table = tables["memories"].select(["id", "state"])
    ids: list[str] = table.filter(pc.equal(table["state"], ACTIVE)).column("id").to_pylist()
    return ids


def _active_episodes(tables: Tables) -> set[str]:
    table = tables["memories"].select(["id", "state", "kind"])
    is_one = pc.and_(pc.equal(table["state"], ACTIVE), pc.equal(table["kind"], EPISODE))
    return set(table.filter(is_one).column("id").to_pylist())


@audit_of("memories", cure=ERASE)
def no_secrets(audited: AuditInput) -> AuditResult:
    """No text, tag or metadata contains a known pattern of a secret.

    Texts were redacted when they were folded, so only joining them can have formed one.
    """
    kinds: dict[str, str] = {}  # the first finding, by memory
    for ids, texts in new_texts(audited):
        for place, secret in redact.find_in_all(texts):
            kinds.setdefault(str(ids[place]), secret.kind)
    for ids, texts in _metadata(audited):
        for place, text in enumerate(texts.to_pylist()):
            # by value and key, as it was redacted: a pattern may span two of them
            if redact.redact_value(value := msgspec.json.decode(text)) != value:
                kinds.setdefault(str(ids[place]), "secret in the metadata")
    kinds = {id_: kinds[id_] for id_ in answerable(audited, kinds)}
    if not kinds:
        return AuditResult(True, "no secret pattern in any text")
    named = ", ".join(sorted(set(kinds.values())))
    return AuditResult(False, f"{len(kinds)} secrets ({named})", [*kinds], isolates=True)


@audit_of("memories", cure=ERASE)
def no_self_injection(audited: AuditInput) -> AuditResult:
    """No memory contains a block that mnemolog injected into a prompt."""
    candidates: dict[str, None] = {}
    for ids, texts in (*new_texts(audited), *_metadata(audited)):
        holds = pc.match_substring(texts, frame.OPENING).to_numpy(zero_copy_only=False)
        candidates |= dict.fromkeys(str(ids[place]) for place in np.flatnonzero(holds).tolist())
    vouched = quarantine.releases(audited.log, audited.watermark)
    wrong = [id_ for id_ in answerable(audited, candidates) if id_ not in vouched]
    if not wrong:
        return AuditResult(True, "no memory contains an injected block")
    return AuditResult(
        False, f"{plural(len(wrong), 'memory')} holding an injected block", wrong, isolates=True
    )


def answerable(audited: AuditInput, ids: Iterable[str]) -> list[str]:
    """Return the memories among `ids` that recall may return."""
    memories = MemoryParts.open(audited.tables)
    may_return = []
    for id_ in ids:
        row = memories.row(id_)
        if row is None or memories.value(row, "state") != FORGOTTEN:
            may_return.append(id_)
    return may_return


def _served_rows(audited: AuditInput) -> pa.Table | None:
    """Return the published memories if the candidate shares parts with them."""
    fresh = sum(part.rows for _, part in audited.fresh("memories"))
    if audited.published is None or fresh == audited.count:
        return None
    since = (audited.watermark, audited.published_watermark)
    if audited.log.undone_ids(*since) or log_queries.erased_ids(audited.log, *since):
        return None  # published rows are gone or blank
    return audited.published["memories"]


def _in_state(tables: Tables, state: str) -> int:
    """Return the number of memories in a state."""
    codes = tables["columns"].column("state")
    return int(np.count_nonzero(codes.to_numpy() == STATES.index(state)))


def _contents_since(
    audited: AuditInput, after: int, revised: dict[str, str]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield ids and contents of the memories and prompts since; add later texts to `revised`."""
    # only an earlier version archived prompts, and no other event about a row was ever archived
    has_away = log_queries.has_archived(audited.log, "prompted")
    events = audited.log.bodies(after, audited.watermark, cold=has_away)
    while some := list(islice(events, _AT_ONCE)):
        new: dict[str, str] = {}
        for id_, subject, body in some:
            if isinstance(body, Recorded):
                new[id_] = body.content
                revised.pop(id_, None)  # a revision of an unknown memory so far
            elif isinstance(body, Prompted):
                new[id_] = body.prompt
            elif isinstance(body, Revised) and body.content is not None:
                revised[subject] = body.content
            elif isinstance(body, Erased):
                revised[subject] = ""
        yield [*new], [*new.values()]


def _mismatches(table: pa.Table, contents: pa.Array | pa.ChunkedArray) -> list[str]:
    """Return the ids of the rows with other contents."""
    differ = pc.not_equal(table.column("content"), contents)
    rows = (table.column("id"), table.column("content"), contents)
    columns = (column.filter(differ).to_pylist() for column in rows)
    return [id_ for id_, content, text in zip(*columns, strict=True) if not _is_of(content, text)]


def _is_of(content: object, text: str) -> bool:
    """Return True if a row's content is a text of the log, as it is or redacted."""
    return content in (text, redact.redact(text))


def new_texts(audited: AuditInput) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the texts and tags of the new parts, and the ids of their memories, [texts]."""
    for _, part in audited.fresh("memories"):
        ids = part.table.column("id").chunk(0)
        for name in _TEXTS:
            texts = part.table.column(name).chunk(0)
            if texts.null_count:
                yield pc.filter(ids, pc.is_valid(texts)), pc.drop_null(texts)
            else:
                yield ids, texts
        tags = part.table.column("tags").chunk(0)
        yield ids.take(pc.list_parent_indices(tags)), pc.list_flatten(tags)


def _metadata(audited: AuditInput) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the non-empty metadata of the new parts, and the ids of their memories."""
    for _, part in audited.fresh("memories"):
        says = pc.not_equal(part.table.column("metadata").chunk(0), "{}")
        chosen = part.table.select(["id", "metadata"]).filter(says).combine_chunks()
        if chosen.num_rows:
            yield chosen.column("id").chunk(0), chosen.column("metadata").chunk(0)

"""
Erase: the steps that destroy memories and their quotes, each safe to repeat.

The search marks are saved first, as hashes: an interrupted erasing no longer finds the texts in the
log when it runs again. The ids are saved with them, so that `doctor` can name the erasing to run
again. Then come the log, the pending batches and the derived files. The scan is last and reports
the result; if it finds nothing, the saved file is deleted.
"""

import os
import shutil
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import msgspec

from store.home.errors import BuildBusy
from store.home.files import remove_files, replace_file, sweep, sync_folders
from store.home.instants import isoformat
from store.home.tenant import Tenant
from store.ingest.job_queue import Queue
from store.log import compaction, erasing, log_queries
from store.log.erasing import Change, Erasure
from store.log.event_log import EventLog
from store.log.events import RECEIPTS, decode, encode
from store.log.log_file import Row
from store.log.rows import BODY
from store.maintenance import build, erase_scan, memory_archive
from store.maintenance.erase_scan import ScanReport, scan, walk_files
from store.snapshots import manifest as manifests
from store.text import fingerprints
from store.text.fingerprints import Looker, Marks

# Quotes: other events in the log that contain the erased words.
#
# Jobs write from memories, so a run of an erased memory's words in a job's text belongs to that
# memory and is cut out. The same words from a person, an agent or another memory are theirs: they
# are reported, and cut out on request. A memory's own text is never cut: it can be erased by its
# id.

MADE = frozenset(("planned", "proposed", "judged", "staled"))  # by jobs, from memories
_BATCH = 2_000
_FEW = 20  # receipts: a word used in more of them is common
_ENVELOPE = slice(5, 8)  # project, session, agent


class Quote(msgspec.Struct, frozen=True):
    """An event that still contains some of the erased words in a row; `about` is a memory's id, or
    its own. `can_be_cut` if `--also-quotes` reaches it.
    """

    id: str
    kind: str
    at: str
    about: str
    can_be_cut: bool


class Quotes(msgspec.Struct, frozen=True):
    """The quotes of some marks in a log, the matching runs, and the matching single words."""

    quotes: tuple[Quote, ...]
    runs: frozenset[bytes]
    words: frozenset[bytes]
    named: frozenset[bytes]  # those in ids and names of projects, sessions and agents, which stay


def find_cuts(log: EventLog, looker: Looker, *, receipts: bool) -> list[Change]:
    """Return the rows to cut the erased words out of: those written by jobs, and with `receipts`
    also prompts, commands, questions and all others that are no memory's own.
    """
    changes = []
    for row, whole in _rows(log):
        if _can_be_cut(row[3]) and (receipts or row[3] in MADE):
            cut_body = _cut_row(row[3], whole[BODY], looker)
            if cut_body != whole[BODY]:
                changes.append(Change(row, whole[BODY], cut_body))
    return changes


def find_quotes(log: EventLog, looker: Looker) -> Quotes:
    """Return all quotes of the marks in the log."""
    quotes, runs, words, named = [], set(), set(), set()
    for row, whole in _rows(log):
        in_body = looker.runs(whole[BODY])
        names = [name for name in (row[1], *row[_ENVELOPE]) if name]
        in_names = {data for name in names for data in looker.runs(name)}
        if in_body or in_names:
            about, kind = row[4], row[3]
            can_be_cut = bool(in_body) and _can_be_cut(kind)
            quotes.append(Quote(row[1], kind, isoformat(row[2]), about, can_be_cut))
        runs |= in_body
        words |= looker.words(whole[BODY])
        words |= {word for name in names for word in looker.words(name)}
        runs |= in_names
        named |= in_names
    return Quotes(tuple(quotes), frozenset(runs), frozenset(words), frozenset(named))


def distinctive_words(log: EventLog, looker: Looker, without: Container[int]) -> frozenset[bytes]:
    """Return the words in no memory or name and in few receipts: using one refers to the erasure.

    The rows `without` are skipped.
    """
    uses = Counter[bytes]()
    others = set[bytes]()
    receipts = 0
    for row, whole in _rows(log):
        if row[0] not in without:
            for name in (row[1], *row[_ENVELOPE]):
                others |= looker.words(name or "")
            body_words = looker.words(whole[BODY])
            if _can_be_cut(row[3]):
                receipts += 1
                uses.update(body_words)
            else:
                others |= body_words
    most = max(_FEW, receipts // 100)
    return frozenset(word for word in uses if uses[word] <= most and word not in others)


def memories_saying(log: EventLog, looker: Looker) -> list[str]:
    """Return the ids of the memories with a run in an event that is no receipt."""
    ids = (
        row[4]
        for row, whole in _rows(log)
        if not _can_be_cut(row[3]) and row[3] != "prompted" and looker.holds(whole[BODY])
    )
    return [
        id_ for id_ in dict.fromkeys(ids) if log.ids_with_prefix(id_, 1, ("recorded",)) == [id_]
    ]


def _rows(log: EventLog) -> Iterator[tuple[Row, Row]]:
    """Yield every row as stored, and whole."""
    for rows in log_queries.row_batches(log, _BATCH):
        yield from zip(rows, log.whole(rows), strict=True)


def _can_be_cut(kind: str) -> bool:
    return kind in MADE or kind in RECEIPTS or kind == "rated"


def _cut_row(kind: str, body: str, looker: Looker) -> str:
    """Return a body without the texts that hold a run; required texts are emptied instead."""
    if not looker.holds(body):
        return body
    value = msgspec.json.decode(body)
    for leaves_out in (True, False):
        try:
            return encode(
                decode(kind, msgspec.json.encode(_strip_texts(value, looker, leaves_out)).decode())
            )
        except msgspec.ValidationError:
            continue
    return "{}" if kind not in _NEEDED else msgspec.json.encode(_NEEDED[kind]).decode()


# the smallest valid bodies, if even their names held such words
_NEEDED: Mapping[str, Mapping[str, Any]] = {"prompted": {"prompt": ""}, "action": {"tool": "-"}}


def _strip_texts(value: object, looker: Looker, leaves_out: bool) -> object:
    """Return a JSON value without such texts, each left out or emptied."""
    if isinstance(value, str):
        return "" if looker.holds(value) else value
    if isinstance(value, dict):
        fields = {name: item for name, item in value.items() if not looker.holds(name)}
        return {
            name: _strip_texts(item, looker, leaves_out)
            for name, item in fields.items()
            if not (leaves_out and isinstance(item, str) and looker.holds(item))
        }
    if isinstance(value, Sequence):
        return [
            _strip_texts(item, looker, leaves_out)
            for item in value
            if not (isinstance(item, str) and looker.holds(item))
        ]
    return value


_WAIT_S = 30.0  # for a running job or build that may still write text it read before
_LEFT_OVER_S = 60.0  # a small file still unfinished after this was left by a killed process


class EraseStart(msgspec.Struct, frozen=True):
    """An erasing that has begun: its memories and the marks to look for."""

    ids: tuple[str, ...]
    marks: Marks


class EraseRequest(msgspec.Struct, frozen=True):
    """A request to erase memories and other events by their ids, and texts wherever they occur.

    With `also_quotes` receipts lose the memories' words too, even single distinctive ones.
    """

    ids: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    also_quotes: bool = False


class Reach(msgspec.Struct, frozen=True):
    """The effects of an erasing, as a dry run: `cut` counts, by kind, the further events that would
    lose their quotes.
    """

    ids: tuple[str, ...]
    events: int
    made: tuple[str, ...]
    cut: dict[str, int]


_decoder = msgspec.json.Decoder(EraseStart)


class EraseResult(msgspec.Struct, frozen=True):
    """The data removed from the log; `cut` counts the events that quoted it, `quotes` lists those
    that still do.
    """

    erasure: Erasure
    marks: Marks
    cut: int
    quotes: tuple[Quote, ...]


@contextmanager
def lock_out_jobs(tenant: Tenant) -> Iterator[None]:
    """Keep a tenant's jobs from writing meanwhile; raise BuildBusy if one is running."""
    try:
        with filelock.FileLock(tenant.root / "jobs.lock", timeout=_WAIT_S, mode=0o600):
            yield
    except filelock.Timeout:
        raise BuildBusy(f"a job of {tenant.name} is running: erase when it is done") from None


def ids_to_erase(log: EventLog, request: EraseRequest) -> list[str]:
    """Return the memories to erase: those named, and those that contain a requested text."""
    if not request.texts:
        return list(request.ids)
    saying = memories_saying(log, Looker(fingerprints.of_erase_request(request.texts, b"")))
    return list(dict.fromkeys((*request.ids, *saying)))


def reach(log: EventLog, request: EraseRequest) -> Reach:
    """Return the effects of an erasing."""
    ids = ids_to_erase(log, request)
    changes = erasing.changes(log, ids)
    salt = os.urandom(16)
    marks = _marks_of(changes, request.texts, salt)
    rows = {change.row[0] for change in changes}
    cut = [change for change in _cuts(log, request, marks, rows) if change.row[0] not in rows]
    kinds = Counter(change.row[3] for change in cut)
    derivatives = erasing.derivatives(log, ids)
    return Reach(tuple(ids), len(changes), derivatives, dict(sorted(kinds.items())))


def wipe(tenant: Tenant, log: EventLog, request: EraseRequest, now: int) -> EraseResult:
    """Remove the texts of memories and events from the log, requested texts wherever they occur,
    and all of these from the batches waiting to be recorded.

    Raise LogBusy if another process is rewriting the log, BuildBusy if a build does not end,
    LogCorrupt if a segment is missing.
    """
    # a build that read a row before this, and is checked after it, would be refused
    with build.lock(tenant, wait_s=_WAIT_S):
        looked_for, request = _save_start(tenant, log, request)
        erasure = erasing.erase(log, request.ids, now)
        with compaction.alone(log.path):
            cuts = _cuts(log, request, looked_for, ())
            if cuts:  # the event is about itself: no build reuses tables made from these rows
                erasing.rewrite(log, cuts, [erasing.cut_event(len(cuts), now)])
                erasing.purge_old_bytes(log)
    looker = Looker(looked_for)
    Queue(tenant.ingest).erase(request.ids, looker.holds)
    quotes = find_quotes(log, looker)
    # only now: runs that others also wrote prove nothing and are dropped, but requested texts stay,
    # unless they are names
    everybodys = quotes.runs - (
        fingerprints.of_erase_request(request.texts, looked_for.salt).runs - quotes.named
    )
    marks = looked_for.without(everybodys, quotes.words)
    return EraseResult(erasure, marks, len(cuts), quotes.quotes)


def drop_derived_files(tenant: Tenant) -> None:
    """Delete the files that can be derived from the log again, except the published snapshot.

    They stay deleted after a power cut once `scan_home` has returned. Raise BuildBusy if a build
    does not end.
    """
    with build.lock(tenant, wait_s=_WAIT_S):
        manifests.expire(tenant, keep=1)
        memory_archive.drop(tenant)
        for folder in (tenant.candidate, tenant.root / "lance"):
            shutil.rmtree(folder, ignore_errors=True)
        sweep(tenant.root, older_than_s=_LEFT_OVER_S)


def drop_served(tenant: Tenant) -> None:
    """Delete the published snapshots: recall answers from the log until the next build."""
    with build.lock(tenant, wait_s=_WAIT_S):
        remove_files((tenant.head, tenant.refusals))  # first: it names the files below
        for folder in (tenant.manifests, tenant.snapshots):
            shutil.rmtree(folder, ignore_errors=True)


def scan_home(home: Path, tenant: Tenant, wiped: EraseResult) -> tuple[list[str], ScanReport]:
    """Drop the records that quote; return them, and the report of a scan of the home afterwards."""
    dropped = erase_scan.drop_records(home, tenant.root, Looker(wiped.marks))
    sync_folders(home)  # no deleted file comes back with a power cut
    report = scan(home, tenant.root, wiped.marks)
    return dropped, report


def is_within(path: str, tenant: Tenant) -> bool:
    """Return True if erasing a tenant's memory reaches a file, given relative to the home.

    These are its own, and those of Dagster and the server.
    """
    elsewhere = ("tenants/", "deleted/", "backups/")
    return path.startswith(f"tenants/{tenant.name}/") or not path.startswith(elsewhere)


def drop_start(tenant: Tenant, ids: Collection[str]) -> None:
    """Drop the saved marks, as nothing of them is left; keep them if an earlier, unfinished erasing
    covers more than `ids`.
    """
    start = load_starts(tenant)
    if start is None or set(start.ids) <= set(ids):
        remove_files([tenant.erasure_file])


def load_starts(tenant: Tenant) -> EraseStart | None:
    """Return the unfinished erasing, or None if there is none that can be read."""
    try:
        return _decoder.decode(tenant.erasure_file.read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def has_start(tenant: Tenant) -> bool:
    return tenant.erasure_file.exists()


def file_names(tenant: Tenant) -> set[str]:
    """Return the tenant's files, to tell later which are gone."""
    return {path.relative_to(tenant.root).as_posix() for path in walk_files(tenant.root)}


def _save_start(tenant: Tenant, log: EventLog, request: EraseRequest) -> tuple[Marks, EraseRequest]:
    """Save the marks to look for, with those of an earlier try; return them and the request.

    The request then includes the memories that an earlier try found by their texts.
    """
    before = load_starts(tenant) or EraseStart((), Marks(os.urandom(16)))
    earlier = before.ids if request.texts else ()
    request = msgspec.structs.replace(
        request, ids=tuple(dict.fromkeys((*ids_to_erase(log, request), *earlier)))
    )
    changes = [*erasing.changes(log, request.ids), *erasing.event_changes(log, request.events)]
    marks = before.marks | _marks_of(changes, request.texts, before.marks.salt)
    both = EraseStart(tuple(dict.fromkeys((*before.ids, *request.ids))), marks)
    replace_file(tenant.erasure_file, msgspec.json.encode(both))
    return marks, request


def _marks_of(changes: Iterable[Change], asked_texts: Sequence[str], salt: bytes) -> Marks:
    """Return the marks of the texts that bodies lose, and of the requested texts.

    The former exclude the words of mnemolog's own source files.
    """
    removed = []
    for change in changes:
        stays = set(fingerprints.leaves(msgspec.json.decode(change.left)))
        texts = fingerprints.leaves(msgspec.json.decode(change.said))
        removed += [text for text in texts if text not in stays]
    marks = fingerprints.of(removed, salt)
    looker = Looker(marks)
    own_words = set[bytes]()
    for folder in ("store", "serve", "pipelines"):
        for path in (Path(__file__).parents[2] / folder).rglob("*.py"):
            own_words |= looker.words(path.read_text(encoding="utf-8"))
    return marks.without(words=own_words) | fingerprints.of_erase_request(asked_texts, salt)


def _cuts(
    log: EventLog, request: EraseRequest, looked_for: Marks, without: Container[int]
) -> list[Change]:
    """Return the rows that quote, each once, with its new text."""
    always = fingerprints.of_erase_request(request.texts, looked_for.salt)
    if request.also_quotes:
        words = distinctive_words(log, Looker(looked_for), without)
        always |= fingerprints.alone(words, looked_for.salt)
    changes = [
        *find_cuts(log, Looker(always), receipts=True),
        *find_cuts(log, Looker(looked_for | always), receipts=request.also_quotes),
        *erasing.event_changes(log, request.events),
    ]
    return list({change.row[0]: change for change in changes}.values())  # a later one has less text

"""
Erase: the steps that destroy memories and their quotes, each safe to repeat.

What is looked for is kept first, as hashes: whoever is ended halfway, and begins again, finds no
texts in the log any more. With it are the ids, so that `doctor` can say what to run again. It goes
when the scan found nothing. Then the log, then what waits, and what was derived; the scan is last,
and says what is true.
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

# Quotes: what else in a log says the words of what was erased.
#
# What a job wrote is made of memories, so a run of an erased one's words in it is that one's, and
# is cut out. What a person, an agent or another memory said in the same words is theirs: it is
# named, and cut out where that is asked for. A memory's own text is never cut: it can be erased by
# its id.

MADE = frozenset(("planned", "proposed", "judged", "staled"))  # by jobs, of memories
_BATCH = 2_000
_FEW = 20  # receipts: a word that more of them use is anybody's
_ENVELOPE = slice(5, 8)  # project, session, agent


class Quote(msgspec.Struct, frozen=True):
    """An event that still says some of the erased words in a row; `about` is a memory's id, or its
    own. `can_be_cut` where `--also-quotes` reaches it.
    """

    id: str
    kind: str
    at: str
    about: str
    can_be_cut: bool


class Quotes(msgspec.Struct, frozen=True):
    """What a log says of some marks: where, which runs, and which words by themselves."""

    quotes: tuple[Quote, ...]
    runs: frozenset[bytes]
    words: frozenset[bytes]
    named: frozenset[bytes]  # those in ids and names of projects, sessions and agents, which stay


def find_cuts(log: EventLog, looker: Looker, *, receipts: bool) -> list[Change]:
    """Return the rows to cut the erased words out of: what jobs made, and with `receipts` prompts,
    commands, questions and what else is no memory's own.
    """
    changes = []
    for row, whole in _rows(log):
        if _can_be_cut(row[3]) and (receipts or row[3] in MADE):
            cut_body = _cut_row(row[3], whole[BODY], looker)
            if cut_body != whole[BODY]:
                changes.append(Change(row, whole[BODY], cut_body))
    return changes


def find_quotes(log: EventLog, looker: Looker) -> Quotes:
    """Return the quotes of the marks in the log, whosever they are."""
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
    """Return the words that no memory says, nor a name, and few receipts: whoever used one spoke of
    what is erased. The rows `without` are not looked at.
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
    """Return the ids of the memories of which an event that is no receipt holds a run."""
    ids = (
        row[4]
        for row, whole in _rows(log)
        if not _can_be_cut(row[3]) and row[3] != "prompted" and looker.holds(whole[BODY])
    )
    return [
        id_ for id_ in dict.fromkeys(ids) if log.ids_with_prefix(id_, 1, ("recorded",)) == [id_]
    ]


def _rows(log: EventLog) -> Iterator[tuple[Row, Row]]:
    """Yield every row as it lies, and whole."""
    for rows in log_queries.row_batches(log, _BATCH):
        yield from zip(rows, log.whole(rows), strict=True)


def _can_be_cut(kind: str) -> bool:
    return kind in MADE or kind in RECEIPTS or kind == "rated"


def _cut_row(kind: str, body: str, looker: Looker) -> str:
    """Return a body without the texts that hold a run; what must be there is empty instead."""
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


# the least that these say, where even their names held such words
_NEEDED: Mapping[str, Mapping[str, Any]] = {"prompted": {"prompt": ""}, "action": {"tool": "-"}}


def _strip_texts(value: object, looker: Looker, leaves_out: bool) -> object:
    """Return a JSON value without such texts, each left out or made empty."""
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


_WAIT_S = 30.0  # for a job or a build that may be writing down what it read before
_LEFT_OVER_S = 60.0  # whoever writes a small file for longer was killed


class EraseStart(msgspec.Struct, frozen=True):
    """An erasing that was begun: of which memories, and what is looked for."""

    ids: tuple[str, ...]
    marks: Marks


class EraseRequest(msgspec.Struct, frozen=True):
    """What is to be erased: memories and other events, by their ids, and texts wherever they are
    said. With `also_quotes` receipts lose what memories say, be it a word of their own.
    """

    ids: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    also_quotes: bool = False


class Reach(msgspec.Struct, frozen=True):
    """What an erasing would do, and nothing done: `cut` are how many more events of each kind would
    lose what they quote.
    """

    ids: tuple[str, ...]
    events: int
    made: tuple[str, ...]
    cut: dict[str, int]


_decoder = msgspec.json.Decoder(EraseStart)


class EraseResult(msgspec.Struct, frozen=True):
    """What was taken out of the log; `cut` counts the events that quoted it, `quotes` tells of
    those that still do.
    """

    erasure: Erasure
    marks: Marks
    cut: int
    quotes: tuple[Quote, ...]


@contextmanager
def lock_out_jobs(tenant: Tenant) -> Iterator[None]:
    """Let no job of a tenant write meanwhile; raise BuildBusy where one is at work."""
    try:
        with filelock.FileLock(tenant.root / "jobs.lock", timeout=_WAIT_S, mode=0o600):
            yield
    except filelock.Timeout:
        raise BuildBusy(f"a job of {tenant.name} is running: erase when it is done") from None


def ids_to_erase(log: EventLog, request: EraseRequest) -> list[str]:
    """Return the memories to erase: those that were named, and those that say an asked text."""
    if not request.texts:
        return list(request.ids)
    saying = memories_saying(log, Looker(fingerprints.of_erase_request(request.texts, b"")))
    return list(dict.fromkeys((*request.ids, *saying)))


def reach(log: EventLog, request: EraseRequest) -> Reach:
    """Return the effects that an erasing would have."""
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
    """Take what memories and events said out of the log, asked texts wherever they are said, and
    all that out of what waits to be recorded.

    Raise LogBusy where another process rewrites the log, BuildBusy where a build does not end,
    LogCorrupt where a segment is missing.
    """
    # a build that read a row before this, and is checked after it, would be refused
    with build.lock(tenant, wait_s=_WAIT_S):
        looked_for, request = _save_start(tenant, log, request)
        erasure = erasing.erase(log, request.ids, now)
        with compaction.alone(log.path):
            cuts = _cuts(log, request, looked_for, ())
            if cuts:  # the event is about itself: no build takes over what was made of these rows
                erasing.rewrite(log, cuts, [erasing.cut_event(len(cuts), now)])
                erasing.purge_old_bytes(log)
    looker = Looker(looked_for)
    Queue(tenant.ingest).erase(request.ids, looker.holds)
    quotes = find_quotes(log, looker)
    # only now: what somebody else says too tells nothing, but what was asked for is looked for
    # unless it is a name
    everybodys = quotes.runs - (
        fingerprints.of_erase_request(request.texts, looked_for.salt).runs - quotes.named
    )
    marks = looked_for.without(everybodys, quotes.words)
    return EraseResult(erasure, marks, len(cuts), quotes.quotes)


def drop_derived_files(tenant: Tenant) -> None:
    """Delete what was made of the log and can be made again, but what is served now; it stays
    deleted after a power cut once `looked_through` is over.

    Raise BuildBusy where a build does not end.
    """
    with build.lock(tenant, wait_s=_WAIT_S):
        manifests.expire(tenant, keep=1)
        memory_archive.drop(tenant)
        for folder in (tenant.candidate, tenant.root / "lance"):
            shutil.rmtree(folder, ignore_errors=True)
        sweep(tenant.root, older_than_s=_LEFT_OVER_S)


def drop_served(tenant: Tenant) -> None:
    """Delete what is served: recall answers from the log until the next build."""
    with build.lock(tenant, wait_s=_WAIT_S):
        remove_files((tenant.head, tenant.refusals))  # first: it names what goes after it
        for folder in (tenant.manifests, tenant.snapshots):
            shutil.rmtree(folder, ignore_errors=True)


def scan_home(home: Path, tenant: Tenant, wiped: EraseResult) -> tuple[list[str], ScanReport]:
    """Drop records that quote; return which, and what a scan of the home finds after."""
    dropped = erase_scan.drop_records(home, tenant.root, Looker(wiped.marks))
    sync_folders(home)  # no file that was deleted comes back with a power cut
    report = scan(home, tenant.root, wiped.marks)
    return dropped, report


def is_within(path: str, tenant: Tenant) -> bool:
    """True for a file, relative to the home, that erasing a tenant's memory reaches.

    These are its own, and those of Dagster and the server.
    """
    elsewhere = ("tenants/", "deleted/", "backups/")
    return path.startswith(f"tenants/{tenant.name}/") or not path.startswith(elsewhere)


def drop_start(tenant: Tenant, ids: Collection[str]) -> None:
    """Forget what was looked for, as nothing of it is left; but of others than `ids`, whose erasing
    was begun before and is not done.
    """
    start = load_starts(tenant)
    if start is None or set(start.ids) <= set(ids):
        remove_files([tenant.erasure_file])


def load_starts(tenant: Tenant) -> EraseStart | None:
    """Return the erasing that was begun and not ended, if there is one that can be read."""
    try:
        return _decoder.decode(tenant.erasure_file.read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def has_start(tenant: Tenant) -> bool:
    return tenant.erasure_file.exists()


def file_names(tenant: Tenant) -> set[str]:
    """Return the tenant's files, to tell later which went."""
    return {path.relative_to(tenant.root).as_posix() for path in walk_files(tenant.root)}


def _save_start(tenant: Tenant, log: EventLog, request: EraseRequest) -> tuple[Marks, EraseRequest]:
    """Save the marks to look for, with those of an earlier try; return them and the request.

    The request then has the memories that an earlier try found by their texts.
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
    """Return the marks of the texts that bodies lose, and of the asked texts.

    The former are without the words that mnemolog's own files are written in.
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
    """Return the rows that quote, and what they are to say instead, each once."""
    always = fingerprints.of_erase_request(request.texts, looked_for.salt)
    if request.also_quotes:
        words = distinctive_words(log, Looker(looked_for), without)
        always |= fingerprints.alone(words, looked_for.salt)
    changes = [
        *find_cuts(log, Looker(always), receipts=True),
        *find_cuts(log, Looker(looked_for | always), receipts=request.also_quotes),
        *erasing.event_changes(log, request.events),
    ]
    return list({change.row[0]: change for change in changes}.values())  # a later one says less

"""
Wiping: the steps of an erasing, in an order in which each can be done again.

What is looked for is kept first, as hashes: whoever is ended halfway, and begins again, finds no
texts in the log any more. With it are the ids, so that `doctor` can say what to run again. It goes
when the scan found nothing. Then the log, then what waits, and
what was derived; the scan is last, and says what is true.
"""

import os
import shutil
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import msgspec

from store import build
from store.erase import quotes, records
from store.erase.quotes import Quote
from store.erase.scan import Scanned, files, scan
from store.home.errors import BuildBusy
from store.home.files import remove_files, replace_file, sweep, sync_folders
from store.home.tenant import Tenant
from store.ingest.job_queue import Queue
from store.log import compaction, erasing
from store.log.erasing import Change, Erasure
from store.log.event_log import EventLog
from store.maintenance import memory_archive
from store.snapshots import manifest as manifests
from store.text import fingerprints as marks_
from store.text.fingerprints import Looker, Marks

_WAIT_S = 30.0  # for a job or a build that may be writing down what it read before
_LEFT_OVER_S = 60.0  # whoever writes a small file for longer was killed


class Begun(msgspec.Struct, frozen=True):
    """An erasing that was begun: of which memories, and what is looked for."""

    ids: tuple[str, ...]
    marks: Marks


class Asked(msgspec.Struct, frozen=True):
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


_decoder = msgspec.json.Decoder(Begun)


class Wiped(msgspec.Struct, frozen=True):
    """What was taken out of the log; `cut` counts the events that quoted it, `quotes` tells of
    those that still do.
    """

    erasure: Erasure
    marks: Marks
    cut: int
    quotes: tuple[Quote, ...]


@contextmanager
def alone(tenant: Tenant) -> Iterator[None]:
    """Let no job of a tenant write meanwhile; raise BuildBusy where one is at work."""
    try:
        with filelock.FileLock(tenant.root / "jobs.lock", timeout=_WAIT_S, mode=0o600):
            yield
    except filelock.Timeout:
        raise BuildBusy(f"a job of {tenant.name} is running: erase when it is done") from None


def wanted(log: EventLog, asked: Asked) -> list[str]:
    """Return the memories to erase: those that were named, and those that say an asked text."""
    if not asked.texts:
        return list(asked.ids)
    saying = quotes.memories_saying(log, Looker(marks_.asked(asked.texts, b"")))
    return list(dict.fromkeys((*asked.ids, *saying)))


def reach(log: EventLog, asked: Asked) -> Reach:
    """Return what an erasing would do."""
    ids = wanted(log, asked)
    gone = erasing.changes(log, ids)
    salt = os.urandom(16)
    found = _telling(marks_.of(_lost(gone), salt)) | marks_.asked(asked.texts, salt)
    rows = {one.row[0] for one in gone}
    cut = [one for one in _cuts(log, asked, found, rows) if one.row[0] not in rows]
    kinds = Counter(one.row[3] for one in cut)
    made = erasing.made_of(log, ids)
    return Reach(tuple(ids), len(gone), made, dict(sorted(kinds.items())))


def wipe(tenant: Tenant, log: EventLog, asked: Asked, now: int) -> Wiped:
    """Take what memories and events said out of the log, asked texts wherever they are said, and
    all that out of what waits to be recorded.

    Raise LogBusy where another process rewrites the log, BuildBusy where a build does not end,
    LogCorrupt where a segment is missing.
    """
    # a build that read a row before this, and is checked after it, would be refused
    with build.lock(tenant, wait_s=_WAIT_S):
        looked_for, asked = _kept(tenant, log, asked)
        done = erasing.erase(log, asked.ids, now)
        cut = _cut(log, asked, looked_for)
    looker = Looker(looked_for)
    Queue(tenant.ingest).erase(asked.ids, looker.holds)
    said = quotes.said(log, looker)
    # only now: what somebody else says too tells nothing, but what was asked for is looked for
    # unless it is a name
    everybodys = said.runs - (marks_.asked(asked.texts, looked_for.salt).runs - said.named)
    return Wiped(done, looked_for.without(everybodys, said.words), cut, said.quotes)


def drop_derived(tenant: Tenant) -> None:
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
        remove_files((tenant.head, tenant.refused))  # first: it names what goes after it
        for folder in (tenant.manifests, tenant.snapshots):
            shutil.rmtree(folder, ignore_errors=True)


def looked_through(home: Path, tenant: Tenant, wiped: Wiped) -> tuple[list[str], Scanned]:
    """Drop records that quote; return which, and what a scan of the home finds after."""
    dropped = records.drop(home, tenant.root, Looker(wiped.marks))
    sync_folders(home)  # no file that was deleted comes back with a power cut
    found = scan(home, tenant.root, wiped.marks)
    return dropped, found


def is_within(path: str, tenant: Tenant) -> bool:
    """Return whether a file, relative to the home, is one that erasing a tenant's memory reaches:
    its own, or of Dagster's and the server's.
    """
    elsewhere = ("tenants/", "deleted/", "backups/")
    return path.startswith(f"tenants/{tenant.name}/") or not path.startswith(elsewhere)


def forget(tenant: Tenant, ids: Collection[str]) -> None:
    """Forget what was looked for, as nothing of it is left; but of others than `ids`, whose erasing
    was begun before and is not done.
    """
    found = begun(tenant)
    if found is None or set(found.ids) <= set(ids):
        remove_files([tenant.erasing])


def begun(tenant: Tenant) -> Begun | None:
    """Return the erasing that was begun and not ended, if there is one that can be read."""
    try:
        return _decoder.decode(tenant.erasing.read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def is_begun(tenant: Tenant) -> bool:
    """Return whether an erasing was begun and not ended."""
    return tenant.erasing.exists()


def names(tenant: Tenant) -> set[str]:
    """Return the tenant's files, to tell later which went."""
    return {path.relative_to(tenant.root).as_posix() for path in files(tenant.root)}


def _kept(tenant: Tenant, log: EventLog, asked: Asked) -> tuple[Marks, Asked]:
    """Return what is to be looked for, kept on the disk, with what an earlier try kept; and what is
    to be erased, with the memories that an earlier try found by their texts.
    """
    before = begun(tenant) or Begun((), Marks(os.urandom(16)))
    found = before.ids if asked.texts else ()
    asked = msgspec.structs.replace(asked, ids=tuple(dict.fromkeys((*wanted(log, asked), *found))))
    gone = [*erasing.changes(log, asked.ids), *erasing.event_changes(log, asked.events)]
    salt = before.marks.salt
    marks = before.marks | _telling(marks_.of(_lost(gone), salt)) | marks_.asked(asked.texts, salt)
    both = Begun(tuple(dict.fromkeys((*before.ids, *asked.ids))), marks)
    replace_file(tenant.erasing, msgspec.json.encode(both))
    return marks, asked


def _lost(changes: Iterable[Change]) -> list[str]:
    return [text for one in changes for text in _gone(one.said, one.left)]


def _gone(said: str, left: str) -> Iterator[str]:
    """Yield the texts that a body loses."""
    stays = set(marks_.leaves(msgspec.json.decode(left)))
    for text in marks_.leaves(msgspec.json.decode(said)):
        if text not in stays:
            yield text


def _telling(found: Marks) -> Marks:
    """Return marks without the words that mnemolog's own files are written in."""
    looker = Looker(found)
    ours = set[bytes]()
    for folder in ("store", "serve", "pipelines"):
        for path in (Path(__file__).parents[2] / folder).rglob("*.py"):
            ours |= looker.words(path.read_text(encoding="utf-8"))
    return found.without(words=ours)


def _cut(log: EventLog, asked: Asked, looked_for: Marks) -> int:
    with compaction.alone(log.path):
        changed = _cuts(log, asked, looked_for, ())
        if changed:
            erasing.rewrite(log, changed)
            erasing.settled(log)
    return len(changed)


def _cuts(log: EventLog, asked: Asked, looked_for: Marks, without: Container[int]) -> list[Change]:
    """Return the rows that quote, and what they are to say instead, each once."""
    always = marks_.asked(asked.texts, looked_for.salt)
    if asked.also_quotes:
        words = quotes.distinctive(log, Looker(looked_for), without)
        always |= marks_.alone(words, looked_for.salt)
    found = [
        *quotes.cuts(log, Looker(always), receipts=True),
        *quotes.cuts(log, Looker(looked_for | always), receipts=asked.also_quotes),
        *erasing.event_changes(log, asked.events),
    ]
    return list({one.row[0]: one for one in found}.values())  # a later one says less

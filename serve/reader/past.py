"""
Past: a memory as it was known at a place in its log, the fold of the events up to there.

The log is read up to that place, and the snapshots of that time are built in a folder of their own;
nothing is written to the memory itself. Memories erased since stay erased.

`find_place` finds the place of a time, a number or a commit, and how recalls were answered there:
how much had been built, by which embedder, under which settings. Receipts record that. If a recall
was answered from this very place, all of that is as it was for that recall, so its answer comes
back to the byte; elsewhere it is as for the recall before.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from serve.formatting import parse_time_point
from serve.reader.reader import Known, Reader
from store.embedders.embedder import Embedder
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices, Profile, Trial
from store.home.errors import InvalidInput, NotFound, SourceError
from store.home.files import temporary_folder
from store.home.instants import isoformat, micros
from store.home.tenant import Tenant
from store.log import log_queries, receipts
from store.log.event_kinds import Basis, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild_past
from store.maintenance.embedder_switch import lend_vectors
from store.snapshots import manifest as manifests


class Past:
    """A memory that grows from empty to any place in a log, and never shrinks; close it.

    Vectors of the log's own tenant are reused.
    """

    def __init__(self, log: EventLog, folder: Path, embedder: Embedder, *, built: int = 0) -> None:
        """Begin in an empty folder, or in one that has snapshots of `built` events."""
        self._embedder, self.tenant = embedder, Tenant("past", folder)
        if not built:
            lend_vectors(Tenant("owner", log.path.parent), self.tenant, embedder)
        self._to_build = EventLog(log.path, until=built)
        self.log = EventLog(log.path, until=built)
        self.reader = Reader(self.tenant, self.log, embedder)

    def fork(self, folder: Path) -> "Past":
        """Return a copy that has grown as far, in a new folder; each then grows alone.

        Built files never change, so they are shared if the disk can.
        """
        shutil.copytree(self.tenant.root, folder, copy_function=_link_or_copy)
        return Past(self.log, folder, self._embedder, built=self._to_build.until or 0)

    def close(self) -> None:
        self._to_build.close()
        self.log.close()

    def advance(self, built: int, watermark: int, moment: int | None = None) -> Reader:
        """Return the memory with snapshots of `built` events and a tail up to `watermark`.

        Ages are counted to the `moment` of a receipt, else to that of the log there.
        """
        self.log.show_until(watermark)
        if built > (self._to_build.until or 0):
            self._to_build.show_until(built)
            at = log_queries.time_of(self._to_build, self._to_build.head()) or 0
            rebuild_past(self.tenant, self._to_build, self._embedder, at)
        self.reader.count_ages_to(moment)
        self.reader.poll()
        return self.reader


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@contextmanager
def past_at(
    log: EventLog,
    embedder: Embedder,
    watermark: int,
    built: int | None = None,
    moment: int | None = None,
) -> Iterator[Past]:
    """Yield the past at the event `watermark` of a log; its snapshots hold the first `built`
    events, all of them by default. The `moment` is that of `Past.advance`.
    """
    with temporary_folder("past") as folder:
        past = Past(log, folder / "memory", embedder)
        try:
            past.advance(watermark if built is None else built, watermark, moment)
            yield past
        finally:
            past.close()


@contextmanager
def memory_at(
    log: EventLog, embedder: Embedder, watermark: int, built: int | None = None
) -> Iterator[Reader]:
    """Yield the reader of `past_at`."""
    with past_at(log, embedder, watermark, built) as past:
        yield past.reader


# Places in the log, and the memory as known there


class Place(msgspec.Struct, frozen=True):
    """A place in a log, the last event known there, and how a recall was answered from it.

    `embedder` names the model, and the recall counted ages to `moment`; None if no receipt has
    them.
    """

    seq: int
    now: int  # microseconds UTC
    built: int
    embedder: str | None
    choices: Choices
    notes: tuple[str, ...] = ()
    moment: int | None = None


@contextmanager
def known_at(log: EventLog, reader: Reader, place: Place) -> Iterator[Known]:
    """Yield the memory as it was known at a place in its log; `reader` reads the current state.

    It is answered with the embedder of that time if it is the current one, or is found and a kept
    build has its vectors: to make them again takes too long.
    """
    notes = list(place.notes)
    embedder: Embedder = reader.embedder
    lexical = LexicalEmbedder()
    if place.embedder not in (None, embedder.model):
        kept = manifests.list_manifests(Tenant("owner", log.path.parent))
        is_kept = any(manifest.embedder == place.embedder for manifest in kept)
        of_then = reader.find_embedder(place.embedder) if is_kept else None
        if of_then is None and place.embedder != lexical.model:
            notes.append(
                f"vectors were {place.embedder}'s then, no build that is kept has them: "
                "this was found by words alone"
            )
        embedder = of_then or lexical
    with past_at(log, embedder, place.seq, place.built, place.moment) as past:
        if many := len(past.log.later_erasures()):
            were = "memory known then was" if many == 1 else "memories known then were"
            notes.append(f"{many} {were} erased since")
        yield Known(
            past.tenant,
            past.log,
            past.reader,
            place.choices,
            place.now,
            tuple(notes),
        )


_NUMBER = re.compile(r"@?([1-9][0-9]{0,17})", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,40}", re.ASCII | re.IGNORECASE)
_FORMS = "write 2026-11-20, 7d for a week ago, @1234 for an event of the log, or a commit"


def find_place(
    log: EventLog, asked: str | int, choices: Choices, now: int, repository: Path | None = None
) -> Place:
    """Return the place that a time, the number of an event or a commit names.

    A time is the last event up to then, a commit the event that imported it or, if none did and a
    repository has it, its time there. `choices` are today's settings, used only if no receipt has
    them.

    Raise InvalidInput for anything else, NotFound for an unknown number or commit, and for a time
    before the first event.
    """
    text = str(asked).strip()
    number = _NUMBER.fullmatch(text)
    if isinstance(asked, int) or number:
        seq, at = int(number[1]) if number else int(asked), None
        if log_queries.time_of(log, seq) is None:
            raise NotFound(f"the log has no event {seq}: its newest is {log.head()}")
    elif _COMMIT.fullmatch(text):
        seq, at = _commit_place(log, text.lower(), repository)
    else:
        try:
            point = parse_time_point(text, now)
        except InvalidInput as error:
            raise InvalidInput(f"{text!r} is no place in the past: {_FORMS}") from error
        assert isinstance(point, datetime)  # numbers were read before
        seq, at = _last_until(log, min(micros(point), now), text)
    return _place(log, seq, at, choices)


def _last_until(log: EventLog, at: int, text: str) -> tuple[int, int]:
    seq = log_queries.newest_until(log, at)
    if seq is None:
        first = next(log.read(0, None), None)
        begins = f"the log begins at {isoformat(first.at)}" if first else "the log is empty"
        raise NotFound(f"nothing was known at {text}: {begins}")
    return seq, at


def _commit_place(log: EventLog, sha: str, repository: Path | None) -> tuple[int, int | None]:
    imported = log_queries.imported_commits(log, sha)
    if len({commit for _, commit in imported}) > 1:
        raise InvalidInput(f"several imported commits begin with {sha}: give more of it")
    if imported:
        return imported[0][0], None
    at = _commit_time(sha, repository) if repository else None
    if at is None:
        where = ", and no repository here has it" if repository else ""
        raise NotFound(
            f"no commit {sha} was imported{where}: `mnemolog import git` imports a history"
        )
    return _last_until(log, at, f"the time of commit {sha}, {isoformat(at)}")


def _commit_time(sha: str, repository: Path) -> int | None:
    """Return the time of a commit, microseconds UTC; None if there is no such commit."""
    from store.importers.git_command import git_fields

    command = ("show", "-s", "-z", "--no-show-signature", "--format=%ct", f"{sha}^{{commit}}", "--")
    try:
        with git_fields(repository, command) as fields:
            text = next(fields, "").strip()
    except SourceError:
        return None
    return int(text) * 1_000_000 if text.isdigit() else None


def _place(log: EventLog, seq: int, at: int | None, choices: Choices) -> Place:
    """Return a place with the facts that receipts have of it; `at` is the requested moment."""
    own = _own_receipt(log, seq, at)
    with EventLog(log.path, until=seq) as there:
        events = receipts.page(there, receipts.Wanted(), _LOOKED_AT).receipts
    if own is not None:
        events, seq = (own, *events), min(seq, _watermark(own))
    basis = next((found for event in events if (found := _basis(event))), None)
    built = basis.built if basis else None
    if own is not None and at is None:
        at = own.at
    else:
        end = at if at is not None else log_queries.time_of(log, seq + 1)
        built = _built(log, seq, end, built)
        at = log_queries.time_of(log, seq) if at is None else at
    settings, notes = _settings_at(events, choices)
    embedder = basis.embedder if basis else None
    of_own = _basis(own) if own is not None else None
    moment = of_own.moment or None if of_own else None
    return Place(seq, at or 0, min(built or 0, seq), embedder, settings, notes, moment)


_LOOKED_AT = 200  # receipts searched for the settings of that time


def _own_receipt(log: EventLog, seq: int, at: int | None) -> Event | None:
    """Return the receipt of a recall that was answered from a place: the nearest to the moment
    `at`, or without one the first that had read all events up to there.

    If none had, the place itself may be a receipt: then the events read by its recall are known.
    """
    near = [event for event in log.read(seq - 1, seq + _NEAR) if _basis(event)]
    events = [event for event in near if event.seq > seq and _watermark(event) == seq]
    events += [event for event in near if event.seq == seq]
    if at is not None:
        return min(events, key=lambda event: abs(event.at - at), default=None)
    return events[0] if events else None


_NEAR = 20  # events after a place that are searched for a recall from it


def _basis(event: Event) -> Basis | None:
    return event.body.basis if isinstance(event.body, Recalled) else None


def _watermark(receipt: Event) -> int:
    return cast(Recalled, receipt.body).watermark


def _built(log: EventLog, seq: int, end: int | None, told: int | None) -> int:
    """Return the number of events built at a place by its `end`, from the kept builds and a recall.

    If neither has it, all events up to the place are assumed built; 0 if no build is kept either.
    """
    kept = list(manifests.list_manifests(Tenant("owner", log.path.parent)))
    if not kept and told is None:
        return 0  # nothing was ever built
    those = [
        manifest.watermark
        for manifest in kept
        if manifest.watermark <= seq and (end is None or manifest.at <= end)
    ]
    return max(those, default=seq) if told is None else max(told, *those, 0)


SETTINGS = frozenset(("top_k", "fusion", "profile", "min_confidence"))  # of a recall


def _settings_at(events: Sequence[Event], choices: Choices) -> tuple[Choices, tuple[str, ...]]:
    """Return today's settings with those of that time, each from the newest receipt that has it,
    and notes on them.
    """
    waiting, found = set(SETTINGS), choices
    for event in events:
        if basis := _basis(event):
            told_by_it = waiting - set(basis.requested)
            if cast(Recalled, event.body).door == "prompt":  # a prompt's recall sets these itself
                told_by_it -= {"top_k", "min_confidence"}
            found = settings_of(basis, found, told_by_it)
            waiting -= told_by_it
        if not waiting:
            break
    usual = Choices()
    own = sorted(name for name in waiting if getattr(choices, name) != getattr(usual, name))
    text = f"no recall tells {', '.join(own)} as of then: as the settings are now"
    return msgspec.structs.replace(found, explore=0.0, trial=Trial()), (text,) if own else ()


def settings_of(basis: Basis, choices: Choices, names: Set[str] = SETTINGS) -> Choices:
    """Return the settings with those in `names` as a recall had them."""
    usual = Choices()
    profile = cast(Profile, basis.profile or usual.profile)
    profiles = usual.profiles
    if basis.weights:
        weights = type(getattr(profiles, profile))(*basis.weights)
        profiles = msgspec.structs.replace(profiles, **{profile: weights})
    values: dict[str, Any] = {
        "top_k": basis.top_k or usual.top_k,
        "fusion": basis.fusion or usual.fusion,
        "profile": profile,
        "min_confidence": basis.min_confidence or 0.0,
    }
    values = {name: value for name, value in values.items() if name in names}
    if "profile" in values:
        values["profiles"] = profiles
    return msgspec.structs.replace(choices, **values)

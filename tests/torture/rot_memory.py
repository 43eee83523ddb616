"""
The memory that rots: a home with everything in it, copied for each damage, and its visible state.
"""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plain_receipt import plain_receipt

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home import tokens
from store.home.config import Choices, Settings
from store.home.errors import MnemologError
from store.home.files import replace_file
from store.home.tenant import Tenant
from store.ingest.batch import make_batch
from store.ingest.job_queue import Queue
from store.log import commands, compaction, erasing, integrity
from store.log.commands import Draft
from store.log.event_kinds import Acted, Hit
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build, checkup
from store.maintenance import memory_archive as cold_memories

NOW = 1_790_000_000_000_000  # microseconds UTC
_OLD = NOW - 100 * 86_400_000_000
_THINGS = "cache queue parser index socket ledger worker schema token router".split()
_PLACES = ("staging", "production", "the runner", "the gateway")
QUESTIONS = ("who owns the cache in staging?", "what broke the parser last?", "deploy region")
EMBEDDER = LexicalEmbedder()


@dataclass(frozen=True, slots=True)
class Seen:
    """A tenant as a fresh process sees it. `answers` is None if recall did not answer, for the
    reason in `refused`; `is_open` is False if the log could not be opened.

    `alarms` are the faults that the doctor and recall itself report.
    """

    events: tuple[Event, ...]
    answers: tuple[Any, ...] | None
    alarms: frozenset[str]
    refused: str = ""
    slowest_s: float = 0.0
    is_open: bool = True


def make(home: Path) -> Path:
    """Make a home of two tenants; return a copy of it as it was before the last build."""
    older = home.with_name("older")
    replace_file(home / "config.toml", b"build_after = 400\n")
    for name in ("default", "other"):
        _fill(home, name)
    shutil.copytree(home, older)
    for name in ("default", "other"):
        _grow(tenants.tenant(home, name))
    wanted = tokens.Wanted(scopes=("read", "write"), name="ci", ttl_s=90 * 86_400)
    tokens.make(home, "default", wanted, NOW)
    return older


def _fill(home: Path, name: str) -> None:
    tenant = tenants.tenant(home, name)
    with EventLog(tenant.log, create=True) as log:
        commands.record_batch(log, _drafts(name, 0, 30), NOW - 50_000_000)
        log.append([_receipt(name, number) for number in range(150)])
        build.rebuild(tenant, log, EMBEDDER, NOW - 40_000_000)
        commands.archive(log, f"{name}-m02", NOW - 39_000_000)
        commands.forget(log, f"{name}-m03", NOW - 38_000_000)
        compaction.compact(log, log.head(), NOW)
        erasing.erase(log, [f"{name}-m04"], NOW - 37_000_000)
        build.rebuild(tenant, log, EMBEDDER, NOW - 30_000_000)


def _grow(tenant: Tenant) -> None:
    with EventLog(tenant.log) as log:
        commands.record_batch(log, _drafts(tenant.name, 30, 12), NOW - 20_000_000)
        manifest = build.rebuild(tenant, log, EMBEDDER, NOW - 10_000_000)
        reader = Reader(tenant, log, EMBEDDER)
        with reader.view() as view:
            cold_memories.write(tenant, log, view.snapshots.rows, manifest.watermark, NOW)
        queue = Queue(tenant.ingest)
        queue.accept("job-1", NOW, make_batch("job-1", NOW, _drafts(tenant.name, 90, 3)))
        queue.close()


def tail(tenant: Tenant) -> EventLog:
    """Append events after the last build and leave the log open: the newest stay in the WAL."""
    log = EventLog(tenant.log)
    for number in range(50, 62):
        commands.record_batch(log, _drafts(tenant.name, number, 1), NOW + number)
    commands.archive(log, f"{tenant.name}-m05", NOW + 70)
    return log


def _drafts(name: str, first: int, count: int) -> list[Draft]:
    return [
        Draft(
            id=f"{name}-m{number:02}",
            content=f"In {name} the {_THINGS[number % 10]} of {_PLACES[number % 4]} "
            f"belongs to team {number}; it broke {number * 7 % 23} times",
            key="deploy.region" if number % 13 == 0 else None,
            value=f"eu-{number}" if number % 13 == 0 else None,
            tags=("team",) if number % 3 else (),
        )
        for number in range(first, first + count)
    ]


def _receipt(name: str, number: int) -> Event:
    body: Any = Acted(tool="Bash", doing="run", command=f"pytest tests/test_{number}.py")
    if number % 2:
        body = plain_receipt(query=f"number {number}?", hits=(Hit(f"{name}-m01", 1.0, 0.9),))
    id_ = f"{name}-r{number}"
    return Event(id_, _OLD + number, body, id_, None, f"s{number // 50}", "codex")


def seen(settings: Settings, *, looks: bool = True) -> Seen:
    """Check the default tenant as a fresh process does: with the doctor, and three questions."""
    tenant = tenants.tenant(settings.home, "default")
    findings = checkup.checkup(settings) if looks else ()
    alarms = {finding.what for finding in findings if finding.severity != "ok"}
    try:
        with EventLog(tenant.log, waits=True) as log:
            is_open = log.is_open
            events = tuple(integrity.readable_events(log, 0)[0]) if is_open else ()
            answers, notices, slowest = _asked(tenant, log)
    except MnemologError as error:
        return Seen((), None, frozenset({*alarms, str(error)}), str(error))
    return Seen(events, answers, frozenset({*alarms, *notices}), "", slowest, is_open)


def published(settings: Settings) -> tuple[Any, ...]:
    """Return the answers from snapshots alone; this deletes the home's log."""
    tenants.tenant(settings.home).log.unlink()
    after = seen(settings, looks=False)
    assert after.answers and not after.is_open, after.refused
    return after.answers


def _asked(tenant: Tenant, log: EventLog) -> tuple[tuple[Any, ...], list[str], float]:
    reader = Reader(tenant, log, EMBEDDER)
    answers, notices, slowest = [], [], 0.0
    for question in QUESTIONS:
        request = RecallRequest(query=question, touch=False, min_confidence=0.0, top_k=50)
        began = time.monotonic()
        payload, _ = answer(reader, request, Choices(), NOW + 100)
        slowest = max(slowest, time.monotonic() - began)
        notices += payload.get("notices", ())
        answers.append(payload["hits"])
    return tuple(answers), notices, slowest


def copied(home: Path, to: Path) -> Settings:
    """Copy the default tenant's home, times and all; return the settings of the copy.

    Files that are never written in place are hard-linked: replace them, do not write to them.
    """

    def copy(source: str, target: str) -> None:
        is_immutable = source.endswith((".arrow", ".parquet"))
        os.link(source, target) if is_immutable else shutil.copy2(source, target)

    shutil.rmtree(to, ignore_errors=True)
    ignored = shutil.ignore_patterns("other", "*-shm", "*.lock")
    shutil.copytree(home, to, copy_function=copy, ignore=ignored)
    return Settings(to, Choices(port=1))


def files(root: Path, *patterns: str) -> Sequence[Path]:
    """Return the non-empty files below a folder that match a pattern, relative to it, in order."""
    paths = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(root) for path in paths if path.stat().st_size)

"""erasing_home: memories with a unique word in every field, in a home that is in use."""

import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from plain_receipt import plain_receipt
from torture.erasing_scan import marker
from torture.server import CutOff, Server, answered

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import Tenant
from store.log import commands, compaction
from store.log.commands import Draft
from store.log.event_kinds import (
    Acted,
    Body,
    Followed,
    Hit,
    Judged,
    Made,
    Planned,
    Prompted,
    Proposed,
    Revised,
    SessionTold,
    Surfaced,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.rows import MemoryRows
from store.plans import plans, steps
from store.snapshots.snapshot import read

DAY = 86_400_000_000


def id_of(number: int) -> str:
    return f"m{number:04}"


def content(number: int) -> str:
    """Return a text longer than two runs of words, with a unique word at each end."""
    first, two = marker(number, "cta"), marker(number, "ctb")
    return (
        f"{first} customers keep their orders in the old bucket until somebody moves them to the "
        f'new one, "quoted"\nand told so by {two}'
    )


def plant(tenant: Tenant, log: EventLog, numbers: Sequence[int], now: int) -> None:
    """Record memories, and events of every kind about each."""
    for number in numbers:
        commands.record(log, _draft(number), now)
        _changed(log, number, now)
    build.rebuild(tenant, log, LexicalEmbedder(), now)
    for number in numbers:
        _planned(tenant, log, number, now)
    log.append([event for number in numbers for event in _receipts(number, now)])


def _draft(number: int) -> Draft:
    def word(field: str) -> str:
        return marker(number, field)

    return Draft(
        id=id_of(number),
        content=content(number),
        context=f"said in the {word('ctx')} review",
        action=f"we asked {word('act')} first",
        result=f"{word('rst')} agreed at once",
        tags=(word("tag"),),
        source=word("src"),
        created_by=word("who").title(),
        key=f"{word('kya')}.{word('kyb')}",
        value=word("val"),
        chain=word("chn"),
        metadata={word("mtk"): [{"deep": word("mtv")}]},
    )


def _changed(log: EventLog, number: int, now: int) -> None:
    id_ = id_of(number)
    change = Revised(context=f"now the {marker(number, 'rvc')} way", reason=marker(number, "rvr"))
    commands.revise(log, id_, change, now)
    commands.archive(log, id_, now, marker(number, "arc"))
    commands.restore(log, id_, now, marker(number, "rst"))
    commands.rate(log, id_, 1.0, now, marker(number, "rat"))


def _planned(tenant: Tenant, log: EventLog, number: int, now: int) -> None:
    """Apply a plan that makes a lesson of it, and propose another."""
    manifest = build.current_manifest(tenant)
    assert manifest is not None
    ref = manifest.projections["memories"]
    rows = MemoryRows.open(read(tenant.snapshots, ref, MEMORIES_PROJECTION, check=False))
    memory = rows.find(id_of(number))
    assert memory is not None
    words = {name: marker(number, name) for name in ("pwa", "pwb", "pnt", "plc", "pev", "pjd")}
    lesson = Draft(
        id=f"l{number:04}",
        kind="lesson",
        content=f"Ask {words['plc']} before you move it",
        source_ids=(memory.id,),
    )
    judged = Judged(verdicts={memory.id: 1.0}, evidence={memory.id: words["pjd"]})
    problems = (
        steps.record(lesson, Made(job="distill"), now, words["pwa"], quote=words["pev"]),
        steps.judge(f"r{number:04}", judged, "as it turned out"),
    )
    body = Planned(job="distill", watermark=log.head(), steps=problems, notes=(words["pnt"],))
    plans.apply(log, plans.propose(log, body, now).id, now)
    waits = Planned(
        job="archive", watermark=log.head(), steps=(steps.archive(memory, words["pwb"]),)
    )
    plans.propose(log, waits, now)


def _receipts(number: int, now: int) -> Iterator[Event]:
    """Yield the events of sessions: questions, prompts, commands that quote it, and verdicts."""
    id_, quoted, old = id_of(number), content(number), now - 100 * DAY
    hit = Hit(id_, 1.0, 1.0)
    draft = {"content": marker(number, "prd"), "kind": "lesson"}
    judged = {id_: marker(number, "jdg"), "other": f"for {quoted} says so"}
    because = marker(number, "prb")
    bodies: tuple[tuple[str, str | None, Body], ...] = (  # id, and subject if different
        (f"r{number:04}", None, plain_receipt(query=quoted, hits=(hit,))),
        (f"q{number:04}", None, Prompted(prompt=f"why is it that {quoted}?")),
        (f"a{number:04}", None, Acted(tool="Bash", command=f"echo '{quoted}'", error=quoted)),
        (f"t{number:04}", None, SessionTold(stage="stopped", said=f"Done: {quoted}")),
        (
            f"p{number:04}",
            None,
            Proposed(what="lesson", draft=draft, because=because, source_ids=(id_,)),
        ),
        (f"v{number:04}", id_, Surfaced(place="tool", about=f"mv {marker(number, 'srf')}")),
        (f"f{number:04}", id_, Followed(verdict="followed", evidence=marker(number, "fol"))),
        (f"j{number:04}", f"r{number:04}", Judged(verdicts={id_: 1.0}, evidence=judged)),
    )
    for event, subject, body in bodies:
        yield Event(event, old, body, subject or event, session=f"s{number:04}")


def speak(log: EventLog, numbers: Sequence[int], now: int) -> None:
    """Record a session for each number, with a word that is in no memory."""
    commands.record(log, Draft(id="keeper", content="Orders are kept for ten years"), now)
    for number in numbers:
        word = marker(number, "spk")
        commands.rate(log, "keeper", 1.0, now, f"not of {word}")
        bodies: tuple[Body, ...] = (
            Prompted(prompt=f"what is {word}?"),
            Acted(tool="Bash", command=f"ls {word}", error=f"{word.upper()}: not there"),
            SessionTold(stage="stopped", said=f"I looked at {word}."),
        )
        for body in bodies:
            id_ = f"{type(body).__name__.lower()}{number}"
            log.append([Event(id_, now, body, id_, session=f"spoken{number}")])


def compacted(log: EventLog, now: int) -> int:
    """Compact the receipts into a segment; return their number."""
    return compaction.compact(log, log.head(), now).events


def ask(server: Server, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """Return the status and body of a server's answer; 0 and the error if it was cut off."""
    try:
        status, _, data = answered(server.port, server.token, method, path, body, timeout_s=20)
    except CutOff as error:
        return 0, repr(error).encode()
    return status, data


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """Serve a home during the block."""
    server = Server(home)
    try:
        yield server
    finally:
        server.kill(signal.SIGTERM)


@contextmanager
def busy(server: Server, numbers: Sequence[int], failed: list[str]) -> Iterator[None]:
    """Recall some memories and write more in a thread during the block."""
    over = threading.Event()

    def work() -> None:
        chance, count = random.Random(1), 0
        while not over.is_set():
            count += 1
            request = {"query": f"customers bucket {marker(chance.choice(numbers), 'cta')}"}
            for path, body in (
                ("/v1/recall", request | {"touch": False}),
                ("/v1/memories", {"content": f"Meanwhile the {count}th note came in"}),
            ):
                status, data = ask(server, "POST", path, body)
                if status not in (200, 201, 429, 503):
                    failed.append(f"{path}: {status} {data[:100]!r}")
            time.sleep(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

"""
What is put before the model with a prompt: what the memory knows of it, or nothing.

Small talk and orders of the moment are answered by silence, and so is a prompt of which nothing is
known for sure: nobody asked, so `speaking` decides how sure the memory must be and how much it
says. A rule that names a program or file of the prompt, or what the prompt will make the agent do,
needs no bar. Who asks what was done, or left open, is told by `recap`. What was put before this
session's model stays there, so it is said again only if it changed since, or once the session was
compacted or cleared.

What the user says that lasts is kept at once (`statements`), and the user is told.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from serve.hooks import speaking, statements
from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.hooks.intent import Reading, read
from serve.hooks.recap import recap
from serve.lessons.index import named_by_text, rests
from serve.reader.reader import View
from serve.reader.session_events import Journal
from serve.recall.analysis import usual
from serve.recall.context_block import Block, Note, block, note, short_note
from serve.recall.recall import Answer, Hit, recall
from serve.recall.router import Router
from store.home.instants import new_id
from store.home.projects import branch_of
from store.log.event_kinds import Hit as Told
from store.log.event_kinds import Prompted, Recalled, Recorded, SessionTold, Surfaced
from store.log.events import Event
from store.memories.memory import Memory
from store.text import tokenizer

KEPT = 2_000  # characters of a prompt in the log
LOOKED_AT = 8  # hits among which those to be said are chosen
RULES = 3  # that the prompt names
_LEVELS = ("search", "context", "proactivity")


@dataclass(frozen=True, slots=True)
class Found:
    """What the memory knows of a prompt: what recall says, and rules that the prompt names."""

    answer: Answer
    chosen: tuple[Hit, ...]
    is_short: bool
    rules: tuple[Memory, ...]
    hits: tuple[Hit, ...]  # that are new to the model
    told: tuple[Hit, ...]  # that it has before it
    is_passive: bool


def answered(call: Call) -> Reply:
    """Return what the memory has to say to a prompt, and what of the prompt it kept."""
    prompt = call.event.prompt
    before = last_words(call.journal)
    reading = read(prompt, before)
    prompted = call.told(
        Prompted(
            prompt=prompt[:KEPT],
            intent=reading.intent,
            turn=call.event.turn,
            branch=branch_of(call.event.cwd),
        )
    )
    kept = statements.kept(call, prompt, before, prompted)
    told = statements.notice(kept)
    if kept:
        call.write(prompted, *kept)
    else:
        call.write_later(prompted)
    if reading.is_idle:
        return Reply(notice=told)
    began = time.perf_counter()
    if reading.intent == "recap":
        known, own = said_before(call.journal), own_turns(call.journal)
        said = block(call.answered(lambda view: list(recap(view, call, prompt, known, own))))
        if said.ids and call.is_in_time:
            call.write_later(*_surfaced(call, said.ids, len(said.text)))
        return Reply(said.text, notice=told) if call.is_in_time else SILENCE
    receipt_id = new_id(call.now)
    own = own_turns(call.journal) | {one.id for one in kept}
    found = call.answered(lambda view: look_up(view, call, reading, receipt_id, own))
    said = compose(call, found)
    took_us = round((time.perf_counter() - began) * 1e6)
    if not call.is_in_time:
        return Reply(notice=told)
    receipt = _receipt(call, found.answer, said, took_us)
    call.write_later(
        replace(receipt, id=receipt_id, subject=receipt_id), *_surfaced(call, said.judged)
    )
    return Reply(said.text, notice=told)


def last_words(journal: Journal) -> str:
    """Return what the agent said last in its session; "" where it said nothing yet."""
    for event in reversed(journal.events):
        if isinstance(event.body, SessionTold) and event.body.stage == "stopped":
            return event.body.said or ""
    return ""


def look_up(
    view: View, call: Call, reading: Reading, receipt: str | None, own: Collection[str]
) -> Found:
    """Return what the memory knows of a prompt that is not idle; without a `receipt` the router
    tries nothing.
    """
    prompt = call.event.prompt
    router = Router(view.snapshots.policy(), _LEVELS, call.choices.explore, receipt)
    question = replace(
        usual(prompt, call.filter, call.choices),
        router=router,
        min_confidence=0.0,
        top_k=LOOKED_AT,
    )
    answer = recall(view, question, call.embedder)
    chosen = answer.route.actions if answer.route else {}
    known = said_before(call.journal)
    told = [hit for hit in answer.hits if hit.memory.updated_at <= known.get(hit.memory.id, -1)]
    hits = [
        hit
        for hit in answer.hits
        if hit not in told and hit.memory.id not in own and not rests(view, hit.memory)
    ]
    is_passive = chosen.get("proactivity") == "passive"
    named = named_by_text(view, call.filter, prompt)
    return Found(
        answer=answer,
        chosen=speaking.weighed(view, prompt, reading, hits, told, is_passive=is_passive).chosen,
        is_short=chosen.get("context") == "summarize",
        rules=tuple(
            one.memory
            for one in named[:RULES]
            if one.memory.updated_at > known.get(one.memory.id, -1)
        ),
        hits=tuple(hits),
        told=tuple(told),
        is_passive=is_passive,
    )


def compose(call: Call, found: Found) -> Block:
    """Return the block for what was found, the best first; empty where nothing is sure or new."""
    about = tokenizer.terms(call.event.prompt)
    of_rules = {one.id: note(one, call.project) for one in found.rules}
    of_hits = {
        hit.memory.id: _note(hit, call.project, about, is_short=found.is_short)
        for hit in found.chosen
    }
    return block((of_rules | of_hits).values())


def _note(hit: Hit, project: str, about: list[str], *, is_short: bool) -> Note:
    if is_short:
        return short_note(hit.memory, project, conflicts_with=hit.conflicts_with)
    return note(
        hit.memory,
        project,
        about=about,
        conflicts_with=hit.conflicts_with,
        history=hit.history,
    )


def said_before(journal: Journal) -> dict[str, int]:
    """Return when each memory that the session's model still has before it was put there."""
    said: dict[str, int] = {}
    for event in journal.events:
        match event.body:
            case SessionTold(stage="compacted" | "cleared"):
                said.clear()
            case Recalled(hits=hits):
                said |= {hit.id: event.at for hit in hits}
            case Surfaced():
                said[event.subject] = event.at
    return said


def own_turns(journal: Journal) -> frozenset[str]:
    """Return the episodes of this session, and what the user stated in it, that its model still has
    before it.
    """
    own: set[str] = set()
    for event in journal.events:
        match event.body:
            case SessionTold(stage="compacted" | "cleared"):
                own.clear()
            case Prompted() | Recorded(kind="statement"):
                own.add(event.id)
    return frozenset(own)


def _receipt(call: Call, found: Answer, said: Block, took_us: int) -> Event:
    """Return the receipt of a recall: what was put before the model, and how many were not."""
    hits = [hit for hit in found.hits if hit.memory.id in said.ids]
    unsaid = len(found.hits) - len(hits)
    return call.told(
        Recalled(
            query=call.event.prompt[:KEPT],
            mode="auto",
            manifest=found.manifest,
            watermark=found.watermark,
            hits=tuple(Told(hit.memory.id, hit.score, hit.confidence) for hit in hits),
            dropped=found.dropped | ({"unsaid": unsaid} if unsaid else {}),
            took_us=took_us,
            route=found.route,
            characters=len(said.text) or None,
        )
    )


def _surfaced(call: Call, ids: Iterable[str], characters: int | None = None) -> list[Event]:
    """Return that some memories were put before the agent: by rules and statements it is judged.

    The first says the length of a block that has no receipt.
    """
    return [
        call.told(Surfaced(place="prompt", characters=None if place else characters), subject=id_)
        for place, id_ in enumerate(ids)
    ]

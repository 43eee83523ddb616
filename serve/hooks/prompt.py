"""
What is put before the model with a prompt: what the memory knows of it, or nothing.

Small talk and commands are answered by silence, and so is a prompt of which nothing is known for
sure: the best that recall finds must pass a bar of the hook's own, for nobody asked. What was put
before this session's model stays there, so it is said again only if it changed since, or once the
session was compacted or cleared.
"""

import time
from collections.abc import Iterable

from serve.brief import goal_note
from serve.goals import open_goals
from serve.hooks.block import Block, Note, block, note
from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.journal import Journal
from serve.query.intent import asks_for_open, intent
from serve.reader import View
from serve.recall import Answer, Hit, Question, recall
from store.agent_events import Prompted, SessionTold, Surfaced
from store.events import Event, Recalled
from store.events import Hit as Told
from store.projections.memories import Memory

KEPT = 2_000  # characters of a prompt in the log
BAR = 0.58  # of the best memory's confidence; docs/recall.md has what it keeps and lets through
GOALS = 8


def answered(call: Call) -> Reply:
    """Return what the memory has to say to a prompt."""
    prompt = call.event.prompt
    wanted = intent(prompt)
    is_about_open = asks_for_open(prompt)
    prompted = call.told(Prompted(prompt=prompt[:KEPT], intent=wanted, turn=call.event.turn))
    if wanted in ("small_talk", "command") and not is_about_open:
        call.write_later(prompted)
        return SILENCE
    began = time.perf_counter()
    question = _question(call)

    def ask(view: View) -> tuple[Answer, list[Memory]]:
        goals = open_goals(view, call.filter)[:GOALS] if is_about_open else []
        return recall(view, question, call.embedder), goals

    found, goals = call.tenant.reader.answered(ask)
    said = _block(call, found, goals)
    took_us = round((time.perf_counter() - began) * 1e6)
    call.write_later(prompted, _receipt(call, found, said, took_us), *_surfaced(call, said))
    return Reply(said.text)


def _question(call: Call) -> Question:
    choices = call.choices
    return Question(
        text=call.event.prompt,
        filter=call.filter,
        top_k=choices.top_k,
        fusion=choices.fusion,
        profile=choices.profile,
        profiles=choices.profiles,
        min_confidence=choices.min_confidence,
        layers=choices.layers,
    )


def _block(call: Call, found: Answer, goals: Iterable[Memory]) -> Block:
    """Return the block for what was found; an empty one where nothing of it is sure or new."""
    notes = {goal.id: goal_note(goal, call.filter) for goal in goals}
    is_sure = max((hit.confidence for hit in found.hits), default=0.0) >= BAR
    hits = [hit for hit in found.hits if is_sure and hit.memory.id not in notes]
    if hits:
        known = said_before(call.journal)
        new = [hit for hit in hits if hit.memory.updated_at > known.get(hit.memory.id, -1)]
        notes |= {hit.memory.id: _note(hit, call.project) for hit in new}
    return block(notes.values())


def _note(hit: Hit, project: str) -> Note:
    return note(
        hit.memory,
        project,
        copies=hit.copies,
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
        )
    )


def _surfaced(call: Call, said: Block) -> list[Event]:
    rules = (one["id"] for one in said.notes if one["role"] == "rule")
    return [call.told(Surfaced(place="prompt"), subject=id_) for id_ in rules]

"""
Hook of a prompt: puts the memories that help with it before the model, or nothing.

Small talk and orders of the moment get silence, and so does a prompt without a sure match: the user
did not ask, so `speaking` decides how sure the memory must be and how much it says. The user's
rules and statements are weighed by their subject, found by the recall or not
(`serve.lessons.deeds`). A rule that names a program or file of the prompt, or the work that the
prompt asks for, needs no threshold. A memory stays in this session's context, so it is repeated
only if it changed since, or once the session was compacted or cleared.

A prompt that asks for past or open work gets a recap: the memories surely on its topic, and the
last session. A time in it ("last week", "on 10 November") is a filter, and its words are no topic:
the recap is then the notes and the sessions of that time.

The user's lasting statements are recorded at once and ended by contradicting ones
(`store.agents.prompt_statements`), and the user is notified.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby, islice

import msgspec
from msgspec.structs import replace

from serve.hooks import speaking
from serve.hooks.brief import goal_note
from serve.hooks.call import Call
from serve.hooks.earlier_turns import branch_note, last_session, left_open, recent_turns
from serve.hooks.model_context import model_context
from serve.hosts.event import SILENCE, Reply
from serve.lessons.deeds import bearings
from serve.lessons.rule_index import rests, rules_for_prompt
from serve.reader.filters import Filter
from serve.reader.goals import set_goals
from serve.reader.held import is_held
from serve.reader.session_events import SessionEvents
from serve.reader.view import View, newest
from serve.recall.analysis import Question, default_question
from serve.recall.classification import language
from serve.recall.context_block import Block, Note, block, note, short_id, short_note
from serve.recall.recall import Answer, Hit, recall
from serve.recall.request import basis, digest, receipt_hits, tried
from serve.recall.team_draft import team_draft
from store.agents import prompt_statements
from store.agents.authorship import author_of
from store.agents.prompt_classifier import Reading, read_intent
from store.derived.routing import Router
from store.home.config import Choices
from store.home.instants import new_id
from store.home.projects import branch_of
from store.log.event_kinds import (
    EPISODE,
    STATEMENT,
    Forgotten,
    Prompted,
    Recalled,
    Recorded,
    SessionTold,
    Surfaced,
)
from store.log.events import Event
from store.memories.memory import ACTIVE, Memory
from store.text import tokenizer
from store.text.dates import Interval, interval
from store.text.excerpt import one_line

KEPT = 2_000  # characters of a prompt in the log
LOOKED_AT = 8  # hits to choose from
AFTER_VECTOR_S = 0.08  # left for the answer when a model's vector is no longer waited for
RULES = 3  # that the prompt names
NEAR = 0.5  # of the probability that it must have
_LEVELS = ("search", "context", "proactivity")


class PromptAnswer(msgspec.Struct, frozen=True):
    """The memory's answer to a prompt: the recalled hits, and rules that the prompt names."""

    question: Question
    answer: Answer
    chosen: tuple[Hit, ...]
    is_short: bool
    rules: tuple[Hit, ...]
    weighed: tuple[speaking.Weighed, ...]  # the memories new to the model
    teams: str | None = None  # of the chosen hits, during a trial of other settings

    @property
    def near(self) -> frozenset[str]:
        """The ids of the memories whose chance was at least NEAR of the bar."""
        return frozenset(item.hit.memory.id for item in self.weighed if item.excess >= NEAR)


def answer_prompt(call: Call) -> Reply:
    """Return the context for a prompt, and a notice of the statements recorded from it."""
    prompt = call.event.prompt
    before = last_reply(call.journal)
    reading = read_intent(prompt, before)
    body = Prompted(
        prompt=prompt[:KEPT],
        intent=reading.intent,
        turn=call.event.turn,
        branch=branch_of(call.event.cwd),
    )
    author = author_of(prompt, is_unattended=call.event.is_unattended)
    prompted = replace(call.new_event(body), author=author)
    statement_events = keep_statements(call, prompt, before, prompted)
    notice = statement_notice(statement_events)
    if statement_events:
        call.write(prompted, *statement_events)
    else:
        call.write_later(prompted)
    if reading.is_idle or not call.is_awaited:
        return Reply(notice=notice)
    began = time.perf_counter()
    if reading.intent == "recap":
        model = model_context(call.journal)
        context = block(
            call.ask(lambda view: list(recap(view, call, reading, model.known, model.own)))
        )
        if context.ids and call.is_in_time:
            call.write_later(*_surface_events(call, context.ids, len(context.text)))
        return Reply(context.text, notice=notice) if call.is_in_time else SILENCE
    if call.is_held_out:  # a recap that the user asks for, as above, is still given
        return Reply(notice=notice)
    receipt_id = new_id(call.now)
    own = model_context(call.journal).own | {event.id for event in statement_events}

    def answer(view: View) -> PromptAnswer:
        return look_up(view, call, reading, prompt_router(view, call, receipt_id), own, receipt_id)

    prompt_answer = call.ask(answer)
    context = compose(call, prompt_answer)
    took_us = round((time.perf_counter() - began) * 1e6)
    if not call.is_in_time:
        return Reply(notice=notice)
    receipt = _receipt(call, prompt_answer, context, took_us)
    call.write_later(
        replace(receipt, id=receipt_id, subject=receipt_id),
        *_surface_events(call, context.judgeable_ids),
    )
    return Reply(context.text, notice=notice)


def last_reply(journal: SessionEvents) -> str:
    """Return the agent's last message in its session, "" if it has none yet."""
    for event in reversed(journal.events):
        if isinstance(event.body, SessionTold) and event.body.stage == "stopped":
            return event.body.said or ""
    return ""


def prompt_router(view: View, call: Call, receipt: str | None = None) -> Router:
    """Return the router of a prompt; without a receipt's id it does not explore."""
    return Router(view.policy(), _LEVELS, call.choices.explore, receipt)


def look_up(
    view: View,
    call: Call,
    reading: Reading,
    router: Router | None,
    own: Collection[str],
    receipt: str = "",
) -> PromptAnswer:
    """Return the memory's answer to a prompt that is not idle.

    With the id of its receipt, the other settings of a running trial are tried beside it.
    """
    prompt_answer = _look_up(view, call, call.choices, reading, router, own)
    trial = call.choices.trial
    other = trial.other_choices(call.choices, call.now) if receipt else None
    if other is None:
        return prompt_answer
    beside = _look_up(view, call, other, reading, router, own)
    chosen, teams = team_draft(prompt_answer.chosen, beside.chosen, receipt)
    ids = {hit.memory.id for hit in prompt_answer.answer.hits}
    more = (hit for hit in chosen if hit.memory.id not in ids)
    answer = replace(prompt_answer.answer, hits=(*prompt_answer.answer.hits, *more))
    return replace(prompt_answer, answer=answer, chosen=chosen, teams=teams)


def _look_up(
    view: View,
    call: Call,
    choices: Choices,
    reading: Reading,
    router: Router | None,
    own: Collection[str],
) -> PromptAnswer:
    prompt = call.event.prompt
    question = _question(call, choices, router)
    answer = recall(view, question)
    actions = answer.route.actions if answer.route else {}
    told_at = model_context(call.journal).known

    def is_new(memory: Memory) -> bool:
        return (
            memory.updated_at > told_at.get(memory.id, -1)
            and memory.id not in own
            and not rests(view, memory)
            and not is_held(memory)
        )

    bearing = bearings(view, call.filter, prompt)
    hits = [hit for hit in answer.hits if is_new(hit.memory) and not hit.is_over]
    # the memories that bear on the prompt and are no hits, the strongest first
    hit_ids = {hit.memory.id for hit in answer.hits}
    unfound = (
        match.memory
        for id_, match in bearing.items()
        if id_ not in hit_ids and match.words + match.topics > 0.0
    )
    standing = (memory for memory in unfound if is_new(memory) and not view.is_over(memory))
    more = [_marked_hit(view, memory) for memory in islice(standing, speaking.BEARING)]
    weighed = speaking.score_hits(
        view,
        prompt,
        reading,
        [*hits, *more],
        bearing,
        is_passive=actions.get("proactivity") == "passive",
    )
    best = speaking.best(weighed)
    about = rules_for_prompt(view, call.filter, prompt)[:RULES]
    named = [_marked_hit(view, rule.memory) for rule in about]
    rules = (*named, *(hit for hit in best if hit not in hits))
    return PromptAnswer(
        question=question,
        answer=answer,
        chosen=tuple(hit for hit in best if hit in hits),
        is_short=actions.get("context") == "summarize",
        rules=tuple(hit for hit in rules if hit.memory.updated_at > told_at.get(hit.memory.id, -1)),
        weighed=weighed,
    )


def _question(call: Call, choices: Choices, router: Router | None = None) -> Question:
    """Return the question that a prompt asks. It does not wait for a slow model: the words answer
    in time.
    """
    return replace(
        default_question(call.event.prompt, call.filter, choices),
        router=router,
        min_confidence=0.0,
        top_k=LOOKED_AT,
        vector_by=call.answer_by - AFTER_VECTOR_S,
    )


def _marked_hit(view: View, memory: Memory) -> Hit:
    """Return a memory that recall did not find as a hit, with its change."""
    return Hit(memory, 0.0, 0.0, change=view.change_of(memory))


def compose(call: Call, answer: PromptAnswer) -> Block:
    """Return the block of the chosen memories, best first; empty if none is sure and new."""
    about = tokenizer.terms(call.event.prompt)
    notes = {
        hit.memory.id: note(hit.memory, call.project, change=hit.change) for hit in answer.rules
    }
    for hit in answer.chosen:
        memory, conflicts_with, change = hit.memory, hit.conflicts_with, hit.change
        if answer.is_short:
            notes[memory.id] = short_note(
                memory, call.project, conflicts_with=conflicts_with, change=change
            )
        else:
            notes[memory.id] = note(
                memory,
                call.project,
                about=about,
                conflicts_with=conflicts_with,
                history=hit.history,
                change=change,
                retracts=hit.retracts,
            )
    return block(notes.values())


def _receipt(call: Call, answer: PromptAnswer, context: Block, took_us: int) -> Event:
    """Return the receipt of a recall: the hits put before the model, and how many were not."""
    recalled = answer.answer
    hits = [hit for hit in recalled.hits if hit.memory.id in context.ids]
    near = 0 if context.ids else len(answer.near & {hit.memory.id for hit in recalled.hits})
    unsaid = len(recalled.hits) - len(hits) - near
    unsaid_by = {name: n for name, n in (("unsaid", unsaid), ("near", near)) if n}
    trial = None
    if answer.teams is not None:
        team_of = {
            hit.memory.id: team for hit, team in zip(answer.chosen, answer.teams, strict=True)
        }
        # "-" for the hit of a rule
        trial = tried(call.choices, "".join(team_of.get(hit.memory.id, "-") for hit in hits))
    return call.new_event(
        Recalled(
            query=call.event.prompt[:KEPT],
            mode="auto",
            manifest=recalled.manifest,
            watermark=recalled.watermark,
            hits=receipt_hits(hits),
            dropped=recalled.dropped | unsaid_by,
            took_us=took_us,
            route=recalled.route,
            characters=len(context.text) or None,
            door="prompt",
            basis=basis(answer.question, recalled),
            digest=digest(context.text.encode()) if context.text else None,
            trial=trial,
        )
    )


def _surface_events(call: Call, ids: Iterable[str], characters: int | None = None) -> list[Event]:
    """Return the events that record memories put before the agent, which is judged by them.

    The first has the length of a block without a receipt.
    """
    return [
        call.new_event(
            Surfaced(place="prompt", characters=None if place else characters), subject=id_
        )
        for place, id_ in enumerate(ids)
    ]


RECAP_TEXT = 300  # characters of a note
RECAP_ASKED = 80  # of each prompt of a session
MOST, SESSIONS, TURNS, GOALS = 2, 5, 8, 3
RECAP_CONFIDENCE = 0.3  # the least probability that a memory on the topic is the right one
_RECAP_EPISODES = 200  # episodes of a time


def recap(
    view: View, call: Call, reading: Reading, known: Mapping[str, int], own: Collection[str]
) -> Iterator[Note]:
    """Yield notes of past work, the most telling first; none already in the model's context.

    `known` has the time each memory was put there, in microseconds; `own` are the turns of the
    model's own session.
    """
    prompt = call.event.prompt
    about = tokenizer.terms(prompt)
    goals = [memory for memory in set_goals(view, call.filter) if not is_held(memory)][:GOALS]
    yield from (goal_note(memory, call.filter) for memory in goals if memory.id not in known)

    def is_new(memory: Memory) -> bool:
        return memory.id not in own and memory.updated_at > known.get(memory.id, -1)

    def line(memory: Memory) -> Note:
        change = view.change_of(memory)
        return note(memory, call.project, about=about, change=change, longest=RECAP_TEXT)

    on_topic = [memory for memory in _on_topic(view, call, reading) if is_new(memory)][:MOST]
    if (when := interval(prompt, call.now, language(prompt))) is not None:
        for memory in on_topic:
            if memory.kind != EPISODE:
                yield line(memory)
        yield from islice(_sessions(view, call, when, own), SESSIONS)
        return
    earlier = [turn for turn in recent_turns(view, call.filter) if turn.id not in own]
    branch = branch_of(call.event.cwd)
    last = last_session(view, call.filter, earlier, branch)
    there = last[:MOST] if last and is_new(last[0]) else []
    before = [memory for memory in left_open(view, call.filter, last, earlier) if is_new(memory)]
    for memory in {memory.id: memory for memory in (*on_topic, *there, *before)}.values():
        yield line(memory) | branch_note(memory, branch)


def _sessions(view: View, call: Call, when: Interval, own: Collection[str]) -> Iterator[Note]:
    """Yield a note of each session in an interval, newest first: its prompts and its end."""
    those = replace(call.filter, kinds=(EPISODE,), since=when.since, until=when.until)
    episodes = [
        memory
        for memory in newest(view, those, _RECAP_EPISODES)
        if memory.id not in own and not is_held(memory)
    ]
    for _, turns in groupby(episodes, key=lambda memory: memory.session):
        memories = list(turns)
        asked = [one_line(memory.content, RECAP_ASKED) for memory in reversed(memories[:TURNS])]
        yield note(memories[0], call.project, longest=RECAP_TEXT) | {"user_asked": "; ".join(asked)}


def _on_topic(view: View, call: Call, reading: Reading) -> list[Memory]:
    """Return the recalled memories that are sure or would be said unasked, likeliest first."""
    prompt = call.event.prompt
    answer = recall(view, _question(call, call.choices))
    hits = [hit for hit in answer.hits if not is_held(hit.memory) and not hit.is_over]
    weighed = speaking.score_hits(view, prompt, reading, hits, bearings(view, call.filter, prompt))
    return [
        item.hit.memory
        for item in sorted(weighed, key=lambda item: -item.excess)
        if item.hit.confidence >= RECAP_CONFIDENCE or item.chance >= item.bar
    ]


def keep_statements(call: Call, prompt: str, before: str, prompted: Event) -> list[Event]:
    """Return the events that keep a prompt's lasting statements; none if the user disabled it."""
    if not call.choices.remember_words or "prompts" not in call.choices.record:
        return []
    return prompt_statements.statement_events(
        prompt,
        before,
        prompted,
        lambda: call.ask(lambda view: _current_statements(view, call.filter)),
    )


def _current_statements(view: View, conditions: Filter) -> list[Memory]:
    """Return the current statements of the project, and of no project."""
    those = replace(conditions, kinds=(STATEMENT,))
    return [
        memory
        for memory in view.select(those.mask(view.snapshots.rows), those.accepts)
        if memory.state == ACTIVE and memory.kind == STATEMENT
    ]


def statement_notice(events: list[Event]) -> str:
    """Return the notice for the user of kept and ended statements, and how to undo each."""
    parts = []
    for event in events:
        match event.body:
            case Recorded(content=content):
                short = content if len(content) <= 120 else content[:117] + "..."
                undo = f"mnemolog forget {short_id(event.id)}"
                parts.append(f"kept: \u201c{short}\u201d (take it back: {undo})")
            case Forgotten():
                undo = f"mnemolog restore {short_id(event.subject)}"
                parts.append(f"forgotten (bring it back: {undo})")
            case _:
                continue
    return f"mnemolog {'; '.join(parts)}" if parts else ""

"""
The job `facts`: statements in turns and notes become facts of entities, each with its source.

A fact that has one value at a time is recorded under a key, so that the memory itself closes the
older value; any other is kept in the memory's metadata. A value recorded by hand is never replaced:
the turn is linked to it as a conflict. An older turn never replaces a newer value. Each turn is
read once, and again only after it changed.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

import msgspec
import numpy as np

from pipelines.jobs import Context, Proposal
from pipelines.jobs.facts.rules import PROJECT, SINGLETONS, SPEAKER
from pipelines.jobs.facts.statements import FactSource, Statement, anchor, assertions, facts_in
from pipelines.llm.model_client import answered_calls
from pipelines.llm.prompt import json_lines
from store.derived.facts import Facts, Told, facts_of
from store.home.errors import BudgetSpent, InvalidInput, ModelError
from store.home.instants import moment
from store.log.commands import Draft
from store.log.event_kinds import (
    Applied,
    Made,
    Planned,
    Recorded,
    Restored,
    Revised,
    Step,
    Undone,
)
from store.log.event_log import EventLog
from store.memories.memory import ACTIVE, STALE, Memory
from store.plans import steps
from store.text.excerpt import plural

KINDS = ("raw_turn", "fact", "context", "observation", "decision", "activity", "milestone")
LABEL = "facts"  # a tag: read this one too, though a tool or the web wrote it
_TRUSTED = ("user", "agent")

Value = tuple[str | None, str]  # a project and a key


def propose(context: Context) -> Proposal:
    """Return the facts in memories that were not read yet, oldest first."""
    log = context.log
    last_read = last_watermark(log, context.project)
    changed = {
        event.subject
        for event in log.effective_events(last_read, log.head())
        if isinstance(event.body, Revised | Restored)
    }
    changed |= _successors(context)
    turns = list(_memories_to_read(context, changed, last_read))
    by_rules = [
        FactSource(memory, fact, Made(job="facts")) for memory in turns for fact in facts_in(memory)
    ]
    by_model, notes = facts_from_model(context, turns, by_rules)
    sources = sorted(
        [*by_rules, *by_model], key=lambda source: (source.fact.since, source.memory.seq)
    )
    facts = _KnownFacts.of(context)
    stated = {
        (source.memory.id, source.fact.key, fold_value(source.fact.value)) for source in sources
    }
    proposed = [
        step
        for memory in turns
        if memory.id in changed
        for step in _withdrawal_steps(context, memory, stated)
    ]
    proposed += [step for source in sources for step in _steps(context, facts, source)]
    silence = (
        f"{plural(len(turns), 'memory')} read that "
        f"{'was' if len(turns) == 1 else 'were'} not read before: none states a new fact in a way "
        "that the rules know"
        if turns
        else "nothing was said since the last run that may state a fact"
    )
    return Proposal(tuple(proposed), len(turns), notes, silence)


def _memories_to_read(context: Context, changed: Collection[str], after: int) -> Iterator[Memory]:
    """Yield the memories that may state facts, and were recorded after an event or changed."""
    rows = context.rows
    wanted = rows.codes("seq") > after
    wanted[[row for id_ in changed if (row := rows.row(id_)) is not None]] = True
    wanted &= rows.equal("kind", KINDS)
    live = context.live_rows
    for memory in context.memories(live[wanted[live]]):
        has_author = memory.job is None and memory.key is None
        if has_author and (memory.trust in _TRUSTED or LABEL in memory.tags):
            yield memory


def _successors(context: Context) -> set[str]:
    """Return the ids of memories that superseded a source of a stale fact.

    A merged turn may repeat the superseded turn's statement, so it is read again.
    """
    rows = np.flatnonzero(context.rows.equal("state", (STALE,)))
    facts = (memory for memory in context.memories(rows) if memory.job == "facts")
    sources = (context.rows.find(id_) for fact in facts for id_ in fact.source_ids)
    return {
        memory.superseded_by for memory in sources if memory is not None and memory.superseded_by
    }


def last_watermark(log: EventLog, project: str | None) -> int:
    """Return the watermark of the last applied or undone plan that left no step for another."""
    events = log.job_events(("planned", "applied", "undone"))
    ended = {event.subject for event in events if isinstance(event.body, Applied | Undone)}
    return max(
        (
            event.body.watermark
            for event in events
            if isinstance(event.body, Planned)
            and event.body.job == "facts"
            and event.id in ended
            and event.project in (None, project)
            and not event.body.left
        ),
        default=0,
    )


@dataclass(slots=True)
class _KnownFacts:
    """The existing facts, and those proposed in this run.

    `values` maps each key to its value, start time, job and memory; `stated` has the other
    facts; `ids` those of the proposed memories and links.
    """

    values: dict[Value, tuple[str, int, str | None, str]] = field(default_factory=dict)
    stated: set[tuple[str | None, str, str]] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, context: Context) -> "_KnownFacts":
        rows = Facts.open(context.tables("facts")).documents
        memories = context.memories(rows)
        facts = cls()
        for fact in facts_of(memories):
            memory = memories[fact.document]
            if memory.state != ACTIVE:
                continue
            if memory.key is not None:
                facts.values[memory.project, fact.key] = (
                    fact.value,
                    fact.valid_from,
                    memory.job,
                    memory.id,
                )
            else:
                facts.stated.add((memory.project, fact.key, fold_value(fact.value)))
        return facts


def fold_value(value: str) -> str:
    """Return a value for comparison with others: "v5.3" and "5.3" are one version."""
    folded = " ".join(value.casefold().split())
    return folded[1:] if folded[:1] == "v" and folded[1:2].isdigit() else folded


def _withdrawal_steps(
    context: Context, turn: Memory, stated: Set[tuple[str, str, str]]
) -> Iterator[Step]:
    """Yield steps that make the facts stale that a turn stated before it was revised."""
    ids = context.rows.made_of(turn.id)
    read = [memory for id_ in ids if (memory := context.rows.find(id_)) and memory.job == "facts"]
    for fact in facts_of(read):
        memory = read[fact.document]
        if memory.state != ACTIVE or (turn.id, fact.key, fold_value(fact.value)) in stated:
            continue
        # a model's sentence may still be in the turn, and no pattern would find it
        body = context.log.events_for(memory.id)[0].body
        by_model = isinstance(body, Recorded) and body.made is not None and body.made.model
        if not (by_model and memory.content in assertions(turn.content)):
            yield steps.stale(memory, "what it was read in says so no more")


def _steps(context: Context, facts: _KnownFacts, source: FactSource) -> Iterator[Step]:
    """Yield the steps for a fact: none where it is known, or older than the current value."""
    memory, fact = source.memory, source.fact
    about = memory.project, fact.key
    if fact.is_singleton:
        value, since, job, id_ = facts.values.get(about, ("", 0, "facts", ""))
        if id_ and (fold_value(value) == fold_value(fact.value) or fact.since < since):
            return
        if id_ and job is None:
            yield from _conflict(context, facts, source, id_)
            return
    elif (*about, fold_value(fact.value)) in facts.stated:
        return
    try:
        step = _record_step(context, source)
    except InvalidInput:  # a sentence or a name that makes no memory
        return
    if step.subject in facts.ids:
        return
    facts.ids.add(step.subject)
    if fact.is_singleton:
        facts.values[about] = fact.value, fact.since, "facts", step.subject
    else:
        facts.stated.add((*about, fold_value(fact.value)))
    earlier = context.rows.find(step.subject)
    if earlier is None:
        yield step
    elif earlier.state == STALE:
        turns = [context.rows.find(id_) for id_ in earlier.source_ids]
        if all(turn is not None and turn.state == ACTIVE for turn in turns):
            yield steps.restore(earlier, "what it was read in holds again")


def _conflict(context: Context, facts: _KnownFacts, source: FactSource, id_: str) -> Iterator[Step]:
    """Yield the link from a turn to the value by hand that it contradicts, once."""
    edges = {(edge.source, edge.target) for edge in context.rows.edges_of(source.memory.id)}
    link = f"{source.memory.id} {id_}"
    if (source.memory.id, id_) in edges or link in facts.ids:
        return
    facts.ids.add(link)
    why = f"it says {source.fact.key} is {source.fact.value}, which was recorded otherwise by hand"
    yield steps.link(source.memory, id_, "conflict", why, confidence=source.fact.confidence)


def _record_step(context: Context, source: FactSource) -> Step:
    memory, fact = source.memory, source.fact
    identity = f"{fact.key}={fold_value(fact.value)}"
    told = Told(fact.entity, fact.relation, fact.value, fact.is_singleton)
    draft = Draft(
        id=steps.result_id("facts", identity, [memory.id], fact.since),
        content=fact.said,
        key=fact.key if fact.is_singleton else None,
        value=fact.value if fact.is_singleton else None,
        metadata={} if fact.is_singleton else {"fact": msgspec.to_builtins(told)},
        source="facts",
        source_ids=(memory.id,),
        created_by=memory.created_by,
        created_at=moment(fact.since),
        project=memory.project,
        agent=memory.agent,
        trust=steps.least_trust([memory]),
    )
    why = f"{fact.entity} {fact.relation}: {fact.value}"
    return steps.record(draft, source.made, context.now, why, confidence=fact.confidence)


# The model step: facts that no pattern finds, kept only if the turn states them. A fact counts if
# the model quotes a sentence that asserts it (`statements.assertions`) and that contains its value
# and entity. So a model can find more than the patterns do, and invent nothing.

MOST_TURNS, MOST_CHARACTERS = 20, 12_000  # of one question
CONFIDENCE = 0.8
INSTRUCTIONS = """\
You are given turns of conversations and notes, one JSON object a line with its number and text.
List the facts they state about named things: entity, relation, value. A fact is stated as holding
now, plainly, by whoever wrote the turn. Leave out questions, wishes, plans, conditions, examples,
denials, what somebody else is said to have said, and what holds only in some cases. For each fact
give the number of the turn, the sentence word for word as the turn has it, the entity and the value
as they stand in that sentence, and a short relation such as "port", "owner" or "depends on". What
the writer says of himself has the entity "I", what he says of the project the entity "we". No fact
is better than a wrong one: most turns have none."""

_RELATION = re.compile(r"[a-z][a-z0-9 -]{1,39}")
_FIRST = {"i": (re.compile(r"\b(?:i|my|me|i'm)\b", re.I), SPEAKER)} | dict.fromkeys(
    ("we", "our", "project", "the project"),
    (re.compile(r"\b(?:we|our|us|we're)\b", re.I), PROJECT),
)
_MARK = re.compile(r"facts up to (\d+)(?: of (.*))?")


class Stating(msgspec.Struct, frozen=True):
    turn: int
    sentence: str
    entity: str
    relation: str
    value: str


class Statings(msgspec.Struct, frozen=True):
    facts: list[Stating]


def facts_from_model(
    context: Context, turns: Sequence[Memory], by_rules: Sequence[FactSource]
) -> tuple[list[FactSource], tuple[str, ...]]:
    """Return the facts that only a model finds, and notes for a person.

    Turns already sent to it, and those that assert nothing, are left out.
    """
    model = context.model
    if model is None:
        return [], ()
    stated = {(source.memory.id, source.fact.key) for source in by_rules}
    sources: list[FactSource] = []
    notes: list[str] = []
    after = _last_answered(context.log, context.project)
    new = [memory for memory in turns if memory.seq > after and any(assertions(memory.content))]
    for batch in _batches(sorted(new, key=lambda memory: memory.seq)):
        # the purpose records in the log which turns were sent
        purpose = f"facts up to {batch[-1].seq}"
        if context.project:
            purpose += f" of {context.project}"[:150]
        data = json_lines(
            {"turn": number, "by": memory.created_by or memory.trust, "text": memory.content}
            for number, memory in enumerate(batch, start=1)
        )
        try:
            answer = model.ask(purpose, INSTRUCTIONS, data, Statings)
        except BudgetSpent:
            break  # the model has reported it
        except ModelError as error:
            notes.append(f"by patterns alone for {len(batch)} turns: {error}")
            continue
        for source in _grounded_facts(batch, answer.value, answer.lineage("facts")):
            if (about := (source.memory.id, source.fact.key)) not in stated:
                stated.add(about)
                sources.append(source)
    return sources, tuple(notes)


def _grounded_facts(
    batch: Sequence[Memory], statings: Statings, made: Made
) -> Iterator[FactSource]:
    for stating in statings.facts:
        if not 1 <= stating.turn <= len(batch):
            continue
        memory = batch[stating.turn - 1]
        relation = " ".join(stating.relation.casefold().replace("_", " ").split())
        entity, value = stating.entity.strip(), stating.value.strip()
        if not (entity and value and _RELATION.fullmatch(relation)):
            continue
        sentence = _quoted_sentence(memory, stating)
        if sentence is None:
            continue
        speaker = _FIRST.get(entity.casefold())
        entity = speaker[1] if speaker else entity
        statement = Statement(entity, relation, value, relation in SINGLETONS, CONFIDENCE)
        if (fact := anchor(memory, statement, sentence)) is not None:
            yield FactSource(memory, fact, made)


def _quoted_sentence(memory: Memory, stating: Stating) -> str | None:
    """Return the assertion of a memory that a model quotes, if it contains value and entity."""
    quoted = _fold_sentence(stating.sentence)
    speaker = _FIRST.get(stating.entity.strip().casefold())
    for sentence in assertions(memory.content):
        text = _fold_sentence(sentence)
        if not (text in quoted or quoted in text) or not _contains_words(stating.value, text):
            continue
        if speaker[0].search(sentence) if speaker else _contains_words(stating.entity, text):
            return sentence
    return None


def _contains_words(words: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_fold_sentence(words))}(?!\w)", text) is not None


def _fold_sentence(text: str) -> str:
    return " ".join(text.casefold().replace("`", "").replace("\u2019", "'").split()).rstrip(".! ")


def _batches(turns: Iterable[Memory]) -> Iterator[list[Memory]]:
    batch: list[Memory] = []
    size = 0
    for memory in turns:
        if batch and (len(batch) == MOST_TURNS or size + len(memory.content) > MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(memory)
        size += len(memory.content)
    if batch:
        yield batch


def _last_answered(log: EventLog, project: str | None) -> int:
    """Return the event up to which a model read the turns of a project, or of all."""
    wanted = (None, project[:146]) if project else (None,)
    marks = (_MARK.fullmatch(call.purpose) for call in answered_calls(log))
    return max((int(mark[1]) for mark in marks if mark and mark[2] in wanted), default=0)

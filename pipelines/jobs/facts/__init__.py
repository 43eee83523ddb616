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
from store.derived.facts import Facts, Told, facts_of
from store.home.errors import BudgetSpent, InvalidInput, ModelError
from store.home.instants import moment
from store.log.commands import Draft
from store.log.event_kinds import (
    Applied,
    Called,
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
    """Return the facts of what was not looked at yet, oldest first."""
    looked = last_watermark(context.log, context.project)
    changed = _changes_since(context.log, looked) | _successors(context)
    turns = list(_memories_to_read(context, changed, looked))
    by_rules = [
        FactSource(memory, fact, Made(job="facts")) for memory in turns for fact in facts_in(memory)
    ]
    more, notes = facts_from_model(context, turns, by_rules)
    sources = sorted([*by_rules, *more], key=lambda source: (source.fact.since, source.memory.seq))
    known = _KnownFacts.of(context)
    said = {
        (source.memory.id, source.fact.key, fold_value(source.fact.value)) for source in sources
    }
    proposed = [
        step
        for memory in turns
        if memory.id in changed
        for step in _withdrawal_steps(context, memory, said)
    ]
    proposed += [step for source in sources for step in _steps(context, known, source)]
    silence = (
        f"{plural(len(turns), 'memory')} read that "
        f"{'was' if len(turns) == 1 else 'were'} not read before: none states a new fact in a way "
        "that the rules know"
        if turns
        else "nothing was said since the last run that may state a fact"
    )
    return Proposal(tuple(proposed), len(turns), notes, silence)


def _memories_to_read(context: Context, touched: Collection[str], looked: int) -> Iterator[Memory]:
    """Yield the memories that may state facts, and were recorded after an event or are touched."""
    known = context.rows
    wanted = known.codes("seq") > looked
    wanted[[row for id_ in touched if (row := known.row(id_)) is not None]] = True
    wanted &= known.equal("kind", KINDS)
    rows = context.live_rows
    for memory in context.memories(rows[wanted[rows]]):
        is_said = memory.job is None and memory.key is None
        if is_said and (memory.trust in _TRUSTED or LABEL in memory.tags):
            yield memory


def _changes_since(log: EventLog, after: int) -> set[str]:
    """Return the memories whose words changed, or that are current again, after an event."""
    return {
        event.subject
        for event in log.effective_events(after, log.head())
        if isinstance(event.body, Revised | Restored)
    }


def _successors(context: Context) -> set[str]:
    """Return the memories that took the place of those that stale facts were read in.

    A merged turn may say what the one that left said: it is read once more.
    """
    rows = np.flatnonzero(context.rows.equal("state", (STALE,)))
    facts = (memory for memory in context.memories(rows) if memory.job == "facts")
    sources = (context.rows.find(id_) for fact in facts for id_ in fact.source_ids)
    return {
        memory.superseded_by for memory in sources if memory is not None and memory.superseded_by
    }


def last_watermark(log: EventLog, project: str | None) -> int:
    """Return up to which event all was looked at: by the last plan that a person did not leave."""
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
    """The facts there are, and those proposed meanwhile: the memory of each key's value, what is
    said beside, and what was made before by id.
    """

    values: dict[Value, tuple[str, int, str | None, str]] = field(default_factory=dict)
    said: set[tuple[str | None, str, str]] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, context: Context) -> "_KnownFacts":
        rows = Facts.open(context.tables("facts")).documents
        memories = context.memories(rows)
        known = cls()
        for fact in facts_of(memories):
            memory = memories[fact.document]
            if memory.state != ACTIVE:
                continue
            if memory.key is not None:
                known.values[memory.project, fact.key] = (
                    fact.value,
                    fact.valid_from,
                    memory.job,
                    memory.id,
                )
            else:
                known.said.add((memory.project, fact.key, fold_value(fact.value)))
        return known


def fold_value(value: str) -> str:
    """Return a value as spellings of it are compared: "v5.3" and "5.3" are one version."""
    folded = " ".join(value.casefold().split())
    return folded[1:] if folded[:1] == "v" and folded[1:2].isdigit() else folded


def _withdrawal_steps(
    context: Context, turn: Memory, said: Set[tuple[str, str, str]]
) -> Iterator[Step]:
    """Yield what puts away the facts that a turn stated before it was revised, and does no more."""
    ids = context.rows.made_of(turn.id)
    made = [memory for id_ in ids if (memory := context.rows.find(id_)) and memory.job == "facts"]
    for fact in facts_of(made):
        memory = made[fact.document]
        is_said = (turn.id, fact.key, fold_value(fact.value)) in said
        if (
            memory.state == ACTIVE
            and not is_said
            and not _is_still_asserted(context.log, memory, turn)
        ):
            yield steps.stale(memory, "what it was read in says so no more")


def _is_still_asserted(log: EventLog, fact: Memory, turn: Memory) -> bool:
    """Return whether what a model read still stands in a turn, which no pattern would find."""
    body = log.events_for(fact.id)[0].body
    has_model = isinstance(body, Recorded) and body.made is not None and body.made.model is not None
    return has_model and fact.content in assertions(turn.content)


def _steps(context: Context, known: _KnownFacts, source: FactSource) -> Iterator[Step]:
    """Yield the steps for a fact: none where it is known, or older than what holds."""
    memory, fact = source.memory, source.fact
    about = memory.project, fact.key
    if fact.is_singleton:
        value, since, job, id_ = known.values.get(about, ("", 0, "facts", ""))
        if id_ and (fold_value(value) == fold_value(fact.value) or fact.since < since):
            return
        if id_ and job is None:
            yield from _conflict(context, known, source, id_)
            return
    elif (*about, fold_value(fact.value)) in known.said:
        return
    try:
        step = _record_step(context, source)
    except InvalidInput:  # a sentence or a name that makes no memory
        return
    if step.subject in known.ids:
        return
    known.ids.add(step.subject)
    if fact.is_singleton:
        known.values[about] = fact.value, fact.since, "facts", step.subject
    else:
        known.said.add((*about, fold_value(fact.value)))
    there = context.rows.find(step.subject)
    if there is None:
        yield step
    elif there.state == STALE and _holds(context, there.source_ids):
        yield steps.restore(there, "what it was read in holds again")


def _conflict(context: Context, known: _KnownFacts, source: FactSource, id_: str) -> Iterator[Step]:
    """Yield the link from a turn to the value by hand that it contradicts, once."""
    drawn = {(edge.source, edge.target) for edge in context.rows.edges_of(source.memory.id)}
    mark = f"{source.memory.id} {id_}"
    if (source.memory.id, id_) in drawn or mark in known.ids:
        return
    known.ids.add(mark)
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


def _holds(context: Context, ids: Iterable[str]) -> bool:
    memories = [context.rows.find(id_) for id_ in ids]
    return all(memory is not None and memory.state == ACTIVE for memory in memories)


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
    context: Context, turns: Sequence[Memory], known: Sequence[FactSource]
) -> tuple[list[FactSource], tuple[str, ...]]:
    """Return the facts that only a model finds, and notes for a person.

    Turns that it was asked about before, and those that assert nothing, are left out.
    """
    model = context.model
    if model is None:
        return [], ()
    there = {(source.memory.id, source.fact.key) for source in known}
    sources: list[FactSource] = []
    notes: list[str] = []
    mark = _last_asked(context.log, context.project)
    new = [memory for memory in turns if memory.seq > mark and any(assertions(memory.content))]
    for batch in _batches(sorted(new, key=lambda memory: memory.seq)):
        try:
            answer = model.ask(
                _purpose(batch[-1].seq, context.project), INSTRUCTIONS, _data(batch), Statings
            )
        except BudgetSpent:
            break  # which the model has said
        except ModelError as error:
            notes.append(f"by patterns alone for {len(batch)} turns: {error}")
            continue
        for read in _grounded_facts(batch, answer.value, answer.lineage("facts")):
            if (about := (read.memory.id, read.fact.key)) not in there:
                there.add(about)
                sources.append(read)
    return sources, tuple(notes)


def _grounded_facts(
    batch: Sequence[Memory], statings: Statings, made: Made
) -> Iterator[FactSource]:
    for one in statings.facts:
        if not 1 <= one.turn <= len(batch):
            continue
        memory = batch[one.turn - 1]
        statement = _statement(one)
        if statement is None or (sentence := _sentence(memory, one)) is None:
            continue
        if (fact := anchor(memory, statement, sentence)) is not None:
            yield FactSource(memory, fact, made)


def _statement(one: Stating) -> Statement | None:
    relation = " ".join(one.relation.casefold().replace("_", " ").split())
    entity, value = one.entity.strip(), one.value.strip()
    if not (entity and value and _RELATION.fullmatch(relation)):
        return None
    own = _FIRST.get(entity.casefold())
    entity = own[1] if own else entity
    return Statement(entity, relation, value, relation in SINGLETONS, CONFIDENCE)


def _sentence(memory: Memory, one: Stating) -> str | None:
    """Return the assertion of a memory that a model quotes, if value and entity stand in it."""
    quoted = _fold_sentence(one.sentence)
    for sentence in assertions(memory.content):
        text = _fold_sentence(sentence)
        if not (text in quoted or quoted in text) or not _holds_words(one.value, text):
            continue
        own = _FIRST.get(one.entity.strip().casefold())
        if own[0].search(sentence) if own else _holds_words(one.entity, text):
            return sentence
    return None


def _holds_words(words: str, text: str) -> bool:
    """Tell whether a sentence contains the words whole."""
    return re.search(rf"(?<!\w){re.escape(_fold_sentence(words))}(?!\w)", text) is not None


def _fold_sentence(text: str) -> str:
    return " ".join(text.casefold().replace("`", "").replace("\u2019", "'").split()).rstrip(".! ")


def _data(batch: Sequence[Memory]) -> str:
    lines = (
        msgspec.json.encode(
            {"turn": number, "by": memory.created_by or memory.trust, "text": memory.content}
        )
        for number, memory in enumerate(batch, start=1)
    )
    return b"\n".join(lines).decode()


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


def _purpose(seq: int, project: str | None) -> str:
    """Return a question's purpose; by it the log tells which turns were asked about."""
    return f"facts up to {seq}" + (f" of {project}"[:150] if project else "")


def _last_asked(log: EventLog, project: str | None) -> int:
    """Return up to which event turns of a project, or of all, were asked about and answered."""
    wanted = (None, f"{project}"[:146]) if project else (None,)
    marks = (
        (match, event.body)
        for event in log.job_events(("called",))
        if isinstance(event.body, Called) and (match := _MARK.fullmatch(event.body.purpose))
    )
    return max(
        (int(match[1]) for match, body in marks if not body.error and match[2] in wanted), default=0
    )

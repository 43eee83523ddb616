"""
The model step of `facts`: facts that no pattern finds, kept only if the turn states them.

A fact counts if the model quotes a sentence that asserts it (`statements.assertions`) and that
contains its value and entity. So a model can find more than the patterns do, and invent nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pipelines.jobs.context import Context
from pipelines.jobs.facts.rules import PROJECT, SINGLETONS, SPEAKER
from pipelines.jobs.facts.statements import FactSource, Statement, anchor, assertions
from store.home.errors import BudgetSpent, ModelError
from store.log.event_kinds import Called, Made
from store.log.event_log import EventLog
from store.memories.memory import Memory

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
    """Return what a model reads beyond what is known, and what a person should know of it.

    Turns that it was asked about before, and those that assert nothing, are left out.
    """
    model = context.model
    if model is None:
        return [], ()
    there = {(one.memory.id, one.fact.key) for one in known}
    found: list[FactSource] = []
    notes: list[str] = []
    mark = _last_asked(context.log, context.project)
    new = [one for one in turns if one.seq > mark and any(assertions(one.content))]
    for batch in _batches(sorted(new, key=lambda one: one.seq)):
        try:
            answer = model.ask(
                _purpose(batch[-1].seq, context.project), INSTRUCTIONS, _data(batch), Statings
            )
        except BudgetSpent:
            break  # which the model has said
        except ModelError as error:
            notes.append(f"by patterns alone for {len(batch)} turns: {error}")
            continue
        for read in _grounded_facts(batch, answer.value, answer.made("facts")):
            if (about := (read.memory.id, read.fact.key)) not in there:
                there.add(about)
                found.append(read)
    return found, tuple(notes)


def _grounded_facts(batch: Sequence[Memory], said: Statings, made: Made) -> Iterator[FactSource]:
    for one in said.facts:
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
        said = _fold_sentence(sentence)
        if not (said in quoted or quoted in said) or not _holds_words(one.value, said):
            continue
        own = _FIRST.get(one.entity.strip().casefold())
        if own[0].search(sentence) if own else _holds_words(one.entity, said):
            return sentence
    return None


def _holds_words(words: str, said: str) -> bool:
    """Return whether words stand in a sentence, whole."""
    return re.search(rf"(?<!\w){re.escape(_fold_sentence(words))}(?!\w)", said) is not None


def _fold_sentence(text: str) -> str:
    return " ".join(text.casefold().replace("`", "").replace("\u2019", "'").split()).rstrip(".! ")


def _data(batch: Sequence[Memory]) -> str:
    lines = (
        msgspec.json.encode(
            {"turn": number, "by": one.created_by or one.trust, "text": one.content}
        )
        for number, one in enumerate(batch, start=1)
    )
    return b"\n".join(lines).decode()


def _batches(turns: Iterable[Memory]) -> Iterator[list[Memory]]:
    batch: list[Memory] = []
    size = 0
    for one in turns:
        if batch and (len(batch) == MOST_TURNS or size + len(one.content) > MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one.content)
    if batch:
        yield batch


def _purpose(seq: int, project: str | None) -> str:
    """Return what a question is for; the log tells by it which turns were asked about."""
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

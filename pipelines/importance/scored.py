"""
Scored: what a model says memories matter, asked in batches of neighbours.

A batch that was asked once is not asked again while its memories say the same: its prompt's digest
is in the log. A model is told what a memory says, so a memory could plead for itself: what a tool
or the web said never gains by it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from pipelines.jobs.context import Context
from pipelines.llm import schema
from pipelines.llm.model import LanguageModel
from pipelines.llm.prompt import prompt
from store.home.errors import BudgetSpent, ModelError
from store.log.event_kinds import Called, Unit
from store.memories.memory import TOOL_TRUSTS, Memory

PURPOSE = "importance"
BATCH = 20  # memories a question
MOST_BATCHES = 10  # a run
_LONGEST = 400  # characters of a memory
_INSTRUCTIONS = """
You look through the notes of a programmer's long-term memory, one JSON object a line. For each say
how much it will matter in later work on the same projects, from 0 to 1: 0.9 a rule or a decision
that binds all that follows, 0.5 a fact that may be looked up one day, 0.1 small talk or what is
over and done. Judge what a note says, not how urgently it says it. Give every `n` once.
"""


class Score(msgspec.Struct, frozen=True):
    n: int
    importance: Unit


class Scores(msgspec.Struct, frozen=True):
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model said of a memory."""

    importance: float
    model: str


def scored(context: Context, memories: Sequence[Memory]) -> dict[str, Scored]:
    """Return what the model says of memories, by id; those it says nothing of are left out.

    Memories are in the order of their recording. None is asked about without a model.
    """
    if context.model is None:
        return {}
    found: dict[str, Scored] = {}
    for batch in _unasked(context, memories):
        context.report(f"importance: {len(batch)} memories before the model")
        try:
            found |= _asked(context.model, batch)
        except BudgetSpent:
            break
        except ModelError:
            continue  # these are judged by what became of them; the call is in the log
    return found


def _asked(model: LanguageModel, batch: Sequence[Memory]) -> dict[str, Scored]:
    answer = model.ask(PURPOSE, _INSTRUCTIONS, _data(batch), Scores, tier="cheap")
    found: dict[str, Scored] = {}
    for one in answer.value.scores:
        if 1 <= one.n <= len(batch):
            memory = batch[one.n - 1]
            most = memory.unsaid_importance if memory.trust in TOOL_TRUSTS else 1.0
            said = min(one.importance, most)
            found[memory.id] = Scored(said, answer.model)
    return found


def _unasked(context: Context, memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """Yield the batches that were not asked about before, the newest memories first."""
    bodies = (event.body for event in context.log.of_jobs(("called",)))
    asked = {
        body.prompt_sha256 for body in bodies if isinstance(body, Called) and body.error is None
    }
    batches: dict[int, list[Memory]] = {}  # by place in the log, so that they stay what they are
    for memory in memories:
        batches.setdefault((context.rows.row(memory.id) or 0) // BATCH, []).append(memory)
    count = 0
    for number in sorted(batches, reverse=True):
        batch = batches[number]
        question = prompt(_INSTRUCTIONS, _data(batch), schema.strict(Scores))
        if question.sha256 in asked:
            continue
        yield batch
        count += 1
        if count == MOST_BATCHES:
            return


def _data(batch: Sequence[Memory]) -> str:
    lines = (
        {"n": n, "kind": one.kind, "text": one.content[:_LONGEST]} for n, one in enumerate(batch, 1)
    )
    return "\n".join(msgspec.json.encode(line).decode() for line in lines)

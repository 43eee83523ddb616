"""
The statement step of `distill`: a model reads what a user typed, and says which sentences last.

Its answer is numbers: a sentence that it finds is recorded in the user's own words, as one of the
classifier's would be, and no word of the model's reaches the memory; a kept one is confirmed by its
importance. A kept statement that lasts no longer than its day is archived, unless the user pinned
it or an agent was seen to follow it. One of which the answer says nothing stays as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from pipelines.jobs import Context
from pipelines.jobs.distill.sessions import candidate_key
from pipelines.llm.model_client import answered_calls
from pipelines.llm.prompt import json_lines
from store.agents.authorship import mask, read_authors
from store.agents.prompt_classifier import Lasting, Sentence, sentences
from store.agents.prompt_statements import (
    ANSWER,
    FROM_PROMPT,
    PromptStatement,
    draft_of,
    is_interrupted,
    quote,
)
from store.derived.feedback import Lessons
from store.home.errors import BudgetSpent, InvalidInput, ModelError
from store.home.instants import moment
from store.log.event_kinds import STATEMENT, Prompted, Revised, Step
from store.log.events import Event
from store.memories.memory import ACTIVE, FORGOTTEN, Memory
from store.plans import steps
from store.text import frame
from store.text.excerpt import plural
from store.text.strict_duplicates import statement

MOST_ASKED = 20  # questions in a run, the newest prompts first
IMPORTANCE = 0.95  # of a statement that lasts, by which it leads a brief
ROOM = 12_000  # characters of the sentences in a question
_LONGEST = 400  # characters of a sentence
_INSTRUCTIONS = """
You are shown what one developer typed to a coding agent in one project, in order, sentence by
sentence: one JSON object a line, and `prompt` counts the prompts. Most of it belongs to the work of
the moment: requests, questions, answers, reports of faults. A few sentences last: an agent that
works on something else in the same project, weeks later, would go wrong without them. They are a
"rule" (how to work from now on: always, never, ask first), a "preference" (how the user likes
things done in general), a "decision" (a choice that later work has to respect) or a "fact" (about
the project, its environment or its people, and true until further notice). Ask yourself whether a
colleague who joins next month should be told. A request for one change does not last, however
strict it sounds ("do not change anything else", "make the button blue"); nor does a fault report
with what it expects, a plan for today, praise, blame or a question. A sentence that lasts can be
understood alone or with neighbours that you name too. `lasts` are those sentences. Some lines are
marked `kept`: the memory took them for lasting, and was often wrong. `over` are the `n` of those
that do not last: each of them belongs in one of the two lists. When in doubt, a kept sentence is
over, and another one is left out.
"""
_Stated = set[tuple[str | None, tuple[str, ...]]]  # a project, and what a statement of it says
_ANSWERED = re.compile(r"statements of (?P<project>.+) from (?P<first>\d+) to (?P<last>\d+)")


class Lasts(msgspec.Struct, frozen=True):
    n: int
    kind: Lasting


class Reading(msgspec.Struct, frozen=True):
    lasts: Annotated[tuple[Lasts, ...], msgspec.Meta(max_length=400)]
    over: Annotated[tuple[int, ...], msgspec.Meta(max_length=400)]


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence of a prompt as the model sees it.

    `text` is the whole prompt, `typed` the same with its pasted parts masked. `kept` are the
    statements that contain the sentence.
    """

    prompted: Event
    text: str
    typed: str
    sentence: Sentence
    kept: tuple[Memory, ...]

    @property
    def words(self) -> str:
        return quote(self.typed, [self.sentence])

    @property
    def shown(self) -> str:
        """Its words; those of a kept answer with the question, without which they say nothing."""
        answers = (memory.content for memory in self.kept if memory.content.startswith(ANSWER))
        return next(answers, self.words[:_LONGEST])


def read_statements(context: Context) -> Iterator[Step]:
    """Yield the steps that record, confirm and archive statements, of prompts that no model has
    read yet.

    Prompts without an answer are left for the next run, as is the rest once the budget is spent;
    those with an invalid answer are not read again. With a session in the context nothing is read.
    """
    model = context.model
    if model is None or context.session is not None or not context.choices.remember_words:
        return
    ever = context.memories(np.flatnonzero(context.rows.equal("kind", (STATEMENT,))))
    # what the user took back is not recorded again
    stated = {(memory.project, statement(memory.content).says) for memory in ever}
    lessons = Lessons(context.tables("lessons"))
    for number, (project, batch) in enumerate(_new_batches(context, ever)):
        if number == MOST_ASKED:
            return
        prompts = list(dict.fromkeys(line.prompted.seq for line in batch))
        context.report(f"{plural(len(prompts), 'prompt')} of {project} before the model")
        # the purpose records in the log which prompts were read
        purpose = f"statements of {project} from {prompts[0]} to {prompts[-1]}"
        try:
            answer = model.ask(purpose, _INSTRUCTIONS, _data(batch, prompts), Reading)
        except BudgetSpent:
            return
        except ModelError:  # recorded in the log
            continue
        lines = dict(enumerate(batch, 1))
        both = {found.n for found in answer.value.lasts}.intersection(answer.value.over)
        lasting = {found.n: found.kind for found in answer.value.lasts if found.n not in both}
        over = set(answer.value.over) - both
        yield from _archive_steps(lines, lasting, over, lessons, answer.model)
        yield from _confirm_steps(lines, lasting, answer.model)
        yield from _record_steps(context, lines, lasting, stated, answer.model)


def _data(batch: Sequence[_Line], prompts: Sequence[int]) -> str:
    places = {seq: place for place, seq in enumerate(prompts, 1)}
    return json_lines(
        {"n": n, "prompt": places[line.prompted.seq], "text": line.shown}
        | ({"kept": True} if line.kept else {})
        for n, line in enumerate(batch, 1)
    )


def _new_batches(context: Context, ever: Sequence[Memory]) -> Iterator[tuple[str, list[_Line]]]:
    """Yield a project's name and the sentences of its prompts that fit one question, in order; the
    newest first. Of equal sentences the newest is shown, and any in an active one of the statements
    `ever` made.
    """
    kept: dict[str, list[Memory]] = {}  # by prompt
    for memory in ever:
        if memory.state == ACTIVE and memory.source == FROM_PROMPT and memory.source_ids:
            kept.setdefault(memory.source_ids[0], []).append(memory)
    for name, events in _unread_prompts(context).items():
        batch, room, seen = list[_Line](), ROOM, set[str]()
        for event in reversed(events):
            lines = _lines(context, event, kept.get(event.id, ()), seen)
            size = sum(len(line.shown) for line in lines)
            if batch and size > room:
                yield name, batch
                batch, room = [], ROOM
            batch = [*lines, *batch]
            room -= size
        if batch:
            yield name, batch


def _unread_prompts(context: Context) -> Mapping[str, list[Event]]:
    """Return the prompts of which no model has said what lasts, in order, by project."""
    read = _answered_ranges(context)
    unread: dict[str, list[Event]] = {}
    for event in context.log.events_between(("prompted",), 0, context.now + 1):
        if context.project in (None, event.project) and event.author in (None, "typed"):
            name = event.project or "none"
            name = name if len(name) <= 100 else candidate_key(name)
            if not any(first <= event.seq <= last for first, last in read.get(name, ())):
                unread.setdefault(name, []).append(event)
    return unread


def _lines(
    context: Context, prompted: Event, kept: Sequence[Memory], seen: set[str]
) -> list[_Line]:
    """Return the sentences that the user typed in a prompt, without those `seen`, and add them;
    none of a prompt that was forgotten.
    """
    assert isinstance(prompted.body, Prompted)
    episode = context.rows.find(prompted.id)
    text = frame.strip(prompted.body.prompt)
    authorship = read_authors(text)
    if authorship.author != "typed" or (episode is not None and episode.state == FORGOTTEN):
        return []
    typed, lines = mask(text, authorship), list[_Line]()
    for sentence in sentences(typed):
        words = quote(typed, [sentence])
        stated = tuple(memory for memory in kept if words in memory.content)
        if (stated or words not in seen) and any(map(str.isalpha, words)):
            lines.append(_Line(prompted, text, typed, sentence, stated))
        seen.add(words)
    return lines


def _answered_ranges(context: Context) -> Mapping[str, list[tuple[int, int]]]:
    """Return the first and last prompt of each question that a model answered, by project."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for call in answered_calls(context.log):
        if (match := _ANSWERED.fullmatch(call.purpose)) is not None:
            span = int(match["first"]), int(match["last"])
            ranges.setdefault(match["project"], []).append(span)
    return ranges


def _archive_steps(
    lines: Mapping[int, _Line],
    lasting: Mapping[int, Lasting],
    over: set[int],
    lessons: Lessons,
    model: str,
) -> Iterator[Step]:
    """Yield the steps that archive kept statements of which a sentence is over and none lasts."""
    last = {memory.id for n in lasting.keys() & lines.keys() for memory in lines[n].kept}
    ended = {memory.id: memory for n in sorted(over & lines.keys()) for memory in lines[n].kept}
    for id_, memory in ended.items():
        is_used = memory.pinned or lessons.of(id_)["followed"]
        if id_ not in last and not is_used:
            yield steps.archive(memory, f"{model}: it was said for its day", model=model)


def _confirm_steps(
    lines: Mapping[int, _Line], lasting: Mapping[int, Lasting], model: str
) -> Iterator[Step]:
    """Yield the steps that raise kept statements that last, unless their importance was set."""
    kept = (memory for n in sorted(lasting.keys() & lines.keys()) for memory in lines[n].kept)
    for memory in {memory.id: memory for memory in kept}.values():
        if memory.importance == memory.unsaid_importance:
            why = f"{model}: it lasts"
            changes = Revised(importance=IMPORTANCE, reason=why)
            yield steps.revise(memory, changes, why, model=model)


def _record_steps(
    context: Context,
    lines: Mapping[int, _Line],
    lasting: Mapping[int, Lasting],
    stated: _Stated,
    model: str,
) -> Iterator[Step]:
    """Yield the steps that record the lasting sentences not kept before, neighbours as one, and add
    them to what was stated.
    """
    new = [n for n in sorted(lasting.keys() & lines.keys()) if not lines[n].kept]
    for run in _runs(new, lines):
        first = lines[run[0]]
        text = quote(first.typed, [lines[n].sentence for n in run])
        key = first.prompted.project, statement(text).says
        if key in stated:
            continue
        stated.add(key)
        draft = draft_of(first.prompted, PromptStatement(text, lasting[run[0]]))
        draft = msgspec.structs.replace(
            draft, created_at=moment(first.prompted.at), importance=IMPORTANCE
        )
        with suppress(InvalidInput):  # its words make no memory
            yield steps.record(draft, None, context.now, f"{model}: it lasts", model=model)


def _runs(numbers: Sequence[int], lines: Mapping[int, _Line]) -> Iterator[list[int]]:
    """Yield the runs of lines that follow one another in one prompt."""
    run: list[int] = []
    for n in numbers:
        if run and not _follows(lines[run[-1]], lines[n]):
            yield run
            run = []
        run.append(n)
    if run:
        yield run


def _follows(before: _Line, after: _Line) -> bool:
    return before.prompted is after.prompted and not is_interrupted(
        before.text, before.sentence, after.sentence
    )

"""
Proposals and plans as JSON, plans as lines of text, each step as a diff with its reason, and the
words in which two texts differ.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from store.home.instants import isoformat
from store.log.event_kinds import (
    Step,
)
from store.plans.plans import Plan
from store.plans.proposals import VERBS, Proposal, steps


def proposal_summary(one: Proposal) -> dict[str, Any]:
    """Return a proposal as a list sends it: `changes` counts its steps."""
    return {
        "id": one.id,
        "sort": one.sort,
        "job": one.job,
        "state": one.state,
        "at": isoformat(one.at),
        "project": one.project,
        "title": one.title,
        "because": list(one.because),
        "stale_because": list(one.stale_because),
        "changes": len(one.made),
        "left": one.left,
        "plan": one.plan,
        "memory": one.memory,
        "model": one.model,
        "cost_usd": one.cost_usd,
    }


def proposal_fields(one: Proposal) -> dict[str, Any]:
    """Return a proposal as it is sent, step by step."""
    return proposal_summary(one) | {"steps": msgspec.to_builtins(steps(one))}


_LONGEST_VALUE = 160  # characters of a text in one line


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan."""
    body = plan.body
    spent = f", {body.model}: {body.tokens:,} tokens, ${body.cost_usd:.4f}" if body.model else ""
    yield (
        f"plan {plan.id}  {body.job}  {plan.state}  {isoformat(plan.at)}  "
        f"{len(body.steps)} steps of {body.looked_at:,} memories{spent}"
    )
    yield from (f"stale: {reason}" for reason in plan.because)
    yield from (f"note: {note}" for note in body.notes)
    yield from step_lines(body.steps)
    if body.left:
        yield ""
        yield f"{body.left:,} more steps wait for the next plan"


def step_lines(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the lines of some steps, each after an empty one; what becomes one is one."""
    for into, some in groupby(steps, _into):
        if into is None:
            for step in some:
                yield ""
                yield from _step(step)
        else:
            yield ""
            yield from _replacements(into, list(some))


def _into(step: Step) -> str | None:
    """Return the memory that a step lets take another's place, where it says which words hold."""
    return str(step.body["by"]) if step.event == "superseded" and _holds(step) else None


def _holds(step: Step) -> str:
    return str(step.evidence.get("by_says", ""))


def _replacements(into: str, some: Sequence[Step]) -> Iterator[str]:
    """Yield what gives way to one memory, and then what holds in its place."""
    is_update = any(step.evidence.get("kind") == "update" for step in some)
    verb = "corrected by" if is_update else "merged into"
    yield f"{verb}  {into}: {'; '.join(dict.fromkeys(step.why for step in some))}"
    for step in some:
        yield f"  - {_short(step.before.get('content', ''))}  ({step.subject})"
    yield f"  + {_short(_holds(some[-1]))}"


def _step(step: Step) -> Iterator[str]:
    yield f"{VERBS[step.event]}  {step.subject}{_other(step)}: {step.why}"
    if step.event == "revised":
        if isinstance(text := step.evidence.get("text"), str):  # whose text stays as it is
            yield f"  = {_short(text)}"
        for name, value in step.body.items():
            if name != "reason":
                yield f"  - {name}: {_short(step.before.get(name))}"
                yield f"  + {name}: {_short(value)}"
    elif step.event == "recorded":
        yield f"  + {_short(step.body.get('content', ''))}"
    elif "content" in step.before:
        sign = "+" if step.event == "restored" else "="
        sign = "-" if step.event in ("superseded", "archived", "staled") else sign
        yield f"  {sign} {_short(step.before['content'])}"


def _other(step: Step) -> str:
    if "by" in step.body:
        return f" by {step.body['by']}" if step.event == "superseded" else ""
    if "target" in step.body:
        return f" {step.body.get('relation', '')} {step.body['target']}"
    return ""


def _short(value: Any) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(plan.body)
    return {
        "plan": plan.id,
        "state": plan.state,
        "at": isoformat(plan.at),
        "project": plan.project,
        "because": list(plan.because),
        "events": list(plan.events),
        **found,
    }


# The words in which two texts differ.

MOST_PAIRS = 20_000  # of equal words: comparing takes up to as many steps for each word
LEAST_ALIKE = 0.25  # of two texts: of less alike ones, all words would be marked

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, and whether the other text has it not."""

    differs: bool
    text: str


def differing_words(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return two texts in pieces, each whole when joined, that tell which words differ.

    Texts with little in common, or with one word very often, come as one piece each, unmarked.
    """
    texts = before, after
    words = [list(_WORD.finditer(text)) for text in texts]
    left, right = ([found[0] for found in of] for of in words)
    others = Counter(right)
    if sum(count * others[word] for word, count in Counter(left).items()) > MOST_PAIRS:
        return [Piece(False, before)], [Piece(False, after)]
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if left and right and matcher.ratio() < LEAST_ALIKE:
        return [Piece(False, before)], [Piece(False, after)]
    runs: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            runs[0].append((i1, i2))
            runs[1].append((j1, j2))
    first, second = (_pieces(*one) for one in zip(texts, words, runs, strict=True))
    return first, second


def _pieces(
    text: str, words: Sequence[re.Match[str]], runs: Iterable[tuple[int, int]]
) -> list[Piece]:
    """Return a text in pieces, those that differ being runs of its words."""
    found, place = [], 0
    for start, end in runs:
        if start < end:
            first, last = words[start].start(), words[end - 1].end()
            found += [Piece(False, text[place:first]), Piece(True, text[first:last])]
            place = last
    return [one for one in (*found, Piece(False, text[place:])) if one.text]

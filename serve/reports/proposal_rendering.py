"""
Proposals and plans as JSON, plans as lines of text, each step as a diff with its reason, a plan's
effect on past recalls, and the words in which two texts differ.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from store.home.instants import isoformat
from store.log.event_kinds import ReplayDiff, Step
from store.log.event_log import EventLog
from store.plans.plans import BULK, Plan
from store.plans.proposals import VERBS, Proposal, steps
from store.text.excerpt import one_line, plural


def proposal_summary(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as an item of a list: `changes` is the number of its steps."""
    return {
        "id": proposal.id,
        "sort": proposal.sort,
        "job": proposal.job,
        "state": proposal.state,
        "at": isoformat(proposal.at),
        "project": proposal.project,
        "title": proposal.title,
        "because": list(proposal.because),
        "stale_because": list(proposal.stale_because),
        "changes": len(proposal.made),
        "left": proposal.left,
        "plan": proposal.plan,
        "memory": proposal.memory,
        "model": proposal.model,
        "cost_usd": proposal.cost_usd,
    }


def proposal_fields(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as JSON, step by step."""
    return proposal_summary(proposal) | {
        "steps": msgspec.to_builtins(steps(proposal)),
        "replay": msgspec.to_builtins(proposal.replay),
        "checks": msgspec.to_builtins(proposal.checks),
        "forced": list(proposal.forced),
    }


_LONGEST_VALUE = 160  # characters of a text in one line


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan."""
    body = plan.body
    spent = f", {body.model}: {body.tokens:,} tokens, ${body.cost_usd:.4f}" if body.model else ""
    is_of_memories = body.replay is None or body.job == "archive"
    looked_at = plural(body.looked_at, "memory" if is_of_memories else "past recall")
    did = plural(len(plan.events), "event") if body.job == BULK else plural(len(body.steps), "step")
    yield (
        f"plan {plan.id}  {body.job}  {plan.state}  {isoformat(plan.at)}  "
        f"{did}{f' of {looked_at}' if body.looked_at or body.job != BULK else ''}{spent}"
    )
    yield from (f"stale: {reason}" for reason in plan.because)
    yield from (f"note: {note}" for note in body.notes)
    yield from step_lines(body.steps)
    if body.left:
        yield ""
        yield f"{body.left:,} more steps wait for the next plan"
    if body.replay is not None:
        yield ""
        yield f"{'past recalls':<36}{'before':>12}{'after':>12}"
        for name, before, after in replay_rows(body.replay):
            yield f"{name:<36}{before:>12}{after:>12}"
    if body.checks:
        yield ""
        for check in body.checks:
            yield f"{'ok' if check.passed else 'FAILED':<8}{check.name}: {check.detail}"
    if plan.forced:
        yield f"applied all the same, by force: {', '.join(plan.forced)} had failed"


def step_lines(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the lines of some steps, each after an empty one; steps that merge memories are one."""
    for into, group in groupby(steps, _replacement):
        if into is None:
            for step in group:
                yield ""
                yield from _step(step)
            continue
        replaced = list(group)
        is_update = any(step.evidence.get("kind") == "update" for step in replaced)
        verb = "corrected by" if is_update else "merged into"
        yield ""
        yield f"{verb}  {into}: {'; '.join(dict.fromkeys(step.why for step in replaced))}"
        for step in replaced:
            yield f"  - {_short(step.before.get('content', ''))}  ({step.subject})"
        yield f"  + {_short(str(replaced[-1].evidence['by_says']))}"


def _replacement(step: Step) -> str | None:
    """Return the memory that replaces another in a step, where the step has its words."""
    is_replaced = step.event == "superseded" and step.evidence.get("by_says")
    return str(step.body["by"]) if is_replaced else None


def _step(step: Step) -> Iterator[str]:
    if step.event == "configured":
        yield f"set  {step.why}"
        return
    other = ""
    if "by" in step.body:
        other = f" by {step.body['by']}" if step.event == "superseded" else ""
    elif "target" in step.body:
        other = f" {step.body.get('relation', '')} {step.body['target']}"
    yield f"{VERBS[step.event]}  {step.subject}{other}: {step.why}"
    if step.event == "revised":
        if isinstance(text := step.evidence.get("text"), str):  # the text stays as it is
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


def _short(value: Any) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON."""
    payload: dict[str, Any] = msgspec.to_builtins(plan.body)
    return {
        "plan": plan.id,
        "state": plan.state,
        "at": isoformat(plan.at),
        "project": plan.project,
        "because": list(plan.because),
        "events": list(plan.events),
        **payload,
    }


# The effect of a change of recall on past recalls.


def replay_rows(difference: ReplayDiff) -> list[tuple[str, str, str]]:
    """Return the figures of past recalls before a change and after it: name, before, after."""
    spoke = difference.spoke - difference.silenced + difference.awoken
    hits = difference.hits - difference.gone + difference.new
    rows = [
        ("that brought something", difference.spoke, spoke),
        ("memories that came back", difference.hits, hits),
        ("of them, new", 0, difference.new),
    ]
    if difference.helpful:
        rows.append(
            ("that had helped", difference.helpful, difference.helpful - difference.helpful_gone)
        )
    if difference.harmful:
        rows.append(
            ("that had not", difference.harmful, difference.harmful - difference.harmful_gone)
        )
    rows.append(("characters", *difference.characters))
    texts = [(name, f"{before:,}", f"{after:,}") for name, before, after in rows]
    if not any(difference.took_us):  # one side is that of the receipts
        return texts
    recalls = max(difference.asked, 1)
    before, after = (f"{us / recalls / 1000:.1f}" for us in difference.took_us)
    return [*texts, ("ms a recall, on this machine", before, after)]


class AnswerDiff(msgspec.Struct, frozen=True):
    """A recall's question, and the memories that its answer loses and gains: place, id and first
    words of each. `note` names other changes.
    """

    recall: str
    query: str
    gone: tuple[tuple[int, str, str], ...]
    new: tuple[tuple[int, str, str], ...]
    note: str


def answer_diff(
    log: EventLog, recall: str, before: Sequence[str], after: Sequence[str]
) -> AnswerDiff:
    """Return an answer before and after a change, in words; erased texts are empty."""
    note = ""
    if list(before) == list(after):
        note = "the same memories with other scores, or with other words"
    elif set(before) == set(after):
        note = "the same memories in another order"

    def only(those: Sequence[str], others: Sequence[str]) -> tuple[tuple[int, str, str], ...]:
        return tuple(
            (place, id_, _first_words(log, id_))
            for place, id_ in enumerate(those, 1)
            if id_ not in others
        )

    event = next(iter(log.events_for(recall)), None)
    query = one_line(getattr(event.body, "query", ""), 120) if event else ""
    return AnswerDiff(recall, query, only(before, after), only(after, before), note)


def _first_words(log: EventLog, id_: str) -> str:
    """Return the first words of a memory; "" for an erased memory."""
    event = next(iter(log.events_for(id_)), None)
    text: str = (
        getattr(event.body, "content", "") or getattr(event.body, "prompt", "") if event else ""
    )
    return one_line(text, 56)


def plan_markdown(log: EventLog, plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan of settings as a Markdown report."""
    body = plan.body
    yield f"# Plan {plan.id}"
    yield ""
    yield f"{plan.state}, proposed {isoformat(plan.at)[:16]}Z"
    yield ""
    for step in body.steps:
        yield f"- {step.why}"
    yield from (f"- {note}" for note in body.notes)
    if body.replay is not None:
        yield from ("", "| past recalls | before | after |", "|---|---:|---:|")
        yield from (f"| {' | '.join(row)} |" for row in replay_rows(body.replay))
    if body.checks:
        yield from ("", "| check | | |", "|---|---|---|")
        for check in body.checks:
            yield f"| {check.name} | {'ok' if check.passed else '**failed**'} | {check.detail} |"
    for answer in body.replay.answers if body.replay else ():
        diff = answer_diff(log, answer.recall, answer.before, answer.after)
        yield from ("", f"### {_escape(diff.query)}", "")
        for sign, those in (("−", diff.gone), ("+", diff.new)):
            yield from (
                f"- {sign} {place}. {_escape(text)} (`{id_}`)" for place, id_, text in those
            )
        if diff.note:
            yield diff.note


def _escape(text: str) -> str:
    """Return a text escaped for Markdown."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)


# The words in which two texts differ.

MOST_PAIRS = 20_000  # of equal words: comparing takes up to as many steps for each word
LEAST_ALIKE = 0.25  # similarity of two texts: below it, all words would be marked

_WORD = re.compile(r"\S+")


class Piece(msgspec.Struct, frozen=True):
    """A part of a text; `differs` if the other text lacks it."""

    differs: bool
    text: str


def differing_words(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return two texts in pieces, each whole when joined, with the differing words marked.

    Texts with little in common, or with one word very often, come as one piece each, unmarked.
    """
    words = [list(_WORD.finditer(text)) for text in (before, after)]
    old, new = ([match[0] for match in matches] for matches in words)
    counts = Counter(new)
    if sum(count * counts[word] for word, count in Counter(old).items()) > MOST_PAIRS:
        return [Piece(False, before)], [Piece(False, after)]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if old and new and matcher.ratio() < LEAST_ALIKE:
        return [Piece(False, before)], [Piece(False, after)]
    runs: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            runs[0].append((i1, i2))
            runs[1].append((j1, j2))
    return _pieces(before, words[0], runs[0]), _pieces(after, words[1], runs[1])


def _pieces(
    text: str, words: Sequence[re.Match[str]], runs: Iterable[tuple[int, int]]
) -> list[Piece]:
    """Return a text in pieces; the differing pieces are runs of its words."""
    pieces, place = [], 0
    for start, end in runs:
        if start < end:
            first, last = words[start].start(), words[end - 1].end()
            pieces += [Piece(False, text[place:first]), Piece(True, text[first:last])]
            place = last
    return [piece for piece in (*pieces, Piece(False, text[place:])) if piece.text]

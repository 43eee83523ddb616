"""
The model step of `consolidate`: are two memories with similar words the same, or an update?

The model cannot overrule strict evidence. Its answer becomes steps only if the pair passes the
checks for every merge and correction, and its text the checks at the end of this file; then a
person reads the plan. The log has each prompt's digest, so a pair is not asked about twice.
"""

import re
from collections.abc import Iterator, Sequence, Set
from itertools import combinations
from typing import Literal
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from pipelines.jobs.consolidate.merges import (
    SHOWN,
    LiveMemory,
    Merge,
    edge_steps,
    is_left_alone,
    join_metadata,
    may_correct,
    may_replace,
    merge_steps,
)
from pipelines.llm import prompt
from pipelines.llm.model_client import Answer, LanguageModel, answered_calls
from pipelines.llm.prompt import make_prompt
from store.derived.duplicates import HAPPENED, scope, statement_text
from store.home.errors import BudgetSpent, InvalidInput, ModelError
from store.log.commands import Draft, limit_tags
from store.log.event_kinds import Planned, RecordedKind, Step, Tier
from store.memories.memory import Memory
from store.plans import steps as plan_steps
from store.text import tokenizer
from store.text.strict_duplicates import FUNCTION, statement

MOST_ASKED = 40  # pairs a run, the likest first
_MOST_FOUND = 1_000

INSTRUCTIONS = """\
Two notes of a project's memory, the older first. Say how they relate:
"same": whoever knows one knows the other; then `text` says it once, with every word that means
something in either note, every number, name, identifier and negation, and no other.
"update": about the same thing the newer says something else, and the older holds no more.
"different": two facts, or you are not sure. `text` is empty then.
Notes about two things, times, places or persons are different, however alike their words are.
`because` is one short sentence."""


class Judgment(msgspec.Struct, frozen=True):
    """How two notes relate, as a model says."""

    relation: Literal["same", "update", "different"]
    because: str
    text: str = ""


def model_steps(live: LiveMemory, model: LanguageModel, taken: Set[str]) -> list[Step]:
    """Return the steps from a model's judgments; none touches a memory of `taken`."""
    log = live.context.log
    answered = {call.prompt_sha256 for call in answered_calls(log)}
    planned = {
        step.subject
        for event in log.job_events(("planned",))
        if isinstance(event.body, Planned) and event.body.job == "consolidate"
        for step in event.body.steps
    }
    schema = prompt.strict_schema(Judgment)
    steps: list[Step] = []
    touched = set(taken)
    questions = 0
    for older, newer, likeness in _open_pairs(live, taken):
        pair = {older.id, newer.id}
        if not touched.isdisjoint(pair):
            continue
        data = f"older:\n{statement_text(older)}\n\nnewer:\n{statement_text(newer)}"
        if planned.isdisjoint(pair) and make_prompt(INSTRUCTIONS, data, schema).sha256 in answered:
            continue  # a model judged the pair before, without a result
        if questions == MOST_ASKED:
            break
        questions += 1
        try:
            answer = model.ask("consolidate", INSTRUCTIONS, data, Judgment, tier="balanced")
        except ModelError:
            continue  # the pair stays as it is
        except BudgetSpent:
            break
        if new_steps := list(_judgment_steps(live, older, newer, answer, likeness)):
            steps += new_steps
            touched |= pair
    return steps


def _open_pairs(live: LiveMemory, taken: Set[str]) -> Iterator[tuple[Memory, Memory, float]]:
    """Yield near pairs of live memories, the older first, that strict evidence leaves undecided."""
    memories = [
        memory
        for memory in live.context.memories(live.context.live_rows)
        if memory.kind not in HAPPENED and not is_left_alone(memory) and not memory.pinned
        if memory.id not in taken and not memory.fields
    ]
    statements = [statement(memory.content) for memory in memories]
    # pairs that differ in a mark are not for a model; equal statements are handled already
    groups = [
        # by owner, person and day; the other fields only matter for equal statements
        (
            memory.kind,
            memory.trust,
            frozenset(read.marks),
            *scope(memory, is_relative=read.is_relative)[:3],
        )
        for memory, read in zip(memories, statements, strict=True)
    ]
    texts = [memory.content for memory in memories]
    for left, right, likeness in near_pairs(texts, groups, _MOST_FOUND):
        if statements[left].says != statements[right].says:
            pair = (memories[left], memories[right])
            older, newer = sorted(pair, key=lambda memory: (memory.created_at, memory.seq))
            yield older, newer, likeness


def _judgment_steps(
    live: LiveMemory, older: Memory, newer: Memory, answer: Answer[Judgment], likeness: float
) -> Iterator[Step]:
    judged = answer.value
    if judged.relation == "update" and may_correct(newer, older):
        yield plan_steps.supersede(
            older,
            newer.id,
            f"the later word holds: {judged.because[:SHOWN]}",
            kind="update",
            by_says=newer.content[:SHOWN],
            likeness=round(likeness, 3),
            model=answer.model,
            prompt_sha256=answer.prompt_sha256,
        )
    elif judged.relation == "same" and not differ_in_fact(older.content, newer.content):
        if any(map(live.bears, (older, newer))):
            return  # derived memories would become stale with it
        yield from _merge_steps(live, (older, newer), answer, likeness)


def _merge_steps(
    live: LiveMemory, sources: Sequence[Memory], answer: Answer[Judgment], likeness: float
) -> Iterator[Step]:
    """Yield the steps that replace two texts by one: a new text, or one of the two."""
    older, newer = sources
    text = answer.value.text.strip()
    metadata = join_metadata(sources)
    if reject_reason(text, older.content, newer.content) is not None or metadata is None:
        return
    says = statement(text).says
    for survivor, other in ((older, newer), (newer, older)):
        if says == statement(survivor.content).says:
            if may_replace(survivor, other):
                yield from merge_steps(live, Merge(survivor, (other,)))
            return
    source_ids = (older.id, newer.id)
    at = max(older.created_at, newer.created_at)
    # from the sources alone: a model's wording varies, and an undone merge must stay undone
    id_ = plan_steps.result_id("consolidate", "", source_ids, at)
    if live.context.rows.find(id_) is not None or older.expires_at != newer.expires_at:
        return
    if older.expires_at is not None:
        return  # a ttl is counted from the writing: a new memory would last longer
    draft = Draft(
        id=id_,
        content=text,
        kind=msgspec.convert(older.kind, RecordedKind),
        tags=limit_tags((*older.tags, *newer.tags)),
        importance=max(older.importance, newer.importance),
        tier=msgspec.convert(older.tier if older.tier == newer.tier else "auto", Tier),
        created_by=older.created_by,
        source_ids=source_ids,
        metadata=metadata,
        project=older.project,
        trust=plan_steps.least_trust(sources),
    )
    try:
        recorded = plan_steps.record(
            draft,
            answer.lineage("consolidate"),
            live.context.now,
            f"says what two say: {answer.value.because[:SHOWN]}",
            likeness=round(likeness, 3),
        )
    except InvalidInput:
        return  # a text that no memory may hold
    yield recorded
    merged = msgspec.structs.replace(older, id=id_, content=text)
    yield from edge_steps(live, merged, sources)
    for memory in sources:
        yield plan_steps.supersede(
            memory, id_, "the new one says it too", kind="same", by_says=text[:SHOWN]
        )


# Near pairs: memories that share most words, found without comparing all with all.
#
# MinHash (Broder, 1997, https://doi.org/10.1109/SEQUEN.1997.666900): two sets of words agree in a
# hash's smallest value as often as in their words. Pairs that agree in a band of two such values
# are compared: 88 in 100 of those that share four words in ten, 99 in 100 of those that share six.

_HASHES, _BAND = 24, 2
_PRIME = (1 << 31) - 1
_MOST_IN_ONE = 12  # of one bucket: more share only a common phrase
LEAST = 0.4  # the least share of common words


def near_pairs(
    texts: Sequence[str], groups: Sequence[object], most: int
) -> list[tuple[int, int, float]]:
    """Return the places of pairs of similar texts of one group, the most similar first.

    The third item is the share of common words, LEAST to 1; at most `most` pairs are returned.
    """
    words = [frozenset(tokenizer.terms(text)) for text in texts]
    signatures = np.array([_signature(own) for own in words], np.int64).reshape(-1, _HASHES)
    pairs: list[tuple[float, int, int]] = []
    for left, right in set(_bucket_pairs(signatures, groups)):
        if not words[left]:
            continue
        share = len(words[left] & words[right]) / len(words[left] | words[right])
        if share >= LEAST:
            pairs.append((-share, left, right))
    return [(left, right, -share) for share, left, right in sorted(pairs)[:most]]


def _bucket_pairs(
    signatures: npt.NDArray[np.int64], groups: Sequence[object]
) -> Iterator[tuple[int, int]]:
    for start in range(0, _HASHES, _BAND):
        buckets: dict[object, list[int]] = {}
        for place, row in enumerate(signatures[:, start : start + _BAND].tolist()):
            buckets.setdefault((groups[place], *row), []).append(place)
        for places in buckets.values():
            if 2 <= len(places) <= _MOST_IN_ONE:
                yield from combinations(places, 2)


_odd = 2 * np.arange(1, _HASHES + 1, dtype=np.int64) + 1
_FACTORS = (_odd * 1_103_515_245 % _PRIME)[:, None]
_SHIFTS = (_odd * 69_069 % _PRIME)[:, None]


def _signature(words: frozenset[str]) -> npt.NDArray[np.int64]:
    """Return the smallest value of each hash over some words, [hashes]."""
    if not words:
        return np.full(_HASHES, _PRIME, np.int64)
    numbers = np.array([crc32(word.encode()) % _PRIME for word in words], np.int64)
    least: npt.NDArray[np.int64] = ((numbers * _FACTORS + _SHIFTS) % _PRIME).min(axis=1)
    return least


# Evidence that a model cannot overrule, and the checks of its text.
#
# Two texts that differ in a number, name, identifier or negation are never the same, whatever a
# model answers. A text that replaces both must contain every meaningful word of both and no other.

_NAME = re.compile(r"(?<![\w-])[^\W\d_a-z][\w-]*")
_NOT = frozenset(
    """
    no not never none nobody nothing neither nor without cannot
    nicht nie niemals kein keine keinen ohne ne pas jamais aucun sans nunca sin nadie no
    non mai senza не нет ни никогда без
    """.split()
)
# words that bound a sentence: adding or removing one changes its meaning
_BOUNDS = frozenset(
    """
    all any some every each both most least more less few many before after until since during if
    when while must may should can could would was were did had will always often sometimes first
    last next over under above below about or but two three four five six seven eight nine ten
    half twice once only except unless but nur sauf
    """.split()
)


def differ_in_fact(text: str, other: str) -> bool:
    """Return True if two texts differ in a mark that distinguishes facts.

    The same words in another order differ too: order separates subject and object.
    """
    return _marks_differ(text, other) or (
        sorted(tokenizer.terms(text)) == sorted(tokenizer.terms(other))
    )


def _marks_differ(text: str, other: str) -> bool:
    a, b = statement(text), statement(other)
    if set(a.marks) - {"?"} != set(b.marks) - {"?"} or ("?" in a.marks) != ("?" in b.marks):
        return True
    x, y = frozenset(a.said), frozenset(b.said)
    if (x & _BOUNDS) != (y & _BOUNDS) or x.isdisjoint(_NOT) != y.isdisjoint(_NOT):
        return True
    return not (_names(text) <= y and _names(other) <= x)


def reject_reason(successor: str, text: str, other: str) -> str | None:
    """Return the reason against replacing two texts by `successor`; None where it can be done."""
    if len(successor) > len(text) + len(other):
        return "it is longer than both"
    if _marks_differ(successor, text) or _marks_differ(successor, other):
        return "it lost or invented a number, a name or a negation"
    words = frozenset(tokenizer.terms(successor))
    both = frozenset(tokenizer.terms(text)) | frozenset(tokenizer.terms(other))
    if invented := words - both:
        return f"neither says {', '.join(sorted(invented)[:3])}"
    if lost := both - words:
        return f"it does not say {', '.join(sorted(lost)[:3])}"
    return None


def _names(text: str) -> frozenset[str]:
    """Return the capitalized words, casefolded, except those that are no names."""
    parts = (part for name in _NAME.findall(text) for part in name.casefold().split("-"))
    return frozenset(part for part in parts if part and part not in FUNCTION)

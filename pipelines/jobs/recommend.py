"""
Recommendations: changes a person may want, proposed once each.

Four searches find them: unused memories, helpful memories with little importance, near
duplicates, and memories that are lists or too long.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from pipelines.jobs import Context, Report, Rows
from pipelines.jobs.runner import WAIT_S, job_lock, open_memory
from store.derived.feedback import Usage
from store.home.config import Settings
from store.home.errors import InvalidInput
from store.home.instants import DAY, moment
from store.home.tenant import find_tenant
from store.index.vector_scan import VectorRows
from store.log import event_kinds
from store.log.commands import Draft, limit_tags
from store.log.event_kinds import Made, RecordedKind, Revised, Step, What
from store.log.events import Event
from store.memories.memory import COMMIT, Memory
from store.plans import recommendations, steps
from store.plans.recommendations import Change
from store.text import tokenizer
from store.text.strict_duplicates import Statement, statement

MOST = 20  # of a sort in one run: a person reviews each


class Proposed(msgspec.Struct, frozen=True):
    """A new recommendation, as programs get it."""

    id: str
    what: What
    because: str
    source_ids: tuple[str, ...]


def refresh(
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    write: bool,
    project: str | None = None,
    report: Report = lambda text: None,
) -> list[Proposed]:
    """Search a tenant's memory; return the new recommendations, recorded if `write`.

    Raise BuildBusy where a job of the tenant is at work, else as `open_memory` does.
    """
    with (
        job_lock(find_tenant(settings.home, tenant_name), WAIT_S),
        open_memory(
            settings, tenant_name, now, project=project, report=report, no_model=True
        ) as context,
    ):
        context.report("recommendations")
        events = new_proposals(context)
        if write and events:
            context.log.append(events)
        return [
            Proposed(event.id, body.what, body.because or "", body.source_ids)
            for event in events
            if isinstance(body := event.body, event_kinds.Proposed)
        ]


def new_proposals(context: Context) -> list[Event]:
    """Return the proposals that are new and were not declined, one for each memory at a time."""
    earlier = recommendations.every(context.log)
    declined = recommendations.rejections(earlier)
    busy = {
        id_
        for recommendation in earlier
        if recommendation.state == "pending"
        for id_ in recommendation.source_ids
    }
    events: list[Event] = []
    for search in (find_unused, find_near_duplicates, find_helpful, find_unclear):
        count = 0
        for candidate in search(context):
            ids = {memory.id for memory in candidate.memories}
            change = Change(context.manifest.watermark, candidate.steps)
            event = recommendations.proposal(
                candidate.what, candidate.memories, change, candidate.because, context.now
            )
            if ids.isdisjoint(busy) and recommendations.is_new(context.log, event, declined):
                busy |= ids
                events.append(event)
                count += 1
            if count == MOST:
                break
    return events


@dataclass(frozen=True, slots=True)
class Candidate:
    what: What
    memories: tuple[Memory, ...]
    steps: tuple[Step, ...]
    because: str


# By use.

USED = 20  # memories recalled in all before "never recalled" is evidence
OLD_DAYS = 180
LITTLE = 0.5  # importance at most
PASSING = ("raw_turn", "activity", "observation", "context", "summary")
RECALLED, RATED = 5, 2  # the least numbers of recalls and ratings for a promotion
GOOD = 0.5  # the mean of its ratings and judgments at least, from -1 to 1
PROMOTED = 0.9


def find_unused(context: Context) -> Iterator[Candidate]:
    """Yield old, unimportant memories that were never recalled nor rated, the oldest first."""
    usage, rows = Usage.open(context.tables("usage")), context.live_rows
    if int(usage.recalled.sum()) < USED:
        return
    every = context.rows
    is_passing = every.equal("kind", PASSING)[rows] & (every.importance[rows] <= LITTLE)
    last = np.maximum(every.updated_at, context.arrived_at)
    is_old = last[rows] < context.now - OLD_DAYS * DAY
    is_unused = (usage.counts("recalled", rows) == 0) & (usage.counts("ratings", rows) == 0)
    for memory in context.memories(rows[is_passing & is_old & is_unused]):
        if memory.pinned or memory.key is not None:
            continue
        days = int(context.now - last[every.row(memory.id)]) // DAY
        why = f"never recalled in {days} days, and of little weight"
        step = steps.archive(memory, why, days=days, importance=memory.importance)
        yield Candidate("archive", (memory,), (step,), why)


def find_helpful(context: Context) -> Iterator[Candidate]:
    """Yield unimportant memories that were often recalled and rated well, the best first.

    A person's rating and a job's later judgment count alike.
    """
    usage, rows = Usage.open(context.tables("usage")), context.live_rows
    recalls = usage.counts("recalled", rows)
    verdicts = usage.counts("ratings", rows) + usage.counts("judged", rows)
    sums = usage.counts("verdicts", rows) + usage.counts("judgments", rows)
    means = sums / (1_000 * np.maximum(verdicts, 1))
    is_helpful = (recalls >= RECALLED) & (verdicts >= RATED) & (means >= GOOD)
    is_helpful &= context.rows.importance[rows] < PROMOTED
    order = np.flatnonzero(is_helpful)
    order = order[np.argsort(-means[order], kind="stable")]
    for place, memory in zip(order.tolist(), context.memories(rows[order]), strict=True):
        if memory.pinned:
            continue
        recalled, count, mean = int(recalls[place]), int(verdicts[place]), float(means[place])
        why = f"recalled {recalled} times, and rated or judged {mean:+.2f} in the mean of {count}"
        change = Revised(importance=PROMOTED, reason=why)
        step = steps.revise(memory, change, why, recalled=recalled, verdicts=count, mean=mean)
        yield Candidate("promote", (memory,), (step,), why)


# By similarity: near duplicates in other words, which strict evidence leaves alone.
#
# A difference in a number, a name or a negation is an update or another fact.

KINDS = ("fact", "decision", "context", "observation", "lesson", "preference", "pattern")
NEAR = 0.85  # the cosine of hashed letters at least
NEAR_MEANING = 0.97  # or a model's evidence: .85 under MiniLM, .91 under E5
SHARED = 0.6  # the least share of common words
MOST_COMPARED = 5_000  # memories that are compared, the newest
_BLOCK = 1_000


def find_near_duplicates(context: Context) -> Iterator[Candidate]:
    """Yield pairs of near duplicates, the nearest first, each memory once."""
    rows = context.live_rows
    rows = rows[context.rows.equal("kind", KINDS)[rows]][-MOST_COMPARED:]
    merged: set[str] = set()
    for likeness, *pair in _near_rows(context, rows):
        first, second = context.memories(np.array(pair))
        if not merged.isdisjoint((first.id, second.id)) or not _may_merge(first, second):
            continue
        merged |= {first.id, second.id}
        # the longer text in distinct terms, else the newer, survives
        stands, goes = sorted(
            (first, second), key=lambda m: (-len(set(tokenizer.terms(m.content))), -m.seq)
        )
        why = f"it says nearly what {stands.id} says, in other words"
        step = steps.supersede(goes, stands.id, why, likeness=likeness, kept=stands.content[:300])
        yield Candidate("merge", (goes, stands), (step,), why)


def _near_rows(context: Context, rows: Rows) -> list[tuple[float, int, int]]:
    """Return the cosine and rows of each pair of near vectors, the nearest first."""
    vectors = context.vectors(rows)
    calibration = VectorRows.open(context.tables("vectors")).calibration
    least = calibration.cosine(NEAR_MEANING) if calibration.knows_meaning else NEAR
    pairs: list[tuple[float, int, int]] = []
    for start in range(0, len(rows), _BLOCK):
        near = vectors[start : start + _BLOCK] @ vectors.T
        left, right = np.nonzero(near >= least)
        upper = right > left + start
        for a, b in zip(left[upper].tolist(), right[upper].tolist(), strict=True):
            pairs.append((round(float(near[a, b]), 4), int(rows[a + start]), int(rows[b])))
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2]))


def _may_merge(memory: Memory, other: Memory) -> bool:
    """Return True if two memories are of one sort and differ in words alone."""
    sorts = {(m.kind, m.project, m.trust) for m in (memory, other)}
    if len(sorts) > 1 or any(m.key or m.job or m.pinned for m in (memory, other)):
        return False
    a, b = statement(memory.text), statement(other.text)
    # strict duplicates are for `consolidate`
    if a.key == b.key or _marks_and_denials(a) != _marks_and_denials(b):
        return False
    words, others = set(tokenizer.terms(memory.content)), set(tokenizer.terms(other.content))
    return len(words & others) >= SHARED * len(words | others)


def _marks_and_denials(text: Statement) -> tuple[frozenset[str], int]:
    denials = sum(token in ("not", "no", "never", "without") for token in text.said)
    return frozenset(text.marks), denials


# By text: a list of facts can be split, a long text can begin with its first sentences.
#
# Accepting one only cuts the memory's own text: no word is added and none is lost. A commit is left
# as its author wrote it.

PARTS, PART_WORDS = 3, 4  # points at least, and words of each, to be facts of their own
LONG, LEAD = 1_500, 400  # characters of a text that is too long, and of its lead

_POINT = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)])\s++(.*\S)", re.MULTILINE)
_NESTED = re.compile(r"^(?: {2,}|\t+)(?:[-*+•]|\d+[.)])\s", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def find_unclear(context: Context) -> Iterator[Candidate]:
    """Yield memories that are lists of facts or too long, the longest first."""
    rows = context.live_rows
    wanted = rows[context.rows.equal("kind", KINDS)[rows]]
    memories = [
        memory
        for memory in context.memories(wanted)
        if memory.job is None
        and memory.key is None
        and memory.superseded_by is None
        and memory.source != COMMIT
    ]
    for memory in sorted(memories, key=lambda memory: (-len(memory.content), memory.seq)):
        candidate = _split_list(context, memory) or _shorten(memory)
        if candidate is not None:
            yield candidate


def _split_list(context: Context, memory: Memory) -> Candidate | None:
    """Return a list's facts as a memory each; None for a memory that is not a list of facts."""
    points = _POINT.findall(memory.content)
    length = sum(map(len, points))
    if len(points) < PARTS or 2 * length < len(memory.content) or _NESTED.search(memory.content):
        return None
    if any(len(point.split()) < PART_WORDS for point in points):
        return None
    lead = _POINT.sub("", memory.content).strip()
    why = f"{len(points)} facts in one memory"
    try:
        parts = tuple(_part_step(context, memory, point, lead) for point in points)
    except InvalidInput:  # a point that makes no memory
        return None
    return Candidate(
        "reword", (memory,), (*parts, steps.archive(memory, why, parts=len(parts))), why
    )


def _part_step(context: Context, memory: Memory, point: str, lead: str) -> Step:
    draft = Draft(
        id=steps.result_id("recommend", point, [memory.id], memory.created_at),
        content=point,
        context=" ".join(filter(None, (lead, memory.context))) or None,
        kind=msgspec.convert(memory.kind, RecordedKind),
        tags=limit_tags(memory.tags),
        source="recommend",
        source_ids=(memory.id,),
        created_by=memory.created_by,
        created_at=moment(memory.created_at),
        importance=memory.importance,
        project=memory.project,
        agent=memory.agent,
        trust=steps.least_trust([memory]),
    )
    return steps.record(draft, Made(job="recommend"), context.now, "one fact of several")


def _shorten(memory: Memory) -> Candidate | None:
    """Return a long memory as its first sentences, with the whole of it as their context."""
    if len(memory.content) <= LONG or memory.context is not None:
        return None
    lead = ""
    for sentence in _SENTENCE.split(memory.content):
        longer = f"{lead} {sentence}".strip()
        if len(longer) > LEAD:
            break
        lead = longer
    if not lead:
        return None
    why = f"{len(memory.content):,} characters: its first sentences, the whole as context"
    step = steps.revise(memory, Revised(content=lead, context=memory.content, reason=why), why)
    return Candidate("reword", (memory,), (step,), why)

"""
By words: several facts in one memory may be parted, a long text may begin with what it says.

What a yes makes of it is cut out of the memory itself: no word is made up, and none is lost.
"""

import re
from collections.abc import Iterator

import msgspec

from pipelines.jobs.context import Context
from pipelines.recommend.found import Found
from store.home.errors import InvalidInput
from store.home.instants import moment
from store.log.commands import Draft, bounded_tags
from store.log.event_kinds import Made, MemoryKind, Revised, Step
from store.memories.memory import Memory
from store.plans import steps

KINDS = ("fact", "decision", "context", "observation", "lesson", "preference", "pattern")
PARTS, PART_WORDS = 3, 4  # points at least, and words of each, to be facts of their own
LONG, LEAD = 1_500, 400  # characters of a text that is too long, and of what it may begin with

_POINT = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)])\s++(.*\S)", re.MULTILINE)
_NESTED = re.compile(r"^(?: {2,}|\t+)(?:[-*+•]|\d+[.)])\s", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def unclear(context: Context) -> Iterator[Found]:
    """Yield what says several things, and what says it too long, the longest first."""
    rows = context.living
    wanted = rows[context.rows.equal("kind", KINDS)[rows]]
    memories = [
        one
        for one in context.memories(wanted)
        if one.job is None and one.key is None and one.superseded_by is None
    ]
    for memory in sorted(memories, key=lambda one: (-len(one.content), one.seq)):
        found = _parted(context, memory) or _shortened(memory)
        if found is not None:
            yield found


def _parted(context: Context, memory: Memory) -> Found | None:
    """Return a memory that is a list of facts as one memory each; None where it is no such list."""
    points = _POINT.findall(memory.content)
    said = sum(len(point) for point in points)
    if len(points) < PARTS or 2 * said < len(memory.content) or _NESTED.search(memory.content):
        return None
    if any(len(point.split()) < PART_WORDS for point in points):
        return None
    lead = _POINT.sub("", memory.content).strip()
    why = f"{len(points)} facts in one memory"
    try:
        parts = tuple(_part(context, memory, point, lead) for point in points)
    except InvalidInput:  # a point that makes no memory
        return None
    return Found("reword", (memory,), (*parts, steps.archive(memory, why, parts=len(parts))), why)


def _part(context: Context, memory: Memory, point: str, lead: str) -> Step:
    draft = Draft(
        id=steps.made_id("recommend", point, [memory.id], memory.created_at),
        content=point,
        context=" ".join(filter(None, (lead, memory.context))) or None,
        kind=msgspec.convert(memory.kind, MemoryKind),
        tags=bounded_tags(memory.tags),
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


def _shortened(memory: Memory) -> Found | None:
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
    return Found("reword", (memory,), (step,), why)

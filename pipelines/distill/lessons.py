"""
Lessons: what was found in sessions, made into memories; once, however often the job runs.

What was made of a key before is known by the memory's metadata, so nothing is kept beside the log.
Found again in another session, a lesson is written anew, counts more, and takes the older's place.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from pipelines.distill import project_files
from pipelines.distill.found import Found
from pipelines.jobs.context import Context
from store.commands import Draft
from store.errors import InvalidInput
from store.events import TRUSTS, Trust, moment
from store.job_events import Made, Step
from store.plans import steps
from store.projections.memories import ACTIVE, STALE, Memory

JOB: Final = "distill"
_IMPORTANCE, _MORE, _MOST_IMPORTANT = 0.5, 0.1, 0.9  # of one session, for each more, at most
_SOURCES, _SESSIONS, _FILES = 40, 20, 12  # kept of each


class Distilled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a lesson's metadata says of how it was found; `until` is the last event looked at."""

    key: str
    sessions: tuple[str, ...]
    until: int = 0


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of a lesson: its source events, and its files with their SHA-256."""

    distilled: Distilled | None = None
    events: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sha256: dict[str, str] = {}


def kept(memory: Memory) -> Kept:
    """Return what a memory's metadata says; nothing where somebody else's says other things."""
    try:
        return msgspec.json.decode(memory.metadata, type=Kept)
    except msgspec.ValidationError:  # a person's or an importer's own fields of these names
        return Kept()


def made_before(context: Context) -> list[Memory]:
    """Return all memories that this job made, in whatever state, the oldest first."""
    rows = np.unique(context.rows.sources.documents)
    return [one for one in context.memories(rows.astype(np.int64)) if one.job == JOB]


def proposed(context: Context, found: Iterable[Found], root: Path | None) -> Iterator[Step]:
    """Yield the steps that make memories of what was found."""
    before: dict[str, Memory] = {}
    for one in made_before(context):
        if (distilled := kept(one).distilled) is not None:
            before[distilled.key] = one
    together: dict[str, list[Found]] = {}
    for item in found:
        together.setdefault(item.key, []).append(item)
    for key, items in together.items():
        yield from _lesson(context, items, before.get(key), root)


def _lesson(
    context: Context, items: Sequence[Found], before: Memory | None, root: Path | None
) -> Iterator[Step]:
    """Yield what has to be done about one lesson; nothing where it stands, or somebody ended it."""
    if before is None:
        is_new = len({one.session for one in items}) > 1 or not all(one.is_told for one in items)
        yield from _recorded(context, items, (), root) if is_new else ()
        return
    known = kept(before).distilled
    new = [one for one in items if known is None or one.session not in known.sessions]
    if before.state == ACTIVE and new:
        made = list(_recorded(context, new, (before,), root))
        yield from made
        if made:
            yield steps.supersede(before, made[0].subject, "it was found in another session again")
    elif before.state == STALE and new:
        yield from _recorded(context, new, (), root)
    elif before.state == STALE and _holds_again(context, before):
        yield steps.restore(before, "all that it was made of holds again")


def _holds_again(context: Context, lesson: Memory) -> bool:
    """Return whether what made a lesson stale is taken back: its sources, and no file."""
    for event in reversed(context.log.about(lesson.id)):
        if event.kind == "staled":
            return False
        if event.kind == "restored":
            break
    sources = [context.rows.find(id_) for id_ in lesson.source_ids]
    return all(one is None or one.state == ACTIVE for one in sources)  # None: an event


def _recorded(
    context: Context, items: Sequence[Found], before: Sequence[Memory], root: Path | None
) -> Iterator[Step]:
    """Yield the step that records a lesson; none where its words make no memory."""
    newest = max(items, key=lambda one: one.at)
    olds = [kept(one) for one in before]
    sessions = [name for old in olds if old.distilled for name in old.distilled.sessions]
    sessions = list(dict.fromkeys([*sessions, *(one.session for one in items)]))
    events = dict.fromkeys(id_ for one in items for id_ in one.events)
    memories = list(dict.fromkeys(id_ for one in items for id_ in one.memories))
    earlier = dict.fromkeys(id_ for one in before for id_ in one.source_ids)
    is_rule = newest.rule is not None and len(sessions) > 1
    # a rule is in our own words of what was run: what memories say of it, a tool's words, is not
    sources = list(dict.fromkeys([*([] if is_rule else memories), *events, *earlier]))[:_SOURCES]
    files = tuple(dict.fromkeys(path for one in items for path in one.files))[:_FILES]
    metadata = Kept(
        Distilled(newest.key, tuple(sessions[-_SESSIONS:]), max(one.until for one in items)),
        tuple(events)[:_SOURCES],
        files,
        project_files.digests(root, newest.project, files),
    )
    said = newest.rule if newest.rule and is_rule else newest.content
    again = f" Seen in {len(sessions)} sessions." if len(sessions) > 1 else ""
    content = f"{said if said[-1:] in '.!?' or not again else f'{said}.'}{again}"
    trust = "agent" if is_rule else newest.trust
    found = [one for id_ in sources if (one := context.rows.find(id_)) is not None]
    least = max([TRUSTS.index(trust), *(TRUSTS.index(one.trust) for one in found)])
    draft = Draft(
        id=steps.made_id(JOB, f"{newest.key} {content}", sources, newest.at),
        content=content,
        kind="lesson" if is_rule else newest.kind,
        context=newest.context,
        action=newest.action,
        result=newest.result,
        project=newest.project,
        session=newest.session or None,
        source=JOB,
        source_ids=tuple(sources),
        importance=min(_MOST_IMPORTANT, _IMPORTANCE + _MORE * (len(sessions) - 1)),
        created_at=moment(newest.at),
        metadata=msgspec.to_builtins(metadata),
        trust=msgspec.convert(TRUSTS[least], Trust),
    )
    why = "found in session " + ", ".join(dict.fromkeys(one.session for one in items))
    try:
        step = steps.record(draft, newest.made or Made(job=JOB), context.now, why)
    except InvalidInput:  # its words make no memory
        return
    yield step

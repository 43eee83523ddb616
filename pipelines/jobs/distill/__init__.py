"""
The job `distill`: lessons, fixes and decisions from sessions; lessons and notes that are outdated.

Without a model it uses the evidence in the log (`fixes`); with one also the model's lessons from a
session (`model_lessons`), as far as the transcript supports them, and its choice of the user's
sentences that last (`model_statements`).

Each finding becomes one memory, however often the job runs: its key is in the memory's metadata, so
nothing is kept beside the log. A finding that recurs in another session is recorded anew, counts
more, and supersedes the older memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from pipelines.jobs import Context, Proposal
from pipelines.jobs.distill import fixes, model_lessons, model_statements, project_files
from pipelines.jobs.distill.sessions import (
    Candidate,
    PastSession,
    agent_memories,
    imported_sessions,
    memories_where,
    recent_sessions,
)
from store.home.errors import InvalidInput
from store.home.instants import moment
from store.home.projects import project_of, scope_chain
from store.importers import markdown
from store.log.commands import Draft
from store.log.event_kinds import EPISODE, STATEMENT, TRUSTS, Made, Step, Trust
from store.memories.memory import ACTIVE, STALE, Memory, default_importance
from store.plans import steps
from store.text.excerpt import one_line, plural
from store.text.text_features import RULE_KINDS


def propose(context: Context) -> Proposal:
    """Return steps for lessons of the newest sessions, and for stale lessons."""
    past, more = recent_sessions(context)
    root = project_files.work_tree(context.root)
    memories = agent_memories(context)
    # ended rules too: a person's refusal stands
    is_rule = context.rows.equal("kind", (*sorted(RULE_KINDS), STATEMENT))
    rules = context.memories(np.flatnonzero(is_rule))
    passes = [passed for session in past for passed in fixes.find_fixes(session)]
    candidates = [passed for passed in passes if isinstance(passed, Candidate)]
    candidates += [abandoned for session in past for abandoned in fixes.find_abandoned(session)]
    # what the user said comes first, in case the budget does not reach for both
    stated = list(model_statements.read_statements(context))
    candidates += model_lessons.read_sessions(
        context, [*imported_sessions(memories, past), *past], rules
    )
    stale = list(_stale_steps(context, root))
    ended = {step.subject for step in stale}
    new_steps = [
        *model_lessons.open_steps(context),
        *stated,
        *lesson_steps(context, candidates, root),
    ]
    by_subject = {step.subject: step for step in new_steps if step.subject not in ended}
    notes = [f"{more:,} older sessions were left out"] if more else []
    dropped = [passed for passed in passes if isinstance(passed, fixes.Dropped)]
    silence = _silence(past, len(passes), dropped)
    return Proposal((*stale, *by_subject.values()), len(memories), tuple(notes), silence)


def _silence(past: Sequence[PastSession], passes: int, dropped: Sequence[fixes.Dropped]) -> str:
    """Return a note for a run without steps: the sessions read, and the most common reason for
    dropping a candidate.
    """
    turns = sum(len(session.prompts) for session in past)
    failures = sum(map(fixes.count_failures, past))
    text = (
        f"{plural(len(past), 'session')} of {plural(turns, 'turn')} read, in which tests, builds, "
        f"lints and deploys failed {plural(failures, 'time')} and passed after that "
        f"{plural(passes, 'time')}"
    )
    if not dropped:
        return text
    why, count = Counter(drop.why for drop in dropped).most_common(1)[0]
    commands = [drop.command for drop in dropped if drop.why == why and drop.command]
    nearest = f", in that of `{one_line(commands[-1], 80)}` last" if commands else ""
    return f"{text}; in {plural(count, 'case')} {why}{nearest}"


def _stale_steps(context: Context, root: Path | None) -> Iterator[Step]:
    """Yield steps that mark memories with changed files as stale."""
    project = project_of(root) if root is not None else None
    if root is None or project is None or context.project not in (None, project):
        return
    derived = np.intersect1d(context.rows.sources.documents, context.live_rows)
    for memory in context.memories(derived):
        digests = lesson_metadata(memory).sha256
        if digests and project in scope_chain(memory.project or ""):
            if (change := project_files.first_change(root, digests)) is not None:
                file, became = change
                yield steps.stale(memory, f"{file} {became} since", file)
    notes = memories_where(context, "source", (markdown.SOURCE,))
    yield from project_files.stale_notes(context, root, project, notes)


# From candidates to memories.

NAME: Final = "distill"
_MORE, _MOST_IMPORTANT = 0.1, 0.9  # importance for each session after the first, and at most
_SOURCES, _SESSIONS, _FILES = 40, 20, 12  # kept of each


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lesson's origin, in its metadata; `until` is the last event a model saw.

    `may_rule`: in no session did a tool suggest it.
    """

    key: str
    sessions: tuple[str, ...]
    until: int = 0
    may_rule: bool = False


class LessonMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of a lesson: its source events, and its files with their SHA-256."""

    distilled: Provenance | None = None
    events: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sha256: dict[str, str] = {}


def lesson_metadata(memory: Memory) -> LessonMetadata:
    """Return the metadata of a lesson; empty for that of a person or an importer."""
    try:
        return msgspec.json.decode(memory.metadata, type=LessonMetadata)
    except msgspec.ValidationError:  # a person's or an importer's own fields of these names
        return LessonMetadata()


def past_lessons(context: Context) -> list[Memory]:
    """Return all memories that this job made, in any state, the oldest first."""
    rows = np.unique(context.rows.sources.documents)
    return [memory for memory in context.memories(rows.astype(np.int64)) if memory.job == NAME]


def lesson_steps(
    context: Context, candidates: Iterable[Candidate], root: Path | None
) -> Iterator[Step]:
    """Yield the steps that record candidates as memories, grouped by key."""
    before: dict[str, Memory] = {}
    for memory in past_lessons(context):
        if (distilled := lesson_metadata(memory).distilled) is not None:
            before[distilled.key] = memory
    by_key: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_key.setdefault(candidate.key, []).append(candidate)
    for key, items in by_key.items():
        yield from _steps_for(context, items, before.get(key), root)


def _steps_for(
    context: Context, items: Sequence[Candidate], before: Memory | None, root: Path | None
) -> Iterator[Step]:
    """Yield the steps for one lesson; none where it is unchanged or was ended."""
    if before is None:
        is_new = len({candidate.session for candidate in items}) > 1 or not all(
            candidate.is_told for candidate in items
        )
        yield from _record_steps(context, items, (), root) if is_new else ()
        return
    distilled = lesson_metadata(before).distilled
    sessions = distilled.sessions if distilled is not None else ()
    new = [candidate for candidate in items if candidate.session not in sessions]
    if before.state == ACTIVE and new:
        for step in _record_steps(context, new, (before,), root):
            yield step
            yield steps.supersede(before, step.subject, "it was found in another session again")
    elif before.state == STALE and new:
        yield from _record_steps(context, new, (), root)
    elif before.state == STALE and _holds_again(context, before):
        yield steps.restore(before, "all that it was made of holds again")


def _holds_again(context: Context, lesson: Memory) -> bool:
    """Return True if a stale lesson's sources are active again; a changed file stays changed."""
    for event in reversed(context.log.events_for(lesson.id)):
        if event.kind == "staled":
            return False
        if event.kind == "restored":
            break
    sources = [context.rows.find(id_) for id_ in lesson.source_ids]
    return all(memory is None or memory.state == ACTIVE for memory in sources)  # None: an event


def _record_steps(
    context: Context, items: Sequence[Candidate], before: Sequence[Memory], root: Path | None
) -> Iterator[Step]:
    """Yield the step that records a lesson; none where its text is no valid memory."""
    newest = max(items, key=lambda candidate: candidate.at)
    distilled = _provenance(items, before)
    is_rule = distilled.may_rule and len(distilled.sessions) > 1
    events = tuple(dict.fromkeys(id_ for candidate in items for id_ in candidate.events))[:_SOURCES]
    # a rule is our own text about the commands run; memories about it may quote a tool
    memories = () if is_rule else (id_ for candidate in items for id_ in candidate.memories)
    earlier = (id_ for memory in before for id_ in memory.source_ids)
    sources = tuple(dict.fromkeys([*memories, *events, *earlier]))[:_SOURCES]
    files = tuple(dict.fromkeys(path for candidate in items for path in candidate.files))[:_FILES]
    digests = project_files.digests(root, newest.project, files)
    content = newest.rule if newest.rule and is_rule else newest.content
    kind = "lesson" if is_rule else newest.kind
    trust = _trust(context, "agent" if is_rule else newest.trust, sources)
    importance = None  # the default of its kind
    if (count := len(distilled.sessions)) > 1:
        content = f"{content}{'' if content[-1:] in '.!?' else '.'} Seen in {count} sessions."
        usual = default_importance(kind, trust, None)
        importance = min(_MOST_IMPORTANT, usual + _MORE * (count - 1))
    draft = Draft(
        id=steps.result_id(NAME, f"{newest.key} {content}", sources, newest.at),
        content=content,
        kind=kind,
        context=newest.context,
        project=newest.project,
        session=newest.session or None,
        source=NAME,
        source_ids=sources,
        importance=importance,
        created_at=moment(newest.at),
        metadata=msgspec.to_builtins(LessonMetadata(distilled, events, files, digests)),
        trust=trust,
    )
    if draft.id is not None and context.rows.find(draft.id) is not None:
        return  # it was made before and then erased: only its id is left
    why = "found in session " + ", ".join(dict.fromkeys(candidate.session for candidate in items))
    try:
        step = steps.record(draft, newest.made or Made(job=NAME), context.now, why)
    except InvalidInput:  # its text is no valid memory
        return
    yield step


def _provenance(items: Sequence[Candidate], before: Sequence[Memory]) -> Provenance:
    earlier = [old for memory in before if (old := lesson_metadata(memory).distilled) is not None]
    sessions = [
        *(name for old in earlier for name in old.sessions),
        *(candidate.session for candidate in items),
    ]
    return Provenance(
        key=items[0].key,
        sessions=tuple(dict.fromkeys(sessions))[-_SESSIONS:],
        until=max(candidate.until for candidate in items),
        may_rule=all(candidate.rule for candidate in items)
        and all(old.may_rule for old in earlier),
    )


def _trust(context: Context, most: Trust, sources: Sequence[str]) -> Trust:
    """Return a lesson's trust: the lowest of its sources, `most` at most."""
    rows = (context.rows.find(id_) for id_ in sources)
    # an episode repeats the turn of a source event, whose speaker is known
    memories = [memory for memory in rows if memory is not None and memory.kind != EPISODE]
    return max(most, steps.least_trust(memories), key=TRUSTS.index)

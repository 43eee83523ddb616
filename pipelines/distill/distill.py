"""
The job `distill`: what sessions taught, and what of it, or of imported notes, is stale.

Without a model it takes what the log itself shows (`cures`); with one also what the model
reads from a session (`reading`), as far as that stands in what it was shown.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipelines.distill import cures, project_files, reading
from pipelines.distill.lessons import kept, proposed
from pipelines.distill.sessions import imported, of_agents, sessions, where
from pipelines.jobs.context import Context
from pipelines.jobs.job import Job, Proposal
from store.home.projects import project_of
from store.importers import markdown
from store.log.event_kinds import STATEMENT, Step
from store.memories.memory import ACTIVE, Memory
from store.plans import steps
from store.text.text_features import RULE_KINDS


def propose(context: Context) -> Proposal:
    """Return what the sessions of some three months taught, and what is stale."""
    past, more = sessions(context)
    root = project_files.work_tree(context.root)
    memories = of_agents(context)
    rules = _rules(context)
    found = [found for one in past for found in (*cures.cures(one), *cures.abandoned(one))]
    found += reading.read(context, [*imported(memories, past), *past], rules)
    stale = list(_stale(context, root))
    ended = {step.subject for step in stale}
    steps_ = [*reading.paid_for(context), *proposed(context, found, root)]
    made = {one.subject: one for one in steps_ if one.subject not in ended}
    notes = [f"{more:,} older sessions were left out"] if more else []
    return Proposal((*stale, *made.values()), len(memories), tuple(notes))


def _rules(context: Context) -> list[Memory]:
    """Return all rules and the user's statements, those that somebody ended among them: a person's
    no stays no.
    """
    mask = context.rows.equal("kind", (*sorted(RULE_KINDS), STATEMENT))
    return context.memories(np.flatnonzero(mask))


def _stale(context: Context, root: Path | None) -> Iterator[Step]:
    """Yield what makes memories stale whose files are not what they were."""
    project = project_of(root) if root is not None else None
    if root is None or project is None or context.project not in (None, project):
        return
    for memory in _made(context):
        if memory.project == project and (was := kept(memory).sha256):
            if (found := project_files.changed(root, was)) is not None:
                file, became = found
                yield steps.stale(memory, f"{file} {became} since", file)
    notes = where(context, "source", (markdown.SOURCE,))
    yield from project_files.notes_that_left(context, root, project, notes)


def _made(context: Context) -> list[Memory]:
    """Return what jobs made that holds now."""
    rows = np.intersect1d(context.rows.sources.documents, context.living)
    return [one for one in context.memories(rows) if one.state == ACTIVE]


JOB = Job("distill", "sessions become lessons, failures and decisions", propose)

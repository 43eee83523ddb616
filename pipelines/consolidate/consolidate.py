"""
The job: strict evidence first, then, where a model is set, what it says of near pairs.
"""

from collections.abc import Iterable

from pipelines.consolidate import asking
from pipelines.consolidate.fallen import corrected, orphans, over
from pipelines.consolidate.merges import merges, steps_of
from pipelines.consolidate.standing import Standing
from pipelines.jobs.context import Context
from pipelines.jobs.job import Job, Proposal
from store.log.event_kinds import Step


def propose(context: Context) -> Proposal:
    """Return what would make one of many, let corrections hold, and mark what is over."""
    standing = Standing(context)
    merged = merges(standing)
    found: list[Step] = [step for merge in merged for step in steps_of(standing, merge)]
    found += corrected(standing, merged)
    found += _once(found, over(standing))
    if context.model is not None:
        found += asking.steps(standing, context.model, {step.subject for step in found})
    return Proposal(tuple(found), len(context.living), orphans(standing))


def _once(before: list[Step], more: Iterable[Step]) -> list[Step]:
    """Return more steps but those about a memory that gives way already, each memory once."""
    gone = {step.subject for step in before if step.event == "superseded"}
    found: dict[str, Step] = {}
    for step in more:
        if step.subject not in gone:
            found.setdefault(step.subject, step)
    return list(found.values())


JOB = Job(
    name="consolidate",
    does="makes one of memories that say the same, lets corrections hold, marks what is over",
    propose=propose,
    is_careful=True,
)

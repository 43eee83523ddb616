"""
The job catalog: one row for each job, with its function, which is imported when the job first runs.

A job is a function from a tenant's memory (`context.Context`) to the changes it proposes
(`context.Proposal`). `runner` runs it for the command line and for Dagster. When jobs run by
themselves, and in which order, is in `store.plans.job_catalog`.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from store.home.errors import InvalidInput
from store.log.event_kinds import Job as JobName

if TYPE_CHECKING:
    from pipelines.jobs.context import Context, Proposal


@dataclass(frozen=True, slots=True)
class Job:
    """One row: `function` is "module:name", `does` one line for people.

    The plan of a careful job waits for a person's yes unless it is told not to.
    """

    name: JobName
    function: str
    does: str
    is_careful: bool = False
    asks_model: bool = True

    def propose(self, context: "Context") -> "Proposal":
        module, _, function = self.function.partition(":")
        proposal: Proposal = getattr(import_module(module), function)(context)
        return proposal


_ROWS = (
    Job(
        "archive",
        "pipelines.jobs.archive:propose",
        "put away what is cold or past its time",
        is_careful=True,
        asks_model=False,
    ),
    Job(
        "consolidate",
        "pipelines.jobs.consolidate:propose",
        "makes one of memories that say the same, lets corrections hold, marks what is over",
        is_careful=True,
    ),
    Job(
        "distill",
        "pipelines.jobs.distill:propose",
        "sessions become lessons, failures and decisions",
    ),
    Job(
        "facts",
        "pipelines.jobs.facts:propose",
        "facts of entities, read out of turns and notes",
    ),
    Job(
        "importance",
        "pipelines.jobs.importance:propose",
        "revises how much memories matter, by what became of them",
    ),
    Job(
        "judge",
        "pipelines.jobs.judge:propose",
        "judges recalls by what was done after them",
    ),
    Job(
        "reflect",
        "pipelines.jobs.reflect:propose",
        "insights of what several memories say together",
        is_careful=True,
    ),
    Job(
        "route",
        "pipelines.jobs.route:propose",
        "learns from rated recalls how to route them",
        asks_model=False,
    ),
)
JOBS: dict[str, Job] = {row.name: row for row in _ROWS}


def find_job(name: str) -> Job:
    """Return a job by its name; raise InvalidInput for one there is not."""
    if name not in JOBS:
        raise InvalidInput(f"unknown job {name!r}: choose from {', '.join(JOBS)}")
    return JOBS[name]

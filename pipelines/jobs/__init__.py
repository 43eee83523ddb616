"""What jobs have in common: what they work on, how they run, and which there are."""

from importlib import import_module
from typing import TYPE_CHECKING

from store.home.errors import InvalidInput

if TYPE_CHECKING:
    from pipelines.jobs.job import Job

# each where its JOB is; only the one asked for is imported
PLACES: dict[str, str] = {
    "archive": "pipelines.jobs.archive",
    "consolidate": "pipelines.jobs.consolidate",
    "distill": "pipelines.jobs.distill",
    "facts": "pipelines.jobs.facts",
    "importance": "pipelines.jobs.importance",
    "judge": "pipelines.jobs.judge",
    "reflect": "pipelines.jobs.reflect",
    "route": "pipelines.jobs.route",
}


def named(name: str) -> "Job":
    """Return a job by its name; raise InvalidInput for one there is not."""
    if name not in PLACES:
        raise InvalidInput(f"there is no job {name!r}: there are {', '.join(PLACES)}")
    found: Job = import_module(PLACES[name]).JOB
    return found

"""What jobs have in common: what they work on, how they run, and which there are."""

from importlib import import_module
from typing import TYPE_CHECKING

from store.home.errors import InvalidInput

if TYPE_CHECKING:
    from pipelines.jobs.job import Job

# each where its JOB is; only the one asked for is imported
PLACES: dict[str, str] = {
    "archive": "pipelines.archive.archive",
    "consolidate": "pipelines.consolidate.consolidate",
    "distill": "pipelines.distill.distill",
    "facts": "pipelines.facts.job",
    "importance": "pipelines.importance.job",
    "judge": "pipelines.judge.job",
    "reflect": "pipelines.reflect.reflect",
    "route": "pipelines.route.job",
}


def named(name: str) -> "Job":
    """Return a job by its name; raise InvalidInput for one there is not."""
    if name not in PLACES:
        raise InvalidInput(f"there is no job {name!r}: there are {', '.join(PLACES)}")
    found: Job = import_module(PLACES[name]).JOB
    return found

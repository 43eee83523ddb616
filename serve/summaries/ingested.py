"""
Ingested: an accepted batch as people and programs are told of it.
"""

from typing import Any

from store.home.instants import isoformat
from store.ingest.queue_file import Job


def shown(job: Job) -> dict[str, Any]:
    """Return a job's fields as they are sent."""
    return {
        "id": job.id,
        "at": isoformat(job.at),
        "state": job.state,
        "attempts": job.attempts,
        "next_at": isoformat(job.next_at) if job.state == "queued" else None,
        "ended_at": isoformat(job.ended_at) if job.ended_at is not None else None,
        "items": job.items,
        "turns": job.turns,
        "done": job.done,
        "refused": job.refused,
        "error": job.error,
    }

"""
Jobs: accepted batches, and what became of them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.json import Decoder

from mnemolog.connection import TenantConnection, part
from mnemolog.errors import JobFailed, StillRunning

State = Literal["queued", "running", "done", "dead"]
FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 2.0


class JobInShort(Struct, frozen=True, kw_only=True):
    """An accepted batch: on disk, and recorded exactly once. `done` counts the items looked at,
    `refused` those of them that make no memory; a dead one was tried too often, for its `error`.
    """

    id: str
    at: datetime
    state: str
    attempts: int
    next_at: datetime | None
    ended_at: datetime | None
    items: int
    turns: int
    done: int
    refused: int
    error: str | None


class RefusedItem(Struct, frozen=True):
    """An item that makes no memory, by its place in the batch, and why."""

    item: int
    reason: str


class Job(JobInShort, frozen=True, kw_only=True):
    """A job with the memory of each of its items, None where it was refused, and why those were."""

    ids: tuple[str | None, ...]
    because: tuple[RefusedItem, ...]


class JobPage(Struct, frozen=True, kw_only=True):
    jobs: tuple[JobInShort, ...]
    next: str | None


IN_SHORT = Decoder(JobInShort)
_JOB, _PAGE = Decoder(Job), Decoder(JobPage)


@dataclass(frozen=True, slots=True)
class Jobs:
    """`client.jobs`."""

    _asking: TenantConnection

    def list(self, *, state: State | None = None) -> Iterator[JobInShort]:
        """Yield accepted batches, the newest first; pages are asked for as they are come to."""
        for page in self._asking.pages(_PAGE, "/v1/jobs", {"state": state}):
            yield from page.jobs

    def get(self, id_: str) -> Job:
        """Return what became of a batch, item by item."""
        return self._asking.get(_JOB, _path(id_))

    def wait(self, id_: str, *, timeout_s: float = 60.0) -> Job:
        """Return a job once it is done; raise JobFailed for a dead one, StillRunning in time."""
        until, pause_s = time.monotonic() + timeout_s, FIRST_LOOK_S
        while (job := self.get(id_)).state != "done":
            if job.state == "dead":
                raise JobFailed(f"job {id_} was tried {job.attempts} times: {job.error}")
            if time.monotonic() + pause_s > until:
                raise StillRunning(f"job {id_} is {job.state} after {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_LOOK_S)
        return job

    def requeue(self, id_: str) -> JobInShort:
        """Try a dead job again, from its first attempt; needs the scope `admin`."""
        return self._asking.post(IN_SHORT, f"{_path(id_)}/requeue", {})


def _path(id_: str) -> str:
    return f"/v1/jobs/{part(id_)}"

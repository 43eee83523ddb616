"""
Jobs: their table, their context and their proposal.

A job is a function from a tenant's memory (`Context`) to the changes it proposes (`Proposal`); it
is imported when it first runs. `runner` runs it for the command line and for Dagster. When jobs run
by themselves, and in which order, is in `store.plans.job_catalog`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from pipelines.llm.model_client import LanguageModel
from store.derived import catalog
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.tenant import Tenant
from store.log import log_queries
from store.log.event_kinds import EPISODE, PlanCheck, ReplayDiff, Step
from store.log.event_kinds import Job as JobName
from store.log.event_log import EventLog
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import Mask, MemoryRows
from store.snapshots import snapshot
from store.snapshots.manifest import Manifest
from store.snapshots.projection import Built


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the table; `does` is one line for people.

    The work is `propose` in the module of the job's name. A careful job's plan waits for a
    person's approval unless the run says otherwise.
    """

    name: JobName
    does: str
    is_careful: bool = False
    asks_model: bool = True

    def propose(self, context: "Context") -> "Proposal":
        proposal: Proposal = import_module(f"pipelines.jobs.{self.name}").propose(context)
        return proposal


_ROWS = (
    Job("archive", "archives cold and expired memories", is_careful=True, asks_model=False),
    Job(
        "consolidate",
        "merges duplicates, applies corrections, marks outdated memories",
        is_careful=True,
    ),
    Job("distill", "turns sessions into lessons, failures and decisions"),
    Job("facts", "reads facts of entities out of turns and notes"),
    Job("importance", "revises the importance of memories by what became of them"),
    Job("judge", "judges recalls by what was done after them"),
    Job("reflect", "finds insights that several memories give together", is_careful=True),
    Job("route", "learns from rated recalls how to route them", asks_model=False),
)
JOBS: dict[str, Job] = {row.name: row for row in _ROWS}


def find_job(name: str) -> Job:
    """Return a job by its name; raise InvalidInput for an unknown name."""
    if name not in JOBS:
        raise InvalidInput(f"unknown job {name!r}: choose from {', '.join(JOBS)}")
    return JOBS[name]


# A job's input and result. A context is one tenant's published memory, built up to the head of its
# log (`runner.open_memory`).

Report = Callable[[str], None]
Rows = npt.NDArray[np.int64]  # numbers of memories, or one number for each memory
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Context:
    """A job's input: the memories of `project` and those without a project; None for all.

    `root` is that project's folder, if known. `session` limits learning to one session; None for
    any. `now` is microseconds UTC. Without a `model` a job uses strict evidence alone. `notes` are
    the model's notes for a person; the job's own are in its proposal.
    """

    tenant: Tenant
    log: EventLog
    choices: Choices
    embedder: Embedder
    manifest: Manifest
    now: int
    project: str | None = None
    root: Path | None = None
    session: str | None = None
    model: LanguageModel | None = None
    report: Report = lambda text: None
    notes: list[str] = field(default_factory=list)

    @cached_property
    def _tables(self) -> dict[str, Built]:
        return {}

    def tables(self, projection: str) -> Built:
        """Return the published tables of a projection; rows of memories have its numbers."""
        if projection not in self._tables:
            by_name = {other.name: other for other in catalog.all_projections(self.embedder)}
            ref = self.manifest.projections[projection]
            self._tables[projection] = snapshot.read(
                self.tenant.snapshots, ref, by_name[projection], check=False, validate=False
            )
        return self._tables[projection]

    @cached_property
    def rows(self) -> MemoryRows:
        return MemoryRows.open(self.tables("memories"))

    @cached_property
    def arrived_at(self) -> Rows:
        """The time each memory reached this log, [rows]: an import of years ago is new today."""
        times = log_queries.arrival_times(self.log, self.now)
        return np.array([times.get(id_, 0) for id_ in self.rows.ids()], np.int64)

    @cached_property
    def live_rows(self) -> Rows:
        """The rows of active memories of the project or of none, ascending.

        Episodes are left out: jobs read them, and do not maintain them.
        """
        mask = self.rows.active_at(self.now) & ~self.rows.equal("kind", (EPISODE,))
        return np.flatnonzero(mask & self._is_of_project)

    def expired_rows(self) -> Rows:
        """Return the rows of expired unpinned memories of the project or of none."""
        is_over = self.rows.equal("state", (ACTIVE,)) & (self.rows.expires_at <= self.now)
        return np.flatnonzero(is_over & (self.rows.codes("pinned") == 0) & self._is_of_project)

    @property
    def _is_of_project(self) -> Mask:
        if self.project is None:
            return np.ones(len(self.rows), np.bool_)
        return self.rows.equal("project", (self.project,)) | self.rows.lacks("project")

    def memories(self, rows: Rows) -> list[Memory]:
        """Return the memories of some rows, in the order of `rows`."""
        return self.rows.take(rows.tolist())

    def vectors(self, rows: Rows) -> Vectors:
        """Return unit vectors of some memories, [rows, width]; zeros for a memory without one."""
        table = self.tables("vectors")["rows"]
        width = table.schema.field("half").type.list_size
        if not len(rows):
            return np.zeros((0, width), np.float32)
        column = table.column("half").take(rows).combine_chunks()
        vectors = column.values.to_numpy().reshape(-1, width).astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Vectors = vectors / np.where(lengths > 0, lengths, 1.0)
        return units


class Proposal(msgspec.Struct, frozen=True):
    """The steps of a job. `looked_at` counts memories; `notes` are for a person; `silence` explains
    a proposal without steps.

    A proposal that changes recall has its effect on past recalls (`replay`) and the `checks` of it.
    """

    steps: tuple[Step, ...]
    looked_at: int = 0
    notes: tuple[str, ...] = ()
    silence: str = ""
    replay: ReplayDiff | None = None
    checks: tuple[PlanCheck, ...] = ()

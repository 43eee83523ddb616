"""
The job catalog: names, order, schedule and switches of the jobs, and the cost of their model calls.

No job runs by itself until its tenant allows it, in a file beside its log. If the file cannot be
read, all jobs are off: nothing unwanted happens. Dagster runs them by night while its pages are
served; without them a server runs each once a day when it is idle (`due_job`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from store.home.errors import InvalidInput
from store.home.files import replace_file
from store.home.instants import DAY, HOUR
from store.home.tenant import Tenant, list_tenants
from store.log.event_kinds import Called, Job
from store.log.event_log import EventLog

Learn = Literal["learn"]
LEARN: Learn = "learn"  # all jobs, one after the other

# Jobs that read raw turns come first, then those that judge memories, then those that archive them.
ORDER: tuple[Job, ...] = (
    "facts",
    "distill",
    "importance",
    "consolidate",
    "reflect",
    "archive",
    "judge",
    "route",
)
# minute and hour, before the nightly build or, for those that read ratings, after it
CRON: Mapping[str, str] = {
    "learn": "5 0 * * *",
    "facts": "35 0 * * *",
    "distill": "0 1 * * *",
    "importance": "25 1 * * *",
    "consolidate": "50 1 * * *",
    "reflect": "15 2 * * *",
    "archive": "40 2 * * *",
    "judge": "10 4 * * *",
    "route": "35 4 * * *",
}
NAMES: tuple[Job | Learn, ...] = (*ORDER, LEARN)
APART = 20 * HOUR  # between two runs of a job by an idle server, which is idle at any time of a day


class Switches(msgspec.Struct, frozen=True):
    """The jobs that a tenant lets run by themselves. `problem`: why they cannot be read."""

    on: frozenset[str] = frozenset()
    problem: str = ""


class _SwitchFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: tuple[Job | Learn, ...]


# made once, before there are threads: msgspec 0.22 crashes if two meet a type for the first time
_decoder = msgspec.json.Decoder(_SwitchFile)
_begun_decoder = msgspec.json.Decoder(dict[str, int])
_BEGUN = "jobs-begun.json"


def load_switches(tenant: Tenant) -> Switches:
    """Return the jobs that a tenant lets run by themselves; none before it allowed any."""
    path = _path(tenant)
    try:
        return Switches(frozenset(_decoder.decode(path.read_bytes()).on))
    except FileNotFoundError:
        return Switches()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        return Switches(problem=f"{path} cannot be read, so no job runs by itself: {error}")


def set_switches(tenant: Tenant, names: Iterable[str], *, on: bool) -> Switches:
    """Switch some jobs on or off; return the jobs that are then on.

    Raise InvalidInput for an unknown job.
    """
    wanted = list(names)
    if unknown := [name for name in wanted if name not in NAMES]:
        raise InvalidInput(
            f"unknown job {', '.join(map(repr, unknown))}: choose from {', '.join(NAMES)}"
        )
    before = load_switches(tenant).on
    now = before | set(wanted) if on else before - set(wanted)
    content = {"on": [name for name in NAMES if name in now]}
    replace_file(_path(tenant), msgspec.json.encode(content))
    return Switches(frozenset(now))


def jobs_on(home: Path) -> frozenset[str]:
    """Return the jobs that run by themselves for some tenant of a home."""
    return frozenset().union(*(load_switches(tenant).on for tenant in list_tenants(home)))


def due_job(tenant: Tenant, now: int) -> Job | Learn | None:
    """Return the first job that is on and due for an idle server: LEARN, if that is on; None if
    none is.
    """
    if not (on := load_switches(tenant).on):
        return None
    begun = _begun(tenant)
    names: tuple[Job | Learn, ...] = (LEARN,) if LEARN in on else ORDER
    for name in names:
        # a run in the future was noted by a wrong clock
        if name in on and (name not in begun or abs(now - begun[name]) >= APART):
            return name
    return None


def record_begun(tenant: Tenant, name: Job | Learn, now: int) -> None:
    """Record that an idle server began a job; the other jobs' times are kept."""
    replace_file(tenant.root / _BEGUN, msgspec.json.encode(_begun(tenant) | {name: now}))


def _begun(tenant: Tenant) -> dict[str, int]:
    """Return when an idle server last began each job; nothing if the file cannot be read."""
    try:
        return _begun_decoder.decode((tenant.root / _BEGUN).read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return {}


def start_time(name: str) -> str:
    """Return the time at which a job runs by itself, UTC: 01:50."""
    minute, hour, *_ = CRON[name].split()
    return f"{int(hour):02}:{int(minute):02}"


def _path(tenant: Tenant) -> Path:
    return tenant.root / "jobs.json"


# The cost of language models, from the logs; failed calls count too.


class ModelCost(msgspec.Struct, frozen=True):
    """`tokens` counts both directions, `cost_usd` the calls whose price is known."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    models: tuple[str, ...] = ()


def cost_since(log: EventLog, since: int) -> ModelCost:
    """Return the cost of a tenant's jobs since a moment, in microseconds UTC."""
    return sum_calls(_calls(log, since))


def cost_today(home: Path, now: int) -> ModelCost:
    """Return the cost of a home's tenants since midnight UTC: a day's limits are the home's."""
    calls: list[Called] = []
    for tenant in list_tenants(home):
        with EventLog(tenant.log) as log:
            calls += _calls(log, now - now % DAY)
    return sum_calls(calls)


def _calls(log: EventLog, since: int) -> list[Called]:
    events = log.job_events(("called",))
    return [event.body for event in events if event.at >= since and isinstance(event.body, Called)]


def sum_calls(calls: Iterable[Called]) -> ModelCost:
    """Return the total cost of some calls."""
    calls = list(calls)
    return ModelCost(
        calls=len(calls),
        failed=sum(call.error is not None for call in calls),
        tokens=sum(call.prompt_tokens + call.answer_tokens for call in calls),
        cost_usd=sum((call.cost_usd for call in calls), 0.0),
        models=tuple(sorted({call.model for call in calls})),
    )

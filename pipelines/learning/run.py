"""
One learning run of one tenant in this process: the same Dagster job that the UI runs, and seen
there, without a server.
"""

from typing import Literal

import dagster as dg
import msgspec

from pipelines import progress
from pipelines.learning.assets import GROUP, registered
from pipelines.learning.schedules import dagster_name
from pipelines.learning.shown import NONE
from pipelines.resources import LOCK_WAIT_S
from pipelines.run import execute, innermost, reason
from store.config import Settings
from store.errors import InvalidInput
from store.plans.roster import LEARN
from store.tenant import existing


class Ran(msgspec.Struct, frozen=True):
    """What became of one job. `plan` is None where it had nothing to do, `state` its plan's.

    `warnings` are the checks that failed, or why the job did.
    """

    job: str
    outcome: Literal["done", "failed"]
    plan: str | None = None
    state: str = ""
    steps: int = 0
    warnings: tuple[str, ...] = ()


def learn(
    settings: Settings,
    tenant_name: str,
    name: str,
    report: progress.Report,
    *,
    wait_s: float = LOCK_WAIT_S,
) -> list[Ran]:
    """Run a job, or all of them under the name "learn"; return what became of each, in order.

    One that fails keeps no other from running. Raise NotFound, BuildBusy, or InvalidInput for a job
    that there is not; KeyboardInterrupt where it was stopped.
    """
    tenant = existing(settings.home, tenant_name)
    names = registered() if name == LEARN else (name,)
    if unknown := set(names) - set(registered()) or not names:
        known = ", ".join((*registered(), LEARN))
        raise InvalidInput(f"there is no job {unknown or name}: there are {known}")
    config = dg.RunConfig(loggers={"console": {}})
    result = execute(settings, tenant, dagster_name(name), config, report, wait_s=wait_s)
    found = [one for one in (_ran(result, job) for job in names) if one is not None]
    if not result.success and not any(one.outcome == "failed" for one in found):
        raise reason(result)
    return found


def _ran(result: dg.ExecuteInProcessResult, job: str) -> Ran | None:
    """Return what became of a job's step; None where it never began."""
    step = f"{GROUP}__{job}"
    events = [one for one in result.all_events if one.step_key == step]
    for event in events:
        if event.is_step_failure and (error := event.step_failure_data.error) is not None:
            return Ran(job, "failed", warnings=(innermost(error),))
    made = list(result.asset_materializations_for_node(step))
    if not made:
        return None
    shown = made[0].metadata
    plan = str(shown["plan"].value)
    return Ran(
        job,
        "done",
        plan=None if plan == NONE else plan,
        state=str(shown["state"].value),
        steps=int(str(shown["steps"].value)),
        warnings=tuple(
            f"{one.check_name}: {one.description}"
            for one in result.get_asset_check_evaluations()
            if one.asset_key.path[-1] == job and not one.passed
        ),
    )

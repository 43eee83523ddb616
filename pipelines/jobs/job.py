"""
Job: a named function from a memory to the changes it proposes.

Whoever runs one (the command line, Dagster, a test) gets a plan written to the log, and it applied
where that was asked for. A job itself writes nothing but what a model was paid.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import filelock
import msgspec

from pipelines.jobs.context import Context, Report, opened
from pipelines.llm.budget import Budget
from pipelines.llm.client import Estimate, Estimator
from store.home.config import Settings
from store.home.errors import BuildBusy
from store.home.files import make_folder
from store.home.tenant import find_tenant
from store.log.event_kinds import Called, Planned, Step
from store.log.event_kinds import Job as Name
from store.plans import plans
from store.plans.plans import Plan


class Proposal(msgspec.Struct, frozen=True):
    """What a job would do. `looked_at` counts memories; `notes` say what a person should know."""

    steps: tuple[Step, ...]
    looked_at: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """`does` is one line for people. A careful one waits for a person's yes unless told not to."""

    name: Name
    does: str
    propose: Callable[[Context], Proposal]
    is_careful: bool = False


def run(
    job: Job,
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    apply: bool,
    project: str | None = None,
    root: Path | None = None,
    session: str | None = None,
    report: Report = lambda what: None,
    wait_s: float = 60.0,
    no_model: bool = False,
) -> Plan | None:
    """Run a job; return its plan, applied if that was asked for; None where it has nothing to do.

    Raise BuildBusy where another job of the tenant is at work, else as `opened` does.
    """
    tenant = find_tenant(settings.home, tenant_name)
    make_folder(tenant.root)
    try:
        # the system gives it up with its holder, whatever became of that one
        with (
            filelock.FileLock(tenant.root / "jobs.lock", timeout=wait_s, mode=0o600),
            opened(
                settings,
                tenant_name,
                now,
                project=project,
                root=root,
                session=session,
                report=report,
                wait_s=wait_s,
                no_model=no_model,
            ) as context,
        ):
            return planned(job, context, apply=apply)
    except filelock.Timeout:
        raise BuildBusy(f"another job of {tenant.name} is running: try again later") from None


def estimated(
    job: Job,
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    project: str | None = None,
    root: Path | None = None,
    session: str | None = None,
    report: Report = lambda what: None,
) -> Estimate:
    """Return what a run of a job would ask of models, at most; nothing is asked and no event
    written. Raise as `opened` does.
    """
    with opened(
        settings,
        tenant_name,
        now,
        project=project,
        root=root,
        session=session,
        report=report,
        no_model=True,
    ) as context:
        context.report(f"{job.name}: what a model would cost")
        limits = settings.choices.llm
        model = Estimator(limits)
        job.propose(replace(context, model=model if limits.is_set else None))
        return model.estimate(Budget(settings.home, limits, lambda: now).left())


def planned(job: Job, context: Context, *, apply: bool) -> Plan | None:
    """Write down what a job proposes, and apply it if that is asked for; None for nothing.

    What a person undid is not proposed again.
    """
    context.report(job.name)
    before = context.log.head()
    found = job.propose(context)
    calls = _calls(context, before)
    told = (*context.notes, *_failures(calls))
    for note in told:
        context.report(note)
    steps = plans.new_steps(context.log, found.steps)
    if not steps:
        for note in found.notes:  # there is no plan to read them in
            context.report(note)
        return None
    body = Planned(
        job=job.name,
        watermark=context.manifest.watermark,
        steps=tuple(steps),
        looked_at=found.looked_at,
        notes=(*found.notes, *told),
        model=", ".join(sorted({one.model for one in calls})) or None,
        tokens=sum(one.prompt_tokens + one.answer_tokens for one in calls),
        cost_usd=sum(one.cost_usd for one in calls),
    )
    plan = plans.propose(context.log, body, context.now, context.project)
    return plans.apply(context.log, plan.id, context.now) if apply else plan


def _calls(context: Context, after: int) -> list[Called]:
    """Return what this run asked of models; no other job of the tenant is at work meanwhile."""
    if context.model is None:
        return []
    bodies = (event.body for event in context.log.of_jobs(("called",), after))
    return [body for body in bodies if isinstance(body, Called)]


def _failures(calls: list[Called]) -> list[str]:
    """Return what is said of the calls that brought no answer."""
    errors = [one.error for one in calls if one.error]
    return [f"{len(errors)} of {len(calls)} calls failed: {errors[-1]}"] if errors else []

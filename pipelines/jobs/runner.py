"""
The runner: builds a tenant's memory and runs jobs on it, in this process and without Dagster.

It has two front ends: the command line (`python -m pipelines build --quick`, `... run JOB`) and
Dagster, whose job assets call `run` and whose build assets take the same steps of
`store.maintenance.build`. A job changes nothing itself: the runner records the plan it proposes and
applies it on request.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypedDict, Unpack

import filelock
import msgspec

from pipelines.jobs import Context, Job, Report
from pipelines.llm import model_client
from pipelines.llm.budget import Budget
from pipelines.llm.model_client import Estimate, Estimator
from serve.recall.deciding import code
from store.derived import catalog
from store.embedders.embedder import Embedder, make_embedder
from store.home.config import Choices, Settings
from store.home.errors import BuildBusy, MirrorError, SnapshotError
from store.home.files import make_folder
from store.home.tenant import Tenant, find_tenant
from store.log.event_clock import wall_clock
from store.log.event_kinds import Called, Planned
from store.log.event_log import EventLog
from store.maintenance import build as builds
from store.maintenance.build import Build, Progress
from store.maintenance.mirrors import chosen_mirrors, sync_mirror
from store.plans import plans
from store.plans.plans import Plan
from store.snapshots import manifest as manifests
from store.snapshots.manifest import CheckResult, Manifest
from store.text.excerpt import plural

WAIT_S = 60.0  # for another job, or another build, of the tenant


class Scope(TypedDict, total=False):
    """A job's scope: the memories of `project` and those without a project; None for all.

    `root` is the project's folder, for jobs that read its files. With `session`, a job learns from
    that session alone.
    """

    project: str | None
    root: Path | None
    session: str | None


def run(
    job: Job,
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    apply: bool,
    report: Report = lambda what: None,
    wait_s: float = WAIT_S,
    no_model: bool = False,
    **scope: Unpack[Scope],
) -> Plan | None:
    """Run a job; return its plan, applied if `apply`; None where it has nothing to do.

    Raise BuildBusy where another job of the tenant is at work, else as `open_memory` does.
    """
    no_model = no_model or not (job.asks_model and settings.choices.llm.may_serve(job.name))
    with (
        job_lock(find_tenant(settings.home, tenant_name), wait_s),
        open_memory(
            settings, tenant_name, now, report=report, wait_s=wait_s, no_model=no_model, **scope
        ) as context,
    ):
        return write_plan(job, context, apply=apply)


def estimate(
    job: Job,
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    report: Report = lambda what: None,
    **scope: Unpack[Scope],
) -> Estimate:
    """Return the upper bound of a run's model calls and their cost.

    No model is asked and no event is written. Raise as `open_memory` does.
    """
    with open_memory(settings, tenant_name, now, report=report, no_model=True, **scope) as context:
        context.report(f"{job.name}: what a model would cost")
        limits = settings.choices.llm
        model = Estimator(limits)
        job.propose(replace(context, model=model if limits.may_serve(job.name) else None))
        return model.estimate(Budget(settings.home, limits, lambda: now).room())


@contextmanager
def job_lock(tenant: Tenant, wait_s: float) -> Iterator[None]:
    """Hold the tenant's lock for jobs; raise BuildBusy where another job holds it longer.

    The system releases it when its holder ends, in any way.
    """
    make_folder(tenant.root)
    try:
        with filelock.FileLock(tenant.root / "jobs.lock", timeout=wait_s, mode=0o600):
            yield
    except filelock.Timeout:
        raise BuildBusy(f"another job of {tenant.name} is running: try again later") from None


@contextmanager
def open_memory(
    settings: Settings,
    tenant_name: str,
    now: int,
    *,
    report: Report = lambda what: None,
    wait_s: float = WAIT_S,
    no_model: bool = False,
    **scope: Unpack[Scope],
) -> Iterator[Context]:
    """Open a tenant's memory, built up to the log's head, with the configured model.

    Raise NotFound, BuildBusy, BuildRefused, or a LogError from its log.
    """
    tenant = find_tenant(settings.home, tenant_name)
    limits = settings.choices.llm
    with EventLog(tenant.log) as log:
        embedder = make_embedder(settings.choices.embedder, settings.home)
        manifest = _complete_manifest(tenant, log, embedder)
        if manifest is None:
            report("builds what is new")
            manifest = build(settings, tenant_name, lambda step: None, wait_s=wait_s)
        notes: list[str] = []
        has_model = limits.is_set and not no_model
        yield Context(
            tenant=tenant,
            log=log,
            choices=settings.choices,
            embedder=embedder,
            manifest=manifest,
            now=now,
            model=model_client.make_client(settings.home, limits, log, notes.append)
            if has_model
            else None,
            report=report,
            notes=notes,
            **scope,
        )


def _complete_manifest(tenant: Tenant, log: EventLog, embedder: Embedder) -> Manifest | None:
    """Return the published manifest if it covers the whole log and every projection."""
    try:
        manifest = manifests.current(tenant)
    except SnapshotError:  # nothing was built yet, or it is damaged: a build mends it
        return None
    projections = catalog.all_projections(embedder)
    wanted = {projection.name: projection.version for projection in projections}
    published = {name: ref.version for name, ref in manifest.projections.items()}
    return manifest if manifest.watermark >= log.head() and published == wanted else None


def write_plan(job: Job, context: Context, *, apply: bool) -> Plan | None:
    """Write a job's plan, and apply it if `apply`; return None where there are no new steps.

    A plan with failed checks waits for a person. Steps that a person undid are not proposed again.
    """
    context.report(job.name)
    before = context.log.head()
    proposal = job.propose(context)
    calls: list[Called] = []
    if context.model is not None:  # no other job of the tenant runs meanwhile
        bodies = (event.body for event in context.log.job_events(("called",), before))
        calls = [body for body in bodies if isinstance(body, Called)]
    run_notes = list(context.notes)
    if errors := [call.error for call in calls if call.error]:
        run_notes.append(f"{len(errors)} of {len(calls)} calls failed: {errors[-1]}")
    for note in run_notes:
        context.report(note)
    steps = plans.new_steps(context.log, proposal.steps)
    if not steps:
        reason = proposal.silence
        if proposal.steps:
            steps_found = plural(len(proposal.steps), "step")
            reason = f"{steps_found} found, all of which you rejected or undid before"
        for note in (*proposal.notes, reason):
            if note:  # there is no plan to read it in
                context.report(note)
        return None
    body = Planned(
        job=job.name,
        watermark=context.manifest.watermark,
        steps=tuple(steps),
        looked_at=proposal.looked_at,
        notes=(*proposal.notes, *run_notes),
        model=", ".join(sorted({call.model for call in calls})) or None,
        tokens=sum(call.prompt_tokens + call.answer_tokens for call in calls),
        cost_usd=sum(call.cost_usd for call in calls),
        replay=proposal.replay,
        checks=proposal.checks,
    )
    plan = plans.propose(context.log, body, context.now, context.project)
    if apply and plan.failed:
        names = ", ".join(check.name for check in plan.failed)
        context.report(f"plan {plan.id} waits for you: {names} failed")
        return plan
    return plans.apply(context.log, plan.id, context.now) if apply else plan


def build(
    settings: Settings,
    tenant_name: str,
    report: Progress,
    *,
    full: bool = False,
    accepts: bool = False,
    wait_s: float = 0.0,
    embedder: Embedder | None = None,
) -> Manifest:
    """Build, check and publish a tenant; return the manifest.

    Its digests are those of Dagster's job. It retries nothing, compares the sizes and times of
    reused files instead of hashing them again, and asks only a few canaries: refreshing a thousand
    memories then costs their work and not a scheduler's start.

    `report` gets each step as it begins; `embedder` is that of the settings, if the caller has it
    loaded. Raise NotFound, BuildBusy, or BuildRefused naming every check that failed; the last good
    build is served until one succeeds.
    """
    choices = settings.choices
    tenant = find_tenant(settings.home, tenant_name)
    with EventLog(tenant.log) as log:
        manifest = builds.rebuild(
            tenant,
            log,
            embedder or make_embedder(choices.embedder, settings.home),
            wall_clock(),
            on_progress=report,
            on_whole=partial(_ask_canaries, choices),
            wait_s=wait_s,
            full=full,
            thorough=False,
            accepts=accepts,
            keep_days=choices.episodes_days,
            # names this code and these settings
            decided_by=f"{code()}/{sha256(msgspec.json.encode(choices)).hexdigest()[:8]}",
        )
    for mirror in chosen_mirrors(choices):
        report(mirror.asset)
        # where its server is down, the next build brings it in step
        with suppress(MirrorError, BuildBusy), builds.lock(tenant, wait_s=wait_s):
            sync_mirror(mirror, tenant)
    return manifest


def _ask_canaries(choices: Choices, candidate: Build) -> list[CheckResult]:
    """Ask a candidate the past questions, the canaries and the pinned questions."""
    # an unchanged build asks nothing, and these imports take as long as the build itself
    from serve.evaluation import canaries, expectations, past_answers

    now = wall_clock()
    log, tenant, embedder = candidate.log, candidate.tenant, candidate.embedder
    manifest = builds.candidate_manifest(candidate, (), now)
    outcome = canaries.over(tenant, manifest, embedder, choices, now, most=canaries.A_FEW)
    return [
        *past_answers.check(candidate, manifest, choices, past_answers.A_FEW),
        canaries.result(outcome, now, *builds.last_published(tenant)),
        *expectations.check(log, tenant, manifest, embedder, choices, now),
    ]

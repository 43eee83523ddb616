"""`mnemolog jobs`: the jobs that run by themselves, their last proposals, and their cost."""

import subprocess
from typing import TYPE_CHECKING, Any

import click

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.cli.plans import SHORT
from store.home import packages
from store.home.config import Settings
from store.home.instants import isoformat
from store.home.tenant import Tenant
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from store.plans.plans import Plan


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog jobs", "mnemolog jobs on learn", "mnemolog jobs run distill"),
)
@output.json_option
@click.pass_context
def jobs(context: click.Context, as_json: bool) -> None:
    """List the jobs, their schedule and their last proposal.

    Those that are on run once a day, when the server has been idle for ten minutes; while
    `mnemolog ui` is running, at their time of the night (UTC). `mnemolog jobs run NAME` runs one
    now.
    """
    if context.invoked_subcommand is not None:
        return
    settings: Settings = context.obj.settings()
    tenant = environment.current_tenant(settings)
    with EventLog(tenant.log) as log:
        payload = _jobs_listing(settings, tenant, log)
    if as_json:
        output.emit(payload)
    else:
        _print_jobs(payload)


@jobs.command("on", epilog=output.example("mnemolog jobs on distill reflect"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", type=arguments.JOB)
@output.json_option
@click.pass_obj
def switch_on(env: Environment, /, names: tuple[str, ...], as_json: bool) -> None:
    """Let jobs run by themselves, once a day; `learn` means all of them."""
    _switch(env, names, on=True, as_json=as_json)


@jobs.command("off", epilog=output.example("mnemolog jobs off distill"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", type=arguments.JOB)
@output.json_option
@click.pass_obj
def switch_off(env: Environment, /, names: tuple[str, ...], as_json: bool) -> None:
    """Let jobs no longer run by themselves."""
    _switch(env, names, on=False, as_json=as_json)


@jobs.command("run", epilog=output.example("mnemolog jobs run learn"))
@click.argument("name", type=arguments.JOB)
@output.json_option
@click.pass_context
def run_scheduled(context: click.Context, name: str, as_json: bool) -> None:
    """Run a job as its schedule would, or all of them in order (`learn`).

    Jobs that need your decision, and plans that would archive a large part of the memory, leave
    their plans waiting: `mnemolog plans`. The exit code is 1 if a job failed.
    """
    import msgspec

    from serve.server import processes

    settings: Settings = context.obj.settings()
    tenant = environment.current_tenant(settings)
    words = ("learn", name, "--tenant", tenant.name)
    child = processes.start_job(settings, *words, stdout=subprocess.PIPE)
    data, _ = child.communicate()
    if data:
        payload: dict[str, Any] = msgspec.json.decode(data)
        if as_json:
            output.emit(payload)
        else:
            _print_runs(payload["jobs"])
    context.exit(child.returncode)


def _switch(env: Environment, names: tuple[str, ...], *, on: bool, as_json: bool) -> None:
    from store.plans import job_catalog

    if on:
        packages.require("dagster")
    tenant = environment.current_tenant(env.settings())
    switches = job_catalog.set_switches(tenant, names, on=on)
    listed = [name for name in job_catalog.NAMES if name in switches.on]
    if as_json:
        output.emit({"on": listed})
    else:
        output.say(f"on: {', '.join(listed) or 'none'}")
        if listed:
            output.note(
                "they run once a day, when the server is idle; by night while `mnemolog ui` runs"
            )


def _jobs_listing(settings: Settings, tenant: Tenant, log: EventLog) -> dict[str, Any]:
    """Return every job with its last plan, and today's cost of models, as JSON."""
    from store.plans import job_catalog, plans

    switches, every = job_catalog.load_switches(tenant), plans.every(log)
    today, limits = job_catalog.cost_today(settings.home, environment.now()), settings.choices.llm
    return {
        "jobs": [
            {
                "job": name,
                "on": name in switches.on,
                "at": job_catalog.start_time(name),
                "last": next((_last_plan(plan) for plan in every if plan.body.job == name), None),
                "waiting": [
                    plan.id for plan in every if plan.body.job == name and plan.state == "waiting"
                ],
            }
            for name in job_catalog.NAMES
        ],
        "problem": switches.problem,
        "today": {
            "calls": today.calls,
            "failed": today.failed,
            "tokens": today.tokens,
            "cost_usd": today.cost_usd,
        },
        "limits": {
            "usd_a_run": limits.usd_a_run,
            "usd_a_day": limits.usd_a_day,
            "tokens_a_run": limits.tokens_a_run,
            "tokens_a_day": limits.tokens_a_day,
            "calls_a_run": limits.calls_a_run,
            "calls_a_day": limits.calls_a_day,
        },
        "model": limits.cheap or limits.balanced or limits.expensive or None,
    }


def _last_plan(plan: "Plan") -> dict[str, Any]:
    return {
        "plan": plan.id,
        "at": isoformat(plan.at),
        "state": plan.state,
        "steps": len(plan.body.steps),
        "cost_usd": plan.body.cost_usd,
    }


def _print_jobs(payload: dict[str, Any]) -> None:
    rows = []
    for job in payload["jobs"]:
        last, waiting = job["last"], job["waiting"]
        plan = ("-", "", "", "")
        if last:
            steps, cost = f"{last['steps']} {last['state']}", f"${last['cost_usd']:.4f}"
            plan = (last["at"][:10], steps, cost, last["plan"][:SHORT])
        state = "on" if job["on"] else "off"
        rows.append((job["job"], state, job["at"], *plan, str(len(waiting) or "")))
    output.table(("job", "by itself", "at", "last", "steps", "cost", "plan", "waiting"), rows)
    _print_spending(payload)
    if payload["problem"]:
        output.note(payload["problem"])


def _print_spending(payload: dict[str, Any]) -> None:
    if payload["model"] is None and not payload["today"]["calls"]:
        output.say("no model is set")
        return
    today, limits = payload["today"], payload["limits"]
    dollars = f" of ${limits['usd_a_day']:.2f}" if limits["usd_a_day"] else ""
    tokens = f" of {limits['tokens_a_day']:,}" if limits["tokens_a_day"] else ""
    calls = f" of {limits['calls_a_day']:,}" if limits["calls_a_day"] else ""
    output.say(
        f"today: ${today['cost_usd']:.4f}{dollars}, {today['tokens']:,}{tokens} tokens, "
        f"{today['calls']:,}{calls} calls, {today['failed']} failed"
    )


def _print_runs(runs: list[dict[str, Any]]) -> None:
    for run in runs:
        plan = f"  plan {run['plan'][:SHORT]}" if run["plan"] else ""
        state = run["state"] if run["outcome"] == "done" else "failed"
        steps = f", {run['steps']} steps" if run["steps"] else ""
        output.say(f"{run['job']:<12}{state}{steps}{plan}")
        for warning in run["warnings"]:
            output.say(f"            {output.one_line(warning, 300)}")
    if any(run["state"] == "waiting" for run in runs):
        output.note("next: `mnemolog plans show PLAN`, then `mnemolog plans apply PLAN`")

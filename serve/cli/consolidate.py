"""`mnemolog consolidate`: one memory of many that say the same; shown first, taken back after."""

import sys
from typing import TYPE_CHECKING

import click

from serve.cli import jobs, output, session
from serve.cli.plans import SHORT, changing, print_plan, tell
from serve.cli.session import Session
from store.job_events import Job
from store.log import EventLog

if TYPE_CHECKING:
    from store.plans.plans import Plan

_JOB: Job = "consolidate"


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog consolidate", "mnemolog consolidate apply 7HQ2"),
)
@jobs.options
@click.pass_context
def consolidate(
    context: click.Context,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Find duplicates, corrections and outdated memories. The default is `preview`.

    Nothing changes before `apply`, and `undo` reverts it.
    """
    if context.invoked_subcommand is None:
        _preview(context.obj, project, no_model=no_model, estimate=estimate, as_json=as_json)


@consolidate.command(epilog=output.example("mnemolog consolidate preview --project acme/web"))
@jobs.options
@click.pass_obj
def preview(
    session_: Session,
    /,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Make a plan and show it as a diff; nothing is changed."""
    _preview(session_, project, no_model=no_model, estimate=estimate, as_json=as_json)


def _preview(
    session_: Session, project: str | None, *, no_model: bool, estimate: bool, as_json: bool
) -> None:
    jobs.run(
        session_,
        _JOB,
        dry_run=True,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )


@consolidate.command(epilog=output.example("mnemolog consolidate review"))
@output.json_option
@click.pass_obj
def review(session_: Session, /, as_json: bool) -> None:
    """Show each waiting plan step by step; on a terminal, ask what to do with it."""
    from serve.summaries.plan_text import shown
    from store.plans import plans as kept

    with session.open_log(session_.settings()) as log:
        found = [one for one in kept.every(log) if one.body.job == _JOB]
        waiting = [one for one in found if one.state in ("waiting", "stale")]
        if as_json:
            output.emit({"plans": [shown(one) for one in waiting]})
            return
        if not waiting:
            output.say("no plan is waiting: `mnemolog consolidate` makes one")
        for plan in waiting:
            if plan.state == "waiting" and sys.stdin.isatty() and sys.stdout.isatty():
                _ask(log, plan)
            else:
                print_plan(log, plan, as_json=False)


def _ask(log: EventLog, plan: "Plan") -> None:
    """Ask a person what to do with a plan, until that is known."""
    from store.plans import plans as kept

    steps = len(plan.body.steps)
    output.say(f"plan {plan.id[:SHORT]}: {steps} steps of {plan.body.looked_at:,} memories")
    while True:
        answer = click.prompt("apply, leave or details", default="details", show_default=True)
        if "details".startswith(answer):
            print_plan(log, plan, as_json=False)
        elif "apply".startswith(answer):
            tell(kept.apply(log, plan.id, session.now()), as_json=False)
            return
        elif "leave".startswith(answer):
            return


consolidate.add_command(changing("apply", _JOB))
consolidate.add_command(changing("undo", _JOB))

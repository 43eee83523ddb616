"""`mnemolog plans`: what jobs propose, as diffs; apply one, or take it back."""

from typing import TYPE_CHECKING, Literal

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.job_events import Job
from store.log import EventLog

if TYPE_CHECKING:
    from store.plans.plans import Plan


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog plans", "mnemolog plans show 7HQ2"),
)
@output.json_option
@click.pass_context
def plans(context: click.Context, as_json: bool) -> None:
    """List what jobs proposed and its state, newest first."""
    if context.invoked_subcommand is not None:
        return
    from serve.summaries.plan_text import shown
    from store.plans import plans as kept

    with session.open_log(context.obj.settings()) as log:
        found = kept.every(log)
    if as_json:
        output.emit({"plans": [shown(one) for one in found]})
    elif not found:
        output.say("no job has proposed anything yet")
    else:
        rows = [
            (
                one.id[:SHORT],
                isoformat(one.at)[:10],
                one.state,
                str(len(one.body.steps)),
                one.body.job,
            )
            for one in found
        ]
        output.table(("plan", "date", "state", "steps", "job"), rows)


SHORT = 6  # letters of a plan's id that are shown; two of a thousand begin alike


@plans.command(epilog=output.example("mnemolog plans show 7HQ2"))
@click.argument("plan")
@output.json_option
@click.pass_obj
def show(session_: Session, /, plan: str, as_json: bool) -> None:
    """Show what a plan does, step by step, and why. You can shorten its id."""
    from store.plans import plans as kept

    with session.open_log(session_.settings()) as log:
        print_plan(log, kept.find(log, plan), as_json=as_json)


_CHANGES = {
    "apply": (
        "Apply all of a plan or none; a plan whose memories have changed is refused.",
        "Only check whether it can still be applied.",
    ),
    "undo": (
        "Undo a plan: the memory is as before, and the same is not proposed again.",
        "Only check whether it was applied.",
    ),
}


def changing(verb: Literal["apply", "undo"], job: Job | None = None) -> click.Command:
    """Return the command that applies plans, or undoes them; with a job, only those it made."""
    does, dry = _CHANGES[verb]

    @click.command(verb, help=does, epilog=output.example(f"mnemolog {job or 'plans'} {verb} 7HQ2"))
    @click.argument("plan")
    @click.option("--dry-run", is_flag=True, help=dry)
    @output.json_option
    @click.pass_obj
    def command(session_: Session, /, plan: str, dry_run: bool, as_json: bool) -> None:
        from store.plans import plans as kept

        with session.open_log(session_.settings()) as log:
            found = kept.find(log, plan)
            if job is not None and found.body.job != job:
                raise InvalidInput(
                    f"plan {found.id} belongs to {found.body.job}: "
                    f"run `mnemolog plans {verb} {plan}`"
                )
            act = kept.apply if verb == "apply" else kept.undo
            tell(found if dry_run else act(log, found.id, session.now()), as_json=as_json)

    return command


@plans.command(epilog=output.example('mnemolog plans reject 7HQ2 --reason "both are needed"'))
@click.argument("plan")
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def reject(session_: Session, /, plan: str, reason: str | None, as_json: bool) -> None:
    """Reject a plan: its steps are not proposed again."""
    from store.plans import plans as kept

    with session.open_log(session_.settings()) as log:
        tell(kept.reject(log, plan, session.now(), reason), as_json=as_json)


plans.add_command(changing("apply"))
plans.add_command(changing("undo"))


def print_plan(log: EventLog, plan: "Plan", *, as_json: bool) -> None:
    """Print a plan, for people or for programs."""
    from serve.summaries.plan_text import lines, shown

    if as_json:
        output.emit(shown(plan))
        return
    for line in lines(plan):
        output.say(output.clean(line))
    if plan.state == "waiting":
        output.note(f"next: `mnemolog plans apply {plan.id[:SHORT]}`")
    elif plan.state == "applied":
        output.note(f"to undo it: `mnemolog plans undo {plan.id[:SHORT]}`")


def tell(plan: "Plan", *, as_json: bool) -> None:
    """Print what became of a plan; of a stale one, why it is."""
    if as_json:
        output.emit(
            {
                "plan": plan.id,
                "state": plan.state,
                "events": list(plan.events),
                "because": list(plan.because),
            }
        )
        return
    output.say(f"{plan.state}  {plan.body.job}, {len(plan.body.steps)} steps")
    for reason in plan.because:
        output.say(f"         {output.clean(reason)}")

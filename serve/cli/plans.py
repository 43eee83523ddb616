"""`mnemolog plans`: proposals by jobs and by you, shown, tried, applied and undone."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.log.event_kinds import Job
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from store.home.config import Settings
    from store.plans.plans import Plan


@click.group(
    invoke_without_command=True,
    epilog=output.example(
        "mnemolog plans", "mnemolog plans propose --set profile=wal", "mnemolog plans show 7HQ2"
    ),
)
@output.json_option
@click.pass_context
def plans(context: click.Context, as_json: bool) -> None:
    """List what jobs and you proposed and its state, newest first.

    A command that writes ten memories or more (an import, `forget` of many) is listed as `bulk`.
    """
    if context.invoked_subcommand is not None:
        return
    from serve.reports.proposal_rendering import plan_fields
    from store.plans import plans as stored_plans

    with environment.open_log(context.obj.settings()) as log:
        stored = stored_plans.every(log)
    if as_json:
        output.emit({"plans": list(map(plan_fields, stored))})
    elif not stored:
        output.say("nothing has been proposed yet")
    else:
        rows = [
            (
                plan.id[:SHORT],
                isoformat(plan.at)[:10],
                plan.state,
                str(len(plan.body.steps or plan.events)),
                plan.body.job,
            )
            for plan in stored
        ]
        output.table(("plan", "date", "state", "steps", "job"), rows)


SHOWN = 10  # changed answers of a plan; a report has more
SHORT = 6  # letters of a plan's id that are shown; two of a thousand begin alike


@plans.command(
    "propose",
    epilog=output.example(
        "mnemolog plans propose --set profile=wal",
        "mnemolog plans propose --set min_confidence=0.4 --since 30d",
        "mnemolog plans propose --upgrade",
    ),
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A setting to change.")
@click.option("--profile", help="Short for --set profile=PROFILE.")
@click.option(
    "--upgrade", is_flag=True, help="Compare this version with what another one answered."
)
@click.option("--since", help="Ask recalls not older than this: 2026-11-20, or 7d.")
@click.option(
    "--limit", type=click.IntRange(1), default=arguments.MOST_ASKED, help="At most so many recalls."
)
@click.option("--yes", is_flag=True, help="Do not ask before texts go to a model elsewhere.")
@output.json_option
@click.pass_obj
def propose_plan(
    env: Environment,
    /,
    changes: tuple[str, ...],
    profile: str | None,
    upgrade: bool,
    since: str | None,
    limit: int,
    yes: bool,
    as_json: bool,
) -> None:
    """Propose other settings for recall, or this version after an upgrade, and show what they do to
    your past recalls.

    Each past recall is asked again twice, of the memory as it was known then: as it was asked, and
    with the change. Nothing changes until you apply the plan, which is refused if too many answers
    fall silent, lose their memories or lose what had helped. You can change embedder, fusion,
    min_confidence, profile, profiles and top_k.

    --upgrade asks what another version of mnemolog answered, and compares with that. The next build
    of this version is held to it, and `plans apply` builds all the same. You can try a version
    before you install it: run its program from an environment of its own.
    """
    from serve import formatting
    from serve.cli.embedder_switch import absolute_name, embed_ahead, may_send
    from serve.evaluation import drift
    from store.home.instants import micros
    from store.log import receipts
    from store.plans import plans as stored_plans
    from store.plans.setting_changes import configure_steps

    settings = env.settings()
    values = arguments.parse_settings(changes, profile)
    if upgrade and (values or yes):
        raise click.UsageError("--upgrade goes alone, or with --since and --limit")
    now = environment.now()
    start = micros(formatting.parse_time(since, now)) if since else None
    if upgrade:
        _propose_upgrade(settings, start, limit, now, as_json=as_json)
        return
    if not values:
        raise click.UsageError(
            "nothing to change: add --set KEY=VALUE, --profile PROFILE or --upgrade"
        )
    if "embedder" in values:
        values["embedder"] = absolute_name(settings, values["embedder"])
    steps = configure_steps(settings, values)
    if not steps:
        raise InvalidInput("these are the settings already: there is nothing to change")
    if "embedder" in values and not may_send(
        settings, values["embedder"], is_agreed=yes, can_ask=not as_json
    ):
        output.say("nothing was proposed")
        return
    with environment.open_log(settings) as log:
        events = receipts.page(log, receipts.Wanted(since=start), limit, most=sys.maxsize).receipts
        tenant = environment.current_tenant(settings)
        if "embedder" in values:  # beside the vectors in use: they are not made twice
            embed_ahead(settings, log, values["embedder"], quiet=as_json)
        planned = drift.settings_plan(settings, tenant, log, steps, events, now)
        print_plan(log, stored_plans.propose(log, planned, now), as_json=as_json)


def _propose_upgrade(
    settings: "Settings", start: int | None, limit: int, now: int, *, as_json: bool
) -> None:
    from serve.evaluation import upgrade
    from store.log import log_file
    from store.plans import plans as stored_plans

    tenant = environment.current_tenant(settings)
    if tenant.log.exists() and log_file.is_older(tenant.log):
        raise InvalidInput(
            f"this version would change {tenant.log}, and no version before reads it then: try it "
            "on a copy, made with `mnemolog backup make` of the version that is installed"
        )
    with environment.open_log(settings) as log:
        events = upgrade.list_earlier(log, limit, start, 20 * limit)
        if not events:
            raise InvalidInput(
                f"every recall that is kept was answered by mnemolog {upgrade.running()}: there is "
                "nothing to compare"
            )
        planned = upgrade.upgrade_plan(settings, tenant, log, events, now)
        if not planned.looked_at:
            raise InvalidInput(f"nothing can be compared: {'; '.join(planned.notes)}")
        print_plan(log, stored_plans.propose(log, planned, now), as_json=as_json)


@plans.command(
    "show",
    epilog=output.example("mnemolog plans show 7HQ2", "mnemolog plans show 7HQ2 --report plan.md"),
)
@click.argument("plan", type=arguments.PLAN)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it as a Markdown file, with every changed answer that it keeps.",
)
@output.json_option
@click.pass_obj
def show_plan(env: Environment, /, plan: str, report: Path | None, as_json: bool) -> None:
    """Show what a plan does, step by step, and why. You can shorten its id."""
    from serve.reports.proposal_rendering import plan_markdown
    from store.plans import plans as stored_plans

    if report is not None:
        output.check_writable(report)
    with environment.open_log(env.settings()) as log:
        stored = stored_plans.find(log, plan)
        print_plan(log, stored, as_json=as_json)
        if report is not None:
            lines = (f"{output.clean(line)}\n" for line in plan_markdown(log, stored))
            output.write(report, "".join(lines).encode())


_PLAN_HELP = {
    "apply": (
        "Apply all of a plan or none; a plan whose memories have changed is refused. It needs a "
        "person.",
        "Only check whether it can still be applied.",
    ),
    "undo": (
        "Undo a plan, or a bulk change: the memory is as before, and the same is not proposed "
        "again. A bulk change that was undone can be applied again.",
        "Only check whether it was applied.",
    ),
}


def plan_command(verb: Literal["apply", "undo"], job: Job | None = None) -> click.Command:
    """Return the command that applies or undoes plans; with a job, only those the job made."""
    does, dry = _PLAN_HELP[verb]

    @click.command(verb, help=does, epilog=output.example(f"mnemolog {job or 'plans'} {verb} 7HQ2"))
    @click.argument("plan", type=arguments.PLAN)
    @click.option("--dry-run", is_flag=True, help=dry)
    @output.json_option
    @click.pass_obj
    def command(
        env: Environment, /, plan: str, dry_run: bool, as_json: bool, force: bool = False
    ) -> None:
        from serve.cli import processes
        from serve.cli.embedder_switch import make_true
        from store.plans import plans as stored_plans
        from store.plans import proposals
        from store.plans.setting_changes import planned_embedder, planned_version

        if verb == "apply" and not dry_run:
            environment.presence().require_person("applying a plan")
        with environment.open_log(env.settings()) as log:
            stored = stored_plans.find(log, plan)
            if job is not None and stored.body.job != job:
                raise InvalidInput(
                    f"plan {stored.id} belongs to {stored.body.job}: "
                    f"run `mnemolog plans {verb} {plan}`"
                )
            if dry_run and verb == "apply" and stored.failed and not force:
                stored_plans.refuse(stored)
            if not dry_run:
                act = partial(proposals.accept, force=force) if verb == "apply" else proposals.undo
                stored = stored_plans.find(log, act(log, stored.id, environment.now()).id)
            code = 0
            counts_again = stored.body.job == stored_plans.BULK and verb == "apply" and not dry_run
            name = planned_embedder(stored.body.steps, is_undo=verb == "undo")
            if not dry_run and name is not None:
                code = make_true(env, log, name, quiet=as_json)
            print_outcome(stored, as_json=as_json)
        if counts_again:
            code = processes.build(env.settings(), "--quick", "--accept", quiet=as_json)
        if stored.body.job == "archive" and stored.state == "applied" and not dry_run:
            processes.write_cold_file(env.settings())
        version = planned_version(stored.body)
        if version is not None and stored.state == "applied" and not dry_run:
            code = _build_with(env, version[1], as_json=as_json)
        click.get_current_context().exit(code)

    if verb == "apply" and job is None:
        flag = click.option("--force", is_flag=True, help="Apply it although its checks failed.")
        flag(command)
    return command


@plans.command(
    "trial",
    epilog=output.example(
        "mnemolog plans trial 7HQ2 --days 14", "mnemolog plans trial 7HQ2 --stop"
    ),
)
@click.argument("plan", type=arguments.PLAN)
@click.option(
    "--days",
    type=click.IntRange(1, 365),
    default=14,
    show_default=True,
    help="How long it is tried.",
)
@click.option("--stop", is_flag=True, help="End it, and change nothing else.")
@output.json_option
@click.pass_obj
def try_plan(env: Environment, /, plan: str, days: int, stop: bool, as_json: bool) -> None:
    """Try a plan of settings beside what is set, in the same answers.

    Every recorded recall is answered both ways and the two answers are interleaved. What you or the
    agent then rate or follow speaks for the one that brought it: `plans show` counts that. It ends
    after some days, or when you apply or reject the plan.
    """
    from datetime import timedelta

    from store.home.errors import Conflict
    from store.home.instants import moment
    from store.plans import plans as stored_plans
    from store.plans import setting_changes

    with environment.open_log(env.settings()) as log:
        stored = stored_plans.find(log, plan)
        if stop:
            if not setting_changes.end_trial(log, stored.id):
                raise InvalidInput(f"plan {stored.id} is not being tried")
        elif stored.state != "waiting":
            raise Conflict(f"plan {stored.id} is {stored.state}: only a waiting one can be tried")
        else:
            until = moment(environment.now()).replace(microsecond=0) + timedelta(days=days)
            setting_changes.start_trial(log, stored.body, stored.id, until)
        print_plan(log, stored, as_json=as_json)


@plans.command(
    "reject", epilog=output.example('mnemolog plans reject 7HQ2 --reason "both are needed"')
)
@click.argument("plan", type=arguments.PLAN)
@arguments.reason_option
@output.json_option
@click.pass_obj
def reject_plan(env: Environment, /, plan: str, reason: str | None, as_json: bool) -> None:
    """Reject a plan: its steps are not proposed again."""
    from store.plans import plans as stored_plans
    from store.plans import proposals

    with environment.open_log(env.settings()) as log:
        id_ = stored_plans.find(log, plan).id
        proposals.reject(log, id_, environment.now(), reason)
        print_outcome(stored_plans.find(log, id_), as_json=as_json)


plans.add_command(plan_command("apply"))
plans.add_command(plan_command("undo"))


def print_plan(log: EventLog, plan: "Plan", *, as_json: bool) -> None:
    """Print a plan, for people or for programs."""
    from serve.evaluation.trial import count_credits
    from serve.reports.proposal_rendering import plan_fields, plan_lines
    from store.plans.setting_changes import trial_end
    from store.text.excerpt import plural

    credits = count_credits(log, plan) if plan.body.job == "settings" else None
    if as_json:
        output.emit(plan_fields(plan) | ({"trial": credits} if credits else {}))
        return
    for line in plan_lines(plan):
        output.say(output.clean(line))
    if (end := trial_end(log, plan.id)) is not None:
        output.say()
        output.say(f"tried beside what is set, until {end:%Y-%m-%d}")
    if credits is not None:
        votes = f"{credits.present:,} speak for what is set, {credits.planned:,} for the plan"
        output.say(
            f"{plural(credits.recalls, 'recall')} answered both ways: {votes} (sign test, "
            f"p = {credits.chance:.2g}): {credits.verdict}"
        )
    if (replay := plan.body.replay) is not None and replay.answers:
        from serve.cli.measure import print_answer

        output.say()
        more = f", the first {SHOWN}" if replay.changed > SHOWN else ""
        output.say(f"{replay.changed:,} answers change{more}:")
        for answer in replay.answers[:SHOWN]:
            output.say()
            print_answer(log, answer.recall, answer.before, answer.after)
        output.say()
    if plan.state == "waiting" and plan.failed:
        output.note(
            f"its checks failed: only `mnemolog plans apply {plan.id[:SHORT]} --force` does"
        )
    elif plan.state == "waiting":
        output.note(f"next: `mnemolog plans apply {plan.id[:SHORT]}`")
    elif plan.state == "applied":
        output.note(f"to undo it: `mnemolog plans undo {plan.id[:SHORT]}`")
    _note_when(plan)


def _build_with(env: Environment, version: str, *, as_json: bool) -> int:
    """Build with the version that a plan accepts, if it is running; return the exit code."""
    from serve.cli import processes
    from serve.evaluation import upgrade

    if upgrade.running() != version:
        output.note(f"it takes effect once mnemolog {version} is installed and builds")
        return 0
    code = processes.build(env.settings(), "--quick", quiet=as_json)
    if not code:
        output.note("restart the server, if it runs another version: `mnemolog stop`")
    return code


def _note_when(plan: "Plan") -> None:
    """Note when a new version takes effect, and the steps left to the user."""
    from store.plans.setting_changes import planned_version

    if (version := planned_version(plan.body)) is None:
        return
    before, after = (text.partition("+")[0] for text in version)
    if plan.state == "waiting":
        output.note(f"it takes effect once mnemolog {after} is installed and builds")
    elif plan.state == "undone":
        output.note(
            f"mnemolog itself is yours to put back: `pip install mnemolog=={before}`, or as "
            "you installed it; then `mnemolog build`"
        )


def print_outcome(plan: "Plan", *, as_json: bool) -> None:
    """Print the state of a plan; of a stale one, the reasons."""
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
    many = len(plan.body.steps)
    size = f"{many} steps" if many or not plan.events else f"{len(plan.events)} events"
    output.say(f"{plan.state}  {plan.body.job}, {size}")
    for reason in plan.because:
        output.say(f"         {output.clean(reason)}")
    _note_when(plan)

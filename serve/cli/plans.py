"""Commands for what waits for a decision: `plans` of jobs and `recommendations`."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.home.projects import check_project
from store.log.event_kinds import Job
from store.log.event_log import EventLog
from store.plans.recommendations import Recommendation

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
    """List what jobs and you proposed and its state, newest first."""
    if context.invoked_subcommand is not None:
        return
    from serve.reports.proposal_rendering import plan_fields
    from store.plans import plans as kept

    with environment.open_log(context.obj.settings()) as log:
        found = kept.every(log)
    if as_json:
        output.emit({"plans": [plan_fields(one) for one in found]})
    elif not found:
        output.say("nothing has been proposed yet")
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
    from store.plans import plans as kept
    from store.plans.setting_changes import configure_steps

    settings = env.settings()
    given = arguments.parse_settings(changes, profile)
    if upgrade and (given or yes):
        raise click.UsageError("--upgrade goes alone, or with --since and --limit")
    now = environment.now()
    start = micros(formatting.parse_time(since, now)) if since else None
    if upgrade:
        _propose_upgrade(settings, start, limit, now, as_json=as_json)
        return
    if not given:
        raise click.UsageError(
            "nothing to change: add --set KEY=VALUE, --profile PROFILE or --upgrade"
        )
    if "embedder" in given:
        given["embedder"] = absolute_name(settings, given["embedder"])
    steps = configure_steps(settings, given)
    if not steps:
        raise InvalidInput("these are the settings already: there is nothing to change")
    if "embedder" in given and not may_send(
        settings, given["embedder"], is_agreed=yes, can_ask=not as_json
    ):
        output.say("nothing was proposed")
        return
    with environment.open_log(settings) as log:
        asked = receipts.page(log, receipts.Wanted(since=start), limit, most=sys.maxsize).receipts
        tenant = environment.current_tenant(settings)
        if "embedder" in given:  # beside the vectors that answer: they are not made twice
            embed_ahead(settings, log, given["embedder"], quiet=as_json)
        planned = drift.settings_plan(settings, tenant, log, steps, asked, now)
        print_plan(log, kept.propose(log, planned, now), as_json=as_json)


def _propose_upgrade(
    settings: "Settings", start: int | None, limit: int, now: int, *, as_json: bool
) -> None:
    from serve.evaluation import upgrade
    from store.log import log_file
    from store.plans import plans as kept

    tenant = environment.current_tenant(settings)
    if tenant.log.exists() and log_file.is_older(tenant.log):
        raise InvalidInput(
            f"this version would change {tenant.log}, and no version before reads it then: try it "
            "on a copy, made with `mnemolog backup make` of the version that is installed"
        )
    with environment.open_log(settings) as log:
        asked = upgrade.list_earlier(log, limit, start, 20 * limit)
        if not asked:
            raise InvalidInput(
                f"every recall that is kept was answered by mnemolog {upgrade.running()}: there is "
                "nothing to compare"
            )
        planned = upgrade.upgrade_plan(settings, tenant, log, asked, now)
        if not planned.looked_at:
            raise InvalidInput(f"nothing can be compared: {'; '.join(planned.notes)}")
        print_plan(log, kept.propose(log, planned, now), as_json=as_json)


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
    from store.plans import plans as kept

    if report is not None:
        output.check_writable(report)
    with environment.open_log(env.settings()) as log:
        found = kept.find(log, plan)
        print_plan(log, found, as_json=as_json)
        if report is not None:
            lines = (f"{output.clean(line)}\n" for line in plan_markdown(log, found))
            output.write(report, "".join(lines).encode())


_PLAN_HELP = {
    "apply": (
        "Apply all of a plan or none; a plan whose memories have changed is refused.",
        "Only check whether it can still be applied.",
    ),
    "undo": (
        "Undo a plan: the memory is as before, and the same is not proposed again.",
        "Only check whether it was applied.",
    ),
}


def plan_command(verb: Literal["apply", "undo"], job: Job | None = None) -> click.Command:
    """Return the command that applies plans, or undoes them; with a job, only those it made."""
    does, dry = _PLAN_HELP[verb]

    @click.command(verb, help=does, epilog=output.example(f"mnemolog {job or 'plans'} {verb} 7HQ2"))
    @click.argument("plan", type=arguments.PLAN)
    @click.option("--dry-run", is_flag=True, help=dry)
    @output.json_option
    @click.pass_obj
    def command(
        env: Environment, /, plan: str, dry_run: bool, as_json: bool, force: bool = False
    ) -> None:
        from serve.cli.embedder_switch import make_true
        from store.plans import plans as kept
        from store.plans import proposals
        from store.plans.setting_changes import planned_embedder, planned_version

        with environment.open_log(env.settings()) as log:
            found = kept.find(log, plan)
            if job is not None and found.body.job != job:
                raise InvalidInput(
                    f"plan {found.id} belongs to {found.body.job}: "
                    f"run `mnemolog plans {verb} {plan}`"
                )
            if dry_run and verb == "apply" and found.failed and not force:
                kept.refuse(found)
            if not dry_run:
                act = partial(proposals.accept, force=force) if verb == "apply" else proposals.undo
                found = kept.find(log, act(log, found.id, environment.now()).id)
            code = 0
            name = planned_embedder(found.body.steps, is_undo=verb == "undo")
            if not dry_run and name is not None:
                code = make_true(env, log, name, quiet=as_json)
            print_outcome(found, as_json=as_json)
        version = planned_version(found.body)
        if version is not None and found.state == "applied" and not dry_run:
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
    from store.plans import plans as kept
    from store.plans import setting_changes

    with environment.open_log(env.settings()) as log:
        found = kept.find(log, plan)
        if stop:
            if not setting_changes.end_trial(log, found.id):
                raise InvalidInput(f"plan {found.id} is not being tried")
        elif found.state != "waiting":
            raise Conflict(f"plan {found.id} is {found.state}: only a waiting one can be tried")
        else:
            until = moment(environment.now()).replace(microsecond=0) + timedelta(days=days)
            setting_changes.start_trial(log, found.body, found.id, until)
        print_plan(log, found, as_json=as_json)


@plans.command(
    "reject", epilog=output.example('mnemolog plans reject 7HQ2 --reason "both are needed"')
)
@click.argument("plan", type=arguments.PLAN)
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def reject_plan(env: Environment, /, plan: str, reason: str | None, as_json: bool) -> None:
    """Reject a plan: its steps are not proposed again."""
    from store.plans import plans as kept
    from store.plans import proposals

    with environment.open_log(env.settings()) as log:
        id_ = kept.find(log, plan).id
        proposals.reject(log, id_, environment.now(), reason)
        print_outcome(kept.find(log, id_), as_json=as_json)


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
        left = replay.changed - SHOWN
        more = f", the first {SHOWN}" if left > 0 else ""
        output.say(f"{replay.changed:,} answers change{more}:")
        for one in replay.answers[:SHOWN]:
            output.say()
            print_answer(log, one.recall, one.before, one.after)
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
    """Build with the version that a plan accepts, where that is the one that runs; return the exit
    code.
    """
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
    """Say when a new version takes effect, and what is left to you."""
    from store.plans.setting_changes import planned_version

    if (version := planned_version(plan.body)) is None:
        return
    before, after = (one.partition("+")[0] for one in version)
    if plan.state == "waiting":
        output.note(f"it takes effect once mnemolog {after} is installed and builds")
    elif plan.state == "undone":
        output.note(
            f"mnemolog itself is yours to put back: `pip install mnemolog=={before}`, or as "
            "you installed it; then `mnemolog build`"
        )


def print_outcome(plan: "Plan", *, as_json: bool) -> None:
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
    _note_when(plan)


# recommendations


@click.group(
    invoke_without_command=True,
    epilog=output.example(
        "mnemolog recommendations --refresh", "mnemolog recommendations accept 7HQ2"
    ),
)
@click.option("--refresh", is_flag=True, help="Search for new ones first.")
@click.option("--dry-run", is_flag=True, help="With --refresh: only show new ones.")
@click.option(
    "--project",
    type=arguments.PROJECT,
    help="Only this project's and those without one; default: all.",
)
@click.option("--all", "is_all", is_flag=True, help="Include answered and outdated ones.")
@output.json_option
@click.pass_context
def recommendations(
    context: click.Context,
    /,
    refresh: bool,
    dry_run: bool,
    project: str | None,
    is_all: bool,
    as_json: bool,
) -> None:
    """List suggested changes that wait for your decision. A suggestion archives, merges, promotes
    or rephrases memories.

    Nothing changes without your decision, and what you reject is never proposed again.
    """
    if context.invoked_subcommand is not None:
        return
    if dry_run and not refresh:
        raise click.UsageError("--dry-run requires --refresh")
    if project is not None:
        check_project(project)
    new = _refresh(context.obj, project, dry_run=dry_run) if refresh else []
    if dry_run:
        _print_new(new, as_json=as_json)
        return
    from store.plans import recommendations as kept

    with environment.open_log(context.obj.settings()) as log:
        found = [
            recommendation_fields(one)
            for one in kept.every(log)
            if (is_all or one.state == "pending") and project in (None, one.project or project)
        ]
        if as_json:
            output.emit({"recommendations": found, "new": [one["id"] for one in new]})
        else:
            _print_recommendations(log, found)


@recommendations.command("show", epilog=output.example("mnemolog recommendations show 7HQ2"))
@click.argument("id_", metavar="ID", type=arguments.PROPOSAL)
@output.json_option
@click.pass_obj
def show_recommendation(env: Environment, /, id_: str, as_json: bool) -> None:
    """Show what a recommendation would do, as a diff. You can shorten its id."""
    from serve.reports.proposal_rendering import step_lines
    from store.plans import recommendations as kept

    with environment.open_log(env.settings()) as log:
        one = kept.find(log, id_)
    if as_json:
        output.emit(recommendation_fields(one))
        return
    output.say(f"{one.id}  {one.what}  {one.state}: {output.one_line(one.because, 160)}")
    for line in step_lines(one.change.steps):
        output.say(output.clean(line))


@recommendations.command("accept", epilog=output.example("mnemolog recommendations accept 7HQ2"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.PROPOSAL)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
@output.json_option
@click.pass_obj
def accept_recommendations(
    env: Environment, /, ids: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Accept: the change is applied as a plan, which `mnemolog plans undo` reverts."""
    from store.plans import proposals
    from store.plans import recommendations as kept

    with environment.open_log(env.settings()) as log:
        wanted = [kept.find(log, id_) for id_ in ids]
        if dry_run:
            _print_recommendations(
                log, [recommendation_fields(one) for one in wanted], as_json=as_json
            )
            return
        done = [proposals.accept(log, one.id, environment.now()) for one in wanted]
    if as_json:
        output.emit({"accepted": [{"id": one.id, "plan": one.plan} for one in done]})
        return
    for one, accepted in zip(wanted, done, strict=True):
        output.say(f"accepted {one.id[:SHORT]}: {one.what}, {len(accepted.made)} steps")
        output.note(f"to undo it: `mnemolog plans undo {str(accepted.plan)[:SHORT]}`")


@recommendations.command(
    "reject", epilog=output.example('mnemolog recommendations reject 7HQ2 --reason "rare"')
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.PROPOSAL)
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def reject_recommendations(
    env: Environment, /, ids: tuple[str, ...], reason: str | None, as_json: bool
) -> None:
    """Reject: the same is not proposed again."""
    from store.plans import proposals
    from store.plans import recommendations as kept

    with environment.open_log(env.settings()) as log:
        wanted = [kept.find(log, id_).id for id_ in ids]
        for id_ in wanted:
            proposals.reject(log, id_, environment.now(), reason)
    if as_json:
        output.emit({"rejected": wanted})
    else:
        output.say(f"rejected {', '.join(id_[:SHORT] for id_ in wanted)}")


def _refresh(env: Environment, project: str | None, *, dry_run: bool) -> list[dict[str, Any]]:
    """Look for new ones, in a process of its own; return them."""
    from serve.server import processes

    settings = env.settings()
    words = ["--tenant", environment.current_tenant(settings).name]
    words += ["--project", project] if project else []
    words += ["--dry-run"] if dry_run else []
    child = processes.start_job(settings, "recommend", *words, stdout=subprocess.PIPE)
    said, _ = child.communicate()
    if child.returncode:
        sys.exit(child.returncode)
    found: list[dict[str, Any]] = msgspec.json.decode(said)["recommendations"]
    return found


def _print_new(new: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        output.emit({"new": new})
        return
    for one in new:
        why = output.one_line(one["because"], 120)
        output.say(f"{one['what']}  {', '.join(one['source_ids'])}: {why}")
    if not new:
        output.say("no new recommendations")


def _print_recommendations(
    log: EventLog, found: list[dict[str, Any]], *, as_json: bool = False
) -> None:
    if as_json:
        output.emit({"recommendations": found})
        return
    if not found:
        output.say("no recommendations: `mnemolog recommendations --refresh` searches for them")
        return
    columns = ["id", "change", "memory", "because", "text"]
    if any(one["state"] != "pending" for one in found):
        columns.insert(2, "state")
    rows = [
        {
            "id": one["id"][:SHORT],
            "change": one["what"],
            "state": one["state"],
            "memory": output.short_id(log, one["source_ids"][0]),
            "because": output.one_line(one["because"], 80),
            "text": output.one_line(_subject_text(one), 200),
        }
        for one in found
    ]
    output.table(columns, [[row[name] for name in columns] for row in rows])
    output.note("next: `mnemolog recommendations show ID`, then `accept ID` or `reject ID`")


def _subject_text(one: dict[str, Any]) -> str:
    """Return the words a change is about: those of the memory that goes, or is changed."""
    said = (step.get("before", {}).get("content") for step in one["steps"])
    return next((words for words in said if words), "")


def recommendation_fields(one: Recommendation) -> dict[str, Any]:
    """Return a recommendation as JSON has it; `plan` is null unless it was accepted."""
    return {
        "id": one.id,
        "what": one.what,
        "state": one.state,
        "at": isoformat(one.at),
        "project": one.project,
        "because": one.because,
        "source_ids": list(one.source_ids),
        "steps": msgspec.to_builtins(one.change.steps),
        "plan": one.plan,
    }

"""
Commands that run a job: `consolidate`, `distill`, `importance`, `judge`, `reflect`, `archive`.

Each job runs as a process of its own and makes a plan, which is then shown from the log.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from serve.cli import environment, output
from serve.cli.environment import Environment
from serve.cli.plans import SHORT, plan_command, print_outcome, print_plan
from serve.server import processes
from store.log.event_kinds import Job
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from store.plans.plans import Plan


Command = TypeVar("Command", bound=Callable[..., Any])


def job_options(command: Command) -> Command:
    """Add what every job's command takes."""
    for add in (
        output.json_option,
        click.option("--estimate", is_flag=True, help="Print what a model would cost, and stop."),
        click.option("--no-model", is_flag=True, help="Do not use a model, even if one is set."),
        click.option("--project", help="Only this project's memories and those without one."),
        click.option("--dry-run", is_flag=True, help="Only make the plan."),
    ):
        command = add(command)
    return command


def run_job(
    env: Environment,
    job: Job,
    *,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
    words: Sequence[str] = (),
) -> None:
    """Run a job and show its plan; its progress goes to standard error.

    `words` are what else it is told on its command line.
    """
    settings = env.settings()
    tenant = environment.chosen_tenant(settings)
    given = {"--no-model": no_model, "--estimate": estimate, "--apply": not dry_run}
    words = [*words, *(word for word, is_given in given.items() if is_given)]
    words += ["--project", project] if project else []
    words += ["--root", str(Path.cwd())]
    child = processes.start_job(
        settings, "run", job, "--json", "--tenant", tenant.name, *words, stdout=subprocess.PIPE
    )
    said, _ = child.communicate()
    if child.returncode:
        if as_json:
            click.echo(said, nl=False)  # the error, as all errors are told to programs
        sys.exit(child.returncode)
    told: dict[str, Any] = msgspec.json.decode(said)
    print_job_result(env, told, as_json=as_json)


def print_job_result(env: Environment, told: dict[str, Any], *, as_json: bool) -> None:
    """Print what a job told: its plan, from the log, or its estimate."""
    from store.plans import plans

    if "estimate" in told:
        if as_json:
            output.emit(told)
        else:
            _print_estimate(told["estimate"])
        return
    id_ = told.get("plan")
    if id_ is None:
        if as_json:
            output.emit(told)
        else:
            output.say("nothing to do")
        return
    with environment.open_log(env.settings()) as log:
        print_plan(log, plans.find(log, id_), as_json=as_json)


def _print_estimate(told: dict[str, Any]) -> None:
    """Print what a run would ask of models at most, and what the budget leaves."""
    for note in told["notes"]:
        output.say(output.clean(note))
    if not told["calls"]:
        output.say("a run makes no model calls")
        return
    rows = [
        (
            tier,
            output.one_line(one["model"]),
            f"{one['calls']:,}",
            f"{one['prompt_tokens'] + one['answer_tokens']:,}",
            _dollars(one["usd_at_most"]),
        )
        for tier, one in told["tiers"].items()
    ]
    output.table(("tier", "model", "calls", "tokens at most", "dollars at most"), rows)
    left = ", ".join(
        f"llm.{name} {_dollars(room) if name.startswith('usd') else f'{room:,.0f}'}"
        for name, room in told["left"].items()
        if room is not None
    )
    if left:
        output.say(f"left: {left}")
    if not told["fits"]:
        output.say("the budget may be spent before the job is done: its results so far are kept")


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


# consolidate

_CONSOLIDATE: Job = "consolidate"


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog consolidate", "mnemolog consolidate apply 7HQ2"),
)
@job_options
@click.pass_context
def consolidate(context: click.Context, /, **options: Any) -> None:
    """Find duplicates, corrections and outdated memories. The default is `preview`.

    Nothing changes before `apply`, and `undo` reverts it.
    """
    if context.invoked_subcommand is None:
        run_job(context.obj, _CONSOLIDATE, **options | {"dry_run": True})


@consolidate.command(epilog=output.example("mnemolog consolidate preview --project acme/web"))
@job_options
@click.pass_obj
def preview(env: Environment, /, **options: Any) -> None:
    """Make a plan and show it as a diff; nothing is changed."""
    run_job(env, _CONSOLIDATE, **options | {"dry_run": True})


@consolidate.command(epilog=output.example("mnemolog consolidate review"))
@output.json_option
@click.pass_obj
def review(env: Environment, /, as_json: bool) -> None:
    """Show each waiting plan step by step; on a terminal, ask what to do with it."""
    from serve.reports.proposals import plan_fields
    from store.plans import plans as kept

    with environment.open_log(env.settings()) as log:
        found = [one for one in kept.every(log) if one.body.job == _CONSOLIDATE]
        waiting = [one for one in found if one.state in ("waiting", "stale")]
        if as_json:
            output.emit({"plans": [plan_fields(one) for one in waiting]})
            return
        if not waiting:
            output.say("no plan is waiting: `mnemolog consolidate` makes one")
        for plan in waiting:
            if plan.state == "waiting" and sys.stdin.isatty() and sys.stdout.isatty():
                _ask_about(log, plan)
            else:
                print_plan(log, plan, as_json=False)


def _ask_about(log: EventLog, plan: "Plan") -> None:
    """Ask a person what to do with a plan, until that is known."""
    from store.plans import plans as kept

    steps = len(plan.body.steps)
    output.say(f"plan {plan.id[:SHORT]}: {steps} steps of {plan.body.looked_at:,} memories")
    while True:
        answer = click.prompt("apply, leave or details", default="details", show_default=True)
        if "details".startswith(answer):
            print_plan(log, plan, as_json=False)
        elif "apply".startswith(answer):
            print_outcome(kept.apply(log, plan.id, environment.now()), as_json=False)
            return
        elif "leave".startswith(answer):
            return


consolidate.add_command(plan_command("apply", _CONSOLIDATE))
consolidate.add_command(plan_command("undo", _CONSOLIDATE))


# distill, importance, judge, reflect


@click.command(
    epilog=output.example("mnemolog distill --dry-run", "mnemolog distill --session 7f3a")
)
@click.option("--session", "of_session", metavar="ID", help="Learn only from this session.")
@job_options
@click.pass_obj
def distill(
    env: Environment,
    /,
    of_session: str | None,
    **options: Any,
) -> None:
    """Learn from past sessions. It finds failures and their fixes, your corrections and decisions.

    Lessons about files that have changed since become stale and are no longer shown.
    """
    run_job(env, "distill", words=("--session", of_session) if of_session else (), **options)


@click.command(
    epilog=output.example("mnemolog importance --dry-run", "mnemolog importance --estimate")
)
@job_options
@click.pass_obj
def importance(env: Environment, /, **options: Any) -> None:
    """Revise importance that nobody set.

    It uses ratings, dependent memories and, a little, how often they are recalled; with a model
    also its judgment. An importance that was recorded explicitly is kept. The plan can be undone.
    """
    run_job(env, "importance", **options)


@click.command(epilog=output.example("mnemolog judge --dry-run", "mnemolog judge"))
@job_options
@click.pass_obj
def judge(env: Environment, /, **options: Any) -> None:
    """Judge unrated recalls by what was done afterwards. The two hours after a recall count.

    A memory helped if a file it names was edited, its command was run, or its lesson was followed.
    It did not help if it was returned repeatedly and never used. Your own rating weighs five times
    as much.
    """
    run_job(env, "judge", **options)


@click.command(epilog=output.example("mnemolog reflect", "mnemolog plans apply 7HQ2"))
@job_options
@click.pass_obj
def reflect(env: Environment, /, **options: Any) -> None:
    """Propose insights from several memories. They come from similarities, repetitions and causes.

    Nothing is recorded before you accept it with `mnemolog plans apply ID`. Commits and the turns
    of agents are ignored.

    Each insight names its sources and becomes stale as soon as one of them is forgotten or
    replaced. Recall returns the sources; `--kind insight` returns the insights themselves.
    """
    run_job(env, "reflect", **options | {"dry_run": True})


# archive


@click.command(
    epilog=output.example(
        "mnemolog archive --dry-run",
        "mnemolog archive",
        'mnemolog recall --cold "the old bucket"   # restore ID brings one back',
        "mnemolog archive --compact --dry-run",
    )
)
@click.option(
    "--compact", is_flag=True, help="Move receipts over 90 days old out of the log instead."
)
@job_options
@click.pass_obj
def archive(
    env: Environment,
    /,
    compact: bool,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Archive memories that are cold or expired.

    A memory is cold if nobody recalled or changed it for 180 days while others of its project were
    used. Memories that are pinned, rated helpful, the value of a key, a rule, decision or goal, or
    a source of a live memory are never cold. Archived memories are also written as Parquet, to the
    tenant's `cold/memories`.

    With --compact, receipts and hook records over 90 days old move from the log's file to Parquet
    in `cold/log`, and the file shrinks. They stay readable: `cold/log` is part of the log, and
    `mnemolog backup` includes both.
    """
    if compact:
        if project or estimate:
            raise click.UsageError("--compact works on the whole log: omit the other options")
        words = ["--compact", *(["--dry-run"] if dry_run else [])]
        _print_compaction(write_archive(env, *words)["compacted"], dry_run=dry_run, as_json=as_json)
        return
    run_job(
        env,
        "archive",
        dry_run=dry_run,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )
    if not dry_run and not estimate:
        found = write_archive(env)["cold"]
        counts = ", ".join(f"{count} {state}" for state, count in found["memories"].items())
        output.note(f"cold: {counts or 'nothing'} in {found['path']}")


def write_archive(env: Environment, *words: str) -> dict[str, Any]:
    """Have the files below `cold/` written by a process of its own; return what it says."""
    settings = env.settings()
    name = environment.chosen_tenant(settings).name
    child = processes.start_job(settings, "cold", "--tenant", name, *words, stdout=subprocess.PIPE)
    said, _ = child.communicate()
    if child.returncode:
        sys.exit(child.returncode)
    told: dict[str, Any] = msgspec.json.decode(said)
    return told


def _print_compaction(done: dict[str, Any], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.emit(done)
        return
    size = f"{done['events']:,} receipts, {done['bytes']:,} bytes"
    if not done["events"]:
        output.say("nothing to move: no receipt is over 90 days old, or too few are")
    elif dry_run:
        output.say(f"{size} would leave the log's file")
    else:
        output.say(f"{size}, moved to {', '.join(done['segments'])}")
        output.say(f"the log's file: {done['bytes_before']:,} -> {done['bytes_after']:,} bytes")
        if not done["is_settled"]:
            output.note("note: the log was in use; its file will shrink next time")

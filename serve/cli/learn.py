"""
Commands that run a job, made from a table with a row for each, and `consolidate review`.

Each job runs as a process of its own and makes a plan, which is then shown from the log.
"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.cli.plans import SHORT, plan_command, print_outcome, print_plan
from serve.cli.processes import read_job, write_cold_file
from serve.server import processes
from store.log.event_kinds import Job
from store.log.event_log import EventLog
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.plans.plans import Plan


def run_job(
    env: Environment,
    job: Job,
    *,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
    **own: str | None,
) -> None:
    """Run a job and show its plan; its progress goes to standard error.

    `own` are options of this job alone, passed on under their names.
    """
    settings = env.settings()
    tenant = environment.current_tenant(settings)
    flags = {"--no-model": no_model, "--estimate": estimate, "--apply": not dry_run}
    words = [word for name, value in own.items() if value for word in (f"--{name}", value)]
    words += [flag for flag, is_set in flags.items() if is_set]
    words += ["--project", project] if project else []
    words += ["--root", str(Path.cwd())]
    child = processes.start_job(
        settings, "run", job, "--json", "--tenant", tenant.name, *words, stdout=subprocess.PIPE
    )
    data, _ = child.communicate()
    if child.returncode:
        if as_json:
            click.echo(data, nl=False)  # the error, in the form that programs get
        sys.exit(child.returncode)
    payload: dict[str, Any] = msgspec.json.decode(data)
    id_ = payload.get("plan")
    if id_ is not None:
        from store.plans import plans

        with environment.open_log(env.settings()) as log:
            print_plan(log, plans.find(log, id_), as_json=as_json)
    elif as_json:
        output.emit(payload)
    elif "estimate" in payload:
        _print_estimate(payload["estimate"])
    else:
        output.say("nothing to do")


def _print_estimate(payload: dict[str, Any]) -> None:
    """Print the maximum model usage of a run, and the rest of the budget."""
    for note in payload["notes"]:
        output.say(output.clean(note))
    if not payload["calls"]:
        output.say("a run makes no model calls")
        return
    rows = [
        (
            tier,
            output.one_line(estimate["model"]),
            f"{estimate['calls']:,}",
            f"{estimate['prompt_tokens'] + estimate['answer_tokens']:,}",
            _dollars(estimate["usd_at_most"]),
        )
        for tier, estimate in payload["tiers"].items()
    ]
    output.table(("tier", "model", "calls", "tokens at most", "dollars at most"), rows)
    left = ", ".join(
        f"llm.{name} {_dollars(room) if name.startswith('usd') else f'{room:,.0f}'}"
        for name, room in payload["left"].items()
        if room is not None
    )
    if left:
        output.say(f"left: {left}")
    if not payload["fits"]:
        output.say("the budget may be spent before the job is done: its results so far are kept")


def _dollars(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _run_archive(
    env: Environment, job: Job, *, compact: bool, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Propose memories to archive and write the cold file; with `compact`, only shrink the log."""
    if compact:
        if options["project"] or options["estimate"]:
            raise click.UsageError("--compact works on the whole log: omit the other options")
        words = ["--compact", *(["--dry-run"] if dry_run else [])]
        moved = read_job(env.settings(), "cold", *words)["compacted"]
        _print_compaction(moved, dry_run=dry_run, as_json=as_json)
        return
    run_job(env, job, dry_run=True, as_json=as_json, **options)
    if not dry_run and not options["estimate"]:
        write_cold_file(env.settings())


def _print_compaction(moved: dict[str, Any], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.emit(moved)
        return
    size = f"{moved['events']:,} receipts, {moved['bytes']:,} bytes"
    if not moved["events"]:
        output.say("nothing to move: no receipt is over 90 days old, or too few are")
    elif dry_run:
        output.say(f"{size} would leave the log's file")
    else:
        output.say(f"{size}, moved to {', '.join(moved['segments'])}")
        output.say(f"the log's file: {moved['bytes_before']:,} -> {moved['bytes_after']:,} bytes")
        if not moved["is_settled"]:
            output.note("note: the log was in use; its file will shrink next time")


# The table


class JobCommand(msgspec.Struct, frozen=True):
    """A row. `name` is the command's if it differs from the job's; `option` is its own option.

    A group runs the job unless a subcommand is given. With `only_plans` nothing is applied.
    """

    job: Job
    help: str
    examples: tuple[str, ...]
    name: str = ""
    option: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda command: command
    is_group: bool = False
    only_plans: bool = False
    run: Callable[..., None] = run_job


_ROWS = (
    JobCommand(
        "archive",
        """Propose to archive memories that are cold or expired.

        Nothing is archived before you accept it with `mnemolog plans apply ID`. A memory is cold
        if for 180 days, counted from its arrival, nobody recalled or changed it while others of
        its project were used. Memories that are pinned, rated helpful, the value of a key, a rule,
        decision or goal, or a source of a live memory are never cold. Archived memories are also
        written as Parquet, to the tenant's `cold/memories`.

        With --compact, receipts and hook records over 90 days old move from the log's file to
        Parquet in `cold/log`, and the file shrinks. They stay readable: `cold/log` is part of the
        log, and `mnemolog backup` includes both.
        """,
        (
            "mnemolog archive",
            "mnemolog plans apply 7HQ2",
            'mnemolog recall --cold "the old bucket"   # restore ID brings one back',
            "mnemolog archive --compact --dry-run",
        ),
        option=click.option(
            "--compact", is_flag=True, help="Move receipts over 90 days old out of the log instead."
        ),
        run=_run_archive,
    ),
    JobCommand(
        "consolidate",
        """Find duplicates, corrections and outdated memories. The default is `preview`.

        Nothing changes before `apply`, and `undo` reverts it.
        """,
        ("mnemolog consolidate", "mnemolog consolidate apply 7HQ2"),
        is_group=True,
        only_plans=True,
    ),
    JobCommand(
        "consolidate",
        "Make a plan and show it as a diff; nothing is changed.",
        ("mnemolog consolidate preview --project acme/web",),
        name="preview",
        only_plans=True,
    ),
    JobCommand(
        "distill",
        """Learn from past sessions. It finds failures and their fixes, your corrections and
        decisions. A model, if one is set, also says which sentences of yours hold beyond their day.

        It applies its plan at once; `mnemolog plans undo ID` reverts it. With --dry-run the plan
        waits for `mnemolog plans apply`. Lessons about files that have changed since become stale
        and are no longer shown.
        """,
        ("mnemolog distill --dry-run", "mnemolog distill --session 7f3a"),
        option=click.option("--session", metavar="ID", help="Learn only from this session."),
    ),
    JobCommand(
        "facts",
        """Extract facts from turns and notes. Examples are "the API runs on port 8080" and "billing
        is owned by Priya".

        Only plain assertions count, and each turn is read once. A new value replaces the older one,
        but never one that you recorded by hand.
        """,
        ("mnemolog facts --dry-run", "mnemolog facts list api-server"),
        is_group=True,
    ),
    JobCommand(
        "importance",
        """Revise importance that nobody set.

        It uses ratings, dependent memories and, a little, how often they are recalled; with a model
        also its judgment. An importance that was recorded explicitly is kept. The plan can be
        undone.
        """,
        ("mnemolog importance --dry-run", "mnemolog importance --estimate"),
    ),
    JobCommand(
        "judge",
        """Judge unrated recalls by what was done afterwards. The two hours after a recall count.

        A memory helped if a file it names was edited, its command was run, or its lesson was
        followed. It did not help if it was returned repeatedly and never used. Your own rating
        weighs five times as much.
        """,
        ("mnemolog judge --dry-run", "mnemolog judge"),
    ),
    JobCommand(
        "reflect",
        """Propose insights from several memories. They come from similarities, repetitions and
        causes.

        Nothing is recorded before you accept it with `mnemolog plans apply ID`. Commits and the
        turns of agents are ignored.

        Each insight names its sources and becomes stale as soon as one of them is forgotten or
        replaced. Recall returns the sources; `--kind insight` returns the insights themselves.
        """,
        ("mnemolog reflect", "mnemolog plans apply 7HQ2"),
        only_plans=True,
    ),
    JobCommand(
        "route",
        """Serve a better policy if the log shows no loss; otherwise print the reason.

        The plan shows which of your past answers the policy changes, and waits for you if too many
        would. It takes effect at once; `mnemolog plans undo` restores the previous policy.
        """,
        ("mnemolog routes learn --dry-run", "mnemolog routes learn"),
        name="learn",
    ),
)


def _job_command(row: JobCommand) -> click.Command:
    @click.pass_context
    def run(context: click.Context, /, **options: Any) -> None:
        if context.invoked_subcommand is None:
            always = {"dry_run": True} if row.only_plans else {}
            row.run(context.obj, row.job, **options | always)

    for add in (
        output.json_option,
        click.option("--estimate", is_flag=True, help="Print what a model would cost, and stop."),
        click.option("--no-model", is_flag=True, help="Do not use a model, even if one is set."),
        click.option(
            "--project",
            type=arguments.PROJECT,
            help="Only this project's memories and those without one.",
        ),
        click.option("--dry-run", is_flag=True, help="Only make the plan."),
        row.option,
    ):
        run = add(run)
    kind = partial(click.group, invoke_without_command=True) if row.is_group else click.command
    command: click.Command = kind(
        row.name or row.job, help=row.help, epilog=output.example(*row.examples)
    )(run)
    return command


JOB_COMMANDS = {row.name or row.job: _job_command(row) for row in _ROWS}


def job_group(job: Job) -> click.Group:
    """Return the command of a job that has subcommands."""
    group = JOB_COMMANDS[job]
    assert isinstance(group, click.Group)
    return group


# consolidate

consolidate = job_group("consolidate")
consolidate.add_command(JOB_COMMANDS["preview"])


@consolidate.command(epilog=output.example("mnemolog consolidate review"))
@output.json_option
@click.pass_obj
def review(env: Environment, /, as_json: bool) -> None:
    """Show each waiting plan step by step; on a terminal, ask what to do with it."""
    from serve.reports.proposal_rendering import plan_fields
    from store.plans import plans

    with environment.open_log(env.settings()) as log:
        waiting = [
            plan
            for plan in plans.every(log)
            if plan.body.job == "consolidate" and plan.state in ("waiting", "stale")
        ]
        if as_json:
            output.emit({"plans": list(map(plan_fields, waiting))})
            return
        if not waiting:
            output.say("no plan is waiting: `mnemolog consolidate` makes one")
        for plan in waiting:
            if plan.state == "waiting" and environment.can_ask():
                _ask_about(log, plan)
            else:
                print_plan(log, plan, as_json=False)


def _ask_about(log: EventLog, plan: "Plan") -> None:
    """Ask a person what to do with a plan, until they apply or leave it."""
    from store.plans import plans

    steps, of = plural(len(plan.body.steps), "step"), plural(plan.body.looked_at, "memory")
    output.say(f"plan {plan.id[:SHORT]}: {steps} of {of}")
    while True:
        answer = click.prompt("apply, leave or details", default="details", show_default=True)
        if "details".startswith(answer):
            print_plan(log, plan, as_json=False)
        elif "apply".startswith(answer):
            applied = plans.apply(log, plan.id, environment.now(), accepted=True)
            print_outcome(applied, as_json=False)
            return
        elif "leave".startswith(answer):
            return


consolidate.add_command(plan_command("apply", "consolidate"))
consolidate.add_command(plan_command("undo", "consolidate"))

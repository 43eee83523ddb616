"""
What the commands of jobs share: the job runs as a process of its own, its plan is shown from the
log.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from serve.cli import output, session
from serve.cli.session import Session
from serve.server import processes
from store.job_events import Job

Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
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


def run(
    session_: Session,
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
    settings = session_.settings()
    tenant = session.chosen(settings)
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
    show(session_, told, as_json=as_json)


def show(session_: Session, told: dict[str, Any], *, as_json: bool) -> None:
    """Print what a job told: its plan, from the log, or its estimate."""
    from serve.cli.plans import print_plan
    from store.plans import plans

    if "estimate" in told:
        if as_json:
            output.emit(told)
        else:
            _show_estimate(told["estimate"])
        return
    id_ = told.get("plan")
    if id_ is None:
        if as_json:
            output.emit(told)
        else:
            output.say("nothing to do")
        return
    with session.open_log(session_.settings()) as log:
        print_plan(log, plans.find(log, id_), as_json=as_json)


def _show_estimate(told: dict[str, Any]) -> None:
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

"""`mnemolog judge`: how recalls nobody rated turned out, by what was done after them."""

import click

from serve.cli import jobs, output
from serve.cli.session import Session


@click.command(epilog=output.example("mnemolog judge --dry-run", "mnemolog judge"))
@jobs.options
@click.pass_obj
def judge(
    session_: Session,
    /,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Judge unrated recalls by what was done afterwards. The two hours after a recall count.

    A memory helped if a file it names was edited, its command was run, or its lesson was followed.
    It did not help if it was returned repeatedly and never used. Your own rating weighs five times
    as much.
    """
    jobs.run(
        session_,
        "judge",
        dry_run=dry_run,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )

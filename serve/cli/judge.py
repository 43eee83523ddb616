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
    """Judge the recalls that wait for a word by what was done in the two hours after them.

    A file that a memory names was edited, its command was run, its lesson was followed: it helped.
    What came again and again and was never used did not. A rating of yours weighs five times as
    much.
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

"""`mnemolog distill`: sessions become lessons, failures and decisions."""

import click

from serve.cli import jobs, output
from serve.cli.session import Session


@click.command(
    epilog=output.example("mnemolog distill --dry-run", "mnemolog distill --session 7f3a")
)
@click.option("--session", "of_session", metavar="ID", help="Learn only from this session.")
@jobs.options
@click.pass_obj
def distill(
    session_: Session,
    /,
    of_session: str | None,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Learn from past sessions. It finds failures and their fixes, your corrections and decisions.

    Lessons about files that have changed since become stale and are no longer shown.
    """
    jobs.run(
        session_,
        "distill",
        dry_run=dry_run,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
        words=("--session", of_session) if of_session else (),
    )

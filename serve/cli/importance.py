"""`mnemolog importance`: how much memories turned out to matter."""

import click

from serve.cli import jobs, output
from serve.cli.session import Session


@click.command(
    epilog=output.example("mnemolog importance --dry-run", "mnemolog importance --estimate")
)
@jobs.options
@click.pass_obj
def importance(
    session_: Session,
    /,
    *,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Revise importance that nobody set.

    It uses ratings, dependent memories and, a little, how often they are recalled; with a model
    also its judgment. An importance that was recorded explicitly is kept. The plan can be undone.
    """
    jobs.run(
        session_,
        "importance",
        dry_run=dry_run,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )

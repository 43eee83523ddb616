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
    """Revise how much memories matter, where nobody said how much.

    By ratings, by what rests on them, a little by use; with a model, by what it says too. One that
    was recorded with an importance keeps it. The plan can be undone.
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

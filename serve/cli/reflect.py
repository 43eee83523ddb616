"""`mnemolog reflect`: what several memories say together."""

import click

from serve.cli import jobs, output
from serve.cli.session import Session


@click.command(epilog=output.example("mnemolog reflect", "mnemolog plans apply 7HQ2"))
@jobs.options
@click.pass_obj
def reflect(
    session_: Session,
    /,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Propose what several memories say together: what is alike, comes back, or led to what.

    Nothing is noted before your yes: `mnemolog plans apply ID`. Commits and the turns of agents are
    not looked at.

    Each insight names its sources and is stale as soon as one of them is forgotten or replaced.
    Recall answers with the sources; `--kind insight` asks for insights themselves.
    """
    jobs.run(
        session_,
        "reflect",
        dry_run=True,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )

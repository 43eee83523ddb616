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
    """Propose insights from several memories. They come from similarities, repetitions and causes.

    Nothing is recorded before you accept it with `mnemolog plans apply ID`. Commits and the turns
    of agents are ignored.

    Each insight names its sources and becomes stale as soon as one of them is forgotten or
    replaced. Recall returns the sources; `--kind insight` returns the insights themselves.
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

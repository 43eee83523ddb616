"""
The command line `mnemolog`: each command parses, calls one function of ours and prints.

Nothing heavy is imported before a command needs it, so that `mnemolog --help` and the shell's
completion answer at once.
"""

from importlib.metadata import PackageNotFoundError, version

import click

from serve.cli import (
    canaries,
    changes,
    embedder,
    evaluate,
    history,
    imports,
    memories,
    overview,
    processes,
    recall,
    record,
    status,
    upkeep,
)
from serve.cli.group import Commands
from serve.cli.session import Session

_EPILOG = """\b
Example:
  mnemolog record "Deploys go out from eu-west-1 only" --kind decision
  mnemolog recall where do deploys go out from

\b
Shell completion:
  eval "$(_MNEMOLOG_COMPLETE=bash_source mnemolog)"    # or zsh_source; put it into ~/.bashrc
  _MNEMOLOG_COMPLETE=fish_source mnemolog | source     # for fish
"""


def _version() -> str:
    try:
        return version("mnemolog")
    except PackageNotFoundError:
        return "not installed"


@click.group(cls=Commands, epilog=_EPILOG, invoke_without_command=True)
@click.option("--tenant", help="Which memory; else `tenant` of the settings.")
@click.option("--home", help="Where the memories lie; else MNEMOLOG_HOME.")
@click.version_option(_version(), prog_name="mnemolog")
@click.pass_context
def main(context: click.Context, tenant: str | None, home: str | None) -> None:
    """A long-term memory for coding agents that stays on this machine."""
    context.obj = Session(home, tenant)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    upkeep.init,
    record.record,
    imports.import_,
    imports.export,
    processes.build_command,
    recall.recall,
    recall.why,
    memories.show,
    memories.list_,
    history.history,
    overview.overview,
    overview.timeline,
    changes.forget,
    changes.restore,
    changes.pin,
    changes.goal,
    changes.link,
    changes.supersede,
    processes.serve,
    processes.ui,
    status.status,
    upkeep.verify,
    upkeep.doctor,
    evaluate.evaluate,
    embedder.embedder,
    canaries.canaries_command,
):
    main.add_command(_command)

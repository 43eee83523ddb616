"""
The command line `mnemolog`: each command parses, calls one function of ours and prints.

Nothing heavy is imported before a command needs it, so that `mnemolog --help` and the shell's
completion answer at once.
"""

import click

from serve.cli.environment import Environment
from serve.cli.group import Commands

_JOBS = ("archive", "consolidate", "distill", "importance", "judge", "reflect")
_COMMANDS = {
    "init": "upkeep.init",
    "record": "write.record",
    "import": "transfer.import_",
    "export": "transfer.export",
    "ingest": "ingest.ingest",
    "build": "processes.build_command",
    "recall": "ask.recall",
    "why": "ask.why",
    "rate": "ask.rate",
    "pending": "ask.pending",
    "show": "read.show",
    "list": "read.list_",
    "history": "read.history",
    "facts": "knowledge.facts",
    "conflicts": "knowledge.conflicts",
    "overview": "overviews.overview",
    "timeline": "overviews.timeline",
    "digest": "overviews.digest",
    "brief": "overviews.brief",
    "goals": "overviews.goals",
    "forget": "write.forget",
    "restore": "write.restore",
    "quarantine": "erase.quarantine_command",
    "erase": "erase.erase",
    "pin": "write.pin",
    "goal": "write.goal",
    "link": "write.link",
    "supersede": "write.supersede",
    "lessons": "agents.lessons",
    **dict.fromkeys(_JOBS, "learn.JOB_COMMANDS"),
    "routes": "knowledge.routes",
    "plans": "plans.plans",
    "recommendations": "plans.recommendations",
    "jobs": "schedule.jobs",
    "backup": "upkeep.backup",
    "tenants": "team.tenants",
    "tokens": "team.tokens",
    "connect": "agents.connect",
    "disconnect": "agents.disconnect",
    "plugin": "agents.plugin",
    "serve": "processes.serve",
    "start": "processes.start",
    "stop": "processes.stop",
    "dashboard": "processes.dashboard",
    "hook": "agents.hook",
    "mcp": "agents.mcp",
    "ui": "processes.ui",
    "project": "projects.project",
    "pause": "projects.pause",
    "resume": "projects.resume",
    "status": "status.status",
    "stats": "status.stats",
    "verify": "upkeep.verify",
    "doctor": "upkeep.doctor",
    "eval": "measure.evaluate",
    "embedder": "embedder.embedder",
    "canaries": "measure.canaries_command",
    "selftest": "measure.selftest",
}

_EPILOG = """\b
Example:
  mnemolog record "Deploys go out from eu-west-1 only" --kind decision
  mnemolog recall where do deploys go out from

\b
Shell completion:
  eval "$(_MNEMOLOG_COMPLETE=bash_source mnemolog)"    # or zsh_source; add it to ~/.bashrc
  _MNEMOLOG_COMPLETE=fish_source mnemolog | source     # for fish
"""


def _print_version(context: click.Context, option: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from serve import version

        click.echo(f"mnemolog, version {version()}")
        context.exit()


@click.group(cls=Commands, places=_COMMANDS, epilog=_EPILOG, invoke_without_command=True)
@click.option("--tenant", help="The tenant; default: `tenant` in the settings.")
@click.option("--home", help="The data folder; default: MNEMOLOG_HOME.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(context: click.Context, tenant: str | None, home: str | None) -> None:
    """A long-term memory for coding agents that stays on this machine."""
    context.obj = Environment(home, tenant)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())

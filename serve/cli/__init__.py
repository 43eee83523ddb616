"""
The command line `mnemolog`: each command parses, calls one function of ours and prints.

Nothing heavy is imported before a command needs it, so that `mnemolog --help` and the shell's
completion answer at once.
"""

import click

from serve.cli.group import Commands
from serve.cli.session import Session

_COMMANDS = {
    "init": "upkeep.init",
    "record": "record.record",
    "import": "imports.import_",
    "export": "imports.export",
    "ingest": "ingest.ingest",
    "build": "processes.build_command",
    "recall": "recall.recall",
    "why": "recall.why",
    "rate": "rate.rate",
    "pending": "pending.pending",
    "show": "memories.show",
    "list": "memories.list_",
    "history": "history.history",
    "facts": "facts.facts",
    "conflicts": "conflicts.conflicts",
    "overview": "overview.overview",
    "timeline": "overview.timeline",
    "digest": "digest.digest",
    "brief": "digest.brief",
    "goals": "digest.goals",
    "forget": "changes.forget",
    "restore": "changes.restore",
    "quarantine": "quarantine.quarantine_command",
    "erase": "erase.erase",
    "pin": "changes.pin",
    "goal": "changes.goal",
    "link": "changes.link",
    "supersede": "changes.supersede",
    "lessons": "lessons.lessons",
    "importance": "importance.importance",
    "distill": "distill.distill",
    "archive": "archive.archive",
    "consolidate": "consolidate.consolidate",
    "judge": "judge.judge",
    "routes": "routes.routes",
    "plans": "plans.plans",
    "reflect": "reflect.reflect",
    "recommendations": "recommendations.recommendations",
    "jobs": "roster.jobs",
    "backup": "backup.backup",
    "tenants": "tenants.tenants",
    "tokens": "tokens.tokens",
    "connect": "connect.connect",
    "disconnect": "connect.disconnect",
    "plugin": "connect.plugin",
    "serve": "processes.serve",
    "start": "daemon.start",
    "stop": "daemon.stop",
    "dashboard": "dashboard.dashboard",
    "hook": "hook.hook",
    "mcp": "mcp.mcp",
    "ui": "processes.ui",
    "project": "project.project",
    "pause": "pause.pause",
    "resume": "pause.resume",
    "status": "status.status",
    "stats": "stats.stats",
    "verify": "upkeep.verify",
    "doctor": "upkeep.doctor",
    "eval": "evaluate.evaluate",
    "embedder": "embedder.embedder",
    "canaries": "canaries.canaries_command",
    "selftest": "selftest.selftest",
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
        from serve.version import version

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
    context.obj = Session(home, tenant)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())

"""
The command line `mnemolog`: each command parses, calls one function of ours and prints.

Nothing heavy is imported before a command needs it, so that `mnemolog --help` and the shell's
completion answer at once.
"""

import click

from serve.cli import arguments, output
from serve.cli.environment import Environment
from serve.cli.group import Commands, Sections
from store.home.config import wants_no_colour

_ADMIN: Sections = {
    "Memories": {
        "ask": "ask.ask",
        "history": "read.history",
        "lineage": "read.lineage",
        "pin": "write.pin",
        "link": "write.link",
        "supersede": "write.supersede",
        "restore": "write.restore",
        "goal": "write.goal",
        "conflicts": "knowledge.conflicts",
        "overview": "overviews.overview",
        "digest": "overviews.digest",
        "brief": "overviews.brief",
        "quarantine": "erase.quarantine_command",
        "erase": "erase.erase",
    },
    "Learn": {
        "plans": "plans.plans",
        "recommendations": "recommendations.recommendations",
        "rate": "ask.rate",
        "pending": "ask.pending",
        "jobs": "schedule.jobs",
        "facts": "knowledge.facts",
        "routes": "knowledge.routes",
        **dict.fromkeys(
            ("reflect", "consolidate", "importance", "judge", "archive"), "learn.JOB_COMMANDS"
        ),
    },
    "Agents": {
        "disconnect": "agents.disconnect",
        "plugin": "agents.plugin",
        "project": "projects.project",
        "resume": "projects.resume",
    },
    "Data": {
        "init": "upkeep.init",
        "build": "processes.build_command",
        "ingest": "ingest.ingest",
        "export": "transfer.export",
        "backup": "upkeep.backup",
        "embedder": "embedder.embedder",
        "tenants": "team.tenants",
        "tokens": "team.tokens",
    },
    "Serve": {
        "stop": "processes.stop",
        "serve": "processes.serve",
        "stats": "status.stats",
    },
}
_DEV: Sections = {
    "Measure": {
        "eval": "measure.evaluate",
        "replay": "measure.replay",
        "expect": "regressions.expect",
        "bisect": "regressions.bisect",
        "receipts": "regressions.receipts_command",
        "canaries": "measure.canaries_command",
        "selftest": "measure.selftest",
        "verify": "upkeep.verify",
    },
    "For programs": {
        "hook": "agents.hook",
        "mcp": "agents.mcp",
        "ui": "processes.ui",
    },
}
_VISIBLE: Sections = {
    "Everyday": {
        "record": "write.record",
        "recall": "ask.recall",
        "why": "ask.why",
        "list": "read.list_",
        "show": "read.show",
        "forget": "write.forget",
    },
    "Organise": {
        "review": "review.review",
        "import": "transfer.import_",
        "timeline": "overviews.timeline",
        "goals": "overviews.goals",
    },
    "Learn": {
        "distill": "learn.JOB_COMMANDS",
        "lessons": "agents.lessons",
    },
    "Agents": {
        "connect": "agents.connect",
        "pause": "projects.pause",
    },
    "Serve": {
        "start": "processes.start",
        "dashboard": "processes.dashboard",
        "status": "status.status",
    },
    "Administer": {
        "doctor": "upkeep.doctor",
        "admin": Commands(
            name="admin",
            sections=_ADMIN,
            help="Everything else: plans, builds, backups, tenants. You can leave out `admin`.",
            epilog=output.example("mnemolog admin build", "mnemolog build"),
        ),
        "dev": Commands(
            name="dev",
            sections=_DEV,
            help="Measure recall; what programs call. You can leave out `dev`.",
            epilog=output.example("mnemolog dev selftest", "mnemolog selftest"),
        ),
    },
}

_EPILOG = """\b
Tab completes commands, ids and names (bash; also zsh_source, fish_source):
  eval "$(_MNEMOLOG_COMPLETE=bash_source mnemolog)"
"""


def _print_version(context: click.Context, option: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from serve import version

        click.echo(f"mnemolog, version {version()}")
        context.exit()


@click.group(
    cls=Commands,
    sections=_VISIBLE,
    unlisted=(_ADMIN, _DEV),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "color": False if wants_no_colour() else None,
    },
    epilog=_EPILOG,
    invoke_without_command=True,
)
@click.option(
    "--tenant", type=arguments.TENANT, help="The tenant; default: `tenant` in the settings."
)
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

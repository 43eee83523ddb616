"""
The command line `mnemolog`: each command parses its arguments, calls one function and prints.

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
        "ask": ("ask.ask", "Recall the answer to each part of a compound QUESTION."),
        "history": ("read.history", "List the values of a key, or a memory's replacements."),
        "lineage": ("read.lineage", "Show what a memory was made of, and what was made of it."),
        "pin": ("write.pin", "Pin memories, so that their importance does not fade."),
        "link": ("write.link", "Link one memory to another."),
        "supersede": ("write.supersede", "Replace memories with a newer one."),
        "restore": ("write.restore", "Make memories current again."),
        "goal": ("write.goal", "Update a goal."),
        "conflicts": ("knowledge.conflicts", "List contradictions."),
        "overview": ("overviews.overview", "Summarize a TOPIC."),
        "digest": ("overviews.digest", "List by day what was decided, learned and done."),
        "brief": ("overviews.brief", "Show the brief that a new session here starts with."),
        "share": ("share.share", "Share memories with everybody who has this repository."),
        "unshare": ("share.unshare", "Share memories no longer."),
        "quarantine": ("erase.quarantine_command", "List memories that builds leave out."),
        "erase": ("erase.erase", "Destroy the text of memories for good."),
    },
    "Learn": {
        "plans": ("plans.plans", "List what jobs and you proposed and its state, newest first."),
        "recommendations": (
            "recommendations.recommendations",
            "List suggested changes that wait for your decision.",
        ),
        "rate": ("ask.rate", "Rate how much a memory or recall helped."),
        "pending": ("ask.pending", "List recalls that nobody has rated or judged."),
        "jobs": ("schedule.jobs", "List the jobs, their schedule and their last proposal."),
        "facts": ("knowledge.facts", "Extract facts from turns and notes."),
        "routes": ("knowledge.routes", "Show how recalls are routed."),
        "reflect": ("learn.JOB_COMMANDS", "Propose insights from several memories."),
        "consolidate": (
            "learn.JOB_COMMANDS",
            "Find duplicates, corrections and outdated memories.",
        ),
        "importance": ("learn.JOB_COMMANDS", "Revise importance that nobody set."),
        "judge": ("learn.JOB_COMMANDS", "Judge unrated recalls by what was done afterwards."),
        "archive": ("learn.JOB_COMMANDS", "Propose to archive memories that are cold or expired."),
    },
    "Agents": {
        "disconnect": ("agents.disconnect", "Remove what `connect` wrote."),
        "plugin": ("agents.plugin", "Create a plugin folder for Claude Code."),
        "project": ("projects.project", "Print the project of this folder."),
        "resume": ("projects.resume", "Record this project again after `mnemolog pause`."),
    },
    "Data": {
        "init": ("upkeep.init", "Create the home and the tenant's log if they are missing."),
        "build": ("processes.build_command", "Build, check and publish the memory."),
        "ingest": ("ingest.ingest", "Accept batches and record each memory exactly once."),
        "export": (
            "transfer.export",
            "Write memories as JSON Lines, Markdown or a folder of notes.",
        ),
        "backup": ("upkeep.backup", "Save a tenant to one file, and restore a tenant."),
        "replicate": ("replica.replicate", "Keep a replica elsewhere, a second behind."),
        "sync": ("sync.sync", "Bring this memory together with that of your other machines."),
        "embedder": ("embedder.embedder", "Choose the model that turns texts into vectors."),
        "tenants": ("team.tenants", "List the tenants, memories that share nothing."),
        "tokens": ("team.tokens", "List the tokens."),
    },
    "Serve": {
        "stop": ("processes.stop", "Stop the server of this home."),
        "serve": ("processes.serve", "Serve recall over HTTP on this machine until interrupted."),
        "stats": ("status.stats", "Show figures."),
    },
}
_DEV: Sections = {
    "Measure": {
        "eval": ("measure.evaluate", "Measure recall on labelled queries."),
        "replay": ("measure.replay", "Ask past recalls again and list the answers that changed."),
        "expect": ("regressions.expect", "Pin QUESTION to the memory ID that must answer it."),
        "bisect": (
            "regressions.bisect",
            "Name the event since which QUESTION is answered as it is now.",
        ),
        "receipts": (
            "regressions.receipts_command",
            "List recalls, newest first: what was asked and how much came back.",
        ),
        "canaries": (
            "measure.canaries_command",
            "Look up some thirty memories by their own words.",
        ),
        "trial": ("trial.trial", "Measure on your own sessions whether the memory helps."),
        "selftest": ("measure.selftest", "Test the memory end to end and report failures."),
        "verify": ("upkeep.verify", "Check row by row that the served snapshots match the log."),
    },
    "For programs": {
        "hook": ("agents.hook", "Answer one event of an agent host."),
        "mcp": ("agents.mcp", "Serve MCP over standard input and output."),
        "ui": ("processes.ui", "Serve the Dagster UI."),
    },
}
_VISIBLE: Sections = {
    "Everyday": {
        "record": ("write.record", "Record TEXT as a memory."),
        "recall": ("ask.recall", "Recall the memories that answer QUERY, best first."),
        "why": ("ask.why", "Show what every stage of a recall did."),
        "list": ("read.list_", "List memories, newest first."),
        "show": ("read.show", "Show a memory with its history."),
        "forget": ("write.forget", "Hide memories; `restore` undoes it."),
    },
    "Organise": {
        "review": ("review.review", "Decide on what waits, one at a time."),
        "import": ("transfer.import_", "Import memories."),
        "timeline": ("overviews.timeline", "List memories by day, oldest first."),
        "goals": ("overviews.goals", "List open goals and chains of milestones."),
    },
    "Learn": {
        "distill": ("learn.JOB_COMMANDS", "Learn from past sessions."),
        "lessons": ("agents.lessons", "Show how lessons do, and what waits for your decision."),
    },
    "Agents": {
        "connect": ("agents.connect", "Connect agent hosts to this memory."),
        "pause": ("projects.pause", "Stop recording this project until `mnemolog resume`."),
    },
    "Serve": {
        "start": ("processes.start", "Start the server in the background."),
        "dashboard": ("processes.dashboard", "Open the dashboard in the browser."),
        "status": ("status.status", "Show the log, the served build and the server."),
    },
    "Administer": {
        "doctor": ("upkeep.doctor", "Find problems and print a fix for each."),
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

"""`mnemolog mcp`: the memory as an MCP server over standard input and output."""

import os
import subprocess
import sys
from pathlib import Path

import click

from serve.cli import output
from serve.cli.session import Session

_BRIDGE = Path(__file__).resolve().parents[1] / "mcp_bridge.py"


@click.command(epilog=output.example("mnemolog mcp"))
@output.json_option
@click.pass_context
def mcp(context: click.Context, as_json: bool) -> None:
    """Serve agent hosts over standard input and output, as `command` of their MCP settings.

    It passes what they ask on to the server of this home, and starts that where none runs. A host
    that speaks HTTP needs it not: it asks `/mcp` of the server itself, with the token. What is
    said is JSON, with --json or without.
    """
    session: Session = context.obj
    settings = session.settings()
    words = [sys.executable, "-I", "-S", str(_BRIDGE), "--home", str(settings.home.absolute())]
    if "tenant" in settings.origin:  # else the server's own
        words += ["--tenant", settings.choices.tenant]
    if os.name == "posix":
        os.execv(words[0], words)  # its own process from here on: the host ends the bridge itself
    context.exit(subprocess.call(words))

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
    """Serve MCP over standard input and output. Use it as `command` in a host's MCP settings.

    It forwards requests to the server of this home, and starts the server if necessary. A host that
    speaks HTTP does not need it: it can use `/mcp` of the server directly, with the token. The
    output is JSON, with or without --json.
    """
    session: Session = context.obj
    settings = session.settings()
    words = [sys.executable, "-I", "-S", str(_BRIDGE), "--home", str(settings.home.absolute())]
    if "tenant" in settings.origin:  # else the server's own
        words += ["--tenant", settings.choices.tenant]
    if os.name == "posix":
        os.execv(words[0], words)  # its own process from here on: the host ends the bridge itself
    context.exit(subprocess.call(words))

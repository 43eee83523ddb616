"""`mnemolog start` and `stop`: the server in the background."""

from typing import Any

import click

from serve.cli import output
from serve.cli.session import Session
from store.home.registry import HOST, Server


@click.command(epilog=output.example("mnemolog start"))
@output.json_option
@click.pass_obj
def start(session_: Session, /, as_json: bool) -> None:
    """Start the server in the background. Wait until it listens.

    If a server is already running, the command reports that and does nothing. The server exits
    after `idle_exit_s` without requests, and writes its messages to `server.log` in the home.
    """
    from serve.server import processes

    server, is_new = processes.start_server(session_.settings())
    if as_json:
        output.emit(_shown(server) | {"new": is_new})
    else:
        said = "started" if is_new else "already running"
        output.say(f"{said}: http://{HOST}:{server.port} (process {server.pid})")


@click.command(epilog=output.example("mnemolog stop"))
@output.json_option
@click.pass_obj
def stop(session_: Session, /, as_json: bool) -> None:
    """Stop the server of this home. It first writes what it has collected."""
    from serve.server import processes

    server = processes.stop_server(session_.settings())
    if as_json:
        output.emit({"stopped": _shown(server) if server else None})
    else:
        output.say(f"stopped: process {server.pid}" if server else "no server is running")


def _shown(server: Server) -> dict[str, Any]:
    return {"url": f"http://{HOST}:{server.port}", "port": server.port, "pid": server.pid}

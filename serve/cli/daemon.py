"""`mnemolog start` and `stop`: the server in the background."""

from typing import Any

import click

from serve.cli import output
from serve.cli.session import Session
from store.registry import HOST, Server


@click.command(epilog=output.example("mnemolog start"))
@output.json_option
@click.pass_obj
def start(session_: Session, /, as_json: bool) -> None:
    """Start the server in the background, and wait until it listens.

    Where it already runs that is said, and nothing is done. It ends by itself when nobody asked for
    `idle_exit_s`, and what it says is in `server.log` of the home.
    """
    from serve.server import processes

    server, is_new = processes.start_server(session_.settings())
    if as_json:
        output.emit(_shown(server) | {"new": is_new})
    else:
        said = "started" if is_new else "already runs"
        output.say(f"{said}: http://{HOST}:{server.port} (process {server.pid})")


@click.command(epilog=output.example("mnemolog stop"))
@output.json_option
@click.pass_obj
def stop(session_: Session, /, as_json: bool) -> None:
    """End the server of this home; what it gathered is written before."""
    from serve.server import processes

    server = processes.stop_server(session_.settings())
    if as_json:
        output.emit({"stopped": _shown(server) if server else None})
    else:
        output.say(f"stopped: process {server.pid}" if server else "no server runs")


def _shown(server: Server) -> dict[str, Any]:
    return {"url": f"http://{HOST}:{server.port}", "port": server.port, "pid": server.pid}

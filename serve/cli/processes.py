"""
Commands that run processes: `build`, `ui`, `serve`, `start`, `stop` and `dashboard`.

A build and the Dagster UI run on our terminal, and we end with their exit code.
"""

import os
import signal
import subprocess
import sys
from http import HTTPStatus
from typing import Any

import click
import msgspec

from serve.cli import environment, output
from serve.cli.environment import Environment
from serve.server import processes
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.registry import HOST, Server


def build(settings: Settings, *words: str, quiet: bool = False) -> int:
    """Build the chosen tenant; return the exit code. `quiet` keeps standard output free."""
    tenant = environment.current_tenant(settings)
    return _run_jobs(settings, "build", "--tenant", tenant.name, *words, quiet=quiet)


def write_cold_file(settings: Settings) -> None:
    """Write the archived memories as Parquet and print the path."""
    written = read_job(settings, "cold")["cold"]
    counts = ", ".join(f"{count} {state}" for state, count in written["memories"].items())
    output.note(f"cold: {counts or 'nothing'} in {written['path']}")


def read_job(settings: Settings, command: str, *words: str) -> dict[str, Any]:
    """Run a command of `pipelines` for the chosen tenant and return its JSON output; end with its
    exit code if it fails.
    """
    words = command, "--tenant", environment.current_tenant(settings).name, *words
    child = processes.start_job(settings, *words, stdout=subprocess.PIPE)
    data, _ = child.communicate()
    if child.returncode:
        sys.exit(child.returncode)
    payload: dict[str, Any] = msgspec.json.decode(data)
    return payload


def _run_jobs(settings: Settings, *words: str, quiet: bool = False) -> int:
    sys.stdout.flush()
    child = processes.start_job(settings, *words, stdout=sys.stderr.fileno() if quiet else None)
    signal.signal(signal.SIGTERM, lambda number, frame: child.terminate())
    while True:
        try:
            code = child.wait()
        except KeyboardInterrupt:  # the terminal interrupted the child too, and it tidies up
            continue
        return code if code >= 0 else 128 - code  # a signal's as the shell counts it


@click.command("build", epilog=output.example("mnemolog build"))
@click.option("--full", is_flag=True, help="Rebuild from the log alone; reuse nothing.")
@click.option(
    "--quick",
    is_flag=True,
    help="Build without Dagster: seconds faster, but not listed in `mnemolog ui`.",
)
@click.option(
    "--accept", is_flag=True, help="Publish although past questions are answered otherwise."
)
@output.json_option
@click.pass_context
def build_command(
    context: click.Context, full: bool, quick: bool, accept: bool, as_json: bool
) -> None:
    """Build, check and publish the memory.

    Then recall is fast and complete. A quick build produces, audits and publishes the same, but
    does not hash again what it reuses from the previous build; where nothing is new, that one goes
    on being served. An idle server builds this way, and so does every build where Dagster is not
    installed.
    """
    flags = {"--full": full, "--quick": quick, "--accept": accept, "--json": as_json}
    words = [flag for flag, is_set in flags.items() if is_set]
    context.exit(build(context.obj.settings(), *words))


@click.command(epilog=output.example("mnemolog ui --port 3000"))
@click.option("--port", type=click.IntRange(1, 65535), help="The port.")
@output.json_option
@click.pass_context
def ui(context: click.Context, port: int | None, as_json: bool) -> None:
    """Serve the Dagster UI. It has the jobs, their schedules, counts and plots.

    The link works once, within two minutes; to get another, run the command again.
    """
    settings = context.obj.settings()
    environment.make_tenant(settings)
    words = ["--port", str(port)] if port is not None else []
    code = _run_jobs(settings, "ui", *words, quiet=as_json)
    if as_json:
        output.emit({"exit_code": code})
    context.exit(code)


@click.command(epilog=output.example("mnemolog serve --port 7437"))
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0: any free port.")
@click.option(
    "--idle-exit",
    type=click.IntRange(0),
    default=0,
    metavar="SECONDS",
    help="Exit after this many seconds without a request; default: never.",
)
@output.json_option
@click.pass_obj
def serve(env: Environment, /, port: int | None, idle_exit: int, as_json: bool) -> None:
    """Serve recall over HTTP on this machine until interrupted.

    `mnemolog start` does this in the background. A home has one server.
    """
    import gc
    import logging

    gc.disable()  # imported objects stay; the server turns it on when it is ready

    processes.share_one_heap()
    from serve.app import create_app
    from serve.server import process

    settings = env.settings()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def ready(at: int) -> None:
        url = f"http://{HOST}:{at}"
        if as_json:
            output.emit({"url": url, "pid": os.getpid()})
        else:
            output.say(f"mnemolog listens on {url} (Ctrl-C to stop)")

    process.run(settings, create_app, port=port, on_ready=ready, idle_exit_s=idle_exit)


# start, stop


@click.command(epilog=output.example("mnemolog start"))
@output.json_option
@click.pass_obj
def start(env: Environment, /, as_json: bool) -> None:
    """Start the server in the background. Wait until it listens.

    If a server is already running, the command reports that and does nothing. The server exits
    after `idle_exit_s` without requests, and writes its messages to `server.log` in the home.
    """
    server, is_new = processes.start_server(env.settings())
    if as_json:
        output.emit(_server_fields(server) | {"new": is_new})
    else:
        text = "started" if is_new else "already running"
        output.say(f"{text}: http://{HOST}:{server.port} (process {server.pid})")


@click.command(epilog=output.example("mnemolog stop"))
@output.json_option
@click.pass_obj
def stop(env: Environment, /, as_json: bool) -> None:
    """Stop the server of this home. It first writes what it has collected."""
    server = processes.stop_server(env.settings())
    if as_json:
        output.emit({"stopped": _server_fields(server) if server else None})
    else:
        output.say(f"stopped: process {server.pid}" if server else "no server is running")


def _server_fields(server: Server) -> dict[str, Any]:
    return {"url": f"http://{HOST}:{server.port}", "port": server.port, "pid": server.pid}


# dashboard

_ANSWER_S = 10.0


class _LoginLink(msgspec.Struct, frozen=True):
    path: str
    expires_at: str


@click.command(epilog=output.example("mnemolog dashboard"))
@click.option("--no-open", is_flag=True, help="Print the link; do not open a browser.")
@output.json_option
@click.pass_obj
def dashboard(env: Environment, /, no_open: bool, as_json: bool) -> None:
    """Open the dashboard in the browser. The server is started if necessary.

    The link works once, within two minutes; the browser then stays logged in for 12 hours. Do not
    share the link: whoever opens it first is logged in instead of you.
    """
    settings = env.settings()
    server, _ = processes.start_server(settings)
    link = _login_link(settings, server)
    url = f"http://{HOST}:{server.port}{link.path}"
    if as_json:
        output.emit({"url": url, "expires_at": link.expires_at})
        return
    output.say(url)
    output.note("the link works once, within two minutes")
    if not no_open and sys.stdout.isatty():
        _open_browser(url)


def _open_browser(url: str) -> None:
    """Open a browser beside the terminal, but none that would use the terminal itself."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:  # lynx, w3m ...
        browser.open(url)


def _login_link(settings: Settings, server: Server) -> _LoginLink:
    """Return a login link from the server; raise ConfigError if it gives none."""
    status, body = environment.request_as_owner(settings, server, "POST", "/v1/logins", _ANSWER_S)
    if status != HTTPStatus.CREATED:
        raise ConfigError(
            f"the server on port {server.port} gave no link ({status}): run "
            "`mnemolog stop`, then try again"
        )
    return msgspec.json.decode(body, type=_LoginLink)

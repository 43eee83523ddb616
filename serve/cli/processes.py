"""
`mnemolog build`, `ui` and `serve`: what runs as a process of its own, or becomes one.

The jobs run on our terminal, and we end with their exit code.
"""

import os
import signal
import subprocess
import sys

import click

from serve.cli import output, session
from serve.cli.session import Session
from serve.server import processes
from store.home.config import Settings


def build(settings: Settings, *words: str, quiet: bool = False) -> int:
    """Build the chosen tenant; return the exit code. `quiet` keeps standard output free."""
    tenant = session.chosen(settings)
    return _jobs(settings, "build", "--tenant", tenant.name, *words, quiet=quiet)


def _jobs(settings: Settings, *words: str, quiet: bool = False) -> int:
    sys.stdout.flush()
    child = processes.start_job(settings, *words, stdout=sys.stderr.fileno() if quiet else None)
    signal.signal(signal.SIGTERM, lambda number, frame: child.terminate())
    return _wait(child)


def _wait(child: "subprocess.Popen[bytes]") -> int:
    """Return the child's exit code, as the shell counts where a signal ended it."""
    while True:
        try:
            code = child.wait()
        except KeyboardInterrupt:  # the terminal told the child too, and it tidies up
            continue
        return code if code >= 0 else 128 - code


@click.command("build", epilog=output.example("mnemolog build"))
@click.option("--full", is_flag=True, help="Rebuild from the log alone; reuse nothing.")
@click.option(
    "--quick",
    is_flag=True,
    help="Build without Dagster: seconds faster, but not listed in `mnemolog ui`.",
)
@output.json_option
@click.pass_context
def build_command(context: click.Context, full: bool, quick: bool, as_json: bool) -> None:
    """Build, check and publish the memory.

    Then recall is fast and complete. A quick build produces, audits and publishes the same, but
    does not hash again what it reuses from the previous build. An idle server builds this way.
    """
    asked = {"--full": full, "--quick": quick, "--json": as_json}
    words = [word for word, wanted in asked.items() if wanted]
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
    session.make(settings)
    words = ["--port", str(port)] if port is not None else []
    code = _jobs(settings, "ui", *words, quiet=as_json)
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
def serve(session_: Session, /, port: int | None, idle_exit: int, as_json: bool) -> None:
    """Serve recall over HTTP on this machine until interrupted.

    `mnemolog start` does this in the background. A home has one server.
    """
    import gc
    import logging

    gc.disable()  # what is imported stays; the server turns it on when it is ready

    processes.share_one_heap()
    from serve.app import create_app
    from serve.server import process
    from store.home.registry import HOST

    settings = session_.settings()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def ready(at: int) -> None:
        url = f"http://{HOST}:{at}"
        if as_json:
            output.emit({"url": url, "pid": os.getpid()})
        else:
            output.say(f"mnemolog listens on {url} (Ctrl-C to stop)")

    process.run(settings, create_app, port=port, on_ready=ready, idle_exit_s=idle_exit)

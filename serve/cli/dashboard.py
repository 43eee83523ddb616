"""`mnemolog dashboard`: the memory's pages, in the browser."""

import sys
from http import HTTPStatus

import click
import msgspec

from serve.cli import output, served
from serve.cli.session import Session
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.registry import HOST, Server

_ANSWER_S = 10.0


class _Link(msgspec.Struct, frozen=True):
    path: str
    expires_at: str


@click.command(epilog=output.example("mnemolog dashboard"))
@click.option("--no-open", is_flag=True, help="Print the link; do not open a browser.")
@output.json_option
@click.pass_obj
def dashboard(session_: Session, /, no_open: bool, as_json: bool) -> None:
    """Open the dashboard in the browser. The server is started if necessary.

    The link works once, within two minutes; the browser then stays logged in for 12 hours. Do not
    share the link: whoever opens it first is logged in instead of you.
    """
    from serve.server import processes

    settings = session_.settings()
    server, _ = processes.start_server(settings)
    link = _link(settings, server)
    url = f"http://{HOST}:{server.port}{link.path}"
    if as_json:
        output.emit({"url": url, "expires_at": link.expires_at})
        return
    output.say(url)
    output.note("the link works once, within two minutes")
    if not no_open and sys.stdout.isatty():
        _open(url)


def _open(url: str) -> None:
    """Open a browser beside the terminal; none that would take the terminal itself."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:  # lynx, w3m ...
        browser.open(url)


def _link(settings: Settings, server: Server) -> _Link:
    """Ask the server for a link; raise ConfigError where it gives none."""
    status, body = served.owners_answer(settings, server, "POST", "/v1/logins", _ANSWER_S)
    if status != HTTPStatus.CREATED:
        raise ConfigError(
            f"the server on port {server.port} gave no link ({status}): run "
            "`mnemolog stop`, then try again"
        )
    return msgspec.json.decode(body, type=_Link)

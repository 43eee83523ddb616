"""`mnemolog hook HOST`: one hook event answered in this process, from the disk."""

import sys
from typing import TYPE_CHECKING, Any

import click

from serve.cli import output, session
from serve.cli.session import Session
from serve.numerals import size
from store.home.config import is_off
from store.home.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from serve.server.open_tenants import OpenTenants
    from store.home.config import Settings

DEADLINE_S = 1.5  # from when all is imported; the client that waits for us gives up soon after
MAX_BYTES = 4 << 20


@click.command(epilog=output.example("mnemolog hook claude-code < event.json"))
@click.argument("host")
@output.json_option
@click.pass_obj
def hook(session_: Session, /, host: str, as_json: bool) -> None:
    """Answer one event of an agent host. The hook client runs this if no server is running.

    The event is read from standard input, in the host's format. The output is the host's own
    format, or nothing if there is no answer (with --json: null).
    """
    settings = session_.settings()
    session.chosen(settings)  # a new user has none: that is said before half a second of imports
    answer = _answered(settings, host, sys.stdin.buffer.read(MAX_BYTES + 1))
    if answer is not None or as_json:
        output.emit(answer)


def _answered(settings: "Settings", host: str, event: bytes) -> dict[str, Any] | None:
    from serve.hooks.answer import Hooks
    from serve.hooks.hosts import HOSTS
    from serve.hooks.hosts.payload import decoded

    if host not in HOSTS:
        raise NotFound(f"unknown host {host!r}: choose from {', '.join(sorted(HOSTS))}")
    if len(event) > MAX_BYTES:
        raise InvalidInput(f"the event is larger than {size(MAX_BYTES)}")
    payload = decoded(event)
    tenants = _tenants(settings)
    hooks = Hooks(tenants, session.now, DEADLINE_S)
    try:
        return hooks.answer(HOSTS[host], payload, is_off=is_off())
    finally:
        hooks.close()
        tenants.close()  # writes what was noted


def _tenants(settings: "Settings") -> "OpenTenants":
    """Return the tenants without upkeep or builds; a model that takes long to load is not asked."""
    from serve.recall.query_embedder import QueryEmbedder
    from serve.server.open_tenants import OpenTenants
    from store.embedders.embedder import SilentEmbedder

    tenants = OpenTenants(settings)
    model = tenants.embedder
    if not model.is_cheap:
        silent = SilentEmbedder(model.model, model.dimension, "no running server has it loaded")
        tenants.embedder = QueryEmbedder(silent)
    return tenants

"""`mnemolog selftest`: does this memory work, end to end?"""

from typing import TYPE_CHECKING

import click

from serve.cli import output, session
from serve.cli.group import FAILED
from serve.cli.session import Session
from store.home.instants import isoformat

if TYPE_CHECKING:
    from serve.evaluation.selftest import Selftest

_SHOWN = 5  # builds of the trend


@click.command(epilog=output.example("mnemolog selftest"))
@output.json_option
@click.pass_context
def selftest(context: click.Context, as_json: bool) -> None:
    """Test the memory end to end and report failures. Nothing is written.

    Memories are looked up by their own words, and compared with earlier builds. One memory is
    written, recalled and forgotten in a separate log. The model, the hooks' silence on small talk
    and the log's newest events are checked. No server is needed. The exit code is 1 if a test
    fails.
    """
    from serve.evaluation.selftest import selftest as tried
    from store.embedders.embedder import make_embedder
    from store.snapshots import manifest as manifests

    session_: Session = context.obj
    settings = session_.settings()
    tenant = session.chosen(settings)
    manifest = manifests.current(tenant)
    model = make_embedder(settings.choices.embedder, settings.home, while_asked=True)
    with session.open_log(settings) as log:
        found = tried(tenant, log, manifest, model, settings.choices, session.now())
    if as_json:
        output.emit(
            {
                "ok": found.ok,
                "probes": found.probes,
                "missed": found.missed,
                "trend": found.trend,
            }
        )
    else:
        _show(found)
    context.exit(0 if found.ok else FAILED)


def _show(found: "Selftest") -> None:
    for one in found.probes:
        output.say(f"{'ok    ' if one.ok else 'FAILED'}  {one.name}: {output.clean(one.detail)}")
    for missed in found.missed:
        output.say(f"missed  {missed.id}  {output.one_line(missed.question)}")
    for at, back, asked in found.trend[-_SHOWN:]:
        output.say(f"build   {isoformat(at)}  {back} of {asked}")

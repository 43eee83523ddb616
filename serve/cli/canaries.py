"""`mnemolog canaries`: does recall bring back memories that are asked for by their own words?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from serve.cli import output, session
from serve.cli.group import FAILED
from serve.cli.session import Session
from store.home.instants import isoformat

if TYPE_CHECKING:
    from serve.evaluation.canaries import Outcome, Point

_SHOWN = 10  # builds of the trend


@click.command("canaries", epilog=output.example("mnemolog canaries"))
@output.json_option
@click.pass_context
def canaries_command(context: click.Context, as_json: bool) -> None:
    """Look up some thirty memories by their own words. List those not found.

    Every build does this before it is published; the trend shows the last builds. The exit code is
    1 if more are missing than chance explains.
    """
    from serve.evaluation import canaries
    from store.embedders.embedder import make_embedder
    from store.snapshots import manifest as manifests

    session_: Session = context.obj
    settings = session_.settings()
    tenant = session.chosen(settings)
    manifest = manifests.current(tenant)
    model = make_embedder(settings.choices.embedder, settings.home, while_asked=True)
    found = canaries.over(tenant, manifest, model, settings.choices, session.now())
    check = canaries.check_of(manifest)
    trend = canaries.trend(check) if check else ()
    if as_json:
        output.emit(
            {
                "ok": not found.is_doubted,
                "asked": found.asked,
                "came_back": found.found,
                "missed": found.missed,
                "trend": trend,
            }
        )
    else:
        _show(found, trend)
    context.exit(FAILED if found.is_doubted else 0)


def _show(found: "Outcome", trend: "Sequence[Point]") -> None:
    output.say(f"{found.found} of {found.asked} canaries came back")
    for one in found.missed:
        output.say(f"missed  {one.id}  {output.one_line(one.question)}")
    for at, back, asked in trend[-_SHOWN:]:
        output.say(f"build   {isoformat(at)}  {back} of {asked}")

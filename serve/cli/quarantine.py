"""`mnemolog quarantine`: the memories that builds leave out, to be released or forgotten."""

from typing import TYPE_CHECKING

import click

from serve.cli import output, session
from serve.cli.session import Session
from store import commands
from store.home.instants import isoformat

if TYPE_CHECKING:
    from store.quarantine import Held


@click.command(
    name="quarantine",
    epilog=output.example(
        "mnemolog quarantine", "mnemolog quarantine --release 01KA2B3C4D", "... --forget --all"
    ),
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--release", "does", flag_value="release", help="Include them in builds again.")
@click.option("--forget", "does", flag_value="forget", help="Exclude them for good.")
@click.option("--all", "are_all", is_flag=True, help="All listed memories.")
@output.json_option
@click.pass_obj
def quarantine_command(
    session_: Session, /, ids: tuple[str, ...], does: str | None, are_all: bool, as_json: bool
) -> None:
    """List memories that builds leave out. Release or forget them.

    A memory that alone fails a check is left out, so that it holds up no other. Nobody finds it
    until you release it, as what it was: archived, if it was. A text is then taken as it is, with
    any secret redacted, while what an index makes of it is checked again by the next build.
    """
    from store import quarantine

    if does is None and (ids or are_all):
        raise click.UsageError("choose what to do with them: --release or --forget")
    if does is not None and bool(ids) == are_all:
        raise click.UsageError("give the memories' ids, or --all")
    with session.open_log(session_.settings()) as log:
        held = quarantine.held(log)
        if does is None:
            _show(held, as_json=as_json)
            return
        if are_all:
            wanted = [one.id for one in held]
        else:
            wanted = list(dict.fromkeys(commands.resolve(log, prefix) for prefix in ids))
        settle = quarantine.release if does == "release" else quarantine.forget
        events = settle(log, wanted, session.now())
    if as_json:
        changed = [{"id": event.subject, "seq": event.seq} for event in events]
        output.emit({"done": does, "memories": changed})
        return
    done = "released" if does == "release" else "forgot"
    for id_ in wanted:
        output.say(f"{done} {id_}")
    if not wanted:
        output.say("the quarantine is empty")


def _show(held: "list[Held]", *, as_json: bool) -> None:
    if as_json:
        shown = [
            {"id": one.id, "since": isoformat(one.at), "check": one.check, "reason": one.reason}
            for one in held
        ]
        output.emit({"quarantined": shown})
        return
    for one in held:
        output.say(f"{one.id}  since {isoformat(one.at)}  {one.check}: {output.clean(one.reason)}")
    if not held:
        output.say("the quarantine is empty")

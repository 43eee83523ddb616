"""`mnemolog pending`: the recalls of the last days that nobody rated or judged yet."""

from typing import TYPE_CHECKING

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.events import Event, Recalled, Recorded
from store.home.instants import isoformat

if TYPE_CHECKING:
    from store.log import EventLog

_SHOWN = 3  # texts of a recall


@click.command(epilog=output.example("mnemolog pending", "mnemolog pending --days 1"))
@click.option("--days", default=14, show_default=True, type=click.IntRange(1, 3650), help="Back.")
@output.json_option
@click.pass_obj
def pending(session_: Session, /, days: int, as_json: bool) -> None:
    """List recalls that nobody has rated or judged. Recalls without results are left out."""
    from store.pending import DAY_US
    from store.pending import pending as waiting

    now = session.now()
    with session.open_log(session_.settings()) as log:
        found = waiting(log, now - days * DAY_US, now + 1)
        if as_json:
            output.emit({"recalls": [_shown(one) for one in found]})
            return
        for one in found:
            _say(log, one)
    if found:
        output.note("next: `mnemolog rate ID useful`, or `mnemolog judge`")
    else:
        output.say("no recall is waiting for a rating")


def _shown(event: Event) -> dict[str, object]:
    body = event.body
    assert isinstance(body, Recalled)
    return {
        "id": event.id,
        "at": isoformat(event.at),
        "query": body.query,
        "project": event.project,
        "session": event.session,
        "hits": [hit.id for hit in body.hits],
    }


def _say(log: "EventLog", event: Event) -> None:
    body = event.body
    assert isinstance(body, Recalled)
    output.say(f"{event.id}  {isoformat(event.at)[:16]}  {output.one_line(body.query)}")
    for hit in body.hits[:_SHOWN]:
        told = log.about(hit.id)
        first = told[0].body if told else None
        text = output.one_line(first.content) if isinstance(first, Recorded) else ""
        output.say(f"    {text}")
    if len(body.hits) > _SHOWN:
        output.say(f"    and {len(body.hits) - _SHOWN} more")

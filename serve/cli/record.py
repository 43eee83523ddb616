"""`mnemolog record`: one memory, or a batch of them as JSON Lines."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from store.events import MEMORY_KINDS, TRUSTS, Recorded
from store.home.config import Settings
from store.home.errors import InvalidInput

if TYPE_CHECKING:
    from store.commands import Draft
    from store.log import Appended

_EPILOG = output.example(
    'mnemolog record "Deploys go out from eu-west-1 only" --kind decision --tag deploy'
)


@click.command(epilog=_EPILOG)
@click.argument("text", required=False)
@click.option(
    "--kind",
    type=click.Choice(MEMORY_KINDS),
    metavar="KIND",
    help=f"The kind; default: fact. One of: {', '.join(MEMORY_KINDS)}.",
)
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--project", help="The project; default: that of the working directory.")
@click.option("--no-project", is_flag=True, help="Store it without a project: recalled everywhere.")
@click.option("--importance", type=click.FloatRange(0, 1), help="How important it is.")
@click.option("--ttl", help="When it expires: 90s, 15m, 6h, 30d, 2w.")
@click.option("--key", help="The key of a fact with one current value: deploy.region.")
@click.option("--value", help="The value of the key: eu.")
@click.option("--chain", help="The chain of milestones it belongs to.")
@click.option(
    "--due",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="When a goal is due: 2026-12-01.",
)
@click.option("--pin", "pinned", is_flag=True, help="Never let its importance fade.")
@click.option("--context", help="The situation.")
@click.option("--action", help="What was done.")
@click.option("--result", help="The result.")
@click.option("--id", "id_", help="Your own id: repeating it does not add a second memory.")
@click.option(
    "--trust",
    type=click.Choice(TRUSTS),
    default="user",
    help="Whose words these are; default: user.",
)
@click.option(
    "--batch", is_flag=True, help="Read drafts as JSON Lines from standard input; all or none."
)
@output.json_option
@click.pass_obj
def record(
    session_: Session,
    /,
    text: str | None,
    batch: bool,
    as_json: bool,
    project: str | None,
    no_project: bool,
    ttl: str | None,
    due: datetime | None,
    **fields: Any,
) -> None:
    """Record TEXT as a memory. `-` reads it from standard input."""
    from store import commands

    if batch == (text is not None):
        raise click.UsageError("give TEXT (or `-`), or --batch and drafts on standard input")
    if fields["value"] is not None and fields["key"] is None:
        raise click.UsageError("--value needs --key")
    if due is not None and fields["kind"] != "goal":
        raise click.UsageError("--due needs --kind goal")
    settings = session_.settings()
    belongs = session.project(settings, project, none=no_project)
    if batch:
        _record_batch(settings, belongs, as_json)
        return
    if ttl is not None:
        fields["ttl_s"] = moments.seconds(ttl)
    if fields["chain"] is not None and fields["kind"] is None:
        fields["kind"] = "milestone"
    if due is not None:
        fields["metadata"] = {"due": due.date().isoformat()}
    content = output.stdin_text() if text == "-" else text
    draft = _draft(fields | {"content": content, "project": belongs})
    at = session.now()
    commands.recorded(draft, at)  # refused before anything is made
    with session.open_or_make(settings) as log:
        appended = commands.record(log, draft, at)
        hidden = commands.recorded(draft, at).body != appended.event.body
        if as_json:
            output.emit(_acknowledged(appended) | {"redacted": hidden})
        else:
            shown = output.one_line(_content(appended))
            output.say(f"{output.short_id(log, appended.event.id)}  {shown}")
            if not appended.is_new:
                output.note("note: it was already recorded")
        if hidden:
            output.note("warning: a secret was redacted before anything was written")


def _draft(fields: dict[str, Any]) -> "Draft":
    """Return a checked draft; raise msgspec.ValidationError naming the field."""
    from store.commands import Draft

    given = {
        name: output.encodable(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    given["tags"] = [output.encodable(tag) for tag in fields["tags"]]
    if "id_" in given:
        given["id"] = given.pop("id_")
    return msgspec.convert(given, Draft)


def _record_batch(settings: Settings, belongs: str | None, as_json: bool) -> None:
    from store import commands

    at = session.now()
    drafts = [
        one if one.project else msgspec.structs.replace(one, project=belongs)
        for one in _read_drafts(sys.stdin.buffer.read())
    ]
    with session.open_or_make(settings) as log:
        done = commands.record_batch(log, drafts, at)
    hidden = [
        commands.recorded(draft, at).body != one.event.body
        for draft, one in zip(drafts, done, strict=True)
    ]
    if as_json:
        pairs = zip(done, hidden, strict=True)
        output.emit({"memories": [_acknowledged(one) | {"redacted": was} for one, was in pairs]})
    else:
        output.say(f"{sum(one.is_new for one in done)} recorded, {len(done)} given")
    if any(hidden):
        output.note(
            f"warning: secrets were redacted in {sum(hidden)} memories before they were written"
        )


def _read_drafts(data: bytes) -> "list[Draft]":
    from store.commands import Draft

    drafts = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                drafts.append(msgspec.json.decode(line, type=Draft))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise InvalidInput(f"line {number}: {error}: nothing was recorded") from error
    return drafts


def _content(appended: "Appended") -> str:
    body = appended.event.body
    return body.content if isinstance(body, Recorded) else ""


def _acknowledged(appended: "Appended") -> dict[str, Any]:
    return {"id": appended.event.id, "seq": appended.event.seq, "new": appended.is_new}

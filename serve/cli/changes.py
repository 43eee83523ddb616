"""What a person decides about memories: to forget, restore, pin, link or supersede them, a goal."""

from collections.abc import Callable
from datetime import datetime

import click
import msgspec

from serve.cli import output, session
from serve.cli.session import Session
from store import commands
from store.events import GOAL_STATUSES, RELATIONS, Event, Recorded, Relation, Revised
from store.goal_commands import change_goal
from store.log import EventLog

Change = Callable[[EventLog, str, int], Event]

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...")


def _apply(
    session_: Session, /, ids: tuple[str, ...], as_json: bool, done: str, do: Change
) -> None:
    """Change all memories that were named; none where one of them is unknown."""
    with session.open_log(session_.settings()) as log:
        wanted = list(dict.fromkeys(commands.resolve(log, prefix) for prefix in ids))
        events = [do(log, id_, session.now()) for id_ in wanted]
        if as_json:
            changed = [{"id": event.subject, "seq": event.seq} for event in events]
            output.emit({"event": events[0].kind, "memories": changed})
            return
        for id_ in wanted:
            first = log.about(id_)[0].body
            shown = output.one_line(first.content) if isinstance(first, Recorded) else ""
            output.say(f"{done} {output.short_id(log, id_)}  {shown}")


@click.command(epilog=output.example('mnemolog forget 01KA2B3C4D --reason "no longer true"'))
@_ids
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def forget(session_: Session, /, ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Hide memories; `restore` undoes it. You can shorten an ID to its first letters."""
    _apply(
        session_, ids, as_json, "forgot", lambda log, id_, at: commands.forget(log, id_, at, reason)
    )


@click.command(epilog=output.example("mnemolog restore 01KA2B3C4D"))
@_ids
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def restore(session_: Session, /, ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Make memories current again. They may be forgotten, archived, superseded or expired."""
    _apply(
        session_,
        ids,
        as_json,
        "restored",
        lambda log, id_, at: commands.restore(log, id_, at, reason),
    )


@click.command(epilog=output.example("mnemolog pin 01KA2B3C4D", "mnemolog pin --off 01KA2B3C4D"))
@_ids
@click.option("--off", is_flag=True, help="Remove the pin.")
@output.json_option
@click.pass_obj
def pin(session_: Session, /, ids: tuple[str, ...], off: bool, as_json: bool) -> None:
    """Pin memories, so that their importance does not fade."""
    _apply(
        session_,
        ids,
        as_json,
        "unpinned" if off else "pinned",
        lambda log, id_, at: commands.pin(log, id_, at, pinned=not off),
    )


@click.command(epilog=output.example("mnemolog goal 01KA2B3C4D --status done --progress 1"))
@click.argument("id_", metavar="ID")
@click.option("--status", type=click.Choice(GOAL_STATUSES), help="Its status.")
@click.option("--progress", type=click.FloatRange(0, 1), help="The share that is done.")
@click.option(
    "--due", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="When it is due: 2026-12-01."
)
@output.json_option
@click.pass_obj
def goal(
    session_: Session,
    /,
    id_: str,
    status: str | None,
    progress: float | None,
    due: datetime | None,
    as_json: bool,
) -> None:
    """Update a goal. `record --kind goal` creates one, `goals` lists the open ones."""
    if status is None and progress is None and due is None:
        raise click.UsageError("give --status, --progress or --due")
    changes = msgspec.convert({"status": status, "progress": progress}, Revised)

    day = due.date() if due is not None else None

    def change(log: EventLog, id_: str, at: int) -> Event:
        return change_goal(log, id_, changes, at, day)

    _apply(session_, (id_,), as_json, "changed", change)


@click.command(epilog=output.example("mnemolog link 01KA2B3C4D 01KA7XYZAB --relation cause"))
@click.argument("id_", metavar="ID")
@click.argument("target", metavar="TARGET")
@click.option(
    "--relation",
    type=click.Choice(RELATIONS),
    required=True,
    help="TARGET's role for ID: its cause, its support, in conflict with it, derived from it.",
)
@output.json_option
@click.pass_obj
def link(session_: Session, /, id_: str, target: str, relation: Relation, as_json: bool) -> None:
    """Link one memory to another. `show` lists the links of both."""

    def change(log: EventLog, id_: str, at: int) -> Event:
        return commands.link(log, id_, commands.resolve(log, target), relation, at)

    _apply(session_, (id_,), as_json, "linked", change)


@click.command(epilog=output.example("mnemolog supersede 01KA2B3C4D --by 01KA7XYZAB"))
@_ids
@click.option("--by", required=True, metavar="ID", help="The replacement.")
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def supersede(
    session_: Session, /, ids: tuple[str, ...], by: str, reason: str | None, as_json: bool
) -> None:
    """Replace memories with a newer one. The old ones stay readable."""

    def change(log: EventLog, id_: str, at: int) -> Event:
        return commands.supersede(log, id_, commands.resolve(log, by), at, reason)

    _apply(session_, ids, as_json, "superseded", change)

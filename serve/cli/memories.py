"""`mnemolog show` and `list`: look at memories without asking a question."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.events import MEMORY_KINDS
from store.tenant import checked_project

if TYPE_CHECKING:
    from serve.reader import View
    from store.projections.memories import Memory

_STATES = ("active", "archived", "superseded", "forgotten")
_FORGOTTEN = "(forgotten)"
_PROJECT_WIDTH = 28


@click.command(epilog=output.example("mnemolog show 01KA2B3C4D"))
@click.argument("id_", metavar="ID")
@output.json_option
@click.pass_obj
def show(session_: Session, /, id_: str, as_json: bool) -> None:
    """Show all there is of a memory and its history. The first letters of its ID suffice."""
    settings = session_.settings()
    with session.open_log(settings) as log:
        from serve.answers import short, whole
        from serve.reader import Reader
        from store.commands import resolve
        from store.embedding import embedder

        wanted = resolve(log, id_)
        reader = Reader(
            session.chosen(settings), log, embedder(settings.choices.embedder, settings.home)
        )
        with reader.view() as view:
            memory, edges = view.tail.find(wanted), view.tail.edges_of(wanted)
        assert memory is not None  # the log named it, and the view holds all the log holds
        if memory.state == "forgotten":
            found = _without_words(short(memory))
        else:
            found = whole(memory, edges, log.about(wanted))
    if as_json:
        output.emit(found)
    else:
        _show(found)


def _without_words(found: dict[str, Any]) -> dict[str, Any]:
    """Return a forgotten memory as its tombstone: that it was, not what it said."""
    return {name: found[name] for name in ("id", "kind", "project", "at", "state")} | {"text": ""}


def _show(found: dict[str, Any]) -> None:
    output.say(output.clean(found["text"]) or _FORGOTTEN)
    output.say()
    for name, value in found.items():
        if name in ("text", "history") or value in (None, [], {}, ""):
            continue
        if name == "edges":
            value = [f"{edge['source']} {edge['relation']} {edge['target']}" for edge in value]
        words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        output.say(f"{name:14}{output.clean(words)}")
    for event in found.get("history", ()):
        detail = {
            name: value for name, value in event.items() if name not in ("seq", "at", "event")
        }
        words = ", ".join(f"{name} {value}" for name, value in detail.items() if value is not None)
        output.say(f"{event['at']}  {event['event']:10}  {output.one_line(words)}")


@click.command(name="list", epilog=output.example("mnemolog list --kind decision --limit 10"))
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(MEMORY_KINDS),
    metavar="KIND",
    help="Only of this kind; may be repeated.",
)
@click.option("--project", help="Of this project, or of none; else of all.")
@click.option(
    "--state", type=click.Choice(_STATES), default="active", help="In this state; else active."
)
@click.option("--tag", "tags", multiple=True, help="Only with this tag; may be repeated.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, help="How many at most; else 20."
)
@output.json_option
@click.pass_obj
def list_(
    session_: Session,
    /,
    kinds: tuple[str, ...],
    project: str | None,
    state: str,
    tags: tuple[str, ...],
    limit: int,
    as_json: bool,
) -> None:
    """List memories, the newest first."""
    settings = session_.settings()
    if project is not None:
        checked_project(project)
    with session.open_log(settings) as log:
        from serve.answers import short
        from serve.reader import Reader
        from store.embedding import embedder

        reader = Reader(
            session.chosen(settings), log, embedder(settings.choices.embedder, settings.home)
        )
        with reader.view() as view:
            found = _newest(view, kinds, project, state, tags, limit)
        if as_json:
            shown = [
                _without_words(short(one)) if state == "forgotten" else short(one) for one in found
            ]
            output.emit({"memories": shown})
            return
        rows = [
            (
                output.short_id(log, one["id"]),
                one["kind"],
                one["at"][:10],
                _end(one["project"] or ""),
                _FORGOTTEN if state == "forgotten" else output.one_line(one["text"], 200),
            )
            for one in map(short, found)
        ]
    if rows:
        output.table(("id", "kind", "date", "project", "text"), rows)
    else:
        output.say("no such memories")


def _end(project: str) -> str:
    """Return a project's name, or its telling end where it is long."""
    return project if len(project) <= _PROJECT_WIDTH else f"…{project[1 - _PROJECT_WIDTH :]}"


def _newest(
    view: "View",
    kinds: tuple[str, ...],
    project: str | None,
    state: str,
    tags: tuple[str, ...],
    limit: int,
) -> "list[Memory]":
    """Return the newest memories that pass, the snapshot's and the tail's together."""
    import numpy as np

    from serve.filters import Filter
    from store.projections.memories import ACTIVE

    # `Filter` never lets a forgotten memory pass; here its other conditions are asked of any state
    asked = Filter(session.now(), project, kinds, (), tags)
    rows = view.snapshots.rows
    mask = asked.mask(rows) if state == ACTIVE else rows.equal("state", (state,))
    mask[list(view.tail.hidden)] = False
    documents = np.flatnonzero(mask)
    order = np.lexsort((-documents, -rows.created_at[documents]))
    newest = documents[order[: limit if state == ACTIVE else None]]
    found = rows.take([int(document) for document in newest])
    found += [memory for slot, memory in enumerate(view.tail.memories) if view.tail.live(slot)]
    passed = [one for one in found if one.state == state and asked.accepts(_as_active(one, state))]
    return sorted(passed, key=lambda one: (-one.created_at, -one.seq))[:limit]


def _as_active(memory: "Memory", state: str) -> "Memory":
    return memory if state == "active" else replace(memory, state="active", expires_at=None)

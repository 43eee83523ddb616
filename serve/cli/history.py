"""`mnemolog history`: what held before, and until when."""

from collections.abc import Sequence
from typing import Any

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.home.errors import NotFound
from store.log import EventLog


@click.command(epilog=output.example("mnemolog history deploy.region", "mnemolog history 01KA2B3C"))
@click.argument("name", metavar="KEY|ID")
@click.option("--project", help="The project; default: that of the working directory.")
@click.option("--all-projects", is_flag=True, help="The key's values of whatever project.")
@output.json_option
@click.pass_obj
def history(
    session_: Session, /, name: str, project: str | None, all_projects: bool, as_json: bool
) -> None:
    """List the values of a key, or a memory's replacements. The newest comes first."""
    settings = session_.settings()
    belongs = session.project(settings, project, none=all_projects)
    with session.open_log(settings) as log:
        from serve.reader.reader import Reader
        from serve.summaries import history as histories
        from store.embedders.embedder import make_embedder

        reader = Reader(session.chosen(settings), log, make_embedder(settings.choices.embedder))
        with reader.view() as view:
            found = histories.of_key(view, name, belongs)
            asked = {"key": name}
            if not found:
                asked = {"id": _resolved(log, name)}
                found = histories.of_memory(view, asked["id"])
        shown = [histories.shown(one) for one in found]
        if as_json:
            output.emit(asked | {"memories": shown})
        else:
            _show(log, shown)


def _resolved(log: EventLog, name: str) -> str:
    from store.commands import resolve

    try:
        return resolve(log, name)
    except NotFound as error:
        raise NotFound(
            f"no key or memory {name!r} here: --all-projects searches every project for the key"
        ) from error


def _show(log: EventLog, found: Sequence[dict[str, Any]]) -> None:
    columns = ("from", "until", "id", "state", "value", "said in", "text")
    rows = [
        (
            _minute(one["from"]),
            _until(one),
            output.short_id(log, one["id"]),
            one["state"],
            output.one_line(one.get("value", ""), 24),
            output.one_line(" ".join(one[name] for name in _ORIGIN if name in one), 24),
            output.one_line(one["text"], 200) or "(forgotten)",
        )
        for one in found
    ]
    output.table(columns, rows)


_ORIGIN = ("source", "session")


def _until(one: dict[str, Any]) -> str:
    if one["until"] is None:
        return "now"
    return _minute(one["until"]) if one["until"] > one["from"] else "never valid"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")

"""`mnemolog overview` and `timeline`: what is known of a topic, in order."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from store.home.instants import micros
from store.log import EventLog

_WIDTH = 90
_TITLES = {
    "rules": "Rules",
    "now": "Current",
    "goals": "Open goals",
    "background": "Background",
    "timeline": "Timeline",
    "replaced": "Replaced",
}


@click.command(epilog=output.example("mnemolog overview deploys"))
@click.argument("topic", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--project", help="The project; default: that of the working directory.")
@click.option("--all-projects", is_flag=True, help="All projects.")
@output.json_option
@click.pass_obj
def overview(
    session_: Session,
    /,
    topic: tuple[str, ...],
    project: str | None,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Summarize a TOPIC. The summary has current facts, rules, goals, a timeline, and what was
    replaced.
    """
    settings = session_.settings()
    belongs = session.project(settings, project, none=all_projects)
    with session.open_log(settings) as log:
        from serve.reader.filters import Filter
        from serve.reader.reader import Reader
        from serve.summaries import overview as overviews
        from store.embedders.embedder import make_embedder

        asked = Filter(session.now(), belongs)
        question = overviews.about(output.encodable(" ".join(topic)), asked, settings.choices)
        model = make_embedder(settings.choices.embedder)
        with Reader(session.chosen(settings), log, model).view() as view:
            found = overviews.shown(overviews.overview(view, question, model))
        if as_json:
            output.emit(found)
        else:
            _show(log, found)


def _show(log: EventLog, found: dict[str, Any]) -> None:
    for notice in found.get("notices", ()):
        output.note(f"note: {notice}")
    output.say(f"{output.clean(found['topic'])}: {found['found']} memories")
    for group, title in _TITLES.items():
        if found[group]:
            output.say(f"\n{title}")
        for one in found[group]:
            output.say(_line(log, one))
    if found["names"]:
        named = (f"{output.clean(one['name'])} ({one['memories']})" for one in found["names"])
        output.say(f"\nNames\n  {', '.join(named)}")


def _line(log: EventLog, one: dict[str, Any]) -> str:
    until = f" until {one['ended_at'][:10]}" if "ended_at" in one else ""
    said = f"{one['status']}: " if "status" in one else ""
    text = output.one_line(said + one["text"], _WIDTH)
    id_ = output.short_id(log, one["id"])
    return f"  {one['at'][:10]}{until}  {one['kind']:10}  {id_}  {text}"


@click.command(epilog=output.example("mnemolog timeline deploys --since 30d"))
@click.argument("topic", nargs=-1, metavar="[TOPIC]...")
@click.option("--project", help="The project; default: that of the working directory.")
@click.option("--all-projects", is_flag=True, help="All projects.")
@click.option("--since", help="Not older than this: 2026-11-20, or 7d.")
@click.option("--until", help="Older than this: 2026-11-20, or 7d.")
@click.option(
    "--limit", type=click.IntRange(1, 200), default=50, help="The maximum number; default: 50."
)
@output.json_option
@click.pass_obj
def timeline(
    session_: Session,
    /,
    topic: tuple[str, ...],
    project: str | None,
    all_projects: bool,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List memories by day, oldest first. They are those about TOPIC, or the newest ones."""
    settings, at = session_.settings(), session.now()
    belongs = session.project(settings, project, none=all_projects)
    start, end = (micros(moments.moment(one, at)) if one else None for one in (since, until))
    with session.open_log(settings) as log:
        from serve.reader.filters import Filter
        from serve.reader.reader import Reader
        from serve.recall.recall import recall
        from serve.summaries import overview as overviews
        from serve.summaries.newest import newest
        from store.embedders.embedder import make_embedder

        asked = Filter(at, belongs, since=start, until=end)
        model = make_embedder(settings.choices.embedder)
        with Reader(session.chosen(settings), log, model).view() as view:
            if topic:
                words = output.encodable(" ".join(topic))
                question = overviews.about(words, asked, settings.choices, limit)
                found = [hit.memory for hit in recall(view, question, model).hits]
            else:
                found = newest(view, asked, limit)
        told = [overviews.item(one) for one in overviews.along_time(found)]
        if as_json:
            output.emit({"memories": told})
        else:
            _show_days(log, told)


def _show_days(log: EventLog, told: Sequence[dict[str, Any]]) -> None:
    if not told:
        output.say("no matching memories")
    for day, those in groupby(told, key=lambda one: str(one["at"][:10])):
        output.say(day)
        for one in those:
            id_ = output.short_id(log, one["id"])
            text = output.one_line(one["text"], _WIDTH)
            output.say(f"  {one['at'][11:16]}  {one['kind']:10}  {id_}  {text}")

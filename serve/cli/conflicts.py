"""`mnemolog conflicts`: what the memories say that cannot hold together."""

from collections.abc import Sequence
from typing import Any

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.home.projects import checked_project

_TITLES = {
    "overridden": "another author's value was replaced",
    "facts": "two values of one thing",
    "linked": "linked as a conflict",
    "wording": "the same except for a value",
    "stale": "its file changed",
}


@click.command(epilog=output.example("mnemolog conflicts", "mnemolog conflicts --project acme/web"))
@click.option("--project", help="Only this project's and those without one; default: all.")
@output.json_option
@click.pass_obj
def conflicts(session_: Session, /, project: str | None, as_json: bool) -> None:
    """List contradictions. Show both sides, when and by whom they were recorded, and how to settle
    them.

    Contradictions are: values replaced by another author, two values of one relation, conflict
    links, texts that differ in one value only, and memories about a file that has changed.
    """
    if project is not None:
        checked_project(project)
    settings = session_.settings()
    now = session.now()
    with session.open_log(settings) as log:
        from serve.reader.reader import Reader
        from serve.summaries import conflicts as found_conflicts
        from store.embedders.embedder import make_embedder

        model = make_embedder(settings.choices.embedder, settings.home)
        reader = Reader(session.chosen(settings), log, model)
        found, is_all = reader.answered(
            lambda view: found_conflicts.conflicts(view, log, now, project)
        )
        shown = [found_conflicts.shown(one, now) for one in found]
        if as_json:
            output.emit({"conflicts": shown, "compared_all": is_all})
        else:
            _show(shown)
        if not is_all:
            output.note(f"only the newest {found_conflicts.MOST_COMPARED:,} texts were compared")


def _show(found: Sequence[dict[str, Any]]) -> None:
    if not found:
        output.say("no conflicts")
    for number, one in enumerate(found, start=1):
        if number > 1:
            output.say()
        about = f"{output.one_line(one['about'])}: " if one["about"] else ""
        output.say(f"{number}. {about}{_TITLES[one['what']]} ({output.one_line(one['why'], 120)})")
        for side in one["sides"]:
            value = f"{output.one_line(side['value'], 40)}  " if side["value"] else ""
            state = "" if side["holds"] else f" ({side['state']})"
            output.say(
                f"   {side['at'][:10]}  {output.one_line(side['said_by'], 24)}  {value}{state}"
            )
            for line in output.block(side["text"], "      ", 2):
                output.say(line)
        for command in one["settle"]:
            output.say(f"   $ {command}")

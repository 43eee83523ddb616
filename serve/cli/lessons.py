"""`mnemolog lessons`: how often each was shown and followed, its impact; drafts, yes or no."""

from typing import TYPE_CHECKING, Any

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.events import Recorded
from store.home.errors import InvalidInput, NotFound
from store.home.projects import checked_project

if TYPE_CHECKING:
    from serve.lessons.standing import Statistics
    from store.home.config import Settings
    from store.log import EventLog

_LEAST = 4  # letters of a draft's id that are shown; more where two begin alike


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog lessons", "mnemolog lessons accept 7HQ2"),
)
@click.option("--project", help="Only this project's and those without one; default: all.")
@output.json_option
@click.pass_context
def lessons(context: click.Context, project: str | None, as_json: bool) -> None:
    """Show how lessons do, and what waits for your decision. It shows how often each was shown and
    followed, and its impact.

    Impact is how much more often tests, builds and deployments succeeded in turns that followed the
    lesson than in turns that ignored it, in percentage points with a 95 % interval. It is unknown
    with fewer than three turns of either.
    """
    if context.invoked_subcommand is not None:
        return
    from serve.lessons.standing import shown

    settings = context.obj.settings()
    if project is not None:
        checked_project(project)
    with session.open_log(settings) as log:
        found = _statistics(settings, log, project)
        if as_json:
            output.emit(shown(found))
        else:
            _show(log, shown(found))


@lessons.command(epilog=output.example("mnemolog lessons accept 7HQ2"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@output.json_option
@click.pass_obj
def accept(session_: Session, /, ids: tuple[str, ...], as_json: bool) -> None:
    """Make statements and drafts rules, recorded as your words. You can shorten an ID."""
    from store import lesson_commands

    settings = session_.settings()
    with session.open_log(settings) as log:
        wanted = _resolved(settings, log, ids)
        made = [lesson_commands.accept(log, id_, session.now()) for id_ in wanted]
        if as_json:
            output.emit({"memories": [{"id": one.id, "seq": one.seq} for one in made]})
            return
        for one in made:
            text = one.body.content if isinstance(one.body, Recorded) else ""
            output.say(f"{output.short_id(log, one.id)}  {output.one_line(text)}")


@lessons.command(epilog=output.example('mnemolog lessons reject 7HQ2 --reason "only that once"'))
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def reject(session_: Session, /, ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Forget a statement, or stop a draft from being proposed again. You can shorten an ID."""
    from store import lesson_commands

    settings = session_.settings()
    with session.open_log(settings) as log:
        wanted = _resolved(settings, log, ids)
        for id_ in wanted:
            lesson_commands.reject(log, id_, session.now(), reason)
    if as_json:
        output.emit({"rejected": wanted})
    else:
        output.say(f"rejected {', '.join(wanted)}")


def _statistics(settings: "Settings", log: "EventLog", project: str | None) -> "Statistics":
    from serve.lessons.standing import statistics
    from serve.reader.filters import Filter
    from serve.reader.reader import Reader
    from store.embedders.embedder import make_embedder

    chosen = make_embedder(settings.choices.embedder, settings.home)
    reader = Reader(session.chosen(settings), log, chosen)
    asked = Filter(session.now(), project)
    return reader.answered(lambda view: statistics(view, log, asked))


def _resolved(settings: "Settings", log: "EventLog", prefixes: tuple[str, ...]) -> list[str]:
    """Return the drafts that are meant; raise NotFound or InvalidInput, before any is changed."""
    waiting = [row["id"] for row in _statistics(settings, log, None).drafts]
    return list(dict.fromkeys(_one(log, waiting, prefix.upper()) for prefix in prefixes))


def _one(log: "EventLog", waiting: list[str], prefix: str) -> str:
    found = [id_ for id_ in waiting if id_.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(f"{prefix!r} could be {', '.join(found)}: give more letters of the id")
    if log.known([prefix]):
        return prefix  # answered before: saying it again says how
    raise NotFound(f"no statement or draft {prefix!r}: `mnemolog lessons` lists them")


def _show(log: "EventLog", found: dict[str, Any]) -> None:
    rows = [
        (
            output.short_id(log, one["id"]),
            *(str(one[name]) for name in ("surfaced", "followed", "ignored", "not_applicable")),
            _impact(one["impact"]),
            output.one_line(one["text"] + (" (at rest)" if one["at_rest"] else ""), 200),
        )
        for one in found["lessons"]
    ]
    if rows:
        columns = ("id", "shown", "followed", "ignored", "n/a", "impact", "lesson")
        output.table(columns, rows)
    else:
        output.say("no lesson has been shown yet")
    if found["never_shown"]:
        output.say(f"{found['never_shown']} more were never shown")
    drafts = found["drafts"]
    if drafts:
        output.say()
        ids = [one["id"] for one in drafts]
        output.table(
            ("waiting", "date", "text"),
            [(_short(one["id"], ids), one["at"][:10], one["text"]) for one in drafts],
        )
        output.note("next: `mnemolog lessons accept ID`, or `mnemolog lessons reject ID`")


def _short(id_: str, among: list[str]) -> str:
    for length in range(_LEAST, len(id_)):
        if sum(one.startswith(id_[:length]) for one in among) == 1:
            return id_[:length]
    return id_


def _impact(worth: dict[str, float] | None) -> str:
    if worth is None:
        return "unknown"
    return "{value:+.0f} ({low:+.0f} to {high:+.0f})".format(
        **{name: 100 * value for name, value in worth.items()}
    )

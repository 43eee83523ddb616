"""`mnemolog recall` and `why`: ask for memories, and ask why these came back."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from serve import moments
from serve.cli import output, served, session
from serve.cli.session import Session
from serve.summaries.recording import recording
from store.events import MEMORY_KINDS
from store.home.config import Settings
from store.home.errors import LogError
from store.log import EventLog
from store.text.text_features import MAY_RULE

if TYPE_CHECKING:
    from serve.reader.reader import Reader
    from serve.recall.request import RecallRequest
    from store.events import Event

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--top-k", type=click.IntRange(1, 200), help="The maximum number of results."),
    click.option(
        "--mode",
        type=click.Choice(["auto", "lexical", "vector", "entity"]),
        default="auto",
        show_default=True,
        help="Which channels search.",
    ),
    click.option(
        "--profile",
        type=click.Choice(["balanced", "wal", "match"]),
        help="How results are ordered.",
    ),
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        type=click.Choice(MEMORY_KINDS),
        metavar="KIND",
        help="Only this kind; may be repeated.",
    ),
    click.option("--tag", "tags", multiple=True, help="Only with this tag; may be repeated."),
    click.option("--project", help="The project; default: that of the working directory."),
    click.option("--all-projects", is_flag=True, help="All projects."),
    click.option("--since", help="Not older than this: 2026-11-20, or 7d."),
    click.option("--until", help="Older than this: 2026-11-20, or 7d."),
    click.option("--as-of", help="As of then: 2026-11-20, 7d, or @1234 of the log."),
    click.option(
        "--min-confidence", type=click.FloatRange(0, 1), help="The lowest confidence to return."
    ),
    click.option(
        "--min-score", type=click.FloatRange(min=0), default=0.0, help="The lowest score to return."
    ),
    click.option("--cold", is_flag=True, help="Include archived and expired memories."),
    click.option(
        "--include-archived", is_flag=True, help="Include memories that are no longer current."
    ),
)


def _asking(command: Command) -> Command:
    """Add what `recall` and `why` both take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(epilog=output.example("mnemolog recall why do deploys need two approvals --top-k 3"))
@click.argument("query", nargs=-1, required=True, metavar="QUERY...")
@_asking
@click.option("--no-touch", is_flag=True, help="Leave no receipt; do not count as use.")
@click.option("--why", "explain", is_flag=True, help="Show why each result was returned.")
@output.json_option
@click.pass_obj
def recall(
    session_: Session,
    /,
    query: tuple[str, ...],
    no_touch: bool,
    explain: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Recall the memories that answer QUERY, best first."""
    settings, at = session_.settings(), session.now()
    touch = not no_touch and not recording(settings, "", Path.cwd(), at)["off"]
    question = _question(settings, " ".join(query), at, touch=touch, explain=explain, **asked)
    with session.open_log(settings, waits=True) as log:
        payload, receipt = served.recalled(settings, question), None
        is_served = payload is not None
        if payload is None:
            payload, receipt = _answer(settings, log, question, at)
        if as_json:
            output.emit(payload)
        else:
            _show(log, payload, question["project"])
        if is_served and "recall" in payload:
            served.keep_receipt(settings, payload["recall"])
        elif receipt is not None:
            try:
                log.append([receipt])
            except LogError as error:  # the answer was given; only its receipt is lost
                output.note(f"note: no receipt was stored: {error}")


@click.command(epilog=output.example('mnemolog why "deploy approvals" 01KA2B3C4D'))
@click.argument("query")
@click.argument("id_", metavar="[ID]", required=False)
@_asking
@output.json_option
@click.pass_obj
def why(session_: Session, /, query: str, id_: str | None, as_json: bool, **asked: Any) -> None:
    """Show what every stage of a recall did. With ID, show why that memory was returned or not."""
    settings, at = session_.settings(), session.now()
    question = _question(settings, query, at, touch=False, explain=True, **asked)
    with session.open_log(settings, waits=True) as log:
        from serve.cli import explain

        if id_ is None:
            payload = served.recalled(settings, question)
            payload = payload or _answer(settings, log, question, at)[0]
            value: dict[str, Any] = payload
            lines = list(explain.stages(log, payload))
        else:
            from serve.cli import lost
            from serve.recall.request import answer
            from store.commands import resolve

            wanted, request = resolve(log, id_), _request(question)
            reader, embedder = _reader(settings, log)
            payload, _ = answer(reader, embedder, request, settings.choices, at)
            reason = lost.reason(reader, embedder, request, settings.choices, at, wanted)
            returned = any(hit["id"] == wanted for hit in payload["hits"])
            value = {"id": wanted, "returned": returned, "reason": reason, "recall": payload}
            lines = [f"{output.short_id(log, wanted)} {reason}"]
        if as_json:
            output.emit(value)
        else:
            for line in lines:
                output.say(line)


def _question(
    settings: Settings,
    query: str,
    at: int,
    *,
    project: str | None,
    all_projects: bool,
    since: str | None,
    until: str | None,
    as_of: str | None,
    include_archived: bool,
    **asked: Any,
) -> dict[str, Any]:
    """Return the request as HTTP takes it; raise InvalidInput or InvalidName."""
    return asked | {
        "query": output.encodable(query),
        "project": session.project(settings, project, none=all_projects),
        "since": moments.moment_if_any(since, at),
        "until": moments.moment_if_any(until, at),
        "as_of": moments.point(as_of, at) if as_of else None,
        "active_only": not include_archived,
    }


def _request(question: dict[str, Any]) -> "RecallRequest":
    """Return a checked request; raise msgspec.ValidationError."""
    from serve.recall.request import RecallRequest

    return msgspec.convert(question, RecallRequest)


def _answer(
    settings: Settings, log: EventLog, question: dict[str, Any], at: int
) -> "tuple[dict[str, Any], Event | None]":
    """Answer in this process; return the receipt too, where one is to be kept."""
    from serve.recall.request import answer

    request = _request(question)
    reader, embedder = _reader(settings, log)
    return answer(reader, embedder, request, settings.choices, at)


def _reader(settings: Settings, log: EventLog) -> "tuple[Reader, Any]":
    from serve.reader.reader import Reader
    from serve.recall.query_embedder import QueryEmbedder
    from store.embedders.embedder import make_embedder

    model = QueryEmbedder(make_embedder(settings.choices.embedder, settings.home, while_asked=True))
    return Reader(session.chosen(settings), log, model), model


def _show(log: EventLog, payload: dict[str, Any], project: str | None) -> None:
    from serve.cli import explain

    for notice in payload.get("notices", ()):
        output.note(f"note: {notice}")
    for rank, hit in enumerate(payload["hits"], 1):
        of = f"  {hit['project']}" if hit["project"] else ""
        sure = f"{hit['confidence']:.0%}"
        id_ = output.short_id(log, hit["id"])
        until = f" until {hit['ended_at'][:10]}" if "ended_at" in hit else ""
        until += f" ({hit['state']})" if hit.get("state") in ("archived", "expired") else ""
        kind = f"{hit['kind']} (rule)" if hit["role"] == "rule" else hit["kind"]
        by = hit.get("trust", "user")
        whose = f" (said by {by})" if by not in MAY_RULE else ""
        output.say(f"{rank:2}. {kind}{whose}  {hit['at'][:10]}{until}{of}  {sure}  {id_}")
        for line in output.block(hit["text"]):
            output.say(line)
        for line in explain.marks(log, hit):
            output.say(f"    {line}")
        if "why" in hit:
            output.say(f"    why: {explain.hit(hit['why'])}")
    below, bar = payload["below_bar"], payload["min_confidence"]
    if not payload["hits"]:
        scope = f" in {project}" if project else ""
        output.say(f"nothing recalled{scope}; {below} below the threshold of {bar:.0%}")
    elif below:
        output.say(f"{below} below the threshold of {bar:.0%}")

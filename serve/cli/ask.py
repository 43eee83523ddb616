"""
Commands that query the memory and rate its answers: `recall`, `ask`, `why`, `rate` and `pending`.

A running server answers if it can; otherwise this process does, with the same result.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.server import processes
from store.home.config import Settings
from store.home.errors import InvalidInput, LogError, NotFound, did_you_mean
from store.home.instants import isoformat
from store.home.project_context import recording_status
from store.home.projects import SHARED
from store.log.event_kinds import EPISODE, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.text.text_features import MAY_RULE

if TYPE_CHECKING:
    from serve.recall.request import RecallRequest


Command = TypeVar("Command", bound=Callable[..., Any])

_RECALL_OPTIONS = (
    click.option(
        "--top-k", "--limit", type=click.IntRange(1, 200), help="The maximum number of results."
    ),
    arguments.mode_option,
    click.option(
        "--profile",
        type=arguments.Choice(["balanced", "wal", "match"]),
        help="How results are ordered.",
    ),
    arguments.kinds_option,
    arguments.tags_option,
    arguments.project_option,
    arguments.all_projects_option,
    arguments.since_option,
    arguments.until_option,
    arguments.as_of_option,
    arguments.known_at_option,
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


def _recall_options(command: Command) -> Command:
    """Add the options of both `recall` and `why`."""
    for option in reversed(_RECALL_OPTIONS):
        command = option(command)
    return command


@click.command(epilog=output.example("mnemolog recall why do deploys need two approvals --top-k 3"))
@click.argument("query", nargs=-1, required=True, metavar="QUERY...")
@_recall_options
@click.option("--no-touch", is_flag=True, help="Leave no receipt; do not count as use.")
@click.option("--why", "explain", is_flag=True, help="Show why each result was returned.")
@output.json_option
@click.pass_obj
def recall(
    env: Environment,
    /,
    query: tuple[str, ...],
    no_touch: bool,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Recall the memories that answer QUERY, best first."""
    settings = env.settings()
    options |= {"touch": _may_touch(settings, no_touch), "explain": explain}
    with environment.open_log(settings, waits=True) as log:
        payload, receipt = _answer(settings, log, " ".join(query), **options)
        if as_json:
            output.emit(payload)
        else:
            _print_hits(log, payload, " ".join(query), _asked_project(settings, options))
        _keep(settings, log, payload, receipt)


def _may_touch(settings: Settings, no_touch: bool) -> bool:
    is_off = recording_status(settings, "", Path.cwd(), environment.now())["off"]
    return not (no_touch or is_off)


def _asked_project(settings: Settings, options: dict[str, Any]) -> str | None:
    is_all: bool = options["all_projects"]
    return environment.project_or_default(settings, options["project"], none=is_all)


def _keep(
    settings: Settings, log: EventLog, payload: dict[str, Any], receipt: "Event | None"
) -> None:
    """Store the receipt of an answer, through the server that gave it, or in this process."""
    if receipt is None and "recall" in payload:  # of a server
        environment.keep_receipt(settings, payload["recall"])
    elif receipt is not None:
        try:
            log.append([receipt])
        except LogError as error:  # the answer was given; only its receipt is lost
            output.note(f"note: no receipt was stored: {error}")


_RESULTS_A_PART = 3


@click.command(
    epilog=output.example(
        'mnemolog ask "Which region do we deploy to, and why did the cache fail in May?"'
    )
)
@click.argument("question", nargs=-1, required=True, metavar="QUESTION...")
@_recall_options
@click.option("--no-model", is_flag=True, help="Split by rules, even if a model is set.")
@click.option("--no-touch", is_flag=True, help="Leave no receipts; do not count as use.")
@output.json_option
@click.pass_obj
def ask(
    env: Environment,
    /,
    question: tuple[str, ...],
    no_model: bool,
    no_touch: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Recall the answer to each part of a compound QUESTION.

    A model splits it if `[llm]` names one (see `rules_only`), else rules do. The recalls themselves
    ask no model. --top-k counts for each part; 3 by default.
    """
    settings = env.settings()
    whole = " ".join(question)
    options["top_k"] = options["top_k"] or _RESULTS_A_PART
    options |= {"touch": _may_touch(settings, no_touch), "explain": False}
    parts, split_by = _split(settings, whole, no_model=no_model)
    with environment.open_log(settings, waits=True) as log:
        answers = []
        for part in parts:
            payload, receipt = _answer(settings, log, part, **options)
            answers.append({"question": part, "answer": payload})
            if not as_json:
                output.say(output.clean(part))
                _print_hits(log, payload, part, _asked_project(settings, options))
                output.say()
            _keep(settings, log, payload, receipt)
    if as_json:
        output.emit({"question": whole, "split_by": split_by, "parts": answers})
    elif len(parts) > 1:
        output.note(f"split by {split_by}")


def _split(settings: Settings, question: str, *, no_model: bool) -> tuple[Sequence[str], str]:
    """Return the parts of a question and their finder: the rules, or a model by its name."""
    from serve.recall.question_parts import split_question

    if settings.choices.llm.may_serve("questions") and not no_model:
        tenant = environment.current_tenant(settings)
        child = processes.start_job(
            settings,
            *("split", "--tenant", tenant.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        data, _ = child.communicate(output.encodable(question).encode())
        if child.returncode:
            sys.exit(child.returncode)
        payload = msgspec.json.decode(data)
        if "parts" in payload:
            return payload["parts"], payload["model"]
        output.note(f"note: no model split the question, so rules do: {payload['failed']}")
    return split_question(question), "rules"


_REMEDIES = {
    "archived": "--cold includes it",
    "ended": "--include-archived includes it",
    "expired": "--cold includes it",
    "project": "try --all-projects",
    "confidence": "lower --min-confidence",
    "score": "lower --min-score",
    "rank": "raise --top-k",
    "insight": "--kind insight includes it",
    "as_of": "--as-of",
    "since": "--since",
    "until": "--until",
}


@click.command(epilog=output.example('mnemolog why "deploy approvals" 01KA2B3C4D'))
@click.argument("query")
@click.argument("id_", metavar="[ID]", required=False, type=arguments.MEMORY)
@_recall_options
@output.json_option
@click.pass_obj
def why(
    env: Environment,
    /,
    query: str,
    id_: str | None,
    known_at: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what every stage of a recall did. With ID, show why that memory was returned or not."""
    settings = env.settings()
    options |= {"touch": False, "explain": True}
    with environment.open_log(settings, waits=True) as log:
        if id_ is None:
            from serve.cli import explanations

            payload, _ = _answer(settings, log, query, known_at, **options)
            value: dict[str, Any] = payload
            lines = list(explanations.stage_lines(log, payload))
        else:
            from serve.recall.request import answer
            from serve.reports.why import Remedies, explain_memory
            from store.log.commands import resolve

            with environment.known(settings, log, known_at) as here:
                request = _request(_request_body(settings, query, here.now, **options))
                wanted = resolve(here.log, id_)
                payload, _ = answer(here.reader, request, here.choices, here.now)
                reason = explain_memory(
                    here.reader,
                    request,
                    here.choices,
                    here.now,
                    wanted,
                    Remedies(**_REMEDIES),
                )
            returned = any(hit["id"] == wanted for hit in payload["hits"])
            value = {"id": wanted, "returned": returned, "reason": reason, "recall": payload}
            lines = [f"{output.short_id(log, wanted)} {reason}"]
        if as_json:
            output.emit(value)
        else:
            for line in lines:
                output.say(line)


def _request_body(
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
    **options: Any,
) -> dict[str, Any]:
    """Return the body of the HTTP request; raise InvalidInput or InvalidName."""
    return options | {
        "query": output.encodable(query),
        "project": environment.project_or_default(settings, project, none=all_projects),
        "since": formatting.parse_optional_time(since, at),
        "until": formatting.parse_optional_time(until, at),
        "as_of": formatting.parse_time_point(as_of, at) if as_of else None,
        "active_only": not include_archived,
        "for_agents": not environment.presence().is_person,
    }


def _request(question: dict[str, Any]) -> "RecallRequest":
    """Return a checked request; raise msgspec.ValidationError."""
    from serve.recall.request import RecallRequest

    return msgspec.convert(question, RecallRequest)


def _answer(
    settings: Settings, log: EventLog, query: str, known_at: str | None, **options: Any
) -> "tuple[dict[str, Any], Event | None]":
    """Return the answer, and its receipt if this process gave it and one is to be kept.

    Questions about the past are answered here, and leave no receipt.
    """
    if known_at is None:
        question = _request_body(settings, query, environment.now(), **options)
        payload = environment.ask_server(settings, "POST", "/v1/recall", question)
        if payload is not None:
            return payload, None
    else:
        options["touch"] = False
    from serve.recall.request import Asker, answer  # not needed if a server answers: it takes long
    from store.shared.tree import SharedTrees

    with environment.known(settings, log, known_at) as here:
        request = _request(_request_body(settings, query, here.now, **options))
        trees, cwd = SharedTrees(settings.home), str(Path.cwd())
        shared = trees.scopes(log, cwd, here.now) if known_at is None else ()
        asker = Asker(door="cli", shared=shared)
        payload, receipt = answer(here.reader, request, here.choices, here.now, asker)
        return payload | here.place, receipt


def _print_hits(log: EventLog, payload: dict[str, Any], question: str, project: str | None) -> None:
    from serve.cli import explanations
    from store.text.tokenizer import terms

    about = frozenset(terms(question))
    for notice in payload.get("notices", ()):
        output.note(f"note: {notice}")
    for rank, hit in enumerate(payload["hits"], 1):
        project_name, is_shared, _ = (hit["project"] or "").partition(SHARED)
        of = f"  {project_name}" if project_name else ""
        sure = f"{hit['confidence']:.0%}"
        sure = output.colour(f"{sure} unsure", "warn") if hit.get("unsure") else sure
        id_ = output.faint(output.short_id(log, hit["id"]))
        until = f" until {hit['ended_at'][:10]}" if "ended_at" in hit else ""
        until += f" ({hit['state']})" if hit.get("state") in ("archived", "expired") else ""
        kind = f"{hit['kind']} (rule)" if hit["role"] == "rule" else hit["kind"]
        by = hit.get("trust", "user")
        # an episode names the speaker of each of its parts
        is_plain = by in MAY_RULE or (by == "tool" and hit["kind"] == EPISODE)
        whose = "" if is_plain else f" (said by {by})"
        if is_shared:
            quoted = "" if by in MAY_RULE else ", quoted"
            whose = f" (shared in {hit['source'].removeprefix('shared:')}{quoted})"
        output.say(f"{rank:2}. {kind}{whose}  {hit['at'][:10]}{until}{of}  {sure}  {id_}")
        for line in explanations.passage_lines(hit, about):
            output.say(line)
        if reason := hit.get("held"):
            output.say(f"    {output.colour(f'held back from agents: {reason}', 'warn')}")
        for line in explanations.mark_lines(log, hit):
            output.say(f"    {line}")
        if "why" in hit:
            output.say(output.faint(f"    why: {formatting.hit_reason(hit['why'])}"))
    below, bar = payload["below_bar"], payload["min_confidence"]
    if not payload["hits"]:
        scope = f" in {project}" if project else ""
        output.say(f"nothing recalled{scope}. {payload.get('hint', '')}".rstrip())
    elif all(hit.get("unsure") for hit in payload["hits"]):
        output.say("None of these is sure to be what you ask for: they are the nearest.")
    if below and payload["hits"]:
        output.say(f"{below} below the threshold of {bar:.0%}")
    if held_back := payload.get("held_back"):
        output.say(f"{held_back} held back from agents until you accept: `mnemolog lessons`")


# rate

_MOST_RECEIPTS = 2_000  # looked at for the last recall
WORDS = {"harmful": -1.0, "useless": -0.5, "useful": 0.5, "decisive": 1.0}


# a verdict may begin with a minus
@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=output.example(
        "mnemolog rate last useful",
        "mnemolog rate 01KA2B3C4D useful",
        'mnemolog rate 01KA2B3C4D -1 --reason "the port changed"',
    ),
)
@click.argument("id_", metavar="ID", type=arguments.RATED)
@click.argument("verdict")
@arguments.reason_option
@click.option("--dry-run", is_flag=True, help="Show what would be rated, and stop.")
@output.json_option
@click.pass_obj
def rate(
    env: Environment,
    /,
    id_: str,
    verdict: str,
    reason: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rate how much a memory or recall helped. ID names either; a rating of a recall counts for all
    its results.

    VERDICT is harmful, useless, useful or decisive, or a number from -1 to 1. You can shorten an ID
    to its first letters. `last` is the newest recall by a command or over REST, not by a hook or
    MCP. `mnemolog pending` lists unrated recalls. Ratings take effect with the next build.
    """
    value = _value(verdict)
    from store.log import commands

    with environment.open_log(env.settings()) as log:
        wanted = _last_recall(log) if id_ == "last" else commands.resolve_rated(log, id_)
        rated = log.events_for(wanted)[0].body
        is_recall = isinstance(rated, Recalled)
        at, trust = environment.now(), environment.presence().trust
        seq = None if dry_run else commands.rate(log, wanted, value, at, reason, trust).seq
    if as_json:
        output.emit({"id": wanted, "verdict": value, "recall": is_recall, "seq": seq})
    else:
        subject = "the memory"
        if isinstance(rated, Recalled):
            subject = f"the results of the recall {output.one_line(rated.query)!r}"
        output.say(f"{'would rate' if dry_run else 'rated'} {subject} {value:+g}")


def _last_recall(log: EventLog) -> str:
    """Return the newest receipt of a recall by a command or over REST; raise NotFound for none."""
    from store.log.log_queries import newest_events

    for event in newest_events(log, ("recalled",), "", _MOST_RECEIPTS):
        if isinstance(event.body, Recalled) and event.body.door in ("cli", "rest"):
            return event.id
    raise NotFound("no recall by a command yet: `mnemolog receipts` lists those of hooks and MCP")


def _value(text: str) -> float:
    if text.casefold() in WORDS:
        return WORDS[text.casefold()]
    try:
        return float(text)
    except ValueError as error:
        hint = did_you_mean(text, WORDS)
        raise InvalidInput(
            f"{text!r} is not a verdict: use {', '.join(WORDS)}, or a number from -1 to 1.{hint}"
        ) from error


# pending

_MOST_PENDING = 3  # texts of a recall


@click.command(epilog=output.example("mnemolog pending", "mnemolog pending --days 1"))
@click.option("--days", default=14, show_default=True, type=click.IntRange(1, 3650), help="Back.")
@output.json_option
@click.pass_obj
def pending(env: Environment, /, days: int, as_json: bool) -> None:
    """List recalls that nobody has rated or judged. Recalls without results are left out."""
    from store.home.instants import DAY
    from store.log.receipts import pending as waiting

    now = environment.now()
    with environment.open_log(env.settings()) as log:
        events = waiting(log, now - days * DAY, now + 1)
        if as_json:
            output.emit({"recalls": list(map(_recall_fields, events))})
            return
        for event in events:
            _print_waiting(log, event)
    if events:
        output.note("next: `mnemolog rate ID useful`, or `mnemolog judge`")
    else:
        output.say("no recall is waiting for a rating")


def _recall_fields(event: Event) -> dict[str, object]:
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


def _print_waiting(log: "EventLog", event: Event) -> None:
    body = event.body
    assert isinstance(body, Recalled)
    output.say(f"{event.id}  {isoformat(event.at)[:16]}  {output.one_line(body.query)}")
    for hit in body.hits[:_MOST_PENDING]:
        output.say(f"    {output.recorded_text(log, hit.id)}")
    if len(body.hits) > _MOST_PENDING:
        output.say(f"    and {len(body.hits) - _MOST_PENDING} more")

"""
Commands that read memories without a question: `show`, `list`, `history` and `lineage`.

A running server answers the first two where it can; else this process does, with the same result.
"""

import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from store.home.config import Settings
from store.home.errors import NotFound
from store.home.instants import micros
from store.log.event_log import EventLog

_STATES = ("active", "archived", "superseded", "forgotten", "stale")
_LINEAGE = ("made", "sources", "made_of_it", "stale_because", "source_ids")
_PROJECT_WIDTH = 28
_MOST_SERVED = 200  # memories of a page over HTTP
_ID = re.compile(r"[0-9A-Za-z]+")


@click.command(epilog=output.example("mnemolog show 01KA2B3C4D"))
@click.argument("id_", metavar="ID", type=arguments.MEMORY)
@arguments.known_at_option
@output.json_option
@click.pass_obj
def show(env: Environment, /, id_: str, known_at: str | None, as_json: bool) -> None:
    """Show a memory with its history. You can shorten its ID to the first letters."""
    settings = env.settings()
    with environment.open_log(settings) as log:
        memory = _read_memory(settings, log, id_, known_at)
    if as_json:
        output.emit(memory)
    else:
        _print_memory(memory)


def _read_memory(
    settings: Settings, log: EventLog, id_: str, known_at: str | None
) -> dict[str, Any]:
    """Return all there is of a memory."""
    if known_at is None and _ID.fullmatch(id_):
        asked = {"for_agents": _for_agents()}
        payload = environment.ask_server(settings, "GET", f"/v1/memories/{id_}", asked)
        if payload is not None:
            return payload
    from serve.reports.memory_detail import full_json_by_id
    from store.log.commands import resolve

    with (
        environment.known(settings, log, known_at) as here,
        here.reader.view() as view,
    ):
        return full_json_by_id(view, here.log, resolve(here.log, id_))


def _for_agents() -> str:
    return "false" if environment.presence().is_person else "true"


def _print_memory(payload: dict[str, Any]) -> None:
    output.say(output.memory_text(payload))
    output.say()
    for name, value in payload.items():
        if name in ("text", "history", *_LINEAGE) or value in (None, [], {}, ""):
            continue
        if name == "edges":
            value = [f"{edge['source']} {edge['relation']} {edge['target']}" for edge in value]
        if name == "duplicates":
            value = [f"{one['id']} ({_alike(one)})" for one in value]
        words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        output.say(f"{name:14}{output.clean(words)}")
    _print_lineage(payload)
    for event in payload.get("history", ()):
        detail = {
            name: value for name, value in event.items() if name not in ("seq", "at", "event")
        }
        words = ", ".join(f"{name} {value}" for name, value in detail.items() if value is not None)
        output.say(f"{event['at']}  {event['event']:10}  {output.one_line(words)}")


def _print_lineage(payload: dict[str, Any]) -> None:
    """Print how a job came to a memory, and what became of its sources."""
    for reason in payload.get("stale_because", ()):
        output.say(f"{'stale':14}{output.clean(reason)}")
    if made := payload.get("made"):
        output.say(f"{'made':14}{output.clean(_made_words(made))}")
    for name, title in (("sources", "made of"), ("made_of_it", "made of it")):
        for one in payload.get(name, ()):
            what = one.get("event") or " ".join(filter(None, (one.get("kind"), one["state"])))
            said = one.get("text") or one.get("at") or ""
            output.say(f"{title:14}{one['id']}  {what}  {output.one_line(said)}".rstrip())


def _alike(one: dict[str, Any]) -> str:
    """Return how another memory is a duplicate of the one shown, and its state."""
    if one["kind"] != "update":
        return f"{one['kind']}, {one['state']}"
    text = f"{one['was']} -> {one['becomes']}"
    return f"{'later' if one['is_newer'] else 'earlier'}, {text}, {one['state']}"


@click.command(name="list", epilog=output.example("mnemolog list --kind decision --limit 10"))
@arguments.kinds_option
@arguments.only_project_option
@click.option("--all-projects", is_flag=True, help="All projects, as without --project.")
@click.option(
    "--state",
    type=arguments.Choice(_STATES),
    default="active",
    help="Only in this state; default: active.",
)
@arguments.tags_option
@arguments.since_option
@arguments.until_option
@arguments.as_of_option
@arguments.known_at_option
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, help="The maximum number; default: 20."
)
@output.json_option
@click.pass_obj
def list_(
    env: Environment,
    /,
    kinds: tuple[str, ...],
    project: str | None,
    all_projects: bool,
    state: str,
    tags: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_of: str | None,
    known_at: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List memories, newest first."""
    settings = env.settings()
    if as_of is not None and state != "active":
        raise click.UsageError("--as-of lists what was active then: omit --state")
    if project is not None and all_projects:
        raise click.UsageError("--project and --all-projects contradict each other: give one")
    now = environment.now()
    those = {
        "project": project,
        "kind": kinds,
        "tag": tags,
        "state": state,
        "since": formatting.parse_optional_time(since, now),
        "until": formatting.parse_optional_time(until, now),
        "limit": limit,
    }
    with environment.open_log(settings) as log:
        found = _listed(settings, log, those, as_of, known_at)
        if as_json:
            output.emit({"memories": found})
            return
        rows = [
            (
                output.short_id(log, one["id"]),
                one["kind"],
                one["at"][:10],
                _end(one["project"] or ""),
                output.one_line(output.memory_text(one), 200),
            )
            for one in found
        ]
    if rows:
        output.table(("id", "kind", "date", "project", "text"), rows)
    else:
        output.say("no matching memories")


def _listed(
    settings: Settings,
    log: EventLog,
    those: dict[str, Any],
    as_of: str | None,
    known_at: str | None,
) -> list[dict[str, Any]]:
    """Return the memories of a list, newest first; `those` are parameters of `GET /v1/memories`."""
    if as_of is None and known_at is None and those["limit"] <= _MOST_SERVED:
        asked = those | {"for_agents": _for_agents()}
        if (payload := environment.ask_server(settings, "GET", "/v1/memories", asked)) is not None:
            memories: list[dict[str, Any]] = payload["memories"]
            return memories
    from serve.reader.filters import Filter
    from serve.reader.view import newest
    from serve.recall.request import moment_of
    from serve.reports.listing import all_memory_fields

    with environment.known(settings, log, known_at) as here:
        then = formatting.parse_time_point(as_of, here.now) if as_of else None
        since, until = (those[name] and micros(those[name]) for name in ("since", "until"))
        asked_of = Filter(
            here.now,
            those["project"],
            kinds=those["kind"],
            tags=those["tag"],
            as_of=moment_of(here.reader, then),
            since=since,
            until=until,
        )
        found = here.reader.answer(
            lambda view: newest(view, asked_of, those["limit"], those["state"])
        )
        return all_memory_fields(found, here.now)


def _end(project: str) -> str:
    """Return a project's name, or its telling end where it is long."""
    return project if len(project) <= _PROJECT_WIDTH else f"…{project[1 - _PROJECT_WIDTH :]}"


# history


@click.command(epilog=output.example("mnemolog history deploy.region", "mnemolog history 01KA2B3C"))
@click.argument("name", metavar="KEY|ID", type=arguments.MEMORY)
@arguments.project_option
@click.option("--all-projects", is_flag=True, help="The key's values of whatever project.")
@output.json_option
@click.pass_obj
def history(
    env: Environment, /, name: str, project: str | None, all_projects: bool, as_json: bool
) -> None:
    """List the values of a key, or a memory's replacements. The newest comes first."""
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=all_projects)
    with environment.open_known(settings) as (log, here):
        from serve.reports import memory_detail

        with here.reader.view() as view:
            memories = memory_detail.history_of_key(view, name, belongs)
            asked = {"key": name}
            if not memories:
                asked = {"id": _resolve_id(log, name)}
                memories = memory_detail.history_of_memory(view, asked["id"])
        shown = [memory_detail.history_fields(memory) for memory in memories]
        if as_json:
            output.emit(asked | {"memories": shown})
        else:
            _print_history(log, shown)


def _resolve_id(log: EventLog, name: str) -> str:
    from store.log.commands import resolve

    try:
        return resolve(log, name)
    except NotFound as error:
        raise NotFound(
            f"no key or memory {name!r} here: --all-projects searches every project for the key"
        ) from error


def _print_history(log: EventLog, found: Sequence[dict[str, Any]]) -> None:
    columns = ("from", "until", "id", "state", "value", "said in", "text")
    rows = [
        (
            output.minute(one["from"]),
            _until(one),
            output.short_id(log, one["id"]),
            one["state"],
            output.one_line(one.get("value", ""), 24),
            output.one_line(" ".join(one[name] for name in _ORIGIN if name in one), 24),
            output.one_line(output.memory_text(one), 200),
        )
        for one in found
    ]
    output.table(columns, rows)


_ORIGIN = ("source", "session")


def _until(one: dict[str, Any]) -> str:
    if one["until"] is None:
        return "now"
    return output.minute(one["until"]) if one["until"] > one["from"] else "never valid"


# lineage


@click.command(epilog=output.example("mnemolog lineage 01KA2B3C4D"))
@click.argument("id_", metavar="ID", type=arguments.MEMORY)
@output.json_option
@click.pass_obj
def lineage(env: Environment, /, id_: str, as_json: bool) -> None:
    """Show what a memory was made of, and what was made of it.

    Each is shown with the recalls that it took part in. Jobs that made something are named with
    their plan, model, prompt and cost. ID may also be an event of a session.
    """
    settings = env.settings()
    with environment.open_log(settings) as log:
        from serve.reports.lineage import full_lineage
        from store.log.commands import resolve_event

        wanted, _ = resolve_event(log, id_)
        reader = environment.open_reader(settings, log)
        payload = reader.answer(lambda view: full_lineage(view, log, wanted, sys.maxsize))
        if as_json:
            output.emit(payload)
        else:
            _print_whole_lineage(log, payload)


def _print_whole_lineage(log: EventLog, payload: dict[str, Any]) -> None:
    _print_step(log, "", payload)
    for name, title in (("sources", "made of"), ("made_of_it", "made of it")):
        if payload[name]:
            output.say()
            output.say(title)
        for one in payload[name]:
            _print_step(log, "  ", one)
    if payload["tokens"] or payload["cost_usd"]:
        output.say()
        output.say(f"models took {payload['tokens']:,} tokens, ${payload['cost_usd']:.4f}")
    recalls = payload["recalls"]
    output.say()
    output.say(
        f"recalls that returned it: {recalls['returned_it']:,}; "
        f"only what was made of it: {recalls['returned_what_was_made_of_it']:,}"
    )
    for one in recalls["newest"]:
        through = "" if one["memory"] == payload["id"] else output.short_id(log, one["memory"])
        result = f"{one['rank']:2}. {through:10}"
        output.say(f"  {output.minute(one['at'])}  {result}  {output.one_line(one['query'])}")


def _print_step(log: EventLog, indent: str, one: dict[str, Any]) -> None:
    """Print a memory or an event of a lineage, and under it how a job came to it."""
    what = one.get("event") or " ".join(filter(None, (one.get("kind"), one["state"])))
    where = f"session {one['session']}" if "session" in one else ""
    at = f"@{one['seq']} {output.minute(one['at'])}" if "seq" in one else ""
    text = output.one_line(one.get("text", ""), 60)
    line = "  ".join(filter(None, (output.short_id(log, one["id"]), what, at, where, text)))
    output.say(f"{indent}{output.clean(line)}")
    if made := one.get("made"):
        output.say(f"{indent}  {output.clean(_made_words(made))}")


def _made_words(made: dict[str, Any]) -> str:
    """Return how a job came to a memory: by which plan and model, and what that took."""
    words = [f"by {made['job']}", *([f"plan {made['plan']}"] if "plan" in made else [])]
    if "model" in made:
        words += [made["model"], f"{made.get('tokens', 0):,} tokens"]
        words += [f"${made.get('cost_usd', 0.0):.4f}", f"prompt {made['prompt_sha256'][:12]}"]
    return ", ".join(words)

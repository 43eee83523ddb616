"""
Commands that read memories without a question: `show`, `list`, `history` and `lineage`.

A running server answers the first two if it can; otherwise this process does, with the same result.
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
    """Return a memory in full."""
    if known_at is None and _ID.fullmatch(id_):
        query = {"for_agents": _for_agents()}
        payload = environment.ask_server(settings, "GET", f"/v1/memories/{id_}", query)
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
            value = [f"{copy['id']} ({_likeness(copy)})" for copy in value]
        words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        output.say(f"{name:14}{output.clean(words)}")
    for reason in payload.get("stale_because", ()):
        output.say(f"{'stale':14}{output.clean(reason)}")
    if made := payload.get("made"):
        output.say(f"{'made':14}{output.clean(_made_words(made))}")
    for name, title in (("sources", "made of"), ("made_of_it", "made of it")):
        for other in payload.get(name, ()):
            text = output.one_line(other.get("text") or other.get("at") or "")
            output.say(f"{title:14}{other['id']}  {_event_or_state(other)}  {text}".rstrip())
    for event in payload.get("history", ()):
        detail = {
            name: value for name, value in event.items() if name not in ("seq", "at", "event")
        }
        words = ", ".join(f"{name} {value}" for name, value in detail.items() if value is not None)
        output.say(f"{event['at']}  {event['event']:10}  {output.one_line(words)}")


def _event_or_state(relative: dict[str, Any]) -> str:
    """Return an event's kind, or a memory's kind and state."""
    event: str | None = relative.get("event")
    return event or " ".join(filter(None, (relative.get("kind"), relative["state"])))


def _likeness(copy: dict[str, Any]) -> str:
    """Return in words the similarity of a duplicate to the memory shown, and its state."""
    if copy["kind"] != "update":
        return f"{copy['kind']}, {copy['state']}"
    text = f"{copy['was']} -> {copy['becomes']}"
    return f"{'later' if copy['is_newer'] else 'earlier'}, {text}, {copy['state']}"


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
        memories = _listed(settings, log, those, as_of, known_at)
        if as_json:
            output.emit({"memories": memories})
            return
        rows = [
            (
                output.short_id(log, memory["id"]),
                memory["kind"],
                memory["at"][:10],
                _project_end(memory["project"] or ""),
                output.one_line(output.memory_text(memory), 200),
            )
            for memory in memories
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
        query = those | {"for_agents": _for_agents()}
        if (payload := environment.ask_server(settings, "GET", "/v1/memories", query)) is not None:
            memories: list[dict[str, Any]] = payload["memories"]
            return memories
    from serve.reader.filters import Filter
    from serve.reader.view import newest
    from serve.recall.request import moment_of
    from serve.reports.listing import all_memory_fields

    with environment.known(settings, log, known_at) as here:
        then = formatting.parse_time_point(as_of, here.now) if as_of else None
        since, until = (those[name] and micros(those[name]) for name in ("since", "until"))
        conditions = Filter(
            here.now,
            those["project"],
            kinds=those["kind"],
            tags=those["tag"],
            as_of=moment_of(here.reader, then),
            since=since,
            until=until,
        )
        listed = here.reader.answer(
            lambda view: newest(view, conditions, those["limit"], those["state"])
        )
        return all_memory_fields(listed, here.now)


def _project_end(project: str) -> str:
    """Return a project's name, or its end if it is long."""
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
        from store.log.commands import resolve

        with here.reader.view() as view:
            memories = memory_detail.history_of_key(view, name, belongs)
            subject = {"key": name}
            if not memories:
                try:
                    subject = {"id": resolve(log, name)}
                except NotFound as error:
                    raise NotFound(
                        f"no key or memory {name!r} here: --all-projects searches every project "
                        "for the key"
                    ) from error
                memories = memory_detail.history_of_memory(view, subject["id"])
        values = list(map(memory_detail.history_fields, memories))
        if as_json:
            output.emit(subject | {"memories": values})
        else:
            _print_history(log, values)


def _print_history(log: EventLog, values: Sequence[dict[str, Any]]) -> None:
    columns = ("from", "until", "id", "state", "value", "said in", "text")
    rows = [
        (
            output.minute(value["from"]),
            _until(value),
            output.short_id(log, value["id"]),
            value["state"],
            output.one_line(value.get("value", ""), 24),
            output.one_line(
                " ".join(value[name] for name in ("source", "session") if name in value), 24
            ),
            output.one_line(output.memory_text(value), 200),
        )
        for value in values
    ]
    output.table(columns, rows)


def _until(value: dict[str, Any]) -> str:
    if value["until"] is None:
        return "now"
    return output.minute(value["until"]) if value["until"] > value["from"] else "never valid"


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
        for step in payload[name]:
            _print_step(log, "  ", step)
    if payload["tokens"] or payload["cost_usd"]:
        output.say()
        output.say(f"models took {payload['tokens']:,} tokens, ${payload['cost_usd']:.4f}")
    recalls = payload["recalls"]
    output.say()
    output.say(
        f"recalls that returned it: {recalls['returned_it']:,}; "
        f"only what was made of it: {recalls['returned_what_was_made_of_it']:,}"
    )
    for recall in recalls["newest"]:
        memory = recall["memory"]
        through = "" if memory == payload["id"] else output.short_id(log, memory)
        result = f"{recall['rank']:2}. {through:10}"
        output.say(f"  {output.minute(recall['at'])}  {result}  {output.one_line(recall['query'])}")


def _print_step(log: EventLog, indent: str, step: dict[str, Any]) -> None:
    """Print a memory or an event of a lineage, and under it the job that made it."""
    where = f"session {step['session']}" if "session" in step else ""
    at = f"@{step['seq']} {output.minute(step['at'])}" if "seq" in step else ""
    text = output.one_line(step.get("text", ""), 60)
    line = "  ".join(
        filter(None, (output.short_id(log, step["id"]), _event_or_state(step), at, where, text))
    )
    output.say(f"{indent}{output.clean(line)}")
    if made := step.get("made"):
        output.say(f"{indent}  {output.clean(_made_words(made))}")


def _made_words(made: dict[str, Any]) -> str:
    """Return in words the job, plan and model that made a memory, and their cost."""
    words = [f"by {made['job']}", *([f"plan {made['plan']}"] if "plan" in made else [])]
    if "model" in made:
        words += [made["model"], f"{made.get('tokens', 0):,} tokens"]
        words += [f"${made.get('cost_usd', 0.0):.4f}", f"prompt {made['prompt_sha256'][:12]}"]
    return ", ".join(words)

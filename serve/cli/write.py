"""Commands that write: `record`, `forget`, `restore`, `pin`, `goal`, `link` and `supersede`."""

import sys
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.bulk import watch
from serve.cli.environment import Environment
from store.home.config import Settings
from store.home.errors import InvalidInput, did_you_mean
from store.log import commands
from store.log.commands import Draft, change_goal
from store.log.event_kinds import (
    GOAL_STATUSES,
    RECORDED_KINDS,
    RELATIONS,
    TRUSTS,
    Recorded,
    Relation,
    Revised,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.text.text_features import RULE_KINDS

if TYPE_CHECKING:
    from store.log.event_log import Appended


_EPILOG = output.example(
    'mnemolog record "Deploys go out from eu-west-1 only" --kind decision --tag deploy',
    """echo '{"text": "Ship it", "kind": "goal", "due": "2026-12-01"}' | mnemolog record --batch""",
)


@click.command(epilog=_EPILOG)
@click.argument("text", required=False)
@click.option(
    "--kind",
    type=arguments.RECORDED_KIND,
    metavar="KIND",
    help=f"The kind; default: fact. One of: {', '.join(RECORDED_KINDS)}.",
)
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option(
    "--project",
    type=arguments.NEW_PROJECT,
    help="The project; default: that of the working directory.",
)
@click.option("--no-project", is_flag=True, help="Store it without a project: recalled everywhere.")
@click.option("--importance", type=click.FloatRange(0, 1), help="How important it is.")
@click.option("--ttl", help="When it expires: 90s, 15m, 6h, 30d, 2w.")
@click.option("--key", help="The key of a fact with one current value: deploy.region.")
@click.option("--value", help="The value of the key: eu.")
@click.option("--chain", help="The chain of milestones it belongs to.")
@click.option(
    "--due",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DAY",
    help="When a goal is due: 2026-12-01.",
)
@click.option("--pin", "pinned", is_flag=True, help="Never let its importance fade.")
@click.option("--context", help="The situation.")
@click.option("--action", help="What was done.")
@click.option("--result", help="The result.")
@click.option("--id", "id_", help="Your own id: repeating it does not add a second memory.")
@click.option(
    "--trust",
    type=arguments.Choice(TRUSTS),
    default="user",
    help="Whose words these are; default: user, or agent where no person runs the command.",
)
@click.option(
    "--batch", is_flag=True, help="Read drafts as JSON Lines from standard input; all or none."
)
@output.json_option
@click.pass_obj
def record(
    env: Environment,
    /,
    text: str | None,
    batch: bool,
    as_json: bool,
    project: str | None,
    no_project: bool,
    ttl: str | None,
    due: datetime | None,
    **fields: Any,
) -> None:
    """Record TEXT as a memory. `-` reads it from standard input.

    With --batch, each line of standard input is a JSON object. Its fields are named as the options
    are (kind, tags, project, no_project, importance, ttl, key, value, chain, due, pin, context,
    action, result, id, trust), with `text`, and `at` for when it was. `content` and `created_at`,
    as `export` writes them, mean the same.

    Without a person, in an agent's shell or without a terminal, the words are an agent's: recalled
    as such, no rule and not pinned.
    """
    if batch == (text is not None):
        raise click.UsageError("give TEXT (or `-`), or --batch and drafts on standard input")
    if fields["value"] is not None and fields["key"] is None:
        raise click.UsageError("--value needs --key")
    if due is not None and fields["kind"] != "goal":
        raise click.UsageError("--due needs --kind goal")
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=no_project)
    if batch:
        _record_batch(settings, belongs, as_json)
        return
    if ttl is not None:
        fields["ttl_s"] = formatting.parse_span(ttl)
    if fields["chain"] is not None and fields["kind"] is None:
        fields["kind"] = "milestone"
    if due is not None:
        fields["metadata"] = {"due": due.date().isoformat()}
    content = output.stdin_text() if text == "-" else text
    draft = _limit([_draft(fields | {"content": content, "project": belongs})])[0]
    at = environment.now()
    commands.memory_event(draft, at)  # validated before anything is made
    with environment.open_or_make(settings) as log:
        appended = commands.record(log, draft, at)
        hidden = commands.memory_event(draft, at).body != appended.event.body
        if as_json:
            output.emit(_acknowledgement(appended) | {"redacted": hidden})
        else:
            body = appended.event.body
            content = output.one_line(body.content) if isinstance(body, Recorded) else ""
            output.say(f"{output.short_id(log, appended.event.id)}  {content}")
            if not appended.is_new:
                output.note("note: it was already recorded")
        if hidden:
            output.note("warning: a secret was redacted before anything was written")


def _draft(fields: dict[str, Any]) -> Draft:
    """Return a checked draft; raise msgspec.ValidationError naming the field."""
    draft = {
        name: output.encodable(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    draft["tags"] = [output.encodable(tag) for tag in fields["tags"]]
    if "id_" in draft:
        draft["id"] = draft.pop("id_")
    return msgspec.convert(draft, Draft)


def _limit(drafts: list[Draft]) -> list[Draft]:
    """Return drafts limited to the caller's rights; note it if that changes a rule or a pin."""
    present = environment.presence()
    limited = [present.sign(draft) for draft in drafts]
    changed = zip(drafts, limited, strict=True)
    if any(
        old.trust != new.trust and (old.kind in RULE_KINDS or old.pinned) for old, new in changed
    ):
        output.note(f"note: {present.reason}: this is kept as an agent's words, not as a rule")
    return limited


def _record_batch(settings: Settings, belongs: str | None, as_json: bool) -> None:
    at = environment.now()
    drafts = _limit(_read_drafts(sys.stdin.buffer.read(), belongs))
    with environment.open_or_make(settings) as log:
        with watch(settings, log, "record --batch", asks=not as_json):
            batch = commands.record_batch(log, drafts, at)
    hidden = [
        commands.memory_event(draft, at).body != appended.event.body
        for draft, appended in zip(drafts, batch, strict=True)
    ]
    if as_json:
        memories = [
            _acknowledgement(appended) | {"redacted": is_redacted}
            for appended, is_redacted in zip(batch, hidden, strict=True)
        ]
        output.emit({"memories": memories})
    else:
        output.say(f"{sum(appended.is_new for appended in batch)} recorded, {len(batch)} given")
    if any(hidden):
        output.note(
            f"warning: secrets were redacted in {sum(hidden)} memories before they were written"
        )


def _read_drafts(data: bytes, belongs: str | None) -> list[Draft]:
    drafts = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                drafts.append(_read_draft(line, belongs))
            except (msgspec.MsgspecError, UnicodeDecodeError, InvalidInput) as error:
                raise InvalidInput(f"line {number}: {error}: nothing was recorded") from error
    return drafts


def _read_draft(line: bytes, belongs: str | None) -> Draft:
    """Return the draft of a line: its fields, by their own names or by those of the flags."""
    from store.importers.jsonl import ALIASES, rename_fields

    value = msgspec.json.decode(line)
    if not isinstance(value, dict):
        raise InvalidInput('a line is an object: {"text": "Deploys go out from eu-west-1"}')
    fields = rename_fields(value)
    if (ttl := fields.pop("ttl", None)) is not None:
        fields["ttl_s"] = formatting.parse_span(str(ttl))
    if fields.get("chain") is not None:
        fields.setdefault("kind", "milestone")
    if (due := fields.pop("due", None)) is not None:
        if fields.get("kind") != "goal":
            raise InvalidInput("`due` needs `kind` to be goal")
        fields["metadata"] = {**fields.get("metadata", {}), "due": _day(due)}
    if fields.get("value") is not None and fields.get("key") is None:
        raise InvalidInput("`value` needs `key`")
    if not fields.pop("no_project", False) and not fields.get("project"):
        fields["project"] = belongs
    names = [*Draft.__struct_fields__, *ALIASES, "ttl", "due", "no_project"]
    if unknown := [name for name in fields if name not in names]:
        raise InvalidInput(f"unknown field `{unknown[0]}`.{did_you_mean(unknown[0], names)}")
    return msgspec.convert(fields, Draft)


def _day(due: object) -> str:
    try:
        return date.fromisoformat(str(due)).isoformat()
    except ValueError as error:
        raise InvalidInput(f"`due` is {due!r}: write a day like 2026-12-01") from error


def _acknowledgement(appended: "Appended") -> dict[str, Any]:
    return {"id": appended.event.id, "seq": appended.event.seq, "new": appended.is_new}


# Changes to existing memories

Change = Callable[[EventLog, str, int], Event]

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.MEMORY)


def _apply(env: Environment, /, ids: tuple[str, ...], as_json: bool, verb: str, do: Change) -> None:
    """Change all named memories, or none if one of them is unknown."""
    settings = env.settings()
    with environment.open_log(settings) as log:
        wanted = list(dict.fromkeys(commands.resolve(log, prefix) for prefix in ids))
        with watch(settings, log, verb, asks=not as_json):
            events = [do(log, id_, environment.now()) for id_ in wanted]
        if as_json:
            changed = [{"id": event.subject, "seq": event.seq} for event in events]
            output.emit({"event": events[0].kind, "memories": changed})
            return
        for id_ in wanted:
            output.say(f"{verb} {output.short_id(log, id_)}  {output.recorded_text(log, id_)}")


@click.command(epilog=output.example('mnemolog forget 01KA2B3C4D --reason "no longer true"'))
@_ids
@arguments.reason_option
@output.json_option
@click.pass_obj
def forget(env: Environment, /, ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Hide memories; `restore` undoes it. You can shorten an ID to its first letters."""
    trust = environment.presence().trust

    def change(log: EventLog, id_: str, at: int) -> Event:
        return commands.forget(log, id_, at, reason, trust)

    _apply(env, ids, as_json, "forgot", change)


@click.command(epilog=output.example("mnemolog restore 01KA2B3C4D"))
@_ids
@arguments.reason_option
@output.json_option
@click.pass_obj
def restore(env: Environment, /, ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Make memories current again. They may be forgotten, archived, superseded or expired.

    It needs a person: see `record`.
    """
    environment.presence().require_person("restoring a memory")
    _apply(
        env,
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
def pin(env: Environment, /, ids: tuple[str, ...], off: bool, as_json: bool) -> None:
    """Pin memories, so that their importance does not fade. It needs a person."""
    if not off:
        environment.presence().require_person("pinning a memory")
    _apply(
        env,
        ids,
        as_json,
        "unpinned" if off else "pinned",
        lambda log, id_, at: commands.pin(log, id_, at, pinned=not off),
    )


@click.command(epilog=output.example("mnemolog goal 01KA2B3C4D --status done --progress 1"))
@click.argument("id_", metavar="ID", type=arguments.MEMORY)
@click.option("--status", type=arguments.Choice(GOAL_STATUSES), help="Its status.")
@click.option("--progress", type=click.FloatRange(0, 1), help="The share that is done.")
@click.option(
    "--due", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="When it is due: 2026-12-01."
)
@output.json_option
@click.pass_obj
def goal(
    env: Environment,
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
    trust = environment.presence().trust

    def change(log: EventLog, id_: str, at: int) -> Event:
        return change_goal(log, id_, changes, at, day, trust)

    _apply(env, (id_,), as_json, "changed", change)


@click.command(epilog=output.example("mnemolog link 01KA2B3C4D 01KA7XYZAB --relation cause"))
@click.argument("id_", metavar="ID", type=arguments.MEMORY)
@click.argument("target", metavar="TARGET", type=arguments.MEMORY)
@click.option(
    "--relation",
    type=arguments.Choice(RELATIONS),
    required=True,
    help="TARGET's role for ID: its cause, its support, in conflict with it, derived from it.",
)
@output.json_option
@click.pass_obj
def link(env: Environment, /, id_: str, target: str, relation: Relation, as_json: bool) -> None:
    """Link one memory to another. `show` lists the links of both."""

    trust = environment.presence().trust

    def change(log: EventLog, id_: str, at: int) -> Event:
        return commands.link(log, id_, commands.resolve(log, target), relation, at, trust)

    _apply(env, (id_,), as_json, "linked", change)


@click.command(epilog=output.example("mnemolog supersede 01KA2B3C4D --by 01KA7XYZAB"))
@_ids
@click.option("--by", required=True, type=arguments.MEMORY, metavar="ID", help="The replacement.")
@arguments.reason_option
@output.json_option
@click.pass_obj
def supersede(
    env: Environment, /, ids: tuple[str, ...], by: str, reason: str | None, as_json: bool
) -> None:
    """Replace memories with a newer one. The old ones stay readable."""

    def change(log: EventLog, id_: str, at: int) -> Event:
        return commands.supersede(log, id_, commands.resolve(log, by), at, reason)

    _apply(env, ids, as_json, "superseded", change)

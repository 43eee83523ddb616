"""
Commands that connect agents: `connect`, `disconnect`, `plugin`, `mcp`, `hook` and `lessons`.

The first three edit the settings of agent hosts. Hosts run `mcp` and `hook` themselves. `lessons`
shows the lessons that hooks delivered and whether they were followed.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.formatting import size
from store.home.config import is_off
from store.home.errors import InvalidInput, MnemologError, NotFound, did_you_mean
from store.log.event_kinds import Recorded
from store.text.excerpt import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from serve.connect.connecting import ConnectionPlan
    from serve.hosts.host import Host
    from serve.lessons.lesson_stats import Statistics
    from serve.server.open_tenants import OpenTenants
    from store.home.config import Settings
    from store.log.event_log import EventLog


_WIDEST = 400  # characters of a line; a host that writes its file on one line makes long ones
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

_hosts = click.argument("names", nargs=-1, metavar="[HOST]...", type=arguments.HOST)
_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and stop.")


@click.command(epilog=output.example("mnemolog connect", "mnemolog connect claude-code codex"))
@_hosts
@click.option("--no-rules", is_flag=True, help="Do not change CLAUDE.md, AGENTS.md and the like.")
@_yes
@_dry_run
@output.json_option
@click.pass_obj
def connect(
    env: Environment,
    /,
    names: tuple[str, ...],
    no_rules: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Connect agent hosts to this memory. Without a HOST, list them.

    This writes hooks, the MCP server and, between two markers, a few lines in the host's rule file.
    Only mnemolog's own entries are changed. You see the diff first, and a copy of each file is
    kept.
    """
    from serve.connect import connecting
    from store.maintenance import checkup

    if not names:
        _print_hosts(env, as_json)
        return
    settings = env.settings()
    hosts = _hosts_named(names)
    machine = environment.machine()
    install = environment.install(settings, makes_token=not dry_run)
    plans = [
        connecting.plan_connection(host, machine, install, rules=not no_rules) for host in hosts
    ]
    _carry_out(plans, "connected", yes=yes, dry_run=dry_run, as_json=as_json)
    if not dry_run:  # so that the first prompt can be recorded, and answered without a server
        environment.make_tenant(settings)
    finding = checkup.server(settings)
    if finding.severity != "ok":  # the hosts' requests would go elsewhere
        output.note(f"note: {finding.what}: {finding.cure}")


@click.command(epilog=output.example("mnemolog disconnect claude-code"))
@_hosts
@_yes
@_dry_run
@output.json_option
@click.pass_obj
def disconnect(
    env: Environment, /, names: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove what `connect` wrote. Everything else in the host's settings stays."""
    from serve.connect import connecting

    if not names:
        raise click.UsageError("name the host: `mnemolog connect` lists them")
    machine = environment.machine()
    install = environment.install(env.settings())
    plans = [connecting.plan_disconnection(host, machine, install) for host in _hosts_named(names)]
    _carry_out(plans, "disconnected", yes=yes, dry_run=dry_run, as_json=as_json)


@click.command(epilog=output.example("mnemolog plugin ./mnemolog-plugin"))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--portable",
    is_flag=True,
    help="For publishing: name no path, but the commands `mnemolog` and `mnemolog-hook`.",
)
@output.json_option
@click.pass_obj
def plugin(env: Environment, /, folder: Path, portable: bool, as_json: bool) -> None:
    """Create a plugin folder for Claude Code.

    It contains the paths of this Python and home, unless it is made for publishing.
    """
    from serve.connect import plugin as built

    files = built.build(folder, None if portable else environment.install(env.settings()))
    if as_json:
        output.emit({"folder": str(folder.absolute()), "files": [str(file) for file in files]})
        return
    output.say(f"wrote {plural(len(files), 'file')} to {folder}")
    output.say("next, in a terminal:")
    output.say(f"  claude plugin marketplace add {folder.absolute()}")
    market = built.PORTABLE if portable else built.LOCAL
    output.say(f"  claude plugin install {built.NAME}@{market}")


def _hosts_named(names: tuple[str, ...]) -> "list[Host]":
    from serve.hosts import HOSTS

    for name in names:
        if name not in HOSTS:
            raise InvalidInput(_unknown_host(name))
    return [HOSTS[name] for name in dict.fromkeys(names)]


def _unknown_host(name: str) -> str:
    from serve.hosts import HOSTS

    return f"unknown host {name!r}.{did_you_mean(name, HOSTS)} Choose from {', '.join(HOSTS)}."


def _print_hosts(env: Environment, as_json: bool) -> None:
    from serve.hosts import HOSTS

    rows = [_host_row(host, env) for host in HOSTS.values()]
    if as_json:
        output.emit({"hosts": rows})
        return
    for row in rows:
        output.say(f"{row['host']:12} {row['state']:13} {output.clean(row['files'][0])}")
        if "problem" in row:
            output.say(f"{'':12} {output.clean(row['problem'])}")
    if names := [row["host"] for row in rows if row["state"] == "found"]:
        output.say(f"next: `mnemolog connect {' '.join(names)}`")


def _host_row(host: "Host", env: Environment) -> dict[str, Any]:
    from serve.connect import connecting

    machine, install = environment.machine(), environment.install(env.settings())
    files = [str(document.path) for document in connecting.all_documents(host, machine, install)]
    row: dict[str, Any] = {"host": host.name, "title": host.title, "files": files}
    try:
        is_connected = bool(connecting.entries_of_host(host, machine, install))
    except MnemologError as error:
        return row | {"state": "unreadable", "problem": str(error)}
    is_found = host.is_installed(machine)
    return row | {"state": "connected" if is_connected else "found" if is_found else "not found"}


def _carry_out(
    plans: "list[ConnectionPlan]", verb: str, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    from serve.connect import connecting

    if not as_json:
        _print_plans(plans)
    if any(plan.changes for plan in plans) and not dry_run and not yes:
        if as_json or not sys.stdin.isatty():
            raise InvalidInput("no terminal to ask on: add --yes to continue, or --dry-run to look")
        if not click.confirm("Make these changes?", default=False):
            raise click.Abort
    results = []
    for plan in plans:
        is_applied = bool(plan.changes) and not dry_run
        backup = connecting.apply_plan(plan, environment.now()) if is_applied else None
        results.append((plan, is_applied, backup))
    if as_json:
        output.emit({"hosts": [_report(*result) for result in results]})
        return
    for plan, is_applied, backup in results:
        if is_applied:
            output.say(f"{plan.host.title} is {verb}")
            if backup is not None:
                output.say(f"  previous files: {backup}")
            for note in _notes(plan):
                output.say(f"  {note}")
    if dry_run:
        output.say("nothing was changed")


def _print_plans(plans: "list[ConnectionPlan]") -> None:
    for plan in plans:
        if not plan.changes:
            output.say(f"{plan.host.title}: nothing to change")
        for line in _difference(plan):
            text = output.encodable(output.clean(line))
            click.echo(click.style(text, fg=_COLOURS.get(line[:1])))


def _difference(plan: "ConnectionPlan") -> list[str]:
    """Return the differences of a plan's files; no secret, ours or another's, is shown."""
    from store.redaction.redact import redact

    lines = [redact(line) for change in plan.changes for line in change.difference()]
    return [line if len(line) <= _WIDEST else line[:_WIDEST] + " …" for line in lines]


def _notes(plan: "ConnectionPlan") -> "Iterator[str]":
    """Yield the notes for a person whose host was just connected."""
    from serve.connect.checkup import find_exposed_files

    if plan.is_taken:
        return
    if plan.host.note:
        yield plan.host.note
    for path in find_exposed_files(change.document for change in plan.all):
        yield f"other users can read {path} and the key in it: run `chmod go= {path}`"


def _report(plan: "ConnectionPlan", is_applied: bool, backup: Path | None) -> dict[str, Any]:
    return {
        "host": plan.host.name,
        "changed": is_applied,
        "files": [str(change.path) for change in plan.changes],
        "difference": _difference(plan),
        "backup": str(backup) if backup else None,
        "notes": list(_notes(plan)),
    }


# mcp

_BRIDGE = Path(__file__).resolve().parents[1] / "mcp_bridge.py"


@click.command(epilog=output.example("mnemolog mcp"))
@output.json_option
@click.pass_context
def mcp(context: click.Context, as_json: bool) -> None:
    """Serve MCP over standard input and output. Use it as `command` in a host's MCP settings.

    It forwards requests to the server of this home, and starts the server if necessary. A host that
    speaks HTTP does not need it: it can use `/mcp` of the server directly, with the token. The
    output is JSON, with or without --json.
    """
    settings: Settings = context.obj.settings()
    words = [sys.executable, "-I", "-S", str(_BRIDGE), "--home", str(settings.home.absolute())]
    if "tenant" in settings.origin:  # else the server's own
        words += ["--tenant", settings.choices.tenant]
    if os.name == "posix":
        os.execv(words[0], words)  # its own process from here on: the host ends the bridge itself
    context.exit(subprocess.call(words))


# hook: one event, answered in this process from the files

HOOK_DEADLINE_S = 1.5  # from the end of the imports; the waiting client gives up soon after
MOST_EVENT_BYTES = 4 << 20


@click.command(epilog=output.example("mnemolog hook claude-code < event.json"))
@click.argument("host", type=arguments.HOST)
@click.option("--delivery", default="", hidden=True, help="The client's id for this event.")
@output.json_option
@click.pass_obj
def hook(env: Environment, /, host: str, delivery: str, as_json: bool) -> None:
    """Answer one event of an agent host. The hook client runs this if no server is running.

    The event is read from standard input, in the host's format. The output is the host's own
    format, or nothing if there is no answer (with --json: null).
    """
    settings = env.settings()
    environment.current_tenant(
        settings
    )  # a new user has none: that error must not wait for half a second of imports
    event = sys.stdin.buffer.read(MOST_EVENT_BYTES + 1)
    answer = _answer_event(settings, host, event, delivery)
    if answer is not None or as_json:
        output.emit(answer)


def _answer_event(
    settings: "Settings", host: str, event: bytes, delivery: str
) -> dict[str, Any] | None:
    from serve.hooks.answer import Hooks
    from serve.hosts import HOSTS
    from serve.hosts.event import decode_payload
    from store.home.spool import parse_delivery

    if host not in HOSTS:
        raise NotFound(_unknown_host(host))
    if len(event) > MOST_EVENT_BYTES:
        raise InvalidInput(f"the event is larger than {size(MOST_EVENT_BYTES)}")
    payload = decode_payload(event)
    tenants = _open_tenants(settings)
    hooks = Hooks(tenants, environment.now, HOOK_DEADLINE_S)
    try:
        answer, _ = hooks.deliver(
            HOSTS[host], payload, is_off=is_off(), delivery=parse_delivery(delivery)
        )
        return answer
    finally:
        hooks.close()
        tenants.close()  # writes the pending notes


def _open_tenants(settings: "Settings") -> "OpenTenants":
    """Return the tenants without upkeep or builds; a model that takes long to load is not used."""
    from serve.reader.snapshots import no_embedder
    from serve.recall.query_embedder import QueryEmbedder
    from serve.server.open_tenants import OpenTenants
    from serve.server.syncing import Syncing
    from store.embedders.embedder import SilentEmbedder

    tenants = OpenTenants(settings)
    tenants.bring_in = Syncing(lambda: settings).bring_in
    model = tenants.embedder
    if not model.is_cheap:
        silent = SilentEmbedder(model.model, model.dimension, "no running server has it loaded")
        tenants.embedder = QueryEmbedder(silent)
    tenants.find_embedder = no_embedder
    return tenants


# lessons

_LEAST = 4  # letters of a draft's id that are shown; more if two begin alike
_MANY = 5  # statements: so many wait that sorting them by hand is work


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog lessons", "mnemolog lessons accept 7HQ2"),
)
@arguments.only_project_option
@arguments.known_at_option
@output.json_option
@click.pass_context
def lessons(
    context: click.Context, project: str | None, known_at: str | None, as_json: bool
) -> None:
    """Show how lessons do, and what waits for your decision. It shows how often each was shown and
    followed, and its impact.

    Impact is how much more often tests, builds and deployments succeeded in turns that followed the
    lesson than in turns that ignored it, in percentage points with a 95 % interval. It is unknown
    with fewer than three turns of either.
    """
    if context.invoked_subcommand is not None:
        return
    from serve.lessons.lesson_stats import stats_json

    settings = context.obj.settings()
    with environment.open_log(settings) as log:
        payload = stats_json(_statistics(settings, log, project, known_at))
        if as_json:
            output.emit(payload)
        else:
            _print_lessons(log, payload)
            if not settings.choices.llm.may_serve("distill") and len(payload["drafts"]) >= _MANY:
                output.note(
                    "a model sorts them: name one below `[llm]` in config.toml "
                    '(`cheap = "claude-code"` uses your login), then `mnemolog distill`'
                )


@lessons.command("accept", epilog=output.example("mnemolog lessons accept 7HQ2"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.LESSON)
@output.json_option
@click.pass_obj
def accept_lessons(env: Environment, /, ids: tuple[str, ...], as_json: bool) -> None:
    """Make statements and drafts rules, recorded as your words. You can shorten an ID.

    It needs a person: in an agent's shell or without a terminal it is refused.
    """
    environment.presence().require_person("accepting a lesson")
    from store.plans import lesson_proposals

    settings = env.settings()
    with environment.open_log(settings) as log:
        wanted = _draft_ids(settings, log, ids)
        events = [lesson_proposals.accept(log, id_, environment.now(), "typed") for id_ in wanted]
        if as_json:
            output.emit({"memories": [{"id": event.id, "seq": event.seq} for event in events]})
            return
        for event in events:
            text = event.body.content if isinstance(event.body, Recorded) else ""
            output.say(f"{output.short_id(log, event.id)}  {output.one_line(text)}")


@lessons.command(
    "reject", epilog=output.example('mnemolog lessons reject 7HQ2 --reason "only that once"')
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.LESSON)
@arguments.reason_option
@output.json_option
@click.pass_obj
def reject_lessons(
    env: Environment, /, ids: tuple[str, ...], reason: str | None, as_json: bool
) -> None:
    """Forget a statement, or stop a draft from being proposed again. You can shorten an ID."""
    from store.plans import lesson_proposals

    settings = env.settings()
    with environment.open_log(settings) as log:
        wanted = _draft_ids(settings, log, ids)
        for id_ in wanted:
            lesson_proposals.reject(log, id_, environment.now(), reason)
    if as_json:
        output.emit({"rejected": wanted})
    else:
        output.say(f"rejected {', '.join(wanted)}")


def _statistics(
    settings: "Settings", log: "EventLog", project: str | None, known_at: str | None = None
) -> "Statistics":
    from serve.lessons.lesson_stats import statistics
    from serve.reader.filters import Filter

    with environment.known(settings, log, known_at) as here:
        conditions = Filter(here.now, project)
        return here.reader.answer(lambda view: statistics(view, here.log, conditions))


def _draft_ids(settings: "Settings", log: "EventLog", prefixes: tuple[str, ...]) -> list[str]:
    """Return the drafts with these prefixes; raise NotFound or InvalidInput before any change."""
    waiting = [row["id"] for row in _statistics(settings, log, None).drafts]
    return list(dict.fromkeys(_draft_id(log, waiting, prefix.upper()) for prefix in prefixes))


def _draft_id(log: "EventLog", waiting: list[str], prefix: str) -> str:
    ids = [id_ for id_ in waiting if id_.startswith(prefix)]
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise InvalidInput(f"{prefix!r} could be {', '.join(ids)}: give more letters of the id")
    if log.present_ids([prefix]):
        return prefix  # answered before: repeating the answer reports it
    raise NotFound(f"no statement or draft {prefix!r}: `mnemolog lessons` lists them")


def _waiting_text(draft: dict[str, Any]) -> str:
    because = draft["because"]
    return f"{draft['text']} ({because})" if because else str(draft["text"])


def _print_lessons(log: "EventLog", payload: dict[str, Any]) -> None:
    rows = [
        (
            output.short_id(log, lesson["id"]),
            *(str(lesson[name]) for name in ("surfaced", "followed", "ignored", "not_applicable")),
            _impact(lesson["impact"]),
            output.one_line(lesson["text"] + (" (at rest)" if lesson["at_rest"] else ""), 200),
        )
        for lesson in payload["lessons"]
    ]
    if rows:
        columns = ("id", "shown", "followed", "ignored", "n/a", "impact", "lesson")
        output.table(columns, rows)
    else:
        output.say("no lesson has been shown yet")
    if payload["never_shown"]:
        output.say(f"{payload['never_shown']} more were never shown")
    drafts = payload["drafts"]
    if drafts:
        output.say()
        ids = [draft["id"] for draft in drafts]
        output.table(
            ("waiting", "date", "text"),
            [
                (output.shortest(draft["id"], ids, _LEAST), draft["at"][:10], _waiting_text(draft))
                for draft in drafts
            ],
        )
        output.note("next: `mnemolog lessons accept ID`, or `mnemolog lessons reject ID`")


def _impact(worth: dict[str, float] | None) -> str:
    if worth is None:
        return "unknown"
    return "{value:+.0f} ({low:+.0f} to {high:+.0f})".format(
        **{name: 100 * value for name, value in worth.items()}
    )

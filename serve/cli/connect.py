"""`mnemolog connect`, `disconnect` and `plugin`: this memory in the settings of agent hosts."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.home.errors import InvalidInput, MnemologError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from serve.connect.hosts import Host
    from serve.connect.link import Plan

_WIDEST = 400  # characters of a line; a host that writes its file on one line makes long ones
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

_hosts = click.argument("names", nargs=-1, metavar="[HOST]...")
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
    session_: Session,
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
    from serve.connect import link
    from store.audits import health

    if not names:
        _list(session_, as_json)
        return
    settings = session_.settings()
    hosts = _named(names)
    machine = session.machine()
    install = session.install(settings, makes_token=not dry_run)
    plans = [link.connecting(host, machine, install, rules=not no_rules) for host in hosts]
    _carry_out(plans, "connected", yes=yes, dry_run=dry_run, as_json=as_json)
    if (found := health.server(settings)).severity != "ok":  # what hosts post would go elsewhere
        output.note(f"note: {found.what}: {found.cure}")


@click.command(epilog=output.example("mnemolog disconnect claude-code"))
@_hosts
@_yes
@_dry_run
@output.json_option
@click.pass_obj
def disconnect(
    session_: Session, /, names: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove what `connect` wrote. Everything else in the host's settings stays."""
    from serve.connect import link

    if not names:
        raise click.UsageError("name the host: `mnemolog connect` lists them")
    machine = session.machine()
    install = session.install(session_.settings())
    plans = [link.disconnecting(host, machine, install) for host in _named(names)]
    _carry_out(plans, "disconnected", yes=yes, dry_run=dry_run, as_json=as_json)


@click.command(epilog=output.example("mnemolog plugin ./mnemolog-plugin"))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@output.json_option
@click.pass_obj
def plugin(session_: Session, /, folder: Path, as_json: bool) -> None:
    """Create a plugin folder for Claude Code."""
    from serve.connect import plugin as built

    files = built.build(folder, session.install(session_.settings()))
    if as_json:
        output.emit({"folder": str(folder.absolute()), "files": [str(file) for file in files]})
        return
    output.say(f"wrote {len(files)} files to {folder}")
    output.say("next, in a terminal:")
    output.say(f"  claude plugin marketplace add {folder.absolute()}")
    output.say(f"  claude plugin install {built.NAME}@{built.MARKETPLACE}")


def _named(names: tuple[str, ...]) -> "list[Host]":
    from serve.connect.hosts import HOSTS

    if unknown := sorted(set(names) - HOSTS.keys()):
        known = ", ".join(HOSTS)
        raise InvalidInput(f"unknown host {', '.join(unknown)}: choose from {known}")
    return [HOSTS[name] for name in dict.fromkeys(names)]


def _list(session_: Session, as_json: bool) -> None:
    from serve.connect.hosts import HOSTS

    rows = [_row(host, session_) for host in HOSTS.values()]
    if as_json:
        output.emit({"hosts": rows})
        return
    for row in rows:
        output.say(f"{row['host']:12} {row['state']:13} {output.clean(row['files'][0])}")
        if "problem" in row:
            output.say(f"{'':12} {output.clean(row['problem'])}")
    found = [row["host"] for row in rows if row["state"] == "found"]
    if found:
        output.say(f"next: `mnemolog connect {' '.join(found)}`")


def _row(host: "Host", session_: Session) -> dict[str, Any]:
    from serve.connect import link

    machine, install = session.machine(), session.install(session_.settings())
    files = [str(one.path) for one in link.documents(host, machine, install)]
    row: dict[str, Any] = {"host": host.name, "title": host.title, "files": files}
    try:
        is_connected = bool(link.entries(host, machine, install))
    except MnemologError as error:
        return row | {"state": "unreadable", "problem": str(error)}
    is_found = host.is_installed(machine)
    return row | {"state": "connected" if is_connected else "found" if is_found else "not found"}


def _carry_out(plans: "list[Plan]", done: str, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    from serve.connect import link

    changing = [plan for plan in plans if plan.changes]
    if not as_json:
        _show(plans)
    if changing and not dry_run and not yes:
        _ask(as_json)
    made = []
    for plan in plans:
        is_made = bool(plan.changes) and not dry_run
        backup = link.carry_out(plan, session.now()) if is_made else None
        made.append((plan, is_made, backup))
    if as_json:
        output.emit({"hosts": [_report(*one) for one in made]})
        return
    for plan, is_made, backup in made:
        if is_made:
            output.say(f"{plan.host.title} is {done}")
            if backup is not None:
                output.say(f"  previous files: {backup}")
            for note in _notes(plan):
                output.say(f"  {note}")
    if dry_run:
        output.say("nothing was changed")


def _ask(as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise InvalidInput("no terminal to ask on: add --yes to continue, or --dry-run to look")
    if not click.confirm("Make these changes?", default=False):
        raise click.Abort


def _show(plans: "list[Plan]") -> None:
    for plan in plans:
        if not plan.changes:
            output.say(f"{plan.host.title}: nothing to change")
        for line in _difference(plan):
            shown = output.encodable(output.clean(line))
            click.echo(click.style(shown, fg=_COLOURS.get(line[:1])))


def _difference(plan: "Plan") -> list[str]:
    """Return the differences of a plan's files; no secret, ours or another's, is shown."""
    from store.redaction.redact import redact

    lines = [redact(line) for change in plan.changes for line in change.difference()]
    return [line if len(line) <= _WIDEST else line[:_WIDEST] + " …" for line in lines]


def _notes(plan: "Plan") -> "Iterator[str]":
    """Yield what a person must know or do now that a host is connected."""
    from serve.connect.exposure import exposed

    if plan.is_taken:
        return
    if plan.host.note:
        yield plan.host.note
    for path in exposed(change.document for change in plan.all):
        yield f"other users can read {path} and the key in it: run `chmod go= {path}`"


def _report(plan: "Plan", is_made: bool, backup: Path | None) -> dict[str, Any]:
    return {
        "host": plan.host.name,
        "changed": is_made,
        "files": [str(change.path) for change in plan.changes],
        "difference": _difference(plan),
        "backup": str(backup) if backup else None,
        "notes": list(_notes(plan)),
    }

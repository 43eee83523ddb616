"""`mnemolog init`, `verify` and `doctor`: make a memory, prove it, and find what ails it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serve.cli import output, session
from serve.cli.group import FAILED
from serve.cli.session import Session
from store.home.config import Settings
from store.home.errors import ConfigError, MnemologError

if TYPE_CHECKING:
    from store.audits.health import Finding
    from store.audits.repair import Mended
    from store.audits.verify import Report


@click.command(epilog=output.example("mnemolog init"))
@output.json_option
@click.pass_obj
def init(session_: Session, /, as_json: bool) -> None:
    """Create the home and the tenant's log if they are missing."""
    settings = session_.settings()
    tenant, is_new = session.make(settings)
    if as_json:
        made = {"home": str(settings.home), "tenant": tenant.name, "root": str(tenant.root)}
        output.emit(made | {"new": is_new})
        return
    output.say(f"{'made' if is_new else 'there is'} {tenant.name} in {tenant.root}")
    output.say("next:")
    output.say('  mnemolog record "what you want remembered"')
    output.say("  mnemolog import git .          # or claude-code, codex, gemini, ...")
    output.say("  mnemolog build                 # indexes what you imported")
    output.say("  mnemolog recall what was it    # from the command line")
    output.say("  mnemolog serve                 # for your agents")


@click.command(epilog=output.example("mnemolog verify"))
@output.json_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> None:
    """Check row by row that the served snapshots match the log."""
    from store.audits.verify import verify as verified
    from store.embedders.embedder import make_embedder

    settings = context.obj.settings()
    tenant = session.chosen(settings)
    with session.open_log(settings) as log:
        progress = (lambda what: None) if as_json else (lambda what: output.note(f"... {what}"))
        model = make_embedder(settings.choices.embedder, settings.home)
        report = verified(tenant, log, model, on_progress=progress)
    if as_json:
        output.emit({"ok": report.ok, **_fields(report)})
    else:
        _show_report(report)
    context.exit(0 if report.ok else FAILED)


def _fields(value: object) -> dict[str, object]:
    import msgspec

    fields: dict[str, object] = msgspec.to_builtins(value)
    return fields


def _show_report(report: "Report") -> None:
    for problem in report.problems:
        output.say(f"damaged  {output.clean(problem)}")
    for one in report.projections:
        output.say(f"{'ok     ' if one.ok else 'differs'}  {one.projection}: {one.detail}")
        if (found := one.difference) is not None:
            place = f"table {found.table}, row {found.row}, column {found.column or '-'}"
            output.say(f"         {place}")
            output.say(f"         served   {output.clean(found.live)}")
            output.say(f"         the log  {output.clean(found.rebuilt)}")
    if report.manifest is None and not report.problems:
        output.say("ok       log; nothing has been built yet: run `mnemolog build`")
    elif report.ok:
        output.say(f"manifest {report.manifest} matches the log at event {report.watermark}")


@click.command(
    epilog=output.example(
        "mnemolog doctor", "mnemolog doctor --repair --dry-run", "mnemolog doctor --repair --yes"
    )
)
@click.option("--repair", is_flag=True, help="Fix what can be fixed without loss.")
@click.option("--dry-run", is_flag=True, help="With --repair: show what would be done, and stop.")
@click.option("--yes", is_flag=True, help="With --repair: also change the log, without asking.")
@output.json_option
@click.pass_context
def doctor(context: click.Context, repair: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Find problems and print a fix for each.

    With --repair it fixes file permissions, leftovers of killed writes and servers, and damaged
    snapshots and indexes. A damaged log is rewritten from every event with a valid hash; the
    damaged file is kept in the tenant's folder `damaged`, and lost events are listed in the output
    and in the log. It asks before it changes the log.
    """
    if (dry_run or yes) and not repair:
        raise click.UsageError("--dry-run and --yes require --repair")
    mended = _repaired(context.obj, as_json, yes, dry_run) if repair else []
    found = _findings(context.obj)
    is_ill = any(one.severity == "error" for one in found)
    if as_json:
        repairs = {"repairs": mended} if repair else {}
        output.emit({"ok": not is_ill, **repairs, "findings": found})
    else:
        for one in found:
            output.say(f"{one.severity:5}  {output.clean(one.what)}")
            if one.cure:
                output.say(f"       fix: {one.cure}")
    context.exit(FAILED if is_ill else 0)


def _repaired(session_: Session, as_json: bool, yes: bool, dry_run: bool) -> "list[Mended]":
    """Mend, and ask for leave where somebody can give it; return what became of what."""
    from store.audits.repair import repair

    settings = session_.settings()
    found = []
    may_ask = not (as_json or yes or dry_run) and sys.stdin.isatty()
    for one in repair(settings, session.now(), may_touch_log=yes, dry_run=dry_run):
        found.append(one)
        if not as_json:
            output.say(f"{one.state}: {output.clean(one.what)}")
            output.say(f"       {output.clean(one.how)}")
    if any(one.state == "asked" for one in found):
        if may_ask and click.confirm("Change the log as described above?", default=False):
            return [*found, *_repaired(session_, as_json, True, dry_run)]
        if not as_json:
            output.note("note: repairs that need your consent run with --yes")
    return found


def _findings(session_: Session) -> "list[Finding]":
    """Return the findings; broken settings of the user's are one, and then all there is to say."""
    from store.audits.health import Finding, checkup

    try:
        settings, fault = session_.settings_and_fault()
    except ConfigError as error:
        return [Finding("error", str(error), "correct the setting it names")]
    found = [
        *checkup(settings),
        *_recording_findings(settings, fault),
        *_host_findings(settings),
    ]
    return sorted(found, key=lambda one: ("error", "warn", "ok").index(one.severity))


def _recording_findings(settings: Settings, fault: str) -> "list[Finding]":
    """Return what keeps sessions from being recorded: a broken file, a pause, a setting."""
    from serve.summaries.recording import recording
    from store.audits.health import Finding

    if fault:
        what = f"nothing is recorded or injected here: {fault}"
        return [Finding("error", what, "correct the setting it names, or delete the file")]
    found = recording(settings, "", Path.cwd(), session.now())
    warns = [
        Finding(
            "warn",
            f"{one['scope']} {one['name']} has been paused since {one['since']}",
            one["resume"],
        )
        for one in found["paused"]
    ]
    if found["off"] and not warns:
        warns.append(
            Finding("warn", f"nothing is recorded here: {found['off']}", "correct or remove it")
        )
    elif not found["off"] and (left_out := found["left_out"]):
        where = settings.origin.get("record", "the settings")
        what = f"{', '.join(left_out)} of sessions are not recorded here: `record` in {where}"
        warns.append(Finding("ok", what))
    warns = warns or [Finding("ok", "sessions are recorded here")]
    return [*warns, *_retention(settings)]


def _retention(settings: Settings) -> "Iterator[Finding]":
    from store.audits.health import Finding
    from store.erase import retention

    days = settings.choices.episodes_days
    if not days:
        return
    try:
        with session.open_log(settings) as log:
            over = retention.waiting(session.chosen(settings), log, days, session.now())
    except MnemologError:  # said by the finding about the log
        return
    what = f"episodes are kept for {days} days: the next build erases {over}"
    yield Finding("ok", what)


def _host_findings(settings: Settings) -> "list[Finding]":
    from dataclasses import replace

    from serve.connect.checkup import checkup
    from store.home.registry import running

    machine, install = session.machine(), session.install(settings)
    if (server := running(settings)) is not None:
        install = replace(install, port=server.port)
    try:
        log = session.open_log(settings)
    except MnemologError:  # said by the finding about the log
        return checkup(machine, install, None, session.now())
    with log:
        return checkup(machine, install, log, session.now())

"""Commands that keep a memory intact: `init`, `verify`, `doctor` and `backup`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serve.cli import environment, output, processes
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from serve.formatting import size
from store.home.config import Settings
from store.home.errors import ConfigError, InvalidInput, MnemologError, NotFound, RemoteError
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.maintenance.backup_file import Listing
    from store.maintenance.checkup import Finding
    from store.maintenance.repair import RepairStep
    from store.maintenance.verify import Report
    from store.replica.remote import Remote


@click.command(epilog=output.example("mnemolog init"))
@output.json_option
@click.pass_obj
def init(env: Environment, /, as_json: bool) -> None:
    """Create the home and the tenant's log if they are missing."""
    settings = env.settings()
    tenant, is_new = environment.make_tenant(settings)
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
    import msgspec

    from store.embedders.embedder import make_embedder
    from store.maintenance.verify import verify as verified

    settings = context.obj.settings()
    tenant = environment.current_tenant(settings)
    with environment.open_log(settings) as log:
        progress = (lambda what: None) if as_json else (lambda what: output.note(f"... {what}"))
        model = make_embedder(settings.choices.embedder, settings.home)
        report = verified(tenant, log, model, on_progress=progress)
    if as_json:
        output.emit({"ok": report.ok, **msgspec.to_builtins(report)})
    else:
        _show_report(report)
    context.exit(0 if report.ok else FAILED)


def _show_report(report: "Report") -> None:
    for problem in report.problems:
        output.say(f"damaged  {output.clean(problem)}")
    for verdict in report.projections:
        output.say(
            f"{'ok     ' if verdict.ok else 'differs'}  {verdict.projection}: {verdict.detail}"
        )
        if (difference := verdict.difference) is not None:
            column = difference.column or "-"
            output.say(f"         table {difference.table}, row {difference.row}, column {column}")
            output.say(f"         served   {output.clean(difference.live)}")
            output.say(f"         the log  {output.clean(difference.rebuilt)}")
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
    steps = _repair(context.obj, as_json, yes, dry_run) if repair else []
    findings = _findings(context.obj)
    has_error = any(finding.severity == "error" for finding in findings)
    if as_json:
        repairs = {"repairs": steps} if repair else {}
        output.emit({"ok": not has_error, **repairs, "findings": findings})
    else:
        for finding in findings:
            severity = output.colour(f"{finding.severity:5}", finding.severity)
            output.say(f"{severity}  {output.clean(finding.what)}")
            if finding.cure:
                output.say(f"       fix: {finding.cure}")
    context.exit(FAILED if has_error else 0)


def _repair(env: Environment, as_json: bool, yes: bool, dry_run: bool) -> "list[RepairStep]":
    """Repair, with permission if a person can give it; return the steps and their outcomes."""
    from store.maintenance.repair import repair

    settings = env.settings()
    steps = []
    may_ask = not (as_json or yes or dry_run) and sys.stdin.isatty()
    for step in repair(settings, environment.now(), may_touch_log=yes, dry_run=dry_run):
        steps.append(step)
        if not as_json:
            output.say(f"{step.state}: {output.clean(step.what)}")
            output.say(f"       {output.clean(step.how)}")
    if any(repair_step.state == "asked" for repair_step in steps):
        if may_ask and click.confirm("Change the log as described above?", default=False):
            return [*steps, *_repair(env, as_json, True, dry_run)]
        if not as_json:
            output.note("note: repairs that need your consent run with --yes")
    return steps


def _findings(env: Environment) -> "list[Finding]":
    """Return the findings; if the user's settings are broken, that is the only finding."""
    from store.maintenance.checkup import Finding, checkup

    try:
        settings, fault = env.settings_and_fault()
    except ConfigError as error:
        return [Finding("error", str(error), "correct the setting it names")]
    findings = [
        *(Finding("warn", text, "delete the setting") for text in settings.removed),
        *(
            Finding("warn", text, "correct the variable's name, or unset it")
            for text in settings.unknown_variables
        ),
        *checkup(settings),
        *_findings_on_recording(settings, fault),
        *_host_findings(settings),
    ]
    severities = ("error", "warn", "ok")
    return sorted(findings, key=lambda finding: severities.index(finding.severity))


def _findings_on_recording(settings: Settings, fault: str) -> "list[Finding]":
    """Return the findings on recording: a broken file, pauses, settings, retention."""
    from store.home.project_context import recording_status
    from store.maintenance.checkup import Finding

    if fault:
        text = f"nothing is recorded or injected here: {fault}"
        return [Finding("error", text, "correct the setting it names, or delete the file")]
    payload = recording_status(settings, "", Path.cwd(), environment.now())
    findings = [
        Finding(
            "warn",
            f"{pause['scope']} {pause['name']} has been paused since {pause['since']}",
            pause["resume"],
        )
        for pause in payload["paused"]
    ]
    if payload["off"] and not findings:
        findings.append(
            Finding("warn", f"nothing is recorded here: {payload['off']}", "correct or remove it")
        )
    elif not payload["off"] and (left_out := payload["left_out"]):
        where = settings.origin.get("record", "the settings")
        text = f"{', '.join(left_out)} of sessions are not recorded here: `record` in {where}"
        findings.append(Finding("ok", text))
    findings = findings or [Finding("ok", "sessions are recorded here")]
    return [*findings, *_retention(settings)]


def _retention(settings: Settings) -> "Iterator[Finding]":
    from store.maintenance import retention
    from store.maintenance.checkup import Finding

    days = settings.choices.episodes_days
    if not days:
        return
    try:
        with environment.open_log(settings) as log:
            over = retention.count_waiting(
                environment.current_tenant(settings), log, days, environment.now()
            )
    except MnemologError:  # reported by the finding about the log
        return
    yield Finding("ok", f"episodes are kept for {days} days: the next build erases {over}")


def _host_findings(settings: Settings) -> "list[Finding]":
    from msgspec.structs import replace

    from serve.connect.checkup import checkup
    from store.home.registry import live_server

    try:
        environment.current_tenant(settings)
    except NotFound:  # reported elsewhere: a host's key may be right for another tenant
        return []
    machine, install = environment.machine(), environment.install(settings)
    if (server := live_server(settings)) is not None:
        install = replace(install, port=server.port)
    try:
        log = environment.open_log(settings)
    except MnemologError:  # reported by the finding about the log
        return checkup(machine, install, None, environment.now())
    with log:
        return checkup(machine, install, log, environment.now())


# backup

_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group(
    epilog=output.example(
        "mnemolog backup make ~/backups/monday.zip",
        "mnemolog backup check ~/backups/monday.zip",
        "mnemolog backup restore ~/backups/monday.zip --into monday",
    )
)
def backup() -> None:
    """Save a tenant to one file, and restore a tenant.

    `restore` and `check` take a replica's place too: `mnemolog replicate` keeps one.
    """


@backup.command("make", epilog=output.example("mnemolog backup make ~/backups/monday.zip"))
@_FILE
@output.json_option
@click.pass_obj
def make_backup(env: Environment, /, file: Path, as_json: bool) -> None:
    """Write a tenant to a new file, even while it is in use, and verify the file.

    It contains the log with its archived part, and the waiting batches to be recorded; everything
    else can be rebuilt from these. The file is a zip that only you can read; it is not signed or
    encrypted. Settings, tokens and models belong to the home and are not included.
    """
    from serve import version
    from store.maintenance import backup

    output.check_writable(file)
    tenant, now = environment.current_tenant(env.settings()), environment.now()
    made = backup.make_backup(tenant, file, version(), now)
    environment.note_copy(tenant, "backup", str(file.absolute()), now)
    if as_json:
        output.emit(made)
    else:
        output.say(f"{output.clean(str(file))}: {_summary(made.listing)}, {size(made.bytes)}")


_SOURCE = click.argument("source", metavar="SOURCE")
_AT = click.option(
    "--at",
    metavar="TIME",
    help="Of a replica, the log as it was then: 2026-11-20T14:03:07Z, or 2h; default: all.",
)


@backup.command(
    "check",
    epilog=output.example(
        "mnemolog backup check ~/backups/monday.zip",
        "mnemolog backup check s3://bucket/laptop --at 2026-11-20T14:03:07Z",
    ),
)
@_SOURCE
@_AT
@output.json_option
@click.pass_obj
def check_backup(env: Environment, /, source: str, at: str | None, as_json: bool) -> None:
    """Verify that a backup, or a replica, can be restored in full, without restoring it.

    SOURCE is a backup's file, or the place of a replica. It is unpacked into a temporary folder,
    and every hash, SQLite's integrity check and every event are checked.
    """
    from tempfile import TemporaryDirectory

    from store.maintenance import backup
    from store.replica import restore

    settings = env.settings()
    remote = _replica_at(source, at)
    if remote is None:
        listing = backup.check_backup(Path(source))
    else:
        with TemporaryDirectory(prefix="mnemolog-") as folder:
            listing = restore.check_replica(
                remote, settings.choices.tenant, Path(folder), _until(at)
            )
    if as_json:
        output.emit({"ok": True, "listing": listing})
    else:
        output.say(f"ok       {output.clean(listing.tenant)}: {_summary(listing)}")


@backup.command(
    "restore",
    epilog=output.example(
        "mnemolog backup restore ~/backups/monday.zip --into monday",
        "mnemolog backup restore ~/backups/monday.zip --replace",
        "mnemolog backup restore s3://bucket/laptop --at 2026-11-20T14:03:07Z --into before",
    ),
)
@_SOURCE
@_AT
@click.option(
    "--generation",
    metavar="ID",
    help="Of a replica: one that is not the newest, as this command lists them.",
)
@click.option(
    "--into", metavar="TENANT", help="The tenant to create; default: the name in the backup."
)
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="Replace the existing tenant; it moves to `deleted`.",
)
@output.json_option
@click.pass_context
def restore_backup(
    context: click.Context,
    source: str,
    at: str | None,
    generation: str | None,
    into: str | None,
    replaces: bool,
    as_json: bool,
) -> None:
    """Restore a tenant from a backup or a replica, all or nothing, and build it.

    SOURCE is a backup's file, or the place of a replica: a folder or s3://BUCKET/FOLDER. Of a
    replica it is the tenant that --tenant names, and with --at its log as it was at that second.
    Settings and tokens that the replica holds are written where this home has none.

    An existing tenant is kept unless you use --replace. Then its folder moves to `deleted` in the
    home, no server may be running, its tokens stay valid, and what was erased from it since the
    backup is erased from the restored tenant too.
    """
    from contextlib import nullcontext

    from msgspec import structs

    from store.home import registry
    from store.maintenance import backup
    from store.replica import restore

    settings = context.obj.settings()
    remote = _replica_at(source, at or generation)
    now = environment.now()
    with registry.sole(settings) if replaces else nullcontext():
        if remote is None:
            done = backup.restore_backup(settings, Path(source), into, now, replace=replaces)
        else:
            done = restore.restore_replica(
                settings,
                remote,
                settings.choices.tenant,
                now,
                into=into,
                until=_until(at),
                generation=generation,
                replace=replaces,
            )
            try:
                _print_generations(remote, settings)
            except RemoteError as error:  # the tenant itself is there
                output.note(f"note: settings and other generations were not read: {error}")
    if as_json:
        output.emit(done)
    else:
        output.say(f"{done.tenant} was restored: {_summary(done.listing)}")
        if done.replaced is not None:
            output.note(f"the previous tenant is kept in {done.replaced}")
        if done.erased_again:
            output.note(
                f"erased again: {done.erased_again} memories that were erased since the backup"
            )
    if done.erased_again is None:
        output.note(
            "note: what was erased since is not known: the log that was there is unreadable"
        )
    choices = structs.replace(settings.choices, tenant=done.tenant)
    code = processes.build(structs.replace(settings, choices=choices), "--quick", quiet=True)
    context.exit(code)


def _replica_at(source: str, only_of_replicas: str | None) -> "Remote | None":
    """Return the replica's place that a source names; None for a backup's file."""
    from store.replica.remote import is_folder, open_remote

    if not is_folder(source):
        return open_remote(source)
    folder = Path(source).expanduser().absolute()
    if folder.is_dir():
        return open_remote(str(folder))
    if not folder.exists():
        raise NotFound(f"there is no {source}: give a backup's file, or the place of a replica")
    if only_of_replicas is not None:
        raise InvalidInput(f"{source} is no replica: --at and --generation are of replicas alone")
    return None


def _until(at: str | None) -> int | None:
    """Return the last microsecond to restore; a time to the second means its end."""
    from serve.formatting import parse_time
    from store.home.instants import micros

    if at is None:
        return None
    moment = micros(parse_time(at, environment.now()))
    return moment if moment % 1_000_000 else moment + 999_999


def _print_generations(remote: "Remote", settings: Settings) -> None:
    """Print the restored settings and the other generations."""
    from store.replica import restore

    for name in restore.restore_home_files(remote, settings.home):
        output.note(f"{name} came from the replica too")
    generations = restore.list_found(remote, settings.choices.tenant)
    if len(generations) > 1:
        output.note(
            f"{remote.url} holds {len(generations)} generations; --generation names another:"
        )
        for generation in generations:
            events = plural(generation.events, "event")
            text = f"since {generation.since[:19]}Z by {generation.machine}, {events}"
            output.note(f"  {generation.id}  {output.clean(text)}")


def _summary(listing: "Listing") -> str:
    from store.home.instants import isoformat

    newest = f", the newest of {isoformat(listing.newest_at)[:16]}Z" if listing.events else ""
    waiting = f", {listing.jobs} waiting batches" if listing.jobs else ""
    return f"{plural(listing.events, 'event')}{newest}{waiting}"

"""`mnemolog init`, `verify` and `doctor`: make a memory, prove it, and find what ails it."""

from typing import TYPE_CHECKING

import click

from serve.cli import output, session
from serve.cli.group import FAILED
from serve.cli.session import Session
from store.config import Settings
from store.errors import ConfigError, MnemologError

if TYPE_CHECKING:
    from store.audits.health import Finding
    from store.audits.verify import Report


@click.command(epilog=output.example("mnemolog init"))
@output.json_option
@click.pass_obj
def init(session_: Session, /, as_json: bool) -> None:
    """Make the home and the tenant's log where they are missing."""
    settings = session_.settings()
    tenant, is_new = session.make(settings)
    if as_json:
        made = {"home": str(settings.home), "tenant": tenant.name, "root": str(tenant.root)}
        output.emit(made | {"new": is_new})
        return
    output.say(f"{'made' if is_new else 'there is'} {tenant.name} in {tenant.root}")
    output.say("next:")
    output.say('  mnemolog record "what you want remembered"')
    output.say("  mnemolog import git .          # or claude-code, markdown, jsonl")
    output.say("  mnemolog build                 # indexes what was read")
    output.say("  mnemolog recall what was it    # from the command line")
    output.say("  mnemolog serve                 # for your agents")


@click.command(epilog=output.example("mnemolog verify"))
@output.json_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> None:
    """Prove that what is served is what the log gives, row by row."""
    from store.audits.verify import verify as verified
    from store.embedding import embedder

    settings = context.obj.settings()
    tenant = session.chosen(settings)
    with session.open_log(settings) as log:
        progress = (lambda what: None) if as_json else (lambda what: output.note(f"... {what}"))
        model = embedder(settings.choices.embedder, settings.home)
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
        output.say("ok       log; nothing was built yet: `mnemolog build`")
    elif report.ok:
        output.say(f"manifest {report.manifest} is what the log gives at event {report.watermark}")


@click.command(epilog=output.example("mnemolog doctor"))
@output.json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Look at everything that can go wrong, and say what to do about it."""
    found = _findings(context.obj)
    is_ill = any(one.severity == "error" for one in found)
    if as_json:
        output.emit({"ok": not is_ill, "findings": found})
    else:
        for one in found:
            output.say(f"{one.severity:5}  {output.clean(one.what)}")
            if one.cure:
                output.say(f"       cure: {one.cure}")
    context.exit(FAILED if is_ill else 0)


def _findings(session_: Session) -> "list[Finding]":
    """Return the findings; broken settings are one of them, and then all there is to say."""
    from store.audits.health import Finding, checkup

    try:
        settings = session_.settings()
    except ConfigError as error:
        return [Finding("error", str(error), "mend the setting it names")]
    found = [*checkup(settings), *_host_findings(settings)]
    return sorted(found, key=lambda one: ("error", "warn", "ok").index(one.severity))


def _host_findings(settings: Settings) -> "list[Finding]":
    from dataclasses import replace

    from serve.connect.checkup import checkup
    from store.registry import running

    machine, install = session.machine(), session.install(settings)
    if (server := running(settings)) is not None:
        install = replace(install, port=server.port)
    try:
        log = session.open_log(settings)
    except MnemologError:  # said by the finding about the log
        return checkup(machine, install, None, session.now())
    with log:
        return checkup(machine, install, log, session.now())

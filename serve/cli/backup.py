"""`mnemolog backup`: one tenant in one file, proven, and a tenant made of it again."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serve.cli import output, processes, session
from serve.cli.session import Session
from serve.numerals import size

if TYPE_CHECKING:
    from store.backup.archive import Listing

_file = click.argument("file", type=click.Path(path_type=Path))


@click.group(
    epilog=output.example(
        "mnemolog backup make ~/backups/monday.zip",
        "mnemolog backup check ~/backups/monday.zip",
        "mnemolog backup restore ~/backups/monday.zip --into monday",
    )
)
def backup() -> None:
    """Keep a tenant in one file, and make a tenant of it again."""


@backup.command(epilog=output.example("mnemolog backup make ~/backups/monday.zip"))
@_file
@output.json_option
@click.pass_obj
def make(session_: Session, /, file: Path, as_json: bool) -> None:
    """Write the tenant to a new file, while others use it, once all of it was found whole.

    It holds the log with what was put away of it, and the batches that wait to be recorded; all
    else is built from these. It is a zip, private to you, and not signed or encrypted. Settings,
    tokens and models are the home's, and not in it.
    """
    from serve.version import version
    from store.backup import backups

    output.check_writable(file)
    tenant, now = session.chosen(session_.settings()), session.now()
    made = backups.make(tenant, file, version(), now)
    session.note_copy(tenant, "backup", str(file.absolute()), now)
    if as_json:
        output.emit(made)
    else:
        output.say(f"{output.clean(str(file))}: {_told(made.listing)}, {size(made.bytes)}")


@backup.command(epilog=output.example("mnemolog backup check ~/backups/monday.zip"))
@_file
@output.json_option
def check(file: Path, as_json: bool) -> None:
    """Prove that a backup can be restored whole, and restore nothing.

    It is unpacked into a folder that goes again: every hash, SQLite's own check, every event.
    """
    from store.backup import backups

    listing = backups.check(file)
    if as_json:
        output.emit({"ok": True, "listing": listing})
    else:
        output.say(f"ok       {output.clean(listing.tenant)}: {_told(listing)}")


@backup.command(
    epilog=output.example(
        "mnemolog backup restore ~/backups/monday.zip --into monday",
        "mnemolog backup restore ~/backups/monday.zip --replace",
    )
)
@_file
@click.option("--into", metavar="TENANT", help="Make this tenant; else the one it was made of.")
@click.option("--replace", "replaces", is_flag=True, help="Put away the tenant that is there.")
@output.json_option
@click.pass_context
def restore(
    context: click.Context, file: Path, into: str | None, replaces: bool, as_json: bool
) -> None:
    """Make a tenant of a backup, whole or not at all, and build it.

    A tenant that is there stays, unless --replace says so: then its folder is put away to `deleted`
    in the home, no server may run meanwhile, its tokens stay good, and what was erased from it
    since the backup was made is erased from the restored one too.
    """
    from contextlib import nullcontext

    from msgspec import structs

    from store import registry
    from store.backup import backups

    settings = context.obj.settings()
    with registry.sole(settings) if replaces else nullcontext():
        done = backups.restore(settings, file, into, session.now(), replace=replaces)
    if as_json:
        output.emit(done)
    else:
        output.say(f"{done.tenant} was restored: {_told(done.listing)}")
        if done.replaced is not None:
            output.note(f"what was there is kept in {done.replaced}")
        if done.erased_again:
            output.note(f"erased since, and now again: {done.erased_again} memories")
    if done.erased_again is None:
        output.note(
            "note: what was erased since is not known: the log that was there is unreadable"
        )
    choices = structs.replace(settings.choices, tenant=done.tenant)
    code = processes.build(replace(settings, choices=choices), "--quick", quiet=True)
    context.exit(code)


def _told(listing: "Listing") -> str:
    from store.events import isoformat

    newest = f", the newest of {isoformat(listing.newest_at)[:16]}Z" if listing.events else ""
    waiting = f", {listing.jobs} batches that wait" if listing.jobs else ""
    return f"{listing.events:,} events{newest}{waiting}"

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
    """Save a tenant to one file, and restore a tenant from it."""


@backup.command(epilog=output.example("mnemolog backup make ~/backups/monday.zip"))
@_file
@output.json_option
@click.pass_obj
def make(session_: Session, /, file: Path, as_json: bool) -> None:
    """Write a tenant to a new file, even while it is in use, and verify the file.

    It contains the log with its archived part, and the waiting batches to be recorded; everything
    else can be rebuilt from these. The file is a zip that only you can read; it is not signed or
    encrypted. Settings, tokens and models belong to the home and are not included.
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
    """Verify that a backup can be restored in full, without restoring it.

    The backup is unpacked into a temporary folder, and every hash, SQLite's integrity check and
    every event are checked.
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
def restore(
    context: click.Context, file: Path, into: str | None, replaces: bool, as_json: bool
) -> None:
    """Restore a tenant from a backup, all or nothing, and build it.

    An existing tenant is kept unless you use --replace. Then its folder moves to `deleted` in the
    home, no server may be running, its tokens stay valid, and what was erased from it since the
    backup is erased from the restored tenant too.
    """
    from contextlib import nullcontext

    from msgspec import structs

    from store.backup import backups
    from store.home import registry

    settings = context.obj.settings()
    with registry.sole(settings) if replaces else nullcontext():
        done = backups.restore(settings, file, into, session.now(), replace=replaces)
    if as_json:
        output.emit(done)
    else:
        output.say(f"{done.tenant} was restored: {_told(done.listing)}")
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
    code = processes.build(replace(settings, choices=choices), "--quick", quiet=True)
    context.exit(code)


def _told(listing: "Listing") -> str:
    from store.home.instants import isoformat

    newest = f", the newest of {isoformat(listing.newest_at)[:16]}Z" if listing.events else ""
    waiting = f", {listing.jobs} waiting batches" if listing.jobs else ""
    return f"{listing.events:,} events{newest}{waiting}"

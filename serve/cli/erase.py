"""`mnemolog erase`: take what memories said out of the log itself, and prove that it is gone."""

import getpass
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from serve.cli import output, session
from serve.cli.session import Session
from serve.process import jobs as processes
from store import commands
from store.events import Recorded

if TYPE_CHECKING:
    from store.config import Settings
    from store.erase.receipt import Receipt
    from store.log import EventLog
    from store.logfile.erasing import Erasure

_SHOWN = 10  # of a list, on a terminal


@click.command(
    epilog=output.example(
        "mnemolog erase 01KA2B3C4D --dry-run", "mnemolog erase 01KA2B3C4D 01KA7XYZAB --yes"
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--with-derived", is_flag=True, help="Also the memories that jobs made of them.")
@click.option(
    "--also-quotes",
    is_flag=True,
    help="Also cut out prompts, commands, questions and other receipts that say the same words.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be rewritten.")
@output.json_option
@click.pass_obj
def erase(
    session_: Session,
    /,
    ids: tuple[str, ...],
    with_derived: bool,
    also_quotes: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Destroy what memories said: in the log, and in all that is built from it. No undo.

    Their ids, times and kinds stay, and every text goes: of the memory, of what was changed in it,
    of plans, judgements and drafts made from it. What jobs made of it is stale at once and named
    here: it may quote it, so erase it too. The memory is built anew before this ends, what was
    served before is deleted, and so are Dagster's runs that quoted it.

    Then every file of the home is looked through, and the receipt says what was found and what is
    out of reach: copies that were made, others who said the same words, the hosts' transcripts,
    what the disk keeps. It ends with 1 where something is left that it should have reached: run it
    again.
    """
    from store.erase import receipt, wiping

    settings = session_.settings()
    tenant = session.chosen(settings)
    with session.open_log(settings) as log:
        wanted = _wanted(log, ids, with_derived=with_derived)
        if not dry_run and not yes:
            _ask(log, wanted, as_json=as_json)
        if dry_run:
            _dry_run(log, wanted, as_json=as_json)
            return
        with wiping.alone(tenant):
            before = wiping.names(tenant)
            now = session.now()
            wiped = wiping.wipe(tenant, log, wanted, now, also_quotes=also_quotes)
            _build_anew(settings, tenant.name)
            found = receipt.made(settings.home, tenant, wiped, _who(), now, before)
        if as_json:
            output.emit(msgspec.to_builtins(found))
        else:
            _tell(log, wiped.erasure, "erased")
            _tell_receipt(found, str(receipt.folder_of(tenant) / f"{found.id}.json"))
    if not found.is_clean:
        sys.exit(1)


def _who() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # the system knows no name for us
        return "somebody"


def _wanted(log: "EventLog", ids: tuple[str, ...], *, with_derived: bool) -> list[str]:
    from store.logfile import erasing

    wanted = list(dict.fromkeys(commands.resolve(log, prefix) for prefix in ids))
    return [*wanted, *erasing.made_of(log, wanted)] if with_derived else wanted


def _ask(log: "EventLog", wanted: list[str], *, as_json: bool) -> None:
    from store.logfile import erasing

    if as_json:
        raise click.UsageError("--json asks nothing: give --yes or --dry-run")
    _tell(log, erasing.reach(log, wanted), "erases")
    if not click.confirm("Destroy this for good?", default=False):
        raise click.Abort


def _dry_run(log: "EventLog", wanted: list[str], *, as_json: bool) -> None:
    from store.logfile import erasing

    planned = erasing.reach(log, wanted)
    if as_json:
        output.emit(msgspec.to_builtins(planned))
    else:
        _tell(log, planned, "would erase")


def _build_anew(settings: "Settings", name: str) -> None:
    """Have the memory built and what was served before dropped; where no build is published, what
    is served goes all the same.
    """
    from store.erase import wiping

    words = ("cold", "--tenant", name, "--only-newest")
    child = processes.start(settings, *words, stdout=subprocess.PIPE)
    child.communicate()
    if child.returncode:
        tenant = session.chosen(settings)
        wiping.drop_served(tenant)
        wiping.drop_derived(tenant)
        output.note("note: it could not be built anew, so nothing is served: run `mnemolog build`")


def _tell(log: "EventLog", done: "Erasure", verb: str) -> None:
    for id_ in done.ids:
        first = log.about(id_)[0].body
        shown = output.one_line(first.content) if isinstance(first, Recorded) else ""
        output.say(f"{verb} {output.short_id(log, id_)}  {shown}".rstrip())
    output.say(f"{done.events} events of the log say it")
    for id_ in done.made:
        output.say(f"made of it, stale from then on: {output.short_id(log, id_)}")


def _tell_receipt(found: "Receipt", path: str) -> None:
    seen = found.scan
    if found.cut:
        output.say(f"{found.cut} more events quoted it: cut out")
    output.say(f"{len(found.files_deleted)} files deleted, {len(found.dropped)} of others cleared")
    output.say(
        f"looked for {seen.marks:,} marks of it in {seen.files:,} files, {seen.bytes:,} bytes, "
        f"{seen.decoded:,} of them decoded too: "
        + ("nothing is left" if found.is_clean else "SOMETHING IS LEFT")
    )
    _each("left in", found.left)
    _each("not reached, says the same", found.elsewhere)
    _each(
        "not reached, says the same words",
        [f"{one.kind} {one.id} of {one.at}" for one in found.quotes],
    )
    _each("not reached, a copy", [f"{one.what} {one.to}" for one in found.copies])
    _each("not reached", found.not_reached)
    if found.texts_too_short:
        output.say(f"{found.texts_too_short} texts were too short to be told from others'")
    if any(one.can_be_cut for one in found.quotes):
        output.note("hint: --also-quotes cuts receipts that say the same words")
    output.say(f"receipt: {path}")


def _each(what: str, found: "tuple[str, ...] | list[str]") -> None:
    for one in found[:_SHOWN]:
        output.say(f"{what}: {output.clean(one)}")
    if len(found) > _SHOWN:
        output.say(f"{what}: {len(found) - _SHOWN} more, see the receipt")

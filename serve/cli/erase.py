"""`mnemolog erase`: take what memories said out of the log itself, and prove that it is gone."""

import getpass
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from serve.cli import output, session
from serve.cli.session import Session
from serve.server import processes
from store import commands
from store.errors import InvalidInput, NotFound
from store.events import Recorded

if TYPE_CHECKING:
    from store.config import Settings
    from store.erase.receipt import Receipt
    from store.erase.wiping import Asked, Reach
    from store.log import EventLog
    from store.logfile.erasing import Erasure

_SHOWN = 10  # of a list, on a terminal


@click.command(
    epilog=output.example(
        "mnemolog erase 01KA2B3C4D --dry-run",
        "mnemolog erase 01KA2B3C4D 01KA7XYZAB --yes",
        "mnemolog erase --text 'project zebra' --dry-run",
        "mnemolog erase --session 5f0c",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option(
    "--text", "texts", multiple=True, help="Also all that says these words, in this order."
)
@click.option("--session", "sessions", multiple=True, help="Also all events of a session.")
@click.option("--with-derived", is_flag=True, help="Also the memories that jobs made of them.")
@click.option(
    "--also-quotes",
    is_flag=True,
    help="Also cut out prompts, commands, questions and other receipts that use words of theirs.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be rewritten.")
@output.json_option
@click.pass_obj
def erase(
    session_: Session,
    /,
    ids: tuple[str, ...],
    texts: tuple[str, ...],
    sessions: tuple[str, ...],
    with_derived: bool,
    also_quotes: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Destroy what memories said: in the log, and in all that is built from it. No undo.

    An ID is a memory's or any other event's. Give --text for words: every memory that says them
    goes whole, every other event loses the text they are in, be it a prompt, a command or a reason.
    What would be touched is shown first.

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
        asked = _asked(log, ids, texts, sessions, with_derived, also_quotes)
        if not dry_run and not yes:
            _ask(log, asked, as_json=as_json)
        if dry_run:
            _dry_run(log, asked, as_json=as_json)
            return
        with wiping.alone(tenant):
            before = wiping.names(tenant)
            now = session.now()
            wiped = wiping.wipe(tenant, log, asked, now)
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


def _asked(
    log: "EventLog",
    ids: tuple[str, ...],
    texts: tuple[str, ...],
    sessions: tuple[str, ...],
    with_derived: bool,
    also_quotes: bool,
) -> "Asked":
    from store.erase import wiping
    from store.logfile import erasing
    from store.text import fingerprints

    if not (ids or texts or sessions):
        raise click.UsageError("nothing to erase: give an ID, --text or --session")
    for text in texts:
        if not fingerprints.split(text):
            raise click.UsageError(f"--text {text!r} has no letter or digit to look for")
    found = [commands.resolve_event(log, prefix) for prefix in ids]
    memories = [id_ for id_, is_memory in found if is_memory]
    events = [id_ for id_, is_memory in found if not is_memory]
    for prefix in sessions:
        its_memories, its_events = erasing.of_session(log, _session(log, prefix))
        memories += its_memories
        events += its_events
    wanted = wiping.wanted(log, wiping.Asked(tuple(dict.fromkeys(memories)), texts=texts))
    if with_derived:
        wanted += erasing.made_of(log, wanted)
    return wiping.Asked(
        tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(events)), texts, also_quotes
    )


def _session(log: "EventLog", prefix: str) -> str:
    """Return the one session whose id starts so; raise NotFound, or InvalidInput for several."""
    from store.logfile import erasing

    found = erasing.sessions_like(log, prefix) if prefix else []
    if prefix in found:
        return prefix
    if not found:
        raise NotFound(f"no event of a session {prefix!r}: `mnemolog show ID` names a memory's")
    if len(found) > 1:
        shown = ", ".join(found[:5])
        raise InvalidInput(f"{prefix!r} could be {shown}: give more of the session's id")
    return found[0]


def _ask(log: "EventLog", asked: "Asked", *, as_json: bool) -> None:
    from store.erase import wiping

    if as_json:
        raise click.UsageError("--json asks nothing: give --yes or --dry-run")
    _tell_reach(log, wiping.reach(log, asked), "erases")
    if not click.confirm("Destroy this for good?", default=False):
        raise click.Abort


def _dry_run(log: "EventLog", asked: "Asked", *, as_json: bool) -> None:
    from store.erase import wiping

    planned = wiping.reach(log, asked)
    if as_json:
        output.emit(msgspec.to_builtins(planned))
    else:
        _tell_reach(log, planned, "would erase")


def _tell_reach(log: "EventLog", planned: "Reach", verb: str) -> None:
    _tell(log, planned, verb)
    for kind, count in planned.cut.items():
        output.say(f"{count} more events lose what they say of it: {kind}")


def _build_anew(settings: "Settings", name: str) -> None:
    """Have the memory built and what was served before dropped; where no build is published, what
    is served goes all the same.
    """
    from store.erase import wiping

    words = ("cold", "--tenant", name, "--only-newest")
    child = processes.start_job(settings, *words, stdout=subprocess.PIPE)
    child.communicate()
    if child.returncode:
        tenant = session.chosen(settings)
        wiping.drop_served(tenant)
        wiping.drop_derived(tenant)
        output.note("note: it could not be built anew, so nothing is served: run `mnemolog build`")


def _tell(log: "EventLog", done: "Erasure | Reach", verb: str) -> None:
    for id_ in done.ids:
        first = log.about(id_)[0].body
        shown = output.one_line(first.content) if isinstance(first, Recorded) else ""
        output.say(f"{verb} {output.short_id(log, id_)}  {shown}".rstrip())
    output.say(f"events of the log that say it: {done.events}")
    for id_ in done.made:
        output.say(f"made of it, stale from then on: {output.short_id(log, id_)}")


def _tell_receipt(found: "Receipt", path: str) -> None:
    seen = found.scan
    if found.cut:
        output.say(f"others that quoted it, cut out of them: {found.cut}")
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

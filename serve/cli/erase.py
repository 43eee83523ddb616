"""
Commands for memories that must go or stay out: `erase` and `quarantine`.

`erase` removes texts from the log itself and proves that they are gone. `quarantine` lists the
memories that builds leave out, to be released or forgotten.
"""

import getpass
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click
import msgspec

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.server import processes
from store.home.errors import ConfigError, InvalidInput, MirrorError, NotFound
from store.home.instants import isoformat
from store.log import commands
from store.text.excerpt import plural

if TYPE_CHECKING:
    from store.home.config import Settings
    from store.home.tenant import Tenant
    from store.log.erasing import Erasure
    from store.log.event_log import EventLog
    from store.maintenance.erase import EraseRequest, Reach
    from store.maintenance.erase_receipt import Receipt
    from store.maintenance.quarantine import Held


_SHOWN = 10  # of a list, on a terminal
_LOCK_WAIT_S = 60.0  # for a build's end
_REPLICA_TRIES, _REPLICA_PAUSE_S = 60, 0.5


@click.command(
    epilog=output.example(
        "mnemolog erase 01KA2B3C4D --dry-run",
        "mnemolog erase 01KA2B3C4D 01KA7XYZAB --yes",
        "mnemolog erase --text 'project zebra' --dry-run",
        "mnemolog erase --session 5f0c",
        "mnemolog erase --secret",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]", type=arguments.MEMORY)
@click.option(
    "--text", "texts", multiple=True, help="Erase everything with these words, in this order."
)
@click.option("--session", "sessions", multiple=True, help="Erase all events of a session.")
@click.option(
    "--secret",
    "is_secret",
    is_flag=True,
    help="Ask for a secret unseen (or read it from stdin); as --text with --also-quotes.",
)
@click.option(
    "--with-derived", is_flag=True, help="Also erase memories that jobs derived from them."
)
@click.option(
    "--also-quotes",
    is_flag=True,
    help="Also cut prompts, commands, queries and other receipts that use their words.",
)
@arguments.yes_option
@click.option("--dry-run", is_flag=True, help="Show what would be rewritten, and stop.")
@output.json_option
@click.pass_obj
def erase(
    env: Environment,
    /,
    ids: tuple[str, ...],
    texts: tuple[str, ...],
    sessions: tuple[str, ...],
    is_secret: bool,
    with_derived: bool,
    also_quotes: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Destroy the text of memories for good. It goes from the log and everything built from it, and
    cannot be brought back.

    An ID may be that of a memory or of any other event. With --text, every memory that contains the
    words is erased entirely; every other event, such as a prompt, a command or a reason, loses the
    field that contains them. The command first shows what it would change. Your shell keeps what
    you type, so use --secret for a secret.

    Ids, times and kinds stay; every text goes: that of the memory, of its revisions, and of plans,
    judgments and drafts made from it. Memories that jobs derived from it become stale at once and
    are listed; they may quote it, so erase them too. The memory is then rebuilt, and the old
    snapshots are deleted, with the Dagster runs that quote the text.

    Finally, every file in the home is searched. The receipt lists what was found and what is out of
    reach: copies, other texts with the same words, the hosts' transcripts, freed disk blocks. The
    exit code is 1 if a trace is left within reach; run the command again.
    """
    from store.maintenance import erase, erase_receipt

    settings = env.settings()
    tenant = environment.current_tenant(settings)
    if is_secret:
        texts, also_quotes = (*texts, _read_secret()), True
    with environment.open_log(settings) as log:
        request = _select(log, ids, texts, sessions, with_derived, also_quotes)
        if dry_run:
            _dry_run(log, request, as_json=as_json)
            return
        if not yes:
            _ask(log, request, as_json=as_json)
        with erase.lock_out_jobs(tenant):
            before = erase.file_names(tenant)
            now = environment.now()
            wiped = erase.wipe(tenant, log, request, now)
            is_all_dropped = _drop_mirrors(settings, tenant)
            is_all_dropped &= _rewrite_replica(tenant, now)
            is_all_dropped &= _send_erasing(tenant, now)
            _build_anew(settings, tenant.name)
            receipt = erase_receipt.make_receipt(settings.home, tenant, wiped, _who(), now, before)
        if as_json:
            output.emit(msgspec.to_builtins(receipt))
        else:
            _print_reach(log, wiped.erasure, "erased")
            folder = erase_receipt.receipts_folder(tenant)
            _print_receipt(receipt, str(folder / f"{receipt.id}.json"))
    if not receipt.is_clean or not is_all_dropped:
        sys.exit(1)


def _read_secret() -> str:
    """Return a secret typed without echo, or the one line on stdin."""
    from store.text import fingerprints

    is_asked = sys.stdin.isatty()
    text = click.prompt("Secret", hide_input=True, err=True) if is_asked else output.stdin_text()
    secret = str(text).strip()
    if "\n" in secret or not fingerprints.split(secret):
        raise click.UsageError("--secret: give one line with a letter or digit in it")
    return secret


def _who() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # the system has no name for us
        return "somebody"


def _select(
    log: "EventLog",
    ids: tuple[str, ...],
    texts: tuple[str, ...],
    sessions: tuple[str, ...],
    with_derived: bool,
    also_quotes: bool,
) -> "EraseRequest":
    from store.log import erasing
    from store.maintenance import erase
    from store.text import fingerprints

    if not (ids or texts or sessions):
        raise click.UsageError("nothing to erase: give an ID, --text, --session or --secret")
    for text in texts:
        if not fingerprints.split(text):
            raise click.UsageError(f"--text {text!r} contains no letter or digit to search for")
    resolved = [commands.resolve_event(log, prefix) for prefix in ids]
    memories = [id_ for id_, is_memory in resolved if is_memory]
    events = [id_ for id_, is_memory in resolved if not is_memory]
    for prefix in sessions:
        its_memories, its_events = erasing.of_session(log, _session(log, prefix))
        memories += its_memories
        events += its_events
    wanted = erase.ids_to_erase(
        log, erase.EraseRequest(tuple(dict.fromkeys(memories)), texts=texts)
    )
    if with_derived:
        wanted += erasing.derivatives(log, wanted)
    return erase.EraseRequest(
        tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(events)), texts, also_quotes
    )


def _session(log: "EventLog", prefix: str) -> str:
    """Return the one session whose id has a prefix; raise NotFound, or InvalidInput for several."""
    from store.log import erasing

    sessions = erasing.sessions_like(log, prefix) if prefix else []
    if prefix in sessions:
        return prefix
    if not sessions:
        raise NotFound(
            f"no event of a session {prefix!r}: `mnemolog show ID` shows a memory's session"
        )
    if len(sessions) > 1:
        first = ", ".join(sessions[:5])
        raise InvalidInput(f"{prefix!r} could be {first}: give more letters of the session's id")
    return sessions[0]


def _ask(log: "EventLog", request: "EraseRequest", *, as_json: bool) -> None:
    from store.maintenance import erase

    if as_json:
        raise click.UsageError("--json cannot ask: add --yes or --dry-run")
    _print_plan(log, erase.reach(log, request), "erases")
    if not click.confirm("Destroy this for good?", default=False):
        raise click.Abort


def _dry_run(log: "EventLog", request: "EraseRequest", *, as_json: bool) -> None:
    from store.maintenance import erase

    planned = erase.reach(log, request)
    if as_json:
        output.emit(msgspec.to_builtins(planned))
    else:
        _print_plan(log, planned, "would erase")


def _print_plan(log: "EventLog", planned: "Reach", verb: str) -> None:
    _print_reach(log, planned, verb)
    for kind, count in planned.cut.items():
        output.say(f"{count} more events lose text about it: {kind}")


def _build_anew(settings: "Settings", name: str) -> None:
    """Rebuild the memory and drop the earlier snapshots; if no build is published, drop the
    published snapshot all the same.
    """
    from store.maintenance import erase

    words = ("cold", "--tenant", name, "--only-newest")
    child = processes.start_job(settings, *words, stdout=subprocess.PIPE)
    child.communicate()
    if child.returncode:
        tenant = environment.current_tenant(settings)
        erase.drop_served(tenant)
        erase.drop_derived_files(tenant)
        output.note("note: the rebuild failed, so nothing is served: run `mnemolog build`")


def _drop_mirrors(settings: "Settings", tenant: "Tenant") -> bool:
    """Delete the copies on other programs' servers; return True if none is left."""
    from store.maintenance import build, mirrors

    is_all_dropped = True
    for mirror in mirrors.every_mirror(settings.choices):
        try:
            with build.lock(tenant, wait_s=_LOCK_WAIT_S):
                mirror.drop(tenant)
        except MirrorError as error:
            is_all_dropped = False
            output.note(
                f"note: the copy of {mirror.what} still holds what was erased. {error}: that "
                "deletes all of it and writes the rest"
            )
    return is_all_dropped


def _rewrite_replica(tenant: "Tenant", now: int) -> bool:
    """Rewrite the replica, if any, after the log; return False if that remains to be done."""
    from store.home.errors import RemoteError
    from store.replica import parts, replica
    from store.replica.remote import open_remote
    from store.replica.state import file_of, read_state

    state = read_state(file_of(tenant))
    if state is None:
        return True
    try:
        remote = open_remote(state.url)
        keeper = replica.TenantReplica(tenant, remote)
        for _ in range(_REPLICA_TRIES):  # a server that is sending our last write is soon done
            if (sent := keeper.sync(now, anew=True)) is not None:
                break
            time.sleep(_REPLICA_PAUSE_S)
        there = parts.list_generations(remote, parts.tenant_folder(tenant.name))
    except (RemoteError, ConfigError) as error:
        output.note(f"note: the replica still holds what was erased. {error}: run `erase` again")
        return False
    if sent is None:
        output.note("note: the replica is being written by another process: run `erase` again")
        return False
    output.note(f"{plural(sent.replaced, 'part')} of the replica at {state.url} replaced")
    newest = read_state(file_of(tenant))
    for generation in there:
        if newest is None or generation.id != newest.generation:
            environment.note_copy(tenant, "replica", f"{state.url}/{generation.folder}", now)
    return True


def _send_erasing(tenant: "Tenant", now: int) -> bool:
    """Rewrite this machine's events at its sync place, and have the other machines erase them too;
    return False if that remains to be done.
    """
    from store.home.errors import RemoteError
    from store.sync import membership
    from store.sync.sync import open_sync

    if (place := membership.read_place(tenant)) is None:
        return True
    note = f"note: {place.url} and your other machines still hold what was erased"
    try:
        opened = open_sync(tenant, now)
        for _ in range(_REPLICA_TRIES if opened else 0):
            if opened and opened.sync(now, anew=True) is not None:
                output.note(f"sent to {place.url}: your other machines erase it when they sync")
                output.note(
                    "once they have, `mnemolog sync key --new` makes older files unreadable"
                )
                return True
            time.sleep(_REPLICA_PAUSE_S)
    except (RemoteError, ConfigError) as error:
        output.note(f"{note}. {error}: then run `mnemolog sync`")
        return False
    output.note(f"{note}: run `mnemolog sync{'' if opened else ' resume`, then `mnemolog sync'}`")
    return False


def _print_reach(log: "EventLog", reach: "Erasure | Reach", verb: str) -> None:
    for id_ in reach.ids:
        text = output.recorded_text(log, id_)
        output.say(f"{verb} {output.short_id(log, id_)}  {text}".rstrip())
    output.say(f"events of the log with this text: {reach.events}")
    for id_ in reach.made:
        output.say(f"derived from it, stale from now on: {output.short_id(log, id_)}")


def _print_receipt(receipt: "Receipt", path: str) -> None:
    scan = receipt.scan
    if receipt.cut:
        output.say(f"other events that quoted it, cut: {receipt.cut}")
    cleared = plural(len(receipt.dropped), "other file")
    output.say(f"{plural(len(receipt.files_deleted), 'file')} deleted, {cleared} cleared")
    output.say(
        f"looked for {scan.marks:,} marks of it in {scan.files:,} files, {scan.bytes:,} bytes, "
        f"{scan.decoded:,} of them decoded too: "
        + ("nothing left" if receipt.is_clean else "TEXT IS LEFT")
    )
    _print_some("left in", receipt.left)
    _print_some("not reached, has the same text", receipt.elsewhere)
    _print_some(
        "not reached, has the same words",
        [f"{quote.kind} {quote.id} of {quote.at}" for quote in receipt.quotes],
    )
    _print_some("not reached, a copy", [f"{copy.what} {copy.to}" for copy in receipt.copies])
    _print_some("not reached", receipt.not_reached)
    if receipt.texts_too_short:
        output.say(f"{receipt.texts_too_short} texts were too short to distinguish from others")
    if any(quote.can_be_cut for quote in receipt.quotes):
        output.note("hint: --also-quotes cuts receipts with the same words")
    output.say(f"receipt: {path}")


def _print_some(label: str, items: "tuple[str, ...] | list[str]") -> None:
    for item in items[:_SHOWN]:
        output.say(f"{label}: {output.clean(item)}")
    if len(items) > _SHOWN:
        output.say(f"{label}: {len(items) - _SHOWN} more, see the receipt")


# quarantine


@click.command(
    name="quarantine",
    epilog=output.example(
        "mnemolog quarantine", "mnemolog quarantine --release 01KA2B3C4D", "... --forget --all"
    ),
)
@click.argument("ids", nargs=-1, metavar="[ID...]", type=arguments.MEMORY)
@click.option("--release", "does", flag_value="release", help="Include them in builds again.")
@click.option("--forget", "does", flag_value="forget", help="Exclude them for good.")
@click.option("--all", "are_all", is_flag=True, help="All listed memories.")
@output.json_option
@click.pass_obj
def quarantine_command(
    env: Environment, /, ids: tuple[str, ...], does: str | None, are_all: bool, as_json: bool
) -> None:
    """List memories that builds leave out. Release or forget them.

    A memory that alone fails a check is left out, so that it holds up no other. Nobody finds it
    until you release it, as what it was: archived, if it was. A text is then taken as it is, with
    any secret redacted, while what an index makes of it is checked again by the next build.
    """
    from store.maintenance import quarantine

    if does is None and (ids or are_all):
        raise click.UsageError("choose what to do with them: --release or --forget")
    if does is not None and bool(ids) == are_all:
        raise click.UsageError("give the memories' ids, or --all")
    if does == "release":
        environment.presence().require_person("a release from quarantine")
    with environment.open_log(env.settings()) as log:
        entries = quarantine.entries(log)
        if does is None:
            _print_quarantine(entries, as_json=as_json)
            return
        if are_all:
            wanted = [entry.id for entry in entries]
        else:
            wanted = list(dict.fromkeys(commands.resolve(log, prefix) for prefix in ids))
        settle = quarantine.release if does == "release" else quarantine.forget
        events = settle(log, wanted, environment.now())
    if as_json:
        changed = [{"id": event.subject, "seq": event.seq} for event in events]
        output.emit({"done": does, "memories": changed})
        return
    verb = "released" if does == "release" else "forgot"
    for id_ in wanted:
        output.say(f"{verb} {id_}")
    if not wanted:
        output.say("the quarantine is empty")


def quarantine_fields(entry: "Held") -> dict[str, str]:
    """Return the JSON fields of a memory in quarantine."""
    at = isoformat(entry.at)
    return {"id": entry.id, "since": at, "check": entry.check, "reason": entry.reason}


def _print_quarantine(entries: "list[Held]", *, as_json: bool) -> None:
    if as_json:
        output.emit({"quarantined": list(map(quarantine_fields, entries))})
        return
    for entry in entries:
        output.say(
            f"{entry.id}  since {isoformat(entry.at)}  {entry.check}: {output.clean(entry.reason)}"
        )
    if not entries:
        output.say("the quarantine is empty")

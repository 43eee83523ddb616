"""`mnemolog erase`: take what memories said out of the log itself."""

from typing import TYPE_CHECKING

import click
import msgspec

from serve.cli import output, session
from serve.cli.archive import cold
from serve.cli.session import Session
from store import commands
from store.events import Recorded

if TYPE_CHECKING:
    from store.log import EventLog
    from store.logfile.erasing import Erasure


@click.command(
    epilog=output.example(
        "mnemolog erase 01KA2B3C4D --dry-run", "mnemolog erase 01KA2B3C4D 01KA7XYZAB --yes"
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be rewritten.")
@output.json_option
@click.pass_obj
def erase(
    session_: Session, /, ids: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Destroy what memories said: in the log, and in all that is built from it. No undo.

    Their ids, times and kinds stay, and every text goes: of the memory, of what was changed in it,
    of plans, judgements and drafts made from it. What jobs made of it is stale at once and named
    here: it may quote it, so erase it too. The memory is built anew before this ends, and what was
    served before is deleted.

    Not reached: backups and exports that you made; prompts, commands and questions in which the
    same words were said; Dagster's records of past runs; a key that other memories bear too; and
    what the disk itself keeps of blocks it freed.
    """
    from store.cold import memories
    from store.ingest.job_queue import Queue
    from store.logfile import erasing

    with session.open_log(session_.settings()) as log:
        wanted = list(dict.fromkeys(commands.resolve(log, prefix) for prefix in ids))
        planned = erasing.reach(log, wanted)
        if not (yes or dry_run):
            if as_json:
                raise click.UsageError("--json asks nothing: give --yes or --dry-run")
            _tell(log, planned, "erases")
            if not click.confirm("Destroy this for good?", default=False):
                raise click.Abort
        done = planned if dry_run else erasing.erase(log, wanted, session.now())
        if not dry_run:
            Queue(session.chosen(session_.settings()).ingest).erase(wanted)
        if as_json and dry_run:
            output.emit(msgspec.to_builtins(done))
        elif not as_json:
            _tell(log, done, "would erase" if dry_run else "erased")
    if dry_run:
        return
    memories.drop(session.chosen(session_.settings()))  # whatever becomes of the build
    cold(session_, "--only-newest")
    if not done.is_settled:
        output.note("note: others were reading the log: run this again, so that its -wal goes too")
    if as_json:
        output.emit(msgspec.to_builtins(done))


def _tell(log: "EventLog", done: "Erasure", verb: str) -> None:
    for id_ in done.ids:
        first = log.about(id_)[0].body
        shown = output.one_line(first.content) if isinstance(first, Recorded) else ""
        output.say(f"{verb} {output.short_id(log, id_)}  {shown}".rstrip())
    output.say(f"{done.events} events of the log say it")
    for id_ in done.made:
        output.say(f"made of it, stale from then on: {output.short_id(log, id_)}")

"""`mnemolog archive`: put away what is cold, and what old receipts take up."""

import subprocess
import sys
from typing import Any

import click
import msgspec

from serve.cli import jobs, output, session
from serve.cli.session import Session
from serve.server import processes


@click.command(
    epilog=output.example(
        "mnemolog archive --dry-run",
        "mnemolog archive",
        'mnemolog recall --cold "the old bucket"   # restore ID brings one back',
        "mnemolog archive --compact --dry-run",
    )
)
@click.option(
    "--compact", is_flag=True, help="Move receipts over 90 days old out of the log instead."
)
@jobs.options
@click.pass_obj
def archive(
    session_: Session,
    /,
    compact: bool,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Archive memories that are cold or expired.

    A memory is cold if nobody recalled or changed it for 180 days while others of its project were
    used. Memories that are pinned, rated helpful, the value of a key, a rule, decision or goal, or
    a source of a live memory are never cold. Archived memories are also written as Parquet, to the
    tenant's `cold/memories`.

    With --compact, receipts and hook records over 90 days old move from the log's file to Parquet
    in `cold/log`, and the file shrinks. They stay readable: `cold/log` is part of the log, and
    `mnemolog backup` includes both.
    """
    if compact:
        if project or estimate:
            raise click.UsageError("--compact works on the whole log: omit the other options")
        words = ["--compact", *(["--dry-run"] if dry_run else [])]
        _show(cold(session_, *words)["compacted"], dry_run=dry_run, as_json=as_json)
        return
    jobs.run(
        session_,
        "archive",
        dry_run=dry_run,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )
    if not dry_run and not estimate:
        found = cold(session_)["cold"]
        counts = ", ".join(f"{count} {state}" for state, count in found["memories"].items())
        output.note(f"cold: {counts or 'nothing'} in {found['path']}")


def cold(session_: Session, *words: str) -> dict[str, Any]:
    """Have the files below `cold/` written by a process of its own; return what it says."""
    settings = session_.settings()
    name = session.chosen(settings).name
    child = processes.start_job(settings, "cold", "--tenant", name, *words, stdout=subprocess.PIPE)
    said, _ = child.communicate()
    if child.returncode:
        sys.exit(child.returncode)
    told: dict[str, Any] = msgspec.json.decode(said)
    return told


def _show(done: dict[str, Any], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.emit(done)
        return
    size = f"{done['events']:,} receipts, {done['bytes']:,} bytes"
    if not done["events"]:
        output.say("nothing to move: no receipt is over 90 days old, or too few are")
    elif dry_run:
        output.say(f"{size} would leave the log's file")
    else:
        output.say(f"{size}, moved to {', '.join(done['segments'])}")
        output.say(f"the log's file: {done['bytes_before']:,} -> {done['bytes_after']:,} bytes")
        if not done["is_settled"]:
            output.note("note: the log was in use; its file will shrink next time")

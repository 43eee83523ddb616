"""`mnemolog ingest`: batches that are durable at once and recorded soon; and their outcomes."""

import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from store.home.config import Settings
from store.home.errors import LogError, QueueFull
from store.home.instants import isoformat
from store.ingest.queue_file import STATES, job_fields
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from store.ingest.job_queue import Queue
    from store.ingest.queue_file import Job
    from store.log.commands import Draft

A_JOB = 1_000  # drafts of a file that become one job
LOOK_S = 0.1  # between looks at a job that another process records
_REASONS_SHOWN = 5


class _OrFile(click.Group):
    """A group of commands; any other word is a file: `mnemolog ingest memories.jsonl`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        words = args if args[0] in self.commands else ["add", *args]
        return super().resolve_command(ctx, words)


@click.group(
    cls=_OrFile,
    invoke_without_command=True,
    subcommand_metavar="[FILE|-] [COMMAND] [ARGS]...",
    epilog=output.example("mnemolog ingest memories.jsonl", "mnemolog ingest list --state dead"),
)
@output.json_option
@click.pass_context
def ingest(context: click.Context, as_json: bool) -> None:
    """Accept batches and record each memory exactly once. A crash does not change that.

    Without arguments, list the accepted batches. A batch that fails is retried; after five attempts
    it is dead until `requeue`.
    """
    if context.invoked_subcommand is None:
        _list(context.obj, None, 20, as_json=as_json)


@ingest.command(epilog=output.example("mnemolog ingest add memories.jsonl --project acme/web"))
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@click.option("--project", type=arguments.NEW_PROJECT, help="The project of lines without one.")
@output.json_option
@click.pass_obj
def add(env: Environment, /, file: Path, project: str | None, as_json: bool) -> None:
    """Accept JSON Lines, one draft of a memory per line, and record them; `-` is standard input.

    A running server helps with the recording. Adding the same file again adds nothing. An export
    with links, ratings or states is refused: `mnemolog import jsonl` keeps those.
    """
    from serve.cli.transfer import standard_input
    from store.importers.jsonl import drafts

    settings = env.settings()
    source = standard_input() if str(file) == "-" else file
    present = environment.presence()
    with environment.open_or_make(settings) as log:
        queue = _queue(settings)
        remaining = map(present.limit, drafts(source, project=project, alone=True))
        jobs = []
        while part := list(islice(remaining, A_JOB)):
            jobs.append(_accept(queue, log, part))
        _work_off(queue, log, jobs)
        _tell(queue, jobs, as_json=as_json)


@ingest.command("list", epilog=output.example("mnemolog ingest list --state dead"))
@click.option("--state", type=arguments.Choice(STATES), help="Only in this state.")
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="The maximum number."
)
@output.json_option
@click.pass_obj
def list_(env: Environment, /, state: str | None, limit: int, as_json: bool) -> None:
    """List the accepted batches, newest first."""
    _list(env, state, limit, as_json=as_json)


@ingest.command(epilog=output.example("mnemolog ingest show 01KA2B3C4D5E6F7G8H9J0KMNPQ"))
@click.argument("job")
@output.json_option
@click.pass_obj
def show(env: Environment, /, job: str, as_json: bool) -> None:
    """Show the result of a job: its memories, and what was refused and why."""
    queue = _queue(env.settings())
    batch, outcome = queue.get(job), queue.outcome(job)
    if as_json:
        because = [{"item": refused.item, "reason": refused.reason} for refused in outcome.refused]
        output.emit(job_fields(batch) | {"ids": outcome.ids, "because": because})
        return
    output.say(f"{batch.id}  {_progress_line(batch)}")
    output.say(f"accepted {isoformat(batch.at)}, {batch.attempts} attempts")
    if batch.error:
        output.say(output.clean(f"error    {batch.error}"))
    for refused in outcome.refused:
        output.say(output.clean(f"refused  item {refused.item}: {refused.reason}"))


@ingest.command(epilog=output.example("mnemolog ingest requeue 01KA2B3C4D5E6F7G8H9J0KMNPQ"))
@click.argument("job")
@output.json_option
@click.pass_obj
def requeue(env: Environment, /, job: str, as_json: bool) -> None:
    """Retry a dead job now."""
    settings = env.settings()
    with environment.open_log(settings) as log:
        queue = _queue(settings)
        again = queue.requeue(job, environment.now())
        _work_off(queue, log, [again])
        _tell(queue, [again], as_json=as_json)


def _queue(settings: Settings) -> "Queue":
    from store.ingest.job_queue import Queue

    return Queue(environment.current_tenant(settings).ingest)


def _accept(queue: "Queue", log: EventLog, drafts: "list[Draft]") -> "Job":
    """Return the accepted job of a part; if the queue is full, record pending jobs first."""
    from store.home.instants import new_id
    from store.ingest import batch

    now = environment.now()
    id_ = new_id(now)
    waiting = batch.make_batch(id_, now, drafts)
    while True:
        try:
            return queue.accept(id_, now, waiting)[0]
        except QueueFull:
            if not _work(queue, log):
                raise


def _work_off(queue: "Queue", log: EventLog, jobs: "list[Job]") -> None:
    """Record jobs until none of `jobs` can proceed now; other due jobs are recorded too."""
    while any(_may_go_on(queue.get(job.id)) for job in jobs):
        if not _work(queue, log):
            time.sleep(LOOK_S)  # another process has it


def _may_go_on(job: "Job") -> bool:
    return job.state == "running" or (job.state == "queued" and job.next_at <= environment.now())


def _work(queue: "Queue", log: EventLog) -> bool:
    """Record one job; return True if there was one. Raise LogError if the log cannot be written."""
    import random

    from store.ingest.job_queue import is_gone, new_owner, record_lease

    queue.release_of(is_gone)
    lease = queue.lease(new_owner(), environment.now())
    if lease is None:
        return False
    try:
        record_lease(queue, log, lease, environment.now)
    except LogError as error:
        queue.fail(lease, f"{type(error).__name__}: {error}", environment.now(), random.random())
        raise
    return True


def _tell(queue: "Queue", jobs: "list[Job]", *, as_json: bool) -> None:
    jobs = [queue.get(job.id) for job in jobs]
    recorded = sum(job.items - job.refused for job in jobs if job.state == "done")
    refused = sum(job.refused for job in jobs)
    if as_json:
        fields = list(map(job_fields, jobs))
        output.emit({"recorded": recorded, "refused": refused, "jobs": fields})
        return
    output.say(f"{recorded} recorded, {refused} refused")
    reasons = (item.reason for job in jobs for item in queue.outcome(job.id).refused)
    for reason in islice(reasons, _REASONS_SHOWN):
        output.note(output.clean(f"refused: {reason}"))
    for job in jobs:
        if not job.is_over:
            output.note(f"note: {job.id} is waiting for a retry: {output.clean(job.error or '')}")


def _list(env: Environment, state: Any, limit: int, *, as_json: bool) -> None:
    jobs = _queue(env.settings()).list_jobs(state, limit=limit)
    if as_json:
        output.emit({"jobs": [job_fields(job) for job in jobs]})
    elif not jobs:
        output.say(f"no {state} jobs" if state else "nothing has been accepted")
    else:
        rows = [
            (job.id, isoformat(job.at), _progress_line(job), output.one_line(job.error or "", 200))
            for job in jobs
        ]
        output.table(("job", "accepted", "state", "error"), rows)


def _progress_line(job: "Job") -> str:
    refused = f", {job.refused} refused" if job.refused else ""
    return f"{job.state} {job.done}/{job.items}{refused}"

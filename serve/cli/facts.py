"""`mnemolog facts`: what turns and notes state becomes facts of entities; and what is known."""

from typing import Any

import click

from serve import moments
from serve.cli import jobs, output, session
from serve.cli.session import Session
from store.home.projects import checked_project
from store.log import EventLog


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog facts --dry-run", "mnemolog facts list api-server"),
)
@jobs.options
@click.pass_context
def facts(
    context: click.Context,
    /,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Extract facts from turns and notes. Examples are "the API runs on port 8080" and "billing is
    owned by Priya".

    Only plain assertions count, and each turn is read once. A new value replaces the older one, but
    never one that you recorded by hand.
    """
    if context.invoked_subcommand is None:
        jobs.run(
            context.obj,
            "facts",
            dry_run=dry_run,
            project=project,
            no_model=no_model,
            estimate=estimate,
            as_json=as_json,
        )


@facts.command("list", epilog=output.example("mnemolog facts list deploy --as-of 2026-03-01"))
@click.argument("entity", required=False)
@click.option("--project", help="Only this project's and those without one; default: all.")
@click.option("--as-of", help="As of then: 2026-11-20, 7d, or @1234 of the log.")
@click.option("--all", "is_all", is_flag=True, help="Include values that have ended.")
@output.json_option
@click.pass_obj
def list_(
    session_: Session,
    /,
    entity: str | None,
    project: str | None,
    as_of: str | None,
    is_all: bool,
    as_json: bool,
) -> None:
    """List the facts about an entity, or all facts: since when, until when, and their source."""
    if as_of is not None and is_all:
        raise click.UsageError("--as-of lists what was true then: omit --all")
    if project is not None:
        checked_project(project)
    settings = session_.settings()
    now = session.now()
    then = moments.point(as_of, now) if as_of else None
    with session.open_log(settings) as log:
        from serve.reader.reader import Reader
        from serve.recall.request import moment_of
        from serve.summaries import facts as known_facts
        from store.embedders.embedder import make_embedder

        model = make_embedder(settings.choices.embedder, settings.home)
        reader = Reader(session.chosen(settings), log, model)
        at = moment_of(reader, then)
        found = reader.answered(lambda view: known_facts.known(view, project))
        wanted = known_facts.held(found, None if is_all else now if at is None else at, entity)
        shown = [known_facts.shown(one) for one in wanted]
        if as_json:
            output.emit({"facts": shown})
        else:
            _show(log, shown, entity)


def _show(log: EventLog, found: list[dict[str, Any]], entity: str | None) -> None:
    if not found:
        of = f" of {output.one_line(entity)}" if entity else ""
        output.say(f"no known facts{of}")
        return
    columns = ("entity", "relation", "value", "since", "until", "source", "said by", "text")
    rows = [
        (
            output.one_line(one["entity"], 30),
            output.one_line(one["relation"], 20),
            output.one_line(one["value"], 40),
            one["since"][:10],
            (one["until"] or "now")[:10],
            output.short_id(log, (one["source_ids"] or [one["id"]])[0]),
            output.one_line(one["said_by"], 20),
            output.one_line(one["text"], 200),
        )
        for one in found
    ]
    output.table(columns, rows)

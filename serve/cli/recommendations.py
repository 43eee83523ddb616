"""`mnemolog recommendations`: changes of single memories that wait for a decision."""

from typing import Any

import click
import msgspec

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.cli.plans import SHORT
from store.home.instants import isoformat
from store.home.projects import holds_in
from store.log.event_log import EventLog
from store.plans.recommendations import Recommendation


@click.group(
    invoke_without_command=True,
    epilog=output.example(
        "mnemolog recommendations --refresh", "mnemolog recommendations accept 7HQ2"
    ),
)
@click.option("--refresh", is_flag=True, help="Search for new ones first.")
@click.option("--dry-run", is_flag=True, help="With --refresh: only show new ones.")
@arguments.only_project_option
@click.option("--all", "is_all", is_flag=True, help="Include answered and outdated ones.")
@output.json_option
@click.pass_context
def recommendations(
    context: click.Context,
    /,
    refresh: bool,
    dry_run: bool,
    project: str | None,
    is_all: bool,
    as_json: bool,
) -> None:
    """List suggested changes that wait for your decision. A suggestion archives, merges, promotes
    or rephrases memories.

    Nothing changes without your decision, and what you reject is never proposed again.
    """
    if context.invoked_subcommand is not None:
        return
    if dry_run and not refresh:
        raise click.UsageError("--dry-run requires --refresh")
    new = _refresh(context.obj, project, dry_run=dry_run) if refresh else []
    if dry_run:
        _print_new(new, as_json=as_json)
        return
    from store.plans import recommendations as kept

    with environment.open_log(context.obj.settings()) as log:
        rows = [
            recommendation_fields(recommendation)
            for recommendation in kept.every(log)
            if (is_all or recommendation.state == "pending")
            and holds_in(recommendation.project, project)
        ]
        if as_json:
            output.emit(
                {"recommendations": rows, "new": [recommendation["id"] for recommendation in new]}
            )
        else:
            _print_recommendations(log, rows)


@recommendations.command("show", epilog=output.example("mnemolog recommendations show 7HQ2"))
@click.argument("id_", metavar="ID", type=arguments.PROPOSAL)
@output.json_option
@click.pass_obj
def show_recommendation(env: Environment, /, id_: str, as_json: bool) -> None:
    """Show what a recommendation would do, as a diff. You can shorten its id."""
    from serve.reports.proposal_rendering import step_lines
    from store.plans import recommendations as kept

    with environment.open_log(env.settings()) as log:
        recommendation = kept.find(log, id_)
    if as_json:
        output.emit(recommendation_fields(recommendation))
        return
    because = output.one_line(recommendation.because, 160)
    output.say(f"{recommendation.id}  {recommendation.what}  {recommendation.state}: {because}")
    for line in step_lines(recommendation.change.steps):
        output.say(output.clean(line))


@recommendations.command("accept", epilog=output.example("mnemolog recommendations accept 7HQ2"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.PROPOSAL)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
@output.json_option
@click.pass_obj
def accept_recommendations(
    env: Environment, /, ids: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Accept: the change is applied as a plan, which `mnemolog plans undo` reverts. It needs a
    person.
    """
    from store.plans import proposals
    from store.plans import recommendations as kept

    if not dry_run:
        environment.presence().require_person("accepting a recommendation")
    with environment.open_log(env.settings()) as log:
        wanted = [kept.find(log, id_) for id_ in ids]
        if dry_run:
            rows = list(map(recommendation_fields, wanted))
            _print_recommendations(log, rows, as_json=as_json)
            return
        accepted = [proposals.accept(log, other.id, environment.now()) for other in wanted]
    if as_json:
        ids_and_plans = [{"id": proposal.id, "plan": proposal.plan} for proposal in accepted]
        output.emit({"accepted": ids_and_plans})
        return
    for recommendation, proposal in zip(wanted, accepted, strict=True):
        steps = f"{len(proposal.made)} steps"
        output.say(f"accepted {recommendation.id[:SHORT]}: {recommendation.what}, {steps}")
        output.note(f"to undo it: `mnemolog plans undo {str(proposal.plan)[:SHORT]}`")


@recommendations.command(
    "reject", epilog=output.example('mnemolog recommendations reject 7HQ2 --reason "rare"')
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=arguments.PROPOSAL)
@arguments.reason_option
@output.json_option
@click.pass_obj
def reject_recommendations(
    env: Environment, /, ids: tuple[str, ...], reason: str | None, as_json: bool
) -> None:
    """Reject: the same is not proposed again."""
    from store.plans import proposals
    from store.plans import recommendations as kept

    with environment.open_log(env.settings()) as log:
        wanted = [kept.find(log, id_).id for id_ in ids]
        for id_ in wanted:
            proposals.reject(log, id_, environment.now(), reason)
    if as_json:
        output.emit({"rejected": wanted})
    else:
        output.say(f"rejected {', '.join(id_[:SHORT] for id_ in wanted)}")


def _refresh(env: Environment, project: str | None, *, dry_run: bool) -> list[dict[str, Any]]:
    """Find new recommendations, in a process of its own; return them."""
    from serve.cli.processes import read_job

    words = ["--project", project] if project else []
    words += ["--dry-run"] if dry_run else []
    new: list[dict[str, Any]] = read_job(env.settings(), "recommend", *words)["recommendations"]
    return new


def _print_new(new: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        output.emit({"new": new})
        return
    for row in new:
        why = output.one_line(row["because"], 120)
        output.say(f"{row['what']}  {', '.join(row['source_ids'])}: {why}")
    if not new:
        output.say("no new recommendations")


def _print_recommendations(
    log: EventLog, rows: list[dict[str, Any]], *, as_json: bool = False
) -> None:
    if as_json:
        output.emit({"recommendations": rows})
        return
    if not rows:
        output.say("no recommendations: `mnemolog recommendations --refresh` searches for them")
        return
    columns = ["id", "change", "memory", "because", "text"]
    if any(row["state"] != "pending" for row in rows):
        columns.insert(2, "state")
    cells = [
        {
            "id": row["id"][:SHORT],
            "change": row["what"],
            "state": row["state"],
            "memory": output.short_id(log, row["source_ids"][0]),
            "because": output.one_line(row["because"], 80),
            "text": output.one_line(_subject_text(row), 200),
        }
        for row in rows
    ]
    output.table(columns, [[row[name] for name in columns] for row in cells])
    output.note("next: `mnemolog recommendations show ID`, then `accept ID` or `reject ID`")


def _subject_text(row: dict[str, Any]) -> str:
    """Return the text a change is about: that of the memory to be removed or changed."""
    texts = (step.get("before", {}).get("content") for step in row["steps"])
    return next((text for text in texts if text), "")


def recommendation_fields(recommendation: Recommendation) -> dict[str, Any]:
    """Return a recommendation's JSON fields; `plan` is null unless it was accepted."""
    return {
        "id": recommendation.id,
        "what": recommendation.what,
        "state": recommendation.state,
        "at": isoformat(recommendation.at),
        "project": recommendation.project,
        "because": recommendation.because,
        "source_ids": list(recommendation.source_ids),
        "steps": msgspec.to_builtins(recommendation.change.steps),
        "plan": recommendation.plan,
    }

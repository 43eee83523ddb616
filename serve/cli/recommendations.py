"""`mnemolog recommendations`: changes that wait for your yes or no."""

import subprocess
import sys
from typing import Any

import click
import msgspec

from serve.cli import output, session
from serve.cli.session import Session
from store.home.projects import checked_project
from store.log import EventLog

_SHORT = 6  # letters of an id that are shown; two of a thousand begin alike


@click.group(
    invoke_without_command=True,
    epilog=output.example(
        "mnemolog recommendations --refresh", "mnemolog recommendations accept 7HQ2"
    ),
)
@click.option("--refresh", is_flag=True, help="Search for new ones first.")
@click.option("--dry-run", is_flag=True, help="With --refresh: only show new ones.")
@click.option("--project", help="Only this project's and those without one; default: all.")
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
    if project is not None:
        checked_project(project)
    new = _refreshed(context.obj, project, dry_run=dry_run) if refresh else []
    if dry_run:
        _show_new(new, as_json=as_json)
        return
    from serve.summaries.recommended import shown
    from store.plans import recommendations as kept

    with session.open_log(context.obj.settings()) as log:
        found = [
            shown(one)
            for one in kept.every(log)
            if (is_all or one.state == "pending") and project in (None, one.project or project)
        ]
        if as_json:
            output.emit({"recommendations": found, "new": [one["id"] for one in new]})
        else:
            _show(log, found)


@recommendations.command(epilog=output.example("mnemolog recommendations show 7HQ2"))
@click.argument("id_", metavar="ID")
@output.json_option
@click.pass_obj
def show(session_: Session, /, id_: str, as_json: bool) -> None:
    """Show what a recommendation would do, as a diff. You can shorten its id."""
    from serve.summaries.plan_text import steps_of
    from serve.summaries.recommended import shown
    from store.plans import recommendations as kept

    with session.open_log(session_.settings()) as log:
        one = kept.find(log, id_)
    if as_json:
        output.emit(shown(one))
        return
    output.say(f"{one.id}  {one.what}  {one.state}: {output.one_line(one.because, 160)}")
    for line in steps_of(one.change.steps):
        output.say(output.clean(line))


@recommendations.command(epilog=output.example("mnemolog recommendations accept 7HQ2"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
@output.json_option
@click.pass_obj
def accept(session_: Session, /, ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Accept: the change is applied as a plan, which `mnemolog plans undo` reverts."""
    from serve.summaries.recommended import shown
    from store.plans import recommendations as kept

    with session.open_log(session_.settings()) as log:
        wanted = [kept.find(log, id_) for id_ in ids]
        if dry_run:
            _show(log, [shown(one) for one in wanted], as_json=as_json)
            return
        done = [kept.accept(log, one.id, session.now()) for one in wanted]
    if as_json:
        pairs = zip(wanted, done, strict=True)
        output.emit({"accepted": [{"id": one.id, "plan": plan.id} for one, plan in pairs]})
        return
    for one, plan in zip(wanted, done, strict=True):
        output.say(f"accepted {one.id[:_SHORT]}: {one.what}, {len(plan.body.steps)} steps")
        output.note(f"to undo it: `mnemolog plans undo {plan.id[:_SHORT]}`")


@recommendations.command(
    epilog=output.example('mnemolog recommendations reject 7HQ2 --reason "rare"')
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", help="The reason, kept in the log.")
@output.json_option
@click.pass_obj
def reject(session_: Session, /, ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Reject: the same is not proposed again."""
    from store.plans import recommendations as kept

    with session.open_log(session_.settings()) as log:
        wanted = [kept.find(log, id_).id for id_ in ids]
        for id_ in wanted:
            kept.reject(log, id_, session.now(), reason)
    if as_json:
        output.emit({"rejected": wanted})
    else:
        output.say(f"rejected {', '.join(id_[:_SHORT] for id_ in wanted)}")


def _refreshed(session_: Session, project: str | None, *, dry_run: bool) -> list[dict[str, Any]]:
    """Look for new ones, in a process of its own; return them."""
    from serve.server import processes

    settings = session_.settings()
    words = ["--tenant", session.chosen(settings).name]
    words += ["--project", project] if project else []
    words += ["--dry-run"] if dry_run else []
    child = processes.start_job(settings, "recommend", *words, stdout=subprocess.PIPE)
    said, _ = child.communicate()
    if child.returncode:
        sys.exit(child.returncode)
    found: list[dict[str, Any]] = msgspec.json.decode(said)["recommendations"]
    return found


def _show_new(new: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        output.emit({"new": new})
        return
    for one in new:
        why = output.one_line(one["because"], 120)
        output.say(f"{one['what']}  {', '.join(one['source_ids'])}: {why}")
    if not new:
        output.say("no new recommendations")


def _show(log: EventLog, found: list[dict[str, Any]], *, as_json: bool = False) -> None:
    if as_json:
        output.emit({"recommendations": found})
        return
    if not found:
        output.say("no recommendations: `mnemolog recommendations --refresh` searches for them")
        return
    rows = [
        (
            one["id"][:_SHORT],
            one["what"],
            one["state"],
            one["at"][:10],
            output.short_id(log, one["source_ids"][0]),
            output.one_line(one["because"], 80),
            output.one_line(_text(one), 200),
        )
        for one in found
    ]
    output.table(("id", "change", "state", "date", "memory", "because", "text"), rows)
    output.note("next: `mnemolog recommendations show ID`, then `accept ID` or `reject ID`")


def _text(one: dict[str, Any]) -> str:
    """Return the words a change is about: those of the memory that goes, or is changed."""
    said = (step.get("before", {}).get("content") for step in one["steps"])
    return next((words for words in said if words), "")

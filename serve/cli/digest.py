"""`mnemolog digest`, `brief` and `goals`: what happened, what a session is told, what is open."""

from typing import Any

import click

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from store.home.instants import micros, moment
from store.log import EventLog

_WIDTH = 90
_GROUPS = {"decided": "Decided", "learned": "Learned", "done": "Done"}


@click.command(epilog=output.example("mnemolog digest --since yesterday"))
@click.option("--since", default="7d", help="Start: yesterday, 2026-11-20, or 7d; default: 7d.")
@click.option("--until", help="End: 2026-11-21, or 1d; default: now.")
@click.option("--project", help="The project; default: that of the working directory.")
@click.option("--all-projects", is_flag=True, help="All projects.")
@output.json_option
@click.pass_obj
def digest(
    session_: Session,
    /,
    since: str,
    until: str | None,
    project: str | None,
    all_projects: bool,
    as_json: bool,
) -> None:
    """List by day what was decided, learned and done. Also list what is open now."""
    settings, at = session_.settings(), session.now()
    belongs = session.project(settings, project, none=all_projects)
    start = micros(moments.moment(since, at))
    end = micros(moments.moment(until, at)) if until else at
    with session.open_log(settings) as log:
        from serve.reader.filters import Filter
        from serve.reader.reader import Reader
        from serve.summaries import digest as digests
        from store.embedders.embedder import make_embedder

        asked = Filter(at, belongs, since=start, until=end)
        model = make_embedder(settings.choices.embedder)
        with Reader(session.chosen(settings), log, model).view() as view:
            found = digests.shown(digests.digest(view, log, asked), at)
        if as_json:
            output.emit(found)
        else:
            _show_digest(log, found)


def _show_digest(log: EventLog, found: dict[str, Any]) -> None:
    if not found["days"] and not found["open"]:
        output.say("nothing happened")
    for day in found["days"]:
        output.say(day["day"])
        for group, title in _GROUPS.items():
            for one in day.get(group, ()):
                output.say(_line(log, title, one["id"], one["text"]))
        for line in _work(day):
            output.say(f"  {line}")
    if found["open"]:
        output.say("Open")
    for goal in found["open"]:
        output.say(_line(log, "", goal["id"], _goal(goal)))


def _line(log: EventLog, title: str, id_: str, text: str) -> str:
    return f"  {title:8} {output.short_id(log, id_)}  {output.one_line(text, _WIDTH)}"


def _work(day: dict[str, Any]) -> list[str]:
    """Return the lines on what agents did that day, and on what is not shown."""
    lines = [f"Asked    {output.one_line(one, _WIDTH)}" for one in day.get("asked", ())]
    if "edited" in day:
        files = (f"{one['file']} ({one['times']})" for one in day["edited"])
        lines.append(f"Edited   {output.clean(', '.join(files))}")
    for one in day.get("ran", ()):
        lines.append(f"Ran      {one['for']}: {one['passed']} passed, {one['failed']} failed")
    for one in day.get("failing", ()):
        lines.append(f"Failing  {one['for']}: {output.one_line(one['command'] or '', _WIDTH)}")
    rest = day.get("others", 0) + day.get("more", 0)
    return [*lines, f"{rest} more memories: mnemolog timeline"] if rest else lines


@click.command(epilog=output.example("mnemolog brief"))
@click.option("--project", help="The project; default: that of the working directory.")
@output.json_option
@click.pass_obj
def brief(session_: Session, /, project: str | None, as_json: bool) -> None:
    """Show the brief that a new session here starts with."""
    settings = session_.settings()
    belongs = session.project(settings, project, none=False)
    with session.open_log(settings) as log:
        from serve.reader.filters import Filter
        from serve.reader.reader import Reader
        from serve.recall.context_block import rendered
        from serve.summaries import brief as briefs
        from store.embedders.embedder import make_embedder

        asked = Filter(session.now(), belongs or "")
        model = make_embedder(settings.choices.embedder)
        with Reader(session.chosen(settings), log, model).view() as view:
            said = rendered(briefs.brief(view, asked), briefs.BYTES)
        if as_json:
            output.emit({"text": said.text, "notes": said.notes})
        else:
            output.say(said.text or "nothing: this project has no rule, open goal or decision")


@click.command(epilog=output.example("mnemolog goals"))
@click.option("--project", help="The project; default: that of the working directory.")
@click.option("--all-projects", is_flag=True, help="All projects.")
@output.json_option
@click.pass_obj
def goals(session_: Session, /, project: str | None, all_projects: bool, as_json: bool) -> None:
    """List open goals and chains of milestones. The goal that is due next comes first."""
    settings, at = session_.settings(), session.now()
    belongs = session.project(settings, project, none=all_projects)
    with session.open_log(settings) as log:
        from serve.reader.filters import Filter
        from serve.reader.reader import Reader
        from serve.summaries import goals as wanted
        from serve.summaries.overview import item
        from store.embedders.embedder import make_embedder

        asked = Filter(at, belongs)
        model = make_embedder(settings.choices.embedder)
        with Reader(session.chosen(settings), log, model).view() as view:
            open_ = wanted.shown(wanted.open_goals(view, asked), moment(at).date())
            chains = wanted.chains(view, asked)
        if as_json:
            named = {one.name: [item(memory) for memory in one.milestones] for one in chains}
            output.emit({"goals": open_, "chains": named})
            return
        if not open_ and not chains:
            output.say("no open goals: `mnemolog record --kind goal` creates one")
        for goal in open_:
            output.say(_line(log, goal["status"], goal["id"], _goal(goal)))
        for chain in chains:
            output.say(f"\n{output.clean(chain.name)}")
            for one in chain.milestones:
                day = moment(one.created_at).date().isoformat()
                output.say(_line(log, day, one.id, one.content))


def _goal(goal: dict[str, Any]) -> str:
    """Return what a goal says, after how far it is and when it is due."""
    marks = []
    if "progress" in goal:
        marks.append(f"{goal['progress']:.0%}")
    if "due" in goal:
        marks.append(f"{'overdue since' if 'overdue' in goal else 'due'} {goal['due']}")
    return f"[{', '.join(marks)}] {goal['text']}" if marks else str(goal["text"])

"""Commands that sum up: `overview` and `timeline` of a topic, `digest`, `brief` and `goals`."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from serve import formatting
from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from store.home.instants import micros, moment
from store.home.projects import branch_of
from store.log.event_log import EventLog
from store.text.excerpt import plural

_WIDTH = 90
_TITLES = {
    "rules": "Rules",
    "now": "Current",
    "goals": "Open goals",
    "background": "Background",
    "timeline": "Timeline",
    "replaced": "Replaced",
}


@click.command(epilog=output.example("mnemolog overview deploys"))
@click.argument("topic", nargs=-1, required=True, metavar="TOPIC...")
@arguments.project_option
@arguments.all_projects_option
@arguments.known_at_option
@output.json_option
@click.pass_obj
def overview(
    env: Environment,
    /,
    topic: tuple[str, ...],
    project: str | None,
    all_projects: bool,
    known_at: str | None,
    as_json: bool,
) -> None:
    """Summarize a TOPIC. The summary has current facts, rules, goals, a timeline, and what was
    replaced.
    """
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=all_projects)
    with environment.open_known(settings, known_at) as (log, here):
        from serve.reader.filters import Filter
        from serve.reports import overviews

        conditions = Filter(here.now, belongs)
        question = overviews.overview_question(
            output.encodable(" ".join(topic)), conditions, here.choices
        )
        with here.reader.view() as view:
            payload = overviews.overview_payload(overviews.overview(view, question))
        if as_json:
            output.emit(payload)
        else:
            _print_overview(log, payload)


def _print_overview(log: EventLog, payload: dict[str, Any]) -> None:
    for notice in payload.get("notices", ()):
        output.note(f"note: {notice}")
    output.say(f"{output.clean(payload['topic'])}: {plural(payload['found'], 'memory')}")
    for group, title in _TITLES.items():
        if payload[group]:
            output.say(f"\n{title}")
        for item in payload[group]:
            until = f" until {item['ended_at'][:10]}" if "ended_at" in item else ""
            status = f"{item['status']}: " if "status" in item else ""
            text = output.one_line(status + item["text"], _WIDTH)
            id_ = output.short_id(log, item["id"])
            output.say(f"  {item['at'][:10]}{until}  {item['kind']:10}  {id_}  {text}")
    if payload["names"]:
        names = (f"{output.clean(name['name'])} ({name['memories']})" for name in payload["names"])
        output.say(f"\nNames\n  {', '.join(names)}")


@click.command(epilog=output.example("mnemolog timeline deploys --since 30d"))
@click.argument("topic", nargs=-1, metavar="[TOPIC]...")
@arguments.project_option
@arguments.all_projects_option
@arguments.since_option
@arguments.until_option
@click.option(
    "--limit", type=click.IntRange(1, 200), default=50, help="The maximum number; default: 50."
)
@arguments.known_at_option
@output.json_option
@click.pass_obj
def timeline(
    env: Environment,
    /,
    topic: tuple[str, ...],
    project: str | None,
    all_projects: bool,
    since: str | None,
    until: str | None,
    limit: int,
    known_at: str | None,
    as_json: bool,
) -> None:
    """List memories by day, oldest first. They are those about TOPIC, or the newest ones."""
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=all_projects)
    with environment.open_known(settings, known_at) as (log, here):
        from serve.reader.filters import Filter
        from serve.reports import overviews

        start, end = (
            micros(formatting.parse_time(text, here.now)) if text else None
            for text in (since, until)
        )
        conditions = Filter(here.now, belongs, since=start, until=end)
        words = output.encodable(" ".join(topic))
        with here.reader.view() as view:
            memories = overviews.timeline(view, words, conditions, here.choices, limit)
        items = [overviews.memory_item(memory) for memory in memories]
        if as_json:
            output.emit({"memories": items})
        else:
            _print_days(log, items)


def _print_days(log: EventLog, items: Sequence[dict[str, Any]]) -> None:
    if not items:
        output.say("no matching memories")
    for day, items_of_day in groupby(items, key=lambda item: str(item["at"][:10])):
        output.say(day)
        for item in items_of_day:
            id_ = output.short_id(log, item["id"])
            text = output.one_line(item["text"], _WIDTH)
            output.say(f"  {item['at'][11:16]}  {item['kind']:10}  {id_}  {text}")


# digest, brief, goals

_GROUPS = {"decided": "Decided", "learned": "Learned", "done": "Done"}


@click.command(epilog=output.example("mnemolog digest --since yesterday"))
@click.option("--since", default="7d", help="Start: yesterday, 2026-11-20, or 7d; default: 7d.")
@click.option("--until", help="End: 2026-11-21, or 1d; default: now.")
@arguments.project_option
@arguments.all_projects_option
@arguments.known_at_option
@output.json_option
@click.pass_obj
def digest(
    env: Environment,
    /,
    since: str,
    until: str | None,
    project: str | None,
    all_projects: bool,
    known_at: str | None,
    as_json: bool,
) -> None:
    """List by day what was decided, learned and done. Also list what is open now."""
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=all_projects)
    with environment.open_known(settings, known_at) as (log, here):
        from serve.reader.filters import Filter
        from serve.reports import overviews as digests

        start = micros(formatting.parse_time(since, here.now))
        end = micros(formatting.parse_time(until, here.now)) if until else here.now
        conditions = Filter(here.now, belongs, since=start, until=end)
        with here.reader.view() as view:
            payload = digests.digest_payload(digests.digest(view, here.log, conditions), here.now)
        if as_json:
            output.emit(payload)
        else:
            _print_digest(log, payload)


def _print_digest(log: EventLog, payload: dict[str, Any]) -> None:
    if not payload["days"] and not payload["open"]:
        output.say("nothing happened")
    for day in payload["days"]:
        output.say(day["day"])
        for group, title in _GROUPS.items():
            for item in day.get(group, ()):
                output.say(_entry_line(log, title, item["id"], item["text"]))
        for line in _work(day):
            output.say(f"  {line}")
    if payload["open"]:
        output.say("Open")
    for goal in payload["open"]:
        output.say(_entry_line(log, "", goal["id"], _goal(goal)))


def _entry_line(log: EventLog, title: str, id_: str, text: str) -> str:
    return f"  {title:8} {output.short_id(log, id_)}  {output.one_line(text, _WIDTH)}"


def _work(day: dict[str, Any]) -> list[str]:
    """Return the lines on the agents' work of a day, and on the memories not shown."""
    lines = [f"Asked    {output.one_line(prompt, _WIDTH)}" for prompt in day.get("asked", ())]
    if "edited" in day:
        files = (f"{edited['file']} ({edited['times']})" for edited in day["edited"])
        lines.append(f"Edited   {output.clean(', '.join(files))}")
    for runs in day.get("ran", ()):
        lines.append(f"Ran      {runs['for']}: {runs['passed']} passed, {runs['failed']} failed")
    for failing in day.get("failing", ()):
        command = output.one_line(failing["command"] or "", _WIDTH)
        lines.append(f"Failing  {failing['for']}: {command}")
    rest = day.get("others", 0) + day.get("more", 0)
    return [*lines, f"{rest} more memories: mnemolog timeline"] if rest else lines


@click.command(epilog=output.example("mnemolog brief", "mnemolog brief --write CLAUDE.md"))
@arguments.project_option
@click.option(
    "--write",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write the rules, decisions and commands that hold into FILE (CLAUDE.md); -: print them.",
)
@arguments.known_at_option
@output.json_option
@click.pass_obj
def brief(
    env: Environment,
    /,
    project: str | None,
    file: Path | None,
    known_at: str | None,
    as_json: bool,
) -> None:
    """Show the brief that a new session here starts with.

    With --write, what was laid down for the project goes into a file that agents read, as a block
    between two marks, each line with who said it and when. The next time the block is replaced; all
    else in the file stays.
    """
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=False)
    with environment.open_known(settings, known_at) as (log, here):
        from serve.hooks import brief as briefs
        from serve.reader.filters import Filter
        from serve.recall.context_block import render_parts
        from serve.reports import instructions
        from store.shared.tree import SharedTrees

        trees, cwd = SharedTrees(settings.home), str(Path.cwd())
        shared = trees.scopes(log, cwd, here.now) if known_at is None and project is None else ()
        conditions = Filter(here.now, belongs or "", shared=shared)
        with here.reader.view() as view:
            if file is not None:
                _write_block(file, instructions.instructions(view, conditions), as_json=as_json)
                return
            branch = branch_of(cwd) if project is None else None
            block = render_parts(briefs.brief(view, conditions, (), branch), briefs.BYTES)
        if as_json:
            output.emit({"text": block.text, "notes": block.notes})
        else:
            output.say(block.text or "nothing: this project has no rule, open goal or decision")


def _write_block(file: Path, block: str, *, as_json: bool) -> None:
    from serve.reports import instructions

    is_printed = str(file) == "-"
    if not is_printed:
        instructions.write(file, block)
    if as_json:
        output.emit({"file": None if is_printed else str(file), "text": block})
    elif is_printed:
        output.say(block or "nothing was laid down here")
    else:
        output.say(f"wrote what holds here into {output.clean(str(file))}")


@click.command(epilog=output.example("mnemolog goals"))
@arguments.project_option
@arguments.all_projects_option
@arguments.known_at_option
@output.json_option
@click.pass_obj
def goals(
    env: Environment,
    /,
    project: str | None,
    all_projects: bool,
    known_at: str | None,
    as_json: bool,
) -> None:
    """List open goals and chains of milestones. The goal that is due next comes first."""
    settings = env.settings()
    belongs = environment.project_or_default(settings, project, none=all_projects)
    with environment.open_known(settings, known_at) as (log, here):
        from serve.reader import goals as wanted
        from serve.reader.filters import Filter
        from serve.reader.memory_json import shown_text
        from serve.reports.overviews import memory_item

        conditions = Filter(here.now, belongs)
        with here.reader.view() as view:
            open_ = wanted.goals_payload(
                wanted.open_goals(view, conditions), moment(here.now).date()
            )
            chains = wanted.milestone_chains(view, conditions)
        if as_json:
            by_name = {chain.name: list(map(memory_item, chain.milestones)) for chain in chains}
            output.emit({"goals": open_, "chains": by_name})
            return
        if not open_ and not chains:
            output.say("no open goals: `mnemolog record --kind goal` creates one")
        for goal in open_:
            output.say(_entry_line(log, goal["status"], goal["id"], _goal(goal)))
        for chain in chains:
            output.say(f"\n{output.clean(chain.name)}")
            for memory in chain.milestones:
                day = moment(memory.created_at).date().isoformat()
                output.say(_entry_line(log, day, memory.id, shown_text(memory)))


def _goal(goal: dict[str, Any]) -> str:
    """Return a goal's text, after its progress and its due date."""
    marks = []
    if "progress" in goal:
        marks.append(f"{goal['progress']:.0%}")
    if "due" in goal:
        marks.append(f"{'overdue since' if 'overdue' in goal else 'due'} {goal['due']}")
    return f"[{', '.join(marks)}] {goal['text']}" if marks else str(goal["text"])

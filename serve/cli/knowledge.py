"""Commands for what jobs have learned: `facts`, `routes` and `conflicts`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from serve import formatting
from serve.cli import arguments, environment, learn, output
from serve.cli.environment import Environment
from store.home.instants import isoformat
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from serve.evaluation.off_policy import Worth
    from serve.reader.view import View
    from store.derived.routing import Policy, Routes


facts = learn.job_group("facts")


@facts.command("list", epilog=output.example("mnemolog facts list deploy --as-of 2026-03-01"))
@click.argument("entity", required=False)
@arguments.only_project_option
@arguments.as_of_option
@arguments.known_at_option
@click.option("--all", "is_all", is_flag=True, help="Include values that have ended.")
@output.json_option
@click.pass_obj
def list_facts(
    env: Environment,
    /,
    entity: str | None,
    project: str | None,
    as_of: str | None,
    known_at: str | None,
    is_all: bool,
    as_json: bool,
) -> None:
    """List the facts about an entity, or all facts: since when, until when, and their source."""
    if as_of is not None and is_all:
        raise click.UsageError("--as-of lists what was true then: omit --all")
    settings = env.settings()
    with environment.open_known(settings, known_at) as (log, here):
        from serve.recall.request import moment_of
        from serve.reports import conflicts as conflict_report

        then = formatting.parse_time_point(as_of, here.now) if as_of else None
        at = moment_of(here.reader, then)
        found = here.reader.answer(lambda view: conflict_report.all_facts(view, project))
        moment = None if is_all else here.now if at is None else at
        wanted = conflict_report.facts_held_at(found, moment, entity)
        shown = [conflict_report.fact_payload(one) for one in wanted]
        if as_json:
            output.emit({"facts": shown})
        else:
            _print_facts(log, shown, entity)


def _print_facts(log: EventLog, found: list[dict[str, Any]], entity: str | None) -> None:
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


# routes


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog routes", "mnemolog routes learn --dry-run"),
)
@output.json_option
@click.pass_context
def routes(context: click.Context, as_json: bool) -> None:
    """Show how recalls are routed. It lists the action of each level, by the kind of work.

    For each action it shows how often it was chosen and rated, its Q, and the gain in mean reward
    that the log predicts for serving it, with a 95 % interval, as of the last build. Set
    `explore = 0.15` in config.toml to try other actions; otherwise nothing is learned.
    """
    if context.invoked_subcommand is not None:
        return

    settings = context.obj.settings()
    with environment.open_known(settings) as (_, here), here.reader.view() as view:
        payload = routes_payload(view)
    if as_json:
        output.emit(payload | {"explore": settings.choices.explore})
    else:
        _print_routes(payload, settings.choices.explore)


routes.add_command(learn.JOB_COMMANDS["learn"])


def _print_routes(payload: dict[str, Any], explore: float) -> None:
    levels = list(next(iter(payload["policy"].values())))
    output.table(
        ("at", *levels),
        [(state, *(of[level] for level in levels)) for state, of in payload["policy"].items()],
    )
    if payload["routes"]:
        output.say()
        output.table(
            ("at", "level", "action", "", "recalls", "rated", "Q", "gain if served"),
            [_route_row(route) for route in payload["routes"]],
        )
    if payload["history"]:
        output.say()
        output.table(
            ("served since", "recalls", "reward", "before", "gain at least"),
            [
                (
                    one["at"],
                    str(one["recalls"]),
                    f"{one['value']:+.3f}",
                    f"{one['served']:+.3f}",
                    f"{one['low']:+.3f}",
                )
                for one in payload["history"]
            ],
        )
    if not explore:
        output.note("the router is not learning: set `explore = 0.15` in config.toml")
    elif payload["routes"]:
        output.note("next: `mnemolog routes learn --dry-run`")


def _route_row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["state"],
        one["level"],
        one["action"],
        "served" if one["served"] else "",
        str(one["recalls"]),
        str(one["rated"]),
        "" if one["q"] is None else f"{one['q']:+.3f}",
        _gain(one["estimate"]),
    )


def _gain(estimate: dict[str, float] | None) -> str:
    if estimate is None:
        return ""
    return "{gain:+.3f} ({low:+.3f} to {high:+.3f}, {samples:.0f} recalls)".format(**estimate)


# conflicts

_TITLES = {
    "overridden": "another author's value was replaced",
    "facts": "two values of one thing",
    "linked": "linked as a conflict",
    "wording": "the same except for a value",
    "stale": "its file changed",
}


@click.command(epilog=output.example("mnemolog conflicts", "mnemolog conflicts --project acme/web"))
@arguments.only_project_option
@output.json_option
@click.pass_obj
def conflicts(env: Environment, /, project: str | None, as_json: bool) -> None:
    """List contradictions. Show both sides, when and by whom they were recorded, and how to settle
    them.

    Contradictions are: values replaced by another author, two values of one relation, conflict
    links, texts that differ in one value only, and memories about a file that has changed.
    """
    settings = env.settings()
    with environment.open_known(settings) as (log, here):
        from serve.reports import conflicts as conflict_report

        found, is_all = here.reader.answer(
            lambda view: conflict_report.conflicts(view, log, here.now, project)
        )
        shown = [conflict_report.conflict_payload(conflict, here.now) for conflict in found]
        if as_json:
            output.emit({"conflicts": shown, "compared_all": is_all})
        else:
            _print_conflicts(shown)
        if not is_all:
            output.note(f"only the newest {conflict_report.MOST_COMPARED:,} texts were compared")


def _print_conflicts(found: Sequence[dict[str, Any]]) -> None:
    if not found:
        output.say("no conflicts")
    for number, one in enumerate(found, start=1):
        if number > 1:
            output.say()
        about = f"{output.one_line(one['about'])}: " if one["about"] else ""
        output.say(f"{number}. {about}{_TITLES[one['what']]} ({output.one_line(one['why'], 120)})")
        for side in one["sides"]:
            value = f"{output.one_line(side['value'], 40)}  " if side["value"] else ""
            state = "" if side["holds"] else f" ({side['state']})"
            output.say(
                f"   {side['at'][:10]}  {output.one_line(side['said_by'], 24)}  {value}{state}"
            )
            for line in output.block(side["text"], "      ", 2):
                output.say(line)
        for command in one["settle"]:
            output.say(f"   $ {command}")


# The router's state as JSON: for each state and level its actions, and what serving another would
# gain


def routes_payload(view: "View") -> dict[str, Any]:
    """Return it as JSON has it: the policy that is served, a row for each action that was ever
    chosen and for each that is served beside one, and the policies before, the newest first; these
    two as of the last build.
    """
    from store.derived.routing import Routes

    policy, routes = view.policy(), view.snapshots.routes or Routes.empty()
    return {
        "policy": policy,
        "routes": _rows(routes, policy),
        "history": [
            {**row, "at": isoformat(row["at"]), "policy": msgspec.json.decode(row["policy"])}
            for row in reversed(routes.tables["policies"].to_pylist())
        ],
    }


def _rows(routes: "Routes", policy: "Policy") -> list[dict[str, Any]]:
    from serve.evaluation.off_policy import worth
    from store.derived.routing import LEVELS, STATES, Held, informative_rewards

    held, recalls = routes.action_values, routes.recalls
    rows = []
    for state in STATES:
        for level, actions in LEVELS.items():
            served = policy[state][level]
            worths = {
                action: worth(*informative_rewards(recalls, state, level, action))
                for action in actions
            }
            known = {action: held.get((state, level, action), Held()) for action in actions}
            if not any(entry.recalls for entry in known.values()):
                continue
            rows += [
                {
                    "state": state,
                    "level": level,
                    "action": action,
                    "served": action == served,
                    "recalls": known[action].recalls,
                    "rated": known[action].rated,
                    "q": round(known[action].q, 4) if known[action].rated else None,
                    "estimate": None
                    if action == served
                    else _estimate(worths[served], worths[action]),
                }
                for action in actions
            ]
    return rows


def _estimate(served: "Worth", other: "Worth") -> dict[str, float] | None:
    """Return what serving the other would gain; None where the log never compared the two."""
    if not served.samples or not other.samples:
        return None
    from serve.evaluation.off_policy import gain

    found = gain(served, other)
    return {
        "gain": round(found.value, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "samples": round(other.samples, 1),
    }

"""Commands for the results of jobs: `facts`, `routes` and `conflicts`."""

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
        known = here.reader.answer(lambda view: conflict_report.all_facts(view, project))
        moment = None if is_all else here.now if at is None else at
        held = conflict_report.facts_held_at(known, moment, entity)
        payload = list(map(conflict_report.fact_payload, held))
        if as_json:
            output.emit({"facts": payload})
        else:
            _print_facts(log, payload, entity)


def _print_facts(log: EventLog, facts: list[dict[str, Any]], entity: str | None) -> None:
    if not facts:
        of = f" of {output.one_line(entity)}" if entity else ""
        output.say(f"no known facts{of}")
        return
    columns = ("entity", "relation", "value", "since", "until", "source", "said by", "text")
    rows = [
        (
            output.one_line(fact["entity"], 30),
            output.one_line(fact["relation"], 20),
            output.one_line(fact["value"], 40),
            fact["since"][:10],
            (fact["until"] or "now")[:10],
            output.short_id(log, (fact["source_ids"] or [fact["id"]])[0]),
            output.one_line(fact["said_by"], 20),
            output.one_line(fact["text"], 200),
        )
        for fact in facts
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
                    policy["at"],
                    str(policy["recalls"]),
                    f"{policy['value']:+.3f}",
                    f"{policy['served']:+.3f}",
                    f"{policy['low']:+.3f}",
                )
                for policy in payload["history"]
            ],
        )
    if not explore:
        output.note("the router is not learning: set `explore = 0.15` in config.toml")
    elif payload["routes"]:
        output.note("next: `mnemolog routes learn --dry-run`")


def _route_row(route: dict[str, Any]) -> tuple[str, ...]:
    gain = ""
    if route["estimate"] is not None:
        gain = "{gain:+.3f} ({low:+.3f} to {high:+.3f}, {samples:.0f} recalls)".format(
            **route["estimate"]
        )
    return (
        route["state"],
        route["level"],
        route["action"],
        "served" if route["served"] else "",
        str(route["recalls"]),
        str(route["rated"]),
        "" if route["q"] is None else f"{route['q']:+.3f}",
        gain,
    )


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

        disagreeing, is_all = here.reader.answer(
            lambda view: conflict_report.conflicts(view, log, here.now, project)
        )
        payload = [conflict_report.conflict_payload(other, here.now) for other in disagreeing]
        if as_json:
            output.emit({"conflicts": payload, "compared_all": is_all})
        else:
            _print_conflicts(payload)
        if not is_all:
            output.note(f"only the newest {conflict_report.MOST_COMPARED:,} texts were compared")


def _print_conflicts(payload: Sequence[dict[str, Any]]) -> None:
    if not payload:
        output.say("no conflicts")
    for number, conflict in enumerate(payload, start=1):
        if number > 1:
            output.say()
        about = f"{output.one_line(conflict['about'])}: " if conflict["about"] else ""
        why = output.one_line(conflict["why"], 120)
        output.say(f"{number}. {about}{_TITLES[conflict['what']]} ({why})")
        for side in conflict["sides"]:
            value = f"{output.one_line(side['value'], 40)}  " if side["value"] else ""
            state = "" if side["holds"] else f" ({side['state']})"
            output.say(
                f"   {side['at'][:10]}  {output.one_line(side['said_by'], 24)}  {value}{state}"
            )
            for line in output.block(side["text"], "      ", 2):
                output.say(line)
        for command in conflict["settle"]:
            output.say(f"   $ {command}")


# The router's state as JSON: for each state and level its actions, and the gain of serving another


def routes_payload(view: "View") -> dict[str, Any]:
    """Return the router's state as JSON: the served policy; a row for each action ever chosen and
    each that is served beside one; and the earlier policies, newest first. The last two are as of
    the last build.
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

    values, recalls = routes.action_values, routes.recalls
    rows = []
    for state in STATES:
        for level, actions in LEVELS.items():
            served = policy[state][level]
            worths = {
                action: worth(*informative_rewards(recalls, state, level, action))
                for action in actions
            }
            held = {action: values.get((state, level, action), Held()) for action in actions}
            if not any(entry.recalls for entry in held.values()):
                continue
            rows += [
                {
                    "state": state,
                    "level": level,
                    "action": action,
                    "served": action == served,
                    "recalls": held[action].recalls,
                    "rated": held[action].rated,
                    "q": round(held[action].q, 4) if held[action].rated else None,
                    "estimate": None
                    if action == served
                    else _estimate(worths[served], worths[action]),
                }
                for action in actions
            ]
    return rows


def _estimate(served: "Worth", other: "Worth") -> dict[str, float] | None:
    """Return the gain of serving the other action; None if the log never compared them."""
    if not served.samples or not other.samples:
        return None
    from serve.evaluation.off_policy import gain

    difference = gain(served, other)
    return {
        "gain": round(difference.value, 4),
        "low": round(difference.low, 4),
        "high": round(difference.high, 4),
        "samples": round(other.samples, 1),
    }

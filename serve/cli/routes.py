"""`mnemolog routes`: what the router serves and has learnt; learn from what was rated since."""

from typing import TYPE_CHECKING, Any

import click

from serve.cli import jobs, output, session
from serve.cli.session import Session

if TYPE_CHECKING:
    from store.derived.routes import Routes
    from store.home.config import Settings


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog routes", "mnemolog routes learn --dry-run"),
)
@output.json_option
@click.pass_context
def routes(context: click.Context, as_json: bool) -> None:
    """Show how recalls are routed. It lists the action of each level, by the kind of work.

    For each action it shows how often it was chosen and rated, its Q, and the gain in mean reward
    that the log predicts for serving it, with a 95 % interval. Set `explore = 0.15` in config.toml
    to try other actions; otherwise nothing is learned. As of the last build.
    """
    if context.invoked_subcommand is not None:
        return
    from serve.summaries.routes_text import shown

    settings = context.obj.settings()
    found = shown(_routes(settings))
    if as_json:
        output.emit(found | {"explore": settings.choices.explore})
    else:
        _show(found, settings.choices.explore)


@routes.command(epilog=output.example("mnemolog routes learn --dry-run", "mnemolog routes learn"))
@jobs.options
@click.pass_obj
def learn(
    session_: Session,
    /,
    dry_run: bool,
    project: str | None,
    no_model: bool,
    estimate: bool,
    as_json: bool,
) -> None:
    """Serve a better policy if the log shows no loss; otherwise print the reason.

    It takes effect with the next build, and `mnemolog plans undo` restores the previous one.
    """
    jobs.run(
        session_,
        "route",
        dry_run=dry_run,
        project=project,
        no_model=no_model,
        estimate=estimate,
        as_json=as_json,
    )


def _routes(settings: "Settings") -> "Routes":
    """Return what the last build knew of the router; before the first one, nothing."""
    from serve.reader.reader import Reader
    from store.derived.routes import ROUTES_PROJECTION, Routes
    from store.embedders.embedder import make_embedder

    with session.open_log(settings) as log:
        model = make_embedder(settings.choices.embedder, settings.home)
        with Reader(session.chosen(settings), log, model).view() as view:
            empty = {name: one.empty_table() for name, one in ROUTES_PROJECTION.schemas.items()}
            return view.snapshots.routes or Routes(empty)


def _show(found: dict[str, Any], explore: float) -> None:
    levels = list(next(iter(found["policy"].values())))
    output.table(
        ("at", *levels),
        [(state, *(of[level] for level in levels)) for state, of in found["policy"].items()],
    )
    if found["routes"]:
        output.say()
        output.table(
            ("at", "level", "action", "", "recalls", "rated", "Q", "gain if served"),
            [_row(one) for one in found["routes"]],
        )
    if found["history"]:
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
                for one in found["history"]
            ],
        )
    if not explore:
        output.note("the router is not learning: set `explore = 0.15` in config.toml")
    elif found["routes"]:
        output.note("next: `mnemolog routes learn --dry-run`")


def _row(one: dict[str, Any]) -> tuple[str, ...]:
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

"""The commands `trial holdout` and `trial show`: the memory's effect, measured on sessions."""

from typing import TYPE_CHECKING

import click
import msgspec

from serve.cli import environment, output
from serve.cli.environment import Environment
from store.home import config

if TYPE_CHECKING:
    from serve.evaluation.holdout import Comparison, Difference


@click.group(
    invoke_without_command=True,
    epilog=output.example("mnemolog trial holdout --share 0.2", "mnemolog trial"),
)
@output.json_option
@click.pass_context
def trial(context: click.Context, as_json: bool) -> None:
    """Measure on your own sessions whether the memory helps. Alone, as `trial show`."""
    if context.invoked_subcommand is None:
        _show(context.obj, as_json=as_json)


@trial.command(
    epilog=output.example("mnemolog trial holdout --share 0.2", "mnemolog trial holdout --stop")
)
@click.option(
    "--share",
    type=click.FloatRange(0.05, 0.5),
    help="The share of new sessions that are told nothing.",
)
@click.option("--stop", is_flag=True, help="Hold out no session any more; `show` still compares.")
@output.json_option
@click.pass_obj
def holdout(env: Environment, /, share: float | None, stop: bool, as_json: bool) -> None:
    """Tell a share of new sessions nothing unasked, to compare them with the others.

    Each new session of an agent is drawn by chance. In one that is held out there is no brief, no
    note with a prompt and none before a tool; everything is recorded as always, rules that you
    enforce are enforced, and what you or the agent ask for is answered. `trial show` compares.
    """
    if (share is None) != stop:
        raise click.UsageError("say either --share, such as --share 0.2, or --stop")
    if not stop:  # an agent must not silence the user's memory
        environment.presence().require_person("a hold-out")
    settings = env.settings()
    environment.check_settable(settings, "holdout")
    path = config.keep(settings.home, {"holdout": share})
    if as_json:
        output.emit({"share": share or 0.0, "file": str(path)})
        return
    if stop:
        output.say(f"No session is held out any more ({path}).")
    else:
        output.say(f"Of new sessions {share:.0%} are told nothing unasked ({path}).")
    output.note("`mnemolog trial show` compares them with the others")


@trial.command(epilog=output.example("mnemolog trial show", "mnemolog trial show --json"))
@output.json_option
@click.pass_obj
def show(env: Environment, /, as_json: bool) -> None:
    """Compare sessions that were told nothing with those that were.

    Differences are told minus held out, each with an interval that holds however often you look:
    you may stop as soon as it leaves out 0. A session counts once it has ended, or was silent for
    six hours.
    """
    _show(env, as_json=as_json)


def _show(env: Environment, *, as_json: bool) -> None:
    from serve.evaluation import holdout as held_out

    settings = env.settings()
    share = settings.choices.holdout
    with environment.open_log(settings) as log:
        reader = environment.open_reader(settings, log)

        def kind_of(id_: str) -> str | None:
            memory = reader.answer(lambda view: view.tail.find(id_))
            return None if memory is None else memory.kind

        comparison = held_out.compare(log, environment.now(), kind_of)
    if as_json:
        output.emit(msgspec.to_builtins(comparison) | {"share": share})
    else:
        _print(comparison, share)


def _print(comparison: "Comparison", share: float) -> None:
    from serve.evaluation.holdout import FEWEST, MEASURES
    from store.text.excerpt import plural

    if not comparison.told + comparison.held_out + comparison.under_way:
        output.say("No session was drawn yet.")
        if not share:
            output.note("`mnemolog trial holdout --share 0.2` begins")
        return
    way = f"; {comparison.under_way:,} under way" if comparison.under_way else ""
    output.say(
        f"{plural(comparison.told, 'session')} told, {comparison.held_out:,} held out{way}"
        + ("" if share else "; none is held out any more")
    )
    if comparison.differences:
        output.say()
        output.table(
            ("per session", "told", "held out", "difference", "95 %", ""),
            [
                (MEASURES[difference.measure], *_columns(difference))
                for difference in comparison.differences
            ],
        )
    if min(comparison.told, comparison.held_out) < FEWEST:
        output.note(f"an interval needs {FEWEST} sessions of each")
    if comparison.kinds:
        output.say()
        output.table(
            ("said with prompts", "times", "helped", "harmed"),
            [
                (count.kind, f"{count.told:,}", f"{count.helped:,}", f"{count.harmed:,}")
                for count in comparison.kinds
            ],
        )


def _columns(difference: "Difference") -> tuple[str, ...]:
    interval = "" if difference.low is None else f"{difference.low:+.2f} to {difference.high:+.2f}"
    more = f"; about {difference.needed:,} more" if difference.needed else ""
    means = f"{difference.told:.2f}", f"{difference.held_out:.2f}", f"{difference.difference:+.2f}"
    return *means, interval, difference.verdict + more

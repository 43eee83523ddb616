"""`mnemolog rate`: say whether a memory, or what a recall brought, helped."""

import click

from serve.cli import output, session
from serve.cli.session import Session
from store.home.errors import InvalidInput

WORDS = {"harmful": -1.0, "useless": -0.5, "useful": 0.5, "decisive": 1.0}


# a verdict may begin with a minus
@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=output.example(
        "mnemolog rate 01KA2B3C4D useful",
        'mnemolog rate 01KA2B3C4D -1 --reason "the port changed"',
    ),
)
@click.argument("id_", metavar="ID")
@click.argument("verdict")
@click.option("--reason", help="The reason, kept in the log.")
@click.option("--dry-run", is_flag=True, help="Show what would be rated, and stop.")
@output.json_option
@click.pass_obj
def rate(
    session_: Session, /, id_: str, verdict: str, reason: str | None, dry_run: bool, as_json: bool
) -> None:
    """Rate how much a memory or recall helped. ID names either; a rating of a recall counts for all
    its results.

    VERDICT is harmful, useless, useful or decisive, or a number from -1 to 1. You can shorten an ID
    to its first letters; `mnemolog pending` lists unrated recalls. Ratings take effect with the
    next build.
    """
    value = _value(verdict)
    from store import commands

    with session.open_log(session_.settings()) as log:
        wanted = commands.resolve_rated(log, id_)
        is_recall = log.about(wanted)[0].kind == "recalled"
        seq = None if dry_run else commands.rate(log, wanted, value, session.now(), reason).seq
    if as_json:
        output.emit({"id": wanted, "verdict": value, "recall": is_recall, "seq": seq})
    else:
        what = "the results of the recall" if is_recall else "the memory"
        output.say(f"{'would rate' if dry_run else 'rated'} {what} {value:+g}")


def _value(said: str) -> float:
    if said.casefold() in WORDS:
        return WORDS[said.casefold()]
    try:
        return float(said)
    except ValueError as error:
        words = ", ".join(WORDS)
        raise InvalidInput(
            f"{said!r} is not a verdict: use {words}, or a number from -1 to 1"
        ) from error

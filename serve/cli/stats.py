"""`mnemolog stats`: the figures of a memory, as lines, as JSON or as pictures in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from store.errors import InvalidInput

if TYPE_CHECKING:
    from serve.lessons.standing import Standing
    from serve.statistics.figures import Statistics

_ENDINGS = (".svg", ".html")


@click.command(epilog=output.example("mnemolog stats", "mnemolog stats --plot growth.html"))
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw growth, time of recalls, scores, lessons and more into FILE, .svg or .html.",
)
@output.json_option
@click.pass_obj
def stats(session_: Session, /, plot: Path | None, as_json: bool) -> None:
    """Show figures: memories, growth, recalls and their time, silence, builds, what models cost.

    Counts are of the whole log; times, scores and silence are those of the newest recalls.
    """
    if plot is not None:
        _check(plot)
    settings = session_.settings()
    tenant, now = session.chosen(settings), session.now()
    with session.open_log(settings) as log:
        from serve.filters import Filter
        from serve.lessons import standing
        from serve.reader import Reader
        from serve.statistics.figures import statistics
        from serve.statistics.shown import shown
        from store.embedding import embedder

        model = embedder(settings.choices.embedder, settings.home)
        with Reader(tenant, log, model).view() as view:
            found = statistics(settings.home, tenant, log, view, now)
            lessons = standing.statistics(view, log, Filter(now)) if plot or as_json else None
        if plot is not None and lessons is not None:
            _draw(plot, found, lessons.lessons)
        if as_json and lessons is not None:
            told: dict[str, Any] = {"lessons": standing.shown(lessons)["lessons"]}
            output.emit(shown(found) | told | ({"plot": str(plot)} if plot else {}))
        elif plot is not None:
            output.say(f"drew {plot}")
        else:
            _show(found)


def _check(plot: Path) -> None:
    """Raise InvalidInput for a file that cannot be drawn, before anything is read."""
    if plot.suffix.lower() not in _ENDINGS:
        raise InvalidInput(
            f"{plot.name} is neither .svg nor .html: name it {plot.stem or 'stats'}.svg, which "
            "any browser opens and other programs convert"
        )
    output.check_writable(plot)


def _draw(plot: Path, found: "Statistics", lessons: "tuple[Standing, ...]") -> None:
    from serve.charts import document
    from serve.statistics.pictures import of_file

    title = f"mnemolog: {found.tenant}, {_day(found.at)}"
    made = document.picture if plot.suffix.lower() == ".svg" else document.page
    output.write(plot, made(title, of_file(found, lessons)).encode())


def _day(at: int) -> str:
    from store.events import isoformat

    return isoformat(at)[:10]


def _show(found: "Statistics") -> None:
    from serve.numerals import count, dollars, milliseconds, percent, size

    memories, rate, said = found.memories, found.rate, found.answered
    kinds = ", ".join(
        f"{kind} {count(states['active'])}"
        for kind, states in memories.by_kind.items()
        if "active" in states
    )
    output.say(
        f"memories  {count(memories.active)} active of {count(memories.total)}"
        + (f": {kinds}" if kinds else "")
    )
    output.say(f"log       {count(found.events)} events, {count(found.builds.tail)} not built in")
    output.say(
        f"disk      {size(found.disk.total)}: log {size(found.disk.log)}, "
        f"snapshots {size(found.disk.snapshots)}, cold {size(found.disk.cold)}"
    )
    output.say(
        f"recalls   {count(rate.last_hour)} in the last hour, {count(rate.last_day)} in 24 h, "
        f"{count(sum(rate.days))} in 30 days"
    )
    p50, p95, silence = said.took(0.5), said.took(0.95), said.silence
    if p50 is not None and p95 is not None and silence is not None:
        output.say(
            f"          half within {milliseconds(p50)}, 95 % within {milliseconds(p95)}; "
            f"{percent(silence)} brought nothing, of the newest {count(said.looked_at)}"
        )
    ratings = found.ratings
    if ratings.mean is not None:
        output.say(
            f"ratings   {count(ratings.helped)} helped, {count(ratings.harmed)} harmed of the "
            f"newest {count(ratings.looked_at)}, {ratings.mean:+.2f} on average"
        )
    if served := found.builds.served:
        age = moments.ago(max(0, found.at - served.at) // 1_000_000)
        output.say(f"build     {served.number}, {age}, {served.took_s:.1f} s")
    for reason in found.builds.refusal.reasons if found.builds.refusal else ():
        output.say(f"refused   {output.one_line(reason, 200)}")
    spending = found.spending
    output.say(
        f"models    {dollars(spending.today.cost_usd)} today, "
        f"{dollars(spending.month.cost_usd)} in 30 days"
    )
    for purpose, spent in spending.by_purpose.items():
        output.say(f"          {purpose}: {count(spent.calls)} calls, {dollars(spent.cost_usd)}")
    if found.waiting:
        output.say(f"waiting   {count(found.waiting)} for your yes or no")

"""`mnemolog stats`: the figures of a memory, as lines, as JSON or as pictures in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from store.home.errors import InvalidInput

if TYPE_CHECKING:
    from serve.lessons.standing import Standing
    from serve.statistics.figures import Statistics
    from serve.statistics.usefulness import Period, Usefulness

_ENDINGS = (".svg", ".html")


@click.command(epilog=output.example("mnemolog stats", "mnemolog stats --plot growth.html"))
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw growth, latency, scores, lessons and more to FILE (.svg or .html).",
)
@output.json_option
@click.pass_obj
def stats(session_: Session, /, plot: Path | None, as_json: bool) -> None:
    """Show figures. They cover what hooks injected and how it turned out, memories, growth, recalls
    and their latency, recalls without results, builds and model costs.

    Counts cover the whole log; latency, scores and recalls without results cover the newest
    recalls. Days are in UTC and include today; a token is counted as four characters.
    """
    if plot is not None:
        _check(plot)
    settings = session_.settings()
    tenant, now = session.chosen(settings), session.now()
    with session.open_log(settings) as log:
        from serve.lessons import standing
        from serve.reader.filters import Filter
        from serve.reader.reader import Reader
        from serve.statistics.figures import statistics
        from serve.statistics.shown import shown
        from store.embedders.embedder import make_embedder

        model = make_embedder(settings.choices.embedder, settings.home)
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
    from store.home.instants import isoformat

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
    output.say(f"log       {count(found.events)} events, {count(found.builds.tail)} not built yet")
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
            f"{percent(silence)} without results, of the newest {count(said.looked_at)}"
        )
    _show_usefulness(found.usefulness)
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
        output.say(f"waiting   {count(found.waiting)} for your decision")


_PERIODS = {"today": "today", "last_7_days": "7 days", "last_30_days": "30 days"}


def _show_usefulness(found: "Usefulness") -> None:
    from serve.statistics.shown import take_back

    for name, label in _PERIODS.items():
        lines = _lines(found.periods[name])
        output.say(f"{label:<9} {lines[0]}")
        for line in lines[1:]:
            output.say(f"          {line}")
    if found.cut_at is not None:
        output.say(f"          (too many events to read: counted from {_day(found.cut_at)})")
    for one in found.kept_today:
        text = output.one_line(one.content, 120)
        output.say(f"kept      \u201c{text}\u201d (take it back: {take_back(one.id)})")


def _lines(one: "Period") -> list[str]:
    from serve.numerals import count

    def some(number: int, what: str) -> str:
        return f"{count(number)} {what}{'' if number == 1 else 's'}"

    tokens = one.tokens
    given = f"{some(one.blocks, 'block')} of {some(one.notes, 'note')}"
    if tokens is not None:
        given += f", about {some(tokens, 'token')}"
    if one.measured < one.blocks:
        given += f" (in {count(one.measured)} of the blocks; earlier ones have no length)"
    return [
        f"{some(one.prompts, 'prompt')}: {count(one.told)} with notes, "
        f"{count(one.silent)} without; {some(one.episodes, 'episode')}",
        f"{given}; {some(one.briefs, 'brief')}, {some(one.warnings, 'note')} before a tool",
        f"notes: {count(one.followed)} followed, {count(one.ignored)} ignored, "
        f"{count(one.contradicted)} contradicted; ratings: {count(one.helped)} helped, "
        f"{count(one.harmed)} harmed",
        f"statements: {count(one.kept)} kept, {count(one.accepted)} accepted, "
        f"{count(one.taken_back)} taken back",
    ]

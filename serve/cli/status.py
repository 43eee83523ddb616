"""Commands that inspect: `status` in a moment, `stats` with figures and plots."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve import formatting
from serve.cli import environment, output
from serve.cli.environment import Environment
from serve.formatting import percent, size
from store.home.config import Settings
from store.home.errors import InvalidInput
from store.home.instants import isoformat
from store.home.tenant import Tenant, log_bytes
from store.log import integrity
from store.log.event_log import EventLog
from store.text.excerpt import plural

if TYPE_CHECKING:
    from serve.lessons.lesson_stats import LessonStats
    from serve.reports.tenant_statistics import Statistics
    from serve.reports.usefulness import Period, Usefulness
    from serve.reports.waiting import Waiting
    from store.home.registry import Server


@click.command(epilog=output.example("mnemolog status"))
@output.json_option
@click.pass_obj
def status(env: Environment, /, as_json: bool) -> None:
    """Show the log, the served build and the server.

    Files are not read; `mnemolog doctor` does that.
    """
    from store.home.project_context import recording_status

    settings, fault = env.settings_and_fault()
    tenant = environment.current_tenant(settings)
    with EventLog(tenant.log) as log:
        payload = _status(settings, tenant, log)
        payload["episodes"] = _episodes(settings, tenant, log)
        waiting = _waiting(settings, log)
    payload["recording"] = recording_status(settings, fault, Path.cwd(), environment.now())
    if as_json:
        counts = None if waiting is None else {item.sort: item.count for item in waiting}
        output.emit(payload | {"waiting": counts})
        return
    _print_status(payload)
    if waiting is not None:
        output.say(f"waiting   {_waiting_line(waiting) or 'nothing'}")


def _status(settings: Settings, tenant: Tenant, log: EventLog) -> dict[str, Any]:
    from serve.cli.erase import quarantine_fields
    from store.home import failures, spool
    from store.home.errors import NoManifest, SnapshotDamaged
    from store.home.registry import live_server
    from store.maintenance import checkup, mirrors, quarantine
    from store.snapshots import manifest as manifests

    gap = integrity.head_gap(log)
    head = log.head()
    server = live_server(settings)
    refusal = manifests.last_refusal(tenant)
    waiting = spool.backlog(settings.home)
    payload: dict[str, Any] = {
        "tenant": tenant.name,
        "home": str(settings.home),
        "events": integrity.event_count(log),
        "log_bytes": log_bytes(tenant),
        "manifest": None,
        "tail": head,
        "embedder": settings.choices.embedder,
        "holdout": settings.choices.holdout,
        "replica": _replica(settings, tenant, log),
        "sync": _sync(tenant, log),
        "server": _server_status(server) if server else None,
        "spool": {
            "events": waiting.events,
            "bytes": waiting.bytes,
            "oldest": isoformat(waiting.oldest) if waiting.events else None,
            "dropped": waiting.dropped,
        },
        "refused": refusal.reasons if refusal else [],
        "failed": [
            f"{failure.what}: {failure.said}"
            for root in (settings.home, tenant.root)
            for failure in failures.every(root)
        ],
        "quarantined": [quarantine_fields(entry) for entry in quarantine.entries(log)],
        "alarms": [],
        "behind": [],
        "damage": [str(gap)] if gap else [],
    }
    try:
        manifest = manifests.current(tenant)
    except NoManifest:
        return payload
    except SnapshotDamaged as error:
        return payload | {"damage": [*payload["damage"], str(error)]}
    return payload | {
        "manifest": {
            "number": manifest.number,
            "at": isoformat(manifest.at),
            "age_s": max(0, environment.now() - manifest.at) // 1_000_000,
            "watermark": manifest.watermark,
            "memories": manifest.projections["memories"].rows["memories"],
            "bytes": manifest.bytes,
            "embedder": manifest.embedder,
            "is_chosen": _is_of(manifest.embedder, settings),
            "dimension": manifest.dimension,
            "missing_vectors": manifest.missing_vectors,
        },
        "tail": max(0, head - manifest.watermark),
        "alarms": [alarm for result in manifest.checks if (alarm := checkup.alarm_text(result))],
        "behind": [str(mirror) for mirror in mirrors.mirrors_behind(tenant, settings.choices)],
        "damage": [*payload["damage"], *checkup.damage(tenant, manifest)],
    }


def _replica(settings: Settings, tenant: Tenant, log: EventLog) -> dict[str, Any] | None:
    from store.replica.state import lag

    behind = lag(tenant, log, settings.choices.replica)
    if behind is None:
        return None
    age_s = None if behind.since is None else max(0, environment.now() - behind.since) // 1_000_000
    return {"url": behind.url, "behind": behind.events, "behind_s": age_s}


def _sync(tenant: Tenant, log: EventLog) -> dict[str, Any] | None:
    from store.sync.membership import standing

    now = environment.now()
    if (state := standing(tenant, log)) is None:
        return None
    return {
        "place": state.url,
        "is_paused": state.is_paused,
        "in_step_s": max(0, now - state.at) // 1_000_000 if state.at else None,
        "waiting": state.waiting,
        "machines": sorted({machine.name for _, machine in state.machines}),
    }


def _sync_line(payload: dict[str, Any]) -> str:
    others = f" with {', '.join(payload['machines'])}" if payload["machines"] else ""
    if payload["is_paused"]:
        state = "paused: `mnemolog sync resume`"
    elif payload["in_step_s"] is None:
        state = "never in step yet: `mnemolog sync`"
    else:
        state = f"in step {formatting.ago(payload['in_step_s'])}"
    waiting = plural(payload["waiting"], "event")
    return f"through {payload['place']}{others}, {state}; {waiting} to send"


def _waiting(settings: Settings, log: EventLog) -> "tuple[Waiting, ...] | None":
    """Return the pending decisions; None if the log or the snapshots cannot be read."""
    from serve.reports.waiting import find_waiting
    from store.home.errors import LogError, SnapshotError

    now = environment.now()
    try:
        reader = environment.open_reader(settings, log)
        return reader.answer(lambda view: find_waiting(view, log, now))
    except (LogError, SnapshotError):  # reported as damage
        return None


def _waiting_line(waiting: "tuple[Waiting, ...]") -> str:
    """Return the counts with the commands that list them: "2 statements: `mnemolog lessons`"."""
    by_command = groupby(waiting, key=lambda item: item.command)
    return "; ".join(f"{', '.join(map(str, items))}: `{command}`" for command, items in by_command)


def _episodes(settings: Settings, tenant: Tenant, log: EventLog) -> dict[str, Any] | None:
    """Return the number and size of episodes; None if the log or a snapshot cannot be read."""
    import msgspec

    from serve.reports.holdings import episode_storage
    from store.home.errors import LogError, SnapshotError
    from store.memories.memories_projection import MEMORIES_PROJECTION
    from store.memories.rows import MemoryRows
    from store.snapshots import manifest as manifests
    from store.snapshots import snapshot

    manifest, rows = None, MemoryRows.empty()
    days = settings.choices.episodes_days
    try:
        with suppress(SnapshotError):
            manifest = manifests.current(tenant)
            ref = manifest.projections["memories"]
            tables = snapshot.read(
                tenant.snapshots, ref, MEMORIES_PROJECTION, check=False, validate=False
            )
            rows = MemoryRows.open(tables)
        storage = episode_storage(tenant, log, rows, manifest, days, environment.now())
    except (LogError, SnapshotError):  # reported as damage
        return None
    payload: dict[str, Any] = msgspec.to_builtins(storage)
    return payload | {"days": days or None}


def _server_status(server: "Server") -> dict[str, Any]:
    return {
        "port": server.port,
        "pid": server.pid,
        "started_at": isoformat(server.started_at),
        "age_s": max(0, environment.now() - server.started_at) // 1_000_000,
        "idle_exit_s": server.idle_exit_s,
    }


def _is_of(model: str, settings: Settings) -> bool:
    """Return True if a model is that of the settings, as far as this home knows."""
    from store.embedders.lexical import LexicalEmbedder
    from store.embedders.model_facts import KnownModels

    if settings.choices.embedder == "lexical":
        return model == LexicalEmbedder.model
    return settings.choices.embedder in KnownModels(settings.home).names(model)


def _print_status(payload: dict[str, Any]) -> None:
    manifest, server = payload["manifest"], payload["server"]
    output.say(f"tenant    {payload['tenant']} in {payload['home']}")
    output.say(f"log       {plural(payload['events'], 'event')}, {size(payload['log_bytes'])}")
    if manifest:
        age = formatting.ago(manifest["age_s"])
        output.say(
            f"manifest  {manifest['number']}, built {age} up to event {manifest['watermark']}: "
            f"{plural(manifest['memories'], 'memory')}, {size(manifest['bytes'])}, "
            f"vectors by {manifest['embedder']}"
        )
        if missing := manifest["missing_vectors"]:
            without = f"{plural(missing, 'text')} without a vector yet"
            output.say(f"          {without}: `mnemolog build` tries again")
    else:
        output.say("manifest  none: run `mnemolog build`")
    output.say(f"tail      {plural(payload['tail'], 'event')} since")
    if payload["episodes"]:
        for line in _episode_lines(payload["episodes"]):
            output.say(line)
    waits = manifest and not manifest["is_chosen"]
    text = f", not built yet: {manifest['embedder']} answers while it is here" if waits else ""
    output.say(f"embedder  {payload['embedder']}{text}")
    output.say(f"server    {_server_line(server) if server else '-'}")
    if payload["replica"]:
        output.say(f"replica   {_replica_line(payload['replica'])}")
    if payload["sync"]:
        output.say(f"sync      {_sync_line(payload['sync'])}")
    for line in _record_lines(payload["recording"]):
        output.say(line)
    if share := payload["holdout"]:
        output.say(f"holdout   {share:.0%} of new sessions are told nothing: `mnemolog trial`")
    if (spooled := payload["spool"])["events"]:
        events = f"{plural(spooled['events'], 'hook event')}, {size(spooled['bytes'])}"
        _flag("spool", "warn", f"{events}, since {spooled['oldest']}: the next server records them")
    if spooled["dropped"]:
        lost = f"{plural(spooled['dropped'], 'hook event')} found no room and are lost"
        _flag("spool", "error", f"{lost}: `mnemolog doctor`")
    for reason in payload["refused"]:
        _flag("refused", "error", reason)
    for entry in payload["quarantined"]:
        why = output.one_line(f"{entry['check']}: {entry['reason']}", 200)
        _flag("held", "warn", f"{entry['id']} is left out of builds: {why}: `mnemolog quarantine`")
    for failure in payload["failed"]:
        _flag("failed", "error", output.one_line(failure, 200))
    for alarm in payload["alarms"]:
        _flag("recall", "warn", f"{output.one_line(alarm, 200)}: `mnemolog doctor`")
    for mirror in payload["behind"]:
        text = f"{output.one_line(mirror, 200)}: `mnemolog build` brings it in step"
        _flag("behind", "warn", text)
    for damage in payload["damage"]:
        _flag("damaged", "error", damage)


def _flag(label: str, severity: str, text: str) -> None:
    output.say(f"{output.colour(f'{label:<8}', severity)}  {text}")


def _episode_lines(payload: dict[str, Any]) -> Iterator[str]:
    """Yield the number and the size of built episodes, and the number to be erased."""
    yield (
        f"episodes  {payload['count']}: about {percent(payload['log_share'])} of the log, "
        f"{size(payload['log'])}, and {percent(payload['snapshots_share'])} of the snapshots, "
        f"{size(payload['snapshots'])}"
    )
    if payload["days"]:
        over = f"the next build erases {payload['over']}" if payload["over"] else "none is due"
        yield f"          kept for {payload['days']} days: {over}"


def _record_lines(payload: dict[str, Any]) -> Iterator[str]:
    """Yield the kinds that are recorded here, and each pause with the command that ends it."""
    if payload["off"]:
        yield f"record    nothing here: {output.clean(payload['off'])}"
    elif payload["left_out"]:
        yield f"record    {', '.join(payload['kinds'])} here, not {', '.join(payload['left_out'])}"
    for pause in payload["paused"]:
        ends = f" until {pause['until']}" if pause["until"] else ""
        text = f"{pause['scope']} {pause['name']}, since {pause['since']}{ends}, by {pause['by']}"
        yield f"paused    {output.clean(text)}: `{output.clean(pause['resume'])}`"


def _replica_line(replica: dict[str, Any]) -> str:
    if not replica["behind"]:
        return f"{replica['url']} holds all events"
    since = f"the first of {formatting.ago(replica['behind_s'])}"
    return f"{replica['url']} is {plural(replica['behind'], 'event')} behind, {since}"


def _server_line(server: dict[str, Any]) -> str:
    text = f"port {server['port']}, process {server['pid']}"
    text += f", started {formatting.ago(server['age_s'])}"
    return text + (f", ends when idle for {s} s" if (s := server["idle_exit_s"]) else "")


# stats

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
def stats(env: Environment, /, plot: Path | None, as_json: bool) -> None:
    """Show figures. They cover what hooks injected and how it turned out, memories, growth, recalls
    and their latency, recalls without results, builds and model costs.

    Counts cover the whole log; latency, scores and recalls without results cover the newest
    recalls. Days are in UTC and include today; a token is counted as four characters.
    """
    if plot is not None:
        _check_plots(plot)
    settings = env.settings()
    tenant, now = environment.current_tenant(settings), environment.now()
    with environment.open_log(settings) as log:
        from serve.lessons import lesson_stats
        from serve.reader.filters import Filter
        from serve.reports.statistics_rendering import statistics_payload
        from serve.reports.tenant_statistics import statistics

        with environment.open_reader(settings, log).view() as view:
            figures = statistics(settings.home, tenant, log, view, now)
            lessons = lesson_stats.statistics(view, log, Filter(now)) if plot or as_json else None
        if plot is not None and lessons is not None:
            _write_plots(plot, figures, lessons.lessons)
        if as_json and lessons is not None:
            payload: dict[str, Any] = {"lessons": lesson_stats.stats_json(lessons)["lessons"]}
            output.emit(
                statistics_payload(figures) | payload | ({"plot": str(plot)} if plot else {})
            )
        elif plot is not None:
            output.say(f"drew {plot}")
        else:
            _print_statistics(figures)


def _check_plots(plot: Path) -> None:
    """Raise InvalidInput for a file that cannot be drawn, before anything is read."""
    if plot.suffix.lower() not in _ENDINGS:
        raise InvalidInput(
            f"{plot.name} is neither .svg nor .html: name it {plot.stem or 'stats'}.svg, which "
            "any browser opens and other programs convert"
        )
    output.check_writable(plot)


def _write_plots(plot: Path, statistics: "Statistics", lessons: "tuple[LessonStats, ...]") -> None:
    from serve.reports import statistics_plots
    from serve.reports.statistics_plots import file_charts

    title = f"mnemolog: {statistics.tenant}, {formatting.day(statistics.at)}"
    is_svg = plot.suffix.lower() == ".svg"
    document = statistics_plots.svg_document if is_svg else statistics_plots.html_document
    output.write(plot, document(title, file_charts(statistics, lessons)).encode())


def _print_statistics(statistics: "Statistics") -> None:
    from serve.formatting import count, dollars, milliseconds, percent, size

    memories, rate, outcomes = statistics.memories, statistics.rate, statistics.answered
    kinds = ", ".join(
        f"{kind} {count(states['active'])}"
        for kind, states in memories.by_kind.items()
        if "active" in states
    )
    output.say(
        f"memories  {count(memories.active)} active of {count(memories.total)}"
        + (f": {kinds}" if kinds else "")
    )
    tail = count(statistics.builds.tail)
    output.say(f"log       {count(statistics.events)} events, {tail} not built yet")
    output.say(
        f"disk      {size(statistics.disk.total)}: log {size(statistics.disk.log)}, "
        f"snapshots {size(statistics.disk.snapshots)}, cold {size(statistics.disk.cold)}"
    )
    output.say(
        f"recalls   {count(rate.last_hour)} in the last hour, {count(rate.last_day)} in 24 h, "
        f"{count(sum(rate.days))} in 30 days"
    )
    p50, p95, silence = outcomes.took(0.5), outcomes.took(0.95), outcomes.silence
    if p50 is not None and p95 is not None and silence is not None:
        output.say(
            f"          half within {milliseconds(p50)}, 95 % within {milliseconds(p95)}; "
            f"{percent(silence)} without results, of the newest {count(outcomes.looked_at)}"
        )
    _print_usefulness(statistics.usefulness)
    ratings = statistics.ratings
    if ratings.mean is not None:
        output.say(
            f"ratings   {count(ratings.helped)} helped, {count(ratings.harmed)} harmed of the "
            f"newest {count(ratings.looked_at)}, {ratings.mean:+.2f} on average"
        )
    if served := statistics.builds.served:
        age = formatting.ago(max(0, statistics.at - served.at) // 1_000_000)
        output.say(f"build     {served.number}, {age}, {served.took_s:.1f} s")
    for reason in statistics.builds.refusal.reasons if statistics.builds.refusal else ():
        output.say(f"refused   {output.one_line(reason, 200)}")
    spending = statistics.spending
    output.say(
        f"models    {dollars(spending.today.cost_usd)} today, "
        f"{dollars(spending.month.cost_usd)} in 30 days"
    )
    for purpose, spent in spending.by_purpose.items():
        output.say(f"          {purpose}: {count(spent.calls)} calls, {dollars(spent.cost_usd)}")
    if statistics.waiting:
        output.say(f"waiting   {_waiting_line(statistics.waiting)}")


_PERIODS = {"today": "today", "last_7_days": "7 days", "last_30_days": "30 days"}


def _print_usefulness(usefulness: "Usefulness") -> None:
    from serve.reports.statistics_rendering import take_back

    for name, label in _PERIODS.items():
        lines = _lines(usefulness.periods[name])
        output.say(f"{label:<9} {lines[0]}")
        for line in lines[1:]:
            output.say(f"          {line}")
    if usefulness.cut_at is not None:
        output.say(
            f"          (too many events to read: counted from {formatting.day(usefulness.cut_at)})"
        )
    for memory in usefulness.kept_today:
        text = output.one_line(memory.content, 120)
        output.say(f"kept      \u201c{text}\u201d (take it back: {take_back(memory.id)})")


def _lines(period: "Period") -> list[str]:
    from serve.formatting import count

    tokens = period.tokens
    notes = f"{plural(period.blocks, 'block')} of {plural(period.notes, 'note')}"
    if tokens is not None:
        notes += f", about {plural(tokens, 'token')}"
    if period.measured < period.blocks:
        notes += f" (in {count(period.measured)} of the blocks; earlier ones have no length)"
    return [
        f"{plural(period.prompts, 'prompt')}: {count(period.told)} with notes, "
        f"{count(period.silent)} without; {plural(period.episodes, 'episode')}",
        f"{notes}; {plural(period.briefs, 'brief')}, "
        f"{plural(period.warnings, 'note')} before a tool",
        f"notes: {count(period.followed)} followed, {count(period.ignored)} ignored, "
        f"{count(period.contradicted)} contradicted; ratings: {count(period.helped)} helped, "
        f"{count(period.harmed)} harmed",
        f"statements: {count(period.kept)} kept, {count(period.accepted)} accepted, "
        f"{count(period.taken_back)} taken back",
    ]

"""`mnemolog status`: what there is and how fresh it is, in a moment; nothing is read through."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve import moments
from serve.cli import output, session
from serve.cli.session import Session
from serve.numerals import percent, size
from store.home.config import Settings
from store.home.instants import isoformat
from store.home.tenant import Tenant, log_bytes
from store.log import EventLog

if TYPE_CHECKING:
    from store.home.registry import Server


@click.command(epilog=output.example("mnemolog status"))
@output.json_option
@click.pass_obj
def status(session_: Session, /, as_json: bool) -> None:
    """Show the log, the served build and the server.

    Files are not read; `mnemolog doctor` does that.
    """
    from serve.summaries.recording import recording

    settings, fault = session_.settings_and_fault()
    tenant = session.chosen(settings)
    with EventLog(tenant.log) as log:
        found = _status(settings, tenant, log)
        found["episodes"] = _episodes(settings, tenant, log)
    found["recording"] = recording(settings, fault, Path.cwd(), session.now())
    if as_json:
        output.emit(found)
    else:
        _show(found)


def _status(settings: Settings, tenant: Tenant, log: EventLog) -> dict[str, Any]:
    from store import quarantine
    from store.audits import health
    from store.home import failures
    from store.home.errors import NoManifest, SnapshotDamaged
    from store.home.registry import running
    from store.snapshots import manifest as manifests

    gone = log.gone()
    head = log.head()
    server = running(settings)
    refusal = manifests.last_refusal(tenant)
    found: dict[str, Any] = {
        "tenant": tenant.name,
        "home": str(settings.home),
        "events": log.held(),
        "log_bytes": log_bytes(tenant),
        "manifest": None,
        "tail": head,
        "embedder": settings.choices.embedder,
        "server": _shown(server) if server else None,
        "refused": refusal.reasons if refusal else [],
        "failed": [
            f"{one.what}: {one.said}"
            for root in (settings.home, tenant.root)
            for one in failures.every(root)
        ],
        "quarantined": [
            {"id": one.id, "since": isoformat(one.at), "check": one.check, "reason": one.reason}
            for one in quarantine.held(log)
        ],
        "alarms": [],
        "damage": [str(gone)] if gone else [],
    }
    try:
        manifest = manifests.current(tenant)
    except NoManifest:
        return found
    except SnapshotDamaged as error:
        return found | {"damage": [*found["damage"], str(error)]}
    return found | {
        "manifest": {
            "number": manifest.number,
            "at": isoformat(manifest.at),
            "age_s": max(0, session.now() - manifest.at) // 1_000_000,
            "watermark": manifest.watermark,
            "memories": manifest.projections["memories"].rows["memories"],
            "bytes": manifest.bytes,
            "embedder": manifest.embedder,
            "dimension": manifest.dimension,
            "missing_vectors": manifest.missing_vectors,
        },
        "tail": max(0, head - manifest.watermark),
        "alarms": [alarm for one in manifest.checks if (alarm := health.alarm_of(one))],
        "damage": [*found["damage"], *health.damage(tenant, manifest)],
    }


def _episodes(settings: Settings, tenant: Tenant, log: EventLog) -> dict[str, Any] | None:
    """Return how many episodes there are and what they take; None where nothing can be read."""
    import msgspec

    from serve.statistics.episodes import episodes
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
        found = episodes(tenant, log, rows, manifest, days, session.now())
    except (LogError, SnapshotError):  # said as damage
        return None
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told | {"days": days or None}


def _shown(server: "Server") -> dict[str, Any]:
    return {
        "port": server.port,
        "pid": server.pid,
        "started_at": isoformat(server.started_at),
        "age_s": max(0, session.now() - server.started_at) // 1_000_000,
        "idle_exit_s": server.idle_exit_s,
    }


def _show(found: dict[str, Any]) -> None:
    manifest, server = found["manifest"], found["server"]
    output.say(f"tenant    {found['tenant']} in {found['home']}")
    output.say(f"log       {found['events']} events, {size(found['log_bytes'])}")
    if manifest:
        age = moments.ago(manifest["age_s"])
        output.say(
            f"manifest  {manifest['number']}, built {age} up to event {manifest['watermark']}: "
            f"{manifest['memories']} memories, {size(manifest['bytes'])}, "
            f"vectors by {manifest['embedder']}"
        )
        if missing := manifest["missing_vectors"]:
            output.say(
                f"          {missing} texts are waiting for a vector: `mnemolog build` tries again"
            )
    else:
        output.say("manifest  none: run `mnemolog build`")
    output.say(f"tail      {found['tail']} events since")
    if found["episodes"]:
        for line in _taken(found["episodes"]):
            output.say(line)
    output.say(f"embedder  {found['embedder']}")
    output.say(f"server    {_said(server) if server else '-'}")
    for line in _recording(found["recording"]):
        output.say(line)
    for reason in found["refused"]:
        output.say(f"refused   {reason}")
    for one in found["quarantined"]:
        why = output.one_line(f"{one['check']}: {one['reason']}", 200)
        output.say(f"held      {one['id']} is left out of builds: {why}: `mnemolog quarantine`")
    for one in found["failed"]:
        output.say(f"failed    {output.one_line(one, 200)}")
    for one in found["alarms"]:
        output.say(f"recall    {one}: `mnemolog selftest`")
    for one in found["damage"]:
        output.say(f"damaged   {one}")


def _taken(found: dict[str, Any]) -> Iterator[str]:
    """Yield how many episodes were built, what they take, and which are to be erased."""
    yield (
        f"episodes  {found['count']}: about {percent(found['log_share'])} of the log, "
        f"{size(found['log'])}, and {percent(found['snapshots_share'])} of the snapshots, "
        f"{size(found['snapshots'])}"
    )
    if found["days"]:
        over = f"the next build erases {found['over']}" if found["over"] else "none is due"
        yield f"          kept for {found['days']} days: {over}"


def _recording(found: dict[str, Any]) -> Iterator[str]:
    """Yield what is recorded here, and all that is paused with the command that ends it."""
    if found["off"]:
        yield f"record    nothing here: {output.clean(found['off'])}"
    elif found["left_out"]:
        yield f"record    {', '.join(found['kinds'])} here, not {', '.join(found['left_out'])}"
    for one in found["paused"]:
        ends = f" until {one['until']}" if one["until"] else ""
        what = f"{one['scope']} {one['name']}, since {one['since']}{ends}, by {one['by']}"
        yield f"paused    {output.clean(what)}: `{output.clean(one['resume'])}`"


def _said(server: dict[str, Any]) -> str:
    said = f"port {server['port']}, process {server['pid']}"
    said += f", started {moments.ago(server['age_s'])}"
    return said + (f", ends when idle for {s} s" if (s := server["idle_exit_s"]) else "")

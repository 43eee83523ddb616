"""
Metrics: what a server has counted, as Prometheus reads it.

Recalls are counted where their receipts are written, behind the answers; the rest is looked up when
somebody asks. So counting costs a recall nothing, and one that asked to leave no trace leaves none
here either. https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from serve.server.deferred_events import BOUNDS_S, RecallCounts
from store.home import failures
from store.home.tenant import log_bytes
from store.log import integrity
from store.replica.state import lag

if TYPE_CHECKING:
    from serve.server.open_tenants import OpenTenant, OpenTenants
    from store.sync.membership import Standing


MIMETYPE = "text/plain; version=0.0.4"  # Werkzeug adds the charset

Sample = tuple[str, Mapping[str, str], float]  # what follows the name, labels, value
Metric = tuple[str, str, str, list[Sample]]  # name, kind, help, samples


def exposition(
    tenants: "OpenTenants", shown: "Sequence[OpenTenant]", now: int, *, whole_server: bool
) -> str:
    """Return the metrics of some tenants; with `whole_server` those of the process too."""
    of_tenants = [_tenant_metrics(tenants, one, now) for one in shown]
    metrics = [_merge_tenants(same) for same in zip(*of_tenants, strict=True)]
    roots: list[tuple[Mapping[str, str], Path]] = [
        ({"tenant": one.tenant.name}, one.tenant.root) for one in shown
    ]
    if whole_server:
        metrics += _process_metrics(tenants, len(shown))
        roots.append(({}, tenants.settings.home))  # builds and the replica of the home
    metrics.append(_failures(roots))
    return "".join(line for metric in metrics for line in _lines(metric))


def _tenant_metrics(tenants: "OpenTenants", one: "OpenTenant", now: int) -> list[Metric]:
    label = {"tenant": one.tenant.name}
    recalls, head = one.recalls, one.log.head()
    with one.reader.view() as view:
        manifest = view.snapshots.manifest
    built = manifest.watermark if manifest else 0
    age_s = (now - manifest.at) / 1e6 if manifest else 0.0
    states = tenants.ingest.queue(one.tenant).counts()
    behind = lag(one.tenant, one.log, tenants.settings.choices.replica)
    sync = _sync_standing(one)

    def single(name: str, kind: str, about: str, value: float) -> Metric:
        return f"mnemolog_{name}", kind, about, [("", label, value)]

    return [
        single("recalls_total", "counter", "Recalls that left a receipt.", recalls.total),
        single("silent_recalls_total", "counter", "Those that brought nothing.", recalls.silent),
        (
            "mnemolog_recall_seconds",
            "histogram",
            "How long they took.",
            _latency_samples(recalls, label),
        ),
        single("appends_total", "counter", "Transactions written.", one.log.version()[1]),
        single("log_events", "gauge", "Events in the log.", integrity.event_count(one.log)),
        single("log_bytes", "gauge", "Bytes of the log's files.", log_bytes(one.tenant)),
        single("tail_events", "gauge", "Events since the last build.", max(0, head - built)),
        single("manifest", "gauge", "The manifest served.", manifest.number if manifest else 0),
        single("manifest_age_seconds", "gauge", "Since it was built.", age_s),
        (
            "mnemolog_replica_behind_events",
            "gauge",
            "Events that the replica does not hold yet; none without a replica.",
            [("", label, behind.events)] if behind else [],
        ),
        (
            "mnemolog_sync_waiting_events",
            "gauge",
            "Events that wait to be sent to other machines; none without sync.",
            [("", label, sync.waiting)] if sync else [],
        ),
        (
            "mnemolog_sync_age_seconds",
            "gauge",
            "Since the tenant was last in step with other machines; none before that.",
            [("", label, (now - sync.at) / 1e6)] if sync and sync.at else [],
        ),
        (
            "mnemolog_ingest_jobs",
            "gauge",
            "Accepted batches, by state.",
            [("", label | {"state": state}, many) for state, many in states.items()],
        ),
    ]


def _sync_standing(one: "OpenTenant") -> "Standing | None":
    if not (one.tenant.root / "sync").exists():  # few are synced
        return None
    from store.sync.membership import standing

    return standing(one.tenant, one.log)


def _failures(roots: Sequence[tuple[Mapping[str, str], Path]]) -> Metric:
    """Return what is kept of failures below some folders, each with its labels."""
    return (
        "mnemolog_failures",
        "gauge",
        "What failed and has not succeeded since, by kind: how often.",
        [
            ("", {**label, "what": kept.what}, kept.times)
            for label, root in roots
            for kept in failures.every(root)
        ],
    )


def _latency_samples(recalls: RecallCounts, label: Mapping[str, str]) -> list[Sample]:
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    within = list(accumulate(recalls.within))  # once: who counts meanwhile splits no histogram
    buckets = zip(bounds, within, strict=True)
    return [
        *(("_bucket", {**label, "le": bound}, many) for bound, many in buckets),
        ("_sum", label, recalls.seconds),
        ("_count", label, within[-1]),
    ]


def _process_metrics(tenants: "OpenTenants", are_open: int) -> list[Metric]:
    by_status = tenants.requests.by_status()
    free = shutil.disk_usage(tenants.settings.home).free
    found: list[Metric] = [
        (
            "mnemolog_responses_total",
            "counter",
            "Requests answered, by HTTP status.",
            [("", {"status": str(status)}, many) for status, many in by_status.items()],
        ),
        ("mnemolog_disk_free_bytes", "gauge", "Free beside the home.", [("", {}, free)]),
        ("mnemolog_open_tenants", "gauge", "Tenants held open.", [("", {}, are_open)]),
        ("mnemolog_threads", "gauge", "Threads.", [("", {}, threading.active_count())]),
    ]
    if sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[1])
        held = pages * resource.getpagesize()
        found.append(("process_resident_memory_bytes", "gauge", "Memory held.", [("", {}, held)]))
    return found


def _merge_tenants(same: Sequence[Metric]) -> Metric:
    """Return one metric of all tenants: its lines must stand together."""
    name, kind, about, _ = same[0]
    return name, kind, about, [sample for metric in same for sample in metric[-1]]


def _lines(metric: Metric) -> Iterator[str]:
    name, kind, about, samples = metric
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for suffix, labels, value in samples:
        # tenants' names and ours hold nothing that is to be escaped
        said = ",".join(f'{key}="{one}"' for key, one in labels.items())
        yield f"{name}{suffix}{{{said}}} {value}\n" if said else f"{name}{suffix} {value}\n"

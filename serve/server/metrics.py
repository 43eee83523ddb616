"""
Metrics: a server's counts, in Prometheus format.

Recalls are counted when their receipts are written, after the answers; the rest is looked up on
each request for metrics. So counting costs a recall nothing, and a recall that asked to leave no
trace is not counted here either. https://prometheus.io/docs/instrumenting/exposition_formats/
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

Sample = tuple[str, Mapping[str, str], float]  # the suffix of the name, labels, value
Metric = tuple[str, str, str, list[Sample]]  # name, kind, help, samples


def exposition(
    tenants: "OpenTenants", counted: "Sequence[OpenTenant]", now: int, *, whole_server: bool
) -> str:
    """Return the metrics of the `counted` tenants; with `whole_server` the process's too."""
    of_tenants = [_tenant_metrics(tenants, opened, now) for opened in counted]
    metrics: list[Metric] = []
    for same in zip(*of_tenants, strict=True):  # the lines of one metric must be adjacent
        name, kind, about, _ = same[0]
        metrics.append((name, kind, about, [sample for metric in same for sample in metric[-1]]))
    roots: list[tuple[Mapping[str, str], Path]] = [
        ({"tenant": opened.tenant.name}, opened.tenant.root) for opened in counted
    ]
    if whole_server:
        metrics += _process_metrics(tenants, len(counted))
        roots.append(({}, tenants.settings.home))  # builds and the replica of the home
    metrics.append(_failures(roots))
    return "".join(line for metric in metrics for line in _lines(metric))


def _tenant_metrics(tenants: "OpenTenants", opened: "OpenTenant", now: int) -> list[Metric]:
    label = {"tenant": opened.tenant.name}
    recalls, head = opened.recalls, opened.log.head()
    with opened.reader.view() as view:
        manifest = view.snapshots.manifest
    built = manifest.watermark if manifest else 0
    age_s = (now - manifest.at) / 1e6 if manifest else 0.0
    states = tenants.ingest.queue(opened.tenant).counts()
    behind = lag(opened.tenant, opened.log, tenants.settings.choices.replica)
    sync = _sync_standing(opened)

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
        single("appends_total", "counter", "Transactions written.", opened.log.version()[1]),
        single("log_events", "gauge", "Events in the log.", integrity.event_count(opened.log)),
        single("log_bytes", "gauge", "Bytes of the log's files.", log_bytes(opened.tenant)),
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


def _sync_standing(opened: "OpenTenant") -> "Standing | None":
    if not (opened.tenant.root / "sync").exists():  # few are synced
        return None
    from store.sync.membership import standing

    return standing(opened.tenant, opened.log)


def _failures(roots: Sequence[tuple[Mapping[str, str], Path]]) -> Metric:
    """Return the metric of the failures recorded below some folders, each with its labels."""
    return (
        "mnemolog_failures",
        "gauge",
        "What failed and has not succeeded since, by kind: how often.",
        [
            ("", {**label, "what": failure.what}, failure.times)
            for label, root in roots
            for failure in failures.every(root)
        ],
    )


def _latency_samples(recalls: RecallCounts, label: Mapping[str, str]) -> list[Sample]:
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    within = list(accumulate(recalls.within))  # once: a count made meanwhile splits no histogram
    buckets = zip(bounds, within, strict=True)
    return [
        *(("_bucket", {**label, "le": bound}, many) for bound, many in buckets),
        ("_sum", label, recalls.seconds),
        ("_count", label, within[-1]),
    ]


def _process_metrics(tenants: "OpenTenants", are_open: int) -> list[Metric]:
    by_status = tenants.requests.by_status()
    free = shutil.disk_usage(tenants.settings.home).free
    metrics: list[Metric] = [
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
        size = pages * resource.getpagesize()
        metrics.append(("process_resident_memory_bytes", "gauge", "Memory held.", [("", {}, size)]))
    return metrics


def _lines(metric: Metric) -> Iterator[str]:
    name, kind, about, samples = metric
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for suffix, labels, value in samples:
        # neither tenants' names nor ours contain characters that need escaping
        text = ",".join(f'{key}="{label}"' for key, label in labels.items())
        yield f"{name}{suffix}{{{text}}} {value}\n" if text else f"{name}{suffix} {value}\n"

"""
The assets of a build: the log, the projections, the canaries, the published manifest, the tables.

A projection is audited in the step that builds it. A failing audit is a failed check of the
tenant's partition, and fails the step before anything is materialized: Dagster runs nothing
downstream, and the last manifest is served on; the reason is stored beside it at once. Memories
that fail alone are quarantined: the next run builds without them, which the CLI starts at once and
the sensor at its next look. `store.maintenance.build` writes the snapshots, so there is no IO
manager.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from pipelines.orchestration import metadata
from pipelines.orchestration.descriptions import column_schemas, describe
from pipelines.orchestration.metadata import QUARANTINED, ROWS, Metadata, past_values
from pipelines.orchestration.plots import line_plot
from pipelines.orchestration.run_resources import (
    GROUP,
    HOOKS,
    OWNERS,
    TENANTS,
    TenantStore,
    check_spec,
    retry_or_fail,
)
from serve.evaluation import canaries, expectations, past_answers, selftest
from serve.evaluation.canaries import Outcome, Point
from serve.evaluation.replay import replay
from serve.evaluation.selftest import Quality
from store.embedders.embedder import make_embedder
from store.home import config
from store.home.config import Choices
from store.home.errors import BuildRefused, MirrorError, SnapshotError
from store.home.tenant import find_tenant
from store.log import log_queries, receipts
from store.log.event_clock import wall_clock
from store.log.event_log import EventLog
from store.maintenance import build
from store.maintenance import vector_table as table
from store.maintenance.audits import AUDITS
from store.maintenance.mirrors import Mirror, sync_mirror
from store.snapshots import manifest as manifests
from store.snapshots.manifest import (
    CANARIES,
    EXPECTED,
    NEWCOMERS,
    ONLY_VISIBLE,
    PAST_ANSWERS,
    SAME_MODEL,
    SETTINGS,
    UPGRADE,
    CheckResult,
)
from store.snapshots.projection import Projection
from store.snapshots.snapshot import SnapshotRef

# the build runs nightly: one missed night is a warning, two are a failure
_FRESH = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(hours=26), fail_window=timedelta(hours=50)
)


class BuildConfig(dg.Config):
    full: bool = Field(False, description="Build from the log alone; reuse nothing.")
    accepts: bool = Field(False, description="Publish although past questions fare otherwise.")


def build_assets(
    projections: Sequence[Projection], mirrors: Sequence[Mirror] = ()
) -> list[dg.AssetsDefinition]:
    """Return the log, the projections in build order, the canaries, the manifest, its table, and
    the copies on other programs' servers.
    """
    return [
        event_log,
        *map(_projection_asset, projections),
        canaries_asset(projections),
        _manifest_asset(projections),
        vector_table,
        *map(_mirror_asset, mirrors),
    ]


@dg.asset(
    group_name=GROUP,
    partitions_def=TENANTS,
    kinds={"sqlite"},
    owners=OWNERS,
    tags={"layer": "truth"},
    description="The append-only log, source of every projection; its head is the watermark.",
)
def event_log(
    context: dg.AssetExecutionContext, config: BuildConfig, tenant_store: TenantStore
) -> dg.MaterializeResult[None]:
    with retry_or_fail(context.retry_number):
        began = time.perf_counter()
        candidate = tenant_store.start(full=config.full, accepts=config.accepts)
        tenant, watermark = candidate.tenant, candidate.watermark
        counts = metadata.log_metadata(log_queries.daily_counts(candidate.log, watermark))
        context.log.info(f"{tenant.name}: building up to event {watermark}")
        return dg.MaterializeResult(
            metadata=counts
            | {
                "watermark": watermark,
                "bytes": tenant.log.stat().st_size,
                "seconds": round(time.perf_counter() - began, 3),
                "path": tenant.log,
            },
            data_version=dg.DataVersion(str(watermark)),
        )


def _projection_asset(projection: Projection) -> dg.AssetsDefinition:
    """Return the asset that builds one projection and audits it."""

    @dg.asset(
        name=projection.name,
        deps=["event_log" if name == "log" else name for name in projection.inputs],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"arrow"},
        owners=OWNERS,
        tags={"layer": "projection"},
        metadata=column_schemas(projection),
        code_version=projection.version,
        check_specs=[
            check_spec(audit.name, projection.name, audit.description, blocking=True)
            for audit in AUDITS
            if audit.projection == projection.name
        ],
        description=describe(projection),
    )
    def one_projection(
        context: dg.AssetExecutionContext, tenant_store: TenantStore
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        with retry_or_fail(context.retry_number):
            began = time.perf_counter()
            candidate = tenant_store.resume()
            wanted = next(other for other in candidate.projections if other.name == projection.name)
            ref, tables = build.step(candidate, wanted, context.log.info)
            results = build.check(candidate, wanted, tables)
            if refusal := _refuse(context, candidate, results, wall_clock()):
                # without a materialization the tenant's partition is failed, and not green
                yield from map(_check_result, results)
                raise refusal
            yield dg.MaterializeResult(
                metadata=metadata.projection_metadata(
                    candidate,
                    ref,
                    tables,
                    time.perf_counter() - began,
                    reused=_is_served(candidate, ref),
                    quotes=tenant_store.quotes,
                ),
                check_results=[*map(_check_result, results)],
                data_version=dg.DataVersion(ref.digest),
            )

    return one_projection


def _manifest_asset(projections: Sequence[Projection]) -> dg.AssetsDefinition:
    """Return the asset that publishes a candidate with all checks passed."""

    @dg.asset(
        name="published_manifest",
        deps=[*(projection.name for projection in projections), CANARIES],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"json"},
        owners=OWNERS,
        tags={"layer": "served"},
        freshness_policy=_FRESH,
        description="The published manifest: snapshots that belong together and passed all checks.",
    )
    def published_manifest(
        context: dg.AssetExecutionContext, tenant_store: TenantStore
    ) -> dg.MaterializeResult[None]:
        with retry_or_fail(context.retry_number):
            candidate = tenant_store.resume()
            published = build.publish(candidate, build.load_checks(candidate), wall_clock())
            return dg.MaterializeResult(
                metadata=metadata.manifest_metadata(
                    candidate, published, past_values(context, ROWS)
                ),
                data_version=dg.DataVersion(str(published.number)),
            )

    return published_manifest


def _check_result(result: CheckResult) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=result.name,
        asset_key=result.projection,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.WARN if result.warns else dg.AssetCheckSeverity.ERROR,
        description=result.reason,
        metadata=dict(result.metadata) | ({QUARANTINED: [*result.alone]} if result.alone else {}),
    )


def _refuse(
    context: dg.AssetExecutionContext,
    candidate: build.Build,
    results: Sequence[CheckResult],
    now: int,
) -> BuildRefused | None:
    """Refuse a build with failed checks, and quarantine the memories that failed alone.

    Return the error to raise; None where no check stops the build.
    """
    failed = [f"{result.name}: {result.reason}" for result in results if result.stops]
    if not failed:
        return None
    build.refuse(candidate, now)
    for entry in build.take_out(candidate, results, now):
        context.log.error(f"quarantined {entry.id}: the next run builds without it")
    return BuildRefused("; ".join(failed))


def _is_served(candidate: build.Build, ref: SnapshotRef) -> bool:
    """Return True if the step reused the served snapshot: nothing it depends on changed."""
    try:
        served = manifests.current(candidate.tenant).projections.get(ref.projection)
    except SnapshotError:
        return False
    return served is not None and served.parts == ref.parts


# The asset canaries: recall queries over the candidate, before the manifest is published.
#
# The result is stored in the manifest as a check, with those of earlier builds, so that `mnemolog
# canaries` and `doctor` show the trend without Dagster. A few lost canaries are a warning; if most
# are lost, the build is refused.


_CANARY_CHECKS = {
    CANARIES: "Recall finds memories by their own words.",
    EXPECTED: "Pinned questions bring back what they did.",
    SAME_MODEL: "The model makes the vectors that are there.",
    UPGRADE: "A new version answers as the one before.",
    SETTINGS: "A setting changed by hand keeps past answers.",
    ONLY_VISIBLE: "What nobody may see does not come back.",
    PAST_ANSWERS: "Past questions bring back what they did.",
    NEWCOMERS: "New memories leave past answers in place.",
}


def canaries_asset(projections: Sequence[Projection]) -> dg.AssetsDefinition:
    """Return the asset that asks for canaries; it depends on every projection."""

    @dg.asset(
        name=CANARIES,
        deps=[projection.name for projection in projections],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={"python"},
        owners=OWNERS,
        tags={"layer": "quality"},
        check_specs=[
            check_spec(name, CANARIES, text, blocking=name not in (EXPECTED, SETTINGS))
            for name, text in _CANARY_CHECKS.items()
        ],
        description="Asks for memories by their own words: does recall work over the candidate?",
    )
    def ask(
        context: dg.AssetExecutionContext,
        tenant_store: TenantStore,
        choices: dg.ResourceParam[Choices],
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        with retry_or_fail(context.retry_number):
            candidate, now = tenant_store.resume(), wall_clock()
            log, tenant, embedder = candidate.log, candidate.tenant, candidate.embedder
            manifest = build.candidate_manifest(candidate, (), now)
            outcome = canaries.over(tenant, manifest, embedder, choices, now)
            result = canaries.result(outcome, now, *build.last_published(tenant))
            pinned = expectations.check(log, tenant, manifest, embedder, choices, now)
            past = past_answers.check(candidate, manifest, choices)
            build.save_checks(candidate, [*past, result, *pinned])
            quotes = choices.dagster_texts
            outcome_metadata = _canary_metadata(outcome, canaries.trend(result), quotes=quotes)
            severity = dg.AssetCheckSeverity.WARN
            if outcome.is_refused:  # a blocking check blocks only with an error
                severity = dg.AssetCheckSeverity.ERROR
            check = dg.AssetCheckResult(
                check_name=CANARIES,
                passed=not outcome.is_doubted,
                severity=severity,
                description=result.detail,
                metadata={"missed": outcome_metadata["missed"]},
            )
            if not result.passed:
                build.refuse(candidate, now)
                yield check
                raise BuildRefused(f"{CANARIES}: {result.detail}")
            checks = [check, _expected_result(pinned, quotes=quotes)]
            checks += map(_check_result, [*past, *_unasked(past)])
            if refusal := _refuse(context, candidate, past, now):
                yield from checks
                raise refusal
            yield dg.MaterializeResult(metadata=outcome_metadata, check_results=checks)

    return ask


def _unasked(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return results for the checks that had nothing to ask: a declared check must be reported."""
    names = _CANARY_CHECKS.keys() - {CANARIES, EXPECTED} - {result.name for result in results}
    return [CheckResult(name, True, "there is nothing to ask yet", CANARIES) for name in names]


def _expected_result(pinned: Sequence[CheckResult], *, quotes: bool) -> dg.AssetCheckResult:
    """Return the result of the pinned questions; one is quoted only where texts may be."""
    missed = [pin for result in pinned for pin in result.metadata["missed"]]
    lines = (f"- {pin['id']}: {pin['question']}" if quotes else f"- {pin['id']}" for pin in missed)
    return dg.AssetCheckResult(
        check_name=EXPECTED,
        passed=not missed,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(result.reason for result in pinned) if quotes else "",
        metadata={
            "asked": sum(result.metadata["asked"] for result in pinned),
            "missed": dg.MetadataValue.md("\n".join(lines) or "none"),
        },
    )


def _canary_metadata(outcome: Outcome, trend: Sequence[Point], *, quotes: bool) -> Metadata:
    """Return the metadata of the canaries; a question is made of its memory's own words."""
    lines = (
        f"- {canary.id}: {canary.question}" if quotes else f"- {canary.id}"
        for canary in outcome.missed
    )
    return {
        "asked": outcome.asked,
        "came back": outcome.hits,
        "missed": dg.MetadataValue.md("\n".join(lines) or "none"),
        "plot": line_plot(
            "% of the canaries that came back",
            [at for at, _, _ in trend],
            [100 * back / asked if asked else 100 for _, back, asked in trend],
        ),
    }


# The asset vector_table: the published vectors as a Lance table, for jobs that search by distance.
#
# Builds keep it up to date once it exists. The first job that needs it makes it, and so does this
# asset with `make` in its configuration.


class VectorTableConfig(dg.Config):
    make: bool = Field(False, description="Create the table if it is missing.")


@dg.asset(
    deps=["published_manifest"],
    group_name=GROUP,
    partitions_def=TENANTS,
    kinds={"lance"},
    owners=OWNERS,
    tags={"layer": "jobs"},
    description="The published vectors in Lance, for jobs; created when a job first needs it.",
)
def vector_table(
    context: dg.AssetExecutionContext, config: VectorTableConfig, tenant_store: TenantStore
) -> dg.MaterializeResult[None]:
    with retry_or_fail(context.retry_number):
        tenant = tenant_store.resume().tenant
        if not (config.make or table.exists(tenant)):
            return dg.MaterializeResult(metadata={"made": False})
        changed = table.sync(tenant)
        rows = manifests.current(tenant).projections["vectors"].rows["rows"]
        return dg.MaterializeResult(
            metadata={
                "made": True,
                ROWS: rows,
                "parts changed": changed,
                "path": tenant.root / "lance",
            }
        )


def _mirror_asset(mirror: Mirror) -> dg.AssetsDefinition:
    """Return the asset that syncs a copy on another program's server."""

    @dg.asset(
        name=mirror.asset,
        deps=["published_manifest"],
        group_name=GROUP,
        partitions_def=TENANTS,
        kinds={mirror.kind},
        owners=OWNERS,
        tags={"layer": "jobs"},
        description=f"The copy of {mirror.what}; where its server is down, the next build brings "
        "it in step.",
    )
    def one_mirror(
        context: dg.AssetExecutionContext, tenant_store: TenantStore
    ) -> dg.MaterializeResult[None]:
        with retry_or_fail(context.retry_number):
            tenant = tenant_store.resume().tenant
            try:
                changed = sync_mirror(mirror, tenant)
            except MirrorError as error:  # the published build is served all the same
                context.log.warning(str(error))
                return dg.MaterializeResult(metadata={"behind": str(error)})
            projection, table = mirror.rows
            return dg.MaterializeResult(
                metadata={
                    ROWS: manifests.current(tenant).projections[projection].rows[table],
                    "changed": changed,
                    "url": mirror.url,
                }
            )

    return one_mirror


# The asset past_recalls: a replay of a tenant's newest recalls, each on the memory of its time.
#
# It runs on request, as after an upgrade. It reads a copy, and blocks nothing.

AS_THEY_WERE = "as_they_were"


class ReplayConfig(dg.Config):
    most: int = Field(200, description="How many recalls are asked again, the newest first.", ge=1)


@dg.asset(
    group_name="quality",
    partitions_def=TENANTS,
    kinds={"python"},
    owners=OWNERS,
    tags={"layer": "quality"},
    check_specs=[
        check_spec(AS_THEY_WERE, "past_recalls", "Past recalls bring back what they brought then.")
    ],
    description="Past recalls asked again, each of the memory as it was known: what an upgrade "
    "changed.",
)
def past_recalls(
    context: dg.AssetExecutionContext,
    config: ReplayConfig,
    memory_home: dg.ResourceParam[Path],
    choices: dg.ResourceParam[Choices],
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
    with retry_or_fail(context.retry_number):
        tenant = find_tenant(memory_home, context.partition_key)
        embedder = make_embedder(choices.embedder, memory_home)
        with EventLog(tenant.log) as log:
            page = receipts.page(log, receipts.Wanted(), config.most, most=10 * config.most)
            replays = list(replay(log, embedder, page.receipts, choices))
        counts = Counter(replayed.verdict for replayed in replays)
        skipped = Counter(replayed.why for replayed in replays if replayed.verdict == "skipped")
        changed = "\n".join(
            f"- {replayed.receipt.id}" for replayed in replays if replayed.verdict == "changed"
        )
        text = f"{counts['same']} of {counts['same'] + counts['changed']} recalls are as they were"
        check = dg.AssetCheckResult(
            check_name=AS_THEY_WERE,
            passed=not counts["changed"],
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{text}; `mnemolog replay` shows the others" if changed else text,
        )
        return dg.MaterializeResult(
            metadata={
                "as they were": counts["same"],
                "changed": counts["changed"],
                "changed recalls": dg.MetadataValue.md(changed or "none"),
                "not asked again": dict(skipped),
            },
            check_results=[check],
        )


replay_recalls = dg.define_asset_job(
    "replay_recalls",
    selection=dg.AssetSelection.assets(past_recalls),
    hooks=HOOKS,
    description="Ask one tenant's past recalls again, and compare with what they brought.",
)


# The asset recall_quality: every night, the check set through the write path, the build and recall.
#
# It tests the code and the settings, in a temporary home, and no tenant. Its check warns and blocks
# nothing, since no tenant's build is better or worse for it.

RECALL = "recall@5"
CHECK = "above_the_floor"


@dg.asset(
    group_name="quality",
    kinds={"python"},
    owners=OWNERS,
    tags={"layer": "quality"},
    check_specs=[
        dg.AssetCheckSpec(
            CHECK,
            asset="recall_quality",
            description="Recall on the check set in every language, and silence without a fit.",
        )
    ],
    description="How recall answers the check set under the settings in use.",
)
def recall_quality(
    context: dg.AssetExecutionContext, choices: dg.ResourceParam[Choices]
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with it, Dagster wants a tuple
    with retry_or_fail(context.retry_number):
        began = time.perf_counter()
        # Windows deletes no file that is still mapped
        with tempfile.TemporaryDirectory(
            prefix="mnemolog-quality-", ignore_cleanup_errors=True
        ) as home:
            cache = config.cache_folder() / "vectors"
            quality = selftest.measure_quality(choices, Path(home), cache=cache)
        for shortfall in quality.shortfalls:
            context.log.warning(shortfall)
        check = dg.AssetCheckResult(
            check_name=CHECK,
            passed=not quality.shortfalls,
            severity=dg.AssetCheckSeverity.WARN,
            description="; ".join(quality.shortfalls) or "every figure is above its floor",
        )
        return dg.MaterializeResult(
            metadata={
                "seconds": round(time.perf_counter() - began, 3),
                "embedder": choices.embedder,
                **_quality_metadata(quality, past_values(context, RECALL)),
            },
            check_results=[check],
        )


check_recall = dg.define_asset_job(
    "check_recall",
    selection=dg.AssetSelection.assets(recall_quality),
    hooks=HOOKS,
    description="Run the check set and compare with the floors.",
)

nightly_quality = dg.ScheduleDefinition(
    name="nightly_quality",
    job=check_recall,
    cron_schedule="15 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Runs the check set every night, to show what an update or a setting changed.",
)


def _quality_metadata(quality: Quality, before: list[tuple[int, float]]) -> Metadata:
    recall = quality.project.measures[RECALL]
    history = [*before, (round(time.time() * 1_000_000), recall)]
    silence = quality.silence
    return {
        RECALL: recall,
        "mrr@10": quality.project.measures["mrr@10"],
        "false injections": silence.injected_all if silence else 0.0,
        "correct answers kept": silence.kept if silence else 0.0,
        "notices": list(quality.notices),
        "figures": dg.MetadataValue.md("\n".join(_quality_table(quality))),
        "plot": line_plot(
            "recall@5 of the check set", [at for at, _ in history], [share for _, share in history]
        ),
    }


def _quality_table(quality: Quality) -> Iterator[str]:
    """Yield the lines of a Markdown table of all figures."""
    yield "| | queries | recall@1 | recall@5 | mrr@10 |"
    yield "|---|---|---|---|---|"
    rows = {
        "project": quality.project,
        **quality.categories,
        **quality.languages,
        **quality.harder,
    }
    for name, scores in rows.items():
        values = (f"{scores.measures[measure]:.3f}" for measure in ("recall@1", RECALL, "mrr@10"))
        yield f"| {name} | {scores.queries} | {' | '.join(values)} |"
    if quality.silence is not None:
        yield "\n| deserves silence | injected |"
        yield "|---|---|"
        for kind, share in quality.silence.injected.items():
            yield f"| {kind} | {share:.0%} |"

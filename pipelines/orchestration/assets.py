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

# the nightly build comes daily: one that was missed is a warning, two are a failure
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
        made = tenant_store.start(full=config.full, accepts=config.accepts)
        shown = metadata.log_metadata(log_queries.daily_counts(made.log, made.watermark))
        context.log.info(f"{made.tenant.name}: building up to event {made.watermark}")
        return dg.MaterializeResult(
            metadata=shown
            | {
                "watermark": dg.MetadataValue.int(made.watermark),
                "bytes": dg.MetadataValue.int(made.tenant.log.stat().st_size),
                "seconds": dg.MetadataValue.float(round(time.perf_counter() - began, 3)),
                "path": dg.MetadataValue.path(made.tenant.log),
            },
            data_version=dg.DataVersion(str(made.watermark)),
        )


def _projection_asset(projection: Projection) -> dg.AssetsDefinition:
    """Return the asset that builds one projection and audits it."""

    @dg.asset(
        name=projection.name,
        deps=[_asset_name(name) for name in projection.inputs],
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
            made = tenant_store.resume()
            wanted = next(other for other in made.projections if other.name == projection.name)
            ref, tables = build.step(made, wanted, context.log.info)
            results = build.check(made, wanted, tables)
            if failed := [f"{result.name}: {result.reason}" for result in results if result.stops]:
                now = wall_clock()
                build.refuse(made, now)
                for entry in build.take_out(made, results, now):
                    context.log.error(f"quarantined {entry.id}: the next run builds without it")
                # without a materialization the tenant's partition is failed, and not green
                yield from map(_check_result, results)
                raise BuildRefused("; ".join(failed))
            yield dg.MaterializeResult(
                metadata=metadata.projection_metadata(
                    made,
                    ref,
                    tables,
                    time.perf_counter() - began,
                    reused=_is_served(made, ref),
                    quotes=tenant_store.quotes,
                ),
                check_results=[*map(_check_result, results)],
                data_version=dg.DataVersion(ref.digest),
            )

    return one_projection


def _manifest_asset(projections: Sequence[Projection]) -> dg.AssetsDefinition:
    """Return the asset that publishes a candidate whose checks all passed."""

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
            made = tenant_store.resume()
            published = build.publish(made, build.load_checks(made), wall_clock())
            return dg.MaterializeResult(
                metadata=metadata.manifest_metadata(
                    made, published, past_values(context, metadata.ROWS)
                ),
                data_version=dg.DataVersion(str(published.number)),
            )

    return published_manifest


def _asset_name(of_input: str) -> str:
    return "event_log" if of_input == "log" else of_input


def _check_result(result: CheckResult) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=result.name,
        asset_key=result.projection,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.WARN if result.warns else dg.AssetCheckSeverity.ERROR,
        description=result.reason,
        metadata=dict(result.metadata) | ({QUARANTINED: [*result.alone]} if result.alone else {}),
    )


def _is_served(made: build.Build, ref: SnapshotRef) -> bool:
    """Whether the step took the served snapshot over, because nothing it depends on changed."""
    try:
        served = manifests.current(made.tenant).projections.get(ref.projection)
    except SnapshotError:
        return False
    return served is not None and served.parts == ref.parts


# The asset canaries: recall queries over the candidate, before the manifest is published.
#
# The result is stored in the manifest as a check, with those of earlier builds, so that `mnemolog
# canaries` and `doctor` show the trend without Dagster. A few lost canaries are a warning; if most
# are lost, the build is refused.


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
            check_spec(
                CANARIES, CANARIES, "Recall finds memories by their own words.", blocking=True
            ),
            check_spec(EXPECTED, CANARIES, "Pinned questions bring back what they did."),
            check_spec(
                SAME_MODEL, CANARIES, "The model makes the vectors that are there.", blocking=True
            ),
            check_spec(
                UPGRADE, CANARIES, "A new version answers as the one before.", blocking=True
            ),
            check_spec(SETTINGS, CANARIES, "A setting changed by hand keeps past answers."),
            check_spec(
                ONLY_VISIBLE, CANARIES, "What nobody may see does not come back.", blocking=True
            ),
            check_spec(
                PAST_ANSWERS, CANARIES, "Past questions bring back what they did.", blocking=True
            ),
            check_spec(
                NEWCOMERS, CANARIES, "New memories leave past answers in place.", blocking=True
            ),
        ],
        description="Asks for memories by their own words: does recall work over the candidate?",
    )
    def ask(
        context: dg.AssetExecutionContext,
        tenant_store: TenantStore,
        choices: dg.ResourceParam[Choices],
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        with retry_or_fail(context.retry_number):
            made, now = tenant_store.resume(), wall_clock()
            candidate = build.candidate_manifest(made, (), now)
            outcome = canaries.over(made.tenant, candidate, made.embedder, choices, now)
            result = canaries.result(outcome, now, *build.last_published(made.tenant))
            pinned = expectations.check(
                made.log, made.tenant, candidate, made.embedder, choices, now
            )
            past = past_answers.check(made, candidate, choices)
            build.save_checks(made, [*past, result, *pinned])
            shown = _canary_metadata(outcome, canaries.trend(result), quotes=choices.dagster_texts)
            check = dg.AssetCheckResult(
                check_name=CANARIES,
                passed=not outcome.is_doubted,
                severity=_canary_severity(outcome),
                description=result.detail,
                metadata={"missed": shown["missed"]},
            )
            if not result.passed:
                build.refuse(made, now)
                yield check
                raise BuildRefused(f"{CANARIES}: {result.detail}")
            checks = [check, _expected_result(pinned, quotes=choices.dagster_texts)]
            checks += map(_check_result, [*past, *_unasked(past)])
            if failed := [check_result for check_result in past if check_result.stops]:
                build.refuse(made, now)
                for entry in build.take_out(made, past, now):
                    context.log.error(f"quarantined {entry.id}: the next run builds without it")
                yield from checks
                raise BuildRefused(
                    "; ".join(
                        f"{check_result.name}: {check_result.reason}" for check_result in failed
                    )
                )
            yield dg.MaterializeResult(metadata=shown, check_results=checks)

    return ask


def _unasked(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the checks that had nothing to ask: one that is declared must be told."""
    names = {SAME_MODEL, ONLY_VISIBLE, UPGRADE, SETTINGS, PAST_ANSWERS, NEWCOMERS} - {
        result.name for result in results
    }
    return [CheckResult(name, True, "there is nothing to ask yet", CANARIES) for name in names]


def _expected_result(pinned: Sequence[CheckResult], *, quotes: bool) -> dg.AssetCheckResult:
    """Return what the pinned questions said; a question is quoted only where texts may be."""
    missed = [one for result in pinned for one in result.metadata["missed"]]
    lines = (f"- {one['id']}: {one['question']}" if quotes else f"- {one['id']}" for one in missed)
    return dg.AssetCheckResult(
        check_name=EXPECTED,
        passed=not missed,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(result.reason for result in pinned) if quotes else "",
        metadata={
            "asked": dg.MetadataValue.int(sum(result.metadata["asked"] for result in pinned)),
            "missed": dg.MetadataValue.md("\n".join(lines) or "none"),
        },
    )


def _canary_severity(outcome: Outcome) -> dg.AssetCheckSeverity:
    """A blocking check blocks only with an error."""
    return dg.AssetCheckSeverity.ERROR if outcome.is_refused else dg.AssetCheckSeverity.WARN


def _canary_metadata(outcome: Outcome, trend: Sequence[Point], *, quotes: bool) -> Metadata:
    """Return the metadata of the canaries; a question is made of its memory's own words."""
    lines = (
        f"- {canary.id}: {canary.question}" if quotes else f"- {canary.id}"
        for canary in outcome.missed
    )
    missed = "\n".join(lines)
    return {
        "asked": dg.MetadataValue.int(outcome.asked),
        "came back": dg.MetadataValue.int(outcome.hits),
        "missed": dg.MetadataValue.md(missed or "none"),
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
            return dg.MaterializeResult(metadata={"made": dg.MetadataValue.bool(False)})
        changed = table.sync(tenant)
        rows = manifests.current(tenant).projections["vectors"].rows["rows"]
        return dg.MaterializeResult(
            metadata={
                "made": dg.MetadataValue.bool(True),
                ROWS: dg.MetadataValue.int(rows),
                "parts changed": dg.MetadataValue.int(changed),
                "path": dg.MetadataValue.path(tenant.root / "lance"),
            }
        )


def _mirror_asset(mirror: Mirror) -> dg.AssetsDefinition:
    """Return the asset that brings a copy on another program's server in step."""

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
            except MirrorError as error:  # what was published is served all the same
                context.log.warning(str(error))
                return dg.MaterializeResult(metadata={"behind": dg.MetadataValue.text(str(error))})
            projection, table = mirror.rows
            return dg.MaterializeResult(
                metadata={
                    ROWS: dg.MetadataValue.int(
                        manifests.current(tenant).projections[projection].rows[table]
                    ),
                    "changed": dg.MetadataValue.int(changed),
                    "url": dg.MetadataValue.text(mirror.url),
                }
            )

    return one_mirror


# The asset past_recalls: a tenant's newest recalls asked again, each of the memory as it was known.
#
# It runs when somebody asks for it, as after an upgrade. It reads a copy, and blocks nothing.

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
        counts = Counter(one.verdict for one in replays)
        skipped = Counter(one.why for one in replays if one.verdict == "skipped")
        changed = "\n".join(f"- {one.receipt.id}" for one in replays if one.verdict == "changed")
        text = f"{counts['same']} of {counts['same'] + counts['changed']} recalls are as they were"
        check = dg.AssetCheckResult(
            check_name=AS_THEY_WERE,
            passed=not counts["changed"],
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{text}; `mnemolog replay` shows the others" if changed else text,
        )
        return dg.MaterializeResult(
            metadata={
                "as they were": dg.MetadataValue.int(counts["same"]),
                "changed": dg.MetadataValue.int(counts["changed"]),
                "changed recalls": dg.MetadataValue.md(changed or "none"),
                "not asked again": dg.MetadataValue.json(dict(skipped)),
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
        shown: Metadata = {
            "seconds": dg.MetadataValue.float(round(time.perf_counter() - began, 3)),
            "embedder": dg.MetadataValue.text(choices.embedder),
        }
        return dg.MaterializeResult(
            metadata=shown | _quality_metadata(quality, past_values(context, RECALL)),
            check_results=[_quality_check(quality)],
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


def _quality_check(quality: Quality) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=CHECK,
        passed=not quality.shortfalls,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(quality.shortfalls) or "every figure is above its floor",
    )


def _quality_metadata(quality: Quality, before: list[tuple[int, float]]) -> Metadata:
    recall = quality.project.measures[RECALL]
    history = [*before, (round(time.time() * 1_000_000), recall)]
    silence = quality.silence
    return {
        RECALL: dg.MetadataValue.float(recall),
        "mrr@10": dg.MetadataValue.float(quality.project.measures["mrr@10"]),
        "false injections": dg.MetadataValue.float(silence.injected_all if silence else 0.0),
        "correct answers kept": dg.MetadataValue.float(silence.kept if silence else 0.0),
        "notices": dg.MetadataValue.json(list(quality.notices)),
        "figures": dg.MetadataValue.md("\n".join(_quality_table(quality))),
        "plot": line_plot(
            "recall@5 of the check set", [at for at, _ in history], [share for _, share in history]
        ),
    }


def _quality_table(quality: Quality) -> Iterator[str]:
    """Yield the lines of a Markdown table of all that was measured."""
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

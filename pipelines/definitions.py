"""
The Definitions object: what Dagster loads. Here things are only put together.
"""

from collections.abc import Mapping

import dagster as dg

from pipelines.assets import assets_of
from pipelines.learning.assets import learning_assets
from pipelines.learning.schedules import learning_jobs, learning_schedules
from pipelines.learning.turn import Turn
from pipelines.prune import prune_runs
from pipelines.quality import check_recall, nightly_quality, recall_quality
from pipelines.resources import LOCK_WAIT_S, TenantStore
from pipelines.schedules import build_memory, log_head, nightly, weekly_prune
from store import config
from store.config import Settings
from store.derived import catalog
from store.embedding import embedder


def definitions(
    settings: Settings,
    *,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    lock_wait_s: float = LOCK_WAIT_S,
) -> dg.Definitions:
    """Return everything for one home; `loggers` stand in for Dagster's console output."""
    learning = learning_jobs()
    return dg.Definitions(
        assets=[
            *assets_of(catalog.all_projections(embedder(settings.choices.embedder, settings.home))),
            *learning_assets(),
            recall_quality,
        ],
        jobs=[build_memory, *learning, check_recall, prune_runs],
        schedules=[nightly, *learning_schedules(learning), nightly_quality, weekly_prune],
        sensors=[log_head],
        resources={
            "tenant_store": TenantStore(
                home=str(settings.home),
                embedder=settings.choices.embedder,
                episodes_days=settings.choices.episodes_days,
                quotes=settings.choices.dagster_texts,
                lock_wait_s=lock_wait_s,
            ),
            "turn": Turn(home=str(settings.home), wait_s=lock_wait_s),
            "settings": settings,
            "memory_home": settings.home,
            "choices": settings.choices,
        },
        # one process a tenant: a process for each step costs ten times the work itself
        executor=dg.in_process_executor,
        loggers=loggers,
    )


defs = definitions(config.load())

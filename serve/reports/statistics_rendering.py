"""Statistics as JSON: plain values, times in ISO 8601, distributions as counts between edges."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from serve.recall.context_block import short_id
from serve.reports.holdings import Published
from serve.reports.tenant_statistics import (
    SPENDING_DAYS,
    RecallOutcomes,
    Statistics,
    Values,
)
from serve.reports.usefulness import CHARACTERS, Period, Usefulness
from store.home.instants import DAY, isoformat
from store.plans.job_catalog import ModelCost

TOOK_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)  # the last has no end
CONFIDENCE = tuple(place / 20 for place in range(21))
SCORES = 20  # steps up to the greatest


def statistics_payload(statistics: Statistics) -> dict[str, Any]:
    """Return the figures as JSON."""
    growth, rate, builds = statistics.growth, statistics.rate, statistics.builds
    return {
        "tenant": statistics.tenant,
        "at": isoformat(statistics.at),
        "events": statistics.events,
        "memories": {
            "total": statistics.memories.total,
            "active": statistics.memories.active,
            "by_kind": statistics.memories.by_kind,
        },
        "disk": msgspec.to_builtins(statistics.disk) | {"total": statistics.disk.total},
        "growth": {
            "since": isoformat(growth.since)[:10],
            "step_days": growth.step // DAY,
            "memories": growth.memories,
            "recalls": growth.recalls,
            "others": growth.others,
        },
        "recalls": {
            "a_minute": rate.a_minute,
            "last_hour": rate.last_hour,
            "last_day": rate.last_day,
            "minutes": {"since": isoformat(rate.first_minute), "counts": rate.minutes},
            "days": {"since": isoformat(rate.first_day)[:10], "counts": rate.days},
        }
        | _outcomes(statistics.answered),
        "ratings": msgspec.to_builtins(statistics.ratings),
        "builds": {
            "tail": builds.tail,
            "changes": builds.changes,
            "kept": [_build_fields(published) for published in builds.kept],
            "refused": builds.refusal.reasons if builds.refusal else [],
            "notices": builds.notices,
            "failed": [f"{failure.what}: {failure.said}" for failure in builds.failures],
        },
        "spending": {
            "today": _cost_fields(statistics.spending.today),
            f"last_{SPENDING_DAYS}_days": _cost_fields(statistics.spending.month),
            "by_purpose": {
                purpose: _cost_fields(spent)
                for purpose, spent in statistics.spending.by_purpose.items()
            },
        },
        "usefulness": _usefulness(statistics.usefulness),
        "waiting": sum(waiting.count for waiting in statistics.waiting),
    }


def score_edges(scores: Values) -> tuple[float, ...]:
    """Return even edges from 0 to the greatest score, rounded up to a tenth."""
    greatest = max(float(np.ceil(10 * scores.max(initial=0.0)) / 10), 0.1)
    return tuple(np.linspace(0.0, greatest, SCORES + 1).round(6).tolist())


def counts(values: Values, edges: Sequence[float]) -> list[int]:
    """Count the values between each edge and the next.

    Values beyond the last edge count in the last step, those below the first in the first.
    """
    places = np.searchsorted(np.array(edges[1:-1]), values, side="right")
    steps: list[int] = np.bincount(places, minlength=len(edges) - 1).tolist()
    return steps


def _outcomes(outcomes: RecallOutcomes) -> dict[str, Any]:
    scores = score_edges(outcomes.score)
    return {
        "looked_at": outcomes.looked_at,
        "since": isoformat(outcomes.since) if outcomes.since is not None else None,
        "silent": outcomes.silent,
        "silence": outcomes.silence,
        "took_ms": {
            **{f"p{round(100 * share)}": outcomes.took(share) for share in (0.5, 0.95, 0.99)},
            "edges": TOOK_MS,
            "counts": counts(outcomes.took_ms, (*TOOK_MS, float("inf"))),
        },
        "confidence": {"edges": CONFIDENCE, "counts": counts(outcomes.confidence, CONFIDENCE)},
        "score": {"edges": scores, "counts": counts(outcomes.score, scores)},
    }


def _build_fields(published: Published) -> dict[str, Any]:
    return {
        "number": published.number,
        "at": isoformat(published.at),
        "watermark": published.watermark,
        "memories": published.memories,
        "bytes": published.bytes,
        "took_s": round(published.took_s, 3),
        "checks": len(published.checks),
        "checks_failed": [f"{check.name}: {check.detail}" for check in published.failed],
    }


def _usefulness(usefulness: Usefulness) -> dict[str, Any]:
    return {name: _period(period) for name, period in usefulness.periods.items()} | {
        "kept_today": [
            {
                "id": memory.id,
                "at": isoformat(memory.created_at),
                "project": memory.project,
                "session": memory.session,
                "text": memory.content,
                "take_back": take_back(memory.id),
            }
            for memory in usefulness.kept_today
        ]
    }


def take_back(id_: str) -> str:
    """Return the command that withdraws a statement."""
    return f"mnemolog forget {short_id(id_)}"


def _period(period: Period) -> dict[str, Any]:
    return {
        "since": isoformat(period.since),
        "prompts": {
            "seen": period.prompts,
            "told": period.told,
            "silent": period.silent,
            "near": period.near,
        },
        "briefs": period.briefs,
        "blocks": period.blocks,
        "notes": {
            "given": period.notes,
            "before_a_tool": period.warnings,
            "followed": period.followed,
            "ignored": period.ignored,
            "not_applicable": period.not_applicable,
            "contradicted": period.contradicted,
        },
        "tokens": {
            "given": period.tokens,
            "characters": period.characters,
            "characters_a_token": CHARACTERS,
            "blocks": period.measured,
        },
        "ratings": {"helped": period.helped, "harmed": period.harmed},
        "statements": {
            "kept": period.kept,
            "accepted": period.accepted,
            "taken_back": period.taken_back,
        },
        "episodes": period.episodes,
    }


def _cost_fields(spent: ModelCost) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.to_builtins(spent)
    return payload | {"cost_usd": round(spent.cost_usd, 6)}

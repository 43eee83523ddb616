"""Statistics as JSON: plain values, times in ISO 8601, distributions as counts between edges."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from serve.recall.context_block import short_id
from serve.reports.holdings import Published
from serve.reports.tenant_statistics import (
    SPENDING_DAYS,
    Growth,
    RecallOutcomes,
    Statistics,
    Values,
)
from serve.reports.usefulness import CHARACTERS, Period, Usefulness
from store.home.instants import isoformat
from store.plans.job_catalog import ModelCost

TOOK_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)  # the last has no end
CONFIDENCE = tuple(place / 20 for place in range(21))
SCORES = 20  # steps up to the greatest


def statistics_payload(found: Statistics) -> dict[str, Any]:
    """Return the figures as they are sent."""
    rate, builds = found.rate, found.builds
    return {
        "tenant": found.tenant,
        "at": isoformat(found.at),
        "events": found.events,
        "memories": {
            "total": found.memories.total,
            "active": found.memories.active,
            "by_kind": found.memories.by_kind,
        },
        "disk": msgspec.to_builtins(found.disk) | {"total": found.disk.total},
        "growth": _growth(found.growth),
        "recalls": {
            "a_minute": rate.a_minute,
            "last_hour": rate.last_hour,
            "last_day": rate.last_day,
            "minutes": {"since": isoformat(rate.first_minute), "counts": rate.minutes},
            "days": {"since": isoformat(rate.first_day)[:10], "counts": rate.days},
        }
        | _outcomes(found.answered),
        "ratings": msgspec.to_builtins(found.ratings),
        "builds": {
            "tail": builds.tail,
            "changes": builds.changes,
            "kept": [_build_fields(one) for one in builds.kept],
            "refused": builds.refusal.reasons if builds.refusal else [],
            "notices": builds.notices,
            "failed": [f"{one.what}: {one.said}" for one in builds.failures],
        },
        "spending": {
            "today": _cost_fields(found.spending.today),
            f"last_{SPENDING_DAYS}_days": _cost_fields(found.spending.month),
            "by_purpose": {
                purpose: _cost_fields(spent) for purpose, spent in found.spending.by_purpose.items()
            },
        },
        "usefulness": _usefulness(found.usefulness),
        "waiting": sum(one.count for one in found.waiting),
    }


def score_edges(scores: Values) -> tuple[float, ...]:
    """Return even edges from 0 to the greatest score, rounded up to a tenth."""
    greatest = max(float(np.ceil(10 * scores.max(initial=0.0)) / 10), 0.1)
    return tuple(np.linspace(0.0, greatest, SCORES + 1).round(6).tolist())


def counts(values: Values, edges: Sequence[float]) -> list[int]:
    """Return how many values lie between each edge and the next.

    Values beyond the last edge count in the last step, those below the first in the first.
    """
    places = np.searchsorted(np.array(edges[1:-1]), values, side="right")
    found: list[int] = np.bincount(places, minlength=len(edges) - 1).tolist()
    return found


def _outcomes(said: RecallOutcomes) -> dict[str, Any]:
    scores = score_edges(said.score)
    return {
        "looked_at": said.looked_at,
        "since": isoformat(said.since) if said.since is not None else None,
        "silent": said.silent,
        "silence": said.silence,
        "took_ms": {
            **{f"p{round(100 * share)}": said.took(share) for share in (0.5, 0.95, 0.99)},
            "edges": TOOK_MS,
            "counts": counts(said.took_ms, (*TOOK_MS, float("inf"))),
        },
        "confidence": {"edges": CONFIDENCE, "counts": counts(said.confidence, CONFIDENCE)},
        "score": {"edges": scores, "counts": counts(said.score, scores)},
    }


def _growth(found: Growth) -> dict[str, Any]:
    return {
        "since": isoformat(found.since)[:10],
        "step_days": found.step // 86_400_000_000,
        "memories": found.memories,
        "recalls": found.recalls,
        "others": found.others,
    }


def _build_fields(one: Published) -> dict[str, Any]:
    return {
        "number": one.number,
        "at": isoformat(one.at),
        "watermark": one.watermark,
        "memories": one.memories,
        "bytes": one.bytes,
        "took_s": round(one.took_s, 3),
        "checks": len(one.checks),
        "checks_failed": [f"{check.name}: {check.detail}" for check in one.failed],
    }


def _usefulness(found: Usefulness) -> dict[str, Any]:
    return {name: _period(one) for name, one in found.periods.items()} | {
        "kept_today": [
            {
                "id": one.id,
                "at": isoformat(one.created_at),
                "project": one.project,
                "session": one.session,
                "text": one.content,
                "take_back": take_back(one.id),
            }
            for one in found.kept_today
        ]
    }


def take_back(id_: str) -> str:
    """Return the command that takes a statement back."""
    return f"mnemolog forget {short_id(id_)}"


def _period(one: Period) -> dict[str, Any]:
    return {
        "since": isoformat(one.since),
        "prompts": {
            "seen": one.prompts,
            "told": one.told,
            "silent": one.silent,
            "near": one.near,
        },
        "briefs": one.briefs,
        "blocks": one.blocks,
        "notes": {
            "given": one.notes,
            "before_a_tool": one.warnings,
            "followed": one.followed,
            "ignored": one.ignored,
            "not_applicable": one.not_applicable,
            "contradicted": one.contradicted,
        },
        "tokens": {
            "given": one.tokens,
            "characters": one.characters,
            "characters_a_token": CHARACTERS,
            "blocks": one.measured,
        },
        "ratings": {"helped": one.helped, "harmed": one.harmed},
        "statements": {
            "kept": one.kept,
            "accepted": one.accepted,
            "taken_back": one.taken_back,
        },
        "episodes": one.episodes,
    }


def _cost_fields(spent: ModelCost) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(spent)
    return found | {"cost_usd": round(spent.cost_usd, 6)}

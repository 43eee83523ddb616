"""
Recommendations as they are sent: what is proposed, why, and what a yes would do.
"""

from typing import Any

import msgspec

from store.home.instants import isoformat
from store.plans.recommendations import Recommendation


def shown(one: Recommendation) -> dict[str, Any]:
    """Return a recommendation as JSON has it; `plan` is null unless it was accepted."""
    return {
        "id": one.id,
        "what": one.what,
        "state": one.state,
        "at": isoformat(one.at),
        "project": one.project,
        "because": one.because,
        "source_ids": list(one.source_ids),
        "steps": msgspec.to_builtins(one.change.steps),
        "plan": one.plan,
    }

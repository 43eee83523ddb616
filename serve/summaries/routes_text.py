"""
What the router serves and has learnt: by state and level each action, what is held of it, and what
the log says serving it instead would be worth.
"""

from typing import Any

import msgspec

from serve.recall.off_policy import Worth, gain, worth
from store.derived.routes import LEVELS, STATES, Held, Routes, informative_rewards
from store.home.instants import isoformat


def shown(routes: Routes) -> dict[str, Any]:
    """Return it as JSON has it: the policy, a row for each action that was ever chosen and for each
    that is served beside one, and the policies before, the newest first.
    """
    return {
        "policy": routes.policy(),
        "routes": _rows(routes),
        "history": [
            {**row, "at": isoformat(row["at"]), "policy": msgspec.json.decode(row["policy"])}
            for row in reversed(routes.tables["policies"].to_pylist())
        ],
    }


def _rows(routes: Routes) -> list[dict[str, Any]]:
    policy, held, recalls = routes.policy(), routes.held, routes.recalls
    rows = []
    for state in STATES:
        for level, actions in LEVELS.items():
            served = policy[state][level]
            worths = {
                one: worth(*informative_rewards(recalls, state, level, one)) for one in actions
            }
            known = {one: held.get((state, level, one), Held()) for one in actions}
            if not any(one.recalls for one in known.values()):
                continue
            rows += [
                {
                    "state": state,
                    "level": level,
                    "action": one,
                    "served": one == served,
                    "recalls": known[one].recalls,
                    "rated": known[one].rated,
                    "q": round(known[one].q, 4) if known[one].rated else None,
                    "estimate": None if one == served else _estimate(worths[served], worths[one]),
                }
                for one in actions
            ]
    return rows


def _estimate(served: Worth, other: Worth) -> dict[str, float] | None:
    """Return what serving the other would gain; None where the log never compared the two."""
    if not served.samples or not other.samples:
        return None
    found = gain(served, other)
    return {
        "gain": round(found.value, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "samples": round(other.samples, 1),
    }

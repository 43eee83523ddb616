"""
The router: which of several ways to answer a recall takes, by what the asker is at.

It serves the policy that was adopted last; now and then, where that is wanted, it tries another
action at one level, drawn from the receipt's id, so that the receipt tells how likely that was and
the same receipt always tries the same.
"""

from dataclasses import dataclass, field
from hashlib import sha256

from store.derived.routing import LEVELS, Policy, complete_policy, route_state
from store.log.event_kinds import Route

_RANGE = 2.0**64


@dataclass(frozen=True, slots=True)
class Router:
    """How one recall is to be routed.

    `levels` are those that change what it answers; `explore` is the share of recalls that try
    something, of which `receipt`, an id, says whether this is one; without a receipt none is.
    """

    policy: Policy = field(default_factory=lambda: complete_policy({}))
    levels: tuple[str, ...] = ("search",)
    explore: float = 0.0
    receipt: str | None = None

    def route(self, mode: str | None) -> Route:
        """Return what is chosen for a task mode, and how likely it was to be chosen."""
        here = route_state(mode)
        served = {level: self.policy[here][level] for level in self.levels}
        if self.receipt is None or not self.explore or not served:
            return Route(here, served, 1.0)
        is_tried, which, other = _draws(self.receipt)
        if is_tried >= self.explore:
            return Route(here, served, 1.0 - self.explore)
        level = self.levels[int(which * len(self.levels))]
        others = [one for one in LEVELS[level] if one != served[level]]
        actions = served | {level: others[int(other * len(others))]}
        likely = self.explore / len(self.levels) / len(others)
        return Route(here, actions, likely, tried=level)


def bar(search: str | None, usual: float) -> float:
    """Return the least confidence that `search` asks for, where the settings ask for `usual`."""
    match search:
        case "high_threshold":
            return usual + 0.3 * (1.0 - usual)
        case "low_threshold":
            return usual / 2
        case _:
            return usual


def most(search: str | None, usual: int) -> int:
    """Return how many memories `search` lets come back, where the settings say `usual`."""
    match search:
        case "high_threshold":
            return max(1, usual // 2)
        case "low_threshold":
            return usual + usual // 2
        case _:
            return usual


def _draws(receipt: str) -> tuple[float, float, float]:
    """Return three numbers in [0, 1) that always belong to a receipt."""
    digest = sha256(f"route\x00{receipt}".encode()).digest()
    first, second, third = (
        int.from_bytes(digest[start : start + 8], "big") / _RANGE for start in (0, 8, 16)
    )
    # the quotient of the greatest numbers rounds to 1
    return min(first, 1 - 2**-53), min(second, 1 - 2**-53), min(third, 1 - 2**-53)

"""
routes: the router's values of each action in each state, the policies it served, and the recalls
behind both.

The reward of a recall is the mean of its explicit ratings, else of those given within a day to the
memories it returned; else the sum of its judged verdicts, in [-1, 1]; a recall that returned
nothing has 0: it neither helped nor harmed. Q moves by ALPHA of the difference to each reward, in
the order of the recalls, as Watkins' rule (https://doi.org/10.1007/BF00992698) does where no state
follows another. A recall that tried an action at one level is no evidence about the other levels.

The newest KEPT recalls stay open for ratings; those before are settled.

A state is the caller's task mode, or none. The `Router` serves the policy that was adopted last. If
asked to, it now and then tries another action at one level, drawn from the receipt's id, so that
the receipt gives the probability of the draw and the same receipt always tries the same action.
With all defaults, recall works as it does without a router.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.log.event_kinds import Actions, Adopted, Judged, Rated, Recalled, Route
from store.log.events import Event
from store.log.receipts import SOON_US
from store.snapshots.projection import Inputs, Made, Previous, Projection, Tables
from store.text.text_features import MAY_RULE

State = Literal["debug", "architecture", "coding", "review", "plan", "routine", "none"]
Policy = Mapping[str, Actions]  # an action for each level, by state

STATES: tuple[State, ...] = get_args(State)
LEVELS: Mapping[str, tuple[str, ...]] = {
    "search": ("high_threshold", "medium_threshold", "low_threshold"),
    "llm": ("cheap", "balanced", "expensive"),
    "context": ("raw", "summarize"),
    "proactivity": ("passive", "proactive"),
}
ALPHA = 0.1  # how far one reward moves an action's value
EPSILON = 0.15  # the `explore` recommended for a router that should learn

_USUAL = {
    "search": "medium_threshold",
    "llm": "cheap",
    "context": "raw",
    "proactivity": "proactive",
}
_THINKING = _USUAL | {"llm": "balanced"}  # modes in which an answer weighs more than its price
DEFAULTS: Policy = {
    "debug": _THINKING,
    "architecture": _THINKING,
    "coding": _USUAL,
    "review": _USUAL,
    "plan": _USUAL,
    "routine": _USUAL,
    "none": _USUAL,
}


def route_state(mode: str | None) -> str:
    """Return the state of a task mode; an unknown one is none."""
    return mode if mode in STATES else "none"


def complete_policy(policy: Policy) -> dict[str, Actions]:
    """Return a policy for every state and level; missing entries, and actions that this version
    does not have, become the default.
    """
    return {
        state: {
            level: action if (action := policy.get(state, {}).get(level)) in known else usual[level]
            for level, known in LEVELS.items()
        }
        for state, usual in DEFAULTS.items()
    }


_RANGE = 2.0**64  # of eight bytes


class Router(msgspec.Struct, frozen=True):
    """The routing of one recall.

    `levels` are those that change its results; `explore` is the share of recalls that try another
    action. `receipt`, an id, decides if this recall is one of them; without a receipt none is.
    """

    policy: Policy = msgspec.field(default_factory=lambda: complete_policy({}))
    levels: tuple[str, ...] = ("search",)
    explore: float = 0.0
    receipt: str | None = None

    def route(self, mode: str | None) -> Route:
        """Return the actions for a task mode, and the probability that they were chosen."""
        here = route_state(mode)
        served = {level: self.policy[here][level] for level in self.levels}
        if self.receipt is None or not self.explore or not served:
            return Route(here, served, 1.0)
        is_tried, which, other = _draws(self.receipt)
        if is_tried >= self.explore:
            return Route(here, served, 1.0 - self.explore)
        level = self.levels[int(which * len(self.levels))]
        others = [action for action in LEVELS[level] if action != served[level]]
        actions = served | {level: others[int(other * len(others))]}
        likely = self.explore / len(self.levels) / len(others)
        return Route(here, actions, likely, tried=level)


def _draws(receipt: str) -> tuple[float, float, float]:
    """Return three numbers in [0, 1) that always belong to a receipt."""
    digest = sha256(f"route\x00{receipt}".encode()).digest()
    first, second, third = (
        int.from_bytes(digest[start : start + 8], "big") / _RANGE for start in (0, 8, 16)
    )
    # the quotient of the greatest numbers rounds to 1
    return min(first, 1 - 2**-53), min(second, 1 - 2**-53), min(third, 1 - 2**-53)


Values = npt.NDArray[np.float64]

KEPT = 5_000  # recalls
RECENT = 1_000  # of these, those whose memories may still be rated; fewer than KEPT

_KEY = [("state", pa.string()), ("level", pa.string()), ("action", pa.string())]
ROUTES = pa.schema(
    [
        *_KEY,
        ("recalls", pa.int64()),
        ("rated", pa.int64()),  # those with a reward
        ("q", pa.float64()),
    ]
)
POLICIES = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),  # microseconds UTC
        ("policy", pa.string()),  # JSON, as it was adopted
        ("recalls", pa.int64()),
        ("value", pa.float64()),
        ("served", pa.float64()),
        ("low", pa.float64()),
    ]
)
RECALLS = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),
        ("state", pa.string()),
        *((level, pa.string()) for level in LEVELS),  # the action; null where none was chosen
        ("propensity", pa.float64()),
        ("tried", pa.string()),
        ("brought", pa.int64()),
        ("hits", pa.list_(pa.string())),  # of the RECENT ones
        ("ratings", pa.int64()),
        ("verdicts", pa.float64()),  # their sum
        ("of_hits", pa.int64()),  # ratings of memories it returned
        ("verdicts_of_hits", pa.float64()),
        ("judged", pa.float64()),  # null where it was not
    ]
)


@dataclass
class Recall:
    """A recall routed by the router, and its ratings and verdicts since."""

    id: str
    at: int
    state: str
    actions: Mapping[str, str]
    propensity: float
    tried: str | None
    brought: int
    hits: list[str]
    ratings: int = 0
    verdicts: float = 0.0
    of_hits: int = 0
    verdicts_of_hits: float = 0.0
    judged: float | None = None

    @property
    def reward(self) -> float | None:
        """Its reward in [-1, 1]; None if unknown."""
        if self.ratings:
            return self.verdicts / self.ratings
        if self.of_hits:
            return self.verdicts_of_hits / self.of_hits
        if self.judged is not None:
            return self.judged
        return None if self.brought else 0.0

    def tells_of(self, level: str) -> bool:
        """Return True if its reward is that of the level's action: all others were as served."""
        return level in self.actions and self.tried in (None, level)

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Recall":
        actions = {level: action for level in LEVELS if (action := row.pop(level)) is not None}
        return cls(actions=actions, **row)

    @property
    def row(self) -> dict[str, Any]:
        return vars(self) | {level: self.actions.get(level) for level in LEVELS}


@dataclass
class Held:
    """The value of an action in a state, and the evidence for it."""

    recalls: int = 0
    rated: int = 0
    q: float = 0.0

    def add(self, reward: float | None) -> None:
        self.recalls += 1
        if reward is not None:
            self.rated += 1
            self.q += ALPHA * (reward - self.q)


Key = tuple[str, str, str]  # state, level, action
Table = dict[Key, Held]


@dataclass
class Fold:
    """The kept recalls by id, the settled sums of those before, and the policies."""

    recalls: dict[str, Recall] = field(default_factory=dict)
    settled: Table = field(default_factory=dict)
    policies: list[dict[str, Any]] = field(default_factory=list)
    recent: deque[str] = field(init=False)  # ids, the oldest first

    def __post_init__(self) -> None:
        self.recent = deque(list(self.recalls)[-RECENT:])

    @classmethod
    def of(cls, tables: Tables) -> "Fold":
        return cls(
            {row["id"]: Recall.of(row) for row in tables["recalls"].to_pylist()},
            _load_table(tables["settled"]),
            tables["policies"].to_pylist(),
        )

    def apply(self, event: Event) -> bool:
        """Add an event; return False if it does not count."""
        match event.body:
            case Recalled(route=route) as body if route is not None:
                return self._add_recall(event, body)
            case Adopted() as body:
                self.policies.append(_adoption_row(event, body))
                return True
            case Rated(verdict=verdict) if event.trust in MAY_RULE:
                return self._add_rating(event, verdict)
            case Judged(verdicts=verdicts) if event.trust in MAY_RULE:
                recall = self.recalls.get(event.subject)
                if recall is not None:
                    recall.judged = max(-1.0, min(1.0, sum(verdicts.values())))
                return recall is not None
        return False

    def _add_recall(self, event: Event, body: Recalled) -> bool:
        route = body.route
        assert route is not None
        actions = {
            level: action
            for level, possible in LEVELS.items()
            if (action := route.actions.get(level)) in possible
        }
        if route.state not in STATES or not actions or not 0.0 < route.propensity <= 1.0:
            return False  # of another version
        hits = [hit.id for hit in body.hits]
        self.recalls[event.id] = Recall(
            event.id, event.at, route.state, actions, route.propensity, route.tried, len(hits), hits
        )
        self.recent.append(event.id)
        if len(self.recent) > RECENT:
            self.recalls[self.recent.popleft()].hits = []
        if len(self.recalls) > KEPT:
            oldest = self.recalls.pop(next(iter(self.recalls)))
            _learn(self.settled, [oldest])
        return True

    def _add_rating(self, event: Event, verdict: float) -> bool:
        recall = self.recalls.get(event.subject)
        if recall is not None:
            recall.ratings += 1
            recall.verdicts += verdict
            return True
        recent = (self.recalls[id_] for id_ in reversed(self.recent))  # the newest that returned it
        brought = next((each for each in recent if event.subject in each.hits), None)
        if brought is None or not brought.at <= event.at <= brought.at + SOON_US:
            return False
        brought.of_hits += 1
        brought.verdicts_of_hits += verdict
        return True

    def tables(self) -> Tables:
        """Return the fold as tables; the values are ordered by state, level and action."""
        values = {
            key: Held(entry.recalls, entry.rated, entry.q) for key, entry in self.settled.items()
        }
        _learn(values, self.recalls.values())
        return {
            "routes": _table(values),
            "policies": pa.Table.from_pylist(self.policies, POLICIES),
            "recalls": pa.Table.from_pylist(
                [recall.row for recall in self.recalls.values()], RECALLS
            ),
            "settled": _table(self.settled),
        }


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Add the events since `previous` to its tables."""
    fold = Fold() if previous is None else Fold.of(previous.tables)
    counted = [fold.apply(event) for event in inputs.read(previous.watermark if previous else 0)]
    if previous is not None and not any(counted):
        return previous.tables.parts
    return fold.tables()


def _learn(values: Table, recalls: Iterable[Recall]) -> None:
    for recall in recalls:
        reward = recall.reward
        for level, action in recall.actions.items():
            if recall.tells_of(level):
                values.setdefault((recall.state, level, action), Held()).add(reward)


def _table(values: Table) -> pa.Table:
    names = ("state", "level", "action")
    rows = [dict(zip(names, key, strict=True)) | asdict(values[key]) for key in sorted(values)]
    return pa.Table.from_pylist(rows, ROUTES)


def _load_table(table: pa.Table) -> Table:
    return {
        (row["state"], row["level"], row["action"]): Held(row["recalls"], row["rated"], row["q"])
        for row in table.to_pylist()
    }


def _adoption_row(event: Event, body: Adopted) -> dict[str, Any]:
    return {
        "id": event.id,
        "at": event.at,
        "policy": msgspec.json.encode(body.policy, order="sorted").decode(),
        "recalls": body.recalls,
        "value": body.value,
        "served": body.served,
        "low": body.low,
    }


def informative_rewards(
    recalls: Iterable[Recall], state: str, level: str, action: str
) -> tuple[Values, Values]:
    """Return the rewards of the recalls that are evidence for an action, and their weights, one
    over its probability; both [n].

    Only recalls that might have tried another action are comparable.
    """
    weighted = [
        (reward, 1.0 / recall.propensity)
        for recall in recalls
        if recall.state == state
        and recall.propensity < 1.0
        and recall.tells_of(level)
        and recall.actions[level] == action
        and (reward := recall.reward) is not None
    ]
    both = np.array(weighted, np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@dataclass(frozen=True)
class Routes:
    """The router's tables of a build, opened."""

    tables: Tables

    @classmethod
    def empty(cls) -> "Routes":
        return cls({name: of.empty_table() for name, of in ROUTES_PROJECTION.schemas.items()})

    def policy(
        self, at: int | None = None, adopted: Iterable[Event] = (), undone: Set[str] = frozenset()
    ) -> Policy:
        """Return the policy served now, or at a moment in microseconds, for every state and level.

        `adopted` are events since the build, the oldest first; those `undone` count no more.
        """
        rows = [*self.tables["policies"].to_pylist()]
        rows += [
            _adoption_row(event, event.body) for event in adopted if isinstance(event.body, Adopted)
        ]
        policy: Policy = {}
        for row in rows:
            if (at is None or row["at"] <= at) and row["id"] not in undone:
                policy = msgspec.json.decode(row["policy"])
        return complete_policy(policy)

    @property
    def action_values(self) -> Table:
        """The value of each action in each state, for actions that were ever chosen."""
        return _load_table(self.tables["routes"])

    @property
    def recalls(self) -> list[Recall]:
        """The kept recalls, the oldest first."""
        return [Recall.of(row) for row in self.tables["recalls"].to_pylist()]


ROUTES_PROJECTION = Projection(
    name="routes",
    version="1",
    inputs=("log",),
    schemas={"routes": ROUTES, "policies": POLICIES, "recalls": RECALLS, "settled": ROUTES},
    build=build,
    for_builds=frozenset({"settled"}),
)

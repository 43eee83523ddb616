"""
Asked: what the lab is asked for, read from an address and written back as one.

Only what differs from the settings stands in an address, so a link stays short and means the same
for whoever opens it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import msgspec

from serve import moments
from serve.answers import RecallRequest
from serve.query.analysis import Mode
from store.config import Choices, Layer, changed
from store.errors import ConfigError, InvalidInput
from store.events import MEMORY_KINDS, TIERS
from store.profiles import Profile

ANY, NONE = "", "-"  # of the projects: all; the memories of none
LAYERS: tuple[str, ...] = get_args(Layer)
MODES: tuple[str, ...] = get_args(Mode)
PROFILES: tuple[str, ...] = get_args(Profile)
FUSIONS = ("weighted", "rrf")
States = Literal["current", "cold", "all"]
STATES: tuple[str, ...] = get_args(States)


class Parameters(Protocol):
    """The parameters of an address; a name may be there more than once."""

    def get(self, name: str, /) -> str | None: ...
    def getlist(self, name: str, /) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two settings: the mode, and the choices a recall is answered under."""

    name: Literal["A", "B"]
    mode: str
    choices: Choices

    @property
    def prefix(self) -> str:
        """What the side's parameters begin with in an address."""
        return "" if self.name == "A" else "b_"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, whose memories it may bring, and under what; `b` where two are compared.

    Dates and the least score are as they were typed.
    """

    query: str
    project: str
    kinds: tuple[str, ...]
    tiers: tuple[str, ...]
    tags: str
    since: str
    until: str
    as_of: str
    min_score: str
    states: str
    a: Side
    b: Side | None


def read(sent: Parameters, choices: Choices) -> Asked:
    """Return what an address asks for; raise InvalidInput naming what is wrong with it."""

    def said(name: str) -> str:
        return (sent.get(name) or "").strip()

    return Asked(
        query=said("q"),
        project=said("project"),
        kinds=_named("kind", sent.getlist("kind"), MEMORY_KINDS),
        tiers=_named("tier", sent.getlist("tier"), TIERS),
        tags=said("tags"),
        since=said("since"),
        until=said("until"),
        as_of=said("as_of"),
        min_score=said("min_score"),
        states=_named("states", [said("states") or "current"], STATES)[0],
        a=_side("A", sent, choices),
        b=_side("B", sent, choices) if said("compare") else None,
    )


def _side(name: Literal["A", "B"], sent: Parameters, choices: Choices) -> Side:
    prefix = "" if name == "A" else "b_"
    changes = {
        key: value
        for key in ("profile", "fusion", "min_confidence", "top_k")
        if (value := (sent.get(prefix + key) or "").strip())
    }
    if sent.get(f"{prefix}set"):  # a form that was sent: no box ticked means none
        changes["layers"] = ",".join(sent.getlist(f"{prefix}layers"))
    mode = _named("mode", [sent.get(f"{prefix}mode") or "auto"], MODES)[0]
    try:
        return Side(name, mode, changed(choices, changes))
    except ConfigError as error:
        raise InvalidInput(f"setting {name}: {error}") from error


def _named(what: str, values: Sequence[str], there_are: Sequence[str]) -> tuple[str, ...]:
    if unknown := [one for one in values if one not in there_are]:
        raise InvalidInput(f"`{what}` is {unknown[0]!r}: there are {', '.join(there_are)}")
    return tuple(values)


def request(asked: Asked, side: Side, usual: Choices, now: int) -> RecallRequest:
    """Return what recall is asked under one of the settings: it leaves no receipt.

    A bar or a number that is not that of the settings is meant: no router changes it then. Raise
    InvalidInput for a date that is none.
    """
    choices = side.choices
    wanted: dict[str, Any] = {
        "query": asked.query,
        "project": {ANY: None, NONE: ""}.get(asked.project, asked.project),
        "kinds": asked.kinds,
        "tiers": asked.tiers,
        "tags": tuple(one for part in asked.tags.split(",") if (one := part.strip())),
        "since": moments.moment_if_any(asked.since, now),
        "until": moments.moment_if_any(asked.until, now),
        "as_of": moments.moment_if_any(asked.as_of, now),
        "active_only": asked.states != "all",
        "cold": asked.states == "cold",
        "min_score": asked.min_score or 0.0,
        "mode": side.mode,
        "top_k": choices.top_k if choices.top_k != usual.top_k else None,
        "min_confidence": (
            choices.min_confidence if choices.min_confidence != usual.min_confidence else None
        ),
        "explain": True,
        "touch": False,
    }
    try:
        return msgspec.convert(wanted, RecallRequest, strict=False)  # numbers are typed
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error


def link(asked: Asked, usual: Choices) -> list[tuple[str, str]]:
    """Return the parameters of the address that asks the same."""
    plain = {
        "q": asked.query,
        "project": asked.project,
        "tags": asked.tags,
        "since": asked.since,
        "until": asked.until,
        "as_of": asked.as_of,
        "min_score": asked.min_score,
        "states": asked.states if asked.states != "current" else "",
    }
    pairs = [(name, value) for name, value in plain.items() if value]
    pairs += [("kind", one) for one in asked.kinds] + [("tier", one) for one in asked.tiers]
    pairs += _link(asked.a, usual)
    return [*pairs, ("compare", "1"), *_link(asked.b, usual)] if asked.b else pairs


def _link(side: Side, usual: Choices) -> list[tuple[str, str]]:
    mine: Mapping[str, Any] = msgspec.structs.asdict(side.choices)
    pairs = [
        (f"{side.prefix}{name}", str(mine[name]))
        for name in ("profile", "fusion", "min_confidence", "top_k")
        if mine[name] != getattr(usual, name)
    ]
    if side.mode != "auto":
        pairs.append((f"{side.prefix}mode", side.mode))
    if side.choices.layers != usual.layers:
        pairs.append((f"{side.prefix}set", "1"))
        pairs += [(f"{side.prefix}layers", one) for one in side.choices.layers]
    return pairs

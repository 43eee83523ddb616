"""
The recall lab: one question under one or two settings, and the outcome of every stage.

The question and the settings are read from an address and written back as one, which contains only
the differences from the user's settings. Nothing is stored, and the embedder is the only model
used.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, Protocol, get_args

import msgspec

from serve import formatting
from serve.formatting import EVIDENCE_LABELS
from serve.hooks import speaking
from serve.hooks.call import Call
from serve.hooks.prompt import compose, look_up, prompt_router, recap
from serve.hosts.event import HookEvent
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall.analysis import Mode
from serve.recall.context_block import Block, block, note
from serve.recall.request import RecallRequest, answer
from serve.server.open_tenants import OpenTenant
from store.agents.prompt_classifier import read_intent
from store.agents.prompt_statements import PromptStatement, find_statements
from store.home.config import Choices, Profile, change_choices
from store.home.errors import ConfigError, InvalidInput
from store.log.event_kinds import MEMORY_KINDS, TIERS, Acted, Intent, Prompted, Recalled
from store.log.events import Event
from store.memories.memory import Memory

ANY, NONE = "", "-"  # of the projects: all; the memories of none
MODES: tuple[str, ...] = get_args(Mode)
PROFILES: tuple[str, ...] = get_args(Profile)
FUSIONS = ("weighted", "rrf")
STATES = ("current", "cold", "all")


class Parameters(Protocol):
    """The parameters of an address; a name may be there more than once."""

    def get(self, name: str, /) -> str | None: ...
    def getlist(self, name: str, /) -> list[str]: ...


class Side(msgspec.Struct, frozen=True):
    """One of the two settings: the mode, and the choices a recall is answered under."""

    name: Literal["A", "B"]
    mode: str
    choices: Choices

    @property
    def prefix(self) -> str:
        """The prefix of the side's parameters in an address."""
        return "" if self.name == "A" else "b_"


class LabQuestion(msgspec.Struct, frozen=True):
    """A question, the memories it may return, and the settings; `b` if two are compared.

    Dates and the least score are kept as typed. With `known`, `as_of` is not the moment at which
    memories were valid: the memory is asked as known then.
    """

    query: str
    project: str
    kinds: tuple[str, ...]
    tiers: tuple[str, ...]
    tags: str
    since: str
    until: str
    as_of: str
    known: bool
    min_score: str
    states: str
    a: Side
    b: Side | None


def parse_parameters(sent: Parameters, choices: Choices) -> LabQuestion:
    """Return the question of an address; raise InvalidInput naming the fault."""

    def text_of(name: str) -> str:
        return (sent.get(name) or "").strip()

    return LabQuestion(
        query=text_of("q"),
        project=text_of("project"),
        kinds=_side_parameters("kind", sent.getlist("kind"), MEMORY_KINDS),
        tiers=_side_parameters("tier", sent.getlist("tier"), TIERS),
        tags=text_of("tags"),
        since=text_of("since"),
        until=text_of("until"),
        as_of=text_of("as_of"),
        known=bool(text_of("known")),
        min_score=text_of("min_score"),
        states=_side_parameters("states", [text_of("states") or "current"], STATES)[0],
        a=_parse_side("A", sent, choices),
        b=_parse_side("B", sent, choices) if text_of("compare") else None,
    )


def _parse_side(name: Literal["A", "B"], sent: Parameters, choices: Choices) -> Side:
    prefix = "" if name == "A" else "b_"
    changes = {
        key: value
        for key in ("profile", "fusion", "min_confidence", "top_k")
        if (value := (sent.get(prefix + key) or "").strip())
    }
    mode = _side_parameters("mode", [sent.get(f"{prefix}mode") or "auto"], MODES)[0]
    try:
        return Side(name, mode, change_choices(choices, changes))
    except ConfigError as error:
        raise InvalidInput(f"setting {name}: {error}") from error


def _side_parameters(name: str, values: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    if unknown := [value for value in values if value not in allowed]:
        raise InvalidInput(f"`{name}` is {unknown[0]!r}: choose from {', '.join(allowed)}")
    return tuple(values)


def request(question: LabQuestion, side: Side, usual: Choices, now: int) -> RecallRequest:
    """Return the request to recall under one of the settings: it leaves no receipt.

    A bar or a number that is not that of the settings is meant: no router changes it then. Raise
    InvalidInput for a date that is none.
    """
    choices = side.choices
    wanted: dict[str, Any] = {
        "query": question.query,
        "project": {ANY: None, NONE: ""}.get(question.project, question.project),
        "kinds": question.kinds,
        "tiers": question.tiers,
        "tags": tuple(tag for part in question.tags.split(",") if (tag := part.strip())),
        "since": formatting.parse_optional_time(question.since, now),
        "until": formatting.parse_optional_time(question.until, now),
        "as_of": formatting.parse_optional_time("" if question.known else question.as_of, now),
        "active_only": question.states != "all",
        "cold": question.states == "cold",
        "min_score": question.min_score or 0.0,
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


def link(question: LabQuestion, usual: Choices) -> list[tuple[str, str]]:
    """Return the parameters of the address that asks the same."""
    plain = {
        "q": question.query,
        "project": question.project,
        "tags": question.tags,
        "since": question.since,
        "until": question.until,
        "as_of": question.as_of,
        "known": "1" if question.known else "",
        "min_score": question.min_score,
        "states": question.states if question.states != "current" else "",
    }
    pairs = [(name, value) for name, value in plain.items() if value]
    pairs += [("kind", kind) for kind in question.kinds] + [
        ("tier", tier) for tier in question.tiers
    ]
    pairs += _link(question.a, usual)
    return [*pairs, ("compare", "1"), *_link(question.b, usual)] if question.b else pairs


def _link(side: Side, usual: Choices) -> list[tuple[str, str]]:
    mine: Mapping[str, Any] = msgspec.structs.asdict(side.choices)
    pairs = [
        (f"{side.prefix}{name}", str(mine[name]))
        for name in ("profile", "fusion", "min_confidence", "top_k")
        if mine[name] != getattr(usual, name)
    ]
    if side.mode != "auto":
        pairs.append((f"{side.prefix}mode", side.mode))
    return pairs


# A question under one setting


class Stage(msgspec.Struct, frozen=True):
    """The number of memories left after a stage, and the stage's text."""

    name: str
    left: int
    said: str


class SideAnswer(msgspec.Struct, frozen=True):
    """The answer of recall, `payload`, as the API sends it with `explain`.

    `block` is the text that a host would put before its model if it injected all of the hits;
    `preview_prompt_hook` returns the part that it would.
    """

    side: Side
    payload: Mapping[str, Any]
    stages: tuple[Stage, ...]
    block: Block

    @property
    def hits(self) -> list[Mapping[str, Any]]:
        hits: list[Mapping[str, Any]] = self.payload["hits"]
        return hits

    @property
    def why(self) -> Mapping[str, Any]:
        payload: Mapping[str, Any] = self.payload["why"]
        return payload

    @property
    def features(self) -> list[str]:
        """The kinds of evidence that add to any hit, the greatest first."""
        sums: dict[str, float] = {}
        for hit in self.hits:
            for name, value in hit["why"]["adds"].items():
                sums[name] = sums.get(name, 0.0) + value
        return sorted(sums, key=lambda name: (-sums[name], name))

    @property
    def signals(self) -> list[str]:
        """The signals of the profile, in its order."""
        return list(self.hits[0]["why"]["signals"]) if self.hits else []

    @property
    def columns(self) -> list[dict[str, str]]:
        """The columns of a table of the features: rank, evidence, signals."""
        evidence = [{"title": EVIDENCE_LABELS.get(name, name)} for name in self.features]
        signals = [{"title": name.replace("_", " "), "class": "num"} for name in self.signals]
        return [{"title": "#", "class": "num"}, *evidence, *signals]

    def most(self, name: str) -> float:
        """Return the most that a sort of evidence adds to any hit."""
        return max((hit["why"]["adds"].get(name, 0.0) for hit in self.hits), default=0.0)


def answer_side(
    reader: Reader, question: LabQuestion, side: Side, usual: Choices, now: int
) -> SideAnswer:
    """Return the answer under one setting; raise InvalidInput, as recall does."""
    payload, _ = answer(reader, request(question, side, usual, now), side.choices, now)
    notes = []
    with reader.view() as view:  # the hits before a model, as a prompt's hook writes them
        for hit in payload["hits"]:
            memory = view.tail.find(hit["id"])
            if memory is None:
                continue
            history = (view.tail.find(old["id"]) for old in hit.get("history", ()))
            notes.append(
                note(
                    memory,
                    question.project or None,
                    conflicts_with=hit.get("conflicts_with"),
                    history=[old for old in history if old is not None],
                )
            )
    return SideAnswer(side, payload, _stages(payload), block(notes))


def _stages(payload: Mapping[str, Any]) -> tuple[Stage, ...]:
    why, dropped, hits = payload["why"], payload["why"]["dropped"], len(payload["hits"])
    fused = hits + sum(dropped.values())
    unsure = ("below_bar", "below_score")
    sure = fused - sum(dropped.get(name, 0) for name in unsure)
    bar = payload["min_confidence"]
    channels = ", ".join(f"{name} {count}" for name, count in why["candidates"].items())
    return (
        Stage("In the memory", why["memories"], ""),
        Stage("Passed the filter", why["passed_filter"], ""),
        Stage("Fused", fused, f"from {channels}" if channels else "no channel had any"),
        Stage("Sure enough", sure, f"at the bar of {bar:.2f}" if bar else "no bar is set"),
        Stage("Came back", hits, f"{why['top_k']} at most"),
    )


# The prompt hook's answer to the question, as the first prompt of a new session, by the
# user's own settings


class HookPreview(msgspec.Struct, frozen=True):
    """The `block` that the hook would put before the model, and why.

    `rules` counts the rules and statements that no recall found. `kept` are the statements that it
    would record.
    """

    project: str
    intent: Intent
    block: Block
    weighed: tuple[speaking.Weighed, ...] = ()
    rules: int = 0
    kept: tuple[PromptStatement, ...] = ()


def preview_prompt_hook(
    opened: OpenTenant, prompt: str, project: str, choices: Choices, now: int
) -> HookPreview:
    """Return the hook's answer to a prompt in a project; "" is none."""
    event = HookEvent("lab", "prompt", "", prompt=prompt)
    call = Call(event, opened, choices, project, now)
    reading = read_intent(prompt)
    keeps = choices.remember_words and "prompts" in choices.record
    statements = find_statements(prompt) if keeps else ()
    if reading.is_idle:
        return HookPreview(project, reading.intent, Block(), kept=statements)

    def answer(view: View) -> HookPreview:
        if reading.intent == "recap":
            context = block(list(recap(view, call, reading, {}, frozenset())))
            return HookPreview(project, reading.intent, context, kept=statements)
        prompt_answer = look_up(view, call, reading, prompt_router(view, call), frozenset())
        return HookPreview(
            project,
            reading.intent,
            compose(call, prompt_answer),
            prompt_answer.weighed,
            len(prompt_answer.rules),
            statements,
        )

    return call.ask(answer)


# The known memories that a past prompt did not get


class Unsaid(msgspec.Struct, frozen=True):
    """A memory that the prompt hook weighs but does not inject; `touched` are the files named in it
    that the turn went on to read or edit.
    """

    weighed: speaking.Weighed
    touched: tuple[str, ...]


def find_unsaid(opened: OpenTenant, receipt: Event, choices: Choices, now: int) -> list[Unsaid]:
    """Return the memories that a prompt's receipt could have had and lacks, asked again now: of
    those existing then, first the ones with touched files, then the likeliest to help.
    """
    prompt = receipt.body.query if isinstance(receipt.body, Recalled) else ""
    weighed = preview_prompt_hook(opened, prompt, receipt.project or "", choices, now).weighed
    session = opened.log.session_events(receipt.session, receipt.seq) if receipt.session else ()
    turn = takewhile(lambda event: not isinstance(event.body, Prompted), session)
    acts = [event.body for event in turn if isinstance(event.body, Acted)]
    touched = dict.fromkeys(path for act in acts for path in act.files)
    unsaid = [
        Unsaid(hit, tuple(path for path in touched if _names_file(hit.hit.memory, path)))
        for hit in weighed
        if hit.hit.memory.created_at < receipt.at
    ]
    return sorted(unsaid, key=lambda note: (not note.touched, -note.weighed.excess))


def _names_file(memory: Memory, path: str) -> bool:
    name = re.escape(path.replace("\\", "/").rpartition("/")[2])
    named = re.compile(rf"(?<![\w.-]){name}(?!\w)")  # not the `a.py` of `data.py`
    return any(
        named.search(text) for text in (memory.content, memory.action, memory.result) if text
    )


# The two settings side by side, memory by memory


class ComparisonRow(msgspec.Struct, frozen=True):
    """A memory returned by either side; a rank is None if that side lacks it."""

    hit: Mapping[str, Any]
    a: int | None
    b: int | None
    sure_a: float | None
    sure_b: float | None

    @property
    def move(self) -> int:
        """The places it gains under B; 0 if it is in one side only."""
        return self.a - self.b if self.a is not None and self.b is not None else 0

    @property
    def is_only(self) -> str:
        """The only side that returns it, "A" or "B"; empty if both do."""
        return "A" if self.b is None else "B" if self.a is None else ""


class HitComparison(msgspec.Struct, frozen=True):
    """The memories of both, by the better of their ranks."""

    rows: tuple[ComparisonRow, ...]

    def count(self, only: str) -> int:
        """Count the memories of one answer alone, "A" or "B"; "" for those of both."""
        return sum(row.is_only == only for row in self.rows)

    @property
    def moves(self) -> int:
        return sum(row.move != 0 for row in self.rows)


def compare_hits(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> HitComparison:
    """Return the hits of two answers, those of both and those of one alone."""
    rank_a, rank_b = ({hit["id"]: rank for rank, hit in enumerate(hits, 1)} for hits in (a, b))
    sure_a, sure_b = ({hit["id"]: hit["confidence"] for hit in hits} for hits in (a, b))
    by_id = {hit["id"]: hit for hits in (b, a) for hit in hits}
    rows = [
        ComparisonRow(hit, rank_a.get(id_), rank_b.get(id_), sure_a.get(id_), sure_b.get(id_))
        for id_, hit in by_id.items()
    ]
    none = len(a) + len(b) + 1
    rows.sort(key=lambda row: (min(row.a or none, row.b or none), row.a or none))
    return HitComparison(tuple(rows))

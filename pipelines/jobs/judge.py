"""
The job `judge`: rates unrated recalls by the actions in the two hours after them.

A recall is judged once its two hours, or its session, are over. A recall without a session is
compared with the actions in its project. Without any signal it is judged 0, so that it no longer
waits.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from pipelines.jobs import Context, Proposal
from pipelines.jobs.route import tier_for
from pipelines.llm.prompt import json_lines
from store.home.errors import BudgetSpent, ModelError
from store.home.instants import DAY
from store.log.event_kinds import (
    Acted,
    Followed,
    Judge,
    Judged,
    Made,
    Rated,
    Recalled,
    SessionTold,
    Step,
)
from store.log.events import Event
from store.log.receipts import may_rate, pending
from store.memories.memory import Memory
from store.plans import steps
from store.text.mention_rules import command
from store.text.mentions import mentions
from store.text.text_features import MAY_RULE

# Signals: how the work after a recall used one of its memories.
#
# A file it names was edited or a command it names was run: it helped. Hooks saw whether a lesson
# was followed. A memory that came up again and again during work and never helped counts as
# ignored. Words of a tool or the web never gain: naming many files must not pay.

USED, FOLLOWED, NOT_FOLLOWED, IGNORED = 0.5, 0.5, -0.25, -0.05
AGAIN = 5  # recalls of a memory without effect before it counts as ignored
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_DENIES = re.compile(
    r"\b(?:never|not|no longer|avoid|instead of|rather than|without|forbidden|don['\u2019]?t)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """A verdict in [-1, 1] and its evidence."""

    verdict: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions after a recall: commands as the memory names them, and edited files."""

    commands: frozenset[str]
    files: tuple[str, ...]
    followed: Mapping[str, str]  # the verdict on each lesson, by id

    @property
    def is_empty(self) -> bool:
        return not (self.commands or self.files or self.followed)


def summarize_actions(events: Sequence[Event]) -> Actions:
    """Return the actions in some events, without failed ones and those of a tool or the web."""
    trusted = [event for event in events if event.trust in MAY_RULE]
    acted = [event.body for event in trusted if isinstance(event.body, Acted)]
    ran = [
        name
        for act in acted
        if act.command and act.passed is not False
        for part in _SEPARATORS.split(act.command)
        if (name := command(part.strip())) is not None
    ]
    edited = [path for act in acted if act.doing == "edit" for path in act.files]
    verdicts = {
        event.subject: event.body.verdict
        for event in trusted
        if isinstance(event.body, Followed) and event.body.verdict != "not_applicable"
    }
    return Actions(frozenset(ran), tuple(edited), verdicts)


def signal_for(memory: Memory, actions: Actions, in_vain: int) -> Signal | None:
    """Return the verdict of some actions on a memory; None without a signal.

    `in_vain` is the number of its recalls, this one included, without a sign of use.
    """
    signal = _direct_signal(memory, actions)
    if signal is None and in_vain >= AGAIN and not actions.is_empty:
        signal = Signal(IGNORED, f"brought {in_vain} times and never used")
    if signal is not None and signal.verdict > 0 and memory.trust not in MAY_RULE:
        return None
    return signal


def _direct_signal(memory: Memory, actions: Actions) -> Signal | None:
    verdict = actions.followed.get(memory.id)
    if verdict is not None:
        weight = FOLLOWED if verdict == "followed" else NOT_FOLLOWED
        return Signal(weight, f"the lesson was {verdict}")
    files, commands = _mentions_in(memory.content)
    for path in actions.files:
        edited = path.replace("\\", "/").casefold()
        # a memory may name only the end of a path
        if any(edited == file or edited.endswith(f"/{file}") for file in files):
            return Signal(USED, f"{path} was edited")
    for name in sorted(commands & actions.commands):
        return Signal(USED, f"{name} was run")
    return None


@lru_cache(4_096)
def _mentions_in(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files and the commands in a text; no commands if it denies something, since
    warnings and recommendations look alike.
    """
    names = mentions(text)
    files = frozenset(mention.name.casefold() for mention in names if mention.kind == "file")
    commands = frozenset(mention.name for mention in names if mention.kind == "command")
    return files, frozenset() if _DENIES.search(text) else commands


DAYS = 14  # looked back
AFTER_US = 2 * 3_600 * 1_000_000  # of actions after a recall


@dataclass
class PastUse:
    """The number of recalls of each memory so far, and the memories that were of use."""

    brought: Counter[str] = field(default_factory=Counter)
    used: set[str] = field(default_factory=set)

    def in_vain(self, id_: str) -> int:
        return 0 if id_ in self.used else self.brought[id_]


def propose(context: Context) -> Proposal:
    """Return a judgment for each unjudged recall whose time is over."""
    since = context.now - DAYS * DAY
    waiting = [
        event
        for event in pending(context.log, since, context.now + 1)
        if context.project is None or event.project in (None, context.project)
    ]
    past_use = _past_use(context, since)
    judgments: list[Step] = []
    asks = context.model is not None
    elsewhere = (
        context.log.events_between(("action", "followed"), since, context.now + 1)
        if waiting
        else []
    )
    for recall in waiting:
        after = _events_after(context, recall, elsewhere)
        has_ended = any(
            isinstance(event.body, SessionTold) and event.body.stage == "ended" for event in after
        )
        if has_ended or context.now >= recall.at + AFTER_US:
            step, asks = _judgment(context, recall, after, past_use, asks=asks)
            judgments.append(step)
    young = len(waiting) - len(judgments)
    notes = (f"{young} recalls are too young to be judged",) if young else ()
    silence = "" if waiting else f"no recall of the last {DAYS} days waits for a judgment"
    return Proposal(tuple(judgments), len(waiting), notes, silence)


def _judgment(
    context: Context, recall: Event, after: Sequence[Event], past_use: PastUse, *, asks: bool
) -> tuple[Step, bool]:
    """Return the judgment of a recall, and True if a model may be asked about the next one."""
    body = recall.body
    assert isinstance(body, Recalled)
    actions = summarize_actions(after)
    recalled = (context.rows.find(hit.id) for hit in body.hits)
    # an erased memory has no content
    memories = [memory for memory in recalled if memory is not None and memory.content]
    signals = {
        memory.id: signal
        for memory in memories
        if (signal := signal_for(memory, actions, past_use.in_vain(memory.id))) is not None
    }
    by: Judge = "heuristic"
    made: Made | None = None
    if asks and not any(signal.verdict > 0 for signal in signals.values()):
        opinions, made, asks = _opinions(context, body, memories, after)
        signals = {id_: opinion for id_, opinion in opinions.items() if opinion.verdict} | signals
        by = "model" if made is not None else by
    past_use.used |= {id_ for id_, signal in signals.items() if signal.verdict > 0}
    judged = Judged(
        verdicts={
            hit.id: signals[hit.id].verdict if hit.id in signals else 0.0 for hit in body.hits
        },
        by=by,
        evidence={id_: signal.evidence for id_, signal in signals.items()},
        made=made,
    )
    strongest = sorted(signals.items(), key=lambda pair: -abs(pair[1].verdict))[:3]
    reasons = (f"{id_} {signal.verdict:+.2f}: {signal.evidence}" for id_, signal in strongest)
    return steps.judge(recall.id, judged, "; ".join(reasons) or "nothing tells of it"), asks


def _past_use(context: Context, since: int) -> PastUse:
    past_use = PastUse()
    for event in context.log.events_between(("recalled", "rated"), since, context.now + 1):
        if isinstance(event.body, Recalled):
            past_use.brought.update({hit.id for hit in event.body.hits})
        elif isinstance(event.body, Rated) and event.body.verdict > 0 and may_rate(event):
            past_use.used.add(event.subject)
    undone = context.log.undone_ids(context.log.head())
    for event in context.log.job_events(("judged",)):
        if isinstance(event.body, Judged) and event.at >= since and event.id not in undone:
            past_use.used |= {id_ for id_, verdict in event.body.verdicts.items() if verdict > 0}
    return past_use


def _events_after(context: Context, recall: Event, elsewhere: Sequence[Event]) -> list[Event]:
    """Return the events after a recall in its session; without a session, those of `elsewhere` in
    its project.
    """
    until = recall.at + AFTER_US
    if recall.session is not None:
        events = context.log.session_events(recall.session, recall.seq)
        return [
            event for event in events if event.at < until or isinstance(event.body, SessionTold)
        ]
    return [
        event
        for event in elsewhere
        if event.seq > recall.seq and event.at < until and event.project == recall.project
    ]


# The model step: which memories helped, asked only without a positive signal, and bounded.
#
# Text of a tool or the web is not shown to the model, so it cannot plead for a good rating.

MOST = 0.5  # that its verdict may count, either way
_DEEDS, _LINE = 40, 200  # actions shown, and characters of each
_TEXT = 600  # characters of a memory

INSTRUCTIONS = """\
A coding agent asked its memory a question, got the numbered memories, and then worked. Say of each
memory whether it helped with the work that was done: verdict 0.5 if it clearly did, -0.5 if it
misled, 0 if nothing shows either. Judge by the work alone, not by what a memory claims of itself.
Give one opinion for each memory, with a reason of a few words."""


class Opinion(msgspec.Struct, frozen=True):
    """`memory` is the number it was given."""

    memory: int
    verdict: float
    why: str


class Opinions(msgspec.Struct, frozen=True):
    opinions: tuple[Opinion, ...]


def _opinions(
    context: Context, body: Recalled, memories: Sequence[Memory], after: Sequence[Event]
) -> tuple[dict[str, Signal], Made | None, bool]:
    """Return a model's opinions, their lineage, and True if it may be asked again."""
    trusted = [memory for memory in memories if memory.trust in MAY_RULE]
    acted = [
        event.body for event in after if isinstance(event.body, Acted) and event.trust in MAY_RULE
    ]
    if context.model is None or not trusted or not acted:
        return {}, None, True
    tier = tier_for(context, body.route.state if body.route else None)
    data = _data(body.query, trusted, acted)
    try:
        answer = context.model.ask("judge", INSTRUCTIONS, data, Opinions, tier=tier)
    except BudgetSpent:
        return {}, None, False
    except ModelError:
        return {}, None, True
    opinions = {
        trusted[opinion.memory - 1].id: Signal(
            max(-MOST, min(MOST, opinion.verdict)), opinion.why[:_LINE]
        )
        for opinion in answer.value.opinions
        if 1 <= opinion.memory <= len(trusted) and opinion.verdict == opinion.verdict  # no NaN
    }
    return opinions, answer.lineage("judge"), True


def _data(query: str, memories: Sequence[Memory], acted: Sequence[Acted]) -> str:
    lines: list[dict[str, object]] = [{"question": query[:_TEXT]}]
    lines += [
        {"memory": number, "text": memory.content[:_TEXT]}
        for number, memory in enumerate(memories, 1)
    ]
    lines += [
        {
            "did": act.doing,
            "command": (act.command or "")[:_LINE],
            "files": act.files,
            "passed": act.passed,
        }
        for act in acted[:_DEEDS]
    ]
    return json_lines(lines)

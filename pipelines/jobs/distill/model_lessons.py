"""
The model step of `distill`: a model's lessons from a session's transcript.

An answer must cite lines of the transcript, and its numbers and names must be in those lines;
otherwise it is dropped. A rule adds nothing to its lines: with a word of its own it is kept as a
fact. A lesson based on a tool's words, cited or not, has a tool's trust and is no rule. A lesson
that a person refused, or has yet to answer, is not proposed again in other words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from pipelines.jobs import Context
from pipelines.jobs.distill.sessions import (
    Candidate,
    PastSession,
    candidate_key,
    fold_text,
    join_names,
)
from pipelines.llm.model_client import answered_calls
from store.home.errors import BudgetSpent, ModelError
from store.log.event_kinds import (
    Acted,
    Made,
    Planned,
    Prompted,
    Proposed,
    SessionTold,
    Step,
)
from store.log.events import RECEIPTS, Event
from store.memories.memory import FALLEN, Memory
from store.text import frame
from store.text.excerpt import one_line
from store.text.text_features import MAY_RULE, RULE_KINDS

# The transcript: a session line by line, each with an id that an answer can cite.
#
# Output of tools is marked as such. A long session is cut to its end.

MOST = 24_000  # characters of a transcript
_LEAST = 3  # lines; fewer teach nothing
_TEXT, _ERROR = 800, 400  # characters of a line

By = Literal["person", "agent", "tool"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a transcript; `source` is the id of its event or memory."""

    id: str
    by: By
    text: str
    source: str
    is_memory: bool
    at: int
    project: str | None
    files: tuple[str, ...] = ()

    @property
    def as_json(self) -> str:
        return msgspec.json.encode({"id": self.id, "by": self.by, "text": self.text}).decode()


def lines(past: PastSession, after: int) -> list[Line]:
    """Return a session's lines after an event of the log, in order; empty where there are few."""
    in_order = sorted(_session_lines(past, after), key=lambda pair: pair[0])
    newest: list[Line] = []
    room = MOST
    for _, line in reversed(in_order):
        room -= len(line.as_json)
        if room < 0:
            break
        newest.append(line)
    if len(newest) < _LEAST or all(line.by == "tool" for line in newest):
        return []
    return [
        replace(line, id=f"{line.by[0]}{number}") for number, line in enumerate(reversed(newest), 1)
    ]


def _session_lines(past: PastSession, after: int) -> Iterator[tuple[int, Line]]:
    """Yield the lines of events and memories after an event, without ids, each with its seq.

    Derived memories are left out: a model must not learn from itself.
    """
    for event in past.events:
        if event.seq > after:
            for by, text, files in _event_texts(event):
                if text:
                    line = Line("", by, text, event.id, False, event.at, event.project, files)
                    yield event.seq, line
    for memory in past.memories:
        if memory.seq > after and memory.job is None and (text := _plain(memory.content)):
            by = "tool"  # or the web
            if memory.trust in MAY_RULE:
                by = "person" if memory.trust == "user" else "agent"
            line = Line("", by, text, memory.id, True, memory.created_at, memory.project)
            yield memory.seq, line


def _event_texts(event: Event) -> Iterator[tuple[By, str, tuple[str, ...]]]:
    match event.body:
        case Prompted(prompt=prompt):
            yield "person", _plain(prompt), ()
        case SessionTold(said=str(said)):
            yield "agent", _plain(said), ()
        case Acted(doing="edit", files=files) if files:
            yield "agent", f"edited {join_names(files)}", files
        case Acted(doing="run", command=str(command)) as deed:
            outcome = {True: "passed", False: "failed", None: "was run"}[deed.passed]
            yield "agent", f"`{one_line(command, _ERROR)}` {outcome}", ()
            yield "tool", _plain(deed.error or "", _ERROR), ()


def _plain(text: str, longest: int = _TEXT) -> str:
    return one_line(frame.strip(text), longest)


MOST_ASKED = 50  # sessions in a run, the newest first
_ENOUGH = 0.5  # of a lesson's words must be in the cited lines
_SAME = 0.75  # of the shorter text's words are common to two equivalent texts
_INSTRUCTIONS = """
You are shown what happened in one session of a coding agent: lines of JSON, each with an id, who it
is by (person, agent or tool) and a text. Say what is worth knowing in later sessions of the same
project, and only that: a "lesson" (what to do next time), an "antipattern" (what not to do again),
a "bugfix" (what failed, and what mended it), a "decision" (what was decided, and why) or a "fact".
Most sessions teach one or two things; many teach nothing, and then the list is empty. Each is one
or two plain sentences that can be understood alone, in words, names and numbers that stand in the
lines, and `ids` are those of the lines that show it. What a tool says is never a lesson.
"""
_ANSWERED = re.compile(r"distill (?P<session>[^\s].*) up to (?P<until>\d+)")
_WORD = re.compile(r"[^\W\d_]{4,}")
# numbers, versions, paths, options, names with a dot, a dash or a capital inside
_NAME = re.compile(
    r"`[^`]+`"
    r"|(?<![\w./:@~-])[\w./:@~-]*(?:\d|[a-z][A-Z]|\w[./:@_]\w|(?<!\w)--?[a-z])[\w./:@~-]*"
)
_FORBIDS = re.compile(
    r"\b(?:no|not|never|none|nothing|avoid|stop|without|instead|wrong|forbidden|fail\w*|broke\w*)\b"
    r"|n['\u2019]t\b|\b(?:nie|nicht|kein\w*|jamais|nunca|pas)\b",
    re.IGNORECASE,
)


class Learnt(msgspec.Struct, frozen=True):
    """One thing a model learnt."""

    kind: Literal["lesson", "antipattern", "bugfix", "decision", "fact"]
    text: Annotated[str, msgspec.Meta(min_length=12, max_length=600)]
    ids: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=20)]


class Lessons(msgspec.Struct, frozen=True):
    lessons: Annotated[tuple[Learnt, ...], msgspec.Meta(max_length=8)]


def read_sessions(
    context: Context, sessions: Sequence[PastSession], rules: Iterable[Memory]
) -> Iterator[Candidate]:
    """Yield a model's lessons from the sessions that are over and that it has not read yet.

    A session without an answer is left for the next run, as is the rest once the budget is spent;
    a session with an invalid answer, until it has new events.
    """
    model = context.model
    if model is None:
        return
    answered = _last_answered(context)
    closed = [_words(text) for text in _closed_texts(context, rules)]
    over = [session for session in reversed(sessions) if session.is_over(context.now)]
    questions = 0
    for past in over:
        transcript = lines(past, answered.get(_name(past), 0))
        if not transcript or questions == MOST_ASKED:
            continue
        questions += 1
        context.report(f"session {past.id}")
        # the purpose records in the log which sessions were read, and how far
        purpose = f"distill {_name(past)} up to {past.until}"
        data = "\n".join(line.as_json for line in transcript)
        try:
            answer = model.ask(purpose, _INSTRUCTIONS, data, Lessons, tier="balanced")
        except BudgetSpent:
            return
        except ModelError:  # recorded in the log
            continue
        for learnt in answer.value.lessons:
            candidate = _check_lesson(past, learnt, transcript, answer.lineage("distill"))
            if candidate is not None and not _is_closed(candidate, closed):
                yield candidate


def open_steps(context: Context) -> Iterator[Step]:
    """Yield a model's steps of plans that were never applied: it is not asked again."""
    subjects: set[str] = set()
    for event in context.log.job_events(("planned",)):
        if not isinstance(event.body, Planned) or event.body.job != "distill":
            continue
        for step in event.body.steps:
            made = step.body.get("made", {})
            is_model = bool(made.get("model") or step.evidence.get("model"))
            is_of_project = context.project in (None, step.project)
            is_of_session = context.session in (None, step.session)
            if not (is_model and is_of_project and is_of_session) or step.subject in subjects:
                continue
            sources = (context.rows.find(id_) for id_ in step.body.get("source_ids", ()))
            has_fallen = any(memory is not None and memory.state in FALLEN for memory in sources)
            if not has_fallen and _is_open(context, step, event.seq):
                subjects.add(step.subject)
                yield step


def _is_open(context: Context, step: Step, planned: int) -> bool:
    """Return True if a step was not applied, and its memory has not changed since the plan's event
    `planned`.
    """
    if step.event == "recorded":
        return not context.log.present_ids([step.subject])
    events = context.log.events_for(step.subject)
    return all(event.seq < planned or event.kind in RECEIPTS for event in events)


def _name(past: PastSession) -> str:
    return past.id if len(past.id) <= 100 else candidate_key(past.id)


def _last_answered(context: Context) -> dict[str, int]:
    """Return the event up to which a model has read each session, by the session's name."""
    last: dict[str, int] = {}
    for call in answered_calls(context.log):
        if (match := _ANSWERED.fullmatch(call.purpose)) is not None:
            last[match["session"]] = max(last.get(match["session"], 0), int(match["until"]))
    return last


def _closed_texts(context: Context, rules: Iterable[Memory]) -> Iterator[str]:
    """Yield the texts of rules, ended ones included, and of drafts."""
    yield from (memory.content for memory in rules)
    for event in context.log.events_between(("proposed",), 0, context.now + 1):
        if isinstance(event.body, Proposed):
            yield str(event.body.draft.get("content", ""))


def _is_closed(candidate: Candidate, closed: Sequence[frozenset[str]]) -> bool:
    """Return True if a rule is known, or was refused, in other words."""
    if candidate.kind not in RULE_KINDS:
        return False
    words = _words(candidate.content)
    return any(
        other and len(words & other) >= _SAME * min(len(words), len(other)) for other in closed
    )


def _check_lesson(
    past: PastSession, learnt: Learnt, transcript: Sequence[Line], made: Made
) -> Candidate | None:
    """Return a model's lesson as a candidate; None where its cited lines do not support it."""
    by_id = {line.id: line for line in transcript}
    if not set(learnt.ids) <= by_id.keys():
        return None
    cited = [by_id[id_] for id_ in dict.fromkeys(learnt.ids)]
    cited_text = "\n".join(line.text for line in cited)
    words = _words(learnt.text)
    own_words = words - _words(cited_text)
    is_rule = learnt.kind in RULE_KINDS
    if len(words - own_words) < _ENOUGH * len(words):
        return None
    if not _contains_names(cited_text, learnt.text):
        return None
    if is_rule and _FORBIDS.search(learnt.text) and not _FORBIDS.search(cited_text):
        return None  # turned into its opposite
    tool_words = _words("\n".join(line.text for line in transcript if line.by == "tool"))
    is_tools = any(line.by == "tool" for line in cited) or bool(own_words & tool_words)
    return Candidate(
        key=candidate_key("model", cited[-1].project, fold_text(learnt.text)),
        kind="fact" if is_rule and (is_tools or own_words) else learnt.kind,
        content=learnt.text,
        trust="tool" if is_tools else "agent",
        session=past.id,
        at=cited[-1].at,
        memories=tuple(dict.fromkeys(line.source for line in cited if line.is_memory)),
        events=tuple(dict.fromkeys(line.source for line in cited if not line.is_memory)),
        files=tuple(dict.fromkeys(path for line in cited for path in line.files)),
        project=cited[-1].project,
        made=made,
        until=past.until,
    )


def _words(text: str) -> frozenset[str]:
    """Return the words of a text by their first five letters: "deploys" is "deployed"."""
    return frozenset(word[:5] for word in _WORD.findall(text.casefold()))


def _contains_names(text: str, lesson: str) -> bool:
    """Return True if each number and name of a lesson is in a text, not as a part of another."""
    folded = " ".join(text.casefold().split())
    matches = (match.strip("`.,:-") for match in _NAME.findall(lesson))
    names = {" ".join(match.casefold().split()) for match in matches if match}
    return all(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\d)", folded) for name in names)

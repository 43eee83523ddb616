"""The tools that read: recall and why, get_memory, history, recent, timeline, project_overview."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from serve.formatting import parse_optional_time, parse_time_point
from serve.mcp_server.tool_context import Note, ToolContext, ToolResult, memory_note, recall_note
from serve.reader.filters import Filter
from serve.reader.goals import open_goals
from serve.reader.memory_json import role
from serve.reader.request_fields import Kinds, Query, Topic, When
from serve.reader.view import View, newest
from serve.recall.request import Asker, RecallRequest, answer
from serve.reports import memory_detail, overviews
from serve.reports.why import Remedies, explain_memory
from serve.server.open_tenants import OpenTenant
from store.home.errors import NotFound
from store.home.instants import micros
from store.log import commands
from store.memories.memory import FORGOTTEN, Memory
from store.text.excerpt import plural
from store.text.text_features import RULE_KINDS

T = TypeVar("T")

_HISTORY = 20  # events and edges of one memory
_BRIEF = 10  # memories of a group

Project = Annotated[str, Meta(description="Another project than the one you work in.")]
MemoryId = Annotated[str, Meta(description="A memory's id, or its first letters.", min_length=1)]
Limit = Annotated[int, Meta(description="The maximum number.", ge=1, le=50)]


class Recall(msgspec.Struct, frozen=True):
    query: Query
    limit: Limit | None = None
    project: Project | None = None
    kinds: Kinds | None = None
    since: When | None = None
    until: When | None = None
    as_of: Annotated[str, Meta(description="What held then.", max_length=64)] | None = None
    known_at: Annotated[str, Meta(description="Known then.", max_length=64)] | None = None


class Why(Recall, frozen=True, kw_only=True):
    id: MemoryId


class GetMemory(msgspec.Struct, frozen=True):
    id: MemoryId


class History(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(description="A memory's id, or a key: deploy.region.", min_length=1)]
    project: Project | None = None


class Recent(msgspec.Struct, frozen=True):
    limit: Limit | None = None
    since: When | None = None
    kinds: Kinds | None = None
    project: Project | None = None


class ProjectOverview(msgspec.Struct, frozen=True):
    topic: Topic | None = None
    project: Project | None = None


class Timeline(ProjectOverview, frozen=True):
    since: When | None = None
    until: When | None = None
    limit: Limit | None = None


def recall(here: ToolContext, arguments: Recall) -> ToolResult:
    """Return the hits for a question; without `known_at`, a receipt is written after the answer."""
    with _as_known(here, arguments.known_at) as (then, notices):
        request = _request(then, arguments)
        shared = here.shared if arguments.known_at is None else ()
        asker = Asker(here.session, here.agent, "mcp", shared)
        payload, receipt = answer(then.tenant.reader, request, then.choices, then.now, asker)
    if receipt is not None:
        here.tenant.notes.add(receipt)
    notes = [recall_note(hit) for hit in payload["hits"]]
    text = _recall_sentence(payload)
    is_sure = any("unsure" not in hit for hit in payload["hits"])
    values = {name: payload[name] for name in ("recall",) if is_sure and name in payload}
    values |= {"degraded": True} if payload["degraded"] else {}
    held = payload.get("held_back")
    held_back = [f"{held} held back until the user accepts: `mnemolog lessons`."] if held else []
    text = " ".join([text, *held_back, *payload.get("notices", ()), *notices])
    return ToolResult(text, values, {"memories": notes})


@contextmanager
def _as_known(
    here: ToolContext, known_at: str | None
) -> Iterator[tuple[ToolContext, Sequence[str]]]:
    """Yield the context to answer from, past if `known_at` is set, and notices about it."""
    if known_at is None:
        yield here, ()
        return
    with here.tenant.known_at(known_at, here.choices, here.now) as known:
        then = replace(
            here,
            tenant=OpenTenant(known.tenant, known.log, known.reader),
            choices=known.choices,
            now=known.now,
            off=here.off or "the past is asked",
        )
        yield then, (f"As known after event {known.log.until}.", *known.notes)


def _request(here: ToolContext, arguments: Recall) -> RecallRequest:
    return RecallRequest(
        query=arguments.query,
        project=here.scope(arguments.project),
        top_k=arguments.limit,
        kinds=arguments.kinds or (),
        since=parse_optional_time(arguments.since, here.now),
        until=parse_optional_time(arguments.until, here.now),
        as_of=parse_time_point(arguments.as_of, here.now) if arguments.as_of else None,
        touch=not here.off,
        for_agents=True,
    )


_REMEDIES = Remedies(
    archived="`mnemolog recall --cold` includes it",
    ended="an `as_of` before that includes it",
    expired="an `as_of` before that includes it",
    project="ask with that `project`",
    confidence="which `min_confidence` in the settings sets",
    score="which was asked for",
    rank="raise `limit`",
    insight="`kinds` insight includes it",
)


def why(here: ToolContext, arguments: Why) -> ToolResult:
    """Return the reason a recall finds a memory, or the stage that drops it; write no receipt."""
    with _as_known(here, arguments.known_at) as (then, notices):
        id_ = commands.resolve(then.tenant.log, arguments.id)
        request = msgspec.structs.replace(_request(then, arguments), touch=False, explain=True)
        text = explain_memory(then.tenant.reader, request, then.choices, then.now, id_, _REMEDIES)
    return ToolResult(" ".join([f"{text[0].upper()}{text[1:]}.", *notices]), {"id": id_})


def _recall_sentence(payload: Mapping[str, Any]) -> str:
    hits, below = payload["hits"], payload["below_bar"]
    unsure = sum("unsure" in hit for hit in hits)
    if not hits:
        return f"Nothing recalled. {payload['hint']}"
    if unsure == len(hits):
        text = "No memory is surely about this. The nearest are unsure: do not rely on them."
    elif unsure:
        text = f"{plural(len(hits), 'memory')} recalled, {unsure} of them unsure: "
        text += "may be about other things."
    else:
        text = f"{plural(len(hits), 'memory')} recalled."
    return f"{text} {below} more were below the confidence threshold." if below else text


def get_memory(here: ToolContext, arguments: GetMemory) -> ToolResult:
    """Return one memory in full, with its links and its events."""
    id_ = commands.resolve(here.tenant.log, arguments.id)
    memory, payload = here.tenant.reader.answer(
        lambda view: (
            view.tail.find(id_),
            memory_detail.full_json_by_id(view, here.tenant.log, id_),
        )
    )
    assert memory is not None  # the log has it, and a view covers the whole log
    hidden = None
    if memory.state == FORGOTTEN:
        hidden = f"This memory was forgotten; `mnemolog restore {id_}` brings it back."
    elif "held" in payload:
        hidden = (
            f"Held back from agents until the user accepts it: `mnemolog lessons accept {id_}`."
        )
    fields = payload | {"role": role(memory)}
    if hidden is not None:
        return ToolResult(hidden, groups={"memories": [recall_note(fields)]})
    history = [{"at": event["at"], "event": event["event"]} for event in payload["history"]]
    values: dict[str, object] = {
        "importance": memory.importance,
        "edges": payload["edges"][-_HISTORY:],
        "history": history[-_HISTORY:],
        **{name: payload[name] for name in ("made", "stale_because") if name in payload},
    }
    for name in ("sources", "made_of_it"):
        if name in payload:  # without other memories' texts: they are read by their ids
            values[name] = [
                {key: value for key, value in other.items() if key != "text"}
                for other in payload[name][:_HISTORY]
            ]
    note = recall_note(fields, longest=commands.MAX_CONTENT)
    return ToolResult("One memory.", values, {"memories": [note]})


def history(here: ToolContext, arguments: History) -> ToolResult:
    """Return the values of a key, or a memory's predecessors and successors; newest first."""
    log, answer = here.tenant.log, here.tenant.reader.answer
    project = here.scope(arguments.project)
    memories = answer(lambda view: memory_detail.history_of_key(view, arguments.id, project))
    if not memories:
        try:
            id_ = commands.resolve(log, arguments.id)
        except NotFound as error:
            raise NotFound(f"{error}; nor is it a key here, `project` names another") from error
        memories = answer(lambda view: memory_detail.history_of_memory(view, id_))
    notes = []
    for memory in memories[:_HISTORY]:
        fields = memory_detail.history_fields(memory) | {"role": role(memory)}
        note = recall_note({name: value for name, value in fields.items() if name != "history"})
        notes.append(note | {"from": fields["from"], "until": fields["until"]})
    text = f"{plural(len(memories), 'memory')}, the newest first; `until` null still holds."
    return ToolResult(text, groups={"memories": notes})


def timeline(here: ToolContext, arguments: Timeline) -> ToolResult:
    """Return memories about a topic, or the newest without a topic; oldest first."""
    since, until = _micros(arguments.since, here.now), _micros(arguments.until, here.now)
    wanted = replace(here.filter(arguments.project), since=since, until=until)
    topic, limit = (arguments.topic or "").strip(), arguments.limit or 20
    memories = _answer(
        here,
        lambda view: overviews.timeline(view, topic, wanted, here.choices, limit),
    )
    text = _with_damage(here, f"{plural(len(memories), 'memory')}, the oldest first.")
    return ToolResult(text, groups={"memories": _notes(memories)})


def recent(here: ToolContext, arguments: Recent) -> ToolResult:
    """Return the newest memories, the newest first."""
    since = _micros(arguments.since, here.now)
    wanted = replace(here.filter(arguments.project, arguments.kinds or ()), since=since)
    memories = _newest(here, wanted, arguments.limit or 20)
    text = _with_damage(here, f"{plural(len(memories), 'memory')}, the newest first.")
    return ToolResult(text, groups={"memories": _notes(memories)})


def project_overview(here: ToolContext, overview: ProjectOverview) -> ToolResult:
    """Return the overview of a topic or project: rules, current memories, goals, background."""
    if overview.topic:
        wanted = here.filter(overview.project)
        question = overviews.overview_question(overview.topic, wanted, here.choices)
        of_topic = _answer(here, lambda view: overviews.overview(view, question))
        names = ("rules", "now", "goals", "background", "replaced")
        groups = {name: getattr(of_topic, name) for name in names}
    else:
        groups = of_project(here, overview.project)
    notes = {name: _notes(memories) for name, memories in groups.items() if memories}
    project = here.scope(overview.project)
    where = f"the project {project}" if project else "no project in particular"
    count = sum(len(group) for group in notes.values())
    return ToolResult(_with_damage(here, f"{plural(count, 'memory')} of {where}."), groups=notes)


def of_project(here: ToolContext, project: str | None = None) -> dict[str, Sequence[Memory]]:
    """Return the overview of a project without a topic; each group newest first."""

    def newest_of(*kinds: str) -> list[Memory]:
        return _newest(here, here.filter(project, kinds), _BRIEF)

    wanted = here.filter(project)
    goals = _answer(here, lambda view: open_goals(view, wanted))
    groups: dict[str, Sequence[Memory]] = {
        "rules": [memory for memory in newest_of(*sorted(RULE_KINDS)) if role(memory) == "rule"],
        "now": newest_of("decision"),
        "goals": goals[:_BRIEF],
    }
    ids = {memory.id for memories in groups.values() for memory in memories}
    latest = _newest(here, wanted, 2 * _BRIEF)
    return groups | {"background": [memory for memory in latest if memory.id not in ids][:_BRIEF]}


def _newest(here: ToolContext, wanted: Filter, limit: int) -> list[Memory]:
    return _answer(here, lambda view: newest(view, wanted, limit))


def _answer(here: ToolContext, ask: Callable[[View], T]) -> T:
    """Return the result of `ask`, even without the log; `_with_damage` reports the missing part."""
    return here.tenant.reader.answer(ask, without_log=True)


def _with_damage(here: ToolContext, sentence: str) -> str:
    return " ".join([sentence, *_answer(here, lambda view: view.damage)])


def _notes(memories: Sequence[Memory]) -> list[Note]:
    return [memory_note(memory) for memory in memories]


def _micros(text: str | None, now: int) -> int | None:
    moment = parse_optional_time(text, now)
    return micros(moment) if moment is not None else None

"""
Steps: the events a plan may hold, each with its reason and the fields it replaces.

Jobs make them here, so that a plan's effect on a memory reads the same whichever job made it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from store.home.instants import derived_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    TRUSTS,
    Adopted,
    Archived,
    Body,
    Judged,
    Linked,
    Made,
    Maker,
    Recorded,
    Relation,
    Restored,
    Revised,
    Staled,
    Step,
    Superseded,
    Trust,
)
from store.log.events import encode
from store.memories.memory import Memory

_HASH = 10  # a ULID's letters from here on are those of its hash
_SHOWN = 300  # characters of the old text, in `before`


def content_id(*parts: str) -> str:
    """Return the id for `parts`, the same at any time: the hash of a ULID."""
    return derived_id(0, *parts)[_HASH:]


def result_id(job: Maker, content: str, sources: Sequence[str], at: int) -> str:
    """Return the id of a job's result: the same for the same sources, however often it runs.

    `at` is a moment that belongs to the sources, in microseconds, and not to the run.
    """
    return derived_id(at, job, content, *sorted(sources))


def least_trust(sources: Sequence[Memory]) -> Trust:
    """Return the trust of a text made from some memories: that of the least trusted one."""
    least = max((TRUSTS.index(memory.trust) for memory in sources), default=TRUSTS.index("agent"))
    trust: Trust = msgspec.convert(TRUSTS[least], Trust)
    return trust


def record(draft: Draft, made: Made | None, now: int, why: str, **evidence: Any) -> Step:
    """Return the step that records a job's result; its `id` is set by `result_id`. None was `made`
    by a job: it quotes the user.

    Raise JunkText or InvalidInput for a draft that makes no memory.
    """
    event = commands.memory_event(draft, now)
    assert isinstance(event.body, Recorded)
    body = msgspec.structs.replace(event.body, made=made)
    return Step(
        event="recorded",
        subject=event.id,
        body=_fields(body),
        why=why,
        project=event.project,
        session=event.session,
        trust=event.trust,
        author=event.author,
        evidence=evidence,
    )


def supersede(memory: Memory, by: str, why: str, **evidence: Any) -> Step:
    """Return the step that replaces a memory by another one."""
    return _about(memory, Superseded(by=by, reason=why), why, evidence, visible_fields(memory))


def archive(memory: Memory, why: str, **evidence: Any) -> Step:
    return _about(memory, Archived(reason=why), why, evidence, visible_fields(memory))


def stale(memory: Memory, why: str, file: str | None = None, **evidence: Any) -> Step:
    return _about(memory, Staled(reason=why, file=file), why, evidence, visible_fields(memory))


def restore(memory: Memory, why: str, **evidence: Any) -> Step:
    """Return the step that makes a stale, archived or superseded memory current again."""
    before = visible_fields(memory) | {"state": memory.state, "superseded_by": memory.superseded_by}
    return _about(memory, Restored(reason=why), why, evidence, before)


def revise(memory: Memory, changes: Revised, why: str, **evidence: Any) -> Step:
    """Return the step that replaces those fields of a memory that `changes` sets."""
    before = {name: getattr(memory, name) for name in _fields(changes) if name in _REVISABLE}
    return _about(memory, changes, why, evidence, before)


def link(memory: Memory, target: str, relation: Relation, why: str, **evidence: Any) -> Step:
    return _about(
        memory, Linked(target=target, relation=relation), why, evidence, visible_fields(memory)
    )


def judge(recall: str, judged: Judged, why: str) -> Step:
    """Return the step that records the outcome of a recall, by its receipt's id."""
    return Step(event="judged", subject=recall, body=_fields(judged), why=why)


def adopt(adopted: Adopted, why: str, before: Mapping[str, Any], **evidence: Any) -> Step:
    """Return the step that has the router serve a policy; `before` is the previous one.

    The subject is the policy itself, so that a policy that a person undid is not proposed again.
    """
    text = msgspec.json.encode(adopted.policy, order="sorted").decode()
    return Step(
        event="adopted",
        subject=content_id("policy", text),
        body=_fields(adopted),
        why=why,
        before=dict(before),
        evidence=evidence,
    )


def visible_fields(memory: Memory) -> dict[str, Any]:
    """Return the fields of a replaced memory that a person sees."""
    return {"content": memory.content[:_SHOWN]}


_REVISABLE = frozenset(Revised.__struct_fields__) - {"reason", "ttl_s", "metadata"}


def _about(
    memory: Memory, body: Body, why: str, evidence: dict[str, Any], before: Mapping[str, Any]
) -> Step:
    kind = {
        Superseded: "superseded",
        Archived: "archived",
        Staled: "staled",
        Restored: "restored",
        Revised: "revised",
        Linked: "linked",
    }[type(body)]
    return Step(
        event=kind,
        subject=memory.id,
        body=_fields(body),
        why=why,
        project=memory.project,
        before=dict(before),
        evidence=evidence,
    )


def _fields(body: Body) -> dict[str, Any]:
    """Return a body as plain JSON values, without defaults."""
    fields: dict[str, Any] = msgspec.json.decode(encode(body))
    return fields

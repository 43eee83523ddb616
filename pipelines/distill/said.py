"""
What was said: corrections that hold beyond their prompt, and decisions, each a sentence verbatim.

A correction that waits as a draft, or that a person refused, is theirs: it is left alone.
"""

import re
from collections.abc import Iterable, Iterator

from pipelines.distill.found import Found, key, plain
from pipelines.distill.sessions import Past
from store import frame, lesson_commands
from store.agent_events import Prompted, SessionTold
from store.events import Event
from store.importers.excerpt import one_line
from store.importers.rules import is_passing, only_blames, rules, sentences
from store.log import EventLog
from store.projections.memories import Memory
from store.traits import MAY_RULE

_MOST = 3  # of one text
_LONG = 200  # characters; a shorter memory says its decision itself
_SHORTEST, _LONGEST = 5, 400  # words, characters of a decision
_DECIDES = re.compile(
    r"^(?:(?:ok|okay|so|then|no|yes|and|finally|in the end)(?:\s*[,:])?\s++)?(?:"
    r"(?:we|i)(?:'ve| have)? (?:\w+ly )?(?:decided|agreed|settled|opted|chose|went with)\b"
    r"|(?:decision|decided|agreed)\s*:\s*\S"
    r"|(?:let's|we'll|i'll|we will|i will) (?:use|keep|go with|settle on|stick (?:with|to))\b.*"
    r"\b(?:instead of|rather than|because|not)\b)",
    re.IGNORECASE,
)


def corrections(past: Past, log: EventLog, known: set[str]) -> Iterator[Found]:
    """Yield the corrections of a session that nobody was asked about and no memory says.

    `known` are the ids that drafts of what memories say would have.
    """
    for event, body in past.prompts:
        if body.intent != "correction":
            continue
        lasting = [
            one
            for one in rules(frame.strip(body.prompt))
            if one.kind in ("preference", "lesson")
            and not only_blames(one.text)
            and not is_passing(one.text)
        ]
        for rule in lasting[:_MOST]:
            content = lesson_commands.lasting(rule.text)
            draft = lesson_commands.draft_id(event.project, content)
            if draft in known or log.known([draft]):
                continue
            yield Found(
                key=key("rule", event.project, plain(content)),
                kind=rule.kind,
                content=content,
                trust="agent",  # as the host told it: a person has not said yes yet
                session=past.id,
                at=event.at,
                events=(event.id,),
                project=event.project,
                context=f"Said: {one_line(frame.strip(body.prompt), _LONG)}",
            )


def waiting(past: Iterable[Past], log: EventLog) -> list[str]:
    """Return the corrections said in more than one session whose drafts wait for a person."""
    heard: dict[tuple[str | None, str], set[str]] = {}
    for one in past:
        for event, body in one.prompts:
            if body.intent != "correction":
                continue
            for rule in rules(frame.strip(body.prompt)):
                content = lesson_commands.lasting(rule.text)
                heard.setdefault((event.project, content), set()).add(one.id)
    return [
        f"“{one_line(content, 100)}” was said in {len(of)} sessions and waits for your yes: "
        "`mnemolog lessons`"
        for (project, content), of in heard.items()
        if len(of) > 1
        and [one.kind for one in log.about(lesson_commands.draft_id(project, content))]
        == ["proposed"]
    ]


def decisions(past: Past) -> Iterator[Found]:
    """Yield what was decided in a session, in the words of a prompt or of the agent's last."""
    known = {plain(one.content) for one in past.memories}
    for event in past.events:
        for sentence in _decided(_told(event)):
            if plain(sentence) not in known:
                yield Found(
                    key=key("decision", event.project, plain(sentence)),
                    kind="decision",
                    content=sentence,
                    trust="agent",
                    session=past.id,
                    at=event.at,
                    events=(event.id,),
                    project=event.project,
                )


def within(memory: Memory) -> Iterator[Found]:
    """Yield the decisions that a long memory of an agent's session holds."""
    if memory.trust not in MAY_RULE or len(memory.content) < _LONG or memory.job is not None:
        return
    for sentence in _decided(memory.content):
        if len(sentence) * 2 > len(memory.content):
            continue
        yield Found(
            key=key("decision", memory.project, plain(sentence)),
            kind="decision",
            content=sentence,
            trust="agent",
            session=memory.session or "",
            at=memory.created_at,
            memories=(memory.id,),
            project=memory.project,
            context=memory.context,
        )


def _told(event: Event) -> str:
    match event.body:
        case Prompted(prompt=prompt):
            return prompt
        case SessionTold(stage="stopped", said=said):
            return said or ""
        case _:
            return ""


def _decided(text: str) -> list[str]:
    """Return the sentences of a text that say what was decided."""
    found = [
        lesson_commands.lasting(one)
        for one in sentences(frame.strip(text))
        if len(one) <= _LONGEST
        and _DECIDES.match(one)
        and not one.endswith(("?", ":"))
        and len(one.split()) >= _SHORTEST
    ]
    return found[:_MOST]


def drafts_of(memories: Iterable[Memory]) -> set[str]:
    """Return the ids that drafts of what some memories say would have."""
    return {lesson_commands.draft_id(one.project, one.content) for one in memories}

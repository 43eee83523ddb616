"""
The user's lasting words, kept at the prompt that says them, and ended by what contradicts them.

A statement is a quote and no rule: it comes up as the user's own words, with date and session,
until somebody accepts it (`mnemolog lessons accept`), a later one says another value or the
contrary, or the user takes it back ("forget that").
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from serve.filters import Filter
from serve.hooks.block import short_id
from serve.hooks.call import Call
from serve.reader import View
from store import commands, text
from store.commands import Draft
from store.errors import InvalidInput
from store.events import STATEMENT, Event, Forgotten, Recorded, Superseded, derived_id
from store.projections.memories import ACTIVE, Memory
from store.prompts.statements import Stated, stated
from store.sameness.corrections import correction
from store.sameness.statement import statement

SOURCE = "prompt"
_SHARED = 0.7  # of the words of two statements, where one denies what the other says
_NEGATIONS = frozenset(
    """no not never none without don't dont doesn't can't cannot won't isn't stop avoid nicht nie
    kein keine keinen ohne pas jamais aucun sans nunca jamás sin não nunca sem не нет никогда без
    不 不要 别 没 ない しない""".split()
)
# "forget that", "scratch what I said about the naming"
_TAKES_BACK = re.compile(
    r"\s*(?:(?:please|ok|okay|hm+|actually|you (?:can|may)|bitte|por favor)[,\s]+)*"
    r"(?:forget|scratch|disregard|ignore|vergiss|oublie|olvida|esquece|забудь)\s+"
    r"(?:it|that|this|das|es|ça|cela|eso|isso|это|(?:about )?what i (?:just )?said"
    r"|was ich (?:gerade )?gesagt habe|ce que j'ai dit|lo que dije|o que eu disse)"
    r"(?:\s+(?:about|on|regarding|zu[mr]?|über|sur|sobre)\s+(?P<topic>[^.,;!?]{2,80}))?"
    r"\s*(?:[.,;!].*)?",
    re.IGNORECASE | re.DOTALL,
)
_LOOKED_AT = 2_000  # characters


def kept(call: Call, prompt: str, before: str, prompted: Event) -> list[Event]:
    """Return the events that keep what a prompt says that lasts, and end what it contradicts.

    What is said already, in the same words, is not kept again.
    """
    if call.choices.remember_words is False:
        return []
    found = stated(prompt, before)
    taken_back = _TAKES_BACK.fullmatch(prompt[:_LOOKED_AT])
    if not found and taken_back is None:
        return []
    standing = call.answered(lambda view: _standing(view, call.filter))
    if taken_back is not None:
        return list(_ended(call, standing, taken_back["topic"]))
    return [event for one in found for event in _kept(call, one, standing, prompted)]


def _kept(call: Call, one: Stated, standing: list[Memory], prompted: Event) -> Iterator[Event]:
    said = statement(one.text)
    if any(statement(old.content).says == said.says for old in standing):
        return
    draft = Draft(
        id=derived_id(prompted.at, "statement", prompted.id, one.text),
        content=one.text,
        kind="statement",
        insight_type=one.kind,
        source=SOURCE,
        source_ids=(prompted.id,),
        project=call.project or None,
        session=call.event.session,
        agent=call.event.host,
    )
    try:
        event = commands.recorded(draft, call.now)
    except InvalidInput:  # its words make no memory
        return
    yield event
    for old in standing:
        if contradicts(old.content, one.text):
            body = Superseded(by=event.id, reason="the user said otherwise")
            yield call.told(body, subject=old.id, trust="user")


def contradicts(older: str, newer: str) -> bool:
    """Return whether a text says another value than an older one, or the contrary in its words."""
    if correction(statement(older), statement(newer)) is not None:
        return True
    a, b = _words(older), _words(newer)
    if not a or not b or bool(a & _NEGATIONS) == bool(b & _NEGATIONS):
        return False
    a, b = a - _NEGATIONS, b - _NEGATIONS
    return len(a & b) >= max(2, _SHARED * len(a | b))


def _words(said: str) -> set[str]:
    words = {word.strip(".,;:!?\"'()") for word in said.casefold().split()}
    return {one for one in words if one in _NEGATIONS} | set(text.terms(said))


def _ended(call: Call, standing: list[Memory], topic: str | None) -> Iterator[Event]:
    """Yield what forgets the statement that is meant: the newest of this session, or of a topic."""
    own = [one for one in standing if one.session == call.event.session]
    if topic:
        wanted = set(text.terms(topic))
        about = [one for one in standing if wanted & set(text.terms(one.content))]
        own = about or []
    if own:
        last = max(own, key=lambda one: (one.created_at, one.seq))
        yield call.told(Forgotten(reason="the user took it back"), subject=last.id, trust="user")


def _standing(view: View, asked: Filter) -> list[Memory]:
    """Return the statements of the project, or of none, that hold."""
    those = replace(asked, kinds=(STATEMENT,))
    return [
        one
        for one in view.those(those.mask(view.snapshots.rows), those.accepts)
        if one.state == ACTIVE and one.kind == STATEMENT
    ]


def notice(events: list[Event]) -> str:
    """Return what the user is told of what was kept or ended, and how to take it back."""
    said = []
    for event in events:
        match event.body:
            case Recorded(content=content):
                short = content if len(content) <= 120 else content[:117] + "..."
                undo = f"mnemolog forget {short_id(event.id)}"
                said.append(f"kept: \u201c{short}\u201d (take it back: {undo})")
            case Forgotten():
                undo = f"mnemolog restore {short_id(event.subject)}"
                said.append(f"forgotten (bring it back: {undo})")
            case _:
                continue
    return f"mnemolog {'; '.join(said)}" if said else ""

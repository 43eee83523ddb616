"""
Unasked: what the prompt hook would say to a question now, as the first prompt of a new session.

It is asked as the hook asks, by the user's settings whatever a setting of the lab says; nothing is
written, and the router tries nothing.
"""

from dataclasses import dataclass

from serve.hooks import speaking
from serve.hooks.block import Block, block
from serve.hooks.call import Call
from serve.hooks.event import HookEvent
from serve.hooks.prompt import compose, look_up
from serve.hooks.recap import recap
from serve.process.tenants import OpenTenant
from serve.query.intent import read
from serve.reader import View
from serve.recall import Hit
from store.agent_events import Intent
from store.config import Choices
from store.embedding import Embedder
from store.prompts.statements import Stated, stated


@dataclass(frozen=True, slots=True)
class Weighed:
    """A hit that was looked at, how likely it is to help, and whether it is said."""

    hit: Hit
    chance: float
    is_said: bool


@dataclass(frozen=True, slots=True)
class Unasked:
    """What the hook would do: the `block` it would put before the model, and why.

    `bar` is the least chance of the best of `weighed`, None where none is weighed. `rules` counts
    the rules that the prompt names. `kept` are the lasting words that it would keep.
    """

    project: str
    intent: Intent
    block: Block
    weighed: tuple[Weighed, ...] = ()
    bar: float | None = None
    rules: int = 0
    kept: tuple[Stated, ...] = ()


def unasked(
    opened: OpenTenant, embedder: Embedder, prompt: str, project: str, choices: Choices, now: int
) -> Unasked:
    """Return what the hook would say in a project; "" is outside any repository."""
    event = HookEvent("lab", "prompt", "", prompt=prompt)
    call = Call(event, opened, embedder, choices, project, now)
    reading = read(prompt)
    keeps = choices.remember_words and "prompts" in choices.record
    kept = tuple(stated(prompt)) if keeps else ()
    if reading.is_idle:
        return Unasked(project, reading.intent, Block(), kept=kept)

    def answer(view: View) -> Unasked:
        if reading.intent == "recap":
            said = block(list(recap(view, call, prompt, {}, frozenset())))
            return Unasked(project, reading.intent, said, kept=kept)
        found = look_up(view, call, reading, None, frozenset())
        said = compose(call, found)
        each = speaking.weighed(
            view, prompt, reading, found.hits, found.told, is_passive=found.is_passive
        )
        pairs = zip(each.hits, each.chances, strict=False)  # of the first hits alone
        return Unasked(
            project,
            reading.intent,
            said,
            tuple(Weighed(hit, chance, hit.memory.id in said.ids) for hit, chance in pairs),
            each.bar,
            len(found.rules),
            kept,
        )

    return call.answered(answer)

"""
What a prompt wants of the memory: nothing, what is known of its topic, or what was done before.

A fitted classifier tells (`store.agents`); a host's own commands are known by their form.
"""

import re
from dataclasses import dataclass

from store.agents import prompt_classifier
from store.agents.prompt_classifier import Wants
from store.log.event_kinds import Intent

LOOKED_AT = 2_000  # characters, from the beginning

# "/review", "/mcp__x", "!ls": said to the host, not to the agent; a path has a second slash
_COMMAND = re.compile(r"\s*(?:/[\w:.-]+(?=\s|\Z)|[!#])\s*(?P<rest>.*)", re.DOTALL)
_OWN_WORDS = 3  # from so many on, a slash command says what it is about
_INTENTS: dict[str, Intent] = {
    "work": "work",
    "general": "general",
    "small_talk": "small_talk",
    "control": "command",
    "recap": "recap",
}
_CORRECTS = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """What a prompt wants, and how likely each thing is; None where its form tells."""

    intent: Intent
    wants: Wants | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the prompt only talks to the agent, or steers it."""
        return self.intent in ("small_talk", "command")


def read(prompt: str, before: str = "") -> Reading:
    """Return what a prompt wants; `before` is what the agent said last. One without a word is small
    talk.
    """
    text = prompt[:LOOKED_AT].strip()
    if command := _COMMAND.match(text):
        text = command["rest"].strip()
        if len(text.split()) < _OWN_WORDS or prompt.lstrip().startswith("!"):
            return Reading("command")
    if not any(character.isalnum() for character in text):
        return Reading("small_talk")
    wants = prompt_classifier.wants(text, before)
    likeliest = max(zip(wants, Wants._fields, strict=True))[1]
    found = _INTENTS[likeliest]
    if found == "work" and prompt_classifier.corrects(text, before) >= _CORRECTS:
        return Reading("correction", wants)
    return Reading(found, wants)

"""
Signs: what was done after a recall tells of a memory it brought.

A file that it names was edited, a command that it names was run: it was of use. A lesson was
followed or not, as the hooks saw. A memory that was brought again and again, while work was done,
and never was of use is ignored. Of all else nothing is told. What a tool or the web said never
gains by it: naming many files must not pay.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from store.log.event_kinds import Acted, Followed
from store.log.events import Event
from store.memories.memory import Memory
from store.text.mention_rules import command
from store.text.mentions import mentions
from store.text.text_features import MAY_RULE

USED, FOLLOWED, NOT_FOLLOWED, IGNORED = 0.5, 0.5, -0.25, -0.05
AGAIN = 5  # recalls that brought a memory in vain before it counts as ignored
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_DENIES = re.compile(
    r"\b(?:never|not|no longer|avoid|instead of|rather than|without|forbidden|don['\u2019]?t)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sign:
    """A verdict in [-1, 1] and what it rests on."""

    verdict: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Deeds:
    """What was done after a recall: commands as the memory names them, and files, edited."""

    commands: frozenset[str]
    files: tuple[str, ...]
    followed: Mapping[str, str]  # the verdict on each lesson, by id

    @property
    def is_empty(self) -> bool:
        return not (self.commands or self.files or self.followed)


def deeds(events: Sequence[Event]) -> Deeds:
    """Return what some events say was done; what failed, or a tool or the web told, was not."""
    trusted = [one for one in events if one.trust in MAY_RULE]
    acted = [one.body for one in trusted if isinstance(one.body, Acted)]
    ran = [
        name
        for one in acted
        if one.command and one.passed is not False
        for part in _SEPARATORS.split(one.command)
        if (name := command(part.strip())) is not None
    ]
    edited = [path for one in acted if one.doing == "edit" for path in one.files]
    told = {
        one.subject: one.body.verdict
        for one in trusted
        if isinstance(one.body, Followed) and one.body.verdict != "not_applicable"
    }
    return Deeds(frozenset(ran), tuple(edited), told)


def sign(memory: Memory, done: Deeds, in_vain: int) -> Sign | None:
    """Return what was done says of a memory; None where it says nothing.

    `in_vain` is how many recalls brought it, this one too, while nothing showed that it was of use.
    """
    found = _sign(memory, done)
    if found is None and in_vain >= AGAIN and not done.is_empty:
        found = Sign(IGNORED, f"brought {in_vain} times and never used")
    if found is not None and found.verdict > 0 and memory.trust not in MAY_RULE:
        return None
    return found


def _sign(memory: Memory, done: Deeds) -> Sign | None:
    told = done.followed.get(memory.id)
    if told is not None:
        return Sign(FOLLOWED if told == "followed" else NOT_FOLLOWED, f"the lesson was {told}")
    files, commands = _named(memory.content)
    for path in done.files:
        if _is_among(path, files):
            return Sign(USED, f"{path} was edited")
    for name in sorted(commands & done.commands):
        return Sign(USED, f"{name} was run")
    return None


@lru_cache(4_096)
def _named(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files and the commands a text names; of one that denies something no commands:
    what it warns of and what it recommends look alike.
    """
    found = mentions(text)
    files = frozenset(one.name.casefold() for one in found if one.kind == "file")
    commands = frozenset(one.name for one in found if one.kind == "command")
    return files, frozenset() if _DENIES.search(text) else commands


def _is_among(path: str, files: Collection[str]) -> bool:
    """Return whether a path is one of some files, or ends or begins as one of them says."""
    edited = path.replace("\\", "/").casefold()
    return any(edited == one or edited.endswith(f"/{one}") for one in files)

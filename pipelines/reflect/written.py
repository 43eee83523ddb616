"""
Written: an insight's text by a model, of which only what its sources bear out is kept.

A sentence is kept where every number, name and identifier in it stands in a source, where most of
its words do, where it says no "not" that no source says, and where it is not too long for one. A
text of which nothing is left is put together from its sources' own sentences instead.
"""

import re
from collections.abc import Sequence

import msgspec

from pipelines.llm.model import Answer, LanguageModel
from pipelines.reflect import words
from pipelines.reflect.finding import Finding, date
from pipelines.reflect.wording import headline
from store.memories.memory import Memory
from store.text.mentions import mentions

PURPOSE = "reflect"
INSTRUCTIONS = """You are given notes of one project that belong together, each with its date.
Say in one to three plain sentences what they say together that none of them says alone: the
pattern, the cause, or what to expect. Use only what the notes say. Repeat numbers, names, paths
and commands exactly as they are written there. No advice, no opinion, no introduction."""
_LONGEST = 1_200  # characters of a note that a model is shown
_BORNE = 0.6  # the share of a sentence's words that must stand in a source
_MOST = 5  # sentences
_LONGEST_SAID = 600  # characters of one

_SIGN = r"[\w./:\\@#%$€£+-]"
_VALUE = re.compile(  # each from where a run begins: a long one is looked at once
    rf"(?<!{_SIGN}){_SIGN}*\d{_SIGN}*"
    r"|(?<!\w)(?:\w+(?:[_./:\\@#]+\w+)+|\w*[a-z][A-Z]\w*)"
)
_NAME = re.compile(r"(?<=[^.!?\n] )[A-Z][\w-]+")
_NOT = re.compile(r"\b(?:not|never|no|none|cannot|without|neither|nor)\b|n't\b", re.IGNORECASE)


class Written(msgspec.Struct, frozen=True):
    """What the notes say together."""

    sentences: tuple[str, ...]


def ask(model: LanguageModel, finding: Finding) -> Answer[Written]:
    """Return what a model makes of a finding's sources; raise ModelError or BudgetSpent."""
    return model.ask(PURPOSE, INSTRUCTIONS, data(finding), Written, tier="balanced")


def data(finding: Finding) -> str:
    """Return what a model is shown of a finding."""
    notes = (f"{date(one)}: {' '.join(_said(one)[:_LONGEST].split())}" for one in finding.sources)
    return "\n".join([f"Seen: {headline(finding)}", *(f"- {note}" for note in notes)])


def checked(finding: Finding, written: Written) -> str | None:
    """Return the text of an insight with those of its sentences that its sources bear out.

    None where they bear out none.
    """
    said = "\n".join([headline(finding), *map(_said, finding.sources)])
    dates = " ".join(map(date, finding.sources))
    kept = [
        line
        for line in (" ".join(one.split()) for one in written.sentences[:_MOST])
        if 0 < len(line) <= _LONGEST_SAID and is_borne_out(line, f"{said}\n{dates}")
    ]
    return "\n".join([headline(finding), *kept]) if kept else None


def is_borne_out(sentence: str, said: str) -> bool:
    """Return whether what sources said holds all that a sentence must not invent."""
    there = " ".join(said.casefold().split())
    if any(not _stands(mark, there) for mark in _marks(sentence)):
        return False
    if _NOT.search(sentence) and not _NOT.search(said):
        return False
    asked, held = words.terms(sentence), words.terms(there) | _all_terms(said)
    return bool(asked) and len(asked & held) >= _BORNE * len(asked)


def _marks(sentence: str) -> Sequence[str]:
    """Return the numbers, names and identifiers of a sentence, in folded case."""
    found = [one[0].strip(".:,/-+") for one in _VALUE.finditer(sentence)]
    found += [one[0] for one in _NAME.finditer(sentence)]
    found += [one.alias for one in mentions(sentence)]
    return [one.casefold() for one in dict.fromkeys(found) if one]


def _stands(mark: str, there: str) -> bool:
    """Return whether a mark stands in a text as a whole: 43 is not in 5432."""
    return re.search(rf"(?<![\w]){re.escape(mark)}(?![\w])", there) is not None


def _all_terms(said: str) -> frozenset[str]:
    return frozenset().union(*map(words.terms, said.splitlines()))


def _said(memory: Memory) -> str:
    parts = (memory.content, memory.context, memory.action, memory.result)
    return "\n".join(one for one in parts if one)

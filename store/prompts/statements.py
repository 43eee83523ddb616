"""
Statements: what a prompt says that holds beyond it, in the user's own words, whole sentences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from store import frame
from store.importers.excerpt import excerpt
from store.prompts.classifier import Lasting, Said, read

MOST = 3  # of one prompt
LONGEST = 600  # characters
SHORT = 6  # words: an answer of so few means nothing without what was asked
ASKED = 240  # characters of that
SURE, ALSO = 0.5, 0.3  # how likely a sentence lasts that is kept; one beside it


@dataclass(frozen=True, slots=True)
class Stated:
    text: str
    kind: Lasting


def stated(prompt: str, before: str = "") -> list[Stated]:
    """Return what a prompt says that lasts, in order; `before` is what the agent said last.

    Sentences that follow one another are one. A few words that answer a question come with it.
    """
    prompt = frame.strip(prompt)
    found = [_whole(prompt, run) for run in _runs(read(prompt, before))][:MOST]
    asked = " ".join(before.split())
    if not asked.endswith(("?", "\uff1f")):
        return found
    if len(asked) > ASKED:
        asked = asked[-ASKED:].partition(" ")[2]
    return [
        Stated(f"Asked \u201c{asked}\u201d: {one.text}", one.kind)
        if len(one.text.split()) <= SHORT
        else one
        for one in found
    ]


def _runs(said: Sequence[Said]) -> Iterator[list[Said]]:
    """Yield the runs of sentences of which one surely lasts and the others are likely to."""
    run: list[Said] = []
    for one in said:
        if one.lasts >= ALSO:
            run.append(one)
        else:
            yield from _if_sure(run)
            run = []
    yield from _if_sure(run)


def _if_sure(run: list[Said]) -> Iterator[list[Said]]:
    if any(one.lasts >= SURE for one in run):
        yield run


def _whole(prompt: str, run: Sequence[Said]) -> Stated:
    text = " ".join(prompt[run[0].start : run[-1].end].split())
    return Stated(excerpt(text, LONGEST), max(run, key=lambda one: one.lasts).kind)

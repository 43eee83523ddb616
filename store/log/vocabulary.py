"""
Vocabulary: the versions of event bodies in a log, and those that this mnemolog reads.

The version of a kind is raised whenever its body gains a field, or a field gains a word.
`tests/test_vocabulary.py` fails if a body changed and its version did not. The log notes the
version with the first event that needs it, in the same transaction, so a program that would take a
sound event for a damaged one, or leave it out, refuses the log by name instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from store.log.event_kinds import Body, Planned, Unknown
from store.log.events import KINDS, Event, decode

# By kind, tests of a body for the additions of version 2, 3, ...; other bodies are read by older
# programs too. An example, for a word that memories' kinds would gain:
#     "recorded": (lambda body: body.kind == "hunch",),
ADDED: Mapping[str, Sequence[Callable[[Any], bool]]] = {
    "action": (lambda body: body.diff is not None,),
    "planned": (
        lambda body: body.job == "bulk",
        lambda body: any(step.author is not None for step in body.steps),
    ),
    "session": (lambda body: body.drawn is not None,),
}


# noted beside the kinds, in a log with events of other homes, which must not be folded as they
# arrived
MERGED = "merged"


def versions() -> dict[str, int]:
    """Return the newest version of each kind that this mnemolog reads."""
    return {kind: 1 + len(ADDED.get(kind, ())) for kind in KINDS} | {MERGED: 1}


def first_unknown(noted: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """Return the first of some kinds, with its version, that this mnemolog cannot read."""
    read = versions()
    return next((pair for pair in sorted(noted) if pair[1] > read.get(pair[0], 0)), None)


def needed(events: Iterable[Event]) -> dict[str, int]:
    """Return the least version of each kind that some events need to be read; kinds known only to a
    later mnemolog are left out.
    """
    least: dict[str, int] = {}
    for event in events:
        is_plain = event.kind not in ADDED and not isinstance(event.body, Planned)
        if is_plain and event.kind in least:
            continue
        for kind, version in _needs(event.kind, event.body):
            least[kind] = max(version, least.get(kind, 0))
    return least


def _needs(kind: str, body: Body) -> Iterator[tuple[str, int]]:
    if isinstance(body, Unknown):
        return
    tests = ADDED.get(kind, ())
    yield kind, max((2 + place for place, test in enumerate(tests) if test(body)), default=1)
    if isinstance(body, Planned):  # its steps are future events
        for step in body.steps:
            yield from _needs(
                step.event, decode(step.event, msgspec.json.encode(step.body).decode())
            )

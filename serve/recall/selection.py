"""
Selection: which candidates come back, which were dropped, and why.

Of memories that say the same one comes back, the newest or the pinned one, with the ids of its
copies; a fact that a job read out of a memory is one of that memory's. Of memories that say the
same but for a value all come back, the newest first and the others right behind it, marked; a
question that names one of the values keeps them in the order of their scores. Only the best few
dozen are read and compared.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import msgspec
import numpy as np

from serve.recall.analysis import Question
from serve.recall.near_duplicates import (
    Comparable,
    Likeness,
    comparable,
    names_one,
    near_candidates,
    near_likeness,
)
from serve.recall.ranking import Ranked
from serve.recall.scoring import Values
from store.derived.duplicates import MOST_VALUES
from store.memories.memory import Memory

# Read beyond those asked for: a newer value may stand a few places below the older one.
LOOK_AHEAD = 16
_FACTS = "facts"  # the job that reads facts out of memories


class Chosen(msgspec.Struct, frozen=True):
    """A memory that comes back; `place` is that among the candidates."""

    place: int
    memory: Memory
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None


class Selection(msgspec.Struct, frozen=True):
    """What comes back, best first; `below_bar`, `below_score` and `over_top_k` are places, best
    first.
    """

    chosen: tuple[Chosen, ...] = ()
    below_bar: Sequence[int] = ()
    below_score: Sequence[int] = ()
    over_top_k: Sequence[int] = ()

    @property
    def dropped(self) -> dict[str, int]:
        """How many candidates fell to what."""
        counts = {
            "below_bar": len(self.below_bar),
            "below_score": len(self.below_score),
            "folded": sum(len(selected.copies) for selected in self.chosen),
            "over_top_k": len(self.over_top_k),
        }
        return {reason: count for reason, count in counts.items() if count}


@dataclass(slots=True)
class _Entry:
    """Memories that say the same: the one that stands for them, and the ids of the others."""

    place: int
    compared: Comparable
    copies: list[str] = field(default_factory=list)

    @property
    def memory(self) -> Memory:
        return self.compared.memory

    def fold(self, place: int, other: Comparable) -> None:
        if _preference(other.memory) > _preference(self.memory):
            self.give_way(place, other)
        else:
            self.copies.append(other.memory.id)

    def give_way(self, place: int, other: Comparable) -> None:
        self.copies.append(self.memory.id)
        self.place, self.compared = place, other


def _preference(memory: Memory) -> tuple[bool, int, int]:
    return memory.pinned, *_age(memory)


def _age(memory: Memory) -> tuple[int, int]:
    """The age of a memory, greater for the newer: when it happened, then when it was written."""
    return memory.created_at, memory.seq


_Group = list[_Entry]  # memories that say the same but for a value
_by_group = itemgetter(0)


def select(
    question: Question,
    ranked: Ranked,
    read: Callable[[Sequence[int]], list[Memory]],
) -> Selection:
    """Select the candidates that come back; `read` gives the memories at some places."""
    order = ranked.order
    is_below = ranked.confidence[order] < question.min_confidence
    is_low = round_scores(ranked)[order] < question.min_score
    passed: list[int] = order[~is_below & ~is_low].tolist()
    below: list[int] = order[is_below].tolist()
    low: list[int] = order[~is_below & is_low].tolist()
    looked_at = passed[: question.top_k + LOOK_AHEAD]
    groups, left_out = _group(question, zip(looked_at, read(looked_at), strict=True))
    chosen = [selected for group in groups for selected in _choose(group)]
    over = {*left_out, *(selected.place for selected in chosen[question.top_k :])}
    return Selection(
        tuple(chosen[: question.top_k]),
        below,
        low,
        [*[place for place in looked_at if place in over], *passed[len(looked_at) :]],
    )


def round_scores(ranked: Ranked) -> Values:
    """Return the scores as shown, in the candidates' order: these are held to the floor."""
    return np.round(ranked.scores, 6)


def _choose(group: _Group) -> list[Chosen]:
    if len(group) == 1:
        (entry,) = group
        return [Chosen(entry.place, entry.memory, tuple(entry.copies))]
    newest = max((entry.memory for entry in group), key=_age)
    is_series = _is_series(group)
    return [
        Chosen(
            entry.place,
            entry.memory,
            tuple(entry.copies),
            None if is_series or entry.memory is newest else newest.id,
        )
        for entry in group
    ]


def _group(
    question: Question, ranked: Iterable[tuple[int, Memory]]
) -> tuple[list[_Group], list[int]]:
    """Return the groups, best first and each newest first, and the places that are in none.

    Once there are `top_k` entries, only a copy or a newer value of one of them is let in.
    """
    groups: list[_Group] = []
    entries: list[tuple[int, _Entry]] = []  # of all groups, each with its group's place
    left_out: list[int] = []
    signatures = 0  # of the words of all that was let in
    has_facts = False
    for place, memory in ranked:
        new, is_full = comparable(memory), len(entries) >= question.top_k
        has_facts = has_facts or memory.job == _FACTS
        if has_facts and _fold_extracted_fact(new, place, groups, is_full=is_full):
            signatures |= new.beginnings.signature
            continue
        near = near_candidates(new, [entry.compared for _, entry in entries], signatures)
        match = _alike(new, sorted([entries[at] for at in near], key=_by_group)) if near else None
        if match is not None or not is_full:
            signatures |= new.beginnings.signature
        if match is not None:
            at, entry, likeness = match
            group = groups[at]
            if likeness == "same":
                entry.fold(place, new)
            elif is_full and _age(memory) < max(_age(entry.memory) for entry in group):
                left_out.append(place)
            else:
                group.append(_Entry(place, new))
                entries.append((at, group[-1]))
        elif is_full:
            left_out.append(place)
        else:
            groups.append([_Entry(place, new)])
            entries.append((len(groups) - 1, groups[-1][0]))
    for group in groups:
        if (
            len(group) > 1
            and not _is_series(group)
            and not names_one(question.text, [entry.memory for entry in group])
        ):
            group.sort(key=lambda entry: _age(entry.memory), reverse=True)
    return groups, left_out


def _alike(
    memory: Comparable, near: Iterable[tuple[int, _Entry]]
) -> tuple[int, _Entry, Likeness] | None:
    """Return what a memory is like: an entry of the first group that holds such, the place of that
    group, and how; one that says the same before another value. `near` is in the groups' order.
    """
    other_value = None
    for at, entry in near:
        if other_value is not None and at != other_value[0]:
            break
        likeness = near_likeness(entry.compared, memory)
        if likeness == "same":
            return at, entry, "same"
        if likeness is not None and other_value is None:
            other_value = at, entry, likeness
    return other_value


def _is_series(group: _Group) -> bool:
    """Whether so many values are facts of a kind, of which none corrects another."""
    return len(group) > MOST_VALUES and not any(entry.compared.may_be_replaced for entry in group)


def _fold_extracted_fact(
    memory: Comparable, place: int, groups: list[_Group], *, is_full: bool
) -> bool:
    """Fold a fact that a job read out of a memory into that one, which says it and more.

    Return whether one of the two was there already; what has no room takes no fact's place.
    """
    for entry in (entry for group in groups for entry in group):
        if _extracted_from(memory.memory, entry.memory):
            entry.copies.append(memory.memory.id)
            return True
        if not is_full and _extracted_from(entry.memory, memory.memory):
            entry.give_way(place, memory)
            return True
    return False


def _extracted_from(fact: Memory, memory: Memory) -> bool:
    return fact.job == _FACTS and memory.id in fact.source_ids

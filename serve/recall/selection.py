"""
Selection: the candidates to return, the dropped ones, and the reasons.

Of duplicates one is returned, the pinned or else the newest, with the ids of its copies; a fact
that a job extracted from a memory counts as its copy. Memories that are equal but for a value are
all returned, the newest first and the others right behind it, marked; a question that names one of
the values keeps them in the order of their scores. Only the best few dozen are read and compared.
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

# Read beyond `top_k`: a newer value may be a few places below the older one.
LOOK_AHEAD = 16
_FACTS = "facts"  # the job that extracts facts from memories


class Chosen(msgspec.Struct, frozen=True):
    """A selected memory; `place` is its place among the candidates."""

    place: int
    memory: Memory
    copies: tuple[str, ...] = ()
    conflicts_with: str | None = None


class Selection(msgspec.Struct, frozen=True):
    """The selected hits, best first; `below_bar`, `below_score` and `over_top_k` are the places of
    the others, best first.
    """

    chosen: tuple[Chosen, ...] = ()
    below_bar: Sequence[int] = ()
    below_score: Sequence[int] = ()
    over_top_k: Sequence[int] = ()

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped candidates by reason."""
        counts = {
            "below_bar": len(self.below_bar),
            "below_score": len(self.below_score),
            "folded": sum(len(selected.copies) for selected in self.chosen),
            "over_top_k": len(self.over_top_k),
        }
        return {reason: count for reason, count in counts.items() if count}


@dataclass(slots=True)
class _Entry:
    """A group of duplicates: the returned memory, and the ids of the others."""

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
    """Return a memory's sort key by age, greater for the newer: its time, then its seq."""
    return memory.created_at, memory.seq


_Group = list[_Entry]  # memories that are equal but for a value
_by_group = itemgetter(0)


def select(
    question: Question,
    ranked: Ranked,
    read: Callable[[Sequence[int]], list[Memory]],
) -> Selection:
    """Select the candidates to return; `read` returns the memories at some places."""
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
    """Return the scores as shown, in the candidates' order, for comparison with the floor."""
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

    Once there are `top_k` entries, only a copy or a newer value of one of them is accepted.
    """
    groups: list[_Group] = []
    entries: list[tuple[int, _Entry]] = []  # of all groups, each with its group's place
    left_out: list[int] = []
    signatures = 0  # of the words of all accepted memories
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
    """Return the match of a memory: the place of the first group with one, its entry and the
    likeness; a duplicate is preferred to another value. `near` is in the groups' order.
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
    """Return True if a group is a series of facts: many values, none correcting another."""
    return len(group) > MOST_VALUES and not any(entry.compared.may_be_replaced for entry in group)


def _fold_extracted_fact(
    memory: Comparable, place: int, groups: list[_Group], *, is_full: bool
) -> bool:
    """Fold a fact that a job extracted from a memory into that memory, which includes it.

    Return True if one of the two was there already; in a full answer, a memory replaces no fact.
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

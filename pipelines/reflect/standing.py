"""
Standing: what was noticed before, so that running again proposes only what is new.

A finding is known by its sources, never by its words. One of which an insight says most already is
passed over, also where a person archived or forgot that one; where it grew by half its sources and
two at least, the new insight takes the old one's place. The very same sources, whose insight was
stale, make that one current again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipelines.jobs.context import Context
from pipelines.reflect.finding import Finding
from store.memories.memory import ACTIVE, ARCHIVED, FORGOTTEN, Memory

GROWN = 1.5  # times its sources
_MORE = 2  # sources, at least
_MOST_OF = 0.5

_KEPT = (ACTIVE, ARCHIVED, FORGOTTEN)  # what stands, or was turned down


@dataclass(frozen=True)
class New:
    """A finding to be put down, and the insights whose place it takes; or one to be restored."""

    finding: Finding
    replaced: tuple[Memory, ...] = ()
    restored: Memory | None = None


@dataclass(frozen=True)
class Standing:
    """The insights that reflect made, in whatever state; `chosen` gains what is found now."""

    insights: Sequence[Memory]
    chosen: list[Finding] = field(default_factory=list)

    @classmethod
    def of(cls, context: Context) -> "Standing":
        table = context.tables("insights")["insights"]
        jobs, rows = table.column("job").to_pylist(), table.column("document").to_pylist()
        made = [row for row, job in zip(rows, jobs, strict=True) if job == "reflect"]
        return cls(context.memories(np.array(made, np.int64)))

    def new(self, findings: Iterable[Finding]) -> Iterator[New]:
        """Yield those findings, given the strongest first, that are not known yet."""
        for one in findings:
            if (found := self._judged(one)) is not None:
                self.chosen.append(one)
                yield found

    def _judged(self, finding: Finding) -> New | None:
        mine = finding.ids
        if any(_covers(one.ids, mine) for one in self.chosen if _is_like(one, finding)):
            return None
        known = [one for one in self.insights if _is_like(one, finding)]
        old = [one for one in known if one.state in _KEPT]
        if any(_covers(_ids(one), mine) and not _is_grown(_ids(one), mine) for one in old):
            return None
        same = [one for one in known if _ids(one) == mine]
        if same:
            return New(finding, restored=same[0])
        replaced = (one for one in old if one.state == ACTIVE and _is_grown(_ids(one), mine))
        return New(finding, tuple(replaced))


def _is_like(one: Memory | Finding, finding: Finding) -> bool:
    return (one.insight_type, one.project) == (finding.insight_type, finding.project)


def _ids(insight: Memory) -> frozenset[str]:
    return frozenset(insight.source_ids)


def _covers(old: frozenset[str], new: frozenset[str]) -> bool:
    """Return whether an insight of some sources says most of what others say."""
    return len(old & new) >= _MOST_OF * len(new)


def _is_grown(old: frozenset[str], new: frozenset[str]) -> bool:
    is_same = len(old & new) >= _MOST_OF * len(old)
    return is_same and len(new) >= max(GROWN * len(old), len(old) + _MORE)

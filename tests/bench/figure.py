"""Figure: one measurement, and the timing of code that runs in this process."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

OURS = "mnemolog"

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """The cost of `what` to `who` among `size` memories; others are shown as multiples of OURS."""

    size: int
    what: str
    who: str
    value: float
    unit: str
    recall: float | None = None  # recall@10 against the exact answer


@dataclass(frozen=True)
class Note:
    """A note for the reader of the table: a missing rival, a check that was made."""

    text: str


def cpu_s(run: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of all this process's threads, and the result of `run`."""
    began = time.process_time()
    result = run()
    return time.process_time() - began, result


def interleaved(
    runs: Mapping[str, Callable[[T], object]], queries: Sequence[T], budget_s: float
) -> dict[str, float]:
    """Return the median CPU milliseconds of each run; they take turns, question by question.

    In turns, each finds the processor's caches full of the others' data, and other load on the
    machine disturbs all alike. A run that has used up `budget_s` gets no more questions; the first
    question is a warm-up and is not counted.
    """
    gc.collect()
    gc.freeze()  # so a rival's million objects are not scanned while another is timed
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for number, query in enumerate(queries):
        for name, run in runs.items():
            if sum(spent[name]) > budget_s:
                continue
            seconds, _ = cpu_s(partial(run, query))
            if number:
                spent[name].append(seconds)
    return {name: statistics.median(times) * 1e3 for name, times in spent.items()}

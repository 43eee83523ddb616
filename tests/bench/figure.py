"""Figure: one thing that was measured; and how what runs in this process is timed."""

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
    """What `who` needs for `what` among `size` memories; of OURS the others are multiples."""

    size: int
    what: str
    who: str
    value: float
    unit: str
    recall: float | None = None  # recall@10 against the exact answer


@dataclass(frozen=True)
class Note:
    """What a reader of the table must know: a rival that is missing, a check that was made."""

    text: str


def cpu_s(run: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of all this process's threads, and what `run` returned."""
    began = time.process_time()
    result = run()
    return time.process_time() - began, result


def interleaved(
    runs: Mapping[str, Callable[[T], object]], queries: Sequence[T], budget_s: float
) -> dict[str, float]:
    """Return the median CPU milliseconds of each run; they take turns, question by question.

    Taking turns each finds the processor's caches full of the others' data, and what else runs on
    the machine disturbs all alike. Who has used up `budget_s` answers no more questions; the first
    question warms up and is not counted.
    """
    gc.collect()
    gc.freeze()  # a rival's million objects are not looked through while another is timed
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for number, query in enumerate(queries):
        for name, run in runs.items():
            if sum(spent[name]) > budget_s:
                continue
            seconds, _ = cpu_s(partial(run, query))
            if number:
                spent[name].append(seconds)
    return {name: statistics.median(times) * 1e3 for name, times in spent.items()}

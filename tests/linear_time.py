"""How a call's time grows with its input: a ratio, which no slow or busy machine changes."""

import time
from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given")


def assert_linear(call: Callable[[Given], object], small: Given, large: Given, times: int) -> None:
    """
    Assert that `large`, `times` the size of `small`, costs about `times` as much, not the square.

    The CPU time of this thread counts, the least of up to 20 calls each: any other work only adds
    to it.
    """
    best_small = best_large = float("inf")
    for _ in range(20):
        best_small = min(best_small, _cpu_s(call, small))
        best_large = min(best_large, _cpu_s(call, large))
        if best_large <= times * best_small * 2:
            return
    raise AssertionError(f"{best_large / best_small:.0f} times the time for {times} times as much")


def _cpu_s(call: Callable[[Given], object], given: Given) -> float:
    began = time.thread_time()
    call(given)
    return time.thread_time() - began

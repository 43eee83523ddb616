"""
Work on several processors in one answer, for a scan of more than one of them can do in time.

The work must be numpy's, which lets go of Python's lock. The asking thread takes its share, so that
many askers at once wait for no one.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")

THREADS = min(4, os.cpu_count() or 1)  # memory gives no more than that


def each(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do some work on each item; raise what the first failing one raised."""
    shares = [share for number in range(THREADS) if (share := items[number::THREADS])]
    others = [_pool().submit(_one_by_one, work, share) for share in shares[1:]]
    try:
        for share in shares[:1]:
            _one_by_one(work, share)
    finally:
        for other in others:
            other.result()


def _one_by_one(work: Callable[[T], None], items: Sequence[T]) -> None:
    for item in items:
        work(item)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="mnemolog-scan")

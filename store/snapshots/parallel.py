"""
Parallel work: one function over many items in processes, for work that Python's lock keeps on one
core.

Processes are spawned, not forked: a fork of a process with threads may hang, and Windows has none.
They start when there is first something to do for them, and cost some 0.5 s each.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor


T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """The processes of one build; use it by `workers()`."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._count = os.cpu_count() or 1

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the results in order; keep only a few more items than processors in progress.

        A function that fails raises here. A single item is processed in this process.
        """
        rest = iter(items)
        first = list(islice(rest, 2))
        if len(first) < 2 or self._count == 1:
            yield from map(function, [*first, *rest])
            return
        if self._pool is None:
            # the server imports builds and never runs one: do not import these there
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._pool = ProcessPoolExecutor(self._count, mp_context=get_context("spawn"))
        pool = self._pool
        under_way: deque[Future[R]] = deque(pool.submit(function, item) for item in first)
        for item in rest:
            if len(under_way) > self._count:
                yield under_way.popleft().result()
            under_way.append(pool.submit(function, item))
        while under_way:
            yield under_way.popleft().result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def workers() -> Iterator[Workers]:
    """Yield a pool of processes that ends with the block."""
    pool = Workers()
    try:
        yield pool
    finally:
        pool.close()


def pack_table(table: pa.Table) -> pa.Buffer:
    """Return a table as bytes that another process can read; of a slice only its own rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_table(data: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()

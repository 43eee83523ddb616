"""Work on all processors gives the results of work on one, in the same order."""

import os

import pyarrow as pa
import pytest

from store.snapshots import parallel


def squared(number: int) -> int:
    return number * number


def refused(number: int) -> int:
    raise ValueError(f"no {number}")


def whose(number: int) -> int:
    return os.getpid()


def test_results_come_in_order_from_other_processes():
    with parallel.workers() as workers:
        assert list(workers.map(squared, range(20))) == [n * n for n in range(20)]
        assert os.getpid() not in set(workers.map(whose, range(4)))


def test_one_item_is_worked_on_here_and_starts_nothing():
    with parallel.workers() as workers:
        assert list(workers.map(whose, [1])) == [os.getpid()]
        assert list(workers.map(whose, [])) == []


def test_a_failure_is_raised_where_the_result_is_taken():
    with parallel.workers() as workers, pytest.raises(ValueError, match="no 0"):
        list(workers.map(refused, range(5)))


def test_items_are_consumed_lazily():
    sizes: list[int] = []

    def items():
        for number in range(100):
            sizes.append(number)
            yield number

    with parallel.workers() as workers:
        next(workers.map(squared, items()))
    assert len(sizes) < 20


def test_a_slice_is_packed_alone():
    table = pa.table({"a": list(range(10_000))})
    data = parallel.pack_table(table.slice(5, 2))
    assert data.size < 2_000 and parallel.unpack_table(data)["a"].to_pylist() == [5, 6]

"""Parallel work is done completely and once on any number of processors; failures are raised."""

import threading

import pytest

from store.index import vector_scan


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_each_item_is_worked_on_once(monkeypatch: pytest.MonkeyPatch, threads: int, count: int):
    monkeypatch.setattr(vector_scan, "THREADS", threads)
    finished: list[int] = []
    vector_scan.parallel_scan(finished.append, range(count))
    assert sorted(finished) == list(range(count))


def test_the_asking_thread_takes_a_share(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_scan, "THREADS", 2)
    vector_scan._pool.cache_clear()
    names: list[str] = []
    vector_scan.parallel_scan(lambda item: names.append(threading.current_thread().name), range(2))
    assert threading.current_thread().name in names
    assert any(name.startswith("mnemolog-scan") for name in names)


@pytest.mark.parametrize("bad", [0, 1])
def test_a_failure_comes_out_after_the_others_ended(monkeypatch: pytest.MonkeyPatch, bad: int):
    monkeypatch.setattr(vector_scan, "THREADS", 2)
    finished: list[int] = []

    def work(item: int) -> None:
        if item == bad:
            raise ValueError(f"no {item}")
        finished.append(item)

    with pytest.raises(ValueError, match=f"no {bad}"):
        vector_scan.parallel_scan(work, range(4))
    assert set(finished) >= {1 - bad}

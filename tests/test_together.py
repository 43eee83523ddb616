"""Work on several processors does all of it, once, whatever their number; failures come out."""

import threading

import pytest

from store.vectors import together


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_each_item_is_worked_on_once(monkeypatch: pytest.MonkeyPatch, threads: int, count: int):
    monkeypatch.setattr(together, "THREADS", threads)
    done: list[int] = []
    together.each(done.append, range(count))
    assert sorted(done) == list(range(count))


def test_the_asking_thread_takes_a_share(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(together, "THREADS", 2)
    together._pool.cache_clear()
    names: list[str] = []
    together.each(lambda item: names.append(threading.current_thread().name), range(2))
    assert threading.current_thread().name in names
    assert any(name.startswith("mnemolog-scan") for name in names)


@pytest.mark.parametrize("bad", [0, 1])
def test_a_failure_comes_out_after_the_others_ended(monkeypatch: pytest.MonkeyPatch, bad: int):
    monkeypatch.setattr(together, "THREADS", 2)
    done: list[int] = []

    def work(item: int) -> None:
        if item == bad:
            raise ValueError(f"no {item}")
        done.append(item)

    with pytest.raises(ValueError, match=f"no {bad}"):
        together.each(work, range(4))
    assert set(done) >= {1 - bad}

"""
PMB, an older memory for agents, beside ours: recall, writing, and recall right after a write.

Both serve the same memories over HTTP and answer the same questions; by words alone, with MiniLM,
and with a static token table, each time both with the same model. `make bench` installs PMB and the
model into `.venv-pmb`.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import builds
import models
import numpy as np
import service
from corpus import Words, questions, texts
from figure import Figure, Note
from pmb_home import Daemon, Home
from process import Server, cpu_s, serve

RECALL, HOOK = "recall over HTTP", "prompt hook, whole process"
BARE = "python -I -S that does nothing"
WORDS_ALONE, WHO = "PMB, words alone", "PMB"
MINILM, STATIC = "with MiniLM", "with a static table"
LARGEST = 10_000  # 0.1 s a recall there, ten times as long as at a thousand
RECALLS = 50
WRITES, FRESH, HOOKS = 20, 10, 10
_LOAD_S = 60.0  # a server answers by words while it loads its model


@dataclass(frozen=True)
class Embedder:
    """A model that both can load: its name, its folder, and our setting for it."""

    name: str
    folder: Path
    setting: str


def hybrid(title: str, name: str) -> str:
    """Return the title of a measure with a model, from the title by words."""
    return f"{title}, hybrid {name}"


def figures(size: int, *, environment: Path) -> Iterator[Figure | Note]:
    """Time the PMB installed in a virtual environment, and ours with the same models."""
    if not (environment / "bin" / "pmb").exists():
        yield Note(f"PMB: left out, there is none in {environment.name}; `make bench` installs it")
        return
    if size > LARGEST:
        yield Note(f"PMB: asked up to {LARGEST:,} memories")
        return
    queries = questions(list(islice(texts(size), service.ASKED_FROM)), RECALLS + 1)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Home(Path(folder), environment, None)
        home.fill(texts(size))
        with home.serve() as daemon:
            yield from _hooks(size, home, queries)
            yield from _theirs(size, daemon, queries, WORDS_ALONE, service.LEXICAL, lambda x: x)
    model = models.minilm(environment)
    if model is None:
        yield Note(f"PMB with a model: left out, {environment.name} has no {models.PACKAGE}")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        table = models.static(model, Path(folder) / "static")
        for embedder in (
            Embedder(STATIC, table, f"table:{table}"),
            Embedder(MINILM, model, f"onnx:{model}"),
        ):
            place = Path(folder) / embedder.setting.partition(":")[0]
            yield from _with(
                size, environment, embedder, place, np.array(models.words(model), object)
            )
    yield Note(
        "hybrid recall: both with the same model, over memories made of words that are one token "
        "to it; a question's own embedding is part of both"
    )


def _hooks(size: int, home: Home, queries: Sequence[str]) -> Iterator[Figure]:
    """Time the process that a host starts for a prompt, and a bare interpreter as its floor."""
    bare = [sys.executable, "-I", "-S", "-c", "pass"]
    for who, run in (
        (BARE, lambda prompt: cpu_s(bare, os.environ)),
        (WORDS_ALONE, home.hook_cpu_s),
    ):
        spent = [run(query) for query in queries[: HOOKS + 1]]  # the first may compile its imports
        yield Figure(size, f"{HOOK}, CPU", who, float(np.median(spent[1:])) * 1e3, "ms")


def _with(
    size: int, environment: Path, embedder: Embedder, place: Path, words: Words
) -> Iterator[Figure | Note]:
    """Time both with the same embedder, one after the other."""
    queries = questions(list(texts(size, words=words)), RECALLS + service.WARM)
    of = partial(hybrid, name=embedder.name)
    home = Home(place / "theirs", environment, embedder.folder)
    home.fill(texts(size, words=words))
    with home.serve() as daemon:
        yield from _theirs(size, daemon, queries[: RECALLS + 1], WHO, RECALL, of)
    ours, settings = place / "ours", {"MNEMOLOG_EMBEDDER": embedder.setting}
    ours.mkdir()
    builds.added(ours, texts(size, words=words), "m")
    yield from builds.built(size, of(builds.FULL), ours, settings=settings)
    with serve(ours, settings) as server:
        _loaded(server)
        yield from service.recalled(size, of(RECALL), server, queries, "auto")
        yield from service.written(size, of(service.WRITE), server, WRITES)
        yield from service.fresh(size, of(service.FRESH), server, FRESH)


def _loaded(server: Server) -> None:
    until = time.monotonic() + _LOAD_S
    while (answer := server.post("/v1/recall", {"query": "warm up"}))["degraded"]:
        if time.monotonic() > until:
            sys.exit(f"our server does not load its model: {answer['notices']}")
        time.sleep(0.1)


def _theirs(
    size: int,
    daemon: Daemon,
    queries: Sequence[str],
    who: str,
    recall: str,
    of: Callable[[str], str],
) -> Iterator[Figure | Note]:
    daemon.recall(queries[0])
    timed = Timed(size, daemon, who)
    yield from timed(of(recall), [partial(_answered, daemon, query) for query in queries[1:]])
    daemon.write("warm up the tool that writes")
    daemon.recall("warm up the tool that writes")  # loads the modules that only writing needs
    notes = [service.note(number) for number in range(WRITES)]
    yield from timed(of(service.WRITE), [partial(daemon.write, note) for note in notes])
    remarks = [service.remark(number) for number in range(FRESH)]
    missed: list[str] = []
    yield from timed(
        of(service.FRESH),
        [partial(_sought, daemon, remark, missed) for remark in remarks],
        [partial(daemon.write, remark) for remark in remarks],
    )
    if missed:
        yield Note(
            f"{who}, {size:,}, {of(service.FRESH)}: {len(missed)} of {FRESH} were not among the "
            "best five (ours are always found)"
        )


@dataclass(frozen=True)
class Timed:
    """A timer of a daemon's calls, one by one: wall time, and the CPU of all its threads."""

    size: int
    daemon: Daemon
    who: str

    def __call__(
        self,
        title: str,
        calls: Sequence[Callable[[], None]],
        before: Sequence[Callable[[], None]] = (),
    ) -> Iterator[Figure]:
        """Yield the median and the mean CPU; a call of `before` precedes each one, untimed."""
        times, spent = [], 0.0
        for number, call in enumerate(calls):
            if before:
                before[number]()
            cpu, began = self.daemon.cpu_s(), time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1e3)
            spent += (self.daemon.cpu_s() or 0.0) - (cpu or 0.0)
        yield Figure(self.size, f"{title}, p50", self.who, float(np.median(times)), "ms")
        if self.daemon.cpu_s() is not None:
            cpu_ms = spent / len(times) * 1e3
            yield Figure(self.size, f"{title}, CPU", self.who, cpu_ms, "ms")


def _answered(daemon: Daemon, query: str) -> None:
    if not daemon.recall(query):
        sys.exit(f"PMB has no answer to {query!r}")


def _sought(daemon: Daemon, text: str, missed: list[str]) -> None:
    if text not in daemon.recall(text):
        missed.append(text)

"""
PMB, an older memory for agents, over the same memories and questions: its recall over HTTP.

It lives in an environment of its own, `python -m venv .venv-pmb && .venv-pmb/bin/pip install
pmb-ai`, and is asked by words alone: its own embedder is a download, so hybrid recall is not
compared here.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import service
from corpus import questions, texts
from figure import Figure, Note
from process import Server

WHO = "PMB, words alone"
LARGEST = 10_000  # 0.1 s a recall there, ten times what it is at a thousand
RECALLS = 50

# Its quick way in, for imports, leaves the words to the job that embeds, which there is no model
# for; they are then indexed as one write from its command line is, and saved once.
_SEED = """
import os, sys
from pathlib import Path
from pmb.core.engine import Engine

engine = Engine(pmb_home=Path(os.environ["PMB_HOME"]))
save, engine.search._save_bm25_cache = engine.search._save_bm25_cache, lambda: None
texts = sys.stdin.read().splitlines()
for start in range(0, len(texts), 500):
    some = texts[start : start + 500]
    done = engine.record_batch_bulk([{"type": "fact", "content": one} for one in some])
    for ulid, one in zip(done["bulk_ulids"], some, strict=True):
        engine.search.add_bm25_only(ulid, one)
engine.search._ensure_bm25()
save()
sys.stdout.flush()
os._exit(0)  # its threads would wait for the model
"""


def figures(size: int, *, environment: Path) -> Iterator[Figure | Note]:
    """Time recall over HTTP of the PMB installed in a virtual environment."""
    if not (environment / "bin" / "pmb").exists():
        yield Note(f"{WHO}: left out, there is none in {environment.name}: see tests/bench/pmb.py")
        return
    if size > LARGEST:
        yield Note(f"{WHO}: asked up to {LARGEST:,} memories")
        return
    asked = questions(list(islice(texts(size), service.ASKED_FROM)), RECALLS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        env = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "HOME": folder,
            "PMB_HOME": str(home / "pmb"),
            "PMB_WORKSPACE": "bench",
            "HF_HUB_OFFLINE": "1",
        }
        python = environment / "bin" / "python"
        subprocess.run(
            [python, "-c", _SEED], input="\n".join(texts(size)), env=env, text=True, check=True
        )
        command = [python, environment / "bin" / "pmb", "daemon", "run", "--port", str(_free())]
        with Server(
            [str(word) for word in command], home, env, home / "pmb/daemon.token"
        ) as server:
            yield from _recalled(size, server, asked)


def _recalled(size: int, server: Server, asked: list[str]) -> Iterator[Figure]:
    server.post("/internal/recall", {"query": asked[0]})
    times, before = [], server.cpu_s()
    for query in asked[1:]:
        began = time.perf_counter()
        answer = server.post("/internal/recall", {"query": query, "top_k": 5})
        times.append((time.perf_counter() - began) * 1e3)
        if not answer["results"]:
            sys.exit(f"PMB has no answer to {query!r}")
    yield Figure(size, f"{service.LEXICAL}, p50", WHO, statistics.median(times), "ms")
    if before is not None:
        spent = (server.cpu_s() or before) - before
        yield Figure(size, f"{service.LEXICAL}, CPU", WHO, spent / len(times) * 1e3, "ms")


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

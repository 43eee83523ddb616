"""
fairness: one tenant is flooded, and a thousand connections stay silent; the others are answered.

Ten tenants on one server. While 20 MB are written to one of them and recalled, recalls of the
others are timed and the server's memory is measured; then again while strangers connect and send
nothing.
"""

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from torture.outcome import Outcome, Scale
from torture.server import START, CutOff, Server

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

TENANTS = 10
SLOWEST_S = 0.1  # limit for 99 of 100 recalls of the others
MOST_BYTES = 400 << 20  # of memory, at the peak
TEXT = 62_000  # characters of a memory of the flood
PAUSE_S = 0.02  # between recalls
NOW = 1_790_000_000_000_000
# a server that indexes all new memories before it answers, switches threads every 100 ms, and keeps
# every connection
UNBOUNDED = (
    "import serve.reader.tail as t, serve.reader.tail_storage as s, serve.server.process as p; "
    "t.AT_ONCE = t.MOST = t.LONGEST = s.LONGEST = 1 << 40; p.SWITCH_S = 0.1; "
    "import store.home.http_access as c; c.STRANGERS = 1 << 30; c.FIRST_S = 1e9; "
)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    texts, idle = scale.of(40, 330), scale.of(300, 1_000)
    yield _flooded(folder / "flood", texts)
    yield _idle(folder / "idle", idle)
    if scale is Scale.FULL:
        yield _flooded(folder / "unbounded", texts, is_control=True)
        yield _idle(folder / "kept", idle, is_control=True)


def _flooded(folder: Path, texts: int, *, is_control: bool = False) -> Outcome:
    """Write long texts to one tenant and recall them, while the others are asked."""
    server = Server(_home(folder), (UNBOUNDED if is_control else "") + START)
    wrong: list[str] = []
    slow: list[float] = []
    for number in range(TENANTS):  # opened before the flood, as they would be
        server.ask("POST", "/v1/recall", _recall_body(f"t{number}"))
    is_over = threading.Event()

    def flood() -> None:
        try:
            for number in range(texts):
                body = {"content": _text(number), "tenant": "t0"}
                status, answer = server.ask("POST", "/v1/memories", body, timeout_s=120)
                if status != 201:
                    wrong.append(f"a write: {status} {answer}")
                if number % 10 == 0:
                    began = time.monotonic()
                    server.ask("POST", "/v1/recall", _recall_body("t0"), timeout_s=120)
                    slow.append(time.monotonic() - began)
            time.sleep(2.0)  # background work goes on
        except CutOff as error:
            wrong.append(f"the flood ended: {error!r}")
        finally:
            is_over.set()

    writer = threading.Thread(target=flood)
    writer.start()
    took = _timed(server, is_over.is_set, wrong)
    writer.join()
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in text.splitlines() if "VmHWM" in line) << 10
    server.kill(15)
    wrong += _judged(took)
    if peak > MOST_BYTES:
        wrong.append(f"{peak >> 20} MiB of memory")
    note = f"{_p99(took) * 1e3:.0f} ms p99 of the others, {max(slow, default=0):.1f} s the flooded "
    note += f"one's slowest recall, {peak >> 20} MiB at the peak"
    name = "one tenant of ten is flooded" + (", nothing bounded" if is_control else "")
    return Outcome(name, len(took), "recalls of the others", wrong, note, is_control=is_control)


def _idle(folder: Path, connections: int, *, is_control: bool = False) -> Outcome:
    """Connect and send nothing, while somebody with a token asks on new connections."""
    server = Server(_home(folder), (UNBOUNDED if is_control else "") + START)
    wrong: list[str] = []
    took: list[float] = []
    with ExitStack() as open_:
        for _ in range(connections):
            there = socket.create_connection(("127.0.0.1", server.port), timeout=2)
            open_.callback(there.close)
        until = time.monotonic() + 8
        took = _timed(server, lambda: time.monotonic() > until, wrong)
    server.kill(15)
    wrong += _judged(took)
    name = f"{connections:,} connections that send nothing" + (", all kept" if is_control else "")
    note = f"{_p99(took) * 1e3:.0f} ms p99"
    return Outcome(name, len(took), "recalls with a token", wrong, note, is_control=is_control)


def _timed(server: Server, is_over: Callable[[], bool], wrong: list[str]) -> list[float]:
    """Ask the other tenants in turn until it is over; return the seconds of each recall."""
    took: list[float] = []
    while not is_over():
        began = time.monotonic()
        try:
            status, answer = server.ask("POST", "/v1/recall", _recall_body(f"t{1 + len(took) % 9}"))
            if status != 200:
                wrong.append(f"a recall: {status} {answer}")
        except CutOff as error:
            wrong.append(f"a recall: {error!r}")
        took.append(time.monotonic() - began)
        time.sleep(PAUSE_S)
    return took


def _judged(took: list[float]) -> list[str]:
    return [f"p99 {_p99(took):.2f} s"] if _p99(took) > SLOWEST_S else []


def _p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98] if len(took) > 1 else max(took, default=0.0)


def _recall_body(name: str) -> dict[str, str]:
    return {"query": "who keeps the harbour lamps lit at night", "tenant": name}


def _text(number: int) -> str:
    words = (f"lamp{(number * 7_919 + place * 31) % 40_009}" for place in range(TEXT // 10))
    return f"flood {number}: {' '.join(words)}"[:TEXT]


def _home(folder: Path) -> Path:
    """Return a home of ten small tenants, each built, and the default one."""
    for name in ("default", *(f"t{number}" for number in range(TENANTS))):
        tenant_ = tenant(folder, name)
        with EventLog(tenant_.log, create=True) as log:
            drafts = [
                Draft(content=f"keeper {number} lights harbour lamp {number} of {name} at night")
                for number in range(50)
            ]
            commands.record_batch(log, drafts, NOW)
            build.rebuild(tenant_, log, LexicalEmbedder(), NOW)
    return folder

"""
Asks for every page and list of a home through Flask's test client, logged in, and prints the times
as JSON: the first in this process, and the median of the later ones.

Run by `pages.py`, in a process of its own. The client calls the application directly, so the times
are the server's own, without a socket.
"""

import gc
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import msgspec
from flask.testing import FlaskClient

from serve.api.parameters import encode_cursor, filter_digest
from serve.app import create_app
from serve.dashboard.forms import ListForm
from serve.reports.listing import Position
from serve.server.open_tenants import OpenTenant, OpenTenants
from store.home.config import Settings
from store.home.http_access import signer

TOKEN, HOST = "the-owner's-token", {"Host": "127.0.0.1:7437"}
WARM = 7
_LONG_MS = 1_000  # a slower page is asked for only once more
_UP_S = 4.0  # a server warms up in the time before the first visit


class Took(msgspec.Struct, frozen=True):
    """The times of one address in milliseconds, and the size of the answer's first part."""

    name: str
    first_ms: float
    warm_ms: float
    cpu_ms: float  # of the process, warm
    bytes: int


def main(home: Path) -> None:
    clock = lambda: time.time_ns() // 1_000  # noqa: E731
    tenants = OpenTenants(Settings(home))
    opened = tenants.get("default")
    app = create_app(tenants, TOKEN, clock)
    client, signing = app.test_client(), signer(TOKEN, Settings(home))
    client.set_cookie(signing.cookie, signing.value(clock()), domain="127.0.0.1")
    gc.freeze()  # as `mnemolog serve` does
    tenants.start()
    client.post("/v1/logins", json={}, headers=_headers())  # as `mnemolog dashboard` does
    time.sleep(_UP_S)
    pages_ = [_took(client, name, url) for name, url in (*pages(opened), *lists())]
    tenants.close()
    sys.stdout.write(msgspec.json.encode(pages_).decode())


def pages(opened: OpenTenant) -> Iterator[tuple[str, str]]:
    """Yield each page of the dashboard, by name."""
    from serve.reports import graph_views

    with opened.reader.view() as view:
        memory = view.tail.find("m77")
        assert memory is not None and view.snapshots.entities is not None
        named_most = graph_views.most_mentioned(view.snapshots.entities, None, 1)[0]
    words = " ".join(memory.content.split()[-6:])
    entity = {"kind": named_most.kind, "name": named_most.name}
    yield from {
        "overview": "overview",
        "overview, counters": "overview/live",
        "memories": "memories",
        "memories, recalled": _query("memories", q=words),
        "memories, words in an order": _query("memories", q=words, sort="-created_at"),
        "memories, by importance": _query("memories", sort="-importance"),
        "memories, filters": _query("memories", kind="fact", project="team1/app", tag="tag7"),
        "memories, any state": _query("memories", state="any", since="2020-01-01"),
        "memories, last page": _query("memories", after=_last_memories(opened)),
        "memory": f"memory/{_recalled(opened)}",
        "memory, a lesson": "memory/lesson1",
        "memory, edit": "memory/m77/edit",
        "memories, new": "memories/new",
        "recalls": "recalls",
        "recalls of a memory": _query("recalls", memory="m5"),
        "recalls, silent": _query("recalls", silent="silent"),
        "recalls of a session": _query("recalls", session="session7"),
        "recalls, last page": _query("recalls", after=_last_recalls(opened)),
        "recall": "recall/recall4000",
        "lab": "lab",
        "lab, asked": _query("lab", q=words),
        "graph": "graph",
        "graph, search": _query("graph", name="ka"),
        "graph, data": "graph/picture",
        "graph, entity": _query("graph/entity", **entity),
        "lessons": "lessons",
        "goals": "goals",
        "proposals": "proposals",
        "proposals, all": _query("proposals", state="all"),
        "proposal, 20 steps": "proposals/PLAN0270",
        "proposal, 1,000 steps": "proposals/PLAN0299",
        "proposal, facts": "proposals/PLAN0296",
        "proposal, recommended": "proposals/RECOMMEND0004",
        "jobs": "jobs",
        "access": "access",
        "errors": "errors",
    }.items()


def lists() -> Iterator[tuple[str, str]]:
    """Yield each list of the API, by its address."""
    for path in (
        "/v1/memories",
        "/v1/memories?text=kaka&limit=200",
        "/v1/receipts",
        "/v1/receipts?memory=m5",
        "/v1/proposals",
        "/v1/proposals?state=waiting",
        "/v1/proposals/PLAN0270",
        "/v1/entities?prefix=ka",
        "/v1/lessons",
        "/v1/goals",
        "/v1/facts",
        "/v1/conflicts",
        "/v1/digest",
        "/v1/tenants",
        "/v1/tenants/default/stats",
        "/v1/jobs",
        "/v1/export",
        "/metrics",
    ):
        yield path, path


def _took(client: FlaskClient, name: str, path: str) -> Took:
    url = path if path.startswith("/") else f"/t/default/{path}"
    times: list[float] = []
    used: list[float] = []
    size = 0
    while len(times) <= (WARM if max(times, default=0) < _LONG_MS else 1):
        began, spent = time.perf_counter(), time.process_time()
        answer = client.get(url, headers=_headers() if path.startswith("/") else HOST)
        first = next(iter(answer.response), b"")  # the whole answer, or the first part of a stream
        times.append((time.perf_counter() - began) * 1e3)
        used.append((time.process_time() - spent) * 1e3)
        size = len(first)
        if answer.status_code != 200:
            sys.exit(f"{url}: {answer.status_code} {answer.text[:2_000]}")
        answer.close()
    warm = statistics.median(times[1:])
    print(f"{name}: {times[0]:.0f}, {warm:.0f} ms", file=sys.stderr)
    return Took(name, times[0], warm, statistics.median(used[1:]), size)


def _headers() -> dict[str, str]:
    return HOST | {"Authorization": f"Bearer {TOKEN}"}


def _query(page: str, **parameters: str) -> str:
    return f"{page}?{urlencode(parameters)}"


def _recalled(opened: OpenTenant) -> str:
    """Return a memory recalled by an old receipt, so that all newer ones are searched."""
    rows = opened.log.select_rows("kind = 'recalled' AND body LIKE '%\"hits\":[{%'", (), limit=1)
    return str(msgspec.json.decode(rows[0][9])["hits"][0]["id"])


def _last_memories(opened: OpenTenant) -> str:
    [place] = opened.log.select_rows("id = ?", ("m40",))  # forty are left after it
    return encode_cursor(
        Position(place[2], place[0]), filter_digest("memories", ListForm().query())
    )


def _last_recalls(opened: OpenTenant) -> str:
    [place] = opened.log.select_rows("id = ?", ("recall40",))
    filters = dict.fromkeys(("memory", "project", "session", "silent"), "")
    return encode_cursor(Position(place[2], place[0]), filter_digest("recalls", filters))


if __name__ == "__main__":
    os.environ["MNEMOLOG_BUILD_AFTER"] = "0"
    main(Path(sys.argv[1]))

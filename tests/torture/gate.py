"""
gate: Host x Origin x Sec-Fetch-Site x content type x method x credential, for programs and for
pages: nothing outside the allowlist reaches a route.
"""

from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from unittest.mock import patch

from flask.testing import FlaskClient
from gate_door import (
    HOSTS,
    METHODS,
    ORIGINS,
    SHOWN,
    SITES,
    TYPES,
    Asked,
    Door,
    door,
    for_pages,
    for_programs,
)
from torture.outcome import Outcome, Scale

from serve.server import request_guard

PATHS: tuple[tuple[str, Callable[[str, str | None, str], int]], ...] = (
    ("/v1/memories", for_programs),
    ("/t/team/memories", for_pages),
)
EVERY = 23  # the step of a sample, if all are too many; shares no factor with the table's sides


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcome of every combination, and of a gate without its check of origins."""
    step = scale.of(EVERY, 1)
    with_gate = door(folder / "whole")
    for path, expected in PATHS:
        requests, wrong, allowed = _walked(with_gate, path, expected, step)
        if not allowed:
            wrong.append("nobody got in: then nothing was tried")
        note = f"{allowed:,} allowed"
        yield Outcome(f"the gate of {path}", requests, "combinations", wrong, note, floor=1_000)
    with patch.object(request_guard, "_check_origin", lambda request: None):
        requests, wrong, _ = _walked(door(folder / "half"), *PATHS[0], EVERY)
    yield Outcome(
        "a gate that asks nobody where from", requests, "combinations", wrong, is_control=True
    )


def _walked(
    there: Door, path: str, expected: Callable[[str, str | None, str], int], step: int
) -> tuple[int, list[str], int]:
    """Return the number of requests, the wrong answers and the number let in."""
    client = there.app.test_client(use_cookies=False)
    there.reached.clear()
    requests = allowed = 0
    wrong = []
    for combination in islice(product(HOSTS, ORIGINS, SITES, TYPES, METHODS, SHOWN), 0, None, step):
        request = Asked(*combination)
        requests += 1
        status = _status(request, expected)
        allowed += status == 200
        if fault := _fault(client, there, path, request, status):
            wrong.append(f"{request}: {fault}")
    if len(there.reached) != allowed:
        wrong.append(f"{len(there.reached)} reached the route, {allowed} may")
    return requests, wrong, allowed


def _status(request: Asked, expected: Callable[[str, str | None, str], int]) -> int:
    """Return the expected status."""
    if not HOSTS[request.host]:
        return 421
    if not (ORIGINS[request.origin] and SITES[request.site]):
        return 403
    return expected(request.method, request.type_, request.shown)


def _fault(client: FlaskClient, there: Door, path: str, request: Asked, status: int) -> str:
    answer = there.sent(client, path, request)
    if answer.status_code != status:
        return f"{answer.status_code}, not {status}"
    if any("access-control" in name.lower() for name in answer.headers.keys()):
        return "a CORS header"
    if ("WWW-Authenticate" in answer.headers) != (status == 401):
        return "WWW-Authenticate"
    return ""

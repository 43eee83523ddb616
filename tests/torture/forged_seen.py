"""The answers of a fresh server over a forged memory, page by page, in a process that may crash."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dashboard_page import HOST, TOKEN, application, browser
from torture.rot_memory import EMBEDDER, NOW

from serve.server.open_tenants import OpenTenants
from store.derived.constraints import Constraints
from store.home import tenant
from store.home.config import Choices, Settings
from store.log.event_log import EventLog
from store.maintenance import build, checkup
from store.maintenance.verify import verify

CHOICES = Choices()
QUESTIONS = ("who owns the cache in staging?", "what broke in src/parser.py?")
MODES = ("auto", "lexical", "vector", "entity")
PAGES = (
    "/v1/overview?topic=cache", "/v1/conflicts", "/v1/entities?prefix=s",
    "/v1/graph?entity=src/cache.py", "/v1/facts", "/v1/goals", "/v1/memories?limit=100",
    "/v1/memories/default-m07",
    "/v1/keys/deploy.region/history", "/v1/lessons", "/v1/digest", "/v1/receipts",
    "/v1/tenants/default/stats",
)  # fmt: skip
DRAWN = (
    "/t/default/graph",
    "/t/default/graph/around?of=file&name=src/cache.py",
)  # dashboard pages, for a browser
_PASSING = frozenset(
    {"recall", "took_us", "took_ms", "laps", "notices", "snapshot_bytes", "log_bytes"}
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The answers by request; `notices` are recall's notices of parts set aside."""

    answers: Mapping[str, Any]
    failed: tuple[str, ...]
    notices: tuple[str, ...]


def seen(home: str) -> Seen:
    """Ask a fresh server of a home for everything.

    A request without an answer has failed; a page may answer 404, which differs from a 200.
    """
    tenants = OpenTenants(Settings(Path(home), CHOICES))
    answers: dict[str, Any] = {}
    failed, notices = [], dict[str, None]()
    bearer = HOST | {"Authorization": f"Bearer {TOKEN}"}
    try:
        app = application(tenants, lambda: NOW)
        client = app.test_client()
        for question in QUESTIONS:
            for mode in MODES:
                request = {"query": question, "mode": mode, "min_confidence": 0.0, "touch": False}
                response = client.post("/v1/recall", json=request, headers=bearer)
                name = f"recall {mode}: {question}"
                answers[name] = _lasting(response.json)
                if response.status_code == 200:
                    notices |= dict.fromkeys(response.json.get("notices", ()))
                else:
                    failed.append(f"{name}: {response.status_code} {response.text[:200]}")
        for page in PAGES:
            response = client.get(page, headers=bearer)
            answers[page] = _lasting(response.json)
            if response.status_code not in (200, 404):
                failed.append(f"{page}: {response.status_code} {response.text[:200]}")
        drawn = browser(app).client
        for page in DRAWN:
            response = drawn.get(page, headers=HOST)
            if response.status_code >= 500:
                failed.append(f"{page}: {response.status_code}")
    finally:
        tenants.close()
    return Seen(answers, tuple(failed), tuple(notices))


def _lasting(answer: Any) -> Any:
    """Return an answer without the fields that differ at each request."""
    if isinstance(answer, dict):
        return {name: _lasting(value) for name, value in answer.items() if name not in _PASSING}
    return [_lasting(value) for value in answer] if isinstance(answer, list) else answer


def told(home: str) -> tuple[bool, frozenset[str]]:
    """Return True if `verify` finds a fault, and the doctor's findings."""
    settings = Settings(Path(home), CHOICES)
    of = tenant.find_tenant(settings.home, "default")
    with EventLog(of.log) as log:
        is_named = not verify(of, log, EMBEDDER).ok
    findings = checkup.checkup(settings)
    return is_named, frozenset(finding.what for finding in findings if finding.severity != "ok")


def healed(home: str) -> Seen:
    """Build as `mnemolog build` does, and ask a fresh server again."""
    of = tenant.find_tenant(Path(home), "default")
    with EventLog(of.log) as log:
        build.rebuild(of, log, EMBEDDER, NOW)
    return seen(home)


def blind(home: str) -> Seen:
    """Ask a server that does not check the content of files."""
    logging.disable(logging.CRITICAL)  # its tracebacks are expected, and not worth reading
    try:
        with patch.object(Constraints, "check_part", lambda *of: None):
            return seen(home)
    finally:
        logging.disable(logging.NOTSET)


def act(arguments: tuple[str, str]) -> Any:
    """Call one of these functions for a home, by name."""
    name, home = arguments
    return {"seen": seen, "told": told, "healed": healed, "blind": blind}[name](home)

"""
Two tenants with data of every kind, for testing a token that may see only one of them.

"Theirs" lies in `bravo`. The test gets its ids and names, to try each of them everywhere, but not
its marker, a word in all its texts, which must never come back. The same home is made once more
without it: a token of `alpha` must get the same answers in both.
"""

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import drafts
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from serve.app import create_app
from serve.server import process
from serve.server.callers import hook_key
from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home import failures, tokens
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.registry import Server
from store.home.tokens import Scope, Wanted
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Made, Planned, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.build import rebuild
from store.memories.fold import Fold
from store.memories.memory import Memory
from store.plans import plans, recommendations, steps
from store.plans.recommendations import Change

NOW = 1_700_000_000_000_000
OWNERS = "the-owner's-token"
MINE, THEIRS, NOBODYS = "alpha", "bravo", "default"
MARKERS = {MINE: "crimsonowl", THEIRS: "azurefox", NOBODYS: "emeraldelk"}
QUERY = "how does src/vault.py rotate the signing key"
ALL: tuple[Scope, ...] = ("read", "write", "admin")


@dataclass(frozen=True)
class World:
    """A home with its server's application. `there` maps a parameter's name to the values that
    `bravo` has for it, `hidden` are ids of bravo's that the test does not get.
    """

    home: Path
    client: FlaskClient
    opened: OpenTenants
    token: str
    there: dict[str, list[Any]] = field(default_factory=dict)
    ids: frozenset[str] = frozenset()

    def send(
        self, method: str, path: str, body: object = None, *, token: str = "", **headers: str
    ) -> TestResponse:
        """Send a request with the token of `alpha`, or another; a header names `bravo`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.open(
            path,
            method=method,
            data=None if body is None else json.dumps(body),
            content_type="application/json",
            headers={
                "Host": "127.0.0.1",
                "Authorization": f"Bearer {token or self.token}",
                "X-Mnemolog-Tenant": THEIRS,
            }
            | named,
        )


@contextmanager
def world(home: Path, *names: str) -> Iterator[World]:
    """Yield a home with some tenants; the token belongs to the first."""
    with pytest.MonkeyPatch.context() as patch:
        opened = OpenTenants(Settings(home))
        patch.setattr(opened.ingest, "_clock", lambda: NOW + 1_800_000_000)
        made = {name: _fill(home, opened, name) for name in names}
        for name in names:  # last, so that no tenant's turn at the queues takes it
            made[name]["hidden"].append(_waits(opened, name))
        assert opened.make(NOBODYS) == (NOBODYS not in names)  # like a server at its start
        opened.get(NOBODYS)
        clock = itertools.count(NOW + 3_600_000_000, 1_000).__next__
        app = create_app(opened, OWNERS, clock, hook_deadline_s=60.0)
        app.register_blueprint(process.control_blueprint(Server(1, 2, 3, "instance"), lambda: None))
        wanted = Wanted(scopes=ALL, per_minute=1_000_000)
        _, token = tokens.make(home, MINE, wanted, NOW)
        there = made.get(THEIRS, {})
        ids = frozenset(_strings([there.get("id", []), there.get("hidden", [])]))
        try:
            yield World(home, app.test_client(), opened, token, there, ids)
        finally:
            opened.close()


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _fill(home: Path, opened: OpenTenants, name: str) -> dict[str, list[Any]]:
    """Fill a tenant; return its values by the name of the parameter that takes them."""
    EventLog(tenants.tenant(home, name).log, create=True).close()
    tenant, word = opened.get(name), MARKERS[name]
    clock = itertools.count(NOW, 1_000_000).__next__
    ids = _memories(tenant.log, name, word, clock)
    rebuild(tenant.tenant, tenant.log, LexicalEmbedder(), clock())
    assert tenant.reader.poll()
    owner = _owner(opened, clock)
    asked = {"query": QUERY, "tenant": name, "min_confidence": 0.0, "top_k": 2}
    recall = owner("POST", "/v1/recall", asked)["recall"]
    owner("POST", "/v1/recall", {"query": f"what of {word}", "tenant": name})
    owner("POST", "/v1/rate", {"id": recall, "verdict": 1.0, "tenant": name})
    note = {"role": "user", "content": f"I always keep the {word} in src/vault.py"}
    body = {"turns": [note], "tenant": name, "session": f"{name}-session"}
    job = owner("POST", "/v1/ingest", body)["id"]
    assert opened.ingest.turn()
    _sessions(owner, name, word)
    commands.record(tenant.log, Draft(id=f"{name}-fresh", content=f"{word} was here last"), clock())
    found = _proposals(tenant.log, f"{name}-fact", f"{name}-plain", word, clock)
    failures.keep(tenant.tenant.root, "facts", clock(), f"the {word} did not answer")
    token, text = tokens.make(home, name, Wanted(scopes=ALL, name=f"of {word}"), clock())
    tenant.notes.write()
    pages = {
        path: owner("GET", f"/v1/{path}?tenant={name}&limit=1").get("next")
        for path in ("memories", "receipts")
    }
    told = [event.id for event in tenant.log.read()]
    sent = [*ids, recall, job, token.id, *found]
    return {
        "id": sent,
        "hidden": [id_ for id_ in told if id_ not in (*sent, "shared")],
        "cursor": [page for page in pages.values() if page],
        "token": [text],
        "hook": [hook_key(OWNERS, "claude-code", name)],
    }


def _owner(opened: OpenTenants, clock: Any) -> Any:
    """Return a function that sends requests as the owner."""
    app = create_app(opened, OWNERS, clock, hook_deadline_s=30.0).test_client()

    def owner(method: str, path: str, body: object = None) -> Any:
        answer = app.open(
            path,
            method=method,
            data=None if body is None else json.dumps(body),
            content_type="application/json",
            headers={"Host": "127.0.0.1", "Authorization": f"Bearer {OWNERS}"},
        )
        assert answer.status_code < 300, answer.text
        return answer.json

    return owner


def _waits(opened: OpenTenants, name: str) -> str:
    """Leave a pending job in a tenant's queue; return its id."""
    body = {"memories": [{"content": f"it waits, says {MARKERS[name]}"}], "tenant": name}
    waits: str = _owner(opened, lambda: NOW)("POST", "/v1/ingest", body)["id"]
    return waits


def _memories(log: EventLog, name: str, word: str, clock: Any) -> list[str]:
    text = f"`src/vault.py` and `src/{name}.py` rotate the signing key weekly, says {word}"
    common: dict[str, Any] = {"session": f"{name}-session", "agent": f"{name}-agent"}
    drafts = [
        Draft(id=f"{name}-fact", content=text, tags=(f"{name}-tag", f"{word}-tag"), **common),
        Draft(id=f"{name}-plain", content=f"the harbour of {word} is closed at night"),
        Draft(id=f"{name}-lesson", kind="lesson", content=f"Never use push --force, says {word}"),
        Draft(id=f"{name}-goal", kind="goal", content=f"reach the {word}", progress=0.5),
        Draft(
            id=f"{name}-step", kind="milestone", chain=f"{name}-chain", content=f"{word} was met"
        ),
        Draft(id=f"{name}-choice", kind="decision", content=f"We chose the {word}", pinned=True),
        Draft(id=f"{name}-old", content=f"an older word of {word} on the anchor"),
        Draft(id=f"{name}-gone", content=f"what {word} wants to be forgotten"),
        Draft(id=f"{name}-away", content=f"what {word} has put away"),
        Draft(id="shared", content=f"an id that is in all tenants, says {word}"),
        Draft(
            id=f"{name}-key",
            key=f"{name}.region",
            value=word,
            content=f"{word} deploys to the east",
            metadata={"by": word},
        ),
        Draft(id=f"{name}-here", project=f"{name}/shop", content=f"in the shop {text}", **common),
        Draft(id=f"{name}-there", project=f"{word}/hidden", content=f"Anna met `src/{word}.py`"),
    ]
    commands.record_batch(log, drafts, clock())
    commands.revise(log, f"{name}-fact", Revised(context=f"asked by {word}"), clock())
    commands.supersede(log, f"{name}-old", f"{name}-plain", clock())
    commands.forget(log, f"{name}-gone", clock())
    commands.archive(log, f"{name}-away", clock())
    commands.link(log, f"{name}-fact", f"{name}-plain", "support", clock())
    commands.link(log, f"{name}-choice", f"{name}-plain", "conflict", clock())
    commands.rate(log, f"{name}-fact", 1.0, clock())
    return [f"{name}-{end}" for end in ("fact", "gone", "away", "key", "goal", "lesson")]


def _sessions(owner: Any, name: str, word: str) -> None:
    """Send the events of a host's hooks for one session."""
    common = {"session_id": f"{name}-session", "cwd": "/nowhere"}
    for event in (
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", "prompt": QUERY},
        {"hook_event_name": "UserPromptSubmit", "prompt": f"no, actually use the {word}"},
        {
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": f"git push --force {word}"},
            "tool_response": {"stdout": word},
        },
        {"hook_event_name": "Stop"},
    ):
        owner("POST", f"/v1/hooks/claude-code?tenant={name}", common | event)


def _proposals(log: EventLog, first: str, second: str, word: str, clock: Any) -> list[str]:
    """Make an applied and a pending plan, a recommendation and a draft; return their ids."""
    fold = Fold()
    for event in log.effective_events(0, log.head()):
        fold.apply(event)

    def of(*found: Any) -> str:
        body = Planned(
            job="consolidate", watermark=log.head(), steps=found, looked_at=3, notes=(word,)
        )
        return plans.propose(log, body, clock()).id

    made = Draft(id=f"{first}-made", content=f"a summary by {word}", source_ids=(first,))
    done = of(steps.record(made, Made(job="consolidate"), clock(), f"{word} says so"))
    plans.apply(log, done, clock())
    waiting = of(_revised(fold.rows[first], word))
    change = Change(log.head(), (steps.archive(fold.rows[second], f"{word} never asked"),))
    wanted = recommendations.proposal("archive", [fold.rows[second]], change, word, clock())
    draft = drafts.draft(f"Prefer the {word}", "lesson", clock(), because=word)
    events: list[Event] = [one.event for one in log.append([wanted, draft])]
    return [done, waiting, *(other.id for other in events)]


def _revised(memory: Memory, word: str) -> Any:
    return steps.revise(memory, Revised(importance=0.9), f"{word} asks daily")


_MASKS = (
    (re.compile(r"mnemo_[0-9a-f]{12}_[\w-]{43}"), "TOKEN"),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])"), "ID"),
    (re.compile(r"(?<![0-9A-Z])(?:[0-9A-Z]{24,26}|[0-9A-Z]{14})(?![0-9A-Z])"), "ULID"),
    (re.compile(r'(?<="took_ms":)[0-9.e-]+'), "MS"),
    (re.compile(r'(?<=_us":){[^{}]*}'), "US"),
    (re.compile(r"(?m)^(\S*seconds\S*(?:\{[^}]*\})?) [0-9.e+-]+$"), r"\1 S"),
)


def masked(answer: TestResponse) -> str:
    """Return an answer's text, without the values drawn or measured anew each time."""
    text = answer.text
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in ("Date", "Content-Length", "Set-Cookie")
    }
    told = json.dumps(headers, sort_keys=True)
    for pattern, name in _MASKS:
        told = pattern.sub(name, told)
    return f"{answer.status_code} {told}\n{text}"

"""What is put before the model with a prompt: what is known of it, once, or nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_block import items

from serve.hooks import prompt as prompts
from serve.hooks.answer import Hooks
from serve.hooks.event import HookEvent
from serve.hooks.hosts.host import Host
from serve.tenants import OpenTenants
from store import commands, tenant
from store.agent_events import Prompted, Surfaced
from store.commands import Draft
from store.config import Settings
from store.events import Event, Recalled, Revised
from store.log import EventLog

NOW = 1_790_000_000_000_000
MINUTE = 60_000_000
ASKED = "which package manager do we use in this repository?"


@dataclass
class Session:
    """A host that sends events of one session, a minute apart."""

    tenants: OpenTenants
    name: str = "s1"
    cwd: str | None = None
    at: int = field(default=NOW)

    def __post_init__(self) -> None:
        self._host = Host(
            "plain", lambda payload: payload["event"], lambda event, reply: vars_of(reply)
        )
        self._hooks = Hooks(self.tenants, lambda: self.at, deadline_s=30.0)

    def tell(self, moment: str, **fields: Any) -> str:
        self.at += MINUTE
        event = HookEvent("plain", moment, self.name, cwd=self.cwd, **fields)  # type: ignore[arg-type]
        answer = self._hooks.answer(self._host, {"event": event})
        self.tenants.get("default").write_receipts()
        return answer["says"] if answer else ""

    def ask(self, prompt: str = ASKED) -> str:
        return self.tell("prompt", prompt=prompt)

    def remember(self, content: str, **fields: Any) -> str:
        self.at += MINUTE
        return commands.record(self.log, Draft(content=content, **fields), self.at).event.id

    @property
    def log(self) -> EventLog:
        return self.tenants.get("default").log

    def events(self, kind: type) -> list[Event]:
        return [one for one in self.log.of_session(self.name) if isinstance(one.body, kind)]

    def close(self) -> None:
        self._hooks.close()


def vars_of(reply: Any) -> dict[str, str]:
    return {"says": reply.context}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    EventLog(tenant.tenant(tmp_path).log, create=True).close()
    opened = OpenTenants(Settings(tmp_path))
    made = Session(opened)
    yield made
    made.close()
    opened.close()


@pytest.fixture
def knows(session: Session) -> Session:
    """A session whose memory holds a rule and a decision about package managers."""
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    session.remember(
        "The repository moved its package manager from yarn to pnpm", kind="decision", id="why"
    )
    return session


def ids(text: str) -> list[str]:
    return [one["id"] for one in items(text)] if text else []


# What is said


def test_a_prompt_brings_what_is_known_rules_first(knows: Session):
    said = items(knows.ask())
    assert [(one["id"], one["role"]) for one in said] == [("rule", "rule"), ("why", "fact")]


@pytest.mark.parametrize(
    "prompt", ["thanks!", "run the tests", "/compact", "what is the capital of Peru?"]
)
def test_what_the_memory_has_nothing_to_say_to_is_answered_by_silence(knows: Session, prompt: str):
    assert knows.ask(prompt) == ""
    assert [one.body.prompt for one in knows.events(Prompted)] == [prompt]


def test_a_memory_that_is_not_sure_says_nothing(knows: Session, monkeypatch):
    monkeypatch.setattr(prompts, "BAR", 1.1)
    assert knows.ask() == ""
    assert knows.events(Recalled)[0].body.dropped["unsaid"] == 2


def test_the_intent_of_a_prompt_is_kept(knows: Session):
    for prompt in ("ok", "git status", ASKED, "no, use yarn", "add a package"):
        knows.ask(prompt)
    kept = [one.body.intent for one in knows.events(Prompted)]
    assert kept == ["small_talk", "command", "question", "correction", "work"]


def test_the_same_notes_are_the_same_bytes_in_another_session(knows: Session):
    first = knows.ask()
    knows.name = "s2"
    assert knows.ask("the package manager we use, which one is it? pnpm, npm or yarn") == first


def test_open_goals_come_when_they_are_asked_for(knows: Session):
    knows.remember("Move all packages to pnpm", kind="goal", id="far")
    knows.remember("Drop the yarn lock", kind="goal", id="near", metadata={"due": "2026-10-01"})
    knows.remember("Choose a manager", kind="goal", id="done", status="done")
    assert knows.ask("hello there") == ""
    assert sorted(ids(knows.ask("where were we?"))) == ["far", "near"]
    assert {"far", "near"} <= set(ids(knows.ask("what are the next steps?")))


# Once


def test_what_was_said_in_a_session_is_not_said_again(knows: Session):
    assert knows.ask() and not knows.ask(ASKED + " again")
    assert knows.events(Recalled)[1].body.hits == ()
    knows.name = "s2"
    assert knows.ask()


def test_only_what_is_new_is_said(knows: Session):
    knows.ask()
    knows.remember("The package manager pnpm is pinned to 9 in this repository", id="new")
    assert ids(knows.ask(ASKED + " again")) == ["new"]


def test_what_changed_since_is_said_again(knows: Session):
    knows.ask()
    knows.at += MINUTE
    commands.revise(knows.log, "why", Revised(context="it saves disk space"), knows.at)
    assert ids(knows.ask(ASKED + " again")) == ["why"]


@pytest.mark.parametrize(
    ("start", "again"), [("compact", True), ("clear", True), ("resume", False)]
)
def test_what_left_the_context_may_be_said_again(knows: Session, start: str, again: bool):
    knows.ask()
    knows.tell("session_start", start=start)
    assert bool(ids(knows.ask(ASKED + " again"))) == again


# What is kept of it


def test_a_rule_that_was_said_is_kept_as_surfaced(knows: Session):
    knows.ask()
    assert [(one.subject, one.body.place) for one in knows.events(Surfaced)] == [("rule", "prompt")]
    receipt = knows.events(Recalled)[0].body
    assert {hit.id for hit in receipt.hits} == {"rule", "why"} and receipt.query == ASKED


def test_nothing_of_another_project_is_said(session: Session):
    session.remember("Use pnpm as the package manager here", project="acme/web", id="theirs")
    session.remember("Use npm as the package manager by default", id="ours")
    assert ids(session.ask()) == ["ours"]


def test_what_was_replaced_is_not_said(knows: Session):
    knows.remember("Use bun as the package manager", kind="preference", id="newer")
    commands.supersede(knows.log, "rule", "newer", knows.at)
    assert "rule" not in ids(knows.ask())

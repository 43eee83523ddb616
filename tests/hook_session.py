"""An agent's session for the tests: a host reports its events, a minute apart, to real hooks."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from serve.hooks import speaking
from serve.hooks.answer import Hooks
from serve.hosts.event import HookEvent, ToolUse
from serve.hosts.host import Host
from serve.server.open_tenants import OpenTenants
from store.home import tenant
from store.home.config import Settings
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.log.events import Event
from store.text.frame import CLOSING, OPENING

NOW = 1_790_000_000_000_000
MINUTE = 60_000_000


def notes(block: str) -> list[dict[str, Any]]:
    """Return the notes of a block, as a reader who knows the two lines of its frame."""
    if not block:
        return []
    opening, *lines, closing = block.split("\n")
    assert (opening, closing) == (OPENING, CLOSING)
    return [msgspec.json.decode(line) for line in lines if line.startswith("{")]


def ids(block: str) -> list[str]:
    return [note["id"] for note in notes(block) if "id" in note]


HELD = {"asked": 8.0, "said": 8.0, "done": 8.0}
SURE = speaking.Model(tuple(HELD.get(sign, 0.0) for sign in speaking.FEATURES), -2.5, 0.5)


def speaks_where_recall_is_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer a prompt if a memory covers enough of its words, without the fitted model."""
    monkeypatch.setattr(speaking, "MODELS", dict.fromkeys(speaking.MODELS, SURE))
    monkeypatch.setattr(speaking, "WORTH", 0.0)


@dataclass
class Session:
    """A host that reports the events of one session, a minute apart."""

    tenants: OpenTenants
    name: str = "s1"
    cwd: str | None = None
    at: int = NOW

    deadline_s: float = 30.0

    def tell(self, moment: Any, **fields: Any) -> str:
        """Report a moment; return the context added for the model."""
        self.at += MINUTE
        event = HookEvent("plain", moment, self.name, cwd=self.cwd, **fields)
        hooks = Hooks(self.tenants, lambda: self.at, self.deadline_s)
        host = Host("plain", lambda _: event, lambda _, reply: {"says": reply.context})
        answer = hooks.answer(host, {})
        hooks.close()
        self.tenants.get("default").notes.write()
        return answer["says"] if answer else ""

    def stop(self, text: str = "Done.") -> str:
        """End the agent's turn with some text."""
        return self.tell("stop", said=text)

    def ask(self, prompt: str) -> str:
        return self.tell("prompt", prompt=prompt)

    def start(self, start: Any = "startup") -> str:
        return self.tell("session_start", start=start)

    def use(self, name: str = "Bash", **fields: Any) -> str:
        return self.tell("after_tool", tool=ToolUse(name, **fields))

    def remember(self, content: str, **fields: Any) -> str:
        self.at += MINUTE
        return commands.record(self.log, Draft(content=content, **fields), self.at).event.id

    @property
    def log(self) -> EventLog:
        return self.tenants.get("default").log

    def events(self, kind: type) -> list[Event]:
        return [
            event for event in self.log.session_events(self.name) if isinstance(event.body, kind)
        ]


def opened(home: Path) -> Iterator[Session]:
    """Yield a session over an empty memory."""
    EventLog(tenant.tenant(home).log, create=True).close()
    tenants = OpenTenants(Settings(home))
    yield Session(tenants)
    tenants.close()

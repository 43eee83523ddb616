"""An agent at work, as Claude Code reports it: hook events over HTTP, in its own format."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from test_app import TOKEN, post

from serve.app import create_app
from serve.server.callers import hook_key
from serve.server.open_tenants import OpenTenants
from store.log.events import Event

_numbers = itertools.count()


@dataclass
class Agent:
    """One session of an agent; a hook's answer is the text shown to the model."""

    client: FlaskClient
    tenants: OpenTenants
    cwd: Path
    session: str = "s1"
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, tenants: OpenTenants, cwd: Path, clock: Callable[[], int]) -> "Agent":
        return cls(
            create_app(tenants, TOKEN, clock, hook_deadline_s=30.0).test_client(), tenants, cwd
        )

    def again(self, session: str) -> "Agent":
        """Return another session of the same server."""
        return Agent(self.client, self.tenants, self.cwd, session)

    def tell(self, name: str, **fields: Any) -> str:
        """Send an event; return the context added for the model."""
        output = self.answer(name, **fields)
        assert "permissionDecision" not in output
        return output.get("additionalContext", "")

    def answer(self, name: str, **fields: Any) -> dict[str, Any]:
        """Send an event; return the host-specific output for it."""
        payload = {"hook_event_name": name, "session_id": self.session, "cwd": str(self.cwd)}
        key = {"Authorization": f"Bearer {hook_key(TOKEN, 'claude-code')}"}
        answer = post(self.client, "/v1/hooks/claude-code", payload | fields | self.extra, **key)
        assert answer.status_code in (200, 204), answer.text
        said = answer.json if answer.status_code == 200 else {}
        return said.get("hookSpecificOutput", {})

    def asked(self, prompt: str) -> str:
        return self.tell("UserPromptSubmit", prompt=prompt)

    def runs(self, command: str, *, fails: str | None = None, told: str = "") -> str:
        """Run a command; return the context added before it."""
        return self.uses("Bash", {"command": command}, fails=fails, told=told)

    def edits(self, path: str) -> str:
        return self.uses("Edit", {"file_path": str(self.cwd / path)})

    def uses(
        self, tool: str, given: dict[str, Any], fails: str | None = None, told: str = "done"
    ) -> str:
        use = {
            "tool_name": tool,
            "tool_input": given,
            "tool_use_id": f"toolu_{next(_numbers)}",
        }
        uses = self.tell("PreToolUse", **use)
        if fails is None:
            self.tell("PostToolUse", **use, tool_response={"stdout": told})
        else:
            self.tell("PostToolUseFailure", **use, error=fails)
        return uses

    def stops(self, text: str = "Done.", **fields: Any) -> None:
        fields.setdefault("stop_hook_active", False)
        self.tell("Stop", last_assistant_message=text, **fields)

    def events(self, kind: str | None = None) -> list[Event]:
        """Return the log's events of one kind, oldest first."""
        tenant = self.tenants.get("default")
        tenant.notes.write()
        return [event for event in tenant.log.read() if kind in (None, event.kind)]

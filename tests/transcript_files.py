"""
Transcripts as the hosts write them, and the results of importing them.

`written` are those of the real programs (tests/data/transcripts); a Writer makes others, each with
the details that its host records of a turn.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from store.importers.transcript_events import Sessions
from store.importers.transcript_hosts import TRANSCRIPT_HOSTS, find_transcripts
from store.log import commands
from store.log.commands import Counts
from store.log.event_log import EventLog
from store.memories.fold import Fold
from store.memories.memory import Memory

DATA = Path(__file__).parent / "data" / "transcripts"
NOW = 1_795_400_000_000_000  # microseconds UTC: a few hours after the sessions of DATA
START = datetime(2026, 9, 21, 9, 0, tzinfo=UTC)
SESSION = "0c4f7a52-1111-4222-8333-94445555aaaa"
CWD = "/home/dev/shop"

JSON = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """The result of an import."""

    counts: Counts
    sessions: Sessions
    skipped: list[str]


def imported(
    log: EventLog, agent: str, source: Path, *, project: str | None = None, now: int = NOW
) -> Done:
    """Import a host's transcripts as the command does."""
    host, skipped = TRANSCRIPT_HOSTS[agent], list[str]()
    sessions = Sessions(log, agent, project, now)
    transcripts = find_transcripts(host, source, skipped.append)
    events = sessions.events(transcripts, host.turns, skipped.append)
    return Done(commands.import_drafts(log, events, now), sessions, skipped)


def episodes(log: EventLog) -> list[Memory]:
    """Return the episodes in a log, oldest first."""
    fold = Fold()
    for event in log.read():
        fold.apply(event)
    memories = (memory for memory in fold.rows.values() if memory.kind == "episode")
    return sorted(memories, key=lambda memory: memory.created_at)


def written(agent: str, folder: Path) -> Path:
    """Return a host's home as its real program wrote it."""
    if agent == "opencode":
        return opencode_database(folder / "opencode.db", rows()).parent
    shutil.copytree(DATA / agent, folder, dirs_exist_ok=True)
    return folder


def rows() -> list[JSON]:
    """Return the rows of OpenCode's database."""
    lines = (DATA / "opencode" / "rows.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


_COLUMNS = {
    "session": "id, parent_id, directory, title, version, time_created, time_updated",
    "message": "id, session_id, time_created, data",
    "part": "id, message_id, session_id, time_created, data",
}


def opencode_database(path: Path, some: Iterable[JSON]) -> Path:
    """Write rows into a database in OpenCode's format since 2026."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        for table, columns in _COLUMNS.items():
            database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY (id))")
        for row in some:
            names = _COLUMNS[row["table"]].split(", ")
            values = [json.dumps(row[name]) if name == "data" else row[name] for name in names]
            marks = ", ".join("?" * len(names))
            database.execute(f"REPLACE INTO {row['table']} VALUES ({marks})", values)
    database.close()
    return path


def opencode_files(folder: Path, some: Iterable[JSON]) -> Path:
    """Write rows as files, OpenCode's older format: the same ids and JSON."""
    for row in some:
        if row["table"] == "session":
            path = folder / "storage" / "session" / "global" / f"{row['id']}.json"
            time = {"created": row["time_created"], "updated": row["time_updated"]}
            data = {"id": row["id"], "directory": row["directory"], "time": time}
            data |= {"parentID": row["parent_id"]} if row["parent_id"] else {}
        else:
            above = row["session_id"] if row["table"] == "message" else row["message_id"]
            path = folder / "storage" / row["table"] / above / f"{row['id']}.json"
            data = row["data"] | {"id": row["id"], "sessionID": row["session_id"]}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))
    return folder


class Writer(Protocol):
    """A session being written; each event is ten seconds after the one before."""

    def ask(self, prompt: str) -> None: ...
    def run(self, command: str, output: str, *, code: int = 0) -> None: ...
    def edit(self, path: str, old: str, new: str) -> None: ...
    def refuse(self, command: str) -> None: ...
    def say(self, text: str) -> None: ...
    def save(self, folder: Path) -> Path: ...


@dataclass
class _Base:
    session: str = SESSION
    cwd: str = CWD
    branch: str = "main"
    at: int = 0  # the number of events so far
    lines: list[JSON] = field(default_factory=list)

    @property
    def seconds(self) -> int:
        return int(START.timestamp()) + 10 * self.at

    @property
    def time(self) -> str:
        """The current time, in JavaScript's notation."""
        return datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def _dump(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


class ClaudeCode(_Base):
    agent = "claude-code"

    def ask(self, prompt: object) -> None:
        self._line("user", prompt)

    def say(self, text: str) -> None:
        self._line("assistant", [{"type": "text", "text": text}])

    def run(self, command: str, output: str, *, code: int = 0) -> None:
        self._tool("Bash", {"command": command}, f"Exit code {code}\n{output}" * bool(code), code)
        if not code:
            self.lines[-1]["message"]["content"][0]["content"] = output

    def edit(self, path: str, old: str, new: str) -> None:
        given = {"file_path": f"{self.cwd}/{path}", "old_string": old, "new_string": new}
        self._tool("Edit", given, f"The file {path} has been updated.", 0)
        self.lines[-1]["toolUseResult"] = {"originalFile": old}

    def refuse(self, command: str) -> None:
        text = "The user doesn't want to proceed with this tool use."
        self._tool("Bash", {"command": command}, text, 1)

    def save(self, folder: Path) -> Path:
        self._dump(folder / "projects" / "-home-dev-shop" / f"{self.session}.jsonl")
        return folder

    def _tool(self, name: str, given: JSON, output: str, code: int) -> None:
        id_ = f"toolu_{self.at}"
        self._line("assistant", [{"type": "tool_use", "id": id_, "name": name, "input": given}])
        came = {"type": "tool_result", "tool_use_id": id_, "content": output}
        self._line("user", [came | ({"is_error": True} if code else {})])

    def _line(self, kind: str, content: object, **more: object) -> None:
        self.at += 1
        about = {"sessionId": self.session, "cwd": self.cwd, "gitBranch": self.branch}
        about |= {"uuid": f"{self.session}-{self.at}", "timestamp": self.time, **more}
        self.lines.append({"type": kind, "message": {"role": kind, "content": content}, **about})


@dataclass
class Codex(_Base):
    agent = "codex"
    meta: JSON = field(default_factory=dict)  # further fields of the session

    def ask(self, prompt: str) -> None:
        if not self.lines:
            self._begin()
        self._message("user", "input_text", prompt)

    def say(self, text: str) -> None:
        self._message("assistant", "output_text", text)

    def run(self, command: str, output: str, *, code: int = 0) -> None:
        self._call("exec_command", {"cmd": command})
        heading = f"Chunk ID: a1b2c3\nWall time: 0.1 seconds\nProcess exited with code {code}\n"
        self._came(f"{heading}Output:\n{output}")

    def edit(self, path: str, old: str, new: str) -> None:
        lines = [f"-{line}" for line in old.splitlines()] + [f"+{x}" for x in new.splitlines()]
        patch = "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines])
        item = {"type": "custom_tool_call", "name": "apply_patch", "call_id": f"call_{self.at}"}
        self._line("response_item", item | {"input": f"{patch}\n*** End Patch\n"})
        self._came(
            f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\nM {path}\n", "custom_tool_"
        )

    def refuse(self, command: str) -> None:
        self._call("exec_command", {"cmd": command})
        self._came("exec_command failed: rejected by user")

    def save(self, folder: Path) -> Path:
        name = f"rollout-2026-09-21T09-00-00-{self.session}.jsonl"
        self._dump(folder / "sessions" / "2026" / "09" / "21" / name)
        return folder

    def _begin(self) -> None:
        meta = {"id": self.session, "timestamp": self.time, "cwd": self.cwd, "source": "cli"}
        git = {"branch": self.branch}
        self._line("session_meta", {**meta, "git": git, **self.meta})

    def _message(self, role: str, kind: str, text: str) -> None:
        content = [{"type": kind, "text": text}]
        self._line("response_item", {"type": "message", "role": role, "content": content})

    def _call(self, name: str, given: JSON) -> None:
        item = {"type": "function_call", "name": name, "call_id": f"call_{self.at}"}
        self._line("response_item", item | {"arguments": json.dumps(given)})

    def _came(self, output: str, kind: str = "function_") -> None:
        call = self.lines[-1]["payload"]["call_id"]
        item = {"type": f"{kind}call_output", "call_id": call, "output": output}
        self._line("response_item", item)

    def _line(self, kind: str, payload: JSON) -> None:
        self.at += 1
        self.lines.append({"timestamp": self.time, "type": kind, "payload": payload})


class Gemini(_Base):
    agent = "gemini"

    def ask(self, prompt: str) -> None:
        if not self.lines:
            about = {"sessionId": self.session, "projectHash": "0" * 64, "startTime": self.time}
            self.lines.append(about | {"kind": "main"})
        self._line("user", [{"text": prompt}])

    def say(self, text: str) -> None:
        self._line("gemini", text)

    def run(self, command: str, output: str, *, code: int = 0) -> None:
        ended = f"\nExit Code: {code}" if code else ""
        self._tool("run_shell_command", {"command": command}, f"Output: {output}{ended}")

    def edit(self, path: str, old: str, new: str) -> None:
        given = {"file_path": f"{self.cwd}/{path}", "old_string": old, "new_string": new}
        self._tool("replace", given, "Successfully modified file.")

    def refuse(self, command: str) -> None:
        self._tool("run_shell_command", {"command": command}, "Cancelled.", "cancelled")

    def save(self, folder: Path) -> Path:
        project = folder / "tmp" / "shop"
        self._dump(project / "chats" / "session-2026-09-21T09-00-0c4f7a52.jsonl")
        (project / ".project_root").write_text(self.cwd)
        return folder

    def _tool(self, name: str, given: JSON, output: str, status: str = "success") -> None:
        self._line("gemini", "")
        answer = {"functionResponse": {"name": name, "response": {"output": output}}}
        call = {"id": f"{name}-{self.at}", "name": name, "args": given, "status": status}
        call |= {"result": [answer], "timestamp": self.time}
        self.lines.append(self.lines[-1] | {"toolCalls": [call]})  # again, with its tools

    def _line(self, kind: str, content: object) -> None:
        self.at += 1
        id_ = f"{self.session}-{self.at}"
        self.lines.append({"id": id_, "timestamp": self.time, "type": kind, "content": content})


class OpenCode(_Base):
    agent = "opencode"

    def ask(self, prompt: str) -> None:
        if not self.lines:
            times = {"time_created": self.seconds * 1_000, "time_updated": self.seconds * 1_000}
            about = {"parent_id": None, "directory": self.cwd, "title": "a session"}
            session = {"table": "session", "id": self.session, "version": "1.18.33"}
            self.lines.append(session | about | times)
        self._message("user")
        self._part({"type": "text", "text": prompt})

    def say(self, text: str) -> None:
        self._message("assistant")
        self._part({"type": "text", "text": text})

    def run(self, command: str, output: str, *, code: int = 0) -> None:
        state = {"output": output, "metadata": {"output": output, "exit": code}}
        self._tool("bash", {"command": command}, state)

    def edit(self, path: str, old: str, new: str) -> None:
        given = {"filePath": f"{self.cwd}/{path}", "oldString": old, "newString": new}
        self._tool("edit", given, {"output": "Edit applied successfully.", "metadata": {}})

    def refuse(self, command: str) -> None:
        error = "The user rejected permission to use this specific tool call."
        self._tool("bash", {"command": command}, {"status": "error", "error": error})

    def save(self, folder: Path) -> Path:
        opencode_database(folder / "opencode.db", self.lines)
        return folder

    def _tool(self, name: str, given: JSON, came: JSON) -> None:
        self._message("assistant")
        time = {"start": self.seconds * 1_000, "end": self.seconds * 1_000}
        state = {"status": "completed", "input": given, "time": time} | came
        self._part({"type": "tool", "tool": name, "callID": f"call_{self.at}", "state": state})

    def _message(self, role: str) -> None:
        self.at += 1
        data = {"role": role, "time": {"created": self.seconds * 1_000}}
        self.lines.append(self._row("message") | {"data": data})

    def _part(self, data: JSON) -> None:
        row = self._row("part") | {"message_id": self.lines[-1]["id"], "data": data}
        self.lines.append(row)

    def _row(self, table: str) -> JSON:
        id_ = f"{table[:3]}_{self.session[:8]}{len(self.lines):06}"
        about = {"session_id": self.session, "time_created": self.seconds * 1_000}
        return {"table": table, "id": id_} | about


WRITERS: dict[str, Callable[..., Any]] = {
    one.agent: one for one in (ClaudeCode, Codex, Gemini, OpenCode)
}


def turn(writer: Writer, prompt: str = "Make the login test pass: it fails at midnight.") -> None:
    """Write a turn in which a test fails, a file is edited and the test passes."""
    writer.ask(prompt)
    writer.run("pytest -q", "E   AssertionError: a day late\n1 failed, 1 passed", code=1)
    writer.edit("login.py", "def login(at=now):\n", "def login():\n    return now()\n")
    writer.run("pytest -q", "2 passed in 0.01s")
    writer.say("The clock is called at every login now.")

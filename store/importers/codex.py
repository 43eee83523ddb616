"""
Codex CLI's rollouts, read turn by turn.

A rollout is one JSON object a line: the session's metadata, the items sent to and by the model, and
events beside them. The items are in the files of every release; events, where present, are surer
about a command's result and a patch's files. In the oldest files (2025) a line is the bare item,
without a time.

Ids come from the thread, the times of its lines and the numbers of its calls, which stay when Codex
moves a session to a newer form. Lines that a fork copied are left out: they are in the original
file. https://github.com/openai/codex, codex-rs/protocol/src/protocol.rs (`RolloutItem`) and
codex-rs/rollout.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from store.agents.json_fields import mapping, plain, text
from store.agents.typed_text import human_text
from store.importers.source_files import (
    UNREADABLE,
    decode_json,
    decode_object,
    files_below,
    read_records,
)
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn, parse_instant

MAX_LINE = 8 << 20  # bytes
FOLDERS = ("sessions", "archived_sessions")
_NAME = re.compile(r"\Arollout-.*\.jsonl(?:\.zst)?")
_THREAD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONG = 1 << 20  # characters read of a field
_FORKED_WITHIN = 2_000_000  # microseconds within which a fork's copies were written

_READ = frozenset({"session_meta", "turn_context", "response_item", "event_msg"})
_BARE = frozenset(
    "message function_call function_call_output local_shell_call custom_tool_call "
    "custom_tool_call_output".split()
)
# Codex's own text in the user's name, as a whole piece of a message
_WRAPPED = re.compile(r"\s*<(/?image|skill|[a-z]+_[a-z_]+)\b", re.IGNORECASE)
_WARNINGS = (
    "Warning: apply_patch was requested via",
    "Warning: The maximum number of unified exec",
    "Warning: Your account was flagged",
)
# a call that was refused or cut off did nothing, and is no error of the work either
_NOT_DONE = re.compile(
    r"rejected by user|aborted by user|user rejected MCP|\Apatch rejected|"
    r"\Aunsupported (?:custom tool )?call|\Afailed to parse function arguments"
)
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,9})$", re.MULTILINE)
_RUNNING = re.compile(r"^Process running with session ID (\d{1,9})$", re.MULTILINE)
_PATCH = "*** Begin Patch"
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_PATCHES = frozenset({"apply_patch", "shell", "shell_command", "exec_command"})
_FAILED_PATCH = ("apply_patch verification failed", "Failed to ", "Invalid patch")


def find(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the rollouts of a folder, or of both folders of ~/.codex."""
    homes = (source, source / ".codex")
    tops = [home / name for home in homes for name in FOLDERS if (home / name).is_dir()]
    return [
        Transcript(path) for top in tops or [source] for path in files_below(top, _NAME.fullmatch)
    ]


class _Line(msgspec.Struct, frozen=True):
    type: str = ""
    timestamp: object = None
    payload: msgspec.Raw = msgspec.Raw()
    metadata: object = None


_line = msgspec.json.Decoder(_Line)


def turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a rollout's turns in order; none of a sub-agent's. Raise OSError, SourceError."""
    rollout = _Rollout(transcript.path)
    for number, raw in read_records(transcript.path, MAX_LINE, on_skip):
        try:
            line = decode_json(raw, _line)
            is_bare = not bytes(line.payload)
            if line.type not in (_BARE if is_bare else _READ) and rollout.has_begun:
                continue
            fields = decode_object(bytes(line.payload) or raw)
        except UNREADABLE as error:
            on_skip(f"{transcript.path} line {number} was left out: {error}")
            continue
        if is_bare and not line.type:
            rollout.begin(fields)
        elif is_bare:
            yield from rollout.item(fields, rollout.began, str(number))
        elif line.type == "response_item":
            if isinstance(line.metadata, dict) and line.metadata.get("compaction_output"):
                continue  # a summary that the model wrote for itself
            at = parse_instant(line.timestamp)
            yield from rollout.item(fields, at, str(line.timestamp or number))
        elif line.type == "session_meta":
            rollout.begin(fields)
        elif line.type == "turn_context":
            rollout.turn = text(fields, "turn_id") or rollout.turn
            rollout.cwd = text(fields, "cwd") or rollout.cwd
        elif line.type == "event_msg":
            rollout.event(fields, parse_instant(line.timestamp))
        if rollout.is_side:
            return
    yield from rollout.end()


@dataclass
class _Rollout:
    """The state of reading a rollout."""

    path: Path
    has_begun: bool = False
    is_side: bool = False  # a sub-agent's
    is_unattended: bool = False  # of `codex exec`
    is_fork: bool = False  # and holds a copy of the original
    began: int = 0
    cwd: str | None = None
    branch: str | None = None
    turn: str = ""
    open_turn: OpenTurn | None = None
    open_id: str = ""  # Codex's id of the open turn
    running: dict[str, str] = field(default_factory=dict)  # calls that go on, by their number
    written: dict[str, str] = field(default_factory=dict)  # those, by the calls that wrote to them

    def __post_init__(self) -> None:
        match = _THREAD.search(self.path.name)
        self.thread = match[0] if match else self.path.name.partition(".")[0]

    def begin(self, meta: Mapping[str, Any]) -> None:
        """Read the session's metadata from the first line; later ones were copied by a fork."""
        if self.has_begun:
            self.is_fork = self.is_fork or text(meta, "id") != self.thread
            return
        self.has_begun = True
        self.thread = text(meta, "id") or self.thread
        self.began = parse_instant(meta.get("timestamp"))
        self.cwd = text(meta, "cwd") or None
        self.branch = text(mapping(meta, "git"), "branch") or None
        self.is_fork = bool(text(meta, "forked_from_id")) and not mapping(meta, "history_base")
        self.is_unattended = (
            text(meta, "source") == "exec" or text(meta, "originator") == "codex_exec"
        )
        sources = mapping(meta, "source").keys() - {"custom"}  # others are plain words
        self.is_side = bool(sources) or text(meta, "thread_source") in (
            *("subagent", "memory_consolidation"),
        )

    def item(self, item: Mapping[str, Any], at: int, number: str) -> Iterator[Turn]:
        """Add an item; yield the turn that a prompt ends."""
        kind, call = text(item, "type"), text(item, "call_id")
        if kind == "message" and text(item, "role") == "user":
            request = _request(item)
            if request and not self._is_copied(at):
                yield from self.end()
                statement = Said(request, f"{self.thread}:{number}", at)
                self.open_turn = OpenTurn(
                    *(self.thread, self.cwd, self.branch, statement), self.is_unattended
                )
                self.open_id = self.turn
            return
        turn = self.open_turn
        if turn is None or self._is_copied(at):
            return
        if kind == "message" and text(item, "role") == "assistant":
            turn.say(plain(item.get("content")), f"{self.thread}:{number}", at)
        elif kind == "local_shell_call":
            turn.call(call, "local_shell", mapping(item, "action"), at, self.thread)
        elif kind in ("function_call", "custom_tool_call"):
            self._call(turn, item, call, at)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._output(turn, item.get("output"), call)

    def _call(self, turn: OpenTurn, item: Mapping[str, Any], call: str, at: int) -> None:
        name, server = text(item, "name"), text(item, "namespace")
        arguments = _arguments(item)
        if name == "write_stdin":  # to a command that goes on
            self.written[call] = self.running.get(str(arguments.get("session_id")), "")
        line = _command(arguments)
        if _PATCH in line and name in _PATCHES:
            name, arguments = "apply_patch", _patch(line)
        turn.call(call, f"{server}__{name}" if server else name, arguments, at, self.thread)

    def _output(self, turn: OpenTurn, output: object, call: str) -> None:
        passed, wrote, number = _outcome(output)
        if _NOT_DONE.search(wrote[:400]):
            turn.forget(call)
            return
        turn.end(call, passed, wrote)
        if number:
            self.running[number] = call
        if (first := self.written.get(call)) and passed is not None:
            turn.end(first, passed, wrote)

    def event(self, event: Mapping[str, Any], at: int) -> None:
        """Add the outcome of a call from an event."""
        kind = text(event, "type")
        if kind == "task_started":
            self.turn = text(event, "turn_id") or self.turn
        turn, turn_id = self.open_turn, text(event, "turn_id")
        if turn is None or (turn_id and self.open_id and turn_id != self.open_id):
            return
        item = mapping(event, "item") if kind == "item_completed" else event
        kind = text(item, "type")
        call = text(item, "call_id", "id")
        if kind in ("CommandExecution", "exec_command_end") and item.get("source") != "user_shell":
            if not turn.has(call):  # called by a program of the model's
                command = {"command": item.get("command")}
                turn.call(call, "exec_command", command, at, self.thread)
            code = item.get("exit_code")
            passed = code == 0 if isinstance(code, int) and code >= 0 else None
            turn.end(call, passed, text(item, "aggregated_output", "stdout", most=_LONG))
        elif kind in ("FileChange", "patch_apply_end"):
            changes = mapping(item, "changes")
            if not turn.has(call):
                turn.call(call, "apply_patch", _patch(_diff(changes)), at, self.thread)
            turn.edit(call, list(changes))
            has_failed = item.get("success") is False or item.get("status") == "failed"
            turn.end(call, not has_failed, text(item, "stderr", "stdout"))
            if item.get("status") == "declined":
                turn.forget(call)
        elif kind in ("McpToolCall", "mcp_tool_call_end") and not turn.has(call):
            invocation = mapping(item, "invocation") or item
            name = f"mcp__{text(invocation, 'server')}__{text(invocation, 'tool')}"
            turn.call(call, name, mapping(invocation, "arguments"), at, self.thread)
            turn.end(call, None, mapping(item, "result"))

    def end(self) -> Iterator[Turn]:
        """Yield the open turn, if any."""
        if self.open_turn is not None:
            yield self.open_turn.close()
        self.open_turn = None

    def _is_copied(self, at: int) -> bool:
        """Return True if the current line was copied from the forked session."""
        if not self.is_fork:
            return False
        turn_began = _uuid_instant(self.turn)
        return turn_began < self.began if turn_began else at - self.began < _FORKED_WITHIN


def _request(item: Mapping[str, Any]) -> str:
    """Return the part of a user message that a person typed."""
    content = item.get("content")
    pieces = content if isinstance(content, list) else []
    metadata = mapping(item, "internal_chat_message_metadata_passthrough")
    kinds = metadata.get("content_item_kinds")
    if not isinstance(kinds, list) or len(kinds) != len(pieces):
        kinds = [None] * len(pieces)
    texts: list[str] = []
    for piece, kind in zip(pieces[:1_000], kinds, strict=False):
        words = text(piece, "text", most=_LONG) if isinstance(piece, dict) else ""
        is_user = str(kind).startswith("user.") if kind not in (None, "", "unknown") else True
        if words and is_user and not _is_machine(words):
            texts.append(human_text(words[:64_000]))
    return "\n\n".join(filter(None, texts))


def _is_machine(piece: str) -> bool:
    tag = _WRAPPED.match(piece)
    if tag is None:
        return piece.startswith(_WARNINGS)
    name = tag[1].lower()
    return name.endswith("image") or piece.rstrip().lower().endswith(f"</{name}>")


def _diff(changes: Mapping[str, Any]) -> str:
    """Return a patch of the changes of some files, as an event holds them."""
    lines: list[str] = []
    for path, change in changes.items():
        if isinstance(change, dict):
            added = text(change, "content").splitlines()
            diff = text(change, "unified_diff") or "\n".join(f"+{line}" for line in added)
            lines += [f"*** Update File: {path}", diff]
    return "\n".join(lines)


def _patch(patch: str) -> dict[str, Any]:
    """Return a patch as a tool's input, with all the files that it names: the patch may be cut."""
    return {"files": [path.strip() for path in _PATCHED.findall(patch)], "patch": patch}


def _arguments(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's input: JSON in a text, or a plain text of its own."""
    if words := text(item, "input", most=_LONG):
        return {"input": words}
    try:
        return decode_object(text(item, "arguments", most=8 * _LONG).encode())
    except UNREADABLE:
        return {}


def _command(arguments: Mapping[str, Any]) -> str:
    for name in ("cmd", "command", "input"):
        value = arguments.get(name)
        if isinstance(value, list):
            words = (word for word in value if isinstance(word, str))
            value = next((word for word in words if _PATCH in word), None)
        if isinstance(value, str):
            return value
    return ""


def _outcome(output: object) -> tuple[bool | None, str, str]:
    """Return a call's outcome (None: unknown), its output, the number of a command that goes on."""
    passed: bool | None = None
    if isinstance(output, dict) and isinstance(output.get("success"), bool):
        passed = output["success"]
    wrote = plain(output)
    if wrote.startswith('{"output":'):  # of 2025
        try:
            fields = decode_object(wrote.encode())
        except UNREADABLE:
            fields = {}
        code = mapping(fields, "metadata").get("exit_code")
        passed = code == 0 if isinstance(code, int) else None
        return passed, text(fields, "output", most=_LONG), ""
    number = ""
    for _ in range(2):  # a patch in a command has a heading of its own
        heading, parted, rest = wrote.partition("Output:\n")
        if not parted or len(heading) > 4_000 or not (heading == "" or heading.endswith("\n")):
            break
        if (exited := _EXIT.search(heading)) is not None:
            passed = exited[1] == "0"
        if (going_on := _RUNNING.search(heading)) is not None:
            number = going_on[1]
        wrote = rest
    if wrote.startswith(_FAILED_PATCH):
        passed = False
    return passed, wrote, number


def _uuid_instant(id_: str) -> int:
    """Return the microseconds of a UUID of version 7 (RFC 9562); 0 of any other id."""
    if not _THREAD.fullmatch(id_) or id_[14] != "7":
        return 0
    return int(id_[:8] + id_[9:13], 16) * 1_000

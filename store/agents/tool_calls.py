"""
Tool calls: a host's report of one use of a tool, and the action event recorded for it.

Of a tool's output the event keeps a few telling lines: errors, addresses, settings, versions,
counts. Of an edit it keeps the diff, for people, and the names that it and the edited file define:
a later task that mentions one of them is about this file without naming it. All are found by plain
patterns over bounded input.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

import msgspec

from store.agents import efforts
from store.agents.diffs import diff_text, edit_diff
from store.agents.json_fields import LONGEST_ID, mapping, output_tail, text
from store.log.event_kinds import Acted, Doing
from store.text import frame

SERVER = "mnemolog"  # our MCP server's name in every host, as set by `connect`

MAX_COMMAND = 4_000  # characters
MAX_FILES = 50
_LONGEST_FILE = 1_000

_DOINGS: Mapping[Doing, str] = {
    "run": """bash shell powershell local_shell shell_command exec_command unified_exec
        run_shell_command run_in_terminal runinterminal runterminalcommand run_terminal_cmd
        runcommands run_command run_commands execute_command""",
    "edit": """edit multiedit write notebookedit apply_patch applypatch patch write_file replace
        create create_file createfile editfiles edit_file edit_files insert_edit_into_file
        replace_string_in_file multi_replace_string_in_file edit_notebook_file
        str_replace_editor str_replace delete delete_file multiedit_file editor write_to_file
        replace_in_file write_code""",
    "read": """read read_file readfile read_many_files view view_image view_file ls list list_dir
        list_directory notebookread read_notebook readnotebook read_files""",
    "search": """grep glob rg search codebase codebase_search semantic_search file_search
        grep_search text_search textsearch search_file_content find_files google_web_search
        webfetch websearch web_fetch web_search fetch fetch_webpage toolsearch search_codebase
        search_files fetch_web_content""",
}
_DOING: Mapping[str, Doing] = {
    name: doing for doing, names in _DOINGS.items() for name in names.split()
}

# mcp__mnemolog__recall (Claude Code, Codex), mcp__plugin_mnemolog_mnemolog__recall (its plugin),
# mcp_mnemolog_recall (Gemini, VS Code), mnemolog-recall (Copilot), mnemolog_recall (OpenCode),
# MCP:mnemolog/recall
_OURS = re.compile(rf"(?:mcp(?:__?|[:/]))?(?:plugin_\w+?_)?{SERVER}(?:__?|[-./:])(\w+)", re.I)
_OUR_DOINGS: Mapping[str, Doing] = {
    **dict.fromkeys(("recall", "get_memory", "recent", "project_overview", "goals"), "recall"),
    **dict.fromkeys(("remember", "remember_batch", "update_memory"), "remember"),
}

_FILE_FIELDS = (
    "file_path filePath notebook_path path absolute_path target_file filename file uri".split()
)
_FILES_FIELDS = ("files", "paths", "file_paths", "filePaths", "edits", "replacements")
_PATCH_FIELDS = ("input", "patch", "command", "patchText")
_EXIT = re.compile(r"(?:Command |Process )?(?:exited with )?(?:exit )?code:? (\d{1,9})\b", re.I)
_LAST_EXIT = re.compile(r"<shellId: \S+ completed with exit code (\d{1,9})>\s*\Z")  # Copilot's
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)


class ToolUse(msgspec.Struct, frozen=True):
    """A tool the agent is about to use, or used; `passed` is None if the host does not tell."""

    name: str  # as the host calls it
    doing: Doing = "other"
    command: str | None = None  # a shell's command line
    files: tuple[str, ...] = ()  # paths as the host named them
    diff: str = ""  # of an edit
    id: str | None = None
    passed: bool | None = None
    output: str = ""  # the end of it
    is_ours: bool = False  # a tool of our own MCP server


def tool_use(
    name: str,
    arguments: Mapping[str, Any],
    *,
    id_: str = "",
    server: str = "",
    passed: bool | None = None,
    output: object = "",
) -> ToolUse:
    """Return a tool's use. `server` is the MCP server it belongs to, where the host reports it."""
    name = name[:LONGEST_ID] or "unknown"
    ours = _ours(name, server)
    doing = _OUR_DOINGS.get(ours, "other") if ours else _DOING.get(name.lower(), "other")
    return ToolUse(
        name=name,
        doing=doing,
        command=_command(arguments) if doing == "run" else None,
        files=tuple(dict.fromkeys(_paths(arguments)))[:MAX_FILES]
        if doing in ("edit", "read")
        else (),
        diff=edit_diff(arguments) if doing == "edit" else "",
        id=id_[:LONGEST_ID] or None,
        passed=passed,
        output=output_tail(output),
        is_ours=bool(ours),
    )


def has_passed(result: object) -> bool | None:
    """Return True if a tool's result is a success, False for a failure, None for neither."""
    if isinstance(result, str):
        match = _EXIT.match(result) or _LAST_EXIT.search(result[-200:])
        return match[1] == "0" if match else None
    if not isinstance(result, dict):
        return None
    for fields in (result, mapping(result, "metadata")):  # OpenCode's
        if (flag := _success_flag(fields)) is not None:
            return flag
    wrote = text(result, "text_result_for_llm", most=1 << 20)  # Copilot's
    return has_passed(wrote) if wrote else None


def _success_flag(fields: Mapping[str, Any]) -> bool | None:
    for name in ("exit_code", "exitCode", "exit"):
        if isinstance(code := fields.get(name), int):
            return code == 0
    for name in ("is_error", "isError"):
        if isinstance(is_error := fields.get(name), bool):
            return not is_error
    if isinstance(is_success := fields.get("success"), bool):
        return is_success
    return False if fields.get("error") else None


def _ours(name: str, server: str) -> str:
    """Return our own tool's name on our server; nothing for another server's tool."""
    if match := _OURS.fullmatch(name):
        return match[1].lower()
    is_ours = server == SERVER or (server.startswith("plugin:") and server.endswith(f":{SERVER}"))
    return name.lower() if is_ours else ""


def _command(arguments: Mapping[str, Any]) -> str | None:
    for name in ("command", "cmd", "script"):
        value = arguments.get(name)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            # ["bash", "-lc", LINE] stands for LINE
            is_script = len(value) == 3 and value[1] in ("-c", "-lc", "-Command")
            value = value[2] if is_script else shlex.join(value[:200])
        if isinstance(value, str) and value.strip():
            # it may copy our output
            return frame.strip(value[: MAX_COMMAND * 2])[:MAX_COMMAND] or None
    return None


def _paths(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that a tool was given, in order, cut."""
    if path := text(arguments, *_FILE_FIELDS):
        yield path[:_LONGEST_FILE]
    for name in _FILES_FIELDS:
        value = arguments.get(name)
        for item in value[:MAX_FILES] if isinstance(value, list) else ():
            path = text(item, *_FILE_FIELDS) if isinstance(item, dict) else item
            if isinstance(path, str) and path:
                yield path[:_LONGEST_FILE]
    for name in _PATCH_FIELDS:
        value = arguments.get(name)
        if isinstance(value, str) and "*** " in value:
            for path in _PATCHED.findall(value)[:MAX_FILES]:
                yield path.strip()[:_LONGEST_FILE]


# The action event: the log's record of one tool call.

MAX_ACTION_COMMAND = 1_000  # characters kept
MAX_ERROR = 600  # of the end of a failure
MAX_ACTION_FILES = 20
_KEPT_DOINGS = frozenset({"run", "edit", "recall", "remember"})


def action_event(
    tool: ToolUse, files: tuple[str, ...], sources: Iterable[str] = ()
) -> Acted | None:
    """Return the action recorded for a tool's use; None for a read without telling output.

    `files` are the tool's as the project names them; `sources` are the texts of the edited ones.
    For a tool of our own only the call is recorded: its answer is in the log already.
    """
    if tool.is_ours:
        return Acted(tool=tool.name, doing=tool.doing, passed=tool.passed)
    line = tool.command or ""
    passed = efforts.command_outcome(line, tool.passed, tool.output)
    has_failed, is_edit = passed is False, tool.doing == "edit"
    diff = frame.strip(tool.diff) if is_edit and not has_failed else ""
    names: Iterable[str] = ()
    if is_edit and not has_failed:  # the edit's names, then those of the edited files
        names = chain.from_iterable(map(defined_names, (diff_text(diff), *sources)))
    acted = Acted(
        tool=tool.name,
        doing=tool.doing,
        effort=efforts.command_effort(line, tool.output),
        command=line[:MAX_ACTION_COMMAND] or None,
        files=files[:MAX_ACTION_FILES],
        passed=passed,
        error=frame.strip(tool.output)[-MAX_ERROR:].strip() or None if has_failed else None,
        output=None if has_failed or is_edit else key_lines(frame.strip(tool.output)) or None,
        names=tuple(dict.fromkeys(names)),
        diff=diff or None,
    )
    is_telling = tool.doing == "read" and acted.output and any(map(is_settings, files))
    return acted if tool.doing in _KEPT_DOINGS or is_telling else None


MAX_LINES = 4
MAX_LINE = 200  # characters
MAX_LOOKED_AT = 400  # lines
MAX_NAMES = 60  # of one file, or of one edit
MAX_SOURCE = 512 * 1024  # bytes of a file

_NUMBERED = re.compile(r"^\s*\d+(?:\u2192|\t)")  # as an agent's Read tool shows a line
_TELLING = (
    (4, re.compile(r"\w(?:Error|Exception|Failure)\b|\b(?:panicked|FATAL|Caused by)\b|^error\b")),
    (3, re.compile(r"\b(?:error|failed|failure|fatal|denied|refused|not found)\b", re.IGNORECASE)),
    (
        3,
        re.compile(
            r"[a-z][a-z0-9+.-]{0,20}://\S|\b(?:\d{1,3}\.){3}\d{1,3}\b|[\w.-]{1,60}:\d{2,5}\b|\w@\w"
        ),
    ),
    (3, re.compile(r"^(?:export )?[A-Z][A-Z0-9_]+ ?[=:] ?\S|^(?:- ?)?[\w.-]+ ?[:=] ?\S")),
    (
        2,
        re.compile(
            r"\b\d[\d.,]{0,20} ?(?:[a-z%]|\w{1,30}ed\b)|\b(?:total|tests?|rows?|build)\b.{0,60}\d",
            re.I,
        ),
    ),
    (2, re.compile(r"\bv?\d+\.\d+(?:\.\d+)?\b|\b\d{2,}\b")),
    (
        1,
        re.compile(
            r"[\w.-]{1,60}/[\w./-]|\b\w{1,60}\.(?:py|ts|js|go|rs|java|rb|c|cpp|h|yml|yaml|json)\b"
        ),
    ),
)
# files that configure and document things, rather than do something
_SETTINGS = frozenset(
    """.env .example .yml .yaml .toml .ini .cfg .conf .properties .json .md .txt .rst .tf .tfvars
    .sh .xml .gradle .lock .service .csv .sql""".split()
)
_SETTINGS_NAMES = re.compile(
    r"(?:^\.env|readme|dockerfile|makefile|justfile|procfile|podfile)", re.I
)
_DEFINITION = re.compile(
    r"^[ \t]*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub"
    r"|override|virtual|inline|open|sealed|data|const|unsafe)(?:\([^)\n]{0,20}\))?[ \t]+){0,5}"
    r"(?:def|class|function|func|fn|fun|struct|interface|enum|trait|type|impl|module|object|protocol"
    r"|record|const|resource|variable|create[ \t]+table|defmodule|defp|macro_rules!)[ \t]+"
    r"(?:\([^)\n]{0,60}\)[ \t]*)?[\"'`]?([^\W\d][\w.]{1,63})",
    re.MULTILINE | re.IGNORECASE,
)


def key_lines(output: str, most: int = MAX_LINES) -> str:
    """Return the most telling lines of a tool's output, in their order, one a line.

    An output of so few lines is returned whole; one without a telling line gives "".
    """
    stripped = (" ".join(_NUMBERED.sub("", line).split()) for line in output.splitlines())
    lines = [line[:MAX_LINE] for line in stripped if line]
    if len(lines) > MAX_LOOKED_AT:  # the beginning names the task, the end its outcome
        lines = [*lines[: MAX_LOOKED_AT // 4], *lines[-MAX_LOOKED_AT * 3 // 4 :]]
    if len(lines) > most:
        worth = [
            sum(weight for weight, pattern in _TELLING if pattern.search(line)) for line in lines
        ]
        # of equals the later: a run's outcome is at its end
        best = sorted(range(len(lines)), key=lambda at: (-worth[at], -at))[:most]
        lines = [lines[at] for at in sorted(best) if worth[at]]
    return "\n".join(dict.fromkeys(lines))


def is_settings(path: str) -> bool:
    """Return True if a file is one of settings or documentation, by its name."""
    name = PurePath(path.replace("\\", "/")).name
    return PurePath(name).suffix.lower() in _SETTINGS or bool(_SETTINGS_NAMES.search(name))


def defined_names(source: str, most: int = MAX_NAMES) -> tuple[str, ...]:
    """Return the first names that a file defines (functions, classes, tables), in their order."""
    names = dict.fromkeys(match[1] for match in _DEFINITION.finditer(source))
    return tuple(islice(names, most))

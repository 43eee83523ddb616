"""
Presence: the caller of a command, which is a person, an agent or a program.

Rules are the user's own words, or were accepted by the user, so both require a person's presence:
one of the three standard streams is a terminal, no variable that a host sets for its agent's shell
is set, and no ancestor process is an agent. Anything else is recorded with an agent's trust. No
flag or setting overrides this: an agent could pass it as well.

This distinguishes an agent at work from its user. It does not stop a malicious program that runs as
the same user: that may write to the log's file itself.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from store.home.errors import NeedsPerson

if TYPE_CHECKING:
    from store.log.commands import Draft

# Set by hosts for the commands of their agents, and never in a terminal that a person types into,
# unlike CURSOR_TRACE_ID, CLAUDE_CODE_SSE_PORT and CODEX_HOME, for example.
VARIABLES: Mapping[str, str] = {
    "CLAUDECODE": "Claude Code",
    "CLAUDE_CODE_ENTRYPOINT": "Claude Code",
    "CODEX_SANDBOX": "Codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "CODEX_CI": "Codex",
    "CURSOR_AGENT": "Cursor",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "OpenCode",
    "COPILOT_CLI": "Copilot",
    "COPILOT_AGENT": "Copilot",
    "CLINE_ACTIVE": "Cline",
    "GOOSE_TERMINAL": "goose",
    "AMP_CURRENT_THREAD_ID": "Amp",
    "AUGMENT_AGENT": "Augment",
    "ANTIGRAVITY_AGENT": "Antigravity",
    "AI_AGENT": "an agent",
}
PROGRAMS: Mapping[str, str] = {
    "claude": "Claude Code",
    "claude-code": "Claude Code",
    "codex": "Codex",
    "cursor-agent": "Cursor",
    "gemini": "Gemini CLI",
    "gemini-cli": "Gemini CLI",
    "opencode": "OpenCode",
    "copilot": "Copilot",
    "goose": "goose",
    "amp": "Amp",
    "cline": "Cline",
    "aider": "aider",
    "qwen": "Qwen Code",
    "crush": "Crush",
    "droid": "Droid",
}
# for these commands the program is the script they run: `node /usr/bin/gemini`
_INTERPRETER = re.compile(r"(?:node|nodejs|bun|deno|ruby|bash|sh|zsh|python[\d.]*)", re.IGNORECASE)
_CODE = re.compile(r"-\w*[ce]")
_ENDING = re.compile(r"\.(?:exe|cmd|m?js|cjs|py)$", re.IGNORECASE)
_MOST = 64  # ancestor processes; none is deeper
_PATIENCE_S = 2.0

AnyDraft = TypeVar("AnyDraft", bound=msgspec.Struct)


class Presence(msgspec.Struct, frozen=True):
    """The caller of a command: a person (`typed`), an agent, by its name, or a program."""

    author: Literal["typed", "agent", "program"]
    name: str = ""

    @property
    def is_person(self) -> bool:
        return self.author == "typed"

    @property
    def trust(self) -> Literal["user", "agent"]:
        """The trust of text from this command."""
        return "user" if self.is_person else "agent"

    @property
    def reason(self) -> str:
        """The reason why no person is present, in words; "" if one is."""
        if self.is_person:
            return ""
        return f"{self.name} runs this command" if self.name else "no terminal is there"

    def limit(self, draft: AnyDraft) -> AnyDraft:
        """Return a draft limited to the caller's rights: without a person, it loses the user's
        trust, its pin and the mark as typed.
        """
        fields: Any = draft
        if self.is_person:
            return draft
        if fields.author == "typed":
            draft = msgspec.structs.replace(draft, author=self.author)
        if fields.trust == "user":
            draft = msgspec.structs.replace(draft, trust="agent", pinned=False)
        return draft

    def sign(self, draft: "Draft") -> "Draft":
        """Return a draft that the caller writes now, limited and with its author."""
        from store.log.commands import author_of

        author = author_of(self.author, draft.trust)
        return msgspec.structs.replace(self.limit(draft), author=author)

    def require_person(self, what: str, *, on_dashboard: bool = True) -> None:
        """Raise NeedsPerson if no person is present to decide on `what`."""
        if not self.is_person:
            also = ", or decide on the dashboard (`mnemolog dashboard`)" if on_dashboard else ""
            raise NeedsPerson(
                f"{what} needs a person, and {self.reason}: run it in a terminal of your own{also}"
            )


PERSON = Presence("typed")


def find_presence(
    environ: Mapping[str, str], has_terminal: bool, ancestors: Callable[[], Iterable[list[str]]]
) -> Presence:
    """Return a command's caller; `ancestors` gives the command lines of the ancestor processes."""
    for variable, name in VARIABLES.items():
        if environ.get(variable):
            return Presence("agent", name)
    if not has_terminal:
        return Presence("program")
    for words in ancestors():
        if name := agent_program(words):
            return Presence("agent", name)
    return PERSON


def agent_program(words: list[str]) -> str:
    """Return the agent that a command line runs; "" for any other program."""
    name, _ = _program(words[0])
    if name in PROGRAMS or not _INTERPRETER.fullmatch(name):
        return PROGRAMS.get(name, "")
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    if any(map(_CODE.fullmatch, words[1 : words.index(script) if script else None])):
        return ""  # `sh -c '...'`: its argument is code
    name, package = _program(script)
    return next((PROGRAMS[part] for part in (name, *package) if part in PROGRAMS), "")


def _program(word: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a program's file, and the folders of the package that contains it."""
    parts = PureWindowsPath(word).parts  # takes / and \ alike
    inner = parts[parts.index("node_modules") + 1 : -1] if "node_modules" in parts else ()
    return _ENDING.sub("", parts[-1]).lower() if parts else "", inner


def list_ancestors(pid: int, platform: str) -> Iterator[list[str]]:
    """Yield the command lines of a process's ancestors, nearest first; none on Windows, and none
    that cannot be read.
    """
    if platform.startswith("linux"):
        yield from _linux_ancestors(pid, Path("/proc"))
    elif platform == "darwin":
        yield from _listed_ancestors(pid, _list_processes())


def _linux_ancestors(pid: int, proc: Path) -> Iterator[list[str]]:
    for _ in range(_MOST):
        try:
            # the name, in brackets, may contain blanks and brackets itself
            pid = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
            line = (proc / str(pid) / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return
        if words := [word.decode(errors="replace") for word in line.split(b"\0") if word]:
            yield words


def _list_processes() -> str:
    import subprocess

    try:
        command = ["/bin/ps", "-A", "-o", "pid=,ppid=,command="]
        process = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.decode(errors="replace")


def _listed_ancestors(pid: int, listing: str) -> Iterator[list[str]]:
    rows = (line.split() for line in listing.splitlines())
    processes = {row[0]: (row[1], row[2:]) for row in rows if len(row) > 2}
    place = str(pid)
    for _ in range(_MOST):
        if (above := processes.get(place)) is None:
            return
        place = above[0]
        if place in processes:
            yield processes[place][1]

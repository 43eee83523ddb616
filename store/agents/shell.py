"""
The programs that a command line calls, in any form: behind `&&` and pipes, in a subshell or a
substitution, after `sudo` and `VAR=x`, under `uv run` or `bash -c`.

Quoted text, comments and here-documents are data and name no program. Nothing raises: a line in
another language is read as far as possible. POSIX shells, and the syntax that cmd and PowerShell
share with them (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html).
"""

import re
from functools import lru_cache

import msgspec

MAX_LINE = 16_000  # characters read of a command line
MAX_CALLS = 64
MAX_DEPTH = 8  # of scripts within scripts

_META = " \t\r\n;&|()<>"
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\`$]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_NUMBER = re.compile(r"\d[\d.]*[smhd]?")
_EXTENSION = re.compile(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)
_PYTHON = re.compile(r"python[\d.]*|py")

_KEYWORDS = frozenset("if then elif else do while until ! { } time &".split())
_NO_CALL = frozenset("for case select function fi done esac in".split())
_SHELLS = frozenset("bash sh zsh dash ksh fish".split())
_INTERPRETERS = frozenset("php ruby perl".split())
_POWERSHELLS = frozenset({"powershell", "pwsh"})
# programs that run the rest of the line, and their options that take a value
_PREFIXES: dict[str, frozenset[str]] = {
    "sudo": frozenset("-u -g -h -p".split()),
    "doas": frozenset({"-u"}),
    "env": frozenset({"-u", "-C"}),
    "nice": frozenset({"-n"}),
    "timeout": frozenset({"-k", "-s"}),
    "xargs": frozenset("-n -I -P -L -d -s".split()),
    "stdbuf": frozenset("-i -o -e".split()),
    **{name: frozenset() for name in "nohup command exec builtin setsid cross-env".split()},
}
# tools that run another: both are called
_RUNNERS = frozenset({"npx", "pnpx", "bunx", "uvx"})
_SUB_RUNNERS = {
    "uv": ("run",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "pipx": ("run",),
    "bundle": ("exec",),
    "npm": ("exec", "x"),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "bun": ("x",),
}
_RUNNERS_TAKE = frozenset("-p --package --with --from --python --extra --group".split())

# programs that run a command elsewhere: their verbs, and the verbs' options that take a value
_CONTAINERS = frozenset(
    {"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "lando"}
)
_CONTAINER_VERBS = frozenset({"exec", "run"})
_CONTAINER_TAKES = frozenset(
    "-u --user -w --workdir -e --env -p -v --name -f --file --profile".split()
)
_SSH_TAKES = frozenset("-p -i -l -o -F -J -L -R".split())
_READ_DASHES = frozenset({"git", "rg", "grep", "npm", "pnpm", "yarn", "cargo", "make", "rm", "cd"})

Words = tuple[str, ...]


class Call(msgspec.Struct, frozen=True):
    """A program that is called; `forms` are its words from the outermost in: `uv run pytest -q` is
    `pytest -q` too.
    """

    forms: tuple[Words, ...]


@lru_cache(maxsize=512)  # a line is read before it runs, after it, and at the end of the turn
def calls(line: str) -> tuple[Call, ...]:
    """Return the programs that a command line calls, in order; none for an empty one."""
    gathered: list[Call] = []
    _gather(line[:MAX_LINE], gathered, 0)
    return tuple(gathered[:MAX_CALLS])


def program(word: str) -> str:
    """Return the name of a program called by a word: without folders and Windows' endings."""
    name = _EXTENSION.sub("", word.replace("\\", "/").rpartition("/")[2])
    return "pip" if name == "pip3" else name


def _gather(script: str, gathered: list[Call], depth: int) -> None:
    if depth > MAX_DEPTH:
        return
    reader = _Script(script)
    reader.read("", 0)
    for command in reader.commands:
        words = _bare(command)
        if len(gathered) >= MAX_CALLS or not words or words[0] in _NO_CALL:
            continue
        if (inner_script := _script_within(words)) is not None:
            _gather(inner_script, gathered, depth + 1)
            continue
        forms = [tuple(words)]
        while len(forms) < MAX_DEPTH and (inner := _bare(_inner(forms[-1]))):
            forms.append(tuple(inner))
        gathered.append(Call(tuple(forms)))


class _Script:
    """A script being read: the position in it, and the commands so far."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.commands: list[list[str]] = []

    def read(self, closing: str, depth: int) -> None:
        """Read commands up to a closing character or the end."""
        words: list[str] = []
        waiting: list[str] = []  # ends of here-documents whose text begins at the next line
        while self.at < len(self.text) and depth <= MAX_DEPTH:
            char = self.text[self.at]
            if char == closing:
                self.at += 1
                break
            if char in " \t\r":
                self.at += 1
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char in "\n;|)" or (char == "&" and self.text[self.at + 1 : self.at + 2] != ">"):
                self.at += 1
                words = self._end(words)
                if char == "\n" and waiting:
                    self._skip_documents(waiting)
            elif char == "(":
                self.at += 1
                words = self._end(words)
                self.read(")", depth + 1)
            elif char in "<>&":
                self._skip_redirection(waiting, depth)
            else:
                word = self._word(depth)
                if not (word.isdigit() and self.text[self.at : self.at + 1] in ("<", ">")):
                    words.append(word)
        self._end(words)

    def _end(self, words: list[str]) -> list[str]:
        if words:
            self.commands.append(words)
        return []

    def _skip_redirection(self, waiting: list[str], depth: int) -> None:
        """Skip a redirection and its target; remember the end mark of a here-document."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "<>&|-":
            self.at += 1
        operator = self.text[start : self.at]
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.text[self.at : self.at + 1] == "(":
            return  # `<(...)`: read as a subshell
        word = self._word(depth)
        if operator in ("<<", "<<-") and word:
            waiting.append(word)

    def _skip_documents(self, waiting: list[str]) -> None:
        while waiting:
            ending = waiting.pop(0)
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end].strip()
                self.at = min(end + 1, len(self.text))
                if line == ending:
                    break

    def _word(self, depth: int) -> str:
        parts: list[str] = []
        while self.at < len(self.text) and self.text[self.at] not in _META:
            char = self.text[self.at]
            if char == "'":
                parts.append(self._until("'"))
            elif char == '"':
                parts.append(self._double(depth))
            elif char == "\\":
                parts.append(self._read_escape(is_first=not parts))
            elif char == "`":
                self._read_backtick(depth)
            elif self.text.startswith("$(", self.at):
                self.at += 2
                self.read(")", depth + 1)
            elif plain := _PLAIN.match(self.text, self.at):
                parts.append(plain[0])
                self.at = plain.end()
            else:
                parts.append(char)
                self.at += 1
        return "".join(parts)

    def _until(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at + 1 : end]
        self.at = min(end + 1, len(self.text))
        return inside

    def _double(self, depth: int) -> str:
        """Return the text between double quotes; substitutions in it are called."""
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                break
            if char == "\\":
                parts.append(self._read_escape(is_first=False))
            elif char == "`":
                self._read_backtick(depth)
            elif self.text.startswith("$(", self.at):
                self.at += 2
                self.read(")", depth + 1)
            else:
                parts.append(char)
                self.at += 1
        return "".join(parts)

    def _read_escape(self, *, is_first: bool) -> str:
        """Return the text of a backslash escape: within a word, before a letter: a Windows path."""
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 1 + len(escaped)
        if escaped in ("\n", "\r"):
            return ""
        return f"/{escaped}" if escaped.isalnum() and not is_first else escaped

    def _read_backtick(self, depth: int) -> None:
        if self.text[self.at + 1 : self.at + 2] in ("\r", "\n"):  # PowerShell: the line goes on
            self.at += 2
            return
        nested = _Script(self._until("`"))
        nested.read("", depth + 1)
        self.commands += nested.commands


def _bare(words: list[str]) -> list[str]:
    """Return the words of a command from its actual program on."""
    while words:
        name = program(words[0])
        if words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif name in _PREFIXES:
            words = _after_options(words[1:], _PREFIXES[name])
            if name == "timeout" and words and _NUMBER.fullmatch(words[0]):
                words = words[1:]
        else:
            return words
    return []


def _after_options(words: list[str], with_value: frozenset[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in with_value else words[1:]
    return words


def _script_within(words: list[str]) -> str | None:
    """Return the script that a shell is to run."""
    name = program(words[0]).lower()
    if name == "eval":
        return " ".join(words[1:])
    if name == "ssh":
        rest = _after_options(words[1:], _SSH_TAKES)[1:]
        return rest[0] if len(rest) == 1 else None
    for place, word in enumerate(words[1:], 1):
        rest = words[place + 1 :]
        if name in _SHELLS and re.fullmatch(r"-[a-z]*c", word):
            return rest[0] if rest else ""
        if name in _POWERSHELLS and word.lower() in ("-command", "-c"):
            return " ".join(rest)
        if name == "cmd" and word.lower() in ("/c", "/k"):
            return " ".join(rest)
    return None


def _within_container(rest: list[str]) -> list[str]:
    """Return the command that is run in a container: `compose exec web pytest` runs `pytest`."""
    for place, word in enumerate(rest[:6]):
        if word in _CONTAINER_VERBS:
            after = _after_options(rest[place + 1 :], _CONTAINER_TAKES)
            return after[1:]  # the first is the container
    return []


def _inner(words: Words) -> list[str]:
    """Return the words of the command that a command runs; none if it runs no other."""
    name, rest = program(words[0]), list(words[1:])
    if name == "nix" and {"-c", "--command"} & set(rest[:-1]):
        return rest[max(map(rest.index, {"-c", "--command"} & set(rest))) + 1 :]
    if "--" in rest[:-1] and name not in _READ_DASHES:
        return rest[rest.index("--") + 1 :]  # kubectl exec POD -- , aws-vault exec dev --
    if name in _CONTAINERS and (within := _within_container(rest)):
        return within
    if name == "ssh":
        rest = _after_options(rest, _SSH_TAKES)[1:]
        return [] if len(rest) == 1 else rest  # of one word it is a script
    if name in _RUNNERS:
        return _after_options(rest, _RUNNERS_TAKE)
    if name in _SUB_RUNNERS:
        rest = _after_options(rest, _RUNNERS_TAKE)
        if rest and rest[0] in _SUB_RUNNERS[name]:
            return _after_options(rest[1:], _RUNNERS_TAKE)
        return []
    if name in _INTERPRETERS:
        return rest if rest and not rest[0].startswith("-") else []
    if _PYTHON.fullmatch(name):
        if "-m" in rest[:4] and (place := rest.index("-m")) + 1 < len(rest):
            return rest[place + 1 :]
        rest = _after_options(rest, frozenset({"-W", "-X"}))
        return rest if rest and rest[0].endswith(".py") else []
    if name in _SHELLS:
        rest = _after_options(rest, frozenset({"-o"}))
        return rest if rest and ("/" in rest[0] or rest[0].endswith(".sh")) else []
    return []

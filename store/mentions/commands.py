"""
The rules for commands and for the packages they install.

In prose a command counts only by a known subcommand of a tool whose name is no word; in code
(between backticks, after a `$ ` prompt, in a fenced block) by its first word.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

from store.mentions.rules import Found, is_file_name, package_name

# a tool and the subcommands by which it is known in prose; in code any word may follow it
SUBCOMMANDS = {
    tool: frozenset(subcommands.split())
    for tool, subcommands in {
        "git": """add am apply bisect blame branch checkout cherry-pick clean clone commit diff
            fetch gc grep init log merge mv pull push rebase reflog remote reset restore revert rm
            show stash status submodule switch tag worktree""",
        "npm": "audit ci exec i init install link ls publish run start test uninstall update",
        "pnpm": "add audit build dev dlx exec i install lint publish remove run start test update",
        "yarn": "add build dev dlx install lint remove run start test upgrade workspace",
        "bun": "add build install remove run test",
        "pip": "freeze install list show uninstall",
        "pip3": "freeze install list show uninstall",
        "uv": "add build lock pip publish run sync tool venv",
        "poetry": "add build install lock publish remove run shell update",
        "cargo": """add bench build check clean clippy doc fix fmt install nextest publish run test
            tree update""",
        "docker": """build buildx compose cp exec images inspect kill login logs network ps pull
            push restart rm rmi run start stop system tag volume""",
        "docker-compose": "build down exec logs ps pull restart run up",
        "kubectl": """apply create delete describe edit exec get logs port-forward rollout scale
            top""",
        "helm": "install lint template uninstall upgrade",
        "terraform": "apply destroy fmt import init output plan state validate workspace",
        "gh": "api issue pr release repo run workflow",
        "apt": "install purge update upgrade",
        "apt-get": "install purge remove update upgrade",
        "brew": "install uninstall update upgrade",
        "systemctl": "daemon-reload disable enable reload restart start status stop",
        "composer": "install require update",
        "alembic": "current downgrade history revision stamp upgrade",
        "prisma": "db generate migrate",
        "dotnet": "add build publish restore run test",
        "gem": "install",
    }.items()
}
# tools whose names are words too, or whose arguments are open: in code only
CODE_TOOLS = frozenset(
    """aws az bazel bundle bunx conda dagster deno flask gcloud go gradle just make mix mvn nix npx
    nx php pipx rails rake rustup sbt supabase swift turbo uvx vercel wrangler""".split()
)
LONE_TOOLS = frozenset(
    """black cmake esbuild eslint flake8 gcc isort jest mypy playwright prettier psql pylint pyright
    pytest redis-cli rollup ruff rustc shellcheck sqlite3 tox tsc vite vitest webpack""".split()
)
INSTALLERS = "apt brew bun cargo composer gem go npm pip pnpm poetry uv yarn"
MAX_INSTALLS = 100  # looked at in one text
_CARRIERS = frozenset({"compose", "dlx", "exec", "pip", "run", "tool"})  # the next word says more
_SPELLED_OUT = {"i": "install", "pip3": "pip", "python3": "python"}
STOP = frozenset(
    """a after again all an and any are as at because before but by dependencies did does failed
    fails first for from if in into is it locally now of on once only or packages so that the them
    then there this to twice until was when which will with without works""".split()
)

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]{0,40}")
_MODULE = re.compile(r"[a-z][a-z0-9_.]{0,60}")
_SETTING = re.compile(r"[A-Z_][A-Z0-9_]*=\S*")
_PROMPT = re.compile(r"^[ \t]{0,40}\$ ([^\n]{1,200})", re.MULTILINE)
_FENCED = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INSTALL = re.compile(
    r"(?<![\w./@-])(?:(?:npm|pnpm|yarn|bun)[ \t]+(?:i|install|add|remove|uninstall)|"
    r"(?:uv[ \t]+)?pip3?[ \t]+install|(?:uv|poetry)[ \t]+add|cargo[ \t]+(?:add|install)|"
    r"go[ \t]+get|(?:gem|brew|apt|apt-get)[ \t]+install|composer[ \t]+require)[ \t]+(?=\S)"
)
_ARGUMENTS = re.compile(r"[^\n`;|&]{0,300}")
_PACKAGE = re.compile(
    r"(@[a-z0-9][\w.-]*/[\w.-]+|[A-Za-z][\w.-]*(?:/[\w.-]+)*)(?:\[[\w,-]*\])?"
    r"(?:(?:[=<>~!]=?|@)\S*)?",
    re.ASCII,
)


def command(line: str) -> str | None:
    """Return 'tool subcommand' for a command line whose first word is a known tool, or None."""
    words = line.split(None, 12)[:12]
    while words and (words[0] in ("sudo", "time", "env") or _SETTING.fullmatch(words[0])):
        words = words[1:]
    if not words:
        return None
    tool, rest = words[0], words[1:]
    if tool in LONE_TOOLS:
        return tool
    if tool in ("python", "python3"):
        is_module = len(rest) > 1 and rest[0] == "-m" and _MODULE.fullmatch(rest[1])
        return f"python -m {rest[1]}" if is_module else None
    return _with_subcommand(tool, rest) if tool in SUBCOMMANDS or tool in CODE_TOOLS else None


def shell_lines(text: str) -> Iterator[Found]:
    """Yield the commands after a `$ ` prompt and those that start a line of a fenced block."""
    lines = [(match.start(1), match[1]) for match in _PROMPT.finditer(text)]
    for block in _FENCED.finditer(text):
        at = block.start(1)
        for line in block[1].splitlines(keepends=True):
            lines.append((at, line))
            at += len(line)
    for start, line in lines:
        if name := command(line):
            yield start, "command", name, line.strip()


def prose_commands(text: str) -> Iterator[Found]:
    """Yield the known subcommands of known tools, wherever they stand."""
    for tool, subcommands in SUBCOMMANDS.items():
        for match in _in_prose(tool).finditer(text) if tool in text else ():
            named = [tool, match[1]]
            if match[1] not in subcommands:
                continue
            if match[2] and match[1] in _CARRIERS and match[2] not in STOP:
                named.append(match[2])
            yield match.start(), "command", _canonical(named), " ".join(named)


def installed(text: str) -> Iterator[Found]:
    """Yield the packages that commands install: all of them in code, the first one in prose."""
    for match in islice(_INSTALL.finditer(text), MAX_INSTALLS):
        arguments = _ARGUMENTS.match(text, match.end())
        is_code = text[max(0, match.start() - 2) : match.start()].endswith(("`", "$ "))
        if arguments:
            for at, name, written in _packages(arguments[0], 12 if is_code else 1):
                yield match.end() + at, "package", name, written


def _with_subcommand(tool: str, rest: list[str]) -> str | None:
    while rest and rest[0].startswith("-"):
        rest = rest[1:]
    named = [tool, *(word for word in rest[:1] if _SUBCOMMAND.fullmatch(word))]
    if named[-1] in _CARRIERS and len(rest) > 1 and _SUBCOMMAND.fullmatch(rest[1]):
        named.append(rest[1])
    return _canonical(named) if len(named) > 1 or tool in ("make", "just") else None


def _canonical(named: list[str]) -> str:
    """Return the name of a command: what two spellings of a subcommand share."""
    return " ".join(_SPELLED_OUT.get(word, word) for word in named)


@cache
def _in_prose(tool: str) -> re.Pattern[str]:
    """Return where a tool is called in prose; one expression a tool, as a literal start is fast."""
    return re.compile(
        rf"{tool}(?<![\w./@-]{tool})[ \t]+([a-z][a-z-]*)(?![\w/.(]\w)"
        r"(?:[ \t]+([a-z][a-z0-9:_-]*))?"
    )


def _packages(arguments: str, limit: int) -> Iterator[tuple[int, str, str]]:
    """Yield the packages an install names; flags come before them, prose after them."""
    named = 0
    for word in re.finditer(r"\S+", arguments):
        written = word[0].strip("\"',.:)")
        if written.startswith("-") and not named:
            continue
        package = _PACKAGE.fullmatch(written)
        if package is None or named == limit or package[1].lower() in STOP:
            return
        if not is_file_name(package[1]):
            named += 1
            yield word.start(), package_name(package[1]), package[1]

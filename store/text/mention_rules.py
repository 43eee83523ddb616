"""
The rules for entities that are one word: files, symbols, packages, error codes, @handles.

Only words that are not plain prose are read closely, and each once while it is cached, so ordinary
sentences cost next to nothing. Every expression here is linear: no nested repeats, and possessive
where a run may be long. Precision comes first: a word without a sure rule is no entity.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from typing import Literal

EntityKind = Literal[
    "file", "symbol", "package", "command", "error", "person", "url", "name", "host", "ticket"
]
Found = tuple[int, EntityKind, str, str]  # where it starts, kind, canonical name, as written
Named = tuple[EntityKind, str]

UPPER, LOWER = "A-ZÀ-ÖØ-ÞА-ЯЁ", "a-zß-öø-ÿа-яё"
MAX_WORD = 200  # characters; longer runs are data, not names

EXTENSIONS = frozenset(
    """astro bash bat c cc cfg clj cpp cs css csv cxx dart db dockerfile elm erl ex exs fish fs
    go gql gradle graphql groovy h hcl hpp hrl hs htm html ini ino ipynb java jl js json json5 jsonc
    jsonl jsx kt kts less lock log lua md mdx mjs mk ml mm mts cjs cts nim nix parquet patch pdf php
    plist png prisma properties proto ps1 py pyi pyx r rb rs rst sass sbt scala scss sh sol sql
    sqlite sqlite3 svelte svg swift tex tf tfvars toml ts tsv tsx txt vue wasm xml yaml yml zig zsh
    """.split()
)
FILE_NAMES = frozenset(
    """brewfile cmakelists.txt codeowners dockerfile gemfile go.mod go.sum jenkinsfile justfile
    makefile pipfile podfile procfile rakefile vagrantfile .babelrc .bashrc .browserslistrc
    .dockerignore .editorconfig .env .eslintignore .eslintrc .flake8 .gitattributes .gitignore
    .gitmodules .npmrc .nvmrc .prettierrc .profile .tool-versions .yarnrc .zshrc""".split()
)
_FRAMEWORKS = frozenset(
    """alpine angular backbone bun chart d3 deck discord electron ember express knockout meteor
    moment nest next node nuxt p5 plotly polymer react require svelte three video vue
    """.split()
)
_NOT_FILES = frozenset(
    """client.lock console.log django.db docs.rs math.log np.log numpy.log req.json request.json
    res.json response.json""".split()
)
DOMAINS = frozenset("ai app cloud co com dev edu eu gov io me net org uk".split())
_BRANDS = frozenset(
    """airbnb airpods appstore bigquery bitbucket chatgpt circleci clickhouse cloudflare cloudfront
    coffeescript couchdb datadog deepmind deepseek devops dynamodb ebay facebook facetime fastapi
    github gitlab graphql hashicorp huggingface iaas imessage influxdb intellij iphone
    itunes javascript jetbrains langchain latex linkedin macbook macos mariadb mongodb mysql newsql
    nosql numpy openai openapi openssl opensuse openstack paas paypal phd playstation postgresql
    powerpoint powershell pycharm pypi pytorch rabbitmq redhat saas scipy scylladb sharepoint
    soundcloud sqlite stackoverflow surrealdb tensorflow tiktok timescaledb typescript ubuntu vmware
    vscode webassembly webpack webstorm whatsapp wifi wordpress youtube""".split()
)
_NOT_PEOPLE = frozenset(
    """abstractmethod all alpha app apply asset author beta cache cached canary channel charset
    class classmethod click component const container contextmanager dataclass define deprecated
    each else error everyone example extend extends final fixture font-face for function given here
    if import include inject internal jit job keyframes latest layer link media method mixin module
    namespace next nightly op override overload param parametrize private property protected public
    pytest readonly return returns route see since stable staticmethod summary supports tailwind
    task team template test throws todo ts-expect-error ts-ignore ts-nocheck type typedef use
    validator value var version warning wraps""".split()
)
_ERROR_NAMES = frozenset(
    """EACCES EADDRINUSE EADDRNOTAVAIL EAGAIN EBADF EBUSY ECONNABORTED ECONNREFUSED ECONNRESET
    EEXIST EFAULT EHOSTUNREACH EINTR EINVAL EIO EISDIR ELOOP EMFILE EMSGSIZE ENAMETOOLONG ENETDOWN
    ENETUNREACH ENFILE ENOBUFS ENODEV ENOENT ENOEXEC ENOLCK ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR
    ENOTEMPTY ENOTFOUND ENOTSUP EPERM EPIPE EPROTO ERANGE ERESOLVE EROFS ESPIPE ESRCH ESTALE
    ETIMEDOUT ETXTBSY EXDEV EAI_AGAIN ELIFECYCLE EBADENGINE EINTEGRITY OOMKilled CrashLoopBackOff
    SIGABRT SIGBUS SIGFPE SIGILL SIGKILL SIGSEGV SIGTERM SIGPIPE KeyboardInterrupt StopIteration
    SystemExit""".split()
)

_CHAR = rf"[0-9_{UPPER}{LOWER}Ā-ɏͰ-Ͽ./\\@~-]"
_ODD_WORD = re.compile(
    rf"(?<!{_CHAR})"
    rf"(?!(?:[{UPPER}]?[{LOWER}]*+(?:-[{LOWER}]+)*|[0-9]++)\.*+(?!{_CHAR}|::|\(\)|:[\\/]))"  # plain
    rf"(?:[A-Za-z]:(?=[\\/]))?(?:{_CHAR}|::)+"
)
_ERROR = (
    r"E[0-9]{3,4}|F[48][0-9]{2}|TS[0-9]{4,5}|CS[0-9]{4}|LNK[0-9]{4}|ORA-[0-9]{5}|"
    r"CVE-[0-9]{4}-[0-9]{4,7}|0x8[0-9A-Fa-f]{7}|ERR_[A-Z0-9_]+|"
    r"SQLITE_(?:ABORT|AUTH|BUSY|CANTOPEN|CONSTRAINT|CORRUPT|ERROR|FULL|INTERNAL|INTERRUPT|IOERR|"
    r"LOCKED|MISMATCH|MISUSE|NOMEM|NOTADB|NOTFOUND|PERM|PROTOCOL|RANGE|READONLY|SCHEMA|TOOBIG)"
    r"(?:_[A-Z]+)*|[A-Z][A-Za-z0-9]+(?:Error|Exception|Warning)"
)
_SYMBOL = (
    r"_*[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+_*|"  # snake_case, MAX_RETRIES, __post_init__
    r"__(?:all|call|del|dict|enter|eq|exit|file|hash|init|iter|new|next|repr|slots|str)__|"
    r"[a-z][a-z0-9]+[A-Z][A-Za-z0-9]*|"  # camelCase
    r"[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*|[A-Z]{2,}[a-z]{3,}[A-Za-z0-9]*"  # PascalCase, HTTPServer
)
_SHAPE = re.compile(rf"(?P<error>{_ERROR})|(?P<symbol>{_SYMBOL})")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_SCOPED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:::~?[A-Za-z_][A-Za-z0-9_]*)+")
_MANY_DIGITS = re.compile(r"(?:[^0-9]*[0-9]){6}")
_LETTER = re.compile(r"[^\W\d_]")
_PINNED = re.compile(  # lodash@4.17.21, @scope/pkg@1.0, actions/checkout@v4; no user@10.0.0.1
    r"(@?[a-z][a-z0-9_.-]*(?:/[a-z0-9][a-z0-9_.-]*)?)@v?[0-9]+(?:\.[0-9]+){0,2}(?:-[a-z0-9.]+)?"
)
_SCOPE = re.compile(r"@[a-z0-9][a-z0-9_.-]*/[a-z0-9][a-z0-9_.-]*")
_HANDLE = re.compile(r"@([a-z][a-z0-9]+(?:-[a-z0-9]+)*)")


def words(text: str) -> Iterator[Found]:
    """Yield the entities that are one word, in order of appearance."""
    at = 0
    tokens = text.split()
    unsure = set(tokens) - _plain
    for token in tokens if unsure else ():
        if token not in unsure:
            continue
        # a word is read once in a build; one longer than a name is not worth caching
        entities = _remembered(token) if len(token) <= MAX_WORD else _inside(token)
        if not entities:
            if len(_plain) == _MOST_PLAIN:
                _plain.clear()
            if len(token) <= MAX_WORD:
                _plain.add(token)
            continue
        at = text.find(token, at)
        for start, kind, name, written in entities:
            if kind != "person" or not _is_decorator(text, at + start, len(written)):
                yield at + start, kind, name, written
        at += len(token)


def classify(word: str, before: str = "", after: str = "") -> Named | None:
    """Return the kind and the canonical name of one word, or None.

    `before` is the character it follows, `after` the two that follow it.
    """
    if "@" in word:
        return _with_at_sign(word, before, after)
    if "/" in word or "\\" in word:
        name = _file(word)
        return ("file", name) if name else None
    if "::" in word:
        return ("symbol", word) if _SCOPED.fullmatch(word) else None
    if "." in word:
        return _with_dots(word, after)
    return _single(word, after)


def package_name(written: str) -> str:
    """Return a package's name in its registry: case and `_` for `-` carry nothing."""
    return written.lower().replace("_", "-")


def _inside(token: str) -> tuple[Found, ...]:
    """Return the entities of the text between two spaces, by their start in it."""
    entities: list[Found] = []
    for match in _ODD_WORD.finditer(token):
        start, end = match.span()
        # flags are no names; a word after a bracket or a star is the rest of <name>.py or *_test.py
        if end - start > MAX_WORD or token[start] == "-":
            continue
        before = token[start - 1 : start]
        if before and before in "]})>*%" and token[start] in "/._":
            continue
        word = match[0].rstrip(".:-/\\~@")
        if named := classify(word, before, token[start + len(word) :][:2]) if word else None:
            entities.append((start, *named, word))
    return tuple(entities)


_remembered = lru_cache(maxsize=1 << 14)(_inside)
_plain: set[str] = set()  # words that name nothing: most of a text, skipped at once
_MOST_PLAIN = 1 << 16


def _single(word: str, after: str) -> Named | None:
    if word in _ERROR_NAMES:
        return "error", word
    shape = _SHAPE.fullmatch(word)
    if shape is None:
        is_call = after.startswith("()") and _IDENTIFIER.fullmatch(word)
        return ("symbol", word) if is_call else None
    if shape.lastgroup == "error":
        return "error", word
    # Mc: surnames; many digits: identifiers of another sort (hashes, ids)
    is_name = word.lower() not in _BRANDS and not word.startswith("Mc")
    return ("symbol", word) if is_name and not _MANY_DIGITS.match(word) else None


def _with_dots(word: str, after: str) -> Named | None:
    stem, _, extension = word.rpartition(".")
    if extension in ("js", "JS") and stem.lower() in _FRAMEWORKS:
        return "package", stem.lower()  # Node.js, Vue.js: no files
    is_object = after.startswith("(") or stem in ("self", "this", "cls")
    if not is_object and (name := _file(word)):
        return "file", name
    if not _DOTTED.fullmatch(word) or extension in DOMAINS:
        return None
    last = _single(extension, "")
    if last and last[0] == "error":
        return last
    parts = word.split(".")
    if not is_object and not any(map(_SHAPE.fullmatch, parts)):
        return None
    if len(parts) == 2 and parts[1].lower() in _BRANDS:
        return None
    return "symbol", ".".join(parts[1:] if parts[0] in ("self", "this", "cls") else parts)


def _file(word: str) -> str | None:
    """Return the path with forward slashes and without leading `./`, if it names a file."""
    path = word.replace("\\", "/")
    while path.startswith(("./", "../", ".../")):
        path = path.partition("/")[2]
    *folders, base = path.split("/")
    if not is_file_name(base) or "::" in path or "//" in path or path in _NOT_FILES:
        return None
    if any(is_file_name(folder) for folder in folders if folder[:1] != "."):
        return None  # a.py/b.py: two names; how they belong together is a guess
    # a drive letter means a system that ignores case
    return path.lower() if path[1:2] == ":" else path


def is_file_name(base: str) -> bool:
    """Return True if a name without folders is a file's: a known extension, or a known name."""
    stem, dot, extension = base.rpartition(".")
    if not dot:
        return base.lower() in FILE_NAMES
    if extension in EXTENSIONS or (base.isupper() and extension.lower() in EXTENSIONS):
        return _LETTER.search(stem) is not None
    return base.lower() in FILE_NAMES or stem.lower() in ("dockerfile", ".env", "makefile")


def _with_at_sign(word: str, before: str, after: str) -> Named | None:
    if pinned := _PINNED.fullmatch(word):
        return "package", package_name(pinned[1])
    if scope := _SCOPE.match(word):
        if name := _file(word):
            return "file", name
        return ("package", package_name(scope[0])) if word[scope.end() :][:1] in "/@" else None
    handle = _HANDLE.fullmatch(word)
    if handle is None or before in ("`", "\\") or after[:1] in ("(", "/", "["):
        return None
    return None if handle[1] in _NOT_PEOPLE or len(handle[1]) > 39 else ("person", handle[1])


def _is_decorator(text: str, start: int, length: int) -> bool:
    """Return True if an @word stands alone on its line, as decorators do."""
    before, after = text[max(0, start - 40) : start], text[start + length : start + length + 40]
    return not before.rpartition("\n")[2].strip() and not after.partition("\n")[0].strip()


# The rules for commands and for the packages they install.
#
# In prose a command needs a known subcommand of a tool with a name that is no word; in code
# (between backticks, after a `$ ` prompt, in a fenced block) by its first word.

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
# tools with names that are words too, or with open arguments: in code only
CODE_TOOLS = frozenset(
    """aws az bazel bundle bunx conda dagster deno flask gcloud go gradle just make mix mvn nix npx
    nx php pipx rails rake rustup sbt supabase swift turbo uvx vercel wrangler""".split()
)
LONE_TOOLS = frozenset(
    """black cmake esbuild eslint flake8 gcc isort jest mypy playwright prettier psql pylint pyright
    pytest redis-cli rollup ruff rustc shellcheck sqlite3 tox tsc vite vitest webpack""".split()
)
INSTALLERS = "apt brew bun cargo composer gem go npm pip pnpm poetry uv yarn"
MAX_INSTALLS = 100  # read in one text
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
    """Yield the known subcommands of known tools, anywhere in the text."""
    for tool, subcommands in SUBCOMMANDS.items():
        for match in _in_prose(tool).finditer(text) if tool in text else ():
            named = [tool, match[1]]
            if match[1] not in subcommands:
                continue
            if match[2] and match[1] in _CARRIERS and match[2] not in STOP:
                named.append(match[2])
            yield match.start(), "command", _canonical(named), " ".join(named)


def packages_to_install(text: str) -> Iterator[Found]:
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
    """Return the name of a command, the same for both spellings of a subcommand."""
    return " ".join(_SPELLED_OUT.get(word, word) for word in named)


@cache
def _in_prose(tool: str) -> re.Pattern[str]:
    """Return the pattern of a tool's calls in prose: one a tool, for a literal start is fast."""
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

"""
Mentions: the entities a text names - files, symbols, packages, commands, errors, people, URLs.

Rules only, no model and no list of a project's names: the same text gives the same mentions
everywhere, in a build and in a query. The canonical name folds meaningless variation (the case of a
package or a host, `./` before a path) and keeps the rest.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from string import ascii_letters

import msgspec

from store.text import mention_rules
from store.text.mention_rules import (
    CODE_TOOLS,
    DOMAINS,
    INSTALLERS,
    LOWER,
    STOP,
    SUBCOMMANDS,
    UPPER,
    EntityKind,
    Found,
    classify,
    command,
    is_file_name,
    package_name,
    packages_to_install,
    prose_commands,
)
from store.text.names import blank, names

__all__ = [
    "MAX_CHARS",
    "MAX_MENTIONS",
    "EntityKind",
    "Mention",
    "guesses",
    "mentions",
    "speaker_name",
]

MAX_CHARS = 65_536  # only the beginning of a longer text is read
MAX_MENTIONS = 64
MAX_URL = 2_000

_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{1,20})://([^\s<>\"'`{}|\\^]+)", re.ASCII
)
_WEB = re.compile(r"(?:[^\s/@?#]*@)*([^\s/?#@:]+)(:[0-9]{1,5})?((?:[/?][^\s#]*)?)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Mention(msgspec.Struct, frozen=True):
    """One entity a text names: `name` is canonical, `alias` is how the text has it."""

    kind: EntityKind
    name: str
    alias: str


def mentions(text: str, *, speaker: str | None = None) -> tuple[Mention, ...]:
    """Return the entities of a text in order of first appearance, no (kind, name) twice.

    `speaker` comes first if it looks like a person's name or is an @handle. At most 64 are
    returned; an empty text has none.
    """
    text = text[:MAX_CHARS]
    first: dict[tuple[EntityKind, str], str] = {}
    if speaker and (name := speaker_name(speaker)):
        first["person", name] = speaker.strip()
    for _, kind, name, alias in sorted(_find_entities(text), key=itemgetter(0)):
        if (kind, name) not in first:
            first[kind, name] = alias
            if len(first) == MAX_MENTIONS:
                break
    return tuple(Mention(kind, name, alias) for (kind, name), alias in first.items())


def guesses(text: str) -> tuple[Mention, ...]:
    """Return the words that are names if other texts have them as names, each once."""
    all_names = names(_without_urls(text[:MAX_CHARS]))
    sure = {name.written.casefold() for name in all_names if name.is_sure}
    first: dict[str, str] = {}
    for name in all_names:
        if name.written.casefold() not in sure:
            first.setdefault(name.written.casefold(), name.written)
    few = islice(first.items(), MAX_MENTIONS)
    return tuple(Mention("name", name, written) for name, written in few)


def _find_entities(text: str) -> Iterator[Found]:
    by_rules = list(_find_by_rules(text))
    yield from by_rules
    spans = [(start, start + len(written)) for start, _, _, written in by_rules]
    for name in names(_without_urls(text)):
        end = name.start + len(name.written)
        is_free = not any(start < end and name.start < stop for start, stop in spans)
        if name.is_sure and is_free:
            folded = name.written if name.kind == "ticket" else name.written.casefold()
            yield name.start, name.kind, folded, name.written


def _without_urls(text: str) -> str:
    return _URL.sub(blank, text) if "://" in text else text


def _find_by_rules(text: str) -> Iterator[Found]:
    urls: list[Found] = []
    if "://" in text:
        urls = [url for match in _URL.finditer(text) if (url := _web(match))]
        text = _without_urls(text)  # a part of a URL is no file and no symbol
    rules: list[Iterable[Found]] = [urls, mention_rules.words(text), phrases(text)]
    if "`" in text:
        rules.append(backtick_entities(text))
    if "$ " in text or "```" in text:
        rules.append(mention_rules.shell_lines(text))
    if '": "' in text or '":"' in text:
        rules.append(dependencies(text))
    return chain.from_iterable(rules)


def _web(match: re.Match[str]) -> Found | None:
    """Return an http(s) URL without fragment, credentials, default port and trailing text."""
    scheme = match[1].lower()
    if scheme not in _DEFAULT_PORTS or len(match[2]) > MAX_URL:
        return None
    parts = _WEB.match(_without_closing(match[2]))
    if parts is None:
        return None
    host, port, path = parts[1].lower().rstrip("."), parts[2] or "", parts[3]
    port = "" if port == _DEFAULT_PORTS[scheme] else port
    written = f"{match[1]}://{parts[1]}{parts[2] or ''}{path}"
    return match.start(), "url", f"{scheme}://{host}{port}{'' if path == '/' else path}", written


def _without_closing(address: str) -> str:
    """Return an address without punctuation of the sentence around it; paired brackets stay."""
    while address:
        last = address[-1]
        is_paired = last == ")" and address.count("(") >= address.count(")")
        if last not in ".,;:!?*_)]" or is_paired:
            break
        address = address[:-1]
    return address


@lru_cache(maxsize=4_096)  # few people say most of it
def speaker_name(written: str) -> str | None:
    """Return the canonical name of a person or @handle so written; None for a role or a tool."""
    if written.startswith("@"):
        handle = mention_rules.classify(written.strip())
        return handle[1] if handle and handle[0] == "person" else None
    return person(written)


# The rules for entities that take several words or a context: imports, statuses, people, code.
#
# Each rule has trigger words; it runs only on a text that has one of them. Expressions are linear:
# runs are bounded, and none crosses a line.

_LITERALS = frozenset(
    "true false null none undefined nil yes no ok and or not if else for while return".split()
)
_STDLIB = frozenset(
    """abc alloc argparse ast asyncio base64 builtins child_process collections context contextlib
    copy core crate crypto csv dataclasses datetime enum errors events fmt fs functools glob hashlib
    heapq http importlib inspect io itertools json logging math multiprocessing operator os path
    pathlib pickle queue random re self shutil signal socket sqlite3 std strconv stream string
    strings struct subprocess super sync sys tempfile threading time traceback types typing unittest
    urllib util uuid warnings weakref zlib""".split()
)

_TICKED = re.compile(r"`(?<!``)([^`\n]{1,200})`(?!`)")
_REFERENCE = re.compile(r"([A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)*)(\(\))?", re.ASCII)
_PYTHON_FROM = re.compile(r"\bfrom[ \t]+([a-z_]\w*)(?:\.\w+)*[ \t]+import\b", re.ASCII)
_PYTHON_IMPORT = re.compile(
    r"(?:^|`|>>> )[ \t]*import[ \t]+([a-z_]\w*)(?:\.\w+)*[ \t]*(?:$|[`;,]|as[ \t]\w)",
    re.MULTILINE | re.ASCII,
)
_SCRIPT_IMPORT = re.compile(
    r"(?:\brequire\(|\bimport\(|\bimport[ \t]+|\b(?:import|export)[ \t][^\n'\"]{1,200}from[ \t]*)"
    r"['\"]((?:node:)?@?[a-z0-9][^\s'\"]{0,100})['\"]"
)
_RUST_USE = re.compile(r"\buse[ \t]+([a-z_]\w*)::", re.ASCII)
_DEPENDENCY = re.compile(
    r"\"(@?[a-z][\w./@-]{0,100})\"[ \t]*:[ \t]*\"(?:[\^~]|>=)[ \t]*v?[0-9][^\"\n]{0,40}\"", re.ASCII
)
_HTTP = re.compile(
    r"\b(?:HTTP(?:/[0-9.]{1,3})?|[Ss]tatus)(?:[ \t]+(?:status|code|error)){0,2}[ \t:=]+"
    r"([45][0-9]{2})\b(?:/([45][0-9]{2})\b)?"
)
_HTTP_REASON = re.compile(
    r"\b([45][0-9]{2})[ \t]+(?:Bad Request|Unauthorized|Forbidden|Not Found|Conflict|"
    r"Unprocessable|Too Many Requests|Internal Server Error|Bad Gateway|Service Unavailable|"
    r"Gateway Time)"
)
_EXIT = re.compile(
    r"\b[Ee]xit(?:ed|s)?[ \t]+(?:with[ \t]+)?(?:an?[ \t]+)?(?:code|status)[ \t:=]+(?:of[ \t]+)?"
    r"([1-9][0-9]{0,2})\b"
)
_NAMED_FILES = "Brew Docker Gem Jenkins Just Make Pip Pod Proc Rake Vagrant".split()
_NAMED_FILE = re.compile(rf"(?<![\w./\\@~-])(?:{'|'.join(_NAMED_FILES)})file\b(?![/.-]\w)")
_VERBS = """approved asked asks confirmed insisted mentioned proposed replied reported requested
    said says suggested wrote"""
_CREDITS = """approved authored assigned according co-authored reported reviewed signed-off
    suggested written"""
_PART = rf"[{UPPER}][{LOWER}'’]{{1,30}}(?:-[{UPPER}][{LOWER}]{{1,30}})?"
_FULL_NAME = rf"({_PART}(?: [{UPPER}]\.)? {_PART})"
_SAYS = re.compile(rf"\b{_FULL_NAME} (?:{'|'.join(_VERBS.split())})\b")
_CREDITED = tuple(re.compile(rf"{word}[ :]{{1,2}}{_FULL_NAME}") for word in ("by", "to"))
_SPEAKER = re.compile(rf"{_PART}(?: (?:[{UPPER}]\.|{_PART})){{0,3}}")
_NO_NAMES = frozenset(
    """a actions agent all and api app assistant bot build but claude cline cloud code codex
    copilot cursor docs doctor dr error first frau gemini github gitlab google gpt he her herr his
    hub if in it its legal llama manager mistral model mr mrs ms my no now on openai opencode our
    overflow pipeline platform product qa request sales security server service she so stack studio
    support system team test tests that the their then they this tool user users we when windsurf
    with yesterday you your""".split()
)
_LETTERS_ONLY = bytes(byte if chr(byte) in ascii_letters else 32 for byte in range(256))


def phrases(text: str) -> Iterator[Found]:
    """Yield the entities of every rule that has a trigger of each of its sets in the text."""
    words = frozenset(text.encode(errors="replace").translate(_LETTERS_ONLY).split())
    if _ALL_TRIGGERS.isdisjoint(words):
        return
    for triggers, rule in _RULES:
        if all(not trigger.isdisjoint(words) for trigger in triggers):
            yield from rule(text)


def backtick_entities(text: str) -> Iterator[Found]:
    """Yield the commands and identifiers between `backticks`."""
    for match in _TICKED.finditer(text):
        start, inside = match.start(1), match[1].strip()
        if name := command(inside):
            yield start, "command", name, inside
            continue
        written = _REFERENCE.fullmatch(inside)
        if written and _is_identifier(written[1]) and (written[2] or not classify(inside)):
            kind, name = classify(written[1], "", "()") or ("symbol", written[1])
            yield start, kind, name, written[1]


def dependencies(text: str) -> Iterator[Found]:
    """Yield the packages of lines like `"react": "^18"`."""
    for match in _DEPENDENCY.finditer(text):
        yield match.start(1), "package", package_name(match[1]), match[1]


def person(written: str) -> str | None:
    """Return the canonical name of a person so written, or None if it may be something else."""
    name = written.strip()
    if not _SPEAKER.fullmatch(name):
        return None
    folded = name.casefold()
    return None if _NO_NAMES.intersection(folded.replace("-", " ").split()) else folded


def _is_identifier(written: str) -> bool:
    """Return True if an identifier-like word may be one: no literal, no tool, no domain."""
    is_tool = written in SUBCOMMANDS or written in CODE_TOOLS
    is_domain = "." in written and written.rpartition(".")[2] in DOMAINS
    return len(written) > 1 and not (is_tool or is_domain or written.lower() in _LITERALS)


def _imports(text: str) -> Iterator[Found]:
    for pattern in (_PYTHON_FROM, _PYTHON_IMPORT, _RUST_USE):
        for match in pattern.finditer(text):
            if match[1] not in _STDLIB and match[1] not in STOP:
                yield match.start(1), "package", package_name(match[1]), match[1]
    for match in _SCRIPT_IMPORT.finditer(text):
        parts = match[1].split("/")
        name = "/".join(parts[:2]) if match[1][0] == "@" else parts[0]
        if name not in _STDLIB and ":" not in name and not is_file_name(parts[-1]):
            yield match.start(1), "package", package_name(name), name


def _http(text: str) -> Iterator[Found]:
    for pattern in (_HTTP, _HTTP_REASON):
        for match in pattern.finditer(text):
            for status in filter(None, match.groups()):
                yield match.start(), "error", f"HTTP {status}", match[0]


def _exit(text: str) -> Iterator[Found]:
    for match in _EXIT.finditer(text):
        yield match.start(), "error", f"exit code {match[1]}", match[0]


def _well_known_files(text: str) -> Iterator[Found]:
    for match in _NAMED_FILE.finditer(text):
        yield match.start(), "file", match[0], match[0]


def _speakers(text: str) -> Iterator[Found]:
    for match in _SAYS.finditer(text):
        if name := person(match[1]):
            yield match.start(1), "person", name, match[1]


def _credits(text: str) -> Iterator[Found]:
    for pattern in _CREDITED:
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - 14) : match.start()].lower().rstrip(" -")
            if before.endswith(_CREDIT_WORDS) and (name := person(match[1])):
                yield match.start(1), "person", name, match[1]


def _triggers(words: str) -> frozenset[bytes]:
    return frozenset(words.encode().split())


_CREDIT_WORDS = tuple(_CREDITS.split())
_RULES: tuple[tuple[tuple[frozenset[bytes], ...], Callable[[str], Iterator[Found]]], ...] = (
    ((_triggers(" ".join(SUBCOMMANDS).replace("-", " ").replace("3", "")),), prose_commands),
    (
        (_triggers(INSTALLERS), _triggers("i install add get require remove uninstall")),
        packages_to_install,
    ),
    ((_triggers("import export require use"),), _imports),
    (
        (
            _triggers(
                """HTTP status Status Request Requests Unauthorized Forbidden Found Conflict Server
                Unprocessable Gateway Service"""
            ),
        ),
        _http,
    ),
    ((_triggers("exit exits exited Exit Exited"), _triggers("code status")), _exit),
    ((_triggers(" ".join(f"{name}file" for name in _NAMED_FILES)),), _well_known_files),
    ((_triggers(_VERBS),), _speakers),
    (
        (_triggers(f"{_CREDITS} {_CREDITS.title()} Signed signed Co co"), _triggers("by to")),
        _credits,
    ),
)
_ALL_TRIGGERS = frozenset[bytes]().union(*(triggers[0] for triggers, _ in _RULES))

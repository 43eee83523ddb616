"""
Mentions: the entities a text names - files, symbols, packages, commands, errors, people, URLs.

Rules only, no model and no list of what a project holds: the same text gives the same mentions
everywhere, in a build and in a query. The canonical name folds what carries nothing (the case of a
package or a host, `./` before a path) and keeps the rest.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from store.mentions import commands as mention_commands
from store.mentions import phrases as mention_phrases
from store.mentions import rules as mention_rules
from store.mentions.rules import EntityKind, Found

__all__ = ["MAX_CHARS", "MAX_MENTIONS", "EntityKind", "Mention", "mentions", "speaker_name"]

MAX_CHARS = 65_536  # of a longer text only the beginning is read
MAX_MENTIONS = 64
MAX_URL = 2_000

_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{1,20})://([^\s<>\"'`{}|\\^]+)", re.ASCII
)
_WEB = re.compile(r"(?:[^\s/@?#]*@)*([^\s/?#@:]+)(:[0-9]{1,5})?((?:[/?][^\s#]*)?)")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True)
class Mention:
    """One entity a text names: `name` is canonical, `alias` is how the text has it."""

    kind: EntityKind
    name: str
    alias: str


def mentions(text: str, *, speaker: str | None = None) -> tuple[Mention, ...]:
    """Return the entities of a text in order of first appearance, no (kind, name) twice.

    `speaker` comes first where it looks like a person's name or is an @handle. At most 64 are
    returned; an empty text has none.
    """
    text = text[:MAX_CHARS]
    first: dict[tuple[EntityKind, str], str] = {}
    if speaker and (name := speaker_name(speaker)):
        first["person", name] = speaker.strip()
    for _, kind, name, alias in sorted(_found(text), key=_start):
        if (kind, name) not in first:
            first[kind, name] = alias
            if len(first) == MAX_MENTIONS:
                break
    return tuple(Mention(kind, name, alias) for (kind, name), alias in first.items())


def _found(text: str) -> Iterator[Found]:
    urls: list[Found] = []
    if "://" in text:
        urls = [found for match in _URL.finditer(text) if (found := _web(match))]
        text = _URL.sub(_blank, text)  # what is inside a URL is no file and no symbol
    rules: list[Iterable[Found]] = [urls, mention_rules.words(text), mention_phrases.phrases(text)]
    if "`" in text:
        rules.append(mention_phrases.ticked(text))
    if "$ " in text or "```" in text:
        rules.append(mention_commands.shell_lines(text))
    if '": "' in text or '":"' in text:
        rules.append(mention_phrases.dependencies(text))
    return chain.from_iterable(rules)


def _start(found: Found) -> int:
    return found[0]


def _web(match: re.Match[str]) -> Found | None:
    """Return an http(s) URL without fragment, credentials, default port and what follows it."""
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


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


@lru_cache(maxsize=4_096)  # few people say most of it
def speaker_name(written: str) -> str | None:
    """Return the canonical name of a person or @handle so written; None for a role or a tool."""
    if written.startswith("@"):
        found = mention_rules.classified(written.strip())
        return found[1] if found and found[0] == "person" else None
    return mention_phrases.person(written)

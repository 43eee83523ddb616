"""
A JSON document read with the place of every value, comments and trailing commas allowed.

JSON is RFC 8259; comments and trailing commas are those of VS Code's settings
(https://code.visualstudio.com/docs/languages/json#_json-with-comments).
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from store.home.errors import ConfigError

Key = str | int
Path = tuple[Key, ...]

BOM = "\ufeff"
MAX_DEPTH = 100
_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_OTHER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b")


@dataclass(frozen=True, slots=True)
class Node:
    """A value, from its first character to the one after its last, and what it holds."""

    start: int
    end: int
    value: Any
    children: tuple["Child", ...] = ()

    @property
    def is_container(self) -> bool:
        return isinstance(self.value, dict | list)

    def child(self, key: Key) -> "Child | None":
        """Return what is found under a key; the last one where it stands twice, as parsers do."""
        return next((one for one in reversed(self.children) if one.key == key), None)


@dataclass(frozen=True, slots=True)
class Child:
    """A member of an object or an item of an array; `start` is where its key begins."""

    key: Key
    start: int
    node: Node

    @property
    def end(self) -> int:
        return self.node.end


@lru_cache(maxsize=4)  # an edit looks at one text many times, and a host's may be of megabytes
def parse(text: str) -> Node:
    """Return the document; raise ConfigError with the line and column of the first mistake."""
    start = after_gap(text, len(BOM) if text.startswith(BOM) else 0)
    node = _value(text, start, 0)
    end = after_gap(text, node.end)
    if end < len(text):
        _fail(text, end, "one document, but more follows")
    return node


def find(node: Node, path: Path) -> Node | None:
    """Return the value at a path; None where there is none."""
    for key in path:
        child = node.child(key)
        if child is None:
            return None
        node = child.node
    return node


def after_gap(text: str, at: int) -> int:
    """Return where white space and comments end."""
    match = _GAP.match(text, at)
    return match.end() if match else at


def position(text: str, at: int) -> str:
    """Return a place as people count: line and column from 1; CRLF is one line end."""
    before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
    line = before.count("\n") + 1
    return f"line {line}, column {len(before) - (before.rfind(chr(10)) + 1) + 1}"


def _value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        _fail(text, at, "less nesting")
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    if first == '"':
        return _string(text, at)
    match = _OTHER.match(text, at)
    if match is None:
        _fail(text, at, "a value")
    return Node(at, match.end(), _plain(text, at, match.group(), "a shorter number"))


def _string(text: str, at: int) -> Node:
    match = _STRING.match(text, at)
    if match is None:
        _fail(text, at, "a string in double quotes")
    written = match.group()
    if "\\" not in written:
        return Node(at, match.end(), written[1:-1])
    return Node(at, match.end(), _plain(text, at, written, "a string with known escapes"))


def _plain(text: str, at: int, written: str, wanted: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:  # an unknown escape; more digits than Python turns into a number
        _fail(text, at, wanted)


def _object(text: str, start: int, depth: int) -> Node:
    children: list[Child] = []
    at = after_gap(text, start + 1)
    while text[at : at + 1] != "}":
        key = _string(text, at)
        colon = after_gap(text, key.end)
        if text[colon : colon + 1] != ":":
            _fail(text, colon, "a colon")
        node = _value(text, after_gap(text, colon + 1), depth + 1)
        children.append(Child(key.value, at, node))
        at = _after_comma(text, node.end, "}")
    value = {child.key: child.node.value for child in children}
    return Node(start, at + 1, value, tuple(children))


def _array(text: str, start: int, depth: int) -> Node:
    children: list[Child] = []
    at = after_gap(text, start + 1)
    while text[at : at + 1] != "]":
        node = _value(text, at, depth + 1)
        children.append(Child(len(children), at, node))
        at = _after_comma(text, node.end, "]")
    return Node(start, at + 1, [child.node.value for child in children], tuple(children))


def _after_comma(text: str, at: int, close: str) -> int:
    at = after_gap(text, at)
    if text[at : at + 1] == ",":
        return after_gap(text, at + 1)
    if text[at : at + 1] != close:
        _fail(text, at, f"a comma or {close}")
    return at


def _fail(text: str, at: int, wanted: str) -> NoReturn:
    if text.startswith("/*", at):
        found = "a comment that never ends"
    else:
        found = json.dumps(text[at], ensure_ascii=False) if at < len(text) else "the end"
    raise ConfigError(f"{position(text, at)}: expected {wanted}, found {found}")

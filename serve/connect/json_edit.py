"""
Edits of JSON texts that leave every other character in place.

`put`, `add` and `take` return the whole new text. Invariants: the new text parses to the result of
the same edit of the plain value; `take` after `put` or `add` gives the first text back, byte for
byte, where `blanks` was read from the first; and nothing else of the text changes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from store.home.errors import ConfigError

# The parser: a JSON document with the place of every value, comments and trailing commas allowed

Key = str | int
KeyPath = tuple[Key, ...]

BOM = "\ufeff"
MAX_DEPTH = 100
_GAP_BEGINS = (" ", "\t", "\r", "\n", "/")
_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_OTHER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b")
_read_value = json.JSONDecoder().raw_decode


class Node(msgspec.Struct, frozen=True):
    """A value, from its first character to the one after its last, and its children."""

    start: int
    end: int
    value: Any
    children: tuple["Child", ...] = ()

    @property
    def is_container(self) -> bool:
        return isinstance(self.value, dict | list)

    def child(self, key: Key) -> "Child | None":
        """Return the child of a key; the last child of a repeated key, as parsers do."""
        return next((child for child in reversed(self.children) if child.key == key), None)


class Child(msgspec.Struct, frozen=True):
    """A member of an object or an item of an array; `start` is where its key begins."""

    key: Key
    start: int
    node: Node

    @property
    def end(self) -> int:
        return self.node.end


@lru_cache(maxsize=4)  # an edit looks at one text many times, and a host's may be of megabytes
def parse_jsonc(text: str) -> Node:
    """Return the document; raise ConfigError with the line and column of the first mistake."""
    start = after_gap(text, len(BOM) if text.startswith(BOM) else 0)
    node = _value(text, start, 0)
    end = after_gap(text, node.end)
    if end < len(text):
        _fail(text, end, "one document, but more follows")
    return node


def find_node(node: Node, path: KeyPath) -> Node | None:
    """Return the value at a path; None if it is missing."""
    deepest, rest = _deepest(node, path)
    return None if rest else deepest


def _deepest(node: Node, path: KeyPath) -> tuple[Node, KeyPath]:
    """Return the deepest existing value on a path, and the remaining keys."""
    for number, key in enumerate(path):
        child = node.child(key)
        if child is None:
            return node, path[number:]
        node = child.node
    return node, ()


def after_gap(text: str, at: int) -> int:
    """Return the end of the white space and comments at a place."""
    if text[at : at + 1] not in _GAP_BEGINS:
        return at
    match = _GAP.match(text, at)
    return match.end() if match else at


def position(text: str, at: int) -> str:
    """Return a place as line and column, both from 1; CRLF is one line end."""
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
    return Node(at, match.end(), _plain(text, at, "a shorter number"))


def _string(text: str, at: int) -> Node:
    match = _STRING.match(text, at)
    if match is None:
        _fail(text, at, "a string in double quotes")
    written = match.group()
    if "\\" not in written:
        return Node(at, match.end(), written[1:-1])
    return Node(at, match.end(), _plain(text, at, "a string with known escapes"))


def _plain(text: str, at: int, wanted: str) -> Any:
    try:
        return _read_value(text, at)[0]
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
        actual = "a comment that never ends"
    else:
        actual = json.dumps(text[at], ensure_ascii=False) if at < len(text) else "the end"
    raise ConfigError(f"{position(text, at)}: expected {wanted}, found {actual}")


Blanks = Mapping[KeyPath, str]
_LINE_END = re.compile(r"[\r\n]")
_LINE_STOP = re.compile(r"[ \t]*[\r\n]")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)


def put_json(text: str, path: KeyPath, value: Any) -> str:
    """Return the text with `value` at `path`, objects above it made where missing.

    An equal value keeps its present form. Raise ConfigError where a value on the path is no object.
    """
    root = parse_jsonc(text)
    there = find_node(root, path)
    if there is not None:
        if there.value == value:
            return text
        return text[: there.start] + _render_in_place(text, there, value) + text[there.end :]
    holder, rest = _deepest(root, path)
    if not isinstance(holder.value, dict):
        raise ConfigError(f"{_show_path(path[: len(path) - len(rest)])} is no object")
    for key in reversed(rest[1:]):
        value = {key: value}
    return _insert(text, holder, f"{json.dumps(rest[0], ensure_ascii=False)}: ", value)


def add_json(text: str, path: KeyPath, value: Any) -> str:
    """Return the text with `value` at the end of the array at `path`, made where missing."""
    holder = find_node(parse_jsonc(text), path)
    if holder is None:
        return put_json(text, path, [value])
    if not isinstance(holder.value, list):
        raise ConfigError(f"{_show_path(path)} is no array")
    return _insert(text, holder, "", value)


def take_json(text: str, path: KeyPath, blanks: Blanks) -> str:
    """Return the text without the value at `path`, and without containers that it leaves empty.

    A container in `blanks` was there before us: it stays, with that white space inside.
    """
    root = parse_jsonc(text)
    while path:
        holder = find_node(root, path[:-1])
        child = holder.child(path[-1]) if holder is not None else None
        if holder is None or child is None:
            return text
        text = _without(text, holder, child, blanks.get(path[:-1], ""))
        path = path[:-1]
        if path in blanks:
            break
        root = parse_jsonc(text)
        holder = find_node(root, path)
        if holder is None or not _is_empty(text, holder):
            break
    return text


def blanks_of(text: str, paths: Iterable[KeyPath]) -> dict[KeyPath, str]:
    """Return the white space inside each empty container on these paths."""
    root = parse_jsonc(text)
    blanks = {}
    for path in {whole[:length] for whole in paths for length in range(len(whole) + 1)}:
        node = find_node(root, path)
        if node is not None and _is_empty(text, node):
            blanks[path] = text[node.start + 1 : node.end - 1]
    return blanks


def line_end(text: str) -> str:
    """Return the line end of the text's first line."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _insert(text: str, holder: Node, label: str, value: Any) -> str:
    end = line_end(text)
    start, stop = holder.start + 1, holder.end - 1
    if not holder.children:
        own = _line_indent(text, holder.start)
        indent = own + _unit(text)
        new = f"{end}{indent}{label}{_render(text, value, indent)}"
        if comments := text[start:stop].rstrip():
            at = start + len(comments)
            return text[:at] + new + text[at:]
        return f"{text[:start]}{new}{end}{own}{text[stop:]}"
    last = holder.children[-1]
    gap = after_gap(text, last.end)
    has_comma = text[gap] == ","
    at = gap + 1 if has_comma else last.end
    at += len(text[at : after_gap(text, at)].rstrip())  # the comments after the last child
    if _LINE_END.search(text, start, stop):
        indent = _child_indent(text, holder)
        new = f"{end}{indent}{label}{_render(text, value, indent)}"
    else:
        new = f" {label}{json.dumps(value, ensure_ascii=False)}"
    before, after = ("", ",") if has_comma else (",", "")
    return text[: last.end] + before + text[last.end : at] + new + after + text[at:]


def _without(text: str, holder: Node, child: Child, blank: str) -> str:
    number = holder.children.index(child)
    is_last = number == len(holder.children) - 1
    gap = after_gap(text, child.end)
    end = gap + 1 if text[gap] == "," else child.end
    if number:
        comma = after_gap(text, holder.children[number - 1].end)
        comments = _comments_before(text, comma + 1, child.start, end)
        if is_last and end == child.end:  # the comma before it was put there with it
            return text[:comma] + comments + text[end:]
        return text[: comma + 1] + comments + text[end:]
    if not is_last:
        return text[: child.start] + text[end:].lstrip(" \t\r\n")
    inside = holder.start + 1
    if text[inside : child.start].strip() or text[end : holder.end - 1].strip():
        return text[:inside] + _comments_before(text, inside, child.start, end) + text[end:]
    return text[:inside] + blank + text[holder.end - 1 :]


def _comments_before(text: str, start: int, stop: int, end: int) -> str:
    """Return the comments from `start` on before the removed text, `stop` to `end`.

    A line comment gets a line end, where none follows.
    """
    gap = text[start:stop].rstrip()
    comments = _COMMENT.findall(gap)
    needs_end = comments and comments[-1].startswith("//") and not _LINE_STOP.match(text, end)
    return gap + line_end(text) if needs_end else gap


def _is_empty(text: str, node: Node) -> bool:
    is_hollow = node.is_container and not node.children
    return is_hollow and not text[node.start + 1 : node.end - 1].strip()


def _line_indent(text: str, at: int) -> str:
    """Return the indent of a place's line."""
    begins = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    before = text[begins:at].removeprefix(BOM)
    return before[: len(before) - len(before.lstrip(" \t"))]


def _child_indent(text: str, holder: Node) -> str:
    """Return the indent of the children of a container that fills several lines."""
    last = holder.children[-1]
    begins = max(text.rfind("\n", 0, last.start), text.rfind("\r", 0, last.start)) + 1
    if not text[begins : last.start].strip():
        return text[begins : last.start]
    return _line_indent(text, holder.start) + _unit(text)


def _unit(text: str) -> str:
    """Return one step of indent: that of the first indented line, else two spaces."""
    match = re.search(r"[\r\n]([ \t]+)[^\s/*]", text)
    return match.group(1) if match else "  "


def _render_in_place(text: str, old: Node, value: Any) -> str:
    """Return a value written in place of another: on one line if the old value was."""
    is_flat = old.is_container and not _LINE_END.search(text, old.start, old.end)
    if is_flat or not _LINE_END.search(text):
        return json.dumps(value, ensure_ascii=False)
    return _render(text, value, _line_indent(text, old.start))


def _render(text: str, value: Any, indent: str) -> str:
    """Return a value over several lines, in the style of the text."""
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return f"{line_end(text)}{indent}".join(lines)


def _show_path(path: KeyPath) -> str:
    return ".".join(map(str, path)) or "the document"

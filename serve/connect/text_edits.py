"""
Edits of TOML and Markdown files: one table, or one marked block, added and removed again.

The lines of a TOML table are ours to find, because we write one key a line; tomlkit does the rest,
and only that: to read a line of some megabytes it takes seconds, the standard library none.
Invariant: the new text parses to the result of the same edit of the plain value, else the edit is
refused. TOML 1.0: https://toml.io/en/v1.0.0.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import tomlkit

from serve.connect.json_edit import BOM, line_end, position
from store.home.errors import ConfigError
from store.text.frame import RULES_BEGIN, RULES_END

MOST_DEEP = 100  # tables and lists: values are compared, which Python does only so deep

Values = Mapping[str, str | list[str]]
_KEY_LINE = re.compile(r"[A-Za-z0-9_-]+[ \t]*=[^\n]*(?:\n|$)")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the plain values; raise ConfigError with the line and column of the first mistake."""
    try:
        plain = tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(error)) from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits; lists without end
        raise ConfigError(f"a value cannot be read: {error}") from error
    level: list[Any] = [plain]
    for _ in range(MOST_DEEP):
        inner = (table.values() if isinstance(table, dict) else table for table in level)
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return plain
    raise ConfigError(f"its tables are nested more than {MOST_DEEP} deep")


def put_toml(text: str, table: str, name: str, values: Values) -> str:
    """Return the text with these keys in `[table.name]`; other keys stay."""
    plain = parse_toml(text)
    there = plain.get(table, {})
    if not isinstance(there, dict) or not isinstance(there.get(name, {}), dict):
        raise ConfigError(f"{table}.{name} is no table")
    whole = there.get(name, {}) | values
    if there.get(name) == whole:
        return text
    wanted = plain | {table: there | {name: whole}}
    return _first_right(_texts_with(text, table, name, values, name in there), wanted)


def take_toml(text: str, table: str, name: str) -> str:
    """Return the text without `[table.name]` and its content."""
    plain = parse_toml(text)
    there = plain.get(table)
    if not isinstance(there, dict) or name not in there:
        return text
    others = {key: value for key, value in there.items() if key != name}
    return _first_right(_texts_without(text, table, name), plain | {table: others}, table)


def toml_values(text: str, table: str, name: str) -> list[dict[str, Any]]:
    """Return the values of `[table.name]`, alone in a list; an empty list without that table."""
    there = parse_toml(text).get(table)
    return [there[name]] if isinstance(there, dict) and isinstance(there.get(name), dict) else []


def _texts_with(text: str, table: str, name: str, values: Values, is_there: bool) -> Iterator[str]:
    if not is_there:
        lines = [f"{key} = {tomlkit.item(value).as_string()}" for key, value in values.items()]
        yield append_block(text, line_end(text).join([f"[{table}.{name}]", *lines]))
    document: Any = tomlkit.parse(text.removeprefix(BOM))
    tables = document.setdefault(table, tomlkit.table())
    ours = tables.setdefault(name, tomlkit.inline_table())
    for key, value in values.items():
        if ours.get(key) != value:
            ours[key] = value
    yield text[: text.startswith(BOM)] + tomlkit.dumps(document)


def _texts_without(text: str, table: str, name: str) -> Iterator[str]:
    header = rf"^\[{re.escape(table)}\.{re.escape(name)}(?:\.[^\n]*)?\][ \t\r]*(?:\n|$)"
    new = text
    while match := re.search(header, new, re.MULTILINE):
        stop = match.end()
        while line := _KEY_LINE.match(new, stop):
            stop = line.end()
        new = cut(new, match.start(), stop)
    yield new
    document: Any = tomlkit.parse(text.removeprefix(BOM))
    del document[table][name]
    yield text[: text.startswith(BOM)] + tomlkit.dumps(document)


def _first_right(texts: Iterator[str], wanted: dict[str, Any], table: str = "") -> str:
    """Return the first text with the wanted values; `table` may be missing where it is empty."""
    other = {key: value for key, value in wanted.items() if key != table or value}
    for text in texts:
        try:
            if parse_toml(text) in (wanted, other):
                return text
        except ConfigError:
            continue
    raise ConfigError("its tables cannot be edited safely: edit them by hand")


def append_block(text: str, block: str) -> str:
    """Return a text with a block at its end, a blank line before it.

    The block ends as the text did, with a line end or without: so `cut` can restore the text.
    """
    end = line_end(text)
    if not text.removeprefix(BOM):
        return text + block + end
    return text + (end + block + end if text.endswith("\n") else end + end + block)


def cut(text: str, start: int, stop: int) -> str:
    """Return a text without a block of `append_block`; `stop` may include its line end."""
    end = line_end(text)
    before, after = text[:start], text[stop:]
    if text[start:stop].endswith("\n"):
        shorter = before.removesuffix(end)
        return (shorter if shorter.endswith("\n") else before) + after
    return before.removesuffix(end).removesuffix(end) + after


# A block between two marked lines of a Markdown file; all around it stays as it is

_FIRST = RULES_BEGIN + " (`mnemolog disconnect` takes this block out) -->"


def put_marked(text: str, body: str, first: str = _FIRST) -> str:
    """Return the text with the block at its end, or in place of the existing block; its `first`
    line begins with RULES_BEGIN.

    Raise ConfigError where only one of the two marks is there.
    """
    block = line_end(text).join([first, *body.strip().splitlines(), RULES_END])
    place = _place(text)
    if place is None:
        return append_block(text, block)
    return text[: place[0]] + block + text[place[1] :]


def take_marked(text: str) -> str:
    """Return the text without the block and the blank line before it."""
    place = _place(text)
    if place is None:
        return text
    start, stop = place
    end = line_end(text)
    return cut(text, start, stop + len(end) if text.startswith(end, stop) else stop)


def has_marks(text: str) -> bool:
    return _place(text) is not None


def _place(text: str) -> tuple[int, int] | None:
    begin, last = text.find(RULES_BEGIN), text.find(RULES_END)
    if begin < 0 and last < 0:
        return None
    if begin < 0 or last < begin:
        lone = position(text, last if begin < 0 else begin)
        raise ConfigError(
            f"{lone}: one marker of mnemolog's block lacks its pair: fix or delete it"
        )
    return begin, last + len(RULES_END)

"""
Spoiling: damaged sources of an import, made from real ones.

Lines of JSON are also spoilt by their values, so that the code after the parser is reached too.
"""

import json
import random
from collections.abc import Callable
from typing import Any

_DEEP = 100_000
_TOKENS = (
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",  # a surrogate, which is invalid in UTF-8
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"1e400",
    b"NaN",
    b"-Infinity",
    b"9" * 5_000,
    b"\r",
    b"\n\n\n",
    b"\x1b[2J",
    b"[" * _DEEP,
    b'{"a":' * _DEEP,
    b"\xe2\x80\xae",
    b"<!--" * 2_000,
    b"```\n" * 2_000,
    b"#" * 5_000,
    b"- " * 20_000,
    b"---\n" * 2_000,
    b"<system-reminder>" * 2_000,
    b" " * 60_000,
    b"\t\n" * 30_000,
)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 2**64, 10**400, 1e308, -0.0, [], {}, [[]], {"": {}}, ["\u202e"]),
    *("", " ", "\x00", "x\x00y", "\udcff", "a" * 90_000, "1" * 70_000, "<" * 9_000),
    *("9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00+14:00", "user", "tool_result"),
    *("../../etc", "/" * 5_000, "a/" * 3_000, "/dev/zero", "/proc/self/fd", "C:\\x"),
    *("no, use pnpm. " * 400, "never " * 1_000),
)

Spoil = Callable[[random.Random, bytes], bytes]


def flipped(chance: random.Random, data: bytes) -> bytes:
    new = bytearray(data)
    for _ in range(chance.choice((1, 3, 30))):
        new[chance.randrange(len(new))] = chance.randrange(256)
    return bytes(new)


def cut(chance: random.Random, data: bytes) -> bytes:
    start, stop = sorted(chance.randrange(len(data)) for _ in range(2))
    return data[start:stop]


def spliced(chance: random.Random, data: bytes) -> bytes:
    start, stop = sorted(chance.randrange(len(data)) for _ in range(2))
    at = chance.randrange(len(data))
    return data[:at] + data[start:stop] * chance.choice((1, 2, 20)) + data[at:]


def sown(chance: random.Random, data: bytes) -> bytes:
    """Insert tokens that parsers stumble over."""
    for _ in range(chance.choice((1, 1, 4))):
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.choice(_TOKENS) + data[at:]
    return data


def revalued(chance: random.Random, data: bytes) -> bytes:
    """Give some lines of JSON other values, other types, or every key twice."""
    lines = data.splitlines()
    for _ in range(chance.choice((1, 2, 8))):
        at = chance.randrange(len(lines))
        try:
            value = json.loads(lines[at])
        except ValueError:
            continue
        holder, key = _somewhere(chance, value)
        if holder is None:
            continue
        if chance.random() < 0.1:
            lines[at] = lines[at][:-1] + b"," + lines[at][1:]  # every key twice
            continue
        holder[key] = _spoilt(chance, holder[key])
        lines[at] = json.dumps(value).encode()
    return b"\n".join(lines)


def _spoilt(chance: random.Random, value: Any) -> Any:
    new = chance.choice(_VALUES)
    if isinstance(value, str) and isinstance(new, str) and chance.random() < 0.5:
        return value + new
    return [value] if chance.random() < 0.1 else new


def _somewhere(chance: random.Random, value: Any) -> tuple[Any, Any]:
    """Return a container somewhere in a value and one of its keys."""
    holder, key = None, None
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        holder, key = value, chance.choice(keys)
        if chance.random() < 0.4:
            break
        value = holder[key]
    return holder, key


SPOILS: tuple[Spoil, ...] = (flipped, cut, spliced, sown, sown, revalued, revalued, revalued)

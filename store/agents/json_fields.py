"""Fields of a host's JSON, of any form: one of the wrong type counts as missing, texts are cut."""

import re
from collections.abc import Mapping
from typing import Any

from store.text import frame

LONGEST_ID = 200
MAX_OUTPUT = 4_000  # characters of the end of a tool's output

_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"(%b%b)|(%b|%b)|\\." % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)


def join_surrogates(raw: bytes) -> bytes:
    """Return JSON in which each half of an emoji is U+FFFD: hosts cut texts between the two."""
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[2] else match[0], raw)


def text(payload: Mapping[str, Any], *names: str, most: int = 4_096) -> str:
    """Return the first non-empty text among some fields, cut; else nothing."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value[:most]
    return ""


def mapping(payload: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the first object among some fields; else an empty one."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, dict):
            return value
    return {}


def objects(payload: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in a field that is a list; else none."""
    value = payload.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def output_tail(value: object) -> str:
    """Return the end of a tool's output, without blocks of ours."""
    return frame.strip(plain(value))[-MAX_OUTPUT:]


_TEXTS = (
    *("stdout", "stderr", "output", "text", "content", "error", "message"),
    *("llmContent", "text_result_for_llm"),
)


def plain(value: object, depth: int = 3) -> str:
    """Return the text of a tool's result: a text, or objects and lists that hold some."""
    if isinstance(value, str):
        return value
    if depth and isinstance(value, dict):
        parts = [plain(value.get(name), depth - 1) for name in _TEXTS]
    elif depth and isinstance(value, list):
        parts = [plain(item, depth - 1) for item in value[-100:]]
    else:
        parts = []
    return "\n".join(part for part in parts if part)

"""What of a payload is read: fields of the wrong type count as missing, long texts are cut."""

from collections.abc import Mapping
from typing import Any

from store.errors import InvalidInput


def text(payload: Mapping[str, Any], *names: str, most: int = 4_096) -> str:
    """Return the first of some fields that is a text with anything in it, cut; else nothing."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value[:most]
    return ""


def required(payload: Mapping[str, Any], *names: str) -> str:
    """Return the first of some fields that is a text; raise InvalidInput naming them."""
    if found := text(payload, *names, most=200):
        return found
    raise InvalidInput(f"a hook's event needs {' or '.join(names)}: send the host's own JSON")


def mapping(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that is an object; else an empty one."""
    value = payload.get(name)
    return value if isinstance(value, dict) else {}

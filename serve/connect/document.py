"""
Document: one file of a host's settings, and the edits that add and remove our entries.

Every kind of document is made of pure functions over its text, so that a change can be shown
before it is made, and made again where the file was changed meanwhile.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from serve.connect import json_edit, text_edits
from serve.connect.json_edit import Blanks, find_node, parse_jsonc
from serve.hosts.host import (
    HookEntries,
    JsonFile,
    OwnFile,
    Place,
    RulesFile,
    ServerEntry,
    SettingsFile,
    TomlFile,
)
from store.home.errors import ConfigError


class Document(msgspec.Struct, frozen=True):
    """A file. `start` is the text of a new file; `places` are the containers we fill; a host may
    run it as a program.

    `entries` gives our entries in a text, `values` all of it, as plain values.
    """

    path: Path
    put: Callable[[str], str]
    take: Callable[[str, Blanks], str]
    entries: Callable[[str], list[Any]]
    values: Callable[[str], Any] = lambda text: None
    start: str = ""
    places: tuple[Place, ...] = ()
    is_program: bool = False


Part = HookEntries | ServerEntry


def document(file: SettingsFile) -> Document:
    """Return the edits of a file that a host declares."""
    match file:
        case JsonFile():
            return _json_document(file)
        case TomlFile():
            return Document(
                file.path,
                put=lambda text: text_edits.put_toml(text, file.table, SERVER, file.values),
                take=lambda text, blanks: text_edits.take_toml(text, file.table, SERVER),
                entries=lambda text: text_edits.toml_values(text, file.table, SERVER),
                values=text_edits.parse_toml,
            )
        case RulesFile():
            return Document(
                file.path,
                put=lambda text: text_edits.put_marked(text, file.rules),
                take=lambda text, blanks: text_edits.take_marked(text),
                entries=lambda text: [file.rules] if text_edits.has_marks(text) else [],
            )
        case OwnFile():
            return _own_document(file)


def _json_document(file: JsonFile) -> Document:
    def put(text: str) -> str:
        for part in file.parts:
            if isinstance(part, HookEntries):
                text = _put_hooks(text, part)
            else:
                text = _put_server(text, part)
        return text

    def take(text: str, blanks: Blanks) -> str:
        for part in file.parts:
            if isinstance(part, HookEntries):
                # the last first, so that the numbers of the others stay right
                places = list(dict.fromkeys(hook.whole for hook in reversed(_hooks(text, part))))
            else:
                places = _entries(text, part)
            for place in places:
                text = json_edit.take_json(text, place, blanks)
        return text

    def entries(text: str) -> list[Any]:
        root = parse_jsonc(text)
        places = [place for part in file.parts for place in _entries(text, part)]
        return [node.value for place in places if (node := find_node(root, place)) is not None]

    def values(text: str) -> Any:
        return parse_jsonc(text).value

    containers: list[Place] = []
    for part in file.parts:
        if isinstance(part, HookEntries):
            containers += [("hooks", event) for event in part.wanted]
        else:
            containers.append(part.newer or part.place)
    return Document(file.path, put, take, entries, values, file.start, tuple(containers))


def _own_document(file: OwnFile) -> Document:
    def put(text: str) -> str:
        if text.strip() and file.mark not in text:
            raise ConfigError(f"this file is not mnemolog's: it has no {file.mark!r}; move it away")
        return file.content

    return Document(
        file.path,
        put=put,
        take=lambda text, blanks: "" if file.mark in text else text,
        entries=lambda text: [text] if file.mark in text else [],
        is_program=file.is_program,
    )


class _OurHook(msgspec.Struct, frozen=True):
    """Our hook in a file: its event, its place, and the place to remove with it."""

    event: str
    place: Place
    whole: Place


def _hooks(text: str, part: HookEntries) -> list[_OurHook]:
    """Return our hooks in the order of the file."""
    events = find_node(parse_jsonc(text), ("hooks",))
    hooks = []
    for event in events.children if events is not None else ():
        for group in event.node.children if isinstance(event.node.value, list) else ():
            place = ("hooks", event.key, group.key)
            if is_our_hook(group.node.value, part.host):
                hooks.append(_OurHook(str(event.key), place, place))
            else:
                hooks += _in_group(str(event.key), place, group.node.value, part.host)
    return hooks


def _in_group(event: str, place: Place, group: Any, host: str) -> list[_OurHook]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(handlers, list):
        return []
    ours = [number for number, handler in enumerate(handlers) if is_our_hook(handler, host)]
    places: list[Place] = [(*place, "hooks", number) for number in ours]
    is_whole = len(ours) == len(handlers)
    return [_OurHook(event, other, place if is_whole else other) for other in places]


def _put_hooks(text: str, part: HookEntries) -> str:
    """Update our hooks in place, add the missing ones, drop the rest."""
    hooks = _hooks(text, part)
    first = {hook.event: hook for hook in reversed(hooks) if hook.event in part.wanted}
    for hook in reversed([hook for hook in hooks if hook not in first.values()]):
        text = json_edit.take_json(text, hook.place, {})
    there = {hook.event: hook.place for hook in _hooks(text, part)}
    for event, handler in part.wanted.items():
        if event in there:
            text = json_edit.put_json(text, there[event], handler)
        else:
            entry = {"hooks": [handler]} if part.is_grouped else handler
            text = json_edit.add_json(text, ("hooks", event), entry)
    return text


def _put_server(text: str, part: ServerEntry) -> str:
    place = (*_server_holder(text, part), SERVER)
    there = find_node(parse_jsonc(text), place)
    if there is None or not isinstance(there.value, dict) or "command" not in there.value:
        return json_edit.put_json(text, place, part.value)
    for key, value in part.value.items():  # the user's other settings stay
        text = json_edit.put_json(text, (*place, key), value)
    return text


def _server_holder(text: str, part: ServerEntry) -> Place:
    newer = find_node(parse_jsonc(text), part.newer) if part.newer else None
    is_server = newer is not None and isinstance(newer.value, dict) and "type" in newer.value
    return part.newer if newer is not None and not is_server else part.place


def _entries(text: str, part: Part) -> list[Place]:
    if isinstance(part, HookEntries):
        return [hook.place for hook in _hooks(text, part)]
    place = (*_server_holder(text, part), SERVER)
    return [place] if find_node(parse_jsonc(text), place) is not None else []


# Marks of our entries, which survive a move of our code or port

SERVER = "mnemolog"  # the name of our MCP server in every host

_CLIENT = r"[\\/]serve[\\/]+client\.py['\"]*\s+{}(?![\w-])"
_ROUTE = r"^https?://[^/]+/v1/hooks/{}(?![\w-])"


def is_our_hook(handler: Any, host: str) -> bool:
    """Return True if a hook runs our client for this host, or posts to its route."""
    if not isinstance(handler, dict):
        return False
    url = handler.get("url")
    if isinstance(url, str) and re.match(_ROUTE.format(host), url):
        return True
    words: list[str] = []
    for name in ("command", "args", "bash", "powershell"):
        value = handler.get(name)
        values = value if isinstance(value, list) else [value]
        words += [word for word in values if isinstance(word, str)]
    return re.search(_CLIENT.format(host), " ".join(words)) is not None

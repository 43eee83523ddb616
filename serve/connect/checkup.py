"""
Checkup: problems between a host and this mnemolog, and how to fix them.

It changes nothing. No host reports that it skips a hook, so only events that reach the log prove
that it does not. A user's own choice, such as hooks switched off, is reported and never changed.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from serve.connect import connecting
from serve.connect.connecting import our_entries, settings_values
from serve.connect.document import Document
from serve.hosts import HOSTS
from serve.hosts.host import Host, Install, Machine, Place
from store.home.errors import LogError, MnemologError
from store.home.instants import HOUR
from store.log import integrity
from store.log.event_log import EventLog
from store.maintenance.checkup import Finding

LOOKED_AT = 20_000  # events at the log's end
SOON_US = HOUR  # a host that was connected within this hour may not have been used
_HOOK_KINDS = frozenset({"session", "prompted", "action"})
_STARTED = ("python", "client.py", "mcp_bridge.py")
_PORT = re.compile(r"^http://[^/:]+:(\d+)/v1/hooks/")


def checkup(machine: Machine, install: Install, log: EventLog | None, now: int) -> list[Finding]:
    """Return findings for every host that is connected or has unreadable files.

    `log` is None where there is no memory yet.
    """
    arrivals = _last_arrivals(log) if log is not None else {}
    connected = connecting.read_connections(install.home).hosts
    findings: list[Finding] = []
    for host in HOSTS.values():
        try:
            if entries := connecting.entries_of_host(host, machine, install):
                findings += _check_settings(host, machine, install, entries)
                since = connected[host.name].at if host.name in connected else 0
                findings.append(_check_arrival(host, arrivals.get(host.name), since, now))
        except MnemologError as error:
            findings.append(Finding("warn", f"{host.title}: {error}", "mend that file"))
    return findings


def _check_settings(
    host: Host, machine: Machine, install: Install, entries: list[Any]
) -> Iterator[Finding]:
    again = f"run `mnemolog connect {host.name}`"
    problems = list(_entry_problems(host, install, entries))
    for problem in problems:
        yield Finding("error", f"{host.title} {problem}", again)
    if not problems and not connecting.is_current(host, machine, install):
        yield Finding("warn", f"the hooks or MCP server of {host.title} are not up to date", again)
    for path in find_exposed_files(connecting.documents(host, machine, install)):
        text = f"other users can read {path} and the key of {host.title} in it"
        yield Finding("warn", text, f"chmod go= {path}")
    yield from find_disabled_hooks(host, machine, install)
    if host.name == "codex":
        yield from _codex_trust(host, machine, install)


def _check_arrival(host: Host, last: int | None, since: int, now: int) -> Finding:
    if host.read is None:
        return Finding("ok", f"{host.title} is connected; it runs no hooks, only the MCP server")
    if last is not None and last >= since:
        return Finding("ok", f"{host.title} is connected, and its hooks arrive")
    if now - since < SOON_US:
        return Finding("ok", f"{host.title} is connected; none of its hooks has arrived yet")
    text = f"{host.title} is connected, but none of its hooks has arrived since"
    return Finding("warn", text, host.note or "start a new session in it, then look again")


def _last_arrivals(log: EventLog) -> dict[str, int]:
    """Return the time of the last event of each host's hooks, in microseconds UTC."""
    arrivals: dict[str, int] = {}
    try:
        newest = integrity.readable_events(log, max(0, log.head() - LOOKED_AT))[0]
    except LogError:  # damage is a finding of another check
        return arrivals
    for event in newest:
        if event.kind in _HOOK_KINDS and event.agent:
            arrivals[event.agent] = event.at
    return arrivals


def _entry_problems(host: Host, install: Install, entries: list[Any]) -> Iterator[str]:
    """Yield the problems of our entries: a moved environment, another port or token."""
    for word in sorted({word for entry in entries for word in _words(entry, install.platform)}):
        path = Path(word)
        if path.is_absolute() and path.name.startswith(_STARTED) and not path.exists():
            yield f"starts {word}, which no longer exists"
    objects = [entry for entry in entries if isinstance(entry, dict)]
    urls = {entry["url"] for entry in objects if "url" in entry}
    ports = {int(match.group(1)) for url in urls if (match := _PORT.match(str(url)))}
    for port in sorted(ports - {install.port}):
        yield f"posts its events to port {port}, but the server's is {install.port}"
    headers = [entry.get("headers") for entry in objects]
    keys = {header.get("Authorization") for header in headers if isinstance(header, dict)}
    if keys - {f"Bearer {install.key(host.name)}"}:
        yield "sends a key that no longer opens the server: the token was changed"


def _words(entry: Any, platform: str) -> Iterator[str]:
    """Yield the words of an entry's commands."""
    if isinstance(entry, str):  # the text of a plugin, or of a program for a shell
        line = entry.splitlines()[-1] if entry.startswith("#!") else ""
        yield from _split(line, platform) if line else re.findall(r'"([^"\n]+)"', entry)
        return
    for value in (entry.get("command"), entry.get("args")):
        if isinstance(value, list):
            yield from (word for word in value if isinstance(word, str))
        elif isinstance(value, str):
            yield from _split(value, platform)


def _split(line: str, platform: str) -> list[str]:
    """Return the words of a command line; a path of Windows keeps its backslashes."""
    try:
        if platform == "win32":
            return [word.strip('"') for word in shlex.split(line, posix=False)]
        return shlex.split(line)
    except ValueError:  # an unclosed quote
        return line.split()


def _codex_trust(host: Host, machine: Machine, install: Install) -> Iterator[Finding]:
    """Codex keeps which hooks a person trusted in `[hooks.state."FILE:EVENT:GROUP:HOOK"]`."""
    hooks, settings = connecting.documents(host, machine, install)
    if not settings.path.is_file():
        return
    state = _at(settings_values(settings), ("hooks", "state")) or {}
    if not any(str(key).startswith(str(hooks.path)) for key in state):
        yield Finding("warn", "Codex trusts none of the hooks of mnemolog yet", host.note)


# Hooks that the user's own settings switch off


def find_disabled_hooks(host: Host, machine: Machine, install: Install) -> Iterator[Finding]:
    """Yield the switches that are off; raise ConfigError for a file that does not parse."""
    if host.switch is None:
        return
    place, off = host.switch.place, host.switch.off
    document = connecting.documents(host, machine, install)[host.switch.file]
    settings = settings_values(document)
    if _at(settings, place) is off:
        text = f"{host.title} runs no hooks: `{'.'.join(map(str, place))}` is {str(off).lower()}"
        yield Finding("warn", text, f"change that in {document.path}")
    allowed = _at(settings, ("allowedHttpHookUrls",)) if host.name == "claude-code" else None
    url = install.url(host.name)
    if isinstance(allowed, list) and not any(fnmatchcase(url, str(glob)) for glob in allowed):
        text = f"{host.title} posts no hooks to {url}: `allowedHttpHookUrls` does not name it"
        yield Finding("warn", text, f"add it to that list in {document.path}")


def _at(settings: Any, place: Place) -> Any:
    for key in place:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


# Files with a key in them that other users of this machine can read. With it they could not list or
# change the memory, but send it a prompt and read the recalled notes.

_GROUP, _OTHERS = (0o040, 0o010), (0o004, 0o001)  # to read a file, and to go through a folder


def find_exposed_files(documents: Iterable[Document]) -> Iterator[Path]:
    """Yield the files with a key that other users can read; raise ConfigError."""
    for document in documents:
        has_key = any(
            isinstance(entry, dict) and "headers" in entry for entry in our_entries(document)
        )
        if os.name == "posix" and has_key and _is_open(document.path.resolve()):
            yield document.path


def _is_open(file: Path) -> bool:
    modes = [folder.stat().st_mode for folder in file.parents]
    return any(
        file.stat().st_mode & read and all(mode & enter for mode in modes)
        for read, enter in (_GROUP, _OTHERS)
    )

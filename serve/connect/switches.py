"""
What in a host's own settings keeps our hooks from running: the user's choice, told and not mended.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from serve.connect.changes import values
from serve.connect.edits.jsonc import Path as Place
from serve.connect.hosts import Host
from serve.connect.machine import Install, Machine
from store.maintenance.checkup import Finding

# in which of a host's documents, where, and the value that switches hooks off
_OFF: dict[str, tuple[int, Place, bool]] = {
    "claude-code": (0, ("disableAllHooks",), True),
    "codex": (1, ("features", "hooks"), False),
    "gemini": (0, ("hooksConfig", "enabled"), False),
}


def switched_off(host: Host, machine: Machine, install: Install) -> Iterator[Finding]:
    """Yield what is switched off; raise ConfigError for a file that does not parse."""
    if host.name not in _OFF:
        return
    number, place, off = _OFF[host.name]
    document = host.documents(machine, install)[number]
    settings = values(document)
    if _at(settings, place) is off:
        what = f"{host.title} runs no hooks: `{'.'.join(map(str, place))}` is {str(off).lower()}"
        yield Finding("warn", what, f"change that in {document.path}")
    allowed = _at(settings, ("allowedHttpHookUrls",)) if host.name == "claude-code" else None
    url = install.url(host.name)
    if isinstance(allowed, list) and not any(fnmatchcase(url, str(one)) for one in allowed):
        what = f"{host.title} posts no hooks to {url}: `allowedHttpHookUrls` does not name it"
        yield Finding("warn", what, f"add it to that list in {document.path}")


def _at(settings: Any, place: Place) -> Any:
    for key in place:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings

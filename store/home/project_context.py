"""
Project context: the project of a working directory, and the settings as seen from there.

Callers (a hook, a tool of an agent) name their directory; one server answers for all of them.
Recording settings take effect when their file is written: a settings file is parsed once and again
when it changes. Nothing is recorded if one cannot be read.
"""

import logging
import os
import re
import time
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from store.home import config, failures, pauses, projects
from store.home.config import RECORD_KINDS, Choices, Settings, is_off
from store.home.errors import ConfigError
from store.home.pauses import Pause, Pauses
from store.home.projects import git_root, scope_of

log = logging.getLogger("mnemolog")

_KEPT_S = 10  # a project's settings and remote are looked up this often


class ProjectContext(msgspec.Struct, frozen=True):
    """`project` is "" if there is none: only memories without a project are meant then."""

    project: str
    choices: Choices
    fault: str = ""  # why its settings cannot be read


class ProjectContexts:
    """The recently used contexts. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept = lru_cache(maxsize=64)(self._look_up)
        self.pauses = Pauses(settings.home)

    def of(self, cwd: str | None) -> ProjectContext:
        """Return the context of a directory; for None, that of the server's own settings."""
        return self._kept(cwd, int(time.monotonic() / _KEPT_S), self._marks(cwd))

    def off(self, place: ProjectContext, session: str, cwd: str | None, now: int) -> str:
        """Return why a session in a place is not recorded; "" if it is recorded.

        `now` is microseconds UTC.
        """
        if place.fault:
            return place.fault
        if not place.choices.record:
            return "the settings say `record = false` here"
        try:
            pause = self.pauses.of(session, place.project, cwd, now)
        except ConfigError as error:
            return str(error)
        return pause_text(pause) if pause is not None else ""

    def _marks(self, cwd: str | None) -> tuple[object, ...]:
        """Return a value that changes with the settings files of a directory."""
        try:
            files = config.project_files(Path(cwd) if cwd is not None else None)
        except (OSError, ValueError):  # not a path, or not ours to look at
            files = []
        agreed = projects.consents_file(self._settings.home)
        return tuple(_mark(path) for path in (self._settings.user_file, agreed, *files))

    def _look_up(self, cwd: str | None, period: int, marks: tuple[object, ...]) -> ProjectContext:
        folder = Path(cwd) if cwd is not None else None
        try:
            choices = config.choices_in(self._settings, folder)
            ignored = config.ignore_reason(self._settings.home, folder)
        except ConfigError as error:
            # nothing is recorded here, and `doctor` says why
            log.warning("%.300s", str(error))
            self._keep(folder, str(error))
            choices = msgspec.structs.replace(self._settings.choices, record=())
            return ProjectContext(choices.project or _project(folder) or "", choices, str(error))
        except (OSError, ValueError) as error:  # not a path, or not ours to read
            log.warning("%.300s", error)
            return ProjectContext(self._settings.choices.project or "", self._settings.choices)
        if ignored:
            self._keep(folder, ignored)
        else:
            with suppress(OSError):
                failures.forget(self._settings.home, _failure(folder))
        return ProjectContext(choices.project or _project(folder) or "", choices)

    def _keep(self, folder: Path | None, text: str) -> None:
        """Record the error in a place's settings for `doctor`."""
        try:
            failures.keep(self._settings.home, _failure(folder), time.time_ns() // 1000, text)
        except OSError:
            log.warning("that cannot be kept for `mnemolog doctor`")


def pause_text(pause: Pause) -> str:
    """Return a pause in words: its scope, and how to end it."""
    by = "by MNEMOLOG_OFF" if pause.is_of_a_run else ""
    return f"{pause.what} is paused {by}".rstrip() + f": `{pause.resume}`"


def _project(folder: Path | None) -> str | None:
    try:
        return scope_of(folder) if folder is not None else None
    except (OSError, ValueError) as error:
        log.warning("%.300s", error)
        return None


def _failure(folder: Path | None) -> str:
    """Return the name of the failure to read a repository's settings."""
    root = git_root(folder) if folder is not None else None
    if root is None:
        return "settings"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name)[:60]
    return f"settings-{name}-{sha256(os.fsencode(root)).hexdigest()[:6]}"


def _mark(path: Path) -> object:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        return type(error).__name__
    return path, status.st_mtime_ns, status.st_size, status.st_ino


def current_pauses(home: Path, now: int) -> tuple[list[Pause], str]:
    """Return the current pauses at a moment, and why they cannot be read, "" if they can."""
    try:
        return [pause for pause in pauses.read(home) if pause.holds(now)], ""
    except ConfigError as error:
        return [], str(error)


def recording_status(settings: Settings, fault: str, cwd: Path, now: int) -> dict[str, Any]:
    """Return the recorded kinds in a directory, why nothing is recorded, and all pauses.

    `fault` is the error in a settings file there.
    """
    kinds = settings.choices.record
    held, unread = current_pauses(settings.home, now)
    project = settings.choices.project or scope_of(cwd) or ""
    off = fault or unread
    if not off and not kinds:
        off = f"`record` is false in {settings.origin.get('record', 'the settings')}"
    if not off and (pause := Pauses(settings.home).of("", project, str(cwd), now)):
        off = pause_text(pause)
    if not off and is_off():
        off = "MNEMOLOG_OFF is set here"
    return {
        "kinds": [] if off else list(kinds),
        "left_out": [kind for kind in RECORD_KINDS if off or kind not in kinds],
        "off": off or None,
        "paused": [pauses.pause_fields(pause) for pause in held],
    }

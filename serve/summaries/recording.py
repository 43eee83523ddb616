"""
Recording: what of a session is written to the log as seen from a place, and what is paused.
"""

from pathlib import Path
from typing import Any

from serve.project_context import pause_text
from store.home import pauses
from store.home.config import RECORD_KINDS, Settings, is_off
from store.home.errors import ConfigError
from store.home.pauses import Pause, Pauses
from store.home.projects import project_of


def held(home: Path, now: int) -> tuple[list[Pause], str]:
    """Return what is paused at a moment, and why that cannot be told, "" where it can."""
    try:
        return [one for one in pauses.read(home) if one.holds(now)], ""
    except ConfigError as error:
        return [], str(error)


def recording(settings: Settings, fault: str, cwd: Path, now: int) -> dict[str, Any]:
    """Return what is recorded in a directory, why nothing is, and all that is paused.

    `fault` is what is wrong with a settings file there.
    """
    kinds = settings.choices.record
    found, unread = held(settings.home, now)
    project = settings.choices.project or project_of(cwd) or ""
    off = fault or unread
    if not off and not kinds:
        off = f"`record` is false in {settings.origin.get('record', 'the settings')}"
    if not off and (one := Pauses(settings.home).of("", project, str(cwd), now)):
        off = pause_text(one)
    if not off and is_off():
        off = "MNEMOLOG_OFF is set here"
    return {
        "kinds": [] if off else list(kinds),
        "left_out": [one for one in RECORD_KINDS if off or one not in kinds],
        "off": off or None,
        "paused": [pauses.shown(one) for one in found],
    }

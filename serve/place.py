"""
Place: what a working directory stands for, its project and the settings as seen from there.

Whoever asks (a hook, a tool of an agent) names its directory; one server answers for all of them.
"""

import logging
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from store import config
from store.config import Choices, Settings
from store.errors import ConfigError
from store.tenant import project_of

log = logging.getLogger("mnemolog")

_KEPT_S = 10  # a project's settings and remote are looked up this often


@dataclass(frozen=True, slots=True)
class Place:
    """`project` is "" outside any repository: only memories without a project are meant then."""

    project: str
    choices: Choices


class Places:
    """The places asked for of late. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept = lru_cache(maxsize=64)(self._looked_up)

    def of(self, cwd: str | None) -> Place:
        """Return the place of a directory; of None, what the settings of the server say."""
        return self._kept(cwd, int(time.monotonic() / _KEPT_S))

    def _looked_up(self, cwd: str | None, period: int) -> Place:
        folder = Path(cwd) if cwd is not None else None
        choices = self._settings.choices
        try:
            choices = config.seen_from(self._settings, folder)
            found = project_of(folder) if folder is not None and not choices.project else None
        except (ConfigError, OSError, ValueError) as error:
            # a file of the project's that cannot be used, a path that is none or not ours to read
            log.warning("%.300s", error)
            found = None
        return Place(choices.project or found or "", choices)

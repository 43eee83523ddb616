"""Controls: the same works, with a rule of the store broken on purpose. An attack must see each."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

from torture import work_build, work_log
from torture.work_checks import NOW
from torture.work_memory import Acknowledge, drafts, log_of

from store.home.errors import LogError
from store.log import commands
from store.snapshots import manifest

_SOUND = {work.name: work for work in (*work_log.WORKS, *work_build.WORKS)}


def _acknowledged_early(home: Path, acknowledge: Acknowledge) -> None:
    """Acknowledge an event before it is committed."""
    with log_of(home) as log:
        for draft in drafts(work_log.ONE_BY_ONE):
            assert draft.id is not None
            acknowledge(draft.id)
            commands.record(log, draft, NOW)


def _in_place(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(0o600)
    path.write_bytes(data)


def _published_in_place(home: Path, acknowledge: Acknowledge) -> None:
    """Publish with HEAD overwritten, not replaced."""
    with mock.patch.object(manifest, "replace_file", _in_place):
        _SOUND["publish"].do(home, acknowledge)


def _deaf(home: Path, acknowledge: Acknowledge) -> None:
    """Acknowledge an event even if the log failed."""
    with log_of(home) as log:
        for draft in drafts(work_log.ONE_BY_ONE):
            assert draft.id is not None
            with suppress(LogError):
                commands.record(log, draft, NOW)
            acknowledge(draft.id)


KILLED = (
    replace(_SOUND["append"], name="acknowledged early", do=_acknowledged_early),
    replace(_SOUND["publish"], name="HEAD in place", do=_published_in_place),
)
REFUSED = (replace(_SOUND["append"], name="deaf to errors", do=_deaf),)

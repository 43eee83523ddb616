"""
Controls: the same works, with a rule of the store broken on purpose. An attack must see each.
"""

from dataclasses import replace
from pathlib import Path
from unittest import mock

from torture.work import BY_NAME as SOUND
from torture.work import Acknowledge
from torture.work_checks import NOW
from torture.work_log import ONE_BY_ONE
from torture.work_memory import drafts, log_of

from store import commands, manifest


def _acknowledged_early(home: Path, acknowledge: Acknowledge) -> None:
    """Say of an event that it is there before it is committed."""
    with log_of(home) as log:
        for draft in drafts(ONE_BY_ONE):
            assert draft.id is not None
            acknowledge(draft.id)
            commands.record(log, draft, NOW)


def _in_place(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(0o600)
    path.write_bytes(data)


def _published_in_place(home: Path, acknowledge: Acknowledge) -> None:
    """Publish with HEAD written over, not replaced."""
    with mock.patch.object(manifest, "replace_file", _in_place):
        SOUND["publish"].do(home, acknowledge)


BY_NAME = {
    work.name: work
    for work in (
        replace(SOUND["append"], name="acknowledged early", do=_acknowledged_early),
        replace(SOUND["publish"], name="HEAD in place", do=_published_in_place),
    )
}

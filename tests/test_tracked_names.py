"""The names of tracked files: each can be typed, and no program wrote one by mistake."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SANE = re.compile(r"[A-Za-z0-9_.@-]+(/[A-Za-z0-9_.@-]+)*")


def test_every_tracked_name_is_of_plain_letters_and_unique_in_any_case() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are no checkout of git")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = listed.stdout.rstrip("\0").split("\0")
    assert names[0]
    assert [name for name in names if not SANE.fullmatch(name)] == []
    assert len({name.casefold() for name in names}) == len(names)


def test_the_name_of_an_object_is_not_sane() -> None:
    assert not SANE.fullmatch("<_io.BytesIO object at 0x7f00>")

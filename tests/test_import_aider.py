"""Aider's chat histories become episodes; the sample was written by aider's own `aider.io`."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from transcript_files import DATA, episodes, imported

from serve.cli import main
from store.home import tenant as tenants
from store.importers.aider import NAME
from store.log.event_log import EventLog

HISTORY = DATA / "aider" / NAME


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tenants.tenant(tmp_path / "home").log, create=True) as log:
        yield log


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a history."""
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    shutil.copyfile(HISTORY, folder / NAME)
    return folder


def test_a_turn_is_what_was_asked_of_the_model_what_aider_did_and_what_the_model_said(
    log: EventLog, shop: Path
) -> None:
    assert imported(log, "aider", shop).sessions.sessions == 2
    first, second, third = episodes(log)
    assert first.content.splitlines() == [
        "put the tax rate into tax.py",
        "From now on always run the linter before you commit.",
    ]
    assert first.action == "edited tax.py\n$ pytest -q"
    assert first.result is not None and first.result.startswith("I set the rate to 19.")
    assert "#### What changed" in first.result and "> a quote" in first.result
    assert (second.content, second.result) == ("which rate is it now?", "It is 19.")
    assert (third.content, third.result) == ("and the reduced one?", "7.")
    assert first.session == second.session != third.session
    assert {memory.project for memory in (first, second, third)} == {first.project}


def test_a_chat_began_when_it_says_in_local_time(
    log: EventLog, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        imported(log, "aider", shop)
    finally:
        monkeypatch.undo()
        time.tzset()
    at = [episode.created_at for episode in episodes(log)]
    assert at[0] == 1_789_948_800_000_000  # 2026-09-21T00:00:00Z
    assert at == sorted(set(at))


def test_a_history_that_grew_adds_its_new_turns_alone(log: EventLog, shop: Path) -> None:
    imported(log, "aider", shop)
    assert imported(log, "aider", shop).counts.added == 0
    with (shop / NAME).open("a") as file:
        file.write("\n#### and in Norway?  \n\n25.\n\n")
    os.utime(shop / NAME, (1, 1))
    assert imported(log, "aider", shop / NAME).sessions.turns == 4
    assert [episode.content for episode in episodes(log)][3:] == ["and in Norway?"]


def test_a_heading_of_the_models_is_no_request(log: EventLog, shop: Path) -> None:
    with (shop / NAME).open("a") as file:
        file.write("#### Always push to main\n> Applied edit to tax.py\nso it is\n")
    imported(log, "aider", shop)
    last = episodes(log)[-1]
    assert (last.content, last.action) == ("and the reduced one?", None)
    assert last.result is not None and "#### Always push to main" in last.result


def test_auto_finds_the_history_of_the_repository_one_is_in(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (shop / "src").mkdir()
    command = ["--home", str(tmp_path / "home"), "import", "auto", "--dry-run"]
    monkeypatch.chdir(shop / "src")
    output = CliRunner().invoke(main, command).stdout
    assert [line.split() for line in output.splitlines()][1] == ["aider", "2", "sessions"]
    monkeypatch.chdir(tmp_path)
    assert "aider" not in CliRunner().invoke(main, command).stdout

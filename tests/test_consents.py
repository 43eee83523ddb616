"""A repository gets a project name that none of its remotes has only if the user agreed."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hook_session import Session, opened

from serve.cli import main
from store.home import config, failures, projects
from store.home.config import Settings
from store.home.errors import ConfigError
from store.home.project_context import ProjectContexts
from store.home.projects import project_of

CLIENT = "github.com/client/acme"
EVIL = "https://github.com/evil/acme.git"
NOTE = "The acme gateway signs every request with the key of the quarter"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a stranger's repository that claims the client's project."""
    return repository(tmp_path / "clone", origin=EVIL)


def repository(folder: Path, **remotes: str) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for name, url in remotes.items():
        subprocess.run(["git", "-C", str(folder), "remote", "add", name, url], check=True)
    (folder / ".mnemolog.toml").write_text(f'project = "{CLIENT}"\ntop_k = 3\n')
    return folder


def seen(home: Path, folder: Path) -> str | None:
    return config.load(folder, {"MNEMOLOG_HOME": str(home)}).choices.project


def mnemolog(folder: Path, *words: str, answer: str = "") -> Result:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(main, list(words), input=answer)
    finally:
        os.chdir(before)


@pytest.fixture
def session(home: Path) -> Iterator[Session]:
    yield from opened(home)


def test_a_clone_that_claims_a_project_is_told_none_of_its_notes_and_writes_none(
    session, home, clone
):
    session.remember(NOTE, project=CLIENT, kind="decision", id="theirs")
    session.cwd = str(clone)
    assert NOTE not in session.start()
    session.tell("prompt", prompt="Always deploy with the script in this repository.")
    assert {event.project for event in session.events(object)} == {"github.com/evil/acme"}
    projects.allow_name(home, clone, CLIENT)
    assert NOTE in session.start()


def test_other_settings_of_the_project_file_apply(home, clone):
    assert config.load(clone, {"MNEMOLOG_HOME": str(home)}).choices.top_k == 3


def test_a_name_that_a_remote_bears_needs_no_consent(home, tmp_path):
    fork = repository(tmp_path / "fork", origin=EVIL, upstream=f"git@{CLIENT.replace('/', ':', 1)}")
    assert seen(home, fork) == CLIENT


def test_a_repository_without_remotes_needs_consent(home, tmp_path):
    assert seen(home, repository(tmp_path / "new")) is None


def test_the_consent_is_of_this_repository_and_its_origin(home, clone, tmp_path):
    projects.allow_name(home, clone, CLIENT)
    assert seen(home, clone) == CLIENT
    assert seen(home, repository(tmp_path / "another", origin=EVIL)) is None
    subprocess.run(
        ["git", "-C", str(clone), "remote", "set-url", "origin", "https://evil.example/x"],
        check=True,
    )
    assert seen(home, clone) is None


def test_nothing_in_the_repository_gives_the_consent(home, clone):
    for name in ("projects.json", ".mnemolog/projects.json"):
        path = clone / name
        path.parent.mkdir(exist_ok=True)
        own = {"repository": str(clone / ".git"), "own": project_of(clone), "project": CLIENT}
        path.write_text(json.dumps([own]))
    assert seen(home, clone) is None


def test_a_file_of_consents_that_cannot_be_read_is_named(home, clone):
    home.mkdir()
    (home / "projects.json").write_bytes(b"<html>")
    with pytest.raises(ConfigError, match=r"projects\.json cannot be read"):
        seen(home, clone)


def test_a_command_there_says_what_is_ignored_and_the_cure(home, clone):
    result = mnemolog(clone, "project")
    assert result.stdout == "github.com/evil/acme\n"
    assert CLIENT in result.stderr and "`mnemolog project allow`" in result.stderr


def test_the_user_allows_a_project_and_takes_it_back(home, clone):
    assert mnemolog(clone, "project", "allow", answer="n\n").exit_code == 2
    assert seen(home, clone) is None
    result = mnemolog(clone, "project", "allow", answer="y\n")
    assert (result.exit_code, result.stdout) == (0, f"{CLIENT}\n")
    assert seen(home, clone) == CLIENT
    assert json.loads(mnemolog(clone, "project", "refuse", "--json").stdout)["project"] != CLIENT
    assert seen(home, clone) is None


def test_where_no_file_names_a_project_there_is_nothing_to_allow(home, clone):
    (clone / ".mnemolog.toml").unlink()
    result = mnemolog(clone, "project", "allow", "--yes")
    assert (result.exit_code, "names a project" in result.stderr) == (3, True)


def test_a_server_takes_a_consent_at_once_and_doctor_is_told_of_none_before(home, clone):
    places = ProjectContexts(Settings(home))
    assert places.of(str(clone)).project == "github.com/evil/acme"
    (kept,) = failures.every(home)
    assert CLIENT in kept.said and "mnemolog project allow" in kept.said
    projects.allow_name(home, clone, CLIENT)
    assert places.of(str(clone)).project == CLIENT
    assert list(failures.every(home)) == []

"""A memory recorded in a folder, a repository or a package holds there and below."""

import json
import subprocess
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from click.testing import CliRunner

from serve.cli import main
from store.home.pauses import Pause, covers
from store.home.projects import (
    check_project,
    folder_scope,
    holds_in,
    project_of,
    scope_chain,
    scope_of,
)

MONO = "github.com/acme/mono"


def record(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, ["record", text, "--kind", "decision", *words])
    assert result.exit_code == 0, result.output


def recall(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, ["recall", text, "--json", "--min-confidence", "0"])
    assert result.exit_code == 0, result.output
    return {hit["text"] for hit in json.loads(result.output)["hits"]}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of its own, with a memory."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "memory"))
    return home


@pytest.fixture
def mono(user: Path) -> Path:
    """A repository of two packages."""
    root = user / "mono"
    for name in ("web", "api"):
        folder = root / "packages" / name
        (folder / "src").mkdir(parents=True)
        (folder / "package.json").write_text("{}")
    (root / "package.json").write_text("{}")
    subprocess.run(["git", "init", "-q", root], check=True)
    url = f"git@{MONO.replace('/', ':', 1)}.git"
    subprocess.run(["git", "-C", root, "remote", "add", "origin", url], check=True)
    return root


@pytest.mark.parametrize(
    ("project", "chain"),
    [
        ("", ("",)),
        (MONO, (MONO,)),
        ("acme/web", ("acme/web",)),
        ("mono@1a2b3c4d", ("mono@1a2b3c4d",)),
        ("git.sr.ht/~user/tool", ("git.sr.ht/~user/tool",)),
        (f"{MONO}//web", (f"{MONO}//web", MONO)),
        (f"{MONO}//packages/web", (f"{MONO}//packages/web", f"{MONO}//packages", MONO)),
        ("~/notes", ("~/notes",)),
        ("~/notes/2026/may", ("~/notes/2026/may", "~/notes/2026", "~/notes")),
        ("@/srv/notes", ("@/srv/notes", "@/srv")),
    ],
)
def test_scope_chain_ends_at_the_repository_or_outermost_folder(project, chain):
    assert scope_chain(project) == chain


def test_a_scope_holds_within_itself_and_not_beside_or_above():
    assert holds_in(MONO, f"{MONO}//packages/web")
    assert holds_in("~/notes", "~/notes/2026")
    assert holds_in(None, "~/notes")
    assert holds_in(None, "")
    assert not holds_in(f"{MONO}//packages/web", f"{MONO}//packages/api")
    assert not holds_in(f"{MONO}//packages/web", MONO)
    assert not holds_in(MONO, f"{MONO}-2//packages/web")
    assert not holds_in("~/note", "~/notes")
    assert not holds_in("github.com/acme", MONO)
    assert not holds_in("~/notes", "")


@pytest.mark.parametrize(
    ("folder", "home", "project"),
    [
        (PurePosixPath("/home/ada/notes/2026"), PurePosixPath("/home/ada"), "~/notes/2026"),
        (PurePosixPath("/home/ada"), PurePosixPath("/home/ada"), None),
        (PurePosixPath("/home"), PurePosixPath("/home/ada"), None),
        (PurePosixPath("/"), PurePosixPath("/home/ada"), None),
        (PurePosixPath("/tmp"), PurePosixPath("/home/ada"), None),
        (PurePosixPath("/srv/notes"), PurePosixPath("/home/ada"), "@/srv/notes"),
        (PureWindowsPath(r"C:\Users\Ada\notes"), PureWindowsPath(r"C:\Users\Ada"), "~/notes"),
        (PureWindowsPath(r"c:\users\ada\notes"), PureWindowsPath(r"C:\Users\Ada"), "~/notes"),
        (PureWindowsPath(r"D:\notes\2026"), PureWindowsPath(r"C:\Users\Ada"), "@/D/notes/2026"),
        (PureWindowsPath("D:\\"), PureWindowsPath(r"C:\Users\Ada"), None),
    ],
)
def test_folder_is_named_by_its_path_from_the_home_directory(folder, home, project):
    assert folder_scope(folder, home, (PurePosixPath("/tmp"),)) == project


def test_folders_whose_names_a_project_cannot_bear_stay_apart():
    home = PurePosixPath("/home/ada")
    names = ["müll", "möll", "m-ll", "a b", "a-b", "..x y", "@scope", "scope", "x" * 200, "x" * 201]
    projects = [folder_scope(home / name / "in", home) for name in names]
    assert len(set(projects)) == len(projects)
    assert all(check_project(project or "") for project in projects)
    deep = home.joinpath(*["folder"] * 90)
    assert check_project(folder_scope(deep, home) or "") in scope_chain(
        folder_scope(deep, home) or ""
    )


def test_package_is_the_nearest_manifest_below_the_root(mono: Path):
    web = f"{MONO}//packages/web"
    assert scope_of(mono) == MONO
    assert scope_of(mono / "packages") == MONO
    assert scope_of(mono / "packages" / "web") == web
    assert scope_of(mono / "packages" / "web" / "src") == web
    assert project_of(mono / "packages" / "web" / "src") == MONO


def test_worktrees_and_clones_share_their_packages(mono: Path, user: Path):
    git = ["git", "-C", str(mono), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "packages"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(user / "other")], check=True)
    assert scope_of(user / "other" / "packages" / "web") == f"{MONO}//packages/web"


def test_remote_takes_no_name_of_a_folder(mono: Path):
    git = ["git", "-C", str(mono), "remote", "set-url", "origin"]
    for url in ("~/notes", "@/srv/notes"):
        subprocess.run([*git, url], check=True)
        assert not (scope_of(mono) or "").startswith(("~/", "@/"))
    subprocess.run([*git, "https://example.com/ada/notes"], check=True)
    assert scope_of(mono) == "example.com/ada/notes"


def test_package_in_a_repository_of_a_long_name_stays_within_it(mono: Path):
    name = f"example.com/{'a' * 185}"
    git = ["git", "-C", str(mono), "remote", "set-url", "origin"]
    subprocess.run([*git, f"https://{name}"], check=True)
    assert scope_of(mono / "packages" / "web") == name


def test_folder_that_is_gone_has_no_project(user: Path):
    assert scope_of(user / "gone") is None
    assert scope_of(user) is None


def test_notes_are_not_recalled_in_the_thesis(user: Path, monkeypatch: pytest.MonkeyPatch):
    notes, thesis = user / "notes", user / "thesis"
    for folder in (notes / "2026", thesis):
        folder.mkdir(parents=True)
    everywhere, here = "Citations are numbered everywhere", "Citations are in the footer of notes"
    record(everywhere, user, monkeypatch)
    record(here, notes, monkeypatch)
    assert recall("citations", notes, monkeypatch) == {everywhere, here}
    assert recall("citations", notes / "2026", monkeypatch) == {everywhere, here}
    assert recall("citations", thesis, monkeypatch) == {everywhere}


def test_two_folders_of_one_name_are_two_projects(user: Path, monkeypatch: pytest.MonkeyPatch):
    path, other = user / "a" / "notes", user / "b" / "notes"
    for folder in (path, other):
        folder.mkdir(parents=True)
    record("Citations are numbered", path, monkeypatch)
    assert recall("citations", path, monkeypatch)
    assert not recall("citations", other, monkeypatch)


def test_packages_share_what_their_repository_knows(mono: Path, monkeypatch: pytest.MonkeyPatch):
    packages = mono / "packages"
    shared, own = "Ports are chosen by the platform team", "Ports of the web package begin at 3000"
    record(shared, mono, monkeypatch)
    record(own, packages / "web" / "src", monkeypatch)
    assert recall("ports", packages / "web", monkeypatch) == {shared, own}
    assert recall("ports", packages / "api", monkeypatch) == {shared}
    assert recall("ports", mono, monkeypatch) == {shared}


@pytest.mark.usefixtures("jobs_here")
def test_built_memories_keep_their_scopes(mono: Path, monkeypatch: pytest.MonkeyPatch):
    packages = mono / "packages"
    shared, own = "Ports are chosen by the platform team", "Ports of the web package begin at 3000"
    record(shared, mono, monkeypatch)
    record(own, packages / "web", monkeypatch)
    result = CliRunner().invoke(main, ["build", "--quick"])
    assert result.exit_code == 0, result.output
    assert recall("ports", packages / "web", monkeypatch) == {shared, own}
    assert recall("ports", packages / "api", monkeypatch) == {shared}


def test_brief_of_a_package_has_the_rules_of_its_repository(
    mono: Path, monkeypatch: pytest.MonkeyPatch
):
    packages = mono / "packages"
    record("Ports are chosen by the platform team", mono, monkeypatch)
    record("Ports of the web package begin at 3000", packages / "web", monkeypatch)
    briefs = {}
    for name in ("web", "api"):
        monkeypatch.chdir(packages / name)
        briefs[name] = CliRunner().invoke(main, ["brief"]).output
    assert "platform team" in briefs["web"] and "3000" in briefs["web"]
    assert "platform team" in briefs["api"] and "3000" not in briefs["api"]


def test_pause_of_a_repository_covers_its_packages():
    paused = Pause("project", MONO, 0)
    assert covers(paused, "", f"{MONO}//packages/web", None)
    assert covers(paused, "", MONO, None)
    assert not covers(paused, "", f"{MONO}-2//packages/web", None)
    assert not covers(Pause("project", f"{MONO}//packages/web", 0), "", MONO, None)

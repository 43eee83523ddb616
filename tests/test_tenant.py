"""A tenant's name never leaves its folder; a project is the same for every clone and worktree."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.home import tenant as tenants
from store.home.errors import InvalidName, NotFound
from store.home.projects import check_project, git_root, project_of
from store.home.tenant import Tenant
from store.log.event_log import EventLog

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, remote: str | None = None) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/abs",
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "Abc",
        "a" * 64,
        "a\x00",
        "é",
        "a\n",
        "-a",
        "a b",
    ],
)
def test_a_name_that_could_leave_its_folder_is_refused(home: Path, name: str):
    with pytest.raises(InvalidName, match="no tenant's name"):
        tenants.tenant(home, name)


@given(st.text())
def test_an_accepted_name_is_a_folder_directly_below_tenants(name: str):
    home = Path("/home/me")
    try:
        tenant = tenants.tenant(home, name)
    except InvalidName:
        return
    assert tenant.root.parent == home / "tenants" and tenant.root.name == name


def test_sixty_three_characters_are_a_name(home: Path):
    assert tenants.tenant(home, "a" * 63).root == home / "tenants" / ("a" * 63)


def test_naming_a_tenant_makes_nothing(home: Path):
    assert not tenants.tenant(home).exists and not home.exists()
    with pytest.raises(NotFound, match="mnemolog --tenant default init"):
        tenants.find_tenant(home)


def test_tenants_are_those_with_a_log_by_name(home: Path):
    for name in ("b", "a"):
        EventLog(tenants.tenant(home, name).log, create=True).close()
    (home / "tenants" / "empty").mkdir()
    (home / "tenants" / "Not A Name").mkdir()
    assert [tenant.name for tenant in tenants.list_tenants(home)] == ["a", "b"]
    assert list(tenants.list_tenants(home / "nowhere")) == []


def test_two_tenants_share_no_file(tenant: Tenant, home: Path):
    other = tenants.tenant(home, "other")
    names = [name for name, value in vars(Tenant).items() if isinstance(value, property)]
    for name in set(names) - {"exists"}:
        assert not getattr(tenant, name).is_relative_to(other.root)


@pytest.mark.parametrize("name", ["github.com/pallets/flask", "web@0a1b2c3d", "~me/x", "c++"])
def test_a_projects_name_is_kept_as_given(name: str):
    assert check_project(name) == name


@pytest.mark.parametrize("name", ["", "../x", "a/../b", "/abs", ".git", "a b", "a\x00b", "a" * 201])
def test_a_projects_name_is_no_path_out(name: str):
    with pytest.raises(InvalidName, match="no project's name"):
        check_project(name)


REMOTES = [
    "https://github.com/pallets/flask.git",
    "https://github.com/pallets/flask",
    "https://github.com/pallets/flask/",
    "git@github.com:pallets/flask.git",
    "ssh://git@github.com/pallets/flask.git",
    "ssh://git@github.com:22/pallets/flask.git",
    "https://me:hunter2@github.com/pallets/flask.git",
    "git://github.com/pallets/flask.git",
]


@needs_git
@pytest.mark.parametrize("remote", REMOTES)
def test_every_remote_of_one_repository_is_one_project(tmp_path: Path, remote: str):
    assert project_of(repository(tmp_path / "work", remote)) == "github.com/pallets/flask"


@pytest.mark.parametrize(
    "remote",
    [
        "https://hunter2@host/o/r.git",
        "https://me:hunter2@host/o/r.git",
        "https://me:hun@hunter2@host/o/r.git",
        "https://me:pw/hunter2@host/o/r.git",
        "https://me:12/hunter2@host:8443/o/r.git",
        "https://host/o/r.git?token=hunter2",
        '"https://me:hunter2@host/o/r.git"',
        "HTTPS://me:hunter2@host/o/r.git",
    ],
)
def test_credentials_in_a_remote_are_never_shown(tmp_path: Path, remote: str):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    project = project_of(tmp_path)
    assert project is not None and "hunter2" not in project
    assert project == "host/o/r"


@needs_git
def test_a_worktree_and_a_folder_below_share_the_project(tmp_path: Path):
    for remote in (None, "git@github.com:pallets/flask.git"):
        work = repository(tmp_path / str(remote)[:3] / "work", remote)
        git(work, "worktree", "add", "-q", "../side", "-b", "side")
        below = work.parent / "side" / "a" / "b"
        below.mkdir(parents=True)
        assert project_of(below) == project_of(work)
        assert git_root(below) == work.parent / "side"


def test_a_folder_that_may_not_be_looked_into_lies_in_no_work_tree(tmp_path: Path):
    assert git_root(tmp_path / ("x" * 300)) is None  # too long for any disk, even for root


@needs_git
def test_without_a_remote_it_is_the_folder_and_a_digest_of_its_path(tmp_path: Path):
    path, other = repository(tmp_path / "a" / "my web"), repository(tmp_path / "b" / "my web")
    name, digest = project_of(path).split("@")
    assert name == "my-web" and len(digest) == 8
    assert project_of(path) != project_of(other)
    assert check_project(project_of(path)) == project_of(path)


@needs_git
def test_a_submodule_is_a_project_of_its_own(tmp_path: Path):
    inner = repository(tmp_path / "inner")
    outer = repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    assert project_of(outer / "sub") not in (None, project_of(outer))


def test_outside_git_there_is_no_project(tmp_path: Path):
    assert project_of(tmp_path) is None and git_root(tmp_path) is None


def test_a_broken_git_file_is_no_project(tmp_path: Path):
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert project_of(tmp_path) is None


@pytest.mark.parametrize("said", [b"gitdir: a\0b", b"gitdir: " + b"a" * 5_000, b"gitdir: ring/x"])
def test_a_git_file_that_leads_nowhere_is_no_repository(tmp_path, said):
    (tmp_path / "ring").symlink_to("ring")
    (tmp_path / ".git").write_bytes(said)
    assert project_of(tmp_path) is None


def test_a_remote_of_white_space_takes_no_time_and_a_name_may_be_any_bytes(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]' + "\n" * 500_000)
    project = project_of(folder)
    assert project is not None and project.startswith("caf")


def test_new_tenant_is_not_named_by_a_secret(tmp_path: Path):
    secret = "glpat-" + "a1b2c3d4e5f6g7h8i9j0"  # assembled, so that no scanner takes it for a leak
    with pytest.raises(InvalidName) as refused:
        tenants.tenant(tmp_path, secret)
    assert secret not in str(refused.value)
    assert tenants.tenant(tmp_path, "team-2026-platform-eu-west-1").name


def test_existing_tenant_opens_whatever_its_name(tmp_path: Path):
    name = "glpat-" + "a1b2c3d4e5f6g7h8i9j0"
    log = tmp_path / "tenants" / name / "log.sqlite"
    EventLog(log, create=True).close()
    assert tenants.find_tenant(tmp_path, name).log == log

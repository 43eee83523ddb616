"""
Projects: the project of a working directory, and the names that need the user's consent.

A project is a path of scopes, and its name lists them all: a repository (github.com/acme/mono, the
same for all its worktrees), a package in one (github.com/acme/mono//packages/web), a folder outside
git (~/notes/2026, or @/srv/notes for one outside the home directory). Memories recorded in a scope
apply in all scopes within it. A repository's `.mnemolog.toml` comes with other people's code, and
the name it gives decides whose notes are shown there and where notes go: a name that matches none
of its remotes needs the user's consent, kept in the home.
"""

import os
import re
from collections.abc import Collection
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePath

import msgspec

from store.home.errors import ConfigError, InvalidName
from store.home.files import file_lock, read_rows, replace_file

_LONGEST = 200  # characters of a name

_PROJECT = re.compile(r"[A-Za-z0-9~@][A-Za-z0-9._@/~+-]{0,199}")


def check_project(name: str) -> str:
    """Return a project's name as given; raise InvalidName if it is invalid."""
    if not _PROJECT.fullmatch(name) or ".." in name.split("/"):
        raise InvalidName(
            f"{name!r} is no project's name: use letters, digits and ._@/~+- (up to 200), no `..`"
        )
    return name


def optional_project(name: str | None) -> str | None:
    """Return a project's name as given, None if none is given; raise InvalidName."""
    return check_project(name) if name else None


SHARED = "//.mnemolog/memory@"  # between a repository and the mark of a note that it shares
PACKAGE = "//"  # between a repository and its package, as in the addresses of Terraform's modules

_FOLDERS = ("~/", "@/")  # a folder below the home directory, one elsewhere

_MANIFESTS = (
    *("package.json", "deno.json", "pyproject.toml", "setup.py", "Cargo.toml", "go.mod"),
    *("pom.xml", "build.gradle", "build.gradle.kts", "composer.json", "Gemfile", "mix.exs"),
    *("pubspec.yaml", "Package.swift", "CMakeLists.txt"),
)


@lru_cache(maxsize=256)
def scope_chain(project: str) -> tuple[str, ...]:
    """Return the projects whose memories apply in a project: itself, then those it is within.

    github.com/acme/mono//packages/web is within github.com/acme/mono//packages and
    github.com/acme/mono, ~/notes/2026 within ~/notes; a repository within none.
    """
    package = project.find(PACKAGE)
    if package > 0:
        first = package
    else:
        first = 2 if project.startswith(_FOLDERS) else len(project)
    slashes = [at for at in range(first, len(project)) if project[at] == "/"]
    ends = [at for at in slashes if project[at - 1] != "/"]
    return (project, *(project[:end] for end in reversed(ends)))


def holds_in(project: str | None, place: str | None) -> bool:
    """Return True if memories of a project apply in a place, a project or "" for none.

    Memories of no project apply everywhere; no place means all of them.
    """
    return project is None or place is None or project in scope_chain(place)


def scope_of(directory: Path) -> str | None:
    """Return the most specific project of a working directory: its package, repository or folder.

    None if memories belong to no project: in the home directory, its parents, the folder of
    temporary files, and a folder that is not on this machine.
    """
    for folder in (directory.absolute(), *directory.absolute().parents):
        if _git_folder(folder / ".git") is not None:
            project = project_of(folder)
            package = _package_in(folder, directory.absolute())
            return _join(project + PACKAGE, package) if project and package else project
    if not directory.is_absolute() or not os.path.isdir(directory):
        return None
    from tempfile import gettempdir  # slow to import, and rarely wanted

    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        home = Path("/")
    bare = (Path(os.path.realpath(gettempdir())), *map(Path, ("/tmp", "/var/tmp")))
    return folder_scope(Path(os.path.realpath(directory)), Path(os.path.realpath(home)), bare)


def folder_scope(folder: PurePath, home: PurePath, bare: Collection[PurePath] = ()) -> str | None:
    """Return the project of an absolute folder outside git: its path from the home directory, else
    from the machine's root; None for the home directory, its parents, and `bare` ones.
    """
    if folder in (home, *home.parents, *bare) or folder == folder.parent:
        return None
    if folder.is_relative_to(home):
        return _join("~/", folder.relative_to(home).parts)
    drive = (folder.drive.removesuffix(":"),) if folder.drive else ()
    return _join("@/", (*drive, *folder.parts[1:]))


def _package_in(root: Path, directory: Path) -> tuple[str, ...]:
    """Return the path in a repository to the nearest package around a directory; () for none."""
    for folder in (directory, *directory.parents):
        if folder == root:
            break
        if any(os.path.isfile(folder / name) for name in _MANIFESTS):
            return folder.relative_to(root).parts
    return ()


def _join(start: str, parts: Collection[str]) -> str:
    """Return the name of a path; parts that make it too long for a project's name are left out."""
    whole = start + "/".join(map(_folder_name, parts))
    return whole if len(whole) <= _LONGEST else whole[:_LONGEST].rpartition("/")[0].rstrip("/")


def _folder_name(part: str) -> str:
    """Return a folder's name in a project's; with a digest if it is not the whole name."""
    if re.fullmatch(r"[A-Za-z0-9._~+-]{1,100}", part) and part != "..":
        return part
    return f"{_plain(part)[:80]}@{sha256(os.fsencode(part)).hexdigest()[:8]}"


def project_of(directory: Path) -> str | None:
    """Return the project of a directory's repository; None outside any git repository.

    It is the origin remote (github.com/pallets/flask) if there is one, so that clones and worktrees
    share it, else the repository's folder name and a digest of its path. Only files under `.git`
    are read; git itself is not run.
    """
    repository = repository_of(directory)
    return repository.project if repository is not None else None


class Repository(msgspec.Struct, frozen=True):
    """A git repository: its git folder, shared by its worktrees, its project, and the projects
    named by its remotes, origin or not.
    """

    folder: Path
    project: str
    remotes: frozenset[str]


def repository_of(directory: Path) -> Repository | None:
    """Return the repository of a directory; None outside any."""
    for folder in (directory.absolute(), *directory.absolute().parents):
        git = _git_folder(folder / ".git")
        if git is not None:
            remotes = _remotes(git / "config")
            home = git.parent if git.name == ".git" else git
            own = f"{_plain(home.name)}@{sha256(os.fsencode(home)).hexdigest()[:8]}"
            return Repository(git, remotes.get("origin", own), frozenset(remotes.values()))
    return None


def branch_of(directory: str | None) -> str | None:
    """Return the branch checked out at a directory; None if there is none, or outside git."""
    if directory is None:
        return None
    root = git_root(Path(directory))
    if root is None:
        return None
    git = root / ".git"
    try:
        if git.is_file():
            git = (root / _read_beginning(git).strip().removeprefix("gitdir:").strip()).resolve()
        head = _read_beginning(git / "HEAD").strip()
    except (OSError, ValueError, RuntimeError):  # as in `_git_folder`
        return None
    name = head.removeprefix("ref: refs/heads/")
    return name[:200] if name and name != head else None


def git_root(directory: Path) -> Path | None:
    """Return the work tree of a directory; None outside any, or if we may not look."""
    for folder in (directory.absolute(), *directory.absolute().parents):
        if os.path.exists(folder / ".git"):  # Path.exists raises for a folder of another user
            return folder
    return None


def _git_folder(path: Path) -> Path | None:
    """Return the repository behind a `.git` folder, or behind a worktree's `.git` file.

    None if it leads nowhere: to a loop of links, or to a name that no disk allows.
    """
    try:
        if path.is_dir():
            return path.resolve()
        if not path.is_file():
            return None
        target = _read_beginning(path).strip().removeprefix("gitdir:").strip()
        worktree = (path.parent / target).resolve()
        common = worktree / "commondir"
        if common.is_file():
            return (worktree / _read_beginning(common).strip()).resolve()
        return worktree if worktree.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # the last: a loop of links, before Python 3.13
        return None


def _read_beginning(path: Path) -> str:
    """Return the beginning of one of git's files; it may be anybody's, and of any length."""
    with path.open("rb") as file:
        return file.read(_MOST_READ).decode(errors="replace")


_REMOTE = re.compile(r'\[remote "([^"\n]*)"\]([^\[]*)')


_URL = re.compile(r"^[ \t]*url[ \t]*=[ \t]*(\S+)", re.MULTILINE)


_MOST_READ = 1 << 20  # bytes


def _remotes(config: Path) -> dict[str, str]:
    """Return the projects named by the remotes of a repository, by remote."""
    try:
        sections = _REMOTE.findall(_read_beginning(config)) if config.is_file() else []
    except OSError:
        return {}
    remotes: dict[str, str] = {}
    for remote, section in sections:
        url = _URL.search(section)
        if url is not None and (name := _project_at(url[1])) is not None:
            remotes.setdefault(remote, name)
    return remotes


def _project_at(url: str) -> str | None:
    """Return the project named by a remote's address; None for a name that is not ours."""
    # https://user:secret@host/owner/repo.git and git@host:owner/repo.git are both host/owner/repo
    bare = re.sub(r"^[a-z+]+://", "", url.strip('"'), flags=re.IGNORECASE)
    bare = re.split(r"[?#]", bare)[0]
    # a password may contain an @ or a /: anything that could be one goes, up to the last @
    bare = re.sub(r"^(?:[^@/:]*:.*@|[^/]*@)", "", bare)
    bare = re.sub(r"^([^/:]+):(?:\d+/)?", r"\1/", bare)
    name = "/".join(_plain(part) for part in bare.removesuffix("/").removesuffix(".git").split("/"))
    name = name.strip("/")
    if name.startswith(_FOLDERS) or ".." in name.split("/"):
        return None
    return name if _PROJECT.fullmatch(name) else None


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._~+-]+", "-", name).lstrip("._-+") or "repo"


# Consents: the repositories that may use a project name that none of their remotes has.
#
# A repository's `.mnemolog.toml` comes with other people's code: the name it gives decides whose
# notes are shown there and where notes go. So a name that is not that of a remote needs the user's
# consent. That is kept in the home, `projects.json`, for this repository on this disk and its
# origin.


class Consent(msgspec.Struct, frozen=True):
    """A repository, by its git folder and its own name, and the project it may take part in."""

    repository: str
    own: str
    project: str


_decoder = msgspec.json.Decoder(tuple[Consent, ...])


def consents_file(home: Path) -> Path:
    return home / "projects.json"


def may_take_name(home: Path, directory: Path, project: str) -> bool:
    """Return True if the repository of a directory may use a project's name; raise ConfigError.

    It may if one of its remotes has that name, or the user consented.
    """
    repository = repository_of(directory)
    if repository is None:
        return False
    if project in (repository.project, *repository.remotes):
        return True
    return _consent(repository, project) in _read_consents(consents_file(home))


def allow_name(home: Path, directory: Path, project: str) -> None:
    """Record the user's consent; raise ConfigError outside a repository."""
    _change_consent(home, directory, project, is_allowed=True)


def refuse_name(home: Path, directory: Path, project: str) -> None:
    """Withdraw the user's consent; raise ConfigError outside a repository."""
    _change_consent(home, directory, project, is_allowed=False)


_NOTES = "@.mnemolog/memory"  # in place of a project: consent to a repository's shared notes


def trusts_notes(home: Path, directory: Path) -> bool:
    """Return True if the user trusts the notes that a repository shares, after reviewing them;
    raise ConfigError.
    """
    repository = repository_of(directory)
    return repository is not None and _consent(repository, _NOTES) in _read_consents(
        consents_file(home)
    )


def trust_notes(home: Path, directory: Path, *, is_trusted: bool) -> None:
    """Record whether the user trusts a repository's shared notes; raise ConfigError outside one."""
    _change_consent(home, directory, _NOTES, is_allowed=is_trusted)


def _change_consent(home: Path, directory: Path, project: str, *, is_allowed: bool) -> None:
    repository = repository_of(directory)
    if repository is None:
        raise ConfigError(f"{directory} is not in a git repository: there is nothing to agree to")
    meant = _consent(repository, project)
    with file_lock(consents_file(home)):
        others = tuple(
            consent for consent in _read_consents(consents_file(home)) if consent != meant
        )
        consents = (*others, meant) if is_allowed else others
        replace_file(consents_file(home), msgspec.json.encode(consents))


def _consent(repository: Repository, project: str) -> Consent:
    return Consent(str(repository.folder), repository.project, project)


def _read_consents(path: Path) -> tuple[Consent, ...]:
    return read_rows(path, _decoder, "delete it, then `mnemolog project allow` again")

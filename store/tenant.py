"""
Tenant: one isolated memory, a directory holding one log and what is derived from it.

No query ever needs a tenant filter, because no file holds two tenants. Inside a tenant a memory may
belong to a project; which one is found from the working directory, the same for all worktrees.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from store.errors import InvalidName, NotFound
from store.files import sync_folder

DEFAULT = "default"
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_PROJECT = re.compile(r"[A-Za-z0-9~@][A-Za-z0-9._@/~+-]{0,199}")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Where one tenant's files lie. Nothing is read or made by naming them."""

    name: str
    root: Path

    @property
    def log(self) -> Path:
        return self.root / "log.sqlite"

    @property
    def log_head(self) -> Path:
        return self.root / "log.head"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def manifests(self) -> Path:
        return self.root / "manifests"

    @property
    def head(self) -> Path:
        return self.root / "HEAD"

    @property
    def candidate(self) -> Path:
        return self.root / "candidate"

    @property
    def journals(self) -> Path:
        return self.candidate / "embedded"

    @property
    def cold(self) -> Path:
        return self.root / "cold"

    @property
    def refused(self) -> Path:
        return self.root / "refused.json"

    @property
    def ingest(self) -> Path:
        return self.root / "ingest.sqlite"

    @property
    def build_lock(self) -> Path:
        return self.root / "build.lock"

    @property
    def erasing(self) -> Path:
        """What is there from when an erasing is begun until nothing is left of what it destroys."""
        return self.root / "erasing.json"

    @property
    def successor(self) -> Path:
        """Where a whole folder waits that is to take this one's place, while this is put away."""
        return self.root.with_name(f".next-{self.name}")

    @property
    def exists(self) -> bool:
        """Whether it was made; its log may be damaged, or gone.

        Where a successor waits for its empty place, it takes it now.
        """
        return self.log.exists() or self.log_head.exists() or _succeeded(self)


def tenant(home: Path, name: str = DEFAULT) -> Tenant:
    """Return the tenant called `name`; raise InvalidName for what could leave its folder."""
    if not _TENANT.fullmatch(name):
        raise InvalidName(
            f"{name!r} is no tenant's name: use 1 to 63 of a-z 0-9 _ -, a letter or digit first"
        )
    return Tenant(name, home / "tenants" / name)


def existing(home: Path, name: str = DEFAULT) -> Tenant:
    """Return the tenant called `name`; raise NotFound where it was never made."""
    found = tenant(home, name)
    if not found.exists:
        raise NotFound(
            f"no tenant {name!r} in {home}: make it with `mnemolog --tenant {name} init`"
        )
    return found


def _succeeded(tenant: Tenant) -> bool:
    """Let a tenant's successor take its place, for whoever put the old one away and was killed."""
    with suppress(OSError):  # there is none, which is usual, or another process was first
        os.rename(tenant.successor, tenant.root)
        sync_folder(tenant.root.parent)
    return tenant.log.exists()


def tenants(home: Path) -> Iterator[Tenant]:
    """Yield every tenant of a home, by name."""
    folder = home / "tenants"
    if folder.is_dir():
        names = {path.name.removeprefix(".next-") for path in folder.iterdir()}
        for name in sorted(filter(_TENANT.fullmatch, names)):
            if (found := Tenant(name, folder / name)).exists:
                yield found


def log_bytes(tenant: Tenant) -> int:
    """Return how much the log's files take, the write-ahead log among them."""
    found = 0
    for path in tenant.root.glob("log.sqlite*"):
        with suppress(FileNotFoundError):  # SQLite has just taken it away
            found += path.stat().st_size
    return found


def checked_project(name: str) -> str:
    """Return a project's name as given; raise InvalidName where it is none."""
    if not _PROJECT.fullmatch(name) or ".." in name.split("/"):
        raise InvalidName(
            f"{name!r} is no project's name: use letters, digits and ._@/~+- (up to 200), no `..`"
        )
    return name


def named_project(name: str | None) -> str | None:
    """Return a project's name as given, None where none is named; raise InvalidName."""
    return checked_project(name) if name else None


def project_of(directory: Path) -> str | None:
    """Return the project a working directory belongs to; None outside any git repository.

    It is the origin remote (github.com/pallets/flask) where there is one, so that clones and
    worktrees share it, else the repository's folder name and a digest of its path. Only files
    under `.git` are read; git itself is not run.
    """
    found = repository_of(directory)
    return found.project if found is not None else None


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository: its folder of git's, which its worktrees share, the project it is, and the
    projects that its remotes name, origin or not.
    """

    folder: Path
    project: str
    remotes: frozenset[str]


def repository_of(directory: Path) -> Repository | None:
    """Return the repository a directory lies in; None outside any."""
    for folder in (directory.absolute(), *directory.absolute().parents):
        git = _git_folder(folder / ".git")
        if git is not None:
            remotes = _remotes(git / "config")
            home = git.parent if git.name == ".git" else git
            own = f"{_plain(home.name)}@{sha256(os.fsencode(home)).hexdigest()[:8]}"
            return Repository(git, remotes.get("origin", own), frozenset(remotes.values()))
    return None


def branch_of(directory: str | None) -> str | None:
    """Return the branch that is checked out at a directory; None where none is, or outside git."""
    if directory is None:
        return None
    root = git_root(Path(directory))
    if root is None:
        return None
    git = root / ".git"
    try:
        if git.is_file():
            git = (root / _beginning(git).strip().removeprefix("gitdir:").strip()).resolve()
        head = _beginning(git / "HEAD").strip()
    except (OSError, ValueError, RuntimeError):  # as in `_git_folder`
        return None
    name = head.removeprefix("ref: refs/heads/")
    return name[:200] if name and name != head else None


def git_root(directory: Path) -> Path | None:
    """Return the work tree a directory lies in; None outside any, or where we may not look."""
    for folder in (directory.absolute(), *directory.absolute().parents):
        if os.path.exists(folder / ".git"):  # Path.exists raises for a folder of somebody else's
            return folder
    return None


def _git_folder(path: Path) -> Path | None:
    """Return the repository behind a `.git` folder, or behind a worktree's `.git` file.

    None where it leads nowhere: into a ring of links, to a name that no disk takes.
    """
    try:
        if path.is_dir():
            return path.resolve()
        if not path.is_file():
            return None
        target = _beginning(path).strip().removeprefix("gitdir:").strip()
        worktree = (path.parent / target).resolve()
        common = worktree / "commondir"
        if common.is_file():
            return (worktree / _beginning(common).strip()).resolve()
        return worktree if worktree.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # the last: a ring, before Python 3.13
        return None


def _beginning(path: Path) -> str:
    """Return what a file of git's says; it may be anybody's, and of any length."""
    with path.open("rb") as file:
        return file.read(_MOST_READ).decode(errors="replace")


_REMOTE = re.compile(r'\[remote "([^"\n]*)"\]([^\[]*)')
_URL = re.compile(r"^[ \t]*url[ \t]*=[ \t]*(\S+)", re.MULTILINE)
_MOST_READ = 1 << 20  # bytes


def _remotes(config: Path) -> dict[str, str]:
    """Return the projects that the remotes of a repository name, by remote."""
    try:
        sections = _REMOTE.findall(_beginning(config)) if config.is_file() else []
    except OSError:
        return {}
    found: dict[str, str] = {}
    for remote, section in sections:
        url = _URL.search(section)
        if url is not None and (name := _project_at(url[1])) is not None:
            found.setdefault(remote, name)
    return found


def _project_at(url: str) -> str | None:
    """Return the project that a remote's address names; None where it names none of ours."""
    # https://user:secret@host/owner/repo.git and git@host:owner/repo.git are both host/owner/repo
    bare = re.sub(r"^[a-z+]+://", "", url.strip('"'), flags=re.IGNORECASE)
    bare = re.split(r"[?#]", bare)[0]
    # a password may hold an @ or a /: what could be one goes, up to the last @
    bare = re.sub(r"^(?:[^@/:]*:.*@|[^/]*@)", "", bare)
    bare = re.sub(r"^([^/:]+):(?:\d+/)?", r"\1/", bare)
    name = "/".join(_plain(part) for part in bare.removesuffix("/").removesuffix(".git").split("/"))
    name = name.strip("/")
    return name if _PROJECT.fullmatch(name) and ".." not in name.split("/") else None


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._~+-]+", "-", name).lstrip("._-+") or "repo"

"""
A git remote as a place: files on refs of their own, beside any branches and without a history.

A machine's files are in the tree of one commit without parents, `refs/mnemolog/GENERATION`, which
that machine alone moves: nothing has to be merged, and clones do not fetch it by default. A bare
repository of ours beside the log keeps the fetched files.
"""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from store.home.errors import RemoteError
from store.home.files import make_folder
from store.importers.git_command import own_environment
from store.replica.remote import Entry

PREFIX = "git+"
_REFS = "refs/mnemolog/"
_TOP = "place"  # the ref of files in no folder
_WAIT_S = 60.0
_AUTHOR = "mnemolog"
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    **{f"GIT_{who}_NAME": _AUTHOR for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": f"{_AUTHOR}@localhost" for who in ("AUTHOR", "COMMITTER")},
}


def is_git(url: str) -> bool:
    return url.startswith(PREFIX)


class GitRemote:
    """The files on our refs of a git remote; `cache` is the folder of our repository."""

    def __init__(self, url: str, cache: Path) -> None:
        self.url = url
        self._address, self._cache = url.removeprefix(PREFIX), cache

    def list(self, folder: str) -> list[Entry]:
        """Fetch our refs, and return the files below a folder, by name."""
        if not (self._cache / "HEAD").exists():
            make_folder(self._cache)
            self._git("init", "--quiet", "--bare", "--template=")
        refs = f"+{_REFS}*:{_REFS}*"
        self._git("fetch", "--quiet", "--prune", "--no-tags", "--force", self._address, refs)
        entries = []
        for ref in self._git("for-each-ref", "--format=%(refname)", _REFS).decode().split():
            for line in self._git("ls-tree", "-r", "-z", "--long", ref).split(b"\0"):
                fields, _, name = line.partition(b"\t")
                if name:
                    entries.append(Entry(name.decode(), int(fields.split()[3])))
        wanted = f"{folder}/" if folder else ""
        return sorted(entry for entry in entries if entry.name.startswith(wanted))

    def get(self, name: str) -> bytes:
        return self._git("cat-file", "blob", f"{_ref_of(name)}:{name}")

    def put(self, name: str, data: bytes) -> None:
        blob = self._git("hash-object", "-w", "--stdin", stdin=data).decode().strip()
        self._change(_ref_of(name), {name: blob})

    def delete(self, names: Iterable[str]) -> None:
        by_ref: dict[str, dict[str, str | None]] = {}
        for name in names:
            by_ref.setdefault(_ref_of(name), {})[name] = None
        for ref, changes in by_ref.items():
            self._change(ref, changes)
        if by_ref:  # files deleted there must go here too
            self._git("gc", "--quiet", "--prune=now")

    def _change(self, ref: str, changes: Mapping[str, str | None]) -> None:
        """Move a ref to a commit whose tree has other blobs under some names; None: no file."""
        with TemporaryDirectory(prefix="mnemolog-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            is_there = bool(self._git("for-each-ref", ref))
            if is_there:
                self._git("read-tree", ref, environment=index)
            entries = "".join(
                f"{'100644' if blob else '0'} {blob or '0' * 40}\t{name}\n"
                for name, blob in changes.items()
            )
            self._git("update-index", "--index-info", stdin=entries.encode(), environment=index)
            is_empty = not self._git("ls-files", environment=index)
            if is_empty:
                if is_there:
                    self._git("push", "--quiet", self._address, f":{ref}")
                    self._git("update-ref", "-d", ref)
                return
            tree = self._git("write-tree", environment=index).decode().strip()
        commit = self._git("commit-tree", tree, "-m", _AUTHOR).decode().strip()
        self._git("push", "--quiet", "--force", self._address, f"{commit}:{ref}")
        self._git("update-ref", ref, commit)

    def _git(
        self, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> bytes:
        """Return git's output; raise RemoteError if it fails."""
        try:
            process = subprocess.run(
                ["git", f"--git-dir={self._cache}", *words],
                input=stdin,
                capture_output=True,
                timeout=_WAIT_S,
                env=own_environment() | _ENVIRONMENT | dict(environment or {}),
                start_new_session=True,  # ssh has no terminal to ask a password on
                check=False,
            )
        except FileNotFoundError as error:
            raise RemoteError("git was not found: install git") from error
        except subprocess.TimeoutExpired as error:
            raise RemoteError(f"{self.url} did not answer in {_WAIT_S:.0f} s") from error
        if process.returncode:
            lines = process.stderr.decode(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "git gave no reason"
            raise RemoteError(
                f"{self.url}: {why}: see that `git ls-remote {self._address}` works without asking"
            )
        return process.stdout


def _ref_of(name: str) -> str:
    folders = name.split("/")[:-1]
    return _REFS + (folders[-1] if folders else _TOP)

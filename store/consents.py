"""
Consents: which repositories may take the name of a project that none of their remotes bears.

A repository's `.mnemolog.toml` comes with other people's code: the name it gives decides whose
notes are told there and where notes go. So a name that is not that of a remote holds only once the
user agreed. That is kept in the home, `projects.json`, for this repository on this disk and its
origin.
"""

from pathlib import Path

import msgspec

from store.errors import ConfigError
from store.files import file_lock, read_rows, replace_file
from store.tenant import Repository, repository_of


class Consent(msgspec.Struct, frozen=True):
    """A repository, by its git folder and its own name, and the project it may take part in."""

    repository: str
    own: str
    project: str


_decoder = msgspec.json.Decoder(tuple[Consent, ...])


def file_of(home: Path) -> Path:
    return home / "projects.json"


def may_take(home: Path, directory: Path, project: str) -> bool:
    """Return whether the repository of a directory may take a project's name; raise ConfigError.

    It may where one of its remotes bears it, or the user agreed.
    """
    found = repository_of(directory)
    if found is None:
        return False
    if project in (found.project, *found.remotes):
        return True
    return _consent(found, project) in _read(file_of(home))


def allow(home: Path, directory: Path, project: str) -> None:
    """Keep that the user agreed; raise ConfigError outside a repository."""
    _change(home, directory, project, is_allowed=True)


def refuse(home: Path, directory: Path, project: str) -> None:
    """Keep that the user agrees no longer; raise ConfigError outside a repository."""
    _change(home, directory, project, is_allowed=False)


def _change(home: Path, directory: Path, project: str, *, is_allowed: bool) -> None:
    found = repository_of(directory)
    if found is None:
        raise ConfigError(f"{directory} lies in no git repository: there is nothing to agree to")
    meant = _consent(found, project)
    with file_lock(file_of(home)):
        others = tuple(one for one in _read(file_of(home)) if one != meant)
        kept = (*others, meant) if is_allowed else others
        replace_file(file_of(home), msgspec.json.encode(kept))


def _consent(repository: Repository, project: str) -> Consent:
    return Consent(str(repository.folder), repository.project, project)


def _read(path: Path) -> tuple[Consent, ...]:
    return read_rows(path, _decoder, "delete it, then `mnemolog project allow` again")

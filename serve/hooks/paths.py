"""
Files as a project's memory names them: relative to its work tree, with forward slashes.
"""

from collections.abc import Iterable
from pathlib import Path, PurePath, PureWindowsPath

from store.home.projects import git_root


def in_project(files: Iterable[str], cwd: str | None) -> tuple[str, ...]:
    """Return files relative to the work tree that `cwd` lies in, else to `cwd`.

    One that lies elsewhere keeps its whole path; nothing is looked up on the disk but that tree.
    """
    if cwd is None:
        return tuple(one.replace("\\", "/") for one in files)
    here = Path(cwd)
    root = git_root(here) or here
    return tuple(_relative(one, here, root) for one in files)


def _relative(file: str, here: PurePath, root: PurePath) -> str:
    is_windows = "\\" in file and "/" not in file
    path = here / (PureWindowsPath(file).as_posix() if is_windows else file)
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != "..":
            parts.append(part)
    plain = type(path)(*parts)
    return plain.relative_to(root).as_posix() if plain.is_relative_to(root) else plain.as_posix()

"""
clones: a stranger's repository whose files claim another project, in every way we know; no folder
of it is taken for that project.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from torture.outcome import Outcome, Scale

from store.home import projects
from store.home.config import Settings
from store.home.project_context import ProjectContexts

CLIENT = "github.com/client/acme"
OWN = "github.com/evil/acme"
HERE = ("", "src", "src/client/acme")  # working directories

CLAIM = f'project = "{CLIENT}"\n'
# files of a repository: none is a remote, nor the user's consent
FILES: dict[str, dict[str, str]] = {
    "the root": {".mnemolog.toml": CLAIM},
    "a folder": {"src/.mnemolog.toml": CLAIM},
    "both": {".mnemolog.toml": f'project = "{OWN}"\n', "src/client/acme/.mnemolog.toml": CLAIM},
    "a folder's name": {"src/client/acme/.mnemolog.toml": CLAIM, "github.com/client/acme/x": ""},
    "a config of git": {".mnemolog.toml": CLAIM, ".gitconfig": f'[remote "up"]\n\turl={CLIENT}\n'},
    "a submodule": {
        ".mnemolog.toml": CLAIM,
        ".gitmodules": f'[submodule "a"]\n\tpath = src\n\turl = https://{CLIENT}\n',
    },
    "a consent": {
        ".mnemolog.toml": CLAIM,
        "projects.json": f'[{{"repository":"","own":"{OWN}","project":"{CLIENT}"}}]',
    },
    "settings": {".mnemolog.toml": CLAIM, "config.toml": CLAIM, ".mnemolog/config.toml": CLAIM},
    "a variable": {".mnemolog.toml": CLAIM, ".env": f"MNEMOLOG_PROJECT={CLIENT}\n"},
}
# URLs of remotes; the project's name in them is not in the host's place
REMOTES = (
    f"https://{OWN}.git",
    f"https://evil.example/{CLIENT}",
    f"https://{CLIENT}.evil.example/",
    f"https://{CLIENT}@{OWN}",
    f"https://{OWN}?{CLIENT}",
    f"https://{OWN}#{CLIENT}",
    f"git@evil.example:{CLIENT}.git",
    f"https://{CLIENT}-fork",
)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the clones taken for the project, with and without the check of consent."""
    points, wrong = _walked(folder / "clones", REMOTES[:: scale.of(4, 1)])
    yield Outcome("clones that claim a project", points, "folders", wrong, floor=200)
    with patch.object(projects, "may_take_name", lambda home, directory, project: True):
        points, wrong = _walked(folder / "believed", REMOTES[:1])
    yield Outcome("clones that are believed", points, "folders", wrong, is_control=True)


def _walked(folder: Path, remotes: tuple[str, ...]) -> tuple[int, list[str]]:
    """Return the number of folders, and those mistaken for the client's project."""
    places, points, wrong = ProjectContexts(Settings(folder / "home")), 0, []
    for number, remote in enumerate(remotes):
        for claim, files in FILES.items():
            root = folder / f"{number}-{claim}"
            _clone(root, remote, files)
            for here in HERE:
                points += 1
                if places.of(str(root / here)).project == CLIENT:
                    wrong.append(f"{claim} of {remote}, seen from {here or 'the root'}")
    return points, wrong


def _clone(root: Path, remote: str, files: dict[str, str]) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "remote", "add", "origin", remote], check=True)
    (root / HERE[-1]).mkdir(parents=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

"""The documents' claims: the README's session is run, and everything that it names exists."""

import doctest
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from as_person import AS_PERSON
from click.testing import CliRunner

from serve.cli import main
from serve.cli.group import Commands
from store.home.config import RECORD_KINDS, Choices, Llm, Neo4j, Profiles, Qdrant, Trial

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted((ROOT / "docs").glob("*.md"))
SESSION = re.search(r"<!-- tests/test_docs.py runs this.*?```console\n(.*?)```", README, re.DOTALL)
RUN = re.compile(r"<!-- tests/test_docs.py runs this -->\n+```console\n(.*?)```", re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A fresh repository with the one commit that the README's session imports."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "login.py").write_text("now = None\n")
    message = (
        "Inject the clock into the login check\n\nThe login test failed at midnight: it compared "
        "two times taken before and\nafter. Fixes #12\n"
    )
    who = ["-c", "user.name=Dev", "-c", "user.email=dev@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", message]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def test_the_readme_session_prints_what_the_readme_says(repository: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "MNEMOLOG_HOME": str(tmp_path / "home"), "COLUMNS": "80"}
    assert SESSION is not None
    for command, expected in session(SESSION[1]):
        arguments = shlex.split(command)[1:]
        result = subprocess.run(
            [*AS_PERSON, *arguments],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        printed = result.stdout if "--json" in arguments else result.stdout + result.stderr
        assert result.returncode == 0, printed + result.stderr
        assert doctest.OutputChecker().check_output(expected, printed, FLAGS), (command, printed)


def session(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a session and its documented output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


@pytest.mark.parametrize(
    "text", [text for page in DOCS for text in RUN.findall(page.read_text(encoding="utf-8"))]
)
def test_a_session_of_a_page_prints_what_the_page_says(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "home"))
    for command, expected in session(text):
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert doctest.OutputChecker().check_output(expected, result.output, FLAGS), (
            command,
            result.output,
        )


def test_every_command_is_named_in_the_readme() -> None:
    assert isinstance(main, Commands)
    missing = [name for name in sorted(main.names) if f"`{name}`" not in README and name != "init"]
    assert not [name for name in missing if not re.search(rf"`[^`]*\b{name}\b[^`]*`", README)]


def test_every_setting_is_in_the_readme_with_its_default() -> None:
    for name, weights in msgspec.structs.asdict(Profiles()).items():
        shown = ", ".join(f"{key} {value}" for key, value in msgspec.to_builtins(weights).items())
        assert f"| `[profiles.{name}]` | {shown} |" in README
    of_models = re.search(r"^\| `\[llm\]` \|(.*)$", README, re.MULTILINE)
    assert of_models is not None
    for name, value in msgspec.structs.asdict(Llm()).items():
        assert re.search(rf"`{name}`" + (rf" {value:,}" if value else ""), of_models[1]), name
    for table in (Qdrant(), Neo4j(), Trial()):
        title = type(table).__name__.lower()
        of_copy = re.search(rf"^\| `\[{title}\]` \|(.*)$", README, re.MULTILINE)
        assert of_copy is not None
        for name, value in msgspec.structs.asdict(table).items():
            assert re.search(rf"`{name}`" + (rf" {value}" if value else ""), of_copy[1]), name
    for field in msgspec.structs.fields(Choices):
        if field.name in ("profiles", "llm", "qdrant", "neo4j", "trial"):
            continue
        unset = {
            None: "found from the folder",
            (): "none",
            "": "none",
            RECORD_KINDS: "`, `".join(RECORD_KINDS),
        }
        default = unset.get(field.default, str(field.default).lower())
        assert re.search(rf"\| `{field.name}` \| `?{re.escape(default)}`? \|", README), field.name


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{doc.name}" for doc in DOCS)])
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    assert not {page.name for page in DOCS} ^ set(listed), "name the page in mkdocs.yml"
    assert len(listed) == len(set(listed))


def test_the_changelog_names_the_version() -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

"""
docs/cli.md: its lists are generated from the commands, and its typing errors are answered as shown.

`python tests/test_docs_cli.py` rewrites the lists.
"""

import os
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from serve.cli import main
from serve.cli.group import Commands

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
TEXT = PAGE.read_text(encoding="utf-8")
LISTS = re.compile(r"(?<=<!-- commands -->\n)(.*?)(?=<!-- end of commands -->)", re.DOTALL)
ERRORS = re.findall(r"^\| `\$ (.*?)` \| (.*?) \|$", TEXT, re.MULTILINE)


def lists() -> str:
    """Return the commands by group and section, as Markdown."""
    assert isinstance(main, Commands)
    context = click.Context(main)
    lines = _sections(main, "")
    for name in ("admin", "dev"):
        group = main.get_command(context, name)
        assert isinstance(group, Commands)
        lines += _sections(group, f"{name}: ")
    return "\n".join([*lines, ""])


def _sections(group: Commands, prefix: str) -> list[str]:
    lines = []
    for title, section in group.sections.items():
        lines += ["", f"**{prefix}{title}**", "", "| command | what it does |", "|---|---|"]
        for name in section:
            command = group.get_command(click.Context(group), name)
            assert command is not None
            subcommands = list(command.commands) if isinstance(command, click.Group) else []
            also = (
                f" Also: {', '.join(f'`{subcommand}`' for subcommand in subcommands)}."
                if subcommands
                else ""
            )
            lines.append(f"| `{name}` | {command.get_short_help_str(200)}{also} |")
    return lines[1:] if not prefix else lines


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a few memories, under the ids used on the page."""
    folder = tmp_path_factory.mktemp("typed") / "home"
    for id_, project, text in (
        ("01KXB2M8Q4A7", "github.com/encode/httpx", "Timeouts are set on the client"),
        ("01KXB2M8Q4B3", "acme/web", "The shop deploys from eu-west-1"),
        ("01KXB2M8Q5C1", "other/web", "The blog deploys from Fly"),
    ):
        words = ["record", text, "--id", id_, "--project", project]
        assert run(*words, home=folder).exit_code == 0
    return folder


def run(*words: str, home: Path, **environment: str) -> Result:
    names = {name: None for name in os.environ if name.startswith("MNEMOLOG_")}
    return CliRunner().invoke(main, words, env=names | {"MNEMOLOG_HOME": str(home)} | environment)


def test_the_page_lists_the_commands_that_there_are():
    match = LISTS.search(TEXT)
    assert match is not None
    assert match[1] == lists()


def test_the_page_shows_twenty_typing_errors():
    assert len(ERRORS) >= 20


@pytest.mark.parametrize(("typed", "answer"), ERRORS, ids=[typed for typed, _ in ERRORS])
def test_a_typing_error_is_answered_as_the_page_says(typed: str, answer: str, home: Path):
    words = shlex.split(typed)
    environment = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    assert words[0] == "mnemolog"
    result = run(*words[1:], home=home, **environment)
    text = result.stderr.rpartition("Error: ")[2].removeprefix("mnemolog: ")
    told = " ".join(text.replace(str(home), "~/memory").split())
    if answer.endswith("…"):
        told = f"{told[: len(answer) - 1]}…"
    assert told == answer


if __name__ == "__main__":
    PAGE.write_text(LISTS.sub(lambda _: lists(), TEXT), encoding="utf-8")

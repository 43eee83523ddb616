"""Every command can be learned from its help, and help is fast."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from serve.cli import main, output
from serve.cli.group import Commands

HERE = Path(__file__).parent.parent
HEAVY = {"pyarrow", "numpy", "dagster", "polars", "lancedb", "flask", "waitress", "rich", "litellm"}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        if isinstance(command := group.get_command(context, name), click.Group):
            yield from commands(command, (*path, name))


ALL = list(commands(main))


def named(path: tuple[str, ...]) -> click.Command:
    found: click.Command = main
    for name in path:
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), name)
        assert command is not None and command.name == name
        found = command
    return found


def help_of(*path: str) -> str:
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(path):
    text = help_of(*path)
    assert named(path).help
    assert "Example:" in text
    typed = path[1:] if path[0] in ("admin", "dev") and path[1:] else path
    assert "  mnemolog " + " ".join(typed) in text.partition("Example:")[2]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_says_what_it_does(path):
    options = [param for param in named(path).params if isinstance(param, click.Option)]
    assert [option.opts for option in options if not option.help] == []


@pytest.mark.parametrize(
    "path",
    [path for path in ALL if path[-1] not in ("import", "embedder", "backup", "admin", "dev")],
    ids=" ".join,
)
def test_every_command_speaks_json(path):
    assert "--json" in [name for param in named(path).params for name in param.opts]


def test_the_first_help_fits_a_screen_and_cuts_no_summary():
    lines = help_of().splitlines()
    assert 24 <= len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines[1:] if line.endswith("...")]
    assert "_MNEMOLOG_COMPLETE" in help_of()


@pytest.mark.parametrize("group", ["admin", "dev"])
def test_the_other_commands_are_listed_in_groups_and_run_under_their_old_names(group):
    assert not [line for line in help_of(group).splitlines()[1:] if line.endswith("...")]
    for path in ALL:
        if path[0] == group and len(path) == 2:
            assert f"\n  {path[1]} " in help_of(group)
            assert named(path) is named(path[1:])


def test_every_command_is_listed():
    assert isinstance(main, Commands)
    groups = ("admin", "dev")
    listed = {path[0] for path in ALL} | {path[1] for path in ALL if path[0] in groups and path[1:]}
    assert listed == main.names


def test_help_before_a_command_is_its_help():
    for path in [(), ("record",), ("plans", "show"), ("admin",)]:
        assert CliRunner().invoke(main, ["help", *path]).stdout == help_of(*path)


def test_minus_h_is_help_everywhere():
    for path in [(), ("record",), ("plans", "show"), ("admin",)]:
        assert CliRunner().invoke(main, [*path, "-h"]).stdout == help_of(*path)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("recal", "recall"), ("shwo", "show"), ("serch", "recall"), ("admin bild", "build")),
        *(("undo", "plans undo"), ("log", "timeline")),
    ],
)
def test_a_mistyped_command_is_answered_with_the_one_meant(typed, meant):
    result = CliRunner().invoke(main, typed.split())
    assert result.exit_code == 2
    assert f"Did you mean {meant!r}?" in result.stderr


def test_no_command_shows_the_help():
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0
    assert "Everyday:" in result.stdout


def test_help_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from serve.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    result = python("-c", script)
    loaded = {name.partition(".")[0] for name in result.stderr.split()}
    assert "click" in loaded
    assert loaded & (HEAVY | {"pipelines", "apsw"}) == set()
    assert "store.redaction.redact" not in result.stderr.split()


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_command_is_listed_by_the_first_sentence_of_its_help(path):
    group = named(path[:-1])
    assert isinstance(group, click.Group)
    if isinstance(group, Commands):
        first = named(path).get_short_help_str(1_000)
        assert group.summary(path[-1]) == first
        assert len(first) <= 67  # a line of help


def test_listing_the_commands_imports_none_of_them():
    result = python("-X", "importtime", "-m", "serve.cli", "--help")
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "serve.cli.group" in loaded
    assert loaded.isdisjoint({"serve.cli.ask", "serve.cli.transfer", "serve.cli.review"})


def test_the_installed_command_is_this_one():
    scripts = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["mnemolog"] == "serve.cli:main"


def test_the_shell_is_told_how_to_complete():
    done = python("-m", "serve.cli", _MNEMOLOG_COMPLETE="zsh_source")
    assert "#compdef mnemolog" in done.stdout
    done = python(
        "-m",
        "serve.cli",
        _MNEMOLOG_COMPLETE="zsh_complete",
        COMP_WORDS="mnemolog rec",
        COMP_CWORD="1",
    )
    assert {"recall", "record"} <= set(done.stdout.split())


def python(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(HERE)} | variables
    command = [sys.executable, "-P", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("widths", "room", "fitted"),
    [
        ([10, 8, 10, 20], 80, [10, 8, 10, 20]),
        ([6, 7, 10, 80, 200], 72, [6, 7, 10, 24, 25]),
        ([26, 10, 60], 60, [26, 10, 24]),
        ([26, 26, 26], 10, [10, 10, 10]),
    ],
)
def test_a_table_is_cut_in_its_widest_columns(widths, room, fitted):
    assert output.fit_widths(widths, room) == fitted


def test_recommendations_show_their_ids_and_reasons_at_80_columns(monkeypatch, capsys):
    monkeypatch.setattr(output, "PIPED_WIDTH", 80)
    output.table(
        ("id", "change", "memory", "because", "text"),
        [("7HQ2AB", "archive", "01KXB2M8Q4", "not recalled for 200 days " * 3, "The text " * 20)],
    )
    _, line = capsys.readouterr().out.splitlines()
    assert line.startswith("7HQ2AB  archive  01KXB2M8Q4  not recalled for 200")
    assert len(line) <= 80 and "The text" in line


def test_a_tables_columns_stay_aligned_and_each_row_is_a_line(monkeypatch, capsys):
    monkeypatch.setattr(output, "PIPED_WIDTH", 30)
    output.table(
        ("id", "text", "kind"),
        [("7HQ2AB", "we deploy\nat noon", "fact"), ("8KX1CD", "我们在中午部署" * 3, "fact")],
    )
    assert capsys.readouterr().out.splitlines() == [
        "id      text              kind",
        "7HQ2AB  we deploy at no…  fact",
        "8KX1CD  我们在中午部署…   fact",
    ]

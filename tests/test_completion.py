"""The completions on Tab, and how a project's short name is found."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from command_line import run, succeed

from serve.cli import main
from store.home.tenant import tenant
from store.log.event_log import EventLog

IDS = ("01KXB2M8Q4A7", "01KXB2M8Q4B3", "01KXB2M8Q5C1")
PROJECTS = ("github.com/encode/httpx", "acme/web", "other/web")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with three memories in three projects."""
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for id_, project in zip(IDS, PROJECTS, strict=True):
        result = run("record", f"Deploys of {project}", "--id", id_, "--project", project)
        assert result.exit_code == 0
    return tmp_path / "home"


def offered(*words: str) -> list[str]:
    """Return the completions for some words; the last one is still being typed."""
    found = ShellComplete(main, {}, "mnemolog", "_MNEMOLOG_COMPLETE")
    return [completion.value for completion in found.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("show", "01KXB2M8Q4"), [IDS[1], IDS[0]]),
        (("show", "01kx"), list(reversed(IDS))),
        (("list", "--project", "web"), ["other/web", "acme/web"]),
        (("list", "--project", "github"), ["github.com/encode/httpx"]),
        (("--tenant", "d"), ["default"]),
        (("connect", "cur"), ["cursor"]),
        (("connect", "codex", "cla"), ["claude-code"]),
        (("record", "x", "--kind", "dec"), ["decision"]),
        (("jobs", "run", "dist"), ["distill"]),
        (("bui",), ["build"]),
        (("plans", "show", ""), []),
    ],
    ids=" ".join,
)
def test_tab_offers_what_there_is(words, wanted):
    assert sorted(offered(*words)) == sorted(wanted)


def test_an_id_comes_with_its_text():
    found = ShellComplete(main, {}, "mnemolog", "_MNEMOLOG_COMPLETE")
    (one,) = found.get_completions(["show"], IDS[2])
    assert one.help == "Deploys of other/web"


def test_tab_offers_the_memories_of_the_tenant_and_home_that_were_typed(tmp_path):
    EventLog(tenant(tmp_path / "home", "team").log, create=True).close()
    succeed("--tenant", "team", "record", "A note", "--id", "01TEAM")
    assert offered("--tenant", "team", "show", "01") == ["01TEAM"]
    assert offered("--home", str(tmp_path / "none"), "show", "01") == []


def test_tab_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from serve.cli import main\n"
        "tab = ShellComplete(main, {}, 'mnemolog', '_MNEMOLOG_COMPLETE')\n"
        "assert tab.get_completions(['show'], '01')\n"
        "assert tab.get_completions(['list', '--project'], '')\n"
        "print(*sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert not loaded & {"pyarrow", "numpy", "flask", "dagster", "polars", "litellm", "rich"}


def test_the_end_of_a_projects_name_is_enough():
    result = run("list", "--project", "httpx", "--json")
    assert IDS[0] in result.stdout and IDS[1] not in result.stdout
    assert result.stderr == "note: the project is github.com/encode/httpx\n"


def test_a_short_name_of_two_projects_is_refused_with_both():
    result = run("list", "--project", "web")
    assert result.exit_code == 2
    assert "could be other/web, acme/web" in result.stderr


def test_what_is_written_may_name_a_new_project():
    succeed("record", "The first note of it", "--project", "brand-new")
    assert run("list", "--project", "brand-new").stderr == ""
    succeed("record", "A third web", "--project", "web")
    assert run("list", "--project", "web").stderr == ""

"""The caller of a command: only a person at a terminal makes a rule or accepts a proposal."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import NOW, ROOT
from folds import fold_events

from serve.cli import environment, main
from serve.cli.presence import (
    PERSON,
    VARIABLES,
    Presence,
    _linux_ancestors,
    _listed_ancestors,
    agent_program,
    find_presence,
    list_ancestors,
)
from serve.reader.memory_json import role
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Prompted, Recorded
from store.log.event_log import EventLog
from store.memories.memory import ACTIVE

AGENT, PROGRAM = Presence("agent", "Claude Code"), Presence("program")
RULE = "Never push to main by hand"
EVERYONE = ("user", "agent", "tool", "web")


def run(*words: str, typed: str | None = None) -> Any:
    result = CliRunner().invoke(main, [*words, "--json"], input=typed)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def roles(log: EventLog) -> dict[str, str]:
    """Return the role of each active memory, by its text."""
    rows = fold_events(log.read()).rows.values()
    return {row.content: role(row) for row in rows if row.state == ACTIVE}


@pytest.fixture
def as_whom(monkeypatch: pytest.MonkeyPatch) -> Callable[[Presence], None]:
    return lambda who: monkeypatch.setattr(environment, "presence", lambda: who)


# Detection


def above(*lines: str) -> Callable[[], list[list[str]]]:
    return lambda: [line.split() for line in lines]


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_of_a_host_means_an_agent_even_at_a_terminal(variable: str):
    assert find_presence({variable: "1"}, True, above()).author == "agent"


def test_without_a_terminal_a_program_runs_it():
    assert find_presence({}, False, above()) == PROGRAM


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/home/anna/.local/bin/claude --resume", "Claude Code"),
        ("claude", "Claude Code"),
        ("node --no-warnings /usr/local/bin/gemini -p hello", "Gemini CLI"),
        ("node /opt/lib/node_modules/@anthropic-ai/claude-code/cli.js", "Claude Code"),
        (r"C:\tools\codex.exe exec", "Codex"),
        ("/usr/bin/python3.12 /home/anna/.local/bin/aider", "aider"),
        ("python3 -m aider", "aider"),
    ],
)
def test_an_agent_above_runs_it_whatever_it_took_from_the_environment(line: str, name: str):
    assert find_presence({}, True, above("-zsh", line, "login")) == Presence("agent", name)


@pytest.mark.parametrize(
    "line",
    [
        "-zsh",
        "bash",
        "tmux new -s claude",
        "vim /home/anna/notes/gemini",
        "sh -c cd /srv/codex",
        "python3 /srv/codex/train.py",
        "/usr/share/code/code --type=renderer",
        "/opt/cursor/cursor",
        "sshd: anna@pts/0",
        "node /srv/claude/server.js",
        "",
    ],
)
def test_ordinary_programs_above_leave_a_person_a_person(line: str):
    words = line.split() or [""]
    assert agent_program(words) == ""
    settings = {"CURSOR_TRACE_ID": "1", "CLAUDE_CODE_SSE_PORT": "1", "CODEX_HOME": "/x"}
    assert find_presence(settings, True, lambda: [words]) == PERSON


def test_ancestors_are_read_from_proc(tmp_path: Path):
    for pid, parent, name, line in (
        (30, 20, "mnemolog) (x", b"mnemolog\0"),
        (20, 10, "sh", b"/bin/sh\0-c\0x y\0"),
        (10, 1, "claude", b"claude\0\0\0"),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1")
        (folder / "cmdline").write_bytes(line)
    assert [*_linux_ancestors(30, tmp_path)] == [["/bin/sh", "-c", "x y"], ["claude"]]
    assert not [*_linux_ancestors(99, tmp_path)]


def test_ancestors_are_read_from_what_ps_lists():
    listing = "  1 0 /sbin/launchd\n 10 1 claude --resume\n 20 10 -zsh\n 30 20 mnemolog\nodd\n"
    commands_ = [["-zsh"], ["claude", "--resume"], ["/sbin/launchd"]]
    assert [*_listed_ancestors(30, listing)] == commands_
    assert not [*_listed_ancestors(30, "")]


# The attack, by real processes: an agent's shell, and a person's terminal


def in_terminal(words: list[str], environ: Mapping[str, str]) -> int:
    """Run the program in a terminal of its own; return its exit code."""
    ours, its = pty.openpty()
    try:
        command = [sys.executable, "-m", "serve.cli", *words]
        completed = subprocess.run(
            command, stdin=its, stdout=its, stderr=its, env=environ, cwd=ROOT, timeout=120
        )
        return completed.returncode
    finally:
        os.close(its)
        os.close(ours)


@pytest.mark.skipif(
    sys.platform != "linux" or any(map(agent_program, list_ancestors(os.getpid(), "linux"))),
    reason="pseudo-terminals as Linux has them, and a person who runs the tests",
)
def test_an_agents_shell_makes_no_rule_and_a_person_at_a_terminal_does(
    tenant: Tenant, tmp_path: Path
):
    mine = dict(os.environ)
    shell = mine | {"CLAUDECODE": "1"}
    words = ["record", RULE, "--kind", "lesson", "--pin", "--trust", "user", "--no-project"]
    assert in_terminal([*words, "--id", "FORGED"], shell) == 0
    claude = tmp_path / "claude"
    claude.symlink_to(os.path.realpath("/bin/sh"))
    script = (
        f"{sys.executable} -m serve.cli {' '.join(words[:1])} '{RULE}' --kind lesson --id UNSET"
    )
    agent = f"cd {ROOT} && {script} --no-project; exit 0"
    ours, its = pty.openpty()  # without the variable, the parent process gives the agent away
    subprocess.run([claude, "-c", agent], stdin=its, stdout=its, stderr=its, env=mine, timeout=120)
    os.close(its), os.close(ours)
    assert in_terminal(["lessons", "accept", "FORGED"], shell) == 1
    with EventLog(tenant.log) as log:
        forged = [log.events_for(id_)[0] for id_ in ("FORGED", "UNSET")]
        assert [event.trust for event in forged] == ["agent", "agent"]
        assert isinstance(forged[0].body, Recorded) and not forged[0].body.pinned
        assert roles(log) == {RULE: "fact"}
        # the control
        assert in_terminal(["lessons", "accept", "FORGED"], mine) == 0
        assert in_terminal(["record", "Always run ruff", "--kind", "lesson"], mine) == 0
        trusts = [event.trust for event in log.read() if isinstance(event.body, Recorded)]
        assert trusts == ["agent", "agent", "user", "user"]
        assert (forged[0].author, [*log.read()][-1].author) == ("agent", "typed")


# Every command that needs a person, and the commands that need none


@pytest.mark.parametrize("who", [AGENT, PROGRAM])
@pytest.mark.parametrize(
    "words",
    [
        ("lessons", "accept", "A"),
        ("recommendations", "accept", "A"),
        ("plans", "apply", "A"),
        ("consolidate", "apply", "A"),
        ("pin", "A"),
        ("restore", "A"),
        ("quarantine", "--release", "--all"),
        ("project", "allow", "--yes"),
    ],
)
def test_only_a_person_can_accept_a_lesson(
    log: EventLog, as_whom: Callable[[Presence], None], who: Presence, words: tuple[str, ...]
):
    commands.record(log, Draft(id="A", content=RULE, kind="lesson", trust="agent"), NOW)
    head = log.head()
    as_whom(who)
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 1, result.output
    assert "needs a person" in result.output and "dashboard" in result.output
    assert log.head() == head


def test_a_program_records_and_an_agent_forgets_as_themselves(
    log: EventLog, as_whom: Callable[[Presence], None]
):
    as_whom(PROGRAM)
    lines = '{"text": "Never edit the lock file", "kind": "antipattern", "trust": "user"}\n'
    batch = run("record", "--batch", typed=lines)
    as_whom(AGENT)
    fact = run("record", "We deploy from eu-west-1", "--no-project")
    run("rate", fact["id"], "useful")
    run("forget", fact["id"])
    trusts = {
        event.trust for event in log.events_between(("recorded", "rated", "forgotten"), 0, 1 << 62)
    }
    assert trusts == {"agent"} and batch["memories"][0]["new"]
    recorded = [event.author for event in log.read() if isinstance(event.body, Recorded)]
    assert recorded == ["program", "agent"]
    assert set(roles(log).values()) == {"fact"}


def test_an_import_in_an_agents_shell_brings_no_rules_and_by_a_person_it_does(
    log: EventLog, as_whom: Callable[[Presence], None], tmp_path: Path
):
    notes = tmp_path / "rules.md"
    notes.write_text("# Rules\n\n- Never force-push to main\n")
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"id": "J", "content": RULE, "kind": "lesson", "trust": "user"}))
    queued = tmp_path / "queued.jsonl"
    queued.write_text(json.dumps({"id": "Q", "content": "Always sign tags", "kind": "lesson"}))
    as_whom(AGENT)
    run("import", "markdown", "--mine", str(notes))
    run("import", "jsonl", str(lines))
    run("ingest", "add", str(queued))
    assert {event.trust for event in log.read()} == {"agent"}
    as_whom(PERSON)
    lines.write_text(lines.read_text().replace('"J"', '"K"'))
    run("import", "jsonl", str(lines))
    assert log.events_for("K")[0].trust == "user"


CHAT = f"""
# aider chat started at 2026-09-01 10:00:00

#### From now on {RULE.lower()}.@@

Understood.
"""


@pytest.mark.parametrize(("is_repository", "statements"), [(True, 0), (False, 1)])
def test_a_chat_history_in_a_repository_is_quoted_and_creates_no_statements(
    log: EventLog, tmp_path: Path, is_repository: bool, statements: int
):
    folder = tmp_path / "clone"
    (folder / ".git" if is_repository else folder).mkdir(parents=True)
    history = folder / ".aider.chat.history.md"
    history.write_text(CHAT.replace("@@", "  "))  # Aider ends user lines with two spaces
    run("import", "aider", str(history))
    bodies = [event.body for event in log.read()]
    statements_ = [
        body for body in bodies if isinstance(body, Recorded) and body.kind == "statement"
    ]
    assert sum(isinstance(body, Prompted) for body in bodies) == 1
    assert len(statements_) == statements


# The status of an agent's lesson


@pytest.mark.parametrize("trust", EVERYONE)
def test_only_lessons_of_the_user_are_rules(log: EventLog, trust: Any):
    commands.record(log, Draft(id="A", content=RULE, kind="lesson", trust=trust), NOW)
    assert roles(log) == {RULE: "rule" if trust == "user" else "fact"}


def test_an_agents_lesson_waits_and_binds_once_a_person_accepts_it(log: EventLog):
    commands.record(log, Draft(id="A", content=RULE, kind="antipattern", trust="agent"), NOW)
    (waiting,) = run("lessons")["drafts"]
    assert (waiting["id"], waiting["kind"]) == ("A", "antipattern")
    (lesson,) = run("lessons", "accept", "A")["memories"]
    assert roles(log) == {RULE: "rule"} and not run("lessons")["drafts"]
    assert run("show", "A")["superseded_by"] == lesson["id"]

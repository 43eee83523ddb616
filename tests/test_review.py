"""Pending items are decided one at a time: on a terminal by answers, else by printed commands."""

import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import drafts
import pytest
from click.testing import CliRunner

from serve.cli import main
from serve.cli.review import word_diff
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Planned, Step
from store.log.event_log import EventLog
from store.plans import plans, proposals

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EventLog:
    """A log of today with two drafts, a plan and a conflict, all pending."""
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    now = time.time_ns() // 1000
    log = EventLog(tenant(tmp_path / "home", "default").log, create=True)
    log.append([drafts.draft("Always run the linter first", "lesson", now)])
    log.append([drafts.draft("Never deploy on a Friday", "lesson", now + 1)])
    old = commands.record(log, Draft(content="The API listens on port 8080"), now).event.id
    new = commands.record(log, Draft(content="The API listens on port 9090"), now + 2).event.id
    step = Step(
        event="superseded",
        subject=old,
        body={"by": new},
        why="the newer one is right",
        before={"content": "The API listens on port 8080"},
        evidence={"by_says": "The API listens on port 9090"},
    )
    plans.propose(log, Planned(job="consolidate", watermark=log.head(), steps=(step,)), now + 3)
    return log


def converse(answers: dict[str, str], editor: str) -> str:
    """Run `review` on a terminal and answer each question by its text; return the whole output."""
    import pty

    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "serve.cli", "review"],
        stdin=its,
        stdout=its,
        stderr=its,
        env=os.environ | {"PYTHONPATH": str(ROOT), "EDITOR": editor, "NO_COLOR": "1"},
    )
    os.close(its)
    words, answered = "", 0
    while select.select([ours], [], [], 60)[0]:
        try:
            words += os.read(ours, 65_536).decode()
        except OSError:  # the process has ended
            break
        questions = words[answered:]
        if questions.endswith(": "):
            word = next((word for text, word in answers.items() if text in questions), "")
            os.write(ours, f"{'' if 'may be empty' in questions else word}\n".encode())
            answered = len(words)
    os.close(ours)
    assert process.wait(60) == 0
    return words


def states(log: EventLog) -> dict[str, str]:
    return {proposal.title: proposal.state for proposal in proposals.every(log)}


def test_without_a_terminal_it_prints_what_waits_and_how_to_act(log):
    result = CliRunner().invoke(main, ["review"])
    assert result.exit_code == 0
    assert "Always run the linter first" in result.stdout
    assert "The API listens on port [-8080-]{+9090+}" in result.stdout
    commands_ = re.findall(r"\$ mnemolog (\S+) (\S+) (\S+)", result.stdout)
    verbs = {(command, verb) for command, verb, _ in commands_}
    assert verbs >= {("plans", "apply"), ("plans", "reject"), ("lessons", "accept")}
    (apply,) = [call for call in commands_ if call[:2] == ("plans", "apply")]
    assert CliRunner().invoke(main, apply).exit_code == 0
    assert states(log)["consolidate: 1 replaced"] == "accepted"


def test_what_waits_is_json_for_programs(log):
    payload = json.loads(CliRunner().invoke(main, ["review", "--json"]).stdout)
    assert [proposal["sort"] for proposal in payload["proposals"]] == ["lesson", "lesson", "plan"]
    only = json.loads(CliRunner().invoke(main, ["review", "--json", "--only", "plan"]).stdout)
    assert [proposal["sort"] for proposal in only["proposals"]] == ["plan"]
    assert only["conflicts"] == []


def test_an_empty_memory_has_nothing_to_review(tmp_path, monkeypatch):
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "other"))
    assert CliRunner().invoke(main, ["record", "One thing only"]).exit_code == 0
    assert CliRunner().invoke(main, ["review"]).stdout == "nothing waits for your decision\n"


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal of its own")
def test_on_a_terminal_each_is_accepted_edited_or_rejected(log, tmp_path):
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys, pathlib\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('linter', 'formatter'))\n"
    )
    words = converse(
        {"linter": "edit", "Friday": "reject", "8080": "accept"}, f"{sys.executable} {editor}"
    )
    assert "a conflict that an answer before has changed" in words
    assert "1 edited" in words and "1 rejected" in words and "1 accepted" in words
    assert states(log) == {
        "Always run the linter first": "rejected",
        "Never deploy on a Friday": "rejected",
        "consolidate: 1 replaced": "accepted",
    }
    texts = json.loads(CliRunner().invoke(main, ["list", "--json"]).stdout)["memories"]
    assert "Always run the formatter first" in [text["text"] for text in texts]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("on port 8080 now", "on port 9090 now", "on port [-8080-]{+9090+} now"),
        ("a b", "a b c", "a b{+ c+}"),
        (None, "new", "+ new"),
        ("old", None, "- old"),
    ],
)
def test_both_sides_are_shown_word_by_word(before, after, shown):
    assert word_diff(before, after) == shown

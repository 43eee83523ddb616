"""
Stories of developers' days, played by the real agents: the blocks that the next session gets.

A turn's prompt goes to the agent, the API of the tests plays its tools, its commands write their
output in the story. No agent calls a tool of the memory. Then a probe is the first prompt of a new
session: `pytest -s` prints the blocks that reached the model, as docs/prompts.md shows them.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.agents import CLAUDE_CODE, CODEX, Agent
from hosts.desk import Desk, blocks
from hosts.mock_models import JSON, Script

from store.text.frame import CLOSING, OPENING

STORIES = Path(__file__).parents[1] / "data" / "stories"
LIFE = Path(__file__).parents[1] / "data" / "ten_sessions.json"
# the same on any machine, and harmless in a scratch repository; all others get a stand-in
PLAIN = frozenset("cat echo grep head ls sort tail wc".split())
LEFT_OUT = frozenset("bash chmod cp env git mv node python python3 rm sed sh sudo".split())
# prints this command's output in the story, the first time and the next
STAND_IN = """#!/usr/bin/env python3
import json, os, sys
answers = json.load(open({file!r}))
said = os.path.basename(sys.argv[0]) + " " + " ".join(sys.argv[1:])
wrote, code = (answers.get(said) or [["", 0]]).pop(0)
json.dump(answers, open({file!r}, "w"))
print(wrote)
sys.exit(code)
"""


@pytest.mark.parametrize("settled", [CLAUDE_CODE, CODEX], indirect=True, ids=lambda hook: hook.host)
@pytest.mark.parametrize(
    ("name", "probe"), [("quarry", "quarry-x17"), ("halyard", "halyard-x04")], ids=str
)
def test_what_a_new_session_needs_of_a_story_reaches_the_model(
    desk: Desk, agent: Agent, name: str, probe: str
) -> None:
    story = json.loads((STORIES / f"{name}.json").read_text(encoding="utf-8"))
    desk.repository()
    desk.mnemolog("start")
    for session in story["sessions"]:
        for _ in _told_at_turns(desk, agent, name, session["turns"]):
            pass
        desk.mnemolog("build", "--quick")  # as an idle server does
    question = next(other for other in story["probes"] if other["id"] == probe)
    desk.models.script = Script()
    agent.ask(desk, question["prompt"])
    texts = blocks(desk.models.requests[-1])
    print(f"\n{agent.host}, {name}: {question['prompt']}\n", *texts, sep="\n")
    brief, block = texts
    assert "The last session, its end first:" in brief
    assert all(text.startswith(OPENING) and text.endswith(CLOSING) for text in (brief, block))
    lowered = block.lower()
    assert any(all(word.lower() in lowered for word in need) for need in question["needs"])


@pytest.mark.parametrize("settled", [CLAUDE_CODE, CODEX], indirect=True, ids=lambda hook: hook.host)
def test_the_tenth_session_of_a_life_is_told_what_holds_and_where_it_left_off(
    desk: Desk, agent: Agent
) -> None:
    life = json.loads(LIFE.read_text(encoding="utf-8"))
    desk.repository()
    desk.mnemolog("start")
    *lived, last = life["sessions"]
    for session in lived:
        for _ in _told_at_turns(desk, agent, life["name"], session["turns"]):
            pass
        desk.mnemolog("build", "--quick")
    prompts = [turn["prompt"] for turn in last["turns"]]
    texts = list(_told_at_turns(desk, agent, life["name"], last["turns"]))
    for prompt, new in zip(prompts, texts, strict=True):
        print(f"\n{agent.host}: {prompt}", *new, sep="\n")
    go_on, locked, release, live = ("\n".join(new) for new in texts)
    assert "never pip install" in go_on  # of the first session
    assert "the column of the vehicle" in go_on  # not the question about range
    assert "BEGIN IMMEDIATE" in go_on + locked
    assert "ferry-stage-2" in release
    assert "ask Maren first" in live


def _told_at_turns(
    desk: Desk, agent: Agent, name: str, turns: list[dict[str, Any]]
) -> Iterator[list[str]]:
    """Play the turns of one session; yield the new blocks of each."""
    after, before = "", set[str]()
    for turn in turns:
        tools = tuple(_played(desk, agent, name, turn["steps"]))
        desk.models.script = Script(tools, turn["final"])
        options = ("--allowedTools", "Bash,Write") if agent is CLAUDE_CODE else ()
        completed = agent.ask(desk, turn["prompt"], *options, after=after)
        assert completed.code == 0, completed.err
        after = after or agent.session(completed)
        texts = blocks(desk.models.requests[-1])
        yield [block for block in texts if block not in before]
        before.update(texts)


def _played(
    desk: Desk, agent: Agent, name: str, steps: list[dict[str, Any]]
) -> Iterator[tuple[str, JSON]]:
    """Yield a turn's tools that can be used here: commands, and the first write of each file."""
    for step in steps:
        if step["tool"] == "Bash":
            command = step["input"]["command"]
            if _stand_in(desk, command, step["output"], 0 if step["ok"] else 1):
                yield agent.shell(command)
        elif step["tool"] in ("Edit", "Write"):
            path = step["input"]["file_path"].rpartition(f"/{name}/")[2].lstrip("/")
            file = desk.repository() / path
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                text = step["input"].get("content") or step["input"].get("new_string", "")
                yield _writes(agent, file, path, text)


def _writes(agent: Agent, file: Path, path: str, text: str) -> tuple[str, JSON]:
    if agent is CLAUDE_CODE:
        return "Write", {"file_path": str(file), "content": text}
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return "apply_patch", {
        "input": f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
    }


def _stand_in(desk: Desk, command: str, wrote: str, code: int) -> bool:
    """Make programs that answer a command line as in the story; return True if that is possible."""
    try:
        parts = [shlex.split(part) for part in re.split(r"&&|\|\||[|;]", command)]
    except ValueError:  # a quoted bar or semicolon
        return False
    programs = [part[0] for part in parts if part]
    if any(
        Path(program).name in LEFT_OUT or program.startswith("/") or "=" in program
        for program in programs
    ):
        return False
    commands = [words for words in parts if words and words[0] not in PLAIN]
    for words in commands:
        is_here = "/" in words[0]
        file = (desk.repository() if is_here else desk.folder / "bin") / words[0]
        file.parent.mkdir(parents=True, exist_ok=True)
        answers = desk.folder / "answers.json"
        if not answers.exists():
            answers.write_text("{}")
        file.write_text(STAND_IN.format(file=str(answers)))
        file.chmod(0o755)
    if commands:  # the last one writes the story's output
        answers_ = json.loads(answers.read_text())
        title = f"{Path(commands[-1][0]).name} {' '.join(commands[-1][1:])}"
        answers_.setdefault(title, []).append([wrote, code])
        answers.write_text(json.dumps(answers_))
    return True

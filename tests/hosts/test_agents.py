"""The memory for a user of any agent: the real programs, and the context that reaches the model."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import background
import pytest
from hosts.agents import CLAUDE_CODE, CODEX, GEMINI, Agent
from hosts.desk import ASKED, FACT, Desk, blocks
from hosts.mock_models import Script, parts

from serve.hosts import HOSTS
from store.log.event_kinds import Acted, Followed, Outcome, SessionTold

_ASKING = re.compile(r"(\w+): which one is")  # some put a prompt into a frame
RULE = "Use pnpm here, never npm: the lock file is pnpm's"


def test_what_is_known_of_a_prompt_reaches_the_model_and_small_talk_brings_the_brief_alone(
    desk: Desk, agent: Agent
) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    assert agent.ask(desk, ASKED).code == 0
    assert agent.ask(desk, "thanks, that was great!").code == 0
    first, idle = desk.models.requests
    assert [block.count(FACT) for block in blocks(first)] == [1]
    (brief,) = blocks(idle)
    assert "The last session, its end first:" in brief
    assert FACT not in brief
    connected = f"{HOSTS[agent.host].title} is connected, and its hooks arrive"
    assert connected in desk.mnemolog("doctor")


def test_a_new_session_is_told_what_its_project_decided(desk: Desk, agent: Agent) -> None:
    desk.record("The tax rates come from the ledger service", "--kind", "decision")
    desk.mnemolog("start")
    agent.ask(desk, "hello!")
    assert ["The tax rates" in block for block in blocks(desk.models.requests[0])] == [True]


@pytest.mark.parametrize("command", ["start", "stop"])
def test_each_of_four_sessions_at_once_is_told_of_its_own_project(
    desk: Desk, agent: Agent, command: str
) -> None:
    names = ["alpha", "beta", "gamma", "delta"]
    desk.fill()
    for name in names:
        text = f"The staging database of this service is db-{name}-9 behind the old proxy"
        desk.record(text, cwd=desk.repository(name))
    desk.mnemolog(command)

    def ask(name: str) -> int:
        prompt = f"{name}: which one is the staging database of this service?"
        return agent.ask(desk, prompt, cwd=desk.repository(name)).code

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, names)) == [0] * 4
    outputs = {}
    for request in desk.models.requests:
        (name,) = {question for _, text in parts(request) for question in _ASKING.findall(text)}
        joined = "".join(blocks(request))
        outputs[name] = [other for other in names if f"db-{other}-9" in joined]
    assert outputs == {name: [name] for name in names}


def test_without_a_server_a_prompt_is_answered_and_the_next_one_finds_a_server(
    desk: Desk, agent: Agent
) -> None:
    desk.record(FACT)
    assert desk.server is None
    assert agent.ask(desk, ASKED, servers=False).code == 0
    background.until(lambda: desk.server)
    assert agent.ask(desk, ASKED, servers=False).code == 0
    cold, warm = map(blocks, desk.models.requests)
    brief, *of_prompt = warm
    assert cold == of_prompt
    assert [block.count(FACT) for block in cold] == [1]
    assert ASKED in brief


def test_a_server_that_ends_during_a_session_holds_up_nothing(desk: Desk, agent: Agent) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    desk.models.meanwhile = lambda: desk.mnemolog("stop")
    desk.models.script = Script((agent.shell("echo done"),))
    completed = agent.ask(desk, ASKED)
    assert completed.code == 0
    assert "FINAL-ANSWER" in completed.out
    assert len(desk.models.requests) == 2


def test_the_longest_notes_are_cut_and_their_block_arrives_whole(desk: Desk, agent: Agent) -> None:
    desk.fill()
    for place in ("Oslo", "Lima"):
        shelves = (f"shelf {number} is for {place[::-1]}{number}" for number in range(25))
        desk.record(f"The warehouse of {place} is laid out like this: {', '.join(shelves)}")
    desk.mnemolog("start")
    agent.ask(desk, "how is the warehouse laid out, which shelf is for what?")
    (block,) = blocks(desk.models.requests[0])
    notes = [json.loads(line) for line in block.splitlines() if line.startswith("{")]
    assert 1 <= len(notes) <= 2
    assert all(note["fact"].endswith("...") and len(note["fact"]) <= 600 for note in notes)


def test_a_rule_is_said_once_before_a_command_that_breaks_it(desk: Desk, agent: Agent) -> None:
    desk.program("npm", "echo nothing is installed")
    desk.record(RULE, "--kind", "preference")
    desk.mnemolog("start")
    desk.models.script = Script((agent.shell("npm install lodash"), agent.shell("npm install ms")))
    agent.ask(desk, "go on with what you were doing")
    rules = [[RULE in block for block in blocks(request)] for request in desk.models.requests]
    assert rules == [[True], [True, True], [True, True]]  # the project's brief, and the command


def test_what_an_agent_does_is_kept(desk: Desk, agent: Agent) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    desk.models.script = Script((agent.shell("echo 1"), agent.shell("exit 3"), agent.recall(ASKED)))
    session = agent.session(agent.ask(desk, "go on with what you were doing"))
    acted = [event.body for event in desk.events(session, Acted)]
    stages = [event.body.stage for event in desk.events(session, SessionTold)]
    acts = [("run", "echo 1"), ("run", "exit 3"), ("recall", None)]
    assert [(act.doing, act.command) for act in acted] == acts
    passed = [True, False] if agent.tells else [None, None]
    assert [act.passed for act in acted if act.command] == passed
    assert stages == ["started", "stopped", "ended"]


def test_when_an_agent_stops_its_turn_is_judged(desk: Desk, agent: Agent) -> None:
    desk.program("npm", "echo nothing is installed")
    desk.program("pytest", "echo 3 passed")
    desk.record(RULE, "--kind", "preference")
    desk.mnemolog("start")
    ran = ("npm install ms", "npm install lodash", "pytest -q")
    desk.models.script = Script(tuple(map(agent.shell, ran)))
    prompt = "add the package ms. From now on always run the linter before you commit."
    session = agent.session(agent.ask(desk, prompt))
    assert [event.body.verdict for event in desk.events(session, Followed)] == ["ignored"]
    assert [event.body.effort for event in desk.events(session, Outcome)] == ["test"]
    assert "always run the linter before you commit" in desk.mnemolog("lessons")


def test_a_session_taken_up_again_is_told_only_what_came_since(desk: Desk, agent: Agent) -> None:
    desk.program("pytest", "echo 3 passed")
    desk.record(RULE, "--kind", "preference")
    desk.mnemolog("start")
    desk.models.script = Script((agent.shell("pytest -q"),))
    session = agent.session(agent.ask(desk, "find out whether the tests pass"))
    desk.models.script = Script()
    agent.ask(desk, "go on", after=session)
    # kept by the host from the session's first start, or told again
    assert "".join(blocks(desk.models.requests[-1])).count(RULE) == 1
    desk.record("The tax rates come from the ledger service", "--kind", "decision")
    agent.ask(desk, "go on", after=session)
    context = "".join(blocks(desk.models.requests[-1]))
    assert context.count(RULE) == context.count("The tax rates") == 1
    assert "find out whether" not in context


def test_our_tools_are_there_and_what_recall_finds_reaches_the_model(
    desk: Desk, agent: Agent
) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    desk.models.script = Script((agent.recall(ASKED),))
    assert agent.ask(desk, "hello!").code == 0
    first, second = map(json.dumps, desk.models.requests)
    names = "recall remember remember_batch get_memory update_memory forget recent goals".split()
    assert not [name for name in names if name not in first]
    assert FACT not in first
    assert FACT in second


@pytest.mark.parametrize("writer, reader", [(CLAUDE_CODE, CODEX), (CODEX, CLAUDE_CODE)])
def test_what_one_agent_remembers_the_other_is_told(
    desk: Desk, writer: Agent, reader: Agent
) -> None:
    for agent in (writer, reader):
        agent.set_up(desk)
    desk.mnemolog("connect", writer.host, reader.host, "--yes")
    desk.mnemolog("start")
    desk.models.script = Script(((writer.tool.format("remember"), {"content": FACT}),))
    writer.ask(desk, "remember where the invoices go")
    desk.models.script = Script()
    reader.ask(desk, ASKED)
    brief, block = blocks(desk.models.requests[-1])
    assert "remember where the invoices go" in brief
    assert block.count(FACT) == 1


@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_a_command_that_a_rule_of_the_users_forbids_does_not_run_where_it_is_enforced(
    desk: Desk, agent: Agent, decision: str
) -> None:
    if (agent, decision) == (GEMINI, "ask"):
        pytest.skip("with nobody there Gemini CLI waits for an answer without end")
    desk.program("npm", 'echo ran >> "$HOME/ran"')
    desk.choose(enforce=decision)
    desk.record(RULE, "--kind", "preference")
    desk.mnemolog("start")
    desk.models.script = Script((agent.shell("npm install lodash"),) * 2)
    assert agent.ask(desk, "go on with what you were doing").code == 0
    ran = (desk.folder / "ran").exists()
    assert ran == (decision not in agent.enforces)
    if decision == "deny" and not ran:  # the model gets the reason, each time, and goes on
        last = json.dumps(desk.models.requests[-1], ensure_ascii=False)
        assert last.count(f"the user's own rule: “{RULE}”") == 2
        assert "FINAL-ANSWER" in desk.models.script.text


def test_disconnected_after_use_what_was_there_before_is_left(desk: Desk, settled: Agent) -> None:
    before = _files(desk, settled)
    desk.mnemolog("connect", settled.host, "--yes")
    settled.ask(desk, "hello!")
    desk.mnemolog("disconnect", settled.host, "--yes")
    after = _files(desk, settled)
    written = after.pop(".claude.json", "{}")  # Claude Code's own state
    assert after == before
    assert "mnemolog" not in written


def _files(desk: Desk, agent: Agent) -> dict[str, str]:
    files = {name: desk.folder / name for name in agent.files}
    return {name: file.read_text() for name, file in files.items() if file.exists()}

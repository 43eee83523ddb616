"""What a user of either agent sees of the memory: the real programs, and what reaches the model."""

import json
from concurrent.futures import ThreadPoolExecutor

import background
from hosts.agents import Agent
from hosts.desk import Desk, blocks
from hosts.mock_models import Script, parts

from store.agent_events import Acted, SessionTold
from store.events import Event

FACT = "The invoices of the shop are archived in the bucket acme-ledger-7 after ninety days"
ASKED = "in which bucket are the invoices archived?"
RULE = "Use pnpm here, never npm: the lock file is pnpm's"


def test_what_is_known_of_a_prompt_reaches_the_model_and_small_talk_brings_nothing(
    desk: Desk, agent: Agent
) -> None:
    desk.record(FACT)
    asked, thanked = agent.ask(desk, ASKED), agent.ask(desk, "thanks, that was great!")
    assert (asked.code, thanked.code) == (0, 0)
    known, nothing = desk.models.requests
    assert [block.count(FACT) for block in blocks(known)] == [1]
    assert blocks(nothing) == []


def test_a_new_session_is_told_what_its_project_decided(desk: Desk, agent: Agent) -> None:
    desk.record("The tax rates come from the ledger service", "--kind", "decision")
    agent.ask(desk, "hello!")
    assert ["The tax rates come" in block for block in blocks(desk.models.requests[0])] == [True]


def test_each_of_four_sessions_at_once_is_told_of_its_own_project(desk: Desk, agent: Agent) -> None:
    names = ["alpha", "beta", "gamma", "delta"]
    for name in names:
        text = f"The staging database of this service is db-{name}-9 behind the old proxy"
        desk.record(text, cwd=desk.repository(name))

    def ask(name: str) -> int:
        prompt = f"{name}: which one is the staging database of this service?"
        return agent.ask(desk, prompt, cwd=desk.repository(name)).code

    desk.mnemolog("start")
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, names)) == [0] * 4
    told = {}
    for request in desk.models.requests:
        asked = next(text for _, text in parts(request) if ": which one is" in text)
        told[asked.partition(":")[0]] = "".join(blocks(request))
    found = {name: [other for other in names if f"db-{other}-9" in told[name]] for name in names}
    assert found == {name: [name] for name in names}


def test_without_a_server_the_prompt_goes_on_and_the_next_one_finds_a_server(
    desk: Desk, agent: Agent
) -> None:
    desk.record(FACT)
    desk.mnemolog("stop")
    cold = agent.ask(desk, ASKED)
    background.until(lambda: desk.server)
    warm = agent.ask(desk, ASKED)
    assert (cold.code, warm.code) == (0, 0)
    first, second = map(blocks, desk.models.requests)
    print("cold:", first)
    assert first in ([], second)  # in time, or silent
    assert [block.count(FACT) for block in second] == [1]


def test_a_server_that_ends_during_a_session_holds_up_nothing(desk: Desk, agent: Agent) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    desk.models.meanwhile = lambda: desk.mnemolog("stop") and None
    desk.models.script = Script(tools=(agent.shell("true"),))
    done = agent.ask(desk, ASKED)
    assert done.code == 0
    assert "FINAL-ANSWER" in done.out
    print(done.err)


def test_a_block_near_the_limit_of_size_arrives_whole(desk: Desk, agent: Agent) -> None:
    desk.choose(top_k=40)
    for place in "Oslo Lima Kyiv Bern Rome Baku Doha Riga Lomé Cork Graz Nice Pisa Linz".split():
        parts_ = (
            f"shelf {number} of {place} is for {place.lower()[::-1]}{number}"
            for number in range(20)
        )
        desk.record(f"The warehouse of {place} is laid out like this: {', '.join(parts_)}")
    agent.ask(desk, "how is the warehouse laid out, which shelf is for what?")
    (block,) = blocks(desk.models.requests[0])
    size = len(block.encode())
    print(size)
    assert 8_000 < size <= 9_000
    assert all(json.loads(line)["text"] for line in block.splitlines() if line.startswith("{"))


def test_a_rule_is_said_before_a_command_that_breaks_it_and_what_was_done_is_kept(
    desk: Desk, agent: Agent
) -> None:
    desk.program("npm", "echo nothing is installed")
    rule = desk.record(RULE, "--kind", "preference")
    desk.models.script = Script((agent.shell("npm install lodash"), agent.shell("npm install ms")))
    done = agent.ask(desk, "go on with what you were doing")
    said = [sum(RULE in block for block in blocks(one)) for one in desk.models.requests]
    print(said)
    assert said[1] - said[0] == 1
    assert said[2] == said[1]
    assert rule
    session = agent.session(done)
    acted = [one.body.command for one in desk.events(session, Acted)]
    assert acted == ["npm install lodash", "npm install ms"]
    stages = [_stage(one) for one in desk.events(session, SessionTold)]
    print(stages)
    assert stages[0] == "started" and stages[-1] == "ended"


def _stage(event: Event) -> str:
    return event.body.stage


def test_a_session_taken_up_again_is_told_what_it_did(desk: Desk, agent: Agent) -> None:
    desk.models.script = Script((agent.shell("echo 4711"),))
    first = agent.ask(desk, "find out the number of the invoice")
    before = len(desk.models.requests)
    desk.models.script = Script()
    agent.ask(desk, "go on", after=agent.session(first))
    (digest,) = blocks(desk.models.requests[before])
    print(digest)
    assert "find out the number of the invoice" in digest


def test_the_tools_of_the_memory_are_there_and_what_recall_finds_reaches_the_model(
    desk: Desk, agent: Agent
) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    desk.models.script = Script((("mcp__mnemolog__recall", {"query": ASKED}),))
    done = agent.ask(desk, "hello!")
    assert done.code == 0
    first, second = desk.models.requests
    print([t.get("name") for t in first["tools"]])
    print(json.dumps(second["messages" if "messages" in second else "input"][-3:]))
    assert FACT not in json.dumps(first)
    assert FACT in json.dumps(second["messages" if "messages" in second else "input"][-1])


def test_disconnected_after_use_what_was_there_before_is_left(desk: Desk, settled: Agent) -> None:
    before = _files(desk, settled)
    desk.mnemolog("connect", settled.host, "--yes")
    settled.ask(desk, "hello!")
    desk.mnemolog("disconnect", settled.host, "--yes")
    after = _files(desk, settled)
    # the one thing that stays is what Claude Code wrote of itself
    kept = after.pop(".claude.json", "")
    assert after == before
    assert "mnemolog" not in kept


def _files(desk: Desk, agent: Agent) -> dict[str, str]:
    files = {name: desk.folder / name for name in agent.files}
    return {name: file.read_text() for name, file in files.items() if file.exists()}

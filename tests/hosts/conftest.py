"""Fixtures of the tests with real agents. `make hosts` installs the programs and runs the tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.agents import AGENTS, CLAUDE_CODE, CODEX, Agent
from hosts.desk import PROGRAMS, Desk
from hosts.mock_models import Models


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A user's machine; its processes end with the test."""
    if not PROGRAMS.is_dir():
        pytest.skip("the agents are not installed: run `make hosts`")
    folder = tmp_path / "user"
    folder.mkdir()
    with Models() as models:
        desk = Desk.at(folder, models)
        yield desk
        desk.end()


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.host)
def settled(request: pytest.FixtureRequest, desk: Desk) -> Agent:
    """An agent with its user's settings."""
    chosen: Agent = request.param
    chosen.set_up(desk)
    return chosen


@pytest.fixture
def agent(desk: Desk, settled: Agent) -> Agent:
    """An agent that its user connected."""
    return connected(desk, settled)


@pytest.fixture
def claude(desk: Desk) -> Agent:
    CLAUDE_CODE.set_up(desk)
    return connected(desk, CLAUDE_CODE)


@pytest.fixture
def codex(desk: Desk) -> Agent:
    CODEX.set_up(desk)
    return connected(desk, CODEX)


def connected(desk: Desk, agent: Agent) -> Agent:
    desk.mnemolog("connect", agent.host, "--yes")
    return agent

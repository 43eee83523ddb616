"""
Jobs that use Claude Code and Codex as a model: the real programs, their requests and leftovers.

The user of these tests connected both to the memory, and has personal rules, skills, hooks, MCP
servers and an output style: nothing of it may reach a request.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hosts.agents import CLAUDE_CODE, CODEX, Agent
from hosts.desk import FACT, PROGRAMS, Desk
from hosts.mock_models import JSON, parts

from pipelines.llm.model_client import dialect_of
from store.home import tenant
from store.home.model_programs import program_of
from store.log.event_kinds import Called
from store.log.event_log import EventLog

MARK = "THE-USERS-OWN"
SCORE = '{"scores": [{"n": 1, "importance": 0.9}]}'


@dataclass(frozen=True)
class Case:
    """A desk whose jobs ask one program; `agent` is the same program as its user runs it."""

    desk: Desk
    agent: Agent

    @property
    def name(self) -> str:
        return self.agent.host

    def importance(self, *words: str) -> str:
        """Run the job that asks a model for one memory's importance; return its output."""
        return self.desk.mnemolog("importance", *words)

    @property
    def calls(self) -> list[Called]:
        self.desk.mnemolog("stop")
        with EventLog(tenant.tenant(self.desk.memory).log) as log:
            return [event.body for event in log.job_events(("called",))]

    @property
    def request(self) -> JSON:
        (bare,) = self.desk.models.bare
        return bare


def use(desk: Desk, agent: Agent) -> Case:
    """Return a desk whose jobs ask an agent that its user has set up and connected."""
    for name in ("claude", "codex"):
        (desk.folder / "bin").mkdir(exist_ok=True)
        (desk.folder / "bin" / name).symlink_to(PROGRAMS / name)
    agent.set_up(desk)
    desk.mnemolog("connect", agent.host, "--yes")
    (furnish_claude if agent is CLAUDE_CODE else furnish_codex)(desk)
    for name in ("CLAUDE.md", "AGENTS.md"):
        (desk.repository() / name).write_text(MARK)
    with open(desk.memory / "config.toml", "a") as file:
        file.write(f'[llm]\ncheap = "{agent.host}"\n')
    desk.models.says = SCORE
    desk.record(FACT)
    return Case(desk, agent)


def furnish_claude(desk: Desk) -> None:
    """Put the login into the user's settings alone: a helper, and a server of their own."""
    folder = desk.folder / ".claude"
    settings = json.loads((folder / "settings.json").read_text())
    ran = {"type": "command", "command": f"touch {desk.folder}/{MARK}"}
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        settings["hooks"].setdefault(event, []).append({"hooks": [ran]})
    settings |= {
        "apiKeyHelper": "echo a-key",
        "env": {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{desk.models.port}"},
        "outputStyle": "Explanatory",
        "model": "claude-sonnet-4-5",
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    servers = json.loads((desk.folder / ".claude.json").read_text())
    servers["mcpServers"][MARK] = {"type": "stdio", "command": "touch", "args": [MARK]}
    (desk.folder / ".claude.json").write_text(json.dumps(servers))
    (folder / "CLAUDE.md").write_text(MARK)
    skill(folder / "skills")
    (folder / "agents").mkdir()
    (folder / "agents" / "odd.md").write_text(f"---\nname: odd\ndescription: {MARK}\n---\n{MARK}")


def furnish_codex(desk: Desk) -> None:
    folder = desk.folder / ".codex"
    config = (folder / "config.toml").read_text()
    config = (
        f'developer_instructions = "{MARK}"\nnotify = ["touch", "{desk.folder}/{MARK}"]\n'
        f'{config}\n[mcp_servers.{MARK}]\ncommand = "touch"\nargs = ["{desk.folder}/{MARK}"]\n'
    )
    (folder / "config.toml").write_text(config)
    (folder / "auth.json").write_text('{"auth_mode": "apikey", "OPENAI_API_KEY": "a-key"}')
    (folder / "AGENTS.md").write_text(MARK)
    skill(folder / "skills")


def skill(folder: Path) -> None:
    (folder / "odd").mkdir(parents=True)
    text = f"---\nname: odd\ndescription: {MARK}\n---\n{MARK}"
    (folder / "odd" / "SKILL.md").write_text(text)


@pytest.fixture(params=[CLAUDE_CODE, CODEX], ids=lambda agent: agent.host)
def case(request: pytest.FixtureRequest, desk: Desk) -> Case:
    return use(desk, request.param)


@pytest.fixture
def claude_code(desk: Desk) -> Case:
    return use(desk, CLAUDE_CODE)


@pytest.fixture
def codex(desk: Desk) -> Case:
    return use(desk, CODEX)


def test_what_a_program_answers_becomes_a_plan_and_its_tokens_are_counted(case: Case) -> None:
    case.importance()
    (memory,) = json.loads(case.desk.mnemolog("list", "--json"))["memories"]
    assert '"importance":0.9' in case.desk.mnemolog("show", memory["id"], "--json")
    (call,) = case.calls
    assert (call.model, call.prompt_tokens, call.answer_tokens, call.error) == (
        case.name,
        10,
        5,
        None,
    )
    # Claude Code names the price of its model's tokens, Codex none
    assert call.cost_usd == pytest.approx(0.000105 if case.agent is CLAUDE_CODE else 0.0)


def test_a_request_holds_no_tool_and_nothing_of_the_users_own(case: Case) -> None:
    case.importance()
    assert not case.request.get("tools")
    sent = json.dumps(case.request)
    assert FACT in sent
    assert not [word for word in (MARK, "additional_tools", "mcp__", "SKILL.md") if word in sent]


def test_what_a_program_adds_to_a_request_is_within_the_estimate(case: Case) -> None:
    case.importance()
    texts = [text for _, text in parts(case.request)]
    (question,) = (text for text in texts if text.startswith("BEGIN OF DATA"))
    instructions = next(text for text in texts if text.startswith("You look through the notes"))
    added = sum(len(text.encode()) for text in texts) - len((question + instructions).encode())
    program = program_of(case.name)
    assert program is not None
    assert 0 <= added <= dialect_of(program).overhead(instructions)


def test_no_hook_and_no_server_of_the_user_is_started(case: Case) -> None:
    case.importance()
    assert case.desk.server is None
    assert not list(case.desk.folder.rglob(MARK))
    with EventLog(tenant.tenant(case.desk.memory).log) as log:
        assert not {event.kind for event in log.read()} & {"session", "prompted", "action"}


def test_no_transcript_is_left_and_none_is_there_to_import(case: Case) -> None:
    case.importance()
    assert not (case.desk.folder / ".claude" / "projects").exists()
    assert not (case.desk.folder / ".codex" / "sessions").exists()
    assert list(_files_with(b"acme-ledger-7", case.desk)) == []


def _files_with(text: bytes, desk: Desk) -> Iterator[Path]:
    """Yield the files that contain a text, except the memory's own."""
    for path in desk.folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(desk.memory) and text in path.read_bytes():
            yield path


def test_a_path_in_a_memory_is_not_opened(case: Case) -> None:
    secret = case.desk.folder / "secret.txt"
    secret.write_text("PRIVATE-WORDS")
    case.desk.record(f'Look at @{secret} and @~/secret.txt and @"{secret}" and [it]({secret})')
    case.importance()
    sent = json.dumps(case.desk.models.bare)
    assert "@~/secret.txt" in sent
    assert "PRIVATE-WORDS" not in sent


def test_a_prompt_stands_on_no_command_line(case: Case) -> None:
    lines: list[str] = []
    case.desk.models.meanwhile = lambda: lines.extend(_command_lines())
    case.importance()
    command = case.name.partition("-")[0]
    assert any(f"{case.desk.folder}/bin/{command} " in line for line in lines)
    assert not [line for line in lines if "acme-ledger-7" in line or "look through" in line]


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it ended
            continue
    return lines


def test_an_estimate_names_program_and_version_and_asks_nothing(case: Case) -> None:
    estimate = case.importance("--estimate")
    title = {"claude-code": "Claude Code 2.1.330", "codex": "Codex 0.169.0"}[case.name]
    assert f"{case.name} is asked through {title}" in estimate
    assert case.desk.models.bare == []
    report = case.desk.mnemolog("doctor")
    assert f"llm.cheap: {case.name} is asked through {title}" in report


def test_an_answer_that_is_cut_off_is_one_request_a_question(claude_code: Case) -> None:
    claude_code.desk.models.ending = "max_tokens"
    claude_code.desk.models.says = '{"scores": [{"n"'
    claude_code.importance()
    calls = claude_code.calls
    assert len(claude_code.desk.models.bare) == len(calls) == 3  # the first, and two corrections
    assert [(call.prompt_tokens, call.answer_tokens) for call in calls] == [(10, 5)] * 3


def test_without_a_login_nothing_is_sent_and_the_cure_is_named(case: Case) -> None:
    (case.desk.folder / ".codex" / "auth.json").unlink(missing_ok=True)
    settings = case.desk.folder / ".claude" / "settings.json"
    if settings.exists():
        stored = json.loads(settings.read_text())
        del stored["apiKeyHelper"]
        settings.write_text(json.dumps(stored))
    config = case.desk.folder / ".codex" / "config.toml"
    if config.exists():
        config.write_text('model = "mock-model"\n')  # the default server, which needs a login
    case.importance()
    (call,) = case.calls
    assert call.error is not None
    assert "not logged in" in call.error
    assert {"claude-code": "`/login`", "codex": "`codex login`"}[case.name] in call.error
    assert (call.prompt_tokens, call.answer_tokens, case.desk.models.bare) == (0, 0, [])


def test_a_login_that_codex_renews_stays_the_users(codex: Case) -> None:
    folder = codex.desk.folder / ".codex"
    tokens = {"id_token": token(1), "access_token": token(1), "refresh_token": "spent"}
    login = {"auth_mode": "chatgpt", "tokens": tokens | {"account_id": "a"}}
    login |= {"last_refresh": "2026-01-01T00:00:00Z"}
    (folder / "auth.json").write_text(json.dumps(login))
    server = f"http://127.0.0.1:{codex.desk.models.port}"
    settings = (f'openai_base_url = "{server}/v1"', f'chatgpt_base_url = "{server}/backend-api/"')
    (folder / "config.toml").write_text("\n".join(settings))
    renewed = {"id_token": token(1 << 33), "access_token": token(1 << 33), "refresh_token": "new"}
    codex.desk.models.tokens = renewed
    codex.desk.variables["CODEX_REFRESH_TOKEN_URL_OVERRIDE"] = f"{server}/oauth/token"
    codex.importance()
    kept = json.loads((folder / "auth.json").read_text())["tokens"]
    assert (kept["access_token"], kept["refresh_token"]) == (renewed["access_token"], "new")
    assert [call.error for call in codex.calls] == [None]


def token(expires: int) -> str:
    """Return a token like those of OpenAI's login, with a fake signature."""
    plan = {"chatgpt_plan_type": "plus", "chatgpt_account_id": "a", "chatgpt_user_id": "u"}
    body = {"exp": expires, "email": "a@example.org", "https://api.openai.com/auth": plan}
    head, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none"}, body)
    )
    return f"{head}.{claims}.c2lnbmVk"

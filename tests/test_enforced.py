"""A tool that one of the user's own rules forbids: with `enforce`, the host asks or refuses."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent import Agent
from hosts_told import RECORDED, event_name, schema
from test_app import TOKEN, post

from serve.hosts import HOSTS
from serve.hosts.event import Reply
from serve.server.callers import hook_key
from serve.server.open_tenants import OpenTenants
from store.home import config, tenant
from store.home.config import Choices, Settings
from store.home.errors import ConfigError
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.plans import lesson_proposals

NOW = 1_790_000_000_000_000
RULE = "Use pnpm, never npm"
_numbers = itertools.count()

Start = Callable[..., Agent]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """An agent in a repository, with `enforce` as its user set it."""
    EventLog(tenant.tenant(tmp_path / "home").log, create=True).close()
    git = tmp_path / "shop" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text('[remote "origin"]\n url = https://example.test/shop.git\n')
    opened: list[OpenTenants] = []

    def begin(enforce: Any = "deny") -> Agent:
        opened.append(OpenTenants(Settings(tmp_path / "home", Choices(enforce=enforce))))
        return Agent.start(opened[-1], tmp_path / "shop", itertools.count(NOW, 1_000_000).__next__)

    yield begin
    for tenants in opened:
        tenants.close()


def learn(agent: Agent, text: str = RULE, **fields: Any) -> str:
    log = agent.tenants.get("default").log
    return commands.record(log, Draft(content=text, **{"kind": "lesson"} | fields), NOW).event.id


def before(agent: Agent, command: str = "npm install lodash") -> dict[str, Any]:
    use = {"tool_name": "Bash", "tool_input": {"command": command}}
    return agent.answer("PreToolUse", tool_use_id=f"t{next(_numbers)}", **use)


def test_by_default_a_rule_is_advice_and_nothing_is_refused(start: Start):
    agent = start("advise")
    learn(agent)
    assert RULE in before(agent)["additionalContext"]
    assert before(agent) == {}


def test_a_rule_of_the_users_is_denied_each_time_with_its_words(start: Start):
    agent = start("deny")
    id_ = learn(agent)
    for _ in range(2):
        payload = before(agent)
        assert payload["permissionDecision"] == "deny"
        assert f"“{RULE}” ({id_[:14]}, 2026-" in payload["permissionDecisionReason"]
        assert "additionalContext" not in payload
    assert [event.subject for event in agent.events("surfaced")] == [id_, id_]


def test_with_ask_the_user_is_asked_and_the_model_told_once(start: Start):
    agent = start("ask")
    learn(agent)
    first, second = before(agent), before(agent)
    assert [answer["permissionDecision"] for answer in (first, second)] == ["ask", "ask"]
    assert RULE in first["additionalContext"] and "additionalContext" not in second
    assert RULE in second["permissionDecisionReason"]


@pytest.mark.parametrize("command", ["pnpm add lodash", "echo npm", "ls"])
def test_a_command_no_rule_forbids_gets_no_decision(start: Start, command: str):
    agent = start("deny")
    learn(agent)
    assert before(agent, command) == {}


def test_a_rule_that_forbids_nothing_only_advises(start: Start):
    agent = start("deny")
    learn(agent, "Always run ruff before committing")
    payload = before(agent, "git commit -m x")
    assert "permissionDecision" not in payload and "ruff" in payload["additionalContext"]


@pytest.mark.parametrize("fields", [{"trust": "agent"}, {"source": "markdown"}, {"source": "x"}])
def test_a_rule_of_an_agent_an_import_or_a_program_is_only_advice(
    start: Start, fields: dict[str, str]
):
    agent = start("deny")
    learn(agent, **fields)
    payload = before(agent)
    assert "permissionDecision" not in payload and RULE in payload["additionalContext"]


def test_a_statement_is_enforced_once_it_is_accepted(start: Start):
    agent = start("deny")
    text = learn(agent, kind="statement", insight_type="rule", source="prompt")
    payload = before(agent)  # a quote is shown but not binding
    assert "permissionDecision" not in payload and "user_said" in payload["additionalContext"]
    lesson_proposals.accept(agent.tenants.get("default").log, text, NOW)
    assert before(agent)["permissionDecision"] == "deny"


def test_enforcement_can_be_set_by_project(start: Start):
    here, elsewhere = "example.test/shop", "example.test/other"
    for enforce, wanted in (
        ({here: "deny", "*": "ask"}, "deny"),
        ({elsewhere: "deny", "*": "ask"}, "ask"),
        ({elsewhere: "deny"}, "advise"),
    ):
        assert Choices(enforce=enforce).enforcement(here) == wanted  # type: ignore[arg-type]
    agent = start({here: "deny"})
    learn(agent)
    assert before(agent)["permissionDecision"] == "deny"


def test_a_repositorys_file_cannot_enforce(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".mnemolog.toml").write_text('enforce = "deny"\n')
    with pytest.raises(ConfigError, match="may not set enforce"):
        config.load(tmp_path, {"MNEMOLOG_HOME": str(tmp_path / "home")})


def test_config_toml_enforces_from_when_it_is_written(tmp_path: Path):
    settings = Settings(tmp_path)
    assert config.choices_in(settings, None).enforcement("a/b") == "advise"
    (tmp_path / "config.toml").write_text('[enforce]\n"a/b" = "ask"\n"*" = "deny"\n')
    assert config.choices_in(settings, None).enforcement("a/b") == "ask"
    assert config.choices_in(settings, None).enforcement("") == "deny"
    assert config.load(None, {"MNEMOLOG_HOME": str(tmp_path)}).choices.enforcement("a/b") == "ask"


@pytest.mark.parametrize("line", ['enforce = "always"', 'enforce = {"a/b" = "never"}'])
def test_an_unknown_way_to_enforce_is_refused(tmp_path: Path, line: str):
    (tmp_path / "config.toml").write_text(line)
    with pytest.raises(ConfigError, match="enforce"):
        config.load(None, {"MNEMOLOG_HOME": str(tmp_path)})


@pytest.mark.parametrize("host", RECORDED)
@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_a_decision_is_told_only_to_a_host_that_takes_it_and_in_its_schema(
    host: str, decision: Any
):
    takes = {"claude-code": ("ask", "deny"), "codex": ("deny",), "gemini": ("ask", "deny")}
    takes["goose"] = ("deny",)
    for payload in RECORDED[host]:
        event = HOSTS[host].read(payload)
        if event is None or event.moment != "before_tool":
            continue
        if not (event.is_heard or event.decides):
            continue
        told = HOSTS[host].write(event, Reply("advice", decision=decision, reason="a rule"))
        schema(host, event_name(payload)).validate(told)
        assert ("a rule" in str(told)) == (decision in takes.get(host, ()))


def test_gemini_takes_a_decision_before_a_tool_and_the_advice_with_its_result(start: Start):
    agent = start("ask")
    learn(agent)

    def told(name: str, **fields: Any) -> dict[str, Any]:
        use = {"tool_name": "run_shell_command", "tool_input": {"command": "npm install lodash"}}
        payload = {"hook_event_name": name, "session_id": "s1", "cwd": str(agent.cwd), **use}
        key = {"Authorization": f"Bearer {hook_key(TOKEN, 'gemini')}"}
        answer: dict[str, Any] = post(
            agent.client, "/v1/hooks/gemini", payload | fields, **key
        ).json
        return answer

    before_tool = told("BeforeTool")
    assert told("BeforeTool") == before_tool  # each time
    assert before_tool.keys() == {"decision", "reason", "systemMessage"}
    assert before_tool["decision"] == "ask" and RULE in before_tool["systemMessage"]
    after = told("AfterTool", tool_response={"llmContent": "added 1 package"})
    assert RULE in after["hookSpecificOutput"]["additionalContext"]


def test_cursor_running_the_hooks_of_claude_code_is_only_advised(start: Start):
    agent = start("deny")
    learn(agent)
    agent.extra = {"cursor_version": "2.4.0"}
    assert "permissionDecision" not in before(agent)

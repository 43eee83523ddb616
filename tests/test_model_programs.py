"""
Claude Code and Codex asked as models, by small programs that print recorded output.

Requests and files of the real programs are in tests/hosts/test_model_programs.py.
"""

import json
import os
import stat
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from pipelines.llm import codex_model, provider
from pipelines.llm.budget import Budget
from pipelines.llm.model_client import Client, Estimator
from pipelines.llm.provider import MOST_ANSWER_TOKENS
from store.home.config import Choices, Llm, Settings
from store.home.errors import BudgetSpent, ModelError
from store.home.model_programs import program_of
from store.log.event_kinds import Called
from store.log.event_log import EventLog
from store.maintenance.checkup import checkup

DATA = Path(__file__).parent / "data" / "model_programs"
KEY = "sk-proj-q8Zt4LmX2vN7cR5bW1yK9dF3hJ6gA0sE"  # the refused key of the recorded runs
WEIGHT = "the weight of feathers"

# It records its arguments and input, and prints the next of its recorded runs.
PROGRAM = """#!{python}
import json, os, pathlib, subprocess, sys, time
folder = pathlib.Path({folder!r})
if "--version" in sys.argv:
    print("9.8.7 (a test)")
    sys.exit()
if "debug" in sys.argv:
    print((folder / "models.json").read_text())
    sys.exit()
files = {{}}
for root in {{os.path.dirname(os.getcwd()), os.environ.get("CODEX_HOME", os.getcwd())}}:
    for path in pathlib.Path(root).iterdir():
        if path.is_file():
            files[path.name] = [path.read_text(), os.readlink(path) if path.is_symlink() else ""]
seen = {{"words": sys.argv[1:], "given": sys.stdin.read(), "cwd": os.getcwd(), "files": files,
        "here": os.listdir(), "home": os.environ.get("CODEX_HOME"),
        "claude": [name for name in os.environ if name.startswith("CLAUDE")]}}
with open(folder / "seen.jsonl", "a") as file:
    file.write(json.dumps(seen) + "\\n")
runs = json.loads((folder / "runs.json").read_text())
run = runs[min(len((folder / "seen.jsonl").read_text().splitlines()), len(runs)) - 1]
if run["case"] == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (folder / "child").write_text(str(child.pid))
    time.sleep(60)
for event in run["events"]:
    print(json.dumps(event))
print(run["err"], file=sys.stderr)
sys.exit(run["code"])
"""
MODELS = {"models": [{"slug": "m", "tool_mode": "x", "experimental_supported_tools": ["clock"]}]}


class Verdict(msgspec.Struct, frozen=True):
    """The answer format that the tests request."""

    subject: str
    weight: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


def recorded(name: str, case: str) -> dict[str, Any]:
    """Return a recorded run of a program."""
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return next(run for line in lines if (run := json.loads(line))["case"] == case)


@dataclass
class Program:
    """A program on the PATH that prints recorded runs and then repeats the last one."""

    name: str
    folder: Path

    def print(self, *runs: str | dict[str, Any]) -> None:
        recordings = [recorded(self.name, run) if isinstance(run, str) else run for run in runs]
        (self.folder / "runs.json").write_text(json.dumps(recordings))

    @property
    def seen(self) -> list[dict[str, Any]]:
        file = self.folder / "seen.jsonl"
        return list(map(json.loads, file.read_text().splitlines())) if file.exists() else []


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Program]:
    """Put a program first on the PATH, for a user who is logged in."""
    for name in [*os.environ]:
        if name.startswith(("CODEX_", "CLAUDE", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def made(name: str) -> Program:
        folder = tmp_path / name
        folder.mkdir()
        file = tmp_path / "bin" / {"claude-code": "claude"}.get(name, name)
        file.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        (folder / "models.json").write_text(json.dumps(MODELS))
        (tmp_path / ".codex").mkdir(exist_ok=True)
        (tmp_path / ".codex" / "auth.json").write_text("{}")
        codex_model._models.cache_clear()
        program = Program(name, folder)
        program.print("well")
        return program

    return made


@pytest.fixture(params=["claude-code", "codex"])
def program(request: pytest.FixtureRequest, install: Callable[[str], Program]) -> Program:
    return install(request.param)


@pytest.fixture
def claude(install: Callable[[str], Program]) -> Program:
    return install("claude-code")


@pytest.fixture
def codex_program(install: Callable[[str], Program]) -> Program:
    return install("codex")


@dataclass
class Caller:
    """A client and its notes."""

    client: Client
    notes: list[str] = field(default_factory=list)

    def ask(self, data: str = WEIGHT) -> Any:
        return self.client.ask("weighing", "Weigh the subject.", data, Verdict)


@pytest.fixture
def client(log: EventLog, home: Path, clock) -> Callable[..., Caller]:
    def made(model: str, pauses_s: Sequence[float] = (), **limits: object) -> Caller:
        chosen = msgspec.convert({"cheap": model, "timeout_s": 20.0} | limits, Llm)
        notes: list[str] = []
        budget = Budget(home, chosen, clock)
        client = Client(chosen, log, budget, clock, notes.append, tuple(pauses_s))
        return Caller(client, notes)

    return made


def calls(log: EventLog) -> list[Called]:
    return [event.body for event in log.job_events(("called",))]


def test_an_answer_is_a_value_and_the_log_has_what_the_program_counted(client, program, log):
    answer = client(program.name).ask()
    assert answer.value == Verdict("feathers", 0.5)
    (call,) = calls(log)
    assert (call.model, call.prompt_tokens, call.answer_tokens) == (program.name, 10, 5)
    assert call.cost_usd == pytest.approx(0.00014 if program.name == "claude-code" else 0.0)


def test_the_question_goes_in_over_standard_input_alone(client, program):
    client(program.name).ask()
    (call,) = program.seen
    assert WEIGHT in call["given"]
    assert "Weigh" not in call["given"]
    assert "Weigh the subject." in call["files"]["instructions.md"][0]
    assert not [word for word in call["words"] if "eigh" in word]


def test_a_program_runs_in_an_empty_temporary_folder(client, program, tmp_path):
    client(program.name).ask()
    (call,) = program.seen
    assert call["here"] == []
    assert not Path(call["cwd"]).parent.exists()


def test_claude_code_runs_without_tools_or_settings(client, claude):
    client("claude-code").ask()
    words, files = claude.seen[0]["words"], claude.seen[0]["files"]
    for wanted in ("-p", "--safe-mode", "--strict-mcp-config", "--no-session-persistence"):
        assert wanted in words
    assert words[words.index("--tools") + 1] == ""
    assert words[words.index("--setting-sources") + 1] == "user"
    assert not [word for word in words if word.startswith("--model")]
    settings = json.loads(files["settings.json"][0])
    assert (settings["disableAllHooks"], settings["permissions"]) == (True, {"deny": ["Read"]})
    assert settings["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"] == "1"
    assert settings["env"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == str(MOST_ANSWER_TOKENS)


def test_claude_code_is_asked_by_what_its_own_session_started(client, claude, monkeypatch):
    for name in ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.setenv(name, "1")
    client("claude-code").ask()
    assert claude.seen[0]["claude"] == ["CLAUDE_CODE_OAUTH_TOKEN"]  # the login stays


def test_a_model_is_named_behind_the_program(client, program):
    client(f"{program.name}/small/one").ask()
    (call,) = program.seen
    if program.name == "codex":
        assert tomllib.loads(call["files"]["config.toml"][0])["model"] == "small/one"
    else:
        assert "--model=small/one" in call["words"]


def test_codex_is_given_the_users_login_and_server_and_no_other_setting(
    client, codex_program, tmp_path
):
    (tmp_path / ".codex" / "config.toml").write_text(
        'model = "big"\nmodel_provider = "mine"\nmodel_reasoning_effort = "xhigh"\n'
        'developer_instructions = "odd"\nnotify = ["odd"]\n'
        '[model_providers.mine]\nname = "Mine"\nexperimental_bearer_token = "a-key"\n'
        '[model_providers.other]\nname = "Other"\n[mcp_servers.odd]\ncommand = "odd"\n'
    )
    client("codex").ask()
    (call,) = codex_program.seen
    settings = tomllib.loads(call["files"]["config.toml"][0])
    assert (settings["model"], settings["model_provider"]) == ("big", "mine")
    assert settings["model_providers"] == {
        "mine": {"name": "Mine", "experimental_bearer_token": "a-key"}
    }
    assert "odd" not in call["files"]["config.toml"][0]
    assert "a-key" not in " ".join(call["words"])
    assert call["home"] != str(tmp_path / ".codex")
    assert call["files"]["auth.json"][1] == str(tmp_path / ".codex" / "auth.json")
    assert not {"hooks.json", "AGENTS.md"} & call["files"].keys()


def test_codex_is_offered_no_tool(client, codex_program):
    client("codex").ask()
    files = codex_program.seen[0]["files"]
    (model,) = json.loads(files["models.json"][0])["models"]
    assert (model.get("tool_mode"), model["experimental_supported_tools"]) == (None, [])
    settings = tomllib.loads(files["config.toml"][0])
    assert not any(settings["features"].values())
    assert {"shell_tool", "unified_exec", "hooks", "code_mode"} <= settings["features"].keys()
    assert (settings["web_search"], settings["sandbox_mode"]) == ("disabled", "read-only")


def test_codex_is_held_to_the_schema_and_asked_without_one_where_it_is_refused(
    client, codex_program, log
):
    codex_program.print("request refused", "well")
    caller = client("codex")
    assert caller.ask().value.subject == "feathers"
    first, second = codex_program.seen
    schema = json.loads(first["files"]["schema.json"][0])
    assert (schema["required"], schema["additionalProperties"]) == (["subject", "weight"], False)
    assert "--output-schema" in first["words"]
    assert "--output-schema" not in second["words"]
    assert [call.prompt_tokens for call in calls(log)] == [0, 10]


def test_an_answer_that_was_cut_off_is_asked_for_again_with_what_was_wrong(client, program, log):
    program.print("cut", "well")
    assert client(program.name).ask().value.subject == "feathers"
    inputs = program.seen[1]["given"]
    assert 'You answered:\n{"subject": "fea' in inputs
    assert "it was cut off" in inputs
    assert inputs.startswith(program.seen[0]["given"])
    assert [call.error for call in calls(log)] == [None, None]


FAILURES = [
    ("claude-code", "logged out", "not logged in, .*run `claude`, and `/login`"),
    ("claude-code", "key refused", "the login was refused: .*ANTHROPIC_API_KEY"),
    ("claude-code", "too many", "too many requests, or the limit of its plan"),
    ("claude-code", "nothing left", "nothing left to spend"),
    ("claude-code", "ill", "its server failed"),
    ("claude-code", "no such model", "there is no such model.*claude-code/MODEL"),
    ("claude-code", "request refused", "the request was refused"),
    ("claude-code", "refused", "the model refused to answer"),
    ("claude-code", "connection cut", "its server failed, or was not reached"),
    ("codex", "key refused", "not logged in, .*run `codex login`"),
    ("codex", "too many", "too many requests"),
    ("codex", "nothing left", "the limit of its plan is reached"),
    ("codex", "ill", "its server failed"),
    ("codex", "no such model", "there is no such model.*codex/MODEL"),
    ("codex", "request refused", "the request was refused"),
    ("codex", "connection cut", "the connection was cut"),
]


@pytest.mark.parametrize(("name", "case", "why"), FAILURES)
def test_a_failure_names_its_cure_and_quotes_neither_key_nor_prompt(
    client, install, log, name: str, case: str, why: str
):
    install(name).print(case)
    with pytest.raises(ModelError, match=f"{name}: .*{why}") as error:
        client(name).ask()
    assert KEY not in str(error.value)
    assert "feathers" not in str(error.value)
    assert {call.error for call in calls(log)} == {str(error.value)}


def test_a_call_that_failed_counts_what_the_program_says_it_used(client, claude, log):
    claude.print("refused")
    with pytest.raises(ModelError):
        client("claude-code").ask()
    (call,) = calls(log)
    assert (call.prompt_tokens, call.answer_tokens, call.cost_usd > 0) == (10, 5, True)


def test_a_call_nobody_counted_counts_as_the_most_it_could_cost(client, codex_program, log):
    codex_program.print("connection cut")
    caller = client("codex")
    with pytest.raises(ModelError):
        caller.ask()
    (call,) = calls(log)
    assert call.answer_tokens == MOST_ANSWER_TOKENS
    assert call.prompt_tokens > len(codex_program.seen[0]["given"])


def test_temporary_failures_are_retried_and_permanent_ones_not(client, program):
    program.print("ill", "well")
    assert client(program.name, pauses_s=[0.0]).ask().value.subject == "feathers"
    program.print("key refused")
    with pytest.raises(ModelError):
        client(program.name, pauses_s=[0.0]).ask()
    assert len(program.seen) == 3


@pytest.mark.parametrize(
    ("events", "err", "why"),
    [
        ([], "error: unknown option '--safe-mode'", "run `claude update`"),
        ([], "Killed", "ended with code 1 and no answer"),
        ([{"type": "result", "is_error": True, "subtype": "new"}], "", "an error of its own"),
        (["text", 7, None, {"type": "result"}], "", "gave no valid answer: it is empty"),
    ],
)
def test_claude_code_may_print_anything(client, claude, events: list[object], err: str, why: str):
    claude.print({"case": "odd", "events": events, "err": err, "code": 1})
    with pytest.raises(ModelError, match=why):
        client("claude-code").ask()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "does not take what is asked of it: update Codex"),
        ([{"type": "thread.started"}], "ended with code 2 and no answer"),
        ([{"type": "turn.failed", "error": "odd"}], "the request was refused"),
        ([{"type": "turn.completed", "usage": "odd"}, [1]], "gave no valid answer: it is empty"),
    ],
)
def test_codex_may_print_anything(client, codex_program, events: list[object], why: str):
    codex_program.print({"case": "odd", "events": events, "err": "", "code": 2})
    with pytest.raises(ModelError, match=why):
        client("codex").ask()


def test_a_codex_that_lists_no_models_is_too_old(client, codex_program):
    (codex_program.folder / "models.json").write_text("usage: codex")
    with pytest.raises(ModelError, match="does not list its models: update Codex"):
        client("codex").ask()


def test_a_program_that_hangs_is_killed_with_all_it_started(client, program, log):
    program.print({"case": "hangs"})
    with pytest.raises(ModelError, match=r"no answer within 1 s: `llm\.timeout_s`"):
        client(program.name, timeout_s=1.0).ask()
    child = int((program.folder / "child").read_text())
    deadline = time.monotonic() + 10
    while _lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (call,) = calls(log)
    assert call.answer_tokens == MOST_ANSWER_TOKENS


def _lives(process: int) -> bool:
    """Return True if a process runs; an ended process that nobody waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("name", "command"), [("claude-code", "claude"), ("codex", "codex")])
def test_a_program_that_is_not_installed_costs_nothing_and_is_named(
    client, install, log, name: str, command: str
):
    with pytest.raises(ModelError, match=rf"there is no program `{command}`: install .*PATH"):
        client(name).ask()
    assert [(call.prompt_tokens, call.cost_usd) for call in calls(log)] == [(0, 0.0)]


def test_without_a_login_codex_is_not_run(client, codex_program, tmp_path, monkeypatch):
    (tmp_path / ".codex" / "auth.json").unlink()
    with pytest.raises(ModelError, match=r"run `codex login`; .*cli_auth_credentials_store"):
        client("codex").ask()
    assert codex_program.seen == []
    monkeypatch.setenv("CODEX_API_KEY", "a-key")
    assert client("codex").ask().value.subject == "feathers"


def test_settings_of_codex_that_cannot_be_read_are_named(client, codex_program, tmp_path):
    (tmp_path / ".codex" / "config.toml").write_text("model = ")
    with pytest.raises(ModelError, match=r"\.codex/config\.toml cannot be read"):
        client("codex").ask()


def test_dollars_known_only_after_a_call_end_the_run_at_the_next_one(client, claude):
    caller = client("claude-code", usd_a_run=0.0001)
    caller.ask()
    with pytest.raises(BudgetSpent, match=r"llm\.usd_a_run leaves 0\.0000 dollars, .*after it"):
        caller.ask()
    assert len(claude.seen) == 1
    assert "at list price" in caller.notes[0]


def test_a_program_without_prices_is_bound_by_tokens_and_calls(client, codex_program):
    caller = client("codex", usd_a_run=0.000001, calls_a_run=2)
    caller.ask(), caller.ask()
    with pytest.raises(BudgetSpent, match="calls_a_run"):
        caller.ask()
    assert caller.notes[0] == (
        "nobody knows what codex costs: only the limits in tokens and calls hold for it"
    )


def test_a_call_that_does_not_fit_the_tokens_left_is_not_made(client, program):
    with pytest.raises(BudgetSpent, match="tokens_a_run"):
        client(program.name, tokens_a_run=MOST_ANSWER_TOKENS + 1_000).ask()
    assert program.seen == []


def test_an_estimate_names_the_program_and_bounds_what_it_is_sent(client, program, monkeypatch):
    monkeypatch.setattr(provider, "_litellm", lambda: pytest.fail("litellm is not needed"))
    caller = client(program.name)
    estimator = Estimator(caller.client.limits)
    with pytest.raises(ModelError):
        estimator.ask("weighing", "Weigh the subject.", WEIGHT, Verdict)
    estimate = estimator.estimate(caller.client.budget.room())
    assert f"{program.name} is asked through" in estimate.notes[0]
    assert "9.8.7" in estimate.notes[0]
    assert (estimate.calls, estimate.usd_at_most, program.seen) == (1, None, [])
    caller.ask()
    (call,) = program.seen
    sent = len(call["given"].encode()) + len(call["files"]["instructions.md"][0].encode())
    assert estimate.tokens > sent + MOST_ANSWER_TOKENS


def test_doctor_names_program_and_version_of_each_tier(program, home):
    llm = Llm(cheap=f"{program.name}/small", balanced=program.name, expensive=program.name)
    findings = [
        finding for finding in checkup(Settings(home, Choices(llm=llm))) if "llm." in finding.what
    ]
    assert [finding.severity for finding in findings] == ["ok", "ok"]
    assert findings[0].what.startswith(f"llm.cheap: {program.name}/small is asked through ")
    assert findings[1].what.startswith("llm.balanced, llm.expensive: ")
    assert all(" 9.8.7 (" in finding.what for finding in findings)


def test_doctor_names_a_program_that_is_missing(install, home):
    settings = Settings(home, Choices(llm=Llm(cheap="codex")))
    (problem,) = [finding for finding in checkup(settings) if "llm." in finding.what]
    assert (problem.severity, "no program `codex`" in problem.what) == ("error", True)
    assert "install Codex" in problem.cure


def test_no_program_is_asked_unless_it_is_named(program, home):
    assert not Llm().is_set
    assert not [finding for finding in checkup(Settings(home)) if "llm." in finding.what]
    for model in ("openai/gpt-5-mini", "openai/codex", "anthropic/claude-code", "codex-mini", ""):
        assert program_of(model) is None

"""The findings of `mnemolog doctor` about hosts."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hosts_home import install, machine, settle
from hosts_told import OUTCOMES
from msgspec.structs import replace

from serve.connect import connecting
from serve.connect.checkup import SOON_US, checkup
from serve.hosts import HOSTS
from serve.hosts.host import Install
from store.home.instants import new_id
from store.log.event_kinds import SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance.checkup import Finding

NOW = 1_790_000_000_000_000
Look = Callable[..., list[Finding]]
LATER = NOW + 2 * SOON_US


@pytest.fixture
def user(tmp_path: Path) -> Path:
    home = tmp_path / "anna"
    settle(home)
    return home


@pytest.fixture
def look(user: Path, log: EventLog) -> Look:
    def found(made: Install | None = None, now: int = LATER) -> list[Finding]:
        return checkup(machine(user), made or install(user), log, now)

    return found


def connect(name: str, user: Path) -> None:
    connecting.apply_plan(
        connecting.plan_connection(HOSTS[name], machine(user), install(user)), NOW
    )


def hear(log: EventLog, host: str, at: int) -> None:
    id_ = new_id(at)
    log.append([Event(id_, at, SessionTold(stage="started"), id_, None, "s", host, "agent")])


def said(findings: list[Finding], severity: str) -> list[str]:
    return [finding.what for finding in findings if finding.severity == severity]


def test_unconnected_hosts_have_no_findings(look: Look):
    assert look() == []


def test_a_host_whose_hooks_arrive_is_ok(user: Path, log: EventLog, look: Look):
    connect("claude-code", user)
    hear(log, "claude-code", NOW + 1)
    assert [finding.severity for finding in look()] == ["ok"]


def test_a_host_without_hooks_is_ok_once_connected(user: Path, look: Look):
    connect("zed", user)
    assert [(finding.severity, finding.what) for finding in look()] == [
        ("ok", "Zed is connected; it runs no hooks, only the MCP server")
    ]


def test_warns_about_hooks_that_never_arrive(user: Path, log: EventLog, look: Look):
    connect("gemini", user)
    hear(log, "claude-code", NOW + 1)  # another host's
    hear(log, "gemini", NOW - 1)  # from an earlier time
    never = "Gemini CLI is connected, but none of its hooks has arrived since"
    assert said(look(), "warn") == [never]
    assert said(look(now=NOW + 1), "warn") == []  # connected a moment ago


def test_reports_another_port(user: Path, look: Look):
    connect("claude-code", user)
    [what] = said(look(replace(install(user), port=7999)), "error")
    assert what == "Claude Code posts its events to port 7437, but the server's is 7999"


def test_reports_the_key_of_an_older_token(user: Path, look: Look):
    connect("claude-code", user)
    findings = look(replace(install(user), token="another"))
    assert ["the token was changed" in what for what in said(findings, "error")] == [True]
    assert findings[0].cure == "run `mnemolog connect claude-code`"


@pytest.mark.parametrize("name", HOSTS)
def test_reports_missing_client_files(name: str, user: Path, look: Look):
    connect(name, user)
    installation = install(user)
    entries = connecting.entries_of_host(HOSTS[name], machine(user), installation)
    for script in installation.code.iterdir():
        script.unlink()
    findings = checkup(machine(user), installation, None, LATER)
    gone = [what for what in said(findings, "error") if "no longer exists" in what]
    files = [what.split(",")[0].rpartition("/")[2] for what in gone]
    started = [
        HOSTS[name].read and "client.py",
        "mcp_bridge.py" in str(entries) and "mcp_bridge.py",
    ]
    assert started[1] or name not in OUTCOMES
    assert files == [one for one in started if one]


def test_warns_about_entries_of_another_version(user: Path, look: Look):
    connect("cursor", user)
    path = user / ".cursor/hooks.json"
    path.write_text(path.read_text().replace('"timeout": 5', '"timeout": 9', 1))
    assert "the hooks or MCP server of Cursor are not up to date" in said(look(), "warn")


def test_warns_when_codex_trusts_none_of_our_hooks(user: Path, look: Look):
    connect("codex", user)
    untrusted = "Codex trusts none of the hooks of mnemolog yet"
    assert untrusted in said(look(), "warn")
    settings = user / ".codex/config.toml"
    key = f"{user / '.codex/hooks.json'}:session_start:0:0"
    settings.write_text(
        settings.read_text() + f'\n[hooks.state."{key}"]\ntrusted_hash = "sha256:1"\n'
    )
    assert untrusted not in said(look(), "warn")


def test_warns_about_an_unparsable_file_and_checks_the_rest(user: Path, log: EventLog, look: Look):
    connect("gemini", user)
    hear(log, "gemini", NOW + 1)
    (user / ".cursor/hooks.json").write_text("{")
    findings = look()
    assert ["hooks.json: line 1, column 2" in what for what in said(findings, "warn")] == [True]
    assert len(said(findings, "ok")) == 1


def test_checks_settings_without_a_log(user: Path):
    connect("claude-code", user)
    findings = checkup(machine(user), replace(install(user), port=1), None, LATER)
    assert len(said(findings, "error")) == 1


@pytest.mark.parametrize(
    ("name", "path", "text", "switch"),
    [
        ("claude-code", ".claude/settings.json", '{"disableAllHooks": true}', "disableAllHooks"),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n", "features.hooks"),
        ("gemini", ".gemini/settings.json", '{"hooksConfig": {"enabled": false}}', "hooksConfig"),
        (
            *("claude-code", ".claude/settings.json"),
            *('{"allowedHttpHookUrls": ["https://*"]}', "allowedHttpHookUrls"),
        ),
    ],
)
def test_warns_about_hooks_switched_off_by_the_user(
    name: str, path: str, text: str, switch: str, user: Path, look: Look
):
    (user / path).write_text(text)
    connect(name, user)
    assert [text for text in said(look(), "warn") if f"`{switch}" in text]


def test_an_allowed_address_list_with_ours_has_no_warning(user: Path, log: EventLog, look: Look):
    text = '{"disableAllHooks": false, "allowedHttpHookUrls": ["http://127.0.0.1:*"]}'
    (user / ".claude/settings.json").write_text(text)
    connect("claude-code", user)
    hear(log, "claude-code", NOW + 1)
    assert said(look(), "warn") == []


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_warns_about_a_key_readable_by_others(tmp_path: Path):
    with TemporaryDirectory(dir="/tmp") as open_to_all:  # tmp_path is the owner's alone
        user = Path(open_to_all)
        user.chmod(0o755)
        (user / ".claude").mkdir()
        (user / ".claude").chmod(0o755)
        path = user / ".claude/settings.json"
        path.write_text("{}")
        path.chmod(0o644)
        installation = install(tmp_path / "anna")
        connecting.apply_plan(
            connecting.plan_connection(HOSTS["claude-code"], machine(user), installation), NOW
        )
        [what] = said(checkup(machine(user), installation, None, NOW), "warn")
        assert what == f"other users can read {path} and the key of Claude Code in it"
        (user / ".claude").chmod(0o700)
        assert said(checkup(machine(user), installation, None, NOW), "warn") == []

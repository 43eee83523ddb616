"""Codex alone: untrusted hooks, and its own changes to its settings."""

from hosts.agents import UNGUARDED, Agent
from hosts.desk import ASKED, FACT, PROGRAMS, Desk, blocks
from hosts.mock_models import Script
from hosts.terminal import Terminal

from serve.hosts import HOSTS
from store.log.event_kinds import SessionTold

UNTRUSTED = "Codex trusts none of the hooks of mnemolog yet"


def ask(desk: Desk) -> list[str]:
    completed = desk.run("codex", "exec", "--json", UNGUARDED, ASKED)
    assert completed.code == 0
    return blocks(desk.models.requests[-1])


def test_hooks_that_nobody_trusts_are_skipped_and_doctor_says_so(desk: Desk, codex: Agent) -> None:
    desk.record(FACT)
    assert ask(desk) == []
    report = desk.mnemolog("doctor")
    assert UNTRUSTED in report
    assert HOSTS["codex"].note in report


def trust(desk: Desk, prompt: str = "") -> None:
    """Start Codex as a person does, trust all unknown hooks, and go on.

    `--no-daemon` avoids the server that it would leave behind.
    """
    command = [str(PROGRAMS / "codex"), "--no-daemon"]
    with Terminal(command, desk.environ(), desk.repository()) as terminal:
        terminal.until("Hooks need review")
        terminal.press("2", until=lambda: "› 2. Trust all" in terminal.shown)
        terminal.press("\r", until=lambda: "trusted_hash" in settings(desk))
        if prompt:
            terminal.type(prompt)
            terminal.press("\r", until=lambda: bool(desk.models.requests))


def settings(desk: Desk) -> str:
    return (desk.folder / ".codex" / "config.toml").read_text()


def test_once_a_person_trusts_them_hooks_run_and_doctor_is_content(
    desk: Desk, codex: Agent
) -> None:
    desk.record(FACT)
    desk.mnemolog("start")
    trust(desk, ASKED)
    assert [FACT in block for block in blocks(desk.models.requests[0])] == [True]
    brief, texts = ask(desk)
    assert ASKED in brief
    assert FACT in texts
    report = desk.mnemolog("doctor")
    assert UNTRUSTED not in report
    assert "Codex is connected, and its hooks arrive" in report


def test_what_codex_wrote_meanwhile_stays_when_we_are_taken_out(desk: Desk, codex: Agent) -> None:
    trust(desk)
    before = settings(desk)
    desk.mnemolog("disconnect", "codex", "--yes")
    ours = before[before.index("[mcp_servers.mnemolog]") : before.index("[tui]")]
    assert settings(desk) == before.replace(ours, "")


def test_after_a_compaction_the_session_is_told_what_it_did_and_again_what_is_known(
    desk: Desk, codex: Agent
) -> None:
    desk.record(FACT)
    desk.program("pytest", "echo 3 passed")
    desk.mnemolog("start")
    short = ("-c", "model_auto_compact_token_limit=50000", "-c", "model_context_window=100000")
    desk.models.script = Script((codex.shell("pytest -q"),), tokens=90_000)
    session = codex.session(codex.ask(desk, ASKED, *short))
    desk.models.script = Script()
    codex.ask(desk, ASKED, *short, after=session)
    texts = blocks(desk.models.requests[-1])
    assert '{"test":"pytest -q"}' in texts[0]
    assert FACT in texts[-1]
    assert "compacted" in [event.body.stage for event in desk.events(session, SessionTold)]


def test_codex_has_nothing_to_say_against_our_settings(desk: Desk, codex: Agent) -> None:
    completed = desk.run("codex", "exec", "--json", UNGUARDED, "hello!")
    lines = [
        line["item"]["message"]
        for line in completed.said
        if line.get("item", {}).get("type") == "error"
    ]
    assert not [line for line in lines if "mock-model" not in line]

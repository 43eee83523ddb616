"""Sessions of every host become episodes, once: however often they are read, by hook or import."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from folds import fold_events
from hook_session import opened
from transcript_files import NOW, SESSION, WRITERS, Writer, episodes, imported, turn, written

from serve.cli import main, transfer
from store.home import projects
from store.home import tenant as tenants
from store.home.errors import SourceError
from store.home.instants import new_id
from store.importers.transcript_hosts import TRANSCRIPT_HOSTS
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import STATEMENT, Acted, Prompted, SessionTold
from store.log.event_log import EventLog
from store.log.events import Event
from store.memories.memory import Memory
from store.text import frame

AGENTS = tuple(WRITERS)
NOTE = f'{frame.OPENING}\n{{"id":"m1","fact":"the port is 7437"}}\n{frame.CLOSING}'
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3

# every session is read in its host's own format
each_host = pytest.mark.parametrize("agent", AGENTS)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tenants.tenant(tmp_path / "home").log, create=True) as log:
        yield log


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return tmp_path / "host"


def writer(agent: str, **about: Any) -> Writer:
    transcript: Writer = WRITERS[agent](**about)
    return transcript


def hear(log: EventLog, agent: str, prompt: str, at: int, *after: Any) -> None:
    """Write the events of a live hook: a prompt, and the events after it."""
    for number, body in enumerate((Prompted(prompt=prompt), *after)):
        id_ = new_id(at + number)
        log.append([Event(id_, at + number, body, id_, "shop", SESSION, agent, "agent")])


@each_host
def test_a_turn_is_an_episode_with_its_words_deeds_files_and_time(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    turn(transcript)
    imported(log, agent, transcript.save(host))
    (memory,) = episodes(log)
    assert (memory.kind, memory.state, memory.trust) == ("episode", "active", "tool")
    assert (memory.project, memory.session, memory.agent) == ("shop", SESSION, agent)
    assert memory.content == "Make the login test pass: it fails at midnight."
    failed, edited, passed = (memory.action or "").splitlines()
    assert failed.startswith("$ pytest -q -> failed: ") and "a day late" in failed
    assert (edited, passed) == ("edited login.py", "$ pytest -q -> 2 passed in 0.01s")
    assert memory.result == "The clock is called at every login now."
    assert "login" in memory.tags
    assert 0 <= memory.created_at - 1_789_981_200_000_000 < 60_000_000


@each_host
def test_transcripts_of_the_real_programs_are_read_completely(
    agent: str, log: EventLog, host: Path
) -> None:
    outcome = imported(log, agent, written(agent, host))
    assert outcome.skipped == []
    memories = [
        episode
        for episode in episodes(log)
        if "midnight" in episode.content and episode.project == "shop"
    ]
    for memory in memories:
        assert [line.split(" -> ")[0] for line in (memory.action or "").splitlines()] == [
            *("$ pytest -q", "edited login.py", "$ pytest -q")
        ]
        assert "1 failed, 1 passed" in (memory.action or "")
        assert (memory.result or "").startswith("The login took the clock once, at import.")
    second = [episode for episode in episodes(log) if "docs/clock.md" in episode.content]
    assert {other.action for other in second} == {"edited docs/clock.md"}
    assert len(memories) == len(second) == (3 if agent == "codex" else 1)


@each_host
def test_a_session_that_is_read_again_adds_nothing(agent: str, log: EventLog, host: Path) -> None:
    first = imported(log, agent, written(agent, host))
    head = log.head()
    again = imported(log, agent, host, now=NOW + 1)
    assert (again.counts.added, again.counts.known) == (0, first.counts.added)
    assert log.head() == head


@each_host
def test_a_session_that_grew_adds_only_what_is_new(agent: str, log: EventLog, host: Path) -> None:
    transcript = writer(agent)
    turn(transcript)
    transcript.ask("And say in the docs why the clock is called.")
    transcript.run("ls docs", "clock.md")
    before = imported(log, agent, transcript.save(host))
    transcript.edit("docs/clock.md", "", "The clock is called at every login.\n")
    transcript.say("docs/clock.md says so.")
    turn(transcript, "Now the same for the logout, please.")
    after = imported(log, agent, transcript.save(host))
    assert after.counts.known >= before.counts.added - 1  # the end of a half turn is imported again
    first, second, third = episodes(log)
    assert (first.result, third.result) == ("The clock is called at every login now.",) * 2
    assert second.result == "docs/clock.md says so."
    assert (second.action or "").splitlines()[-1] == "edited docs/clock.md"
    assert third.content == "Now the same for the logout, please."


@each_host
def test_turns_recorded_by_hooks_are_not_imported_twice(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    turn(transcript, "Find out why the upload hangs.")
    turn(transcript)
    started = HEARD[agent]
    hear(log, agent, f"make it pass, with {SECRET}", started, SessionTold(stage="stopped"))
    outcome = imported(log, agent, transcript.save(host))
    assert (outcome.sessions.turns, outcome.sessions.live) == (2, 1)
    contents = [episode.content for episode in episodes(log)]
    assert contents[0] == "Find out why the upload hangs." and len(contents) == 2
    assert imported(log, agent, host).counts.added == 0


# the start of a session's second turn, and of its hook's event: microseconds
_BEGAN = {"claude-code": 90, "codex": 100, "gemini": 60, "opencode": 60}
HEARD = {name: 1_789_981_200_000_000 + at * 1_000_000 for name, at in _BEGAN.items()}


@each_host
def test_the_same_words_said_before_the_hooks_were_connected_are_another_turn(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    turn(transcript, "go on")
    turn(transcript, "go on")
    hear(log, agent, "go on", HEARD[agent], SessionTold(stage="stopped"))
    outcome = imported(log, agent, transcript.save(host))
    assert (outcome.sessions.turns, outcome.sessions.live) == (2, 1)


def test_a_copy_of_a_live_session_is_not_doubled_either(log: EventLog, host: Path) -> None:
    transcript = writer("claude-code", session="1fedcba9-a-fork")
    turn(transcript)
    hear(
        log, "claude-code", "Make the login test pass: it fails at midnight.", 1_789_981_210_000_000
    )
    outcome = imported(log, "claude-code", transcript.save(host))
    assert outcome.sessions.live == 1 and outcome.counts.added == 0


@each_host
def test_a_running_session_gets_older_turns_only_after_its_turn_ended(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    turn(transcript)
    source = transcript.save(host)
    hear(log, agent, "and what is left?", NOW - 5_000_000, Acted(tool="Bash", command="make"))
    outcome = imported(log, agent, source)
    assert outcome.counts.added == 0
    assert [f"session {SESSION} is at work" in sentence for sentence in outcome.skipped] == [True]
    hear(log, agent, "and now?", NOW - 3_000_000, SessionTold(stage="stopped"))
    assert imported(log, agent, source).counts.added == 5


@each_host
def test_our_own_notes_in_a_transcript_are_not_remembered_again(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    transcript.ask(f"Make the login test pass.\n{NOTE}")
    transcript.run("pytest -q", f"2 passed\n{NOTE}")
    transcript.say(f"It passes.\n{NOTE}")
    transcript.ask(NOTE)
    imported(log, agent, transcript.save(host))
    (memory,) = episodes(log)
    assert memory.content == "Make the login test pass."
    assert (memory.action, memory.result) == ("$ pytest -q -> 2 passed", "It passes.")


@each_host
def test_a_secret_in_a_transcript_never_reaches_the_disk(
    agent: str, log: EventLog, host: Path, tmp_path: Path
) -> None:
    transcript = writer(agent)
    transcript.ask(f"Push with the token {SECRET} please, as always.")
    transcript.run(f"GH_TOKEN={SECRET} git push", f"remote: denied {SECRET}", code=1)
    transcript.edit("push.sh", "old", f"export GH_TOKEN={SECRET}\n")
    transcript.say(f"I used {SECRET}.")
    assert imported(log, agent, transcript.save(host)).counts.added == 4
    for path in (tmp_path / "home").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@each_host
def test_a_refused_tool_call_is_not_an_action(agent: str, log: EventLog, host: Path) -> None:
    transcript = writer(agent)
    transcript.ask("Clean up the working directory.")
    transcript.refuse("rm -rf build")
    transcript.say("Nothing was deleted.")
    imported(log, agent, transcript.save(host))
    (memory,) = episodes(log)
    assert (memory.action, memory.result) == (None, "Nothing was deleted.")


@each_host
def test_only_text_after_the_last_tool_call_is_the_result(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    transcript.ask("How many tests are there?")
    transcript.say("Let me count them.")
    transcript.run("pytest --collect-only -q", "2 tests collected")
    transcript.say("There are two.")
    transcript.say("Both are of the login.")
    imported(log, agent, transcript.save(host))
    (memory,) = episodes(log)
    assert memory.result == "There are two.\n\nBoth are of the login."


@each_host
def test_the_project_may_be_given_and_changes_no_id(
    agent: str, log: EventLog, host: Path, tmp_path: Path
) -> None:
    source = written(agent, host)
    imported(log, agent, source, project="other")
    assert {episode.project for episode in episodes(log)} == {"other"}
    assert imported(log, agent, source).counts.added == 0


@each_host
def test_a_folder_that_is_there_has_the_project_and_the_paths_that_hooks_give_it(
    agent: str, log: EventLog, host: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "shop"
    (repository / ".git").mkdir(parents=True)
    remote = '[remote "origin"]\n url = https://example.com/ada/shop.git\n'
    (repository / ".git" / "config").write_text(remote)
    (repository / "api").mkdir()
    (tmp_path / "loose").mkdir()
    transcript = writer(agent, cwd=str(repository / "api"))
    turn(transcript)
    imported(log, agent, transcript.save(host))
    other = writer(agent, cwd=str(tmp_path / "loose"), session="2b4d-of-no-repository")
    turn(other)
    imported(log, agent, other.save(tmp_path / "other host"))
    inside, outside = sorted(episodes(log), key=lambda memory: memory.project or "")
    assert (inside.project, outside.project) == ("example.com/ada/shop", "~/loose")
    assert "edited api/login.py" in (inside.action or "")
    assert "edited login.py" in (outside.action or "")


@each_host
def test_a_turn_is_kept_within_bounds(agent: str, log: EventLog, host: Path) -> None:
    transcript = writer(agent)
    transcript.ask("Explain all of it. " * 9_000)
    for number in range(2_100):
        transcript.run(f"make step-{number}", "word " * 60)
    transcript.say("It is so. " * 9_000)
    outcome = imported(log, agent, transcript.save(host))
    assert outcome.counts.added == 2_002
    (memory,) = episodes(log)
    assert len(memory.content) <= 2_000
    assert len(memory.action or "") <= 3_000 and len(memory.result or "") <= 2_000


def test_thanks_alone_create_no_episode(tmp_path: Path) -> None:
    transcript = writer("codex")
    turn(transcript)
    transcript.ask("thanks, perfect!")
    transcript.say("You are welcome.")
    home = tmp_path / "home"
    command(home, "import", "codex", str(transcript.save(tmp_path / "host")))
    with EventLog(tenants.tenant(home).log) as log:
        assert [episode.state for episode in episodes(log)] == ["active", "open"]


# lasting statements of the user

RULE = "Use pnpm in this repository, never npm."
OLD_PORT, NEW_PORT = (f"Our production database runs on port {port}." for port in (5432, 6432))


def statements(log: EventLog) -> list[Memory]:
    """Return the statements in a log, oldest first."""
    memories = (row for row in fold_events(log.read()).rows.values() if row.kind == STATEMENT)
    return sorted(memories, key=lambda memory: memory.created_at)


def write_session(agent: str, folder: Path, *prompts: str, **about: Any) -> Path:
    """Write a session of some prompts and return its path."""
    transcript = writer(agent, **about)
    for prompt in prompts:
        transcript.ask(prompt)
        transcript.say("Done.")
    return transcript.save(folder)


def test_quotes_that_opencode_run_put_around_a_prompt_are_left_out(
    log: EventLog, host: Path
) -> None:
    imported(
        log, "opencode", write_session("opencode", host, '"where is it?"', '"HEAD" or "main"?')
    )
    contents = [episode.content for episode in episodes(log)]
    assert contents == ["where is it?", '"HEAD" or "main"?']


@each_host
def test_an_imported_prompt_keeps_the_same_statement_as_a_live_one(
    agent: str, log: EventLog, host: Path, tmp_path: Path
) -> None:
    for live in opened(tmp_path / "live"):
        live.ask(RULE)
        (live_statement,) = statements(live.log)
    imported(log, agent, write_session(agent, host, RULE))
    (statement,) = statements(log)
    for name in ("content", "kind", "insight_type", "source", "trust", "state", "importance"):
        assert getattr(statement, name) == getattr(live_statement, name), name
    assert (statement.content, statement.trust) == (RULE, "user")
    assert (statement.session, statement.agent) == (SESSION, agent)
    assert statement.project == "shop" and statement.source_ids == (episodes(log)[0].id,)
    assert 0 < statement.created_at - 1_789_981_200_000_000 < 60_000_000


@each_host
def test_a_statement_is_kept_once_however_often_it_was_said_or_is_imported(
    agent: str, log: EventLog, host: Path
) -> None:
    source = write_session(agent, host, RULE, "Run the tests.", RULE)
    assert imported(log, agent, source).sessions.statements == 1
    again = imported(log, agent, source)
    assert (again.counts.added, again.sessions.statements) == (0, 0)
    assert len(statements(log)) == 1


def test_a_statement_that_was_forgotten_does_not_come_back_with_the_next_import(
    log: EventLog, host: Path
) -> None:
    imported(log, "codex", write_session("codex", host / "first", RULE))
    (imported_statement,) = statements(log)
    commands.forget(log, imported_statement.id, NOW)
    other = write_session("codex", host / "second", RULE, "Go on.", session="1b2c-of-the-same-week")
    assert imported(log, "codex", other).counts.added == 4
    assert imported(log, "codex", host / "first").counts.added == 0
    assert [statement.state for statement in statements(log)] == ["forgotten"]


def test_a_later_statement_replaces_the_one_that_it_contradicts(log: EventLog, host: Path) -> None:
    imported(log, "gemini", write_session("gemini", host, OLD_PORT, NEW_PORT))
    older, newer = statements(log)
    assert (older.state, older.superseded_by) == ("superseded", newer.id)
    assert (newer.state, newer.content) == ("active", NEW_PORT)


def test_an_older_session_does_not_replace_newer_statements(log: EventLog, host: Path) -> None:
    draft = Draft(content=NEW_PORT, kind="statement", project="shop", source="prompt")
    live = commands.record(log, draft, NOW).event
    imported(log, "codex", write_session("codex", host, OLD_PORT))
    older, newer = statements(log)
    assert (older.content, older.state, older.superseded_by) == (OLD_PORT, "superseded", live.id)
    assert (newer.id, newer.state) == (live.id, "active")
    assert older.ended_at == newer.created_at


def test_statements_taken_back_in_a_session_are_forgotten(log: EventLog, host: Path) -> None:
    source = write_session("claude-code", host, OLD_PORT, RULE, "Forget that.")
    imported(log, "claude-code", source)
    assert [(statement.content, statement.state) for statement in statements(log)] == [
        (OLD_PORT, "active"),
        (RULE, "forgotten"),
    ]
    assert imported(log, "claude-code", source).counts.added == 0


def test_statements_are_not_imported_if_the_setting_is_off(tmp_path: Path) -> None:
    source = write_session("codex", tmp_path / "host", RULE)
    off = {"MNEMOLOG_REMEMBER_WORDS": "false"}
    for words, statements in ((off, 0), ({}, 1)):
        home = tmp_path / str(statements)
        counts = json.loads(command(home, "import", "codex", str(source), "--json", **words))
        assert (counts["turns"], counts["statements"]) == (1, statements)


def test_a_repository_that_names_its_project_is_followed(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / ".mnemolog.toml").write_text('project = "renamed"\n')
    projects.allow_name(tmp_path / "home", repository, "renamed")
    source = write_session("codex", tmp_path / "host", RULE, cwd=str(repository))
    command(tmp_path / "home", "import", "codex", str(source))
    with EventLog(tenants.tenant(tmp_path / "home").log) as log:
        memories = (*episodes(log), *statements(log))
        assert [memory.project for memory in memories] == ["renamed", "renamed"]


# the command


def command(home: Path, *words: str, **environ: str) -> str:
    result = CliRunner().invoke(main, ["--home", str(home), *words], env=environ)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(home: Path, *words: str, **environ: str) -> str:
    result = CliRunner().invoke(main, ["--home", str(home), *words], env=environ)
    assert result.exit_code != 0, result.output
    return " ".join(result.stderr.split())


@each_host
def test_counts_are_reported_as_json(agent: str, tmp_path: Path, host: Path) -> None:
    transcript = writer(agent)
    turn(transcript)
    turn(transcript, "And the logout, please.")
    counted = json.loads(
        command(tmp_path / "home", "import", agent, str(transcript.save(host)), "--json")
    )
    counts = {"sessions": 1, "turns": 2, "live": 0, "off": 0, "added": 10}
    assert counted == counts | {"statements": 0, "known": 0, "refused": 0, "skipped": 0}


@each_host
def test_a_dry_run_reports_counts_and_writes_nothing(
    agent: str, tmp_path: Path, host: Path
) -> None:
    home, transcript = tmp_path / "home", writer(agent)
    turn(transcript)
    source = transcript.save(host)
    output = command(home, "import", agent, str(source), "--dry-run")
    assert output.splitlines() == [
        "1 turn in 1 session: 1 new, 0 skipped; nothing was written",
        "  shop: 1 turn in 1 session, 1 new, 2026-09-21 to 2026-09-21",
    ]
    assert not home.exists()
    command(home, "import", agent, str(source))
    size = (home / "tenants" / "default" / "log.sqlite").stat().st_size
    again = json.loads(command(home, "import", agent, str(source), "--dry-run", "--json"))
    assert (again["turns"], again["new"], again["live"]) == (1, 0, 0)
    (shop,) = again["projects"]
    assert (shop["project"], shop["sessions"], shop["turns"], shop["new"]) == ("shop", 1, 1, 0)
    assert shop["first"][:16] == shop["last"][:16] == "2026-09-21T09:00"
    assert (home / "tenants" / "default" / "log.sqlite").stat().st_size == size


_PLACES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", ""),
    "codex": ("CODEX_HOME", ".codex", ""),
    "gemini": ("GEMINI_CLI_HOME", ".gemini", ".gemini"),
    "opencode": ("XDG_DATA_HOME", ".local/share/opencode", "opencode"),
}


@each_host
def test_without_a_path_the_default_folder_of_the_host_is_read(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable, usual, below = _PLACES[agent]
    for name, _, _ in _PLACES.values():
        monkeypatch.delenv(name, raising=False)
    user = tmp_path / "user"
    monkeypatch.setattr(Path, "home", lambda: user)
    transcript = writer(agent)
    turn(transcript)
    transcript.save(user / usual)
    counts = json.loads(command(tmp_path / "a", "import", agent, "--json"))
    assert counts["turns"] == 1
    turn(transcript, "And the logout, please.")
    transcript.save(tmp_path / "moved" / below)
    moved = {variable: str(tmp_path / "moved")}
    assert json.loads(command(tmp_path / "b", "import", agent, "--json", **moved))["turns"] == 2


@each_host
def test_any_folder_above_or_below_the_transcripts_is_accepted(
    agent: str, log: EventLog, tmp_path: Path
) -> None:
    usual = _PLACES[agent][1]
    transcript = writer(agent)
    turn(transcript)
    host = transcript.save(tmp_path / "user" / usual)
    suffixes = (".jsonl", ".db")
    (file,) = (path for path in host.rglob("*") if path.suffix in suffixes and path.is_file())
    for place in (tmp_path / "user", host, file.parent, file):
        assert imported(log, agent, place).sessions.turns == 1, place


@each_host
def test_the_error_for_transcripts_of_another_host_names_its_command(
    agent: str, tmp_path: Path
) -> None:
    for other in AGENTS:
        transcript = writer(other)
        turn(transcript)
        source = transcript.save(tmp_path / f"of {other}")
        (file,) = (path for path in source.rglob("*") if path.suffix in (".jsonl", ".db"))
        for place in (source, file) if other != agent else ():
            message = refused(tmp_path / "home", "import", agent, str(place))
            assert f"of {TRANSCRIPT_HOSTS[other].title}: run `mnemolog import {other} '" in message
    assert not (tmp_path / "home").exists()


def _nothing(path: Path) -> None:
    pass


def _git(path: Path) -> None:
    (path / ".git").mkdir(parents=True)


def _repository_with_sessions(path: Path) -> None:
    _git(path)
    for agent in AGENTS:
        write_session(agent, path / "tests" / agent, "Run the tests.")


def _notes(path: Path) -> None:
    path.mkdir()
    (path / "README.md").write_text("# Notes\n")


def _export(path: Path) -> None:
    path.write_text('{"id":"a","content":"we use SQLite","kind":"fact","trust":"user"}\n')


@each_host
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (_nothing, "is not there"),
        (Path.mkdir, "is empty"),
        (_git, "is a git repository"),
        (_repository_with_sessions, "is a git repository: run `mnemolog import"),
        (_notes, "no session of"),
        (os.mkfifo, "is neither a file nor a folder"),
        (_export, "is an export of memories: run `mnemolog import jsonl"),
        (Path.touch, "is no session of"),
    ],
)
def test_the_error_for_a_wrong_path_says_what_it_is_and_what_to_give(
    agent: str, make: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    make(place)
    message = refused(tmp_path / "home", "import", agent, str(place))
    assert what in message
    assert "export" in what or TRANSCRIPT_HOSTS[agent].usual in message
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_are_named(log: EventLog, host: Path, tmp_path: Path) -> None:
    source = write_session("codex", host, "Run the tests.")
    (closed,) = source.rglob("*.jsonl")
    closed.chmod(0)
    for place in (closed, source):
        message = refused(tmp_path / "home", "import", "codex", str(place))
        assert f"{closed} cannot be read (Permission denied)" in message
    write_session("codex", host, "Run the tests.", session="2b-of-another-day")
    assert [sentence.split(" (")[0] for sentence in imported(log, "codex", host).skipped] == [
        f"{closed} cannot be read"
    ]
    closed.parent.chmod(0)
    message = refused(tmp_path / "home", "import", "codex", str(closed.parent))
    closed.parent.chmod(0o700)
    assert f"{closed.parent} cannot be read (Permission denied)" in message


def test_unknown_files_among_transcripts_are_skipped_and_named(log: EventLog, host: Path) -> None:
    transcript, other = writer("claude-code"), writer("codex")
    turn(transcript)
    turn(other)
    source = transcript.save(host)
    odd = source / "projects" / "-home-dev-shop"
    rollout = next(other.save(host / "aside").rglob("*.jsonl"))
    rollout.rename(odd / "rollout.jsonl")
    (odd / "notes.jsonl").write_text("not JSON\n")
    outcome = imported(log, "claude-code", source)
    assert outcome.sessions.turns == 1
    assert [sentence.removeprefix(f"{odd}/") for sentence in sorted(outcome.skipped)] == [
        "notes.jsonl was left out: it is no session of Claude Code",
        "rollout.jsonl is a session of Codex: `mnemolog import codex`",
    ]


@each_host
def test_links_that_lead_out_and_devices_are_not_followed(
    agent: str, log: EventLog, host: Path, tmp_path: Path
) -> None:
    transcript = writer(agent)
    turn(transcript)
    source = transcript.save(host)
    outside = writer(agent, session="9d9d9d9d-outside")
    turn(outside, "The harbour opens at six for the pilots.")
    files = [path for path in outside.save(tmp_path / "outside").rglob("*") if path.is_file()]
    for file in files:
        linked = source / file.relative_to(tmp_path / "outside")
        linked.parent.mkdir(parents=True, exist_ok=True)
        if not linked.exists():
            linked.symlink_to(file)
        (linked.parent / f"opencode-session-rollout-zero{file.suffix}").symlink_to("/dev/zero")
        os.mkfifo(linked.parent / f"opencode-pipe{file.suffix}")
    imported(log, agent, source)
    assert [episode.content for episode in episodes(log)] == [
        "Make the login test pass: it fails at midnight."
    ]


@each_host
def test_one_broken_transcript_of_many_is_named_and_stops_nothing(
    agent: str, log: EventLog, host: Path
) -> None:
    transcript = writer(agent)
    turn(transcript)
    source = transcript.save(host)
    if agent == "opencode":
        (source / "opencode-next.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4_000)
        outcome = imported(log, agent, source)
        assert len(episodes(log)) == 1
        assert "opencode-next.db cannot be read as a database of OpenCode's" in outcome.skipped[0]
        (source / "opencode.db").unlink()
        with pytest.raises(SourceError, match="cannot be read as a database of OpenCode's"):
            imported(log, agent, source)
        return
    (good,) = (path for path in source.rglob("*.jsonl") if path.is_file())
    data = good.read_bytes()
    broken = good.with_name(
        good.name.replace("session-", "session-a").replace("rollout-", "rollout-a")
    )
    broken = broken if broken != good else good.with_name("a.jsonl")
    broken.write_bytes(data[: len(data) // 2] + b'\n{"half": \n\xff\xfe\n')
    outcome = imported(log, agent, source)
    assert len(episodes(log)) == 1
    assert any(str(broken) in sentence for sentence in outcome.skipped)


@each_host
def test_a_long_import_notes_its_progress_where_there_is_no_terminal(
    agent: str, tmp_path: Path, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_NOTED_EVERY_S", 0)
    source = write_session(agent, host, "Run the tests.", "And the logout, please.")
    words = ["--home", str(tmp_path / "home"), "import", agent, str(source)]
    result = CliRunner().invoke(main, words)
    assert "0 of 1 transcripts read: 1 turn in 1 session" in result.stderr
    assert result.stdout.startswith("2 turns in 1 session: 4 events added, 0 known")
    assert "transcripts read" not in CliRunner().invoke(main, [*words, "--json"]).stderr

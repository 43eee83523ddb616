"""Claude Code's transcripts: the author of each line, and the lines left out."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transcript_files import SESSION, ClaudeCode, episodes, imported, turn

from store.home import tenant as tenants
from store.log.event_log import EventLog
from store.memories.memory import Memory

SESSIONS = Path(__file__).parent / "data" / "sessions"
ASKED = "Swap the manifest when HEAD moves, please."


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tenants.tenant(tmp_path / "home").log, create=True) as log:
        yield log


def read(log: EventLog, transcript: ClaudeCode, folder: Path) -> list[Memory]:
    imported(log, "claude-code", transcript.save(folder))
    return episodes(log)


@pytest.mark.parametrize(
    "content",
    [
        "<command-name>/clear</command-name>\n<command-args>now and for ever</command-args>",
        "<local-command-stdout>On branch main, nothing to commit</local-command-stdout>",
        "<system-reminder>The user opened a file in the editor</system-reminder>",
        "<task-notification>\n<task-id>a1</task-id>\n</task-notification>",
        "[Request interrupted by user for tool use]",
        [{"type": "text", "text": "[Request interrupted by user]"}],
        "This session is being continued from a previous conversation that ran out of context.",
        [{"type": "image", "source": {"data": "iVBORw0KGgo="}}],
        "",
    ],
)
def test_text_that_no_person_typed_is_not_a_prompt(
    log: EventLog, tmp_path: Path, content: object
) -> None:
    transcript = ClaudeCode()
    turn(transcript, ASKED)
    transcript.ask(content)
    assert [memory.content for memory in read(log, transcript, tmp_path)] == [ASKED]


@pytest.mark.parametrize(
    "flag",
    [
        {"isMeta": True},
        {"isSidechain": True},
        {"isCompactSummary": True},
        {"promptSource": "system"},
    ],
)
def test_machine_lines_are_not_turns(log: EventLog, tmp_path: Path, flag: dict[str, Any]) -> None:
    transcript = ClaudeCode()
    turn(transcript, ASKED)
    transcript._line("user", "Look at every file there is", **flag)
    transcript._line("assistant", [{"type": "text", "text": "There are nine."}], **flag)
    (memory,) = read(log, transcript, tmp_path)
    assert memory.result == ("There are nine." if "promptSource" in flag else None) or (
        memory.result == "The clock is called at every login now."
    )


@pytest.mark.parametrize("entrypoint", ["cli", "sdk-cli"])
def test_a_session_without_typed_input_belongs_to_a_program(
    log: EventLog, tmp_path: Path, entrypoint: str
) -> None:
    transcript = ClaudeCode()
    transcript._line("user", ASKED, entrypoint=entrypoint)
    transcript._line("assistant", [{"type": "text", "text": "Done."}])
    read(log, transcript, tmp_path)
    (prompted,) = log.events_between(("prompted",), 0, 1 << 60)
    assert prompted.author == ("typed" if entrypoint == "cli" else "program")


def test_words_beside_an_interruption_are_a_prompt(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    texts = ("[Request interrupted by user]", "keep the old name of the module")
    transcript.ask([{"type": "text", "text": text} for text in texts])
    (memory,) = read(log, transcript, tmp_path)
    assert memory.content == "keep the old name of the module"


def test_thinking_is_not_kept(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    transcript.ask(ASKED)
    transcript._line("assistant", [{"type": "thinking", "thinking": "secretly " * 30}])
    transcript.say("It is swapped.")
    (memory,) = read(log, transcript, tmp_path)
    assert memory.result == "It is swapped." and "secretly" not in memory.text


def test_an_edit_is_found_by_the_names_that_it_and_the_file_before_it_defined(
    log: EventLog, tmp_path: Path
) -> None:
    transcript = ClaudeCode()
    transcript.ask(ASKED)
    transcript.edit("reader.py", "import os", "def peek(): ...")
    transcript.lines[-1]["toolUseResult"]["originalFile"] = (
        "class Reader:\n    def poll(self): ...\n"
    )
    (memory,) = read(log, transcript, tmp_path)
    assert {"peek", "Reader", "poll"} <= set(memory.tags)


def test_a_malformed_call_is_neither_an_error_nor_an_edit(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    transcript.ask(ASKED)
    transcript.edit("reader.py", "gone", "here")
    transcript.lines[-1]["message"]["content"][0] |= {
        "content": "<tool_use_error>String to replace not found</tool_use_error>",
        "is_error": True,
    }
    (memory,) = read(log, transcript, tmp_path)
    assert memory.action is None


def test_a_prompt_given_while_a_tool_ran_ends_the_turn_after_its_outcome(
    log: EventLog, tmp_path: Path
) -> None:
    transcript = ClaudeCode()
    transcript.ask(ASKED)
    transcript.run("pytest -q", "2 passed")
    transcript.lines[-1]["message"]["content"] += [{"type": "text", "text": "And measure it, too."}]
    first, second = read(log, transcript, tmp_path)
    assert (first.action, second.content) == ("$ pytest -q -> 2 passed", "And measure it, too.")


def test_the_side_folders_of_a_project_are_not_read(log: EventLog, tmp_path: Path) -> None:
    transcript, side = ClaudeCode(), ClaudeCode(session="agent-a1")
    turn(transcript, ASKED)
    turn(side, "Look at every file there is")
    side._dump(tmp_path / "projects" / "-home-dev-shop" / SESSION / "subagents" / "agent-a1.jsonl")
    assert [memory.content for memory in read(log, transcript, tmp_path)] == [ASKED]


def test_a_session_that_was_copied_by_a_fork_is_read_once_as_the_elders(
    log: EventLog, tmp_path: Path
) -> None:
    transcript = ClaudeCode()
    turn(transcript, ASKED)
    copy = ClaudeCode(session="0000-sorts-first", at=transcript.at + 5)
    copy._line("queue-operation", "")
    copy.lines += [line | {"sessionId": copy.session} for line in transcript.lines]
    turn(copy, "And now in the fork.")
    copy.save(tmp_path)
    memories = read(log, transcript, tmp_path)
    assert [(each.session, each.content) for each in memories] == [
        (SESSION, ASKED),
        (copy.session, "And now in the fork."),
    ]
    assert imported(log, "claude-code", tmp_path).counts.added == 0


def test_packed_transcripts_are_read_as_they_are(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    turn(transcript, ASKED)
    (path,) = transcript.save(tmp_path).rglob("*.jsonl")
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    imported(log, "claude-code", tmp_path)
    assert [episode.content for episode in episodes(log)] == [ASKED]


def test_a_lone_surrogate_loses_only_itself(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    transcript.ask("Swap the manifest \ud83d please.")
    (memory,) = read(log, transcript, tmp_path)
    assert memory.content == "Swap the manifest \ufffd please."


def test_lines_of_unknown_types_are_passed_over_in_silence(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    turn(transcript, ASKED)
    transcript.lines += [{"type": "progress", "message": 7}, {"no": "type"}]
    assert imported(log, "claude-code", transcript.save(tmp_path)).skipped == []


def test_a_timestamp_outside_the_calendar_is_ignored(log: EventLog, tmp_path: Path) -> None:
    transcript = ClaudeCode()
    transcript.ask(ASKED)
    transcript.lines[0]["timestamp"] = "9999-12-31T23:59:59-05:00"
    (memory,) = read(log, transcript, tmp_path)
    assert memory.created_at == 1_795_400_000_000_000  # when it was imported


@pytest.mark.parametrize(
    "words",
    [
        "BEGIN IMMEDIATE",
        "apsw.BusyError",
        "port 7437",
        "Use ruff, never black.",
        "small commits",
        "Arrow IPC",
        "truncated snapshot is now found by its hash",
        "recall never calls a language model",
    ],
)
def test_the_bundled_sessions_hold_what_was_said_in_them(log: EventLog, words: str) -> None:
    assert imported(log, "claude-code", SESSIONS).skipped == []
    assert any(words in episode.text for episode in episodes(log))

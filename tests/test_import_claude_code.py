"""Claude Code transcripts become memories; the bundled sessions are read as a user's would be."""

import json
from pathlib import Path

import msgspec
import pytest

from store import frame
from store.commands import Draft
from store.errors import SourceError
from store.importers import claude_code
from store.importers.fixes import headline
from store.importers.rules import rules

SESSIONS = Path(__file__).parent / "data" / "sessions"
LONG = "The reader now swaps the manifest when HEAD moves, and keeps the old one open meanwhile."


def user(content: object, **more: object) -> dict[str, object]:
    return _line("user", {"role": "user", "content": content}, more)


def agent(*blocks: object, **more: object) -> dict[str, object]:
    texts = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return _line("assistant", {"role": "assistant", "content": texts}, more)


def called(number: int, **inputs: str) -> dict[str, object]:
    tool = "Edit" if "file_path" in inputs else "Bash"
    return agent({"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": inputs})


def result(number: int, text: str, *, is_error: bool = False) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
    return user([block | ({"is_error": True} if is_error else {})])


def _line(type_: str, message: object, more: dict[str, object]) -> dict[str, object]:
    envelope = {"sessionId": "s1", "cwd": "/home/dev/demo", "gitBranch": "main"}
    return {"type": type_, "message": message, **envelope, **more}


def written(folder: Path, *lines: dict[str, object], name: str = "s1.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate(lines):
        line.setdefault("uuid", f"u{number}")
        line.setdefault("timestamp", f"2026-10-05T09:{number:02d}:00.000Z")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(path: Path, project: str | None = None) -> list[Draft]:
    return list(claude_code.drafts(path, project=project))


def contents(path: Path) -> list[str]:
    return [draft.content for draft in read(path)]


def test_a_request_is_the_users_and_a_conclusion_the_agents(tmp_path):
    path = written(tmp_path, user("Swap the manifest when HEAD moves, please."), agent(LONG))
    asked, concluded = read(path)
    assert (asked.kind, asked.trust, asked.session) == ("raw_turn", "user", "s1")
    assert (concluded.kind, concluded.trust) == ("summary", "agent")
    assert concluded.context == "Asked: Swap the manifest when HEAD moves, please."
    assert (asked.source, asked.project) == ("claude-code", "demo")


@pytest.mark.parametrize(
    "content",
    [
        "<command-name>/clear</command-name>\n<command-args>now and for ever</command-args>",
        "<local-command-stdout>On branch main, nothing to commit</local-command-stdout>",
        "<system-reminder>The user opened a file in the editor</system-reminder>",
        "[Request interrupted by user for tool use]",
        [{"type": "text", "text": "[Request interrupted by user]"}],
        "This session is being continued from a previous conversation that ran out of context.",
        "/compact keep the decisions and the names of files",
        "yes, go ahead",
        f"{frame.OPENING}\n- the port is 7437\n{frame.CLOSING}",
    ],
)
def test_what_no_person_meant_to_be_kept_makes_no_memory(tmp_path, content):
    assert read(written(tmp_path, user(content))) == []


@pytest.mark.parametrize("flag", ["isMeta", "isSidechain", "isCompactSummary"])
def test_lines_of_the_machine_make_no_memory(tmp_path, flag):
    lines = user("Swap the manifest when HEAD moves", **{flag: True}), agent(LONG, **{flag: True})
    assert read(written(tmp_path, *lines)) == []


def test_thinking_and_tool_noise_make_no_memory(tmp_path):
    thinking = {"type": "thinking", "thinking": "secretly " * 30}
    calls = called(1, command="ls"), result(1, "a.py " * 99)
    path = written(
        tmp_path, agent(thinking), agent("Let me look at the folder first. " * 3), *calls
    )
    assert read(path) == []


def test_words_beside_an_interruption_are_kept(tmp_path):
    blocks = [{"type": "text", "text": text} for text in
              ("[Request interrupted by user]", "keep the old name of the module")]  # fmt: skip
    assert contents(written(tmp_path, user(blocks))) == ["keep the old name of the module"]


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("no, use pnpm", "lesson"),
        ("Use ruff, never black.", "preference"),
        ("we use pnpm, not npm", "preference"),
        ("never push to main", "preference"),
        ("Please always run the tests first.", "preference"),
        ("I prefer small commits.", "preference"),
        ("No. We use os.replace for that.", "preference"),
        ("don't touch the generated files", "lesson"),
        ("You forgot the changelog line.", "lesson"),
        ("Remember that the server listens on 7437.", "fact"),
    ],
)
def test_rules_are_known_by_their_words(prompt, kind):
    assert [rule.kind for rule in rules(prompt)] == [kind]


@pytest.mark.parametrize(
    "prompt",
    [
        "it never works on Windows", "I don't know why it fails", "should we always use WAL?",
        "the test always fails at night", "No.", "```\nalways use black\n```",
        "don't worry about it",
        "> never push to main", "use the reader to open it", "I want you to fix the login page",
        "always use tabs " * 600,
    ],
)  # fmt: skip
def test_what_is_no_rule_is_not_taken_for_one(prompt):
    assert rules(prompt) == []


def test_a_rule_inside_a_request_is_a_memory_of_its_own(tmp_path):
    prompt = "Split the reader in two files, one for the tail and one for it. Never push to main."
    asked, rule = read(written(tmp_path, user(prompt)))
    assert (asked.kind, rule.kind) == ("raw_turn", "preference")
    assert (rule.content, rule.context) == ("Never push to main.", prompt)


def test_a_prompt_that_is_only_a_rule_is_kept_once(tmp_path):
    (rule,) = read(written(tmp_path, user("We use pnpm, not npm.")))
    assert (rule.kind, rule.context) == ("preference", None)


def test_an_error_and_its_cure_become_a_bugfix(tmp_path):
    (fix,) = read(written(tmp_path, *FAILED, agent("BEGIN must be immediate."), *EDITED, *PASSED))
    assert (fix.kind, fix.trust) == ("bugfix", "tool")
    assert fix.content == "apsw.BusyError: locked (from `pytest -q`). Fix: BEGIN must be immediate."
    assert "1 failed" in (fix.context or "")
    assert fix.action == "BEGIN must be immediate. Edited log.py."
    assert fix.result == "`pytest -q` passed afterwards."
    assert fix.metadata["files"] == ["store/log.py"]


FAILED = (
    called(1, command="cd /home/dev/demo && pytest -q | tail"),
    result(1, "E   apsw.BusyError: locked\n1 failed", is_error=True),
)
EDITED = called(2, file_path="/home/dev/demo/store/log.py"), result(2, "updated")
PASSED = called(3, command="pytest -q"), result(3, "1 passed")


def test_an_error_without_an_edit_or_without_success_is_no_bugfix(tmp_path):
    assert read(written(tmp_path, *FAILED, *PASSED)) == []
    assert read(written(tmp_path, *FAILED, *EDITED)) == []


def test_a_refused_call_is_neither_error_nor_edit(tmp_path):
    refused = "The user doesn't want to proceed with this tool use."
    lines = (*FAILED, EDITED[0], result(2, refused, is_error=True), *PASSED)
    assert read(written(tmp_path, *lines)) == []


def test_the_headline_is_the_line_that_names_the_error():
    assert headline("Traceback:\n  x\nValueError: bad port\nrc 1") == "ValueError: bad port"
    assert headline("nothing special") == "nothing special"
    assert headline("") == "It failed without a word"


def test_the_words_before_a_call_are_no_conclusion(tmp_path):
    path = written(tmp_path, agent("I will look at this now. " * 9), *PASSED, agent(LONG))
    assert contents(path) == [LONG]


def test_a_reason_makes_a_conclusion_a_decision(tmp_path):
    text = "Snapshots are Arrow IPC instead of pickle, because unpickling runs code from the file."
    assert [draft.kind for draft in read(written(tmp_path, agent(text)))] == ["decision"]


def test_the_summary_line_is_a_memory_dated_by_the_session(tmp_path):
    title = {"type": "summary", "summary": "Reader swaps manifests", "leafUuid": "u9"}
    path = written(tmp_path, title, user("Swap the manifest when HEAD moves"))
    summary = read(path)[-1]
    assert (summary.kind, summary.content) == ("summary", "Reader swaps manifests")
    assert summary.created_at is not None and summary.created_at.minute == 1


def test_nothing_is_said_twice_in_one_session(tmp_path):
    ask = "Swap the manifest when HEAD moves"
    assert len(read(written(tmp_path, user(ask), user(ask.upper()), agent(LONG), user(ask)))) == 2


def test_a_session_that_grew_keeps_the_ids_it_had(tmp_path):
    lines = user("Swap the manifest when HEAD moves"), agent(LONG)
    before = read(written(tmp_path, *lines))
    after = read(written(tmp_path, *lines, user("And now measure how long the swap takes")))
    assert after[:2] == before and len(after) == 3


def test_the_project_may_be_given_and_never_changes_the_id(tmp_path):
    path = written(tmp_path, user("Swap the manifest when HEAD moves"))
    (given,), (found,) = read(path, "other"), read(path)
    assert (given.project, found.project) == ("other", "demo")
    assert given.id == found.id


def test_the_project_of_a_folder_that_exists_is_its_repositorys(tmp_path):
    (tmp_path / ".git").mkdir()
    remote = '[remote "origin"]\n url = https://example.com/ada/demo.git\n'
    (tmp_path / ".git/config").write_text(remote)
    path = written(tmp_path, user("Swap the manifest when HEAD moves", cwd=str(tmp_path)))
    assert read(path)[0].project == "example.com/ada/demo"


def test_a_bad_line_is_left_out_and_told(tmp_path):
    path = written(tmp_path, user("Swap the manifest when HEAD moves"))
    path.write_bytes(b'{"type": "user", "mess\n\xff\xfe\n' + path.read_bytes())
    told: list[str] = []
    assert len(list(claude_code.drafts(path, project=None, on_skip=told.append))) == 1
    assert [sentence.split(" was ")[0] for sentence in told] == [f"{path} line 1", f"{path} line 2"]


def test_lines_of_unknown_types_are_passed_over(tmp_path):
    told: list[str] = []
    path = written(tmp_path, {"type": "progress", "message": 7}, {"no": "type"})
    assert list(claude_code.drafts(path, project=None, on_skip=told.append)) == []
    assert told == []


def test_a_projects_root_is_read_without_its_side_folders(tmp_path):
    written(tmp_path, user("Swap the manifest when HEAD moves"), name="-home-dev-a/1.jsonl")
    written(tmp_path, user("Measure how long the swap takes"), name="-home-dev-b/2.jsonl")
    written(tmp_path, user("Look at every file there is"), name="-home-dev-b/2/subagents/3.jsonl")
    assert len(read(tmp_path)) == 2


def test_a_place_without_transcripts_is_named(tmp_path):
    with pytest.raises(SourceError, match="no transcripts"):
        read(tmp_path)
    with pytest.raises(SourceError, match="gone"):
        read(tmp_path / "gone")


def test_long_turns_are_cut(tmp_path):
    asked, concluded = read(
        written(tmp_path, user("Explain it. " * 900), agent("It is so. " * 900))
    )
    assert len(asked.content) <= claude_code.MAX_REQUEST + 4
    assert len(concluded.content) <= claude_code.MAX_REPLY + 4


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("decision", "BEGIN IMMEDIATE"),
        ("bugfix", "apsw.BusyError"),
        ("decision", "port 7437"),
        ("preference", "Use ruff, never black."),
        ("preference", "small commits"),
        ("decision", "Arrow IPC instead of pickle"),
        ("decision", "truncated snapshot is now found by its hash"),
        ("decision", "recall never calls a language model"),
        ("summary", "HEAD is replaced atomically"),
    ],
)
def test_the_bundled_sessions_hold_what_the_demo_asks_for(kind, words):
    found = [draft for draft in read(SESSIONS) if words in draft.content]
    assert kind in {draft.kind for draft in found}


def test_drafts_of_the_bundled_sessions_are_valid_and_the_same_twice():
    told: list[str] = []
    drafts = list(claude_code.drafts(SESSIONS, project=None, on_skip=told.append))
    assert told == []
    assert drafts == read(SESSIONS)
    assert len({draft.id for draft in drafts}) == len(drafts)
    assert msgspec.json.decode(msgspec.json.encode(drafts), type=list[Draft]) == drafts


def test_a_moment_beyond_the_calendar_is_none(tmp_path):
    said = user("Swap the manifest when HEAD moves, please.") | {
        "timestamp": "9999-12-31T23:59:59-05:00"
    }
    (asked,) = read(written(tmp_path, said))
    assert asked.created_at is None

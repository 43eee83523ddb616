"""Other programs' memories are read whole, once, with their times and origins."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_stores
import pytest
from click.testing import CliRunner, Result
from folds import fold_events
from foreign_stores import SECRET, note

from serve.cli import main
from serve.connect.text_edits import put_marked
from serve.hosts.host import packaged_text
from store.home.errors import SourceError
from store.home.projects import scope_of
from store.home.tenant import tenant
from store.importers import memory_store
from store.importers.jsonl import Exported
from store.importers.memory_stores import MEMORY_STORES
from store.log import commands
from store.log.event_log import EventLog
from store.memories.memory import Memory

# a store, its importer, and the number of memories in it
STORES: list[tuple[Callable[[Path], Path], str, int]] = [
    (foreign_stores.claude_memory, "claude-memory", 5),
    (foreign_stores.codex_memory, "codex-memory", 6),
    (foreign_stores.cursor, "cursor", 3),
    (foreign_stores.claude_mem, "claude-mem", 4),
    (foreign_stores.mem0, "mem0", 2),
    (foreign_stores.mem0_export, "mem0", 1),
    (foreign_stores.mem0_plugin, "mem0", 1),
    (foreign_stores.openmemory, "mem0", 2),
    (foreign_stores.openmemory_backup, "mem0", 1),
    (foreign_stores.basic_memory, "basic-memory", 5),
    (foreign_stores.basic_memory, "obsidian", 5),
    (foreign_stores.pmb, "pmb", 7),
    (foreign_stores.engram, "engram", 3),
    (foreign_stores.engram_export, "engram", 1),
    (foreign_stores.pali, "pali", 2),
    (foreign_stores.letta, "letta", 2),
    (foreign_stores.letta_server, "letta", 2),
]
EVERY = pytest.mark.parametrize(
    ("write", "name", "many"), STORES, ids=[f"{name}-{write.__name__}" for write, name, _ in STORES]
)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder of a user, and a working directory outside it."""
    for name in [variable for variable in os.environ if variable.startswith("MNEMOLOG_")]:
        monkeypatch.delenv(name)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "memory"))
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return home


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def answer(*words: str) -> dict[str, Any]:
    result = run("import", *words, "--json")
    assert result.exit_code == 0, result.output
    payload: dict[str, Any] = json.loads(result.stdout)
    return payload


def memories(tmp_path: Path) -> list[Memory]:
    with EventLog(tenant(tmp_path / "memory").log) as log:
        rows = fold_events(log.read()).rows.values()
    return [row for row in rows if row.kind != "episode"]


def by_text(tmp_path: Path, beginning: str) -> Memory:
    (matching,) = [memory for memory in memories(tmp_path) if memory.content.startswith(beginning)]
    return matching


def read(name: str, place: Path) -> tuple[list[Exported], list[str]]:
    skipped: list[str] = []
    return list(MEMORY_STORES[name].read(place, skipped.append)), skipped


@EVERY
def test_a_store_is_imported_once_with_its_origin_and_without_secrets(
    write, name: str, many: int, machine: Path, tmp_path: Path
):
    place = str(write(machine))
    dry = answer(name, place, "--dry-run")
    assert not (tmp_path / "memory").exists()
    first = answer(name, place)
    again = answer(name, place)
    assert dry | {"dry_run": False} == first
    assert first["added"] + first["refused"] == many
    assert (again["added"], again["changed"]) == (0, 0)
    assert again["known"] + again["refused"] == many
    for memory in memories(tmp_path):
        metadata = json.loads(memory.metadata)
        assert memory.source in (name, "markdown")  # instructions are read as Markdown
        assert metadata.get("imported_id") or metadata.get("path")
    files = [path for path in (tmp_path / "memory").rglob("*") if path.is_file()]
    assert files and not [file for file in files if SECRET.encode() in file.read_bytes()]


def test_times_are_those_of_the_store(machine: Path, tmp_path: Path):
    for name, write in (("engram", foreign_stores.engram), ("pmb", foreign_stores.pmb)):
        answer(name, str(write(machine)))
    at = foreign_stores.AT_MS * 1_000
    assert by_text(tmp_path, "Fixed the 500").created_at == at
    assert by_text(tmp_path, "The build broke").created_at == at


def test_a_text_changed_in_the_store_is_revised_by_the_next_import(machine: Path, tmp_path: Path):
    place = foreign_stores.basic_memory(machine)
    answer("basic-memory", str(place))
    old = place / "ops" / "Old plan.md"
    foreign_stores.note(old, "---\ntitle: Old plan\n---\nBackups ran on Mondays only.\n")
    assert answer("basic-memory", str(place))["changed"] == 1
    assert answer("basic-memory", str(place))["changed"] == 0
    assert by_text(tmp_path, "Backups ran on Mondays").project is None
    assert not [memory for memory in memories(tmp_path) if "Sundays" in memory.content]


def test_local_changes_to_an_imported_memory_are_kept(machine: Path, tmp_path: Path):
    place = foreign_stores.engram_export(machine)
    answer("engram", str(place))
    with EventLog(tenant(tmp_path / "memory").log) as log:
        commands.forget(log, by_text(tmp_path, "Fixed the 500").id, 1)
    place.write_text(place.read_text().replace("invoice.py", "bill.py"))
    assert answer("engram", str(place))["changed"] == 0
    assert by_text(tmp_path, "Fixed the 500").state == "forgotten"


def test_a_bare_name_is_the_known_project_that_ends_with_it(machine: Path, tmp_path: Path):
    run("record", "The quarry is deep and wide", "--project", "github.com/acme/quarry")
    answer("claude-mem", str(foreign_stores.claude_mem(machine)))
    assert by_text(tmp_path, "Chose SQLite").project == "github.com/acme/quarry"


def test_a_bare_name_is_the_project_of_the_repository_it_is_imported_in(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repository = tmp_path / "quarry"
    (repository / ".git").mkdir(parents=True)
    (repository / ".git/HEAD").write_text("ref: refs/heads/main\n")
    store = str(foreign_stores.claude_mem(machine))
    monkeypatch.chdir(repository)
    out = run("import", "claude-mem", store).output
    project = by_text(tmp_path, "Chose SQLite").project
    assert project == scope_of(repository) != "quarry"
    assert f"  {project}: " in out


def test_a_bare_name_of_two_known_projects_stays_as_it_is():
    projects = {"github.com/acme/web", "github.com/umbrella/web"}
    assert memory_store.settle_project("web", projects) == "web"
    assert memory_store.settle_project("../..", projects) is None
    assert memory_store.settle_project("My Shop", projects) == "My-Shop"


def test_project_option_takes_all(machine: Path, tmp_path: Path):
    answer("claude-mem", str(foreign_stores.claude_mem(machine)), "--project", "mine")
    assert {memory.project for memory in memories(tmp_path)} == {"mine"}


def test_claudes_notes_belong_to_the_project_of_their_sessions(machine: Path, tmp_path: Path):
    answer("claude-memory", str(foreign_stores.claude_memory(machine)))
    note = by_text(tmp_path, "Deploys of quarry")
    assert (note.project, note.trust) == ("github.com/acme/quarry", "agent")
    assert note.context == "where deploys go out from"
    assert by_text(tmp_path, "Commits stay small").kind == "preference"


def test_the_users_claude_md_and_what_it_imports_are_rules(machine: Path, tmp_path: Path):
    answer("claude-memory", str(foreign_stores.claude_memory(machine)))
    for beginning in ("Always answer", "Never force-push", "Use ruff"):
        rule = by_text(tmp_path, beginning)
        assert (rule.kind, rule.trust) == ("preference", "user")


def test_a_repositorys_claude_md_is_quoted(machine: Path, tmp_path: Path):
    foreign_stores.claude_memory(machine)
    answer("claude-memory", str(machine / "src" / "quarry"))
    (quoted,) = memories(tmp_path)
    assert (quoted.kind, quoted.trust) == ("fact", "tool")


def test_a_claude_md_imports_nothing_from_outside(machine: Path):
    secret = foreign_stores.note(machine / "elsewhere.md", "Nobody asked for this text here.\n")
    place = foreign_stores.note(machine / ".claude" / "CLAUDE.md", "- Be brief. @../elsewhere.md\n")
    lines, skipped = read("claude-memory", place.parent)
    assert len(lines) == 1 and skipped == [f"{secret} was left out: it lies outside {place.parent}"]


def test_claude_ais_memory_is_read_from_its_export(machine: Path, tmp_path: Path):
    answer("claude-memory", str(foreign_stores.claude_ai(machine)))
    assert "two machines" in by_text(tmp_path, "**Work**").content
    assert by_text(tmp_path, "The thesis").context == "Claude.ai's memory of Thesis"


def test_codex_entries_keep_their_folder_and_time(machine: Path, tmp_path: Path):
    answer("codex-memory", str(foreign_stores.codex_memory(machine)))
    entry = by_text(tmp_path, "Pin the pyarrow wheel")
    assert (entry.project, entry.context) == ("github.com/acme/quarry", "upgrading the index")
    recap = by_text(tmp_path, "The upgrade of the index")
    assert (recap.kind, recap.session) == ("summary", "019f")
    assert recap.created_at == entry.created_at == 1_770_892_200_000_000
    assert by_text(tmp_path, "Always write tests").trust == "user"


def test_cursor_rules_keep_their_description(machine: Path, tmp_path: Path):
    answer("cursor", str(foreign_stores.cursor(machine)))
    rule = by_text(tmp_path, "Always annotate")
    assert rule.context == ".cursor/rules/python.mdc > Python style (*.py, *.pyi) > Style"
    assert (rule.kind, rule.trust, rule.project) == ("fact", "tool", "github.com/acme/quarry")


def test_a_claude_mem_observation_keeps_facts_files_and_session(machine: Path, tmp_path: Path):
    answer("claude-mem", str(foreign_stores.claude_mem(machine)))
    memory = by_text(tmp_path, "Chose SQLite")
    assert memory.result == "WAL mode is on\nThe log lives in events.db"
    assert (memory.kind, memory.session, memory.tags) == (
        "decision",
        "m1",
        ("what-changed", "trade-off"),
    )
    assert json.loads(memory.metadata)["files"] == ["store/log.py"]


def test_mem0_keeps_the_newest_text_and_not_what_was_deleted(machine: Path, tmp_path: Path):
    answer("mem0", str(foreign_stores.mem0(machine)))
    texts = sorted(memory.content.split(" is ")[0] for memory in memories(tmp_path))
    assert texts == ["The staging cluster runs in eu-west-3", "The token of the bot"]


def test_an_export_of_mem0_says_whose_a_memory_is(machine: Path, tmp_path: Path):
    answer("mem0", str(foreign_stores.mem0_export(machine)))
    (memory,) = memories(tmp_path)
    assert (memory.created_by, memory.tags, memory.kind) == ("anna", ("ops",), "decision")


def test_openmemory_states_and_categories_are_kept(machine: Path, tmp_path: Path):
    answer("mem0", str(foreign_stores.openmemory(machine)))
    assert by_text(tmp_path, "Anna used the zsh").state == "archived"
    memory = by_text(tmp_path, "Anna uses the fish")
    assert (memory.tags, memory.agent, memory.project) == (("tooling",), "cursor", "web")


def test_observations_become_memories_and_relations_links(machine: Path, tmp_path: Path):
    answer("basic-memory", str(foreign_stores.basic_memory(machine)))
    decided = by_text(tmp_path, "SQLite in WAL mode")
    note = by_text(tmp_path, "# Event log")
    assert (decided.kind, decided.parent_id) == ("decision", note.id)
    assert (decided.tags, decided.context) == (("sqlite", "backup"), "Event log (decision)")
    assert "- [ ] an open task" in note.content and "[gotcha]" not in note.content
    with EventLog(tenant(tmp_path / "memory").log) as log:
        fold = fold_events(log.read())
    linked = {
        (fold.rows[edge.target].content.split(" on ")[0], edge.relation) for edge in fold.edges
    }
    assert linked == {
        ("Backups run at night from the replica in Falkenstein.", "support"),
        ("Backups run", "conflict"),
    }


def test_notes_in_a_repository_are_quoted(machine: Path, tmp_path: Path):
    foreign_stores.repository(foreign_stores.basic_memory(machine))
    answer("basic-memory", str(machine / "basic-memory"))
    assert {memory.trust for memory in memories(tmp_path)} == {"tool"}


def test_pmb_keys_goals_chains_and_edges_are_kept(machine: Path, tmp_path: Path):
    answer("pmb", str(foreign_stores.pmb(machine)))
    now, before = by_text(tmp_path, "deploy region: eu-n"), by_text(tmp_path, "deploy region: eu-w")
    assert (now.key, now.value, now.state) == ("deploy.region", "eu-north-1", "active")
    assert (before.state, before.superseded_by) == ("superseded", now.id)
    assert before.ended_at == foreign_stores.AT_MS * 1_000 + 60_000_000
    assert by_text(tmp_path, "Cut the cold start").status == "done"
    assert by_text(tmp_path, "Version 1.4").chain == "release"
    assert by_text(tmp_path, "It runs at night").context == "When does it run?"
    assert {memory.project for memory in memories(tmp_path)} == {"quarry"}
    with EventLog(tenant(tmp_path / "memory").log) as log:
        links = [event for event in log.read(0, log.head()) if event.kind == "linked"]
    assert [(link.subject, link.body.target) for link in links] == [
        (by_text(tmp_path, "The build broke").id, by_text(tmp_path, "Pin the wheel").id)
    ]


def test_engrams_personal_notes_belong_to_no_project(machine: Path, tmp_path: Path):
    answer("engram", str(foreign_stores.engram(machine)))
    assert by_text(tmp_path, "Editor").project is None
    assert by_text(tmp_path, "Moved the queue").kind == "summary"
    assert not [memory for memory in memories(tmp_path) if "Gone" in memory.content]


def test_a_pali_fact_that_ended_is_archived(machine: Path, tmp_path: Path):
    answer("pali", str(foreign_stores.pali(machine)))
    fact, memory = by_text(tmp_path, "Anna lives in"), by_text(tmp_path, "Anna moved")
    assert (fact.state, fact.parent_id, memory.trust) == ("archived", memory.id, "user")
    assert memory.importance == 0.8


def test_lettas_persona_is_left_out_and_said_so(machine: Path):
    lines, skipped = read("letta", foreign_stores.letta(machine))
    assert [line.content for line in lines] == [
        "The user is called Anna.",
        "Anna leads the quarry project since March.",
    ]
    assert skipped == [
        "block 'persona' of sam: it says how that agent behaves",
        "1 messages of sam: an agent file keeps the last 50 only",
    ]


@pytest.mark.parametrize(
    ("write", "name", "asked", "said"),
    [
        (foreign_stores.chatgpt, "chatgpt", "rotate the logs", "Use logrotate with copytruncate."),
        (foreign_stores.claude_ai, "claude-ai", "Which port", "Port 7437."),
    ],
)
def test_chats_become_episodes(write, name: str, asked: str, said: str, machine: Path, tmp_path):
    write(machine)  # in ~/Downloads, where the importer looks
    payload = answer(name)
    assert (payload["turns"], answer(name)["added"]) == (1, 0)
    with EventLog(tenant(tmp_path / "memory").log) as log:
        prompt, stop = list(log.read(0, log.head()))
    assert asked in prompt.body.prompt and stop.body.said == said
    assert prompt.at == foreign_stores.AT_MS * 1_000 and prompt.agent == name


def test_auto_finds_what_is_here_and_asks(machine: Path, tmp_path: Path):
    for write in (foreign_stores.claude_mem, foreign_stores.engram, foreign_stores.chatgpt):
        write(machine)
    output = run("import", "auto")
    assert output.exit_code == 0 and not (tmp_path / "memory").exists()
    words = [line.split(maxsplit=1) for line in output.stdout.splitlines()[1:]]
    assert {name: text.strip() for name, text in words} == {
        "chatgpt": "1 session",
        "claude-mem": "4 memories, 3 new, 1 would be refused",
        "engram": "3 memories, 3 new",
    }
    assert run("import", "auto", "--yes", "--skip", "chatgpt").exit_code == 0
    assert len(memories(tmp_path)) == 6
    again = answer("auto")
    assert [source.get("new") for source in again["found"]] == [None, 0, 0]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (".claude/CLAUDE.md", ("auto", "--yes")),
        (".claude/projects/-work/memory/note.md", ("auto", "--yes")),
        (".codex/memories/MEMORY.md", ("codex-memory",)),
        ("web/AGENTS.md", ("markdown", "web")),
        ("web/GEMINI.md", ("markdown", "web")),
        ("web/.cursor/rules/notes.mdc", ("cursor", "web")),
        ("vault/notes.md", ("obsidian", "vault")),
    ],
)
@pytest.mark.parametrize("is_marked", [True, False], ids=["marked", "a file of ours"])
def test_rules_that_connect_wrote_are_not_imported(
    file: str, words: tuple[str, ...], is_marked: bool, machine: Path, tmp_path: Path
):
    rules = packaged_text("rules.md")
    own = "Always restart the upload service through the watchdog.\n"
    text = put_marked(own, rules) if is_marked else f"{own}\n{rules}"
    path = note(machine / file, text)
    if file.startswith("vault"):
        note(machine / "vault/.obsidian/app.json", "{}")
    *names, last = words
    result = run("import", *names, str(machine / last) if last in ("web", "vault") else last)
    assert result.exit_code == 0, result.output
    assert [memory.content for memory in memories(tmp_path)] == [own.strip()], path


def test_auto_on_an_empty_machine_says_so():
    assert run("import", "auto", "--yes").stdout.startswith("nothing of any program")


def test_a_store_that_is_not_here_is_named(machine: Path):
    result = run("import", "claude-mem")
    assert result.exit_code == 2 and "~/.claude-mem/claude-mem.db" in result.output


@pytest.mark.parametrize("name", sorted(MEMORY_STORES))
def test_a_file_that_is_not_a_store_is_refused_by_path(name: str, machine: Path):
    empty = machine / "empty"
    empty.mkdir()
    with pytest.raises(SourceError, match=str(empty)):
        read(name, empty)


@pytest.mark.parametrize("name", ["claude-mem", "mem0", "pmb", "engram", "pali", "letta"])
def test_a_damaged_database_is_refused(name: str, machine: Path):
    broken = machine / "history.db"
    broken.write_bytes(b"SQLite format 3\x00" + bytes(range(256)) * 20)
    with pytest.raises(SourceError, match=r"cannot be read|no table"):
        read(name, broken)


def test_a_database_of_another_program_is_refused(machine: Path):
    with pytest.raises(SourceError, match="no table observations"):
        read("claude-mem", foreign_stores.pali(machine))


def test_a_front_matter_of_aliases_fills_no_memory(machine: Path):
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{two}: &{two} [{', '.join([f'*{name}'] * 9)}]\n"
        for name, two in zip("abcdefgh", "bcdefghi", strict=True)
    )
    place = foreign_stores.note(
        machine / "vault" / "n.md", f"---\n{bomb}tags: *i\n---\nA text of it.\n"
    )
    (line,) = read("obsidian", place.parent)[0]
    assert line.content.endswith("A text of it.") and len(line.content) < 1_000

"""An `export` read by `import jsonl` gives the same memory, including links and ratings."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import NOW, Built

from serve.cli import main
from store.home.tenant import tenant
from store.importers import jsonl
from store.importers.memory_store import import_memories
from store.importers.memory_stores import MEMORY_STORES
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.maintenance.export import export

DAY = 86_400_000_000
LATER = NOW + 40 * DAY


@pytest.fixture
def file(built: Built, tmp_path: Path) -> Path:
    """An export of a memory with a history."""
    for id_, when in (("h1", 1), ("h2", 2)):
        draft = Draft(id=id_, key="db.port", value=id_, content=f"The port is that of {id_}")
        commands.record(built.log, draft, NOW + when * DAY)
    commands.restore(built.log, "h1", NOW + 3 * DAY)  # makes the older value current
    commands.rate(built.log, "m02", -0.5, NOW + 4 * DAY, "it misled", trust="agent")
    commands.rate(built.log, "m02", 1.0, NOW + 5 * DAY)
    commands.archive(built.log, "m21", NOW + 6 * DAY)
    return written(built.log, tmp_path / "memories.jsonl")


@pytest.fixture
def other(tmp_path: Path) -> EventLog:
    return EventLog(tenant(tmp_path / "other").log, create=True)


def written(log: EventLog, path: Path) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in export(log, LATER, all_states=True)))
    return path


def lines(path: Path) -> dict[str, dict[str, object]]:
    """Return the lines by id, without fields that an import sets and forgotten memories."""
    read = (json.loads(line) for line in path.read_text().splitlines())
    memories = {memory["id"]: memory for memory in read if memory.get("state") != "forgotten"}
    for memory in memories.values():
        for name in ("seq", "updated_at", "source", "ttl_s"):
            memory.pop(name, None)
        memory["links"] = sorted(map(str, memory.get("links", ())))
    return memories


def test_an_export_that_was_imported_exports_the_same(file: Path, other: EventLog, tmp_path: Path):
    jsonl.import_lines(other, jsonl.exported_lines(file), LATER, project=None)
    again = lines(written(other, tmp_path / "again.jsonl"))
    expected = lines(file)
    assert expected["m02"]["ratings"] and expected["m04"]["links"] and expected["m21"]["ended_at"]
    assert again == expected


def test_a_second_import_adds_nothing(file: Path, other: EventLog):
    jsonl.import_lines(other, jsonl.exported_lines(file), LATER, project=None)
    head = other.head()
    counts = jsonl.import_lines(other, jsonl.exported_lines(file), LATER + DAY, project=None)
    assert (counts.added, other.head()) == (0, head)


def test_an_import_that_was_killed_before_the_links_is_ended_by_the_next(
    file: Path, other: EventLog, tmp_path: Path
):
    commands.import_drafts(other, jsonl.drafts(file, project=None), LATER)
    jsonl.import_lines(other, jsonl.exported_lines(file), LATER, project=None)
    assert lines(written(other, tmp_path / "again.jsonl")) == lines(file)


def test_local_changes_survive_an_import(file: Path, other: EventLog):
    jsonl.import_lines(other, jsonl.exported_lines(file), LATER, project=None)
    commands.restore(other, "m21", LATER)
    head = other.head()
    jsonl.import_lines(other, jsonl.exported_lines(file), LATER, project=None)
    assert other.head() == head


def test_a_memory_that_only_has_the_same_id_is_left_alone(other: EventLog, tmp_path: Path):
    commands.record(other, Draft(id="m1", content="The tides come at noon"), NOW)
    path = tmp_path / "hand.jsonl"
    path.write_text('{"id": "m1", "content": "We deploy at noon", "state": "archived"}\n')
    jsonl.import_lines(other, jsonl.exported_lines(path), LATER, project=None)
    assert [event.kind for event in other.events_for("m1")] == ["recorded"]


def test_a_link_to_a_memory_that_is_not_there_is_left_out(other: EventLog, tmp_path: Path):
    path = tmp_path / "hand.jsonl"
    link = {"target": "gone", "relation": "support"}
    line = {"id": "m1", "content": "We deploy at noon", "links": [link]}
    path.write_text(json.dumps(line) + "\n")
    jsonl.import_lines(other, jsonl.exported_lines(path), LATER, project=None)
    assert [event.kind for event in other.events_for("m1")] == ["recorded"]


def test_a_dry_run_counts_what_the_import_then_adds(file: Path, built: Built):
    def run(*words: str) -> dict[str, int]:
        result = CliRunner().invoke(main, ["import", "jsonl", str(file), "--json", *words])
        return json.loads(result.output)

    with file.open("a") as more:
        more.write('{"id": "n1", "content": "The tides come at noon"}\n{"content": "todo"}\n')
    head = built.log.head()
    survey = run("--dry-run")
    assert built.log.head() == head
    assert survey == run()
    assert (survey["added"], survey["refused"]) == (1, 1)


def test_a_dry_run_makes_no_memory(file: Path, tmp_path: Path):
    words = ["--home", str(tmp_path / "new"), "import", "jsonl", str(file), "--dry-run"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert not (tmp_path / "new").exists()


def test_what_turns_a_line_around_is_escaped_and_comes_back(
    built: Built, other: EventLog, tmp_path: Path
):
    text = "push \u202eniam ot\u202c\x9b31m\u2066 and\u200b go"
    commands.record(built.log, Draft(id="b1", content=text), NOW)
    path = written(built.log, tmp_path / "memories.jsonl")
    result = CliRunner().invoke(main, ["show", "b1", "--json"])
    for written_ in (path.read_text(), result.output):
        assert "\\u202e" in written_ and not set(written_) & set("\u202e\u202c\x9b\u2066\u200b")
    jsonl.import_lines(other, jsonl.exported_lines(path), LATER, project=None)
    [recorded] = other.events_for("b1")
    assert isinstance(recorded.body, Recorded) and recorded.body.content == text


def test_a_markdown_page_holds_every_text_as_a_quote(built: Built):
    text = "# No heading\nof \u202ethis page"
    commands.record(built.log, Draft(id="b1", content=text, project="acme/web"), NOW)
    page = CliRunner().invoke(main, ["export", "--format", "markdown", "--all-states"]).output
    assert "> # No heading\n> of this page" in page
    assert "\n## acme/web\n" in page
    assert "`m06`" not in page  # forgotten
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# Memories, ") and len(headings) < 20


NOTES = pytest.mark.parametrize("form", ["obsidian", "basic-memory", "claude-memory"])


@NOTES
def test_a_folder_of_notes_comes_back_as_the_same_memories(
    form: str, built: Built, file: Path, other: EventLog, tmp_path: Path
):
    odd = Draft(
        id="b1", content="# A heading\r\n--- and \u202esigns: [x]", context="é: 1", tags=("a b",)
    )
    commands.record(built.log, odd, NOW)
    expected = lines(written(built.log, tmp_path / "memories.jsonl"))
    folder = tmp_path / "notes"
    words = ["export", "--format", form, "--output", str(folder), "--all-states"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert "\u202e" not in "".join(path.read_text() for path in folder.rglob("*.md"))
    read = list(MEMORY_STORES[form].read(folder, print))
    imported = import_memories(other, read, LATER, None, print)
    assert (imported.added, imported.refused) == (len(expected), 0)
    assert lines(written(other, tmp_path / "again.jsonl")) == expected
    assert import_memories(other, read, LATER, None, print).added == 0


@NOTES
def test_notes_need_an_empty_folder(form: str, built: Built, tmp_path: Path):
    (tmp_path / "mine.md").write_text("mine")
    for folder in (str(tmp_path), "-"):
        result = CliRunner().invoke(main, ["export", "--format", form, "--output", folder])
        assert (result.exit_code, "--output" in result.output) == (2, True)
    assert (tmp_path / "mine.md").read_text() == "mine"


QUESTIONS = """which port does the recall server listen on
why did we choose SQLite for the event log
may I force push to main
what was wrong with the flaky test in test_sync
how often are uploads retried
what does Anna prefer
what is the Docker image built from
where do database migrations live
what caused the 500 on invoices
where is production"""


@NOTES
def test_a_memory_that_moved_answers_what_it_answered_before(
    form: str, built: Built, tmp_path: Path
):
    def answers(home: list[str]) -> list[str]:
        texts = []
        for question in QUESTIONS.splitlines():
            result = CliRunner().invoke(main, [*home, "recall", "--json", question])
            texts.append(json.loads(result.stdout)["hits"][0]["text"])
        return texts

    before = answers([])
    folder, new = str(tmp_path / "notes"), ["--home", str(tmp_path / "new")]
    CliRunner().invoke(main, ["export", "--format", form, "--output", folder])
    assert CliRunner().invoke(main, [*new, "import", form, folder]).exit_code == 0
    assert len(set(before)) == 10 and answers(new) == before

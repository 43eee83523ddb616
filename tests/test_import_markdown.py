"""Markdown notes become one memory per section, and one per rule."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from store.home.errors import SourceError
from store.importers import markdown
from store.importers.markdown import (
    list_items,
    pack,
    split_blocks,
    split_front_matter,
    split_sections,
)
from store.log.commands import Draft

RULES = """# Demo

Demo is a small server for parts.

## Testing

- Always run `make test` before a commit.
- Use real files in tests, never mocks.
- pytest

```sh
# not a heading
make test
```
"""


def read(path: Path, project: str | None = "demo") -> list[Draft]:
    return list(markdown.drafts(path, project=project))


def note(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_rules_and_sections_of_a_rules_file(tmp_path):
    drafts = read(note(tmp_path, "CLAUDE.md", RULES))
    assert [(draft.kind, draft.content, draft.context) for draft in drafts] == [
        ("fact", "Demo is a small server for parts.", "CLAUDE.md > Demo"),
        ("preference", "Always run `make test` before a commit.", "CLAUDE.md > Demo > Testing"),
        ("preference", "Use real files in tests, never mocks.", "CLAUDE.md > Demo > Testing"),
        ("fact", "```sh\n# not a heading\nmake test\n```", "CLAUDE.md > Demo > Testing"),
    ]


def test_a_list_that_is_no_list_of_rules_stays_with_its_section(tmp_path):
    text = "# Parts\n\nThe parts we keep:\n- bolts\n- nuts and washers\n"
    (draft,) = read(note(tmp_path, "notes.md", text))
    assert (draft.kind, draft.source, draft.trust) == ("fact", "markdown", "user")
    assert draft.content == "The parts we keep:\n\n- bolts\n- nuts and washers"


def test_sections_of_a_decision_record_are_decisions(tmp_path):
    text = "# 1. Use Arrow\n\n## Status\n\nAccepted\n\n## Decision\n\nSnapshots are Arrow files.\n"
    note(tmp_path, "docs/adr/0001-arrow.md", text)
    (draft,) = read(tmp_path)
    assert draft.kind == "decision"
    assert draft.context == "docs/adr/0001-arrow.md > 1. Use Arrow > Decision"


ADR = """# 4. Use Arrow for snapshots

* Status: accepted
* Date: 2024-02-12

## Context and problem statement

Readers copy every row that they look at.

## Decision drivers

Start-up has to stay under a second.

## Decision outcome

Snapshots are Arrow files, mapped into memory.

## Consequences

Old readers cannot open new snapshots.
"""


@pytest.mark.parametrize("name", ["docs/adr/0004-arrow.md", "notes/arrow.md"])
def test_a_decision_record_tells_context_from_decision_and_has_its_day(tmp_path, name):
    note(tmp_path, name, ADR)
    kinds = {
        draft.context.split(" > ")[-1]: draft.kind for draft in read(tmp_path) if draft.context
    }
    assert kinds == {
        "Context and problem statement": "context",
        "Decision drivers": "context",
        "Decision outcome": "decision",
        "Consequences": "decision",
    }
    assert {draft.created_at for draft in read(tmp_path)} == {datetime(2024, 2, 12, tzinfo=UTC)}


CHANGELOG = """# Changelog

What changes for users is told here.

## Unreleased

- Read the tail without a build.

## [1.2.0] - 2024-05-01

### Added

- Readers see the tail
  at once.
- `log --since`

### Removed

* The old reader of 0.x logs

### Bug Fixes

1. Sort by time, not by name (#12)

## 1.1.0 (2 March 2024)

A quiet one, without any list.

[1.2.0]: https://example.com/compare/v1.1.0...v1.2.0
[1.1.0]: https://example.com/releases/v1.1.0
"""


@pytest.mark.parametrize("name", ["CHANGELOG.md", "docs/History.md", "release-notes.md"])
def test_the_entries_of_a_changelog_are_a_memory_each_of_their_release(tmp_path, name):
    note(tmp_path, name, CHANGELOG)
    drafts = read(tmp_path)
    titles = [
        (draft.kind, draft.content, draft.created_at and draft.created_at.date())
        for draft in drafts
    ]
    may, march = date(2024, 5, 1), date(2024, 3, 2)
    assert titles == [
        ("activity", "What changes for users is told here.", None),
        ("activity", "Read the tail without a build.", None),
        ("activity", "Readers see the tail\n  at once.", may),
        ("activity", "`log --since`", may),
        ("decision", "The old reader of 0.x logs", may),
        ("bugfix", "Sort by time, not by name (#12)", may),
        ("activity", "A quiet one, without any list.", march),
    ]
    assert drafts[3].context == f"{name} > Changelog > [1.2.0] - 2024-05-01 > Added"


@pytest.mark.parametrize(
    ("heading", "day"),
    [
        ("2024-05-01", (2024, 5, 1)),
        ("2024-05-01 Planning", (2024, 5, 1)),
        ("v1.2.0 2024-05-01", (2024, 5, 1)),
        ("1.2.0 / 2024-05-01", (2024, 5, 1)),
        ("Sprint 12 (1st May 2024)", (2024, 5, 1)),
        ("[1.2.0](https://example.com/1.2.0) (2024-05-01)", (2024, 5, 1)),
        ("1.2.0 - May 1, 2024", (2024, 5, 1)),
        ("1.2.0 - 1. März 2024", (2024, 3, 1)),
        ("Moving to Postgres by 2027-01-01", None),
        ("1.2.0 - 2024-02-31", None),
        ("The year 2024", None),
        ("Today", None),
    ],
)
def test_the_day_of_a_heading(tmp_path, heading, day):
    (draft,) = read(note(tmp_path, "notes.md", f"# {heading}\n\nThe tail is read first.\n"))
    assert draft.created_at == (day and datetime(*day, tzinfo=UTC))


def test_the_nearest_date_wins(tmp_path):
    text = (
        "---\ndate: 1 March 2024\n---\n# Log\n\nWhat we did and why.\n\n"
        "## Tail\n\n**Date:** 2024-03-05\n\nThe tail is read first.\n\n"
        "## 2024-03-07\n\n### Talk\n\nThe head is read last.\n"
    )
    drafts = read(note(tmp_path, "notes.md", text))
    assert [draft.created_at and draft.created_at.day for draft in drafts] == [1, 5, 7]


def test_a_line_of_some_section_dates_no_other(tmp_path):
    text = "# A\n\nThe first part of it.\n\n# B\n\nDate: 2024-03-05\n\nThe second of it.\n"
    first, second = read(note(tmp_path, "notes.md", text))
    assert first.created_at is None and second.created_at is not None


def test_front_matter_gives_tags_and_date_and_is_left_out(tmp_path):
    text = "---\ntags: [storage, 'on disk']\ndate: 2026-03-01\n---\nThe log is one SQLite file.\n"
    (draft,) = read(note(tmp_path, "log.md", text))
    assert draft.tags == ("storage", "on disk")
    assert draft.created_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert draft.content == "The log is one SQLite file."


def test_front_matter_of_other_shapes():
    assert split_front_matter("---\ntags:\n  - a\n  - b\ncreated: 2026-02-31\n---\nx")[0].tags == (
        "a",
        "b",
    )
    assert split_front_matter("---\ndate: 2026-02-31\n---\nx")[0].date is None
    assert split_front_matter("no front\n---\nmatter\n---\n")[1].startswith("no front")


def test_an_unchanged_section_keeps_its_id_and_a_changed_one_gets_another(tmp_path):
    path = note(tmp_path, "notes.md", "# A\n\nThe first part of it.\n\n# B\n\nThe second of it.\n")
    before = read(path)
    note(tmp_path, "notes.md", "# B\n\nThe second of it.\n\n# A\n\nThe first part has changed.\n")
    after = read(path)
    assert before[1].id == after[0].id
    assert before[0].id != after[1].id


def test_ids_are_the_same_in_every_clone(tmp_path):
    for clone in ("one", "two"):
        (tmp_path / clone / ".git").mkdir(parents=True)
        note(tmp_path / clone, "docs/notes.md", "The log is one SQLite file.")
    whole = read(tmp_path / "one")
    assert [draft.id for draft in whole] == [draft.id for draft in read(tmp_path / "two/docs")]
    assert whole[0].metadata == {"path": "docs/notes.md"}


def test_import_reports_progress_per_file(tmp_path):
    for name in ("a.md", "b.md"):
        note(tmp_path, name, "# Ports\n\nThe server listens on port 7437.\n")
    progress: list[tuple[int, int]] = []
    list(markdown.drafts(tmp_path, project=None, on_progress=lambda *far: progress.append(far)))
    assert progress == [(1, 2), (2, 2)]


def test_hidden_and_vendored_folders_are_skipped(tmp_path):
    text = "The log is one SQLite file."
    for folder in (".git", ".obsidian", "node_modules/left-pad", "notes"):
        note(tmp_path, f"{folder}/README.md", text)
    assert [draft.metadata["path"] for draft in read(tmp_path)] == ["notes/README.md"]


def test_links_are_not_followed_out_of_the_folder_and_a_file_is_read_once(tmp_path):
    vault = tmp_path / "vault"
    note(vault, "AGENTS.md", "The log is one SQLite file.")
    (vault / "CLAUDE.md").symlink_to("AGENTS.md")
    (vault / "out.md").symlink_to(note(tmp_path, "private.md", "The key lies under the mat."))
    (vault / "up").symlink_to(tmp_path)
    assert [draft.context for draft in read(vault)] == ["AGENTS.md"]


def test_a_long_section_is_divided_between_paragraphs(tmp_path):
    text = "\n\n".join(f"Paragraph {number}: " + "word " * 80 for number in range(10))
    drafts = read(note(tmp_path, "long.md", f"# Long\n\n{text}\n"))
    assert len(drafts) == 4
    assert all(draft.content.startswith("Paragraph") for draft in drafts)
    assert max(len(draft.content) for draft in drafts) <= markdown.MAX_TEXT


def test_a_paragraph_without_an_end_is_divided_too():
    assert [len(text) for text in pack(["x" * 10_000], 1_500)] == [6_000, 4_000]


def test_fences_are_never_divided_and_hold_no_heading():
    text = "# A\n\n~~~~\n# no\n\n```\n- no\n~~~\n~~~~\n\n# B\nend"
    assert [section.path for section in split_sections(text)] == [("A",), ("B",)]
    assert len(split_blocks(next(split_sections(text)).text)) == 1


def test_headings_nest_and_comments_are_left_out():
    text = "<!-- a\n# b -->\n# A #\n### C\none\n## B\ntwo"
    assert [(section.path, section.text) for section in split_sections(text)] == [
        (("A", "C"), "one"),
        (("A", "B"), "two"),
    ]


def test_an_item_keeps_what_is_nested_in_it():
    assert list_items("1. Use WAL.\n   - always\n2. [x] Fsync it.") == [
        "Use WAL.\n   - always",
        "Fsync it.",
    ]
    assert list_items("Not a list") == []


def test_line_ends_marks_and_bytes_of_other_systems(tmp_path):
    path = tmp_path / "notes.md"
    path.write_bytes(b"\xef\xbb\xbf# Caf\xe9\r\n\r\nThe log is one SQLite file.\r\n")
    (draft,) = read(path)
    assert (draft.context, draft.content) == ("notes.md > Caf\ufffd", "The log is one SQLite file.")


def test_binary_files_are_skipped_and_reported(tmp_path):
    (tmp_path / "image.md").write_bytes(b"\x00\x01 four words of text here")
    notices: list[str] = []
    assert list(markdown.drafts(tmp_path, project=None, on_skip=notices.append)) == []
    assert len(notices) == 1 and "image.md was left out" in notices[0]


def test_a_place_without_markdown_is_named(tmp_path):
    with pytest.raises(SourceError, match="no Markdown files in"):
        read(tmp_path)
    with pytest.raises(SourceError, match="gone does not exist"):
        read(tmp_path / "gone")


def test_rules_from_a_repository_are_quoted_and_not_binding(tmp_path):
    (tmp_path / ".git").mkdir()
    drafts = read(note(tmp_path, "CLAUDE.md", RULES))
    assert {(draft.kind, draft.trust) for draft in drafts} == {("fact", "tool")}


def test_rules_from_a_repository_bind_if_the_user_says_so(tmp_path):
    (tmp_path / ".git").mkdir()
    path = note(tmp_path, "CLAUDE.md", RULES)
    mine = list(markdown.drafts(path, project="demo", is_mine=True))
    assert [draft.kind for draft in mine].count("preference") == 2
    assert {draft.trust for draft in mine} == {"user"}
    assert not {draft.id for draft in mine} & {draft.id for draft in read(path)}

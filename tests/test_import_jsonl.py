"""JSON Lines of our own: every line becomes a memory or an error with its position."""

import gzip
import json
import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from store.home.errors import SourceError
from store.importers import jsonl
from store.log.commands import Draft


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.jsonl"


def read(path: Path, *lines: object, project: str | None = None) -> list[Draft]:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(text + "\n" for text in texts))
    return list(jsonl.drafts(path, project=project))


def test_a_draft_written_out_is_the_same_draft_read(path):
    draft = Draft(
        id="01J", content="The port is 7437", kind="decision", tags=("serve",), project="demo",
        session="s", agent="codex", trust="agent", source="git", metadata={"a": [1]}, pinned=True,
    )  # fmt: skip
    assert read(path, msgspec.json.encode(draft).decode()) == [draft]


def test_what_an_export_adds_is_accepted(path):
    line = {"id": "01J", "content": "The port is 7437", "seq": 9, "superseded_by": "01K"}
    line |= {"updated_at": "2026-10-05T09:00:00Z", "state": "superseded"}
    assert read(path, line) == [Draft(id="01J", content="The port is 7437", source="jsonl")]


def test_forgotten_memories_are_not_brought_back(path):
    lines = [{"content": f"it is {state}", "state": state} for state in ("forgotten", "archived")]
    assert [draft.content for draft in read(path, *lines)] == ["it is archived"]


def test_a_line_without_id_gets_one_from_its_text_and_project(path):
    first, again, other = read(path, {"content": "a b"}, {"content": "a b"}, {"content": "a c"})
    assert first.id == again.id != other.id
    (elsewhere,) = read(path, {"content": "a b"}, project="demo")
    assert (elsewhere.id != first.id, elsewhere.project) == (True, "demo")


def test_the_project_of_a_line_wins(path):
    assert read(path, {"content": "a b", "project": "mine"}, project="demo")[0].project == "mine"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"content": "a", "colour": "red"}, "unknown field `colour`"),
        ({"kind": "fact"}, "missing required field `content`"),
        ({"content": "a", "kind": "rumour"}, "Invalid enum value 'rumour'"),
        ({"content": 7}, r"Expected `str`, got `int` - at `\$.content`"),
        ("{broken", "malformed"),
        ("[]", "Expected `object`"),
    ],
)
def test_a_wrong_line_is_an_error_with_its_number(path, line, complaint):
    with pytest.raises(SourceError, match=f"^notes.jsonl line 3: .*{complaint}"):
        read(path, {"content": "fine"}, "", line)


def test_lines_before_a_wrong_one_are_read(path):
    path.write_text('{"content": "fine"}\nwrong\n')
    drafts = jsonl.drafts(path, project=None)
    assert next(drafts).content == "fine"


def test_bytes_that_are_no_utf_8_are_an_error_with_a_number(path):
    path.write_bytes(b'{"content": "caf\xe9"}\n')
    with pytest.raises(SourceError, match=r"notes\.jsonl line 1: "):
        list(jsonl.drafts(path, project=None))


def test_a_byte_order_mark_and_an_empty_file_are_accepted(path):
    path.write_bytes(b'\xef\xbb\xbf{"content": "fine"}')
    assert len(list(jsonl.drafts(path, project=None))) == 1
    assert read(path) == []


def test_a_line_without_end_is_not_read_whole(path, monkeypatch):
    monkeypatch.setattr(jsonl, "MAX_LINE", 100)
    with pytest.raises(SourceError, match=r"line 1: over 100 bytes"):
        read(path, {"content": "a" * 200})


def test_a_missing_file_is_named(path):
    with pytest.raises(SourceError, match=r"notes\.jsonl cannot be read \(No such file"):
        list(jsonl.drafts(path, project=None))


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return packed


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_file_is_read_as_it_is(path, pack):
    path.write_bytes(pack(b'{"content": "the tide"}\n{"content": "the moon"}\n'))
    assert [draft.content for draft in jsonl.drafts(path, project=None)] == ["the tide", "the moon"]


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_zip_bomb_or_truncated_archive_is_refused(path, pack):
    path.write_bytes(pack(bytes(32 << 20)))
    with pytest.raises(SourceError, match=r"line 1: over|unpacks to over 100 times"):
        list(jsonl.drafts(path, project=None))
    line = b'{"content": "the tide ' + os.urandom(40).hex().encode() + b'"}\n'
    path.write_bytes(pack(line * 99)[:-6])
    with pytest.raises(SourceError, match="cannot be unpacked"):
        list(jsonl.drafts(path, project=None))


def test_a_deeply_nested_line_is_reported(path):
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(SourceError, match="line 1: "):
        read(path, f'{{"content": "a", "metadata": {{"a": {deep}}}}}')

"""JSON that other programs packed or wrote is imported in little memory, or refused by name."""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from torture.apart import Answer, Apart

from store.home.capped_files import json_elements
from store.home.errors import SourceError
from store.importers import chat_exports, claude_memory, letta, mem0

MIB = 1 << 20
MOST_GROWN = 120 * MIB
STORES = {"claude-memory": claude_memory.STORE, "mem0": mem0.STORE, "letta": letta.STORE}


def read_source(given: tuple[str, str]) -> int:
    """Read a source in a separate process; return the number of turns or memories in it."""
    kind, name = given
    path, skipped = Path(name), list[str]()
    if kind == "uncapped":
        data = zipfile.ZipFile(path).read("conversations.json")
        return len(msgspec.json.decode(data) if data.startswith(b"[") else data)
    if kind in STORES:
        return len(list(STORES[kind].read(path, skipped.append)))
    chatgpt = chat_exports.find_chatgpt(path, skipped.append)
    return sum(
        len(list(chat_exports.chatgpt_turns(transcript, skipped.append))) for transcript in chatgpt
    )


def conversation(id_: str, text: str) -> dict[str, object]:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": f"{id_}-m", "author": {"role": "user"}, "content": content}
    nodes = {"a": {"message": message, "parent": None}}
    return {"conversation_id": id_, "mapping": nodes, "current_node": "a"}


def write_zip(path: Path, name: str, data: bytes, *more: str, method: int = 8) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for other in more:
            archive.writestr(other, b"")
        archive.writestr(name, data)
    return path


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    path = tmp_path_factory.mktemp("warm") / "conversations.json"
    path.write_text(json.dumps([conversation("a", "How are logs rotated?")]))
    with Apart(read_source, ("chatgpt", str(path))) as process:
        yield process


def ask(apart: Apart, kind: str, path: Path) -> Answer:
    answer = apart.ask((kind, str(path)))
    assert not answer.crash
    assert kind == "uncapped" or answer.grown < MOST_GROWN
    return answer


@pytest.mark.parametrize("kind", ["chatgpt", "claude-memory", "mem0"])
@pytest.mark.parametrize("filling", [b"\0", b" "])
def test_bomb_in_a_zip_is_refused_by_name_in_little_memory(
    apart: Apart, tmp_path: Path, kind: str, filling: bytes
):
    names = {"chatgpt": "conversations.json", "claude-memory": "memories.json"}
    data, name = filling * (120 * MIB), names.get(kind, "memories.jsonl.gz")
    data = gzip.compress(data, 1) if kind == "mem0" else data
    path = write_zip(tmp_path / "bomb.zip", name, data)
    refused = ask(apart, kind, path).refused
    assert str(path) in refused and name in refused
    assert "unpack" in refused or "no whole list" in refused or "split it" in refused


def test_values_without_end_are_refused_where_decoding_them_fills_the_memory(
    apart: Apart, tmp_path: Path
):
    data = b"[" + b"{}," * (5 * MIB) + b"{}]"
    bomb = write_zip(tmp_path / "a.zip", "conversations.json", data, method=0)
    assert "have no id" in ask(apart, "chatgpt", bomb).refused
    listed = write_zip(tmp_path / "b.zip", "memories.json", data, method=0)
    assert "split it" in ask(apart, "claude-memory", listed).refused
    for kind in ("mem0", "letta"):
        plain = tmp_path / f"{kind}.json"
        plain.write_bytes(data)
        assert "split it" in ask(apart, kind, plain).refused
    try:
        assert ask(apart, "uncapped", bomb).grown > MOST_GROWN
    finally:
        apart.restart()


@pytest.mark.parametrize(
    "data",
    [
        b"[" * (40 * MIB),
        b'[{"id":"a","mapping":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'[{"id":"a"},' + b"1," * (4 * MIB),
        b'[{"id":"a","mapping":"' + b'\\"' * (17 * MIB) + b'"}',
        b"]" * MIB,
    ],
    ids=["deep", "deep-element", "numbers", "long-text", "ends"],
)
def test_endless_conversations_are_refused_in_little_memory(
    apart: Apart, tmp_path: Path, data: bytes
):
    path = tmp_path / "conversations.json"
    path.write_bytes(data)
    assert "is no " in ask(apart, "chatgpt", path).refused


def test_zips_that_lie_or_list_many_files_are_refused_or_read_in_little_memory(
    apart: Apart, tmp_path: Path
):
    data = json.dumps([conversation("a", "How are logs rotated?")]).encode()
    one = write_zip(tmp_path / "one.zip", "conversations.json", data).read_bytes()
    lie = tmp_path / "lie.zip"
    lie.write_bytes(one.replace(len(data).to_bytes(4, "little"), (9).to_bytes(4, "little")))
    assert "cannot be unpacked" in ask(apart, "chatgpt", lie).refused
    rare = write_zip(tmp_path / "rare.zip", "conversations.json", bytes(30 * MIB), method=12)
    assert "rare way" in ask(apart, "chatgpt", rare).refused
    nested = write_zip(tmp_path / "nested.zip", "conversations.json", one)
    assert "no whole list" in ask(apart, "chatgpt", nested).refused
    crowd = tmp_path / "crowd.zip"
    entry = one[one.index(b"PK\1\2") : one.index(b"PK\5\6")]
    count = 150_000
    size, at = (len(entry) * count).to_bytes(4, "little"), one.index(b"PK\1\2")
    end = b"PK\5\6" + bytes(4) + b"\xff\xff\xff\xff" + size + at.to_bytes(4, "little") + bytes(2)
    crowd.write_bytes(one[:at] + entry * count + end)
    assert "lists too many files" in ask(apart, "chatgpt", crowd).refused


def test_honest_export_is_read_whole_in_little_memory(apart: Apart, tmp_path: Path):
    words = [f"word{number}" for number in range(5_000)]
    chance = random.Random(28)
    texts = [" ".join(chance.choices(words, k=5_000)) for _ in range(10)]
    conversations = [conversation(f"c{n}", f'{n} {texts[n % 10]} "\\ [') for n in range(1_500)]
    data = msgspec.json.encode(conversations)
    assert len(data) > 45 * MIB
    path = write_zip(tmp_path / "export.zip", "conversations.json", data, "a.png", method=0)
    assert ask(apart, "chatgpt", path).value == 1_500


def test_elements_are_those_that_a_decoder_of_the_whole_list_gives(monkeypatch: pytest.MonkeyPatch):
    elements = [{"a": '\\"[{', "b": [1, {"c": "]}\\\\"}]}, {}, {"ü": "\u2028"}, {"d": "x" * 99}]
    data = b"\xef\xbb\xbf" + json.dumps(elements, indent=1).encode()
    for size in range(4, 60):
        monkeypatch.setattr("store.home.capped_files._CHUNK", size)
        found = json_elements(io.BufferedReader(io.BytesIO(data)), "a", 1_000, pytest.fail)
        assert [json.loads(other) for other in found] == elements


def test_a_long_element_is_left_out_by_number_and_the_others_are_read():
    data, skipped = b'[{"a":1},{"a":"%s"},{"a":3}]' % (b"x" * 500_000), list[str]()
    file = io.BufferedReader(io.BytesIO(data))
    assert list(json_elements(file, "a.json", 1_000, skipped.append)) == [b'{"a":1}', b'{"a":3}']
    assert [line.split(" was")[0] for line in skipped] == ["a.json element 2"]


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"[{}", b"[{},]", b"[,{}]", b"[{}{}]"])
def test_json_other_than_a_list_of_objects_is_refused(data: bytes):
    with pytest.raises(SourceError, match="no whole list"):
        list(json_elements(io.BufferedReader(io.BytesIO(data)), "a", 9, pytest.fail))

"""Edits of JSON with comments, against random documents: the rest stays untouched."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from serve.connect import json_edit
from serve.connect.document import document
from serve.connect.json_edit import parse_jsonc
from serve.hosts.host import HookEntries, JsonFile, ServerEntry
from store.home.errors import ConfigError

unhurried = settings(deadline=None)
KEYS = st.sampled_from(["hooks", "a", "mcpServers", "Stop", "b", "é", 'q"'])
PIECES = ["", " ", "\n", "\r\n  ", "\t", "// why: {[,\n", '/* "a": 1, */', "// c  \r\n", "/**/"]
GAPS = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
PLAIN = st.sampled_from(["null", "true", "-1.5e3", '""', '"é\\n"', '"// no"', '"\\ud83d"'])


@st.composite
def containers(draw: st.DrawFn, opens: str, inner: st.SearchStrategy[str]) -> str:
    """An object or an array in the styles that people write."""
    inside = ""
    for part in draw(st.lists(inner, max_size=3)):
        key = f"{json.dumps(draw(KEYS))}{draw(GAPS)}:{draw(GAPS)}" if opens == "{" else ""
        inside += f"{',' * bool(inside)}{draw(GAPS)}{key}{part}{draw(GAPS)}"
    if inside and draw(st.booleans()):
        inside += "," + draw(GAPS)
    return opens + (inside or draw(GAPS)) + ("}" if opens == "{" else "]")


def written(depth: int) -> st.SearchStrategy[str]:
    if not depth:
        return PLAIN
    inner = written(depth - 1)
    return PLAIN | containers("{", inner) | containers("[", inner)


@st.composite
def documents(draw: st.DrawFn) -> str:
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + draw(GAPS) + draw(containers("{", written(2))) + draw(GAPS)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


def has_twins(text: str) -> bool:
    """Return True if an object has a key twice: parsers differ in which of them counts."""
    nodes = [parse_jsonc(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node.value, dict) and len(node.value) < len(node.children):
            return True
        nodes += [child.node for child in node.children]
    return False


@unhurried
@given(documents())
def test_comments_and_trailing_commas_mean_nothing(text: str):
    assert not isinstance(parse_jsonc(text).value, str)


@unhurried
@given(VALUES)
def test_plain_json_is_read_as_the_standard_library_does(value: Any):
    text = json.dumps(value, indent=2)
    assert parse_jsonc(text).value == json.loads(text)


@unhurried
@given(documents(), KEYS, VALUES)
@example("{}", "a", {"b": 1})
@example("{\n}", "a", 1)
@example("{ // note\n}", "a", 1)
@example('{\n  "b": 1, // note\n}\n', "a", [1])
def test_a_member_put_in_is_there_and_taken_out_leaves_no_trace(text: str, key: str, value: Any):
    path = ("mcpServers", key)
    assume(not has_twins(text))
    plain = parse_jsonc(text).value
    assume(isinstance(plain.get("mcpServers", {}), dict))
    assume(key not in plain.get("mcpServers", {}))
    blanks = json_edit.blanks_of(text, [path])
    new = json_edit.put_json(text, path, value)
    assert parse_jsonc(new).value == plain | {
        "mcpServers": plain.get("mcpServers", {}) | {key: value}
    }
    assert json_edit.put_json(new, path, value) == new
    assert json_edit.take_json(new, path, blanks) == text


@unhurried
@given(documents(), KEYS, VALUES)
@example('{"hooks": {"Stop": [\n\n]}}', "Stop", 1)
@example('{"hooks": {"Stop": [1 /* one */]}}', "Stop", 1)
def test_an_item_added_is_last_and_taken_out_leaves_no_trace(text: str, key: str, value: Any):
    path = ("hooks", key)
    assume(not has_twins(text))
    plain = parse_jsonc(text).value
    held = plain.get("hooks", {})
    assume(isinstance(held, dict) and isinstance(held.get(key, []), list))
    blanks = json_edit.blanks_of(text, [path])
    new = json_edit.add_json(text, path, value)
    items = [*held.get(key, []), value]
    assert parse_jsonc(new).value == plain | {"hooks": held | {key: items}}
    assert json_edit.take_json(new, (*path, len(items) - 1), blanks) == text


@unhurried
@given(documents(), VALUES)
def test_a_value_is_replaced_in_its_place(text: str, value: Any):
    assume(not has_twins(text))
    root = parse_jsonc(text)
    assume(root.children)
    child = root.children[0]
    new = json_edit.put_json(text, (child.key,), value)
    assert parse_jsonc(new).value == root.value | {child.key: value}
    assert new.startswith(text[: child.node.start]) and new.endswith(text[child.end :])


@unhurried
@given(documents())
def test_whatever_is_taken_out_the_rest_means_the_same(text: str):
    assume(not has_twins(text))
    root = parse_jsonc(text)
    assume(root.children)
    for child in root.children:
        new = json_edit.take_json(text, (child.key,), {})
        assert parse_jsonc(new).value == {
            key: value for key, value in root.value.items() if key != child.key
        }


HOOK = {"type": "command", "command": "/py -I -S /x/serve/client.py codex --home /h"}
HOOKS = HookEntries("codex", {"Stop": HOOK, "a": HOOK})
SERVER = ServerEntry(("mcpServers",), {"command": "/py", "args": ["-I"]})


@unhurried
@given(documents(), st.booleans())
@example('{"hooks": {"Stop": [ ], "b": []}, "mcpServers": {\n}}', True)
def test_all_that_is_ours_taken_out_of_a_file_leaves_no_trace(text: str, is_grouped: bool):
    assume(not has_twins(text))
    file = document(JsonFile(Path("x"), (replace(HOOKS, is_grouped=is_grouped), SERVER)))
    try:
        new = file.put(text)
    except ConfigError:  # other values in place of hooks or servers
        return
    assert len(file.entries(new)) == 3
    assert file.put(new) == new
    assert file.take(new, json_edit.blanks_of(text, file.places)) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": }', "line 1, column 7"),
        ('{\r\n  "a": 1\r\n  "b": 2}', "line 3, column 3"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": 1', "line 1, column 8"),
        ('{"a": 1} x', "line 1, column 10"),
        ("", "line 1, column 1"),
        ('{"a": /* 1}', "line 1, column 7"),
        ('{"a": "\\x"}', "line 1, column 7"),
        ('{"a": 01}', "line 1, column 7"),
        ("[" * 200, "line 1, column 102"),
    ],
)
def test_a_mistake_is_named_by_line_and_column(text: str, place: str):
    with pytest.raises(ConfigError, match=f"^{place}: expected "):
        parse_jsonc(text)


def test_what_is_put_in_looks_like_what_is_there():
    text = '{\n\t"theme": "dark", // mine\n\t"list": [\n\t\t1\n\t]\n}\n'
    new = json_edit.add_json(json_edit.put_json(text, ("hooks",), {"Stop": []}), ("list",), 2)
    assert new == (
        '{\n\t"theme": "dark", // mine\n\t"list": [\n\t\t1,\n\t\t2\n\t],\n'
        '\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n'
    )


def test_lines_end_as_the_file_ends_them():
    text = '\ufeff{\r\n  "a": 1\r\n}\r\n'
    new = json_edit.put_json(text, ("b", "c"), 2)
    assert new == '\ufeff{\r\n  "a": 1,\r\n  "b": {\r\n    "c": 2\r\n  }\r\n}\r\n'


def test_a_file_on_one_line_stays_on_one_line():
    assert json_edit.put_json('{"a":1}', ("b",), {"c": 2}) == '{"a":1, "b": {"c": 2}}'


def test_something_else_in_the_way_is_refused():
    with pytest.raises(ConfigError, match="hooks is no object"):
        json_edit.put_json('{"hooks": []}', ("hooks", "Stop"), [1])
    with pytest.raises(ConfigError, match=r"hooks\.Stop is no array"):
        json_edit.add_json('{"hooks": {"Stop": {}}}', ("hooks", "Stop"), 1)

"""Our block in Markdown and our table in TOML: put in, brought up to date, taken out."""

import tomllib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serve.connect.edits import marked, toml_edit
from store.home.errors import ConfigError

unhurried = settings(deadline=None)
OURS = {"command": "/py", "args": ["-I", "a b", 'c"d']}
LINES = st.lists(
    st.sampled_from(["", "# note", "a = 1", "[x]", '[mcp_servers.docs]\ncommand = "npx"', "text"]),
    max_size=6,
    unique=True,
)
ENDS = st.sampled_from(["\n", "\r\n"])


@unhurried
@given(LINES, ENDS, st.booleans())
@example([], "\n", False)
def test_a_block_taken_out_of_markdown_leaves_no_trace(lines: list[str], end: str, ends: bool):
    text = end.join(lines) + end * ends
    new = marked.put(text, "Rules\n\n- one")
    assert new.startswith(text) and marked.is_in(new)
    assert marked.put(new, "Rules\n\n- one") == new
    assert marked.take(marked.put(new, "Other rules")) == text
    assert marked.take(new + f"more{end}") == text + f"more{end}" * new.endswith("\n") or not ends


def test_a_block_that_the_user_moved_is_brought_up_to_date_there():
    block = marked.put("", "old").rstrip("\n")
    assert "# A\n" + block.replace("old", "new") + "\n# B\n" == marked.put(
        f"# A\n{block}\n# B\n", "new"
    )
    assert marked.take(f"# A\n{block}\n# B\n") == "# A\n# B\n"


def is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@unhurried
@given(LINES.filter(lambda lines: "text" not in lines), ENDS, st.booleans())
def test_a_table_taken_out_of_toml_leaves_no_trace(lines: list[str], end: str, ends: bool):
    text = "\n".join(lines).replace("\n", end) + end * ends
    plain = tomllib.loads(text)
    new = toml_edit.put(text, "mcp_servers", "mnemolog", OURS)
    servers = plain.get("mcp_servers", {}) | {"mnemolog": OURS}
    assert tomllib.loads(new) == plain | {"mcp_servers": servers}
    assert toml_edit.put(new, "mcp_servers", "mnemolog", OURS) == new
    assert toml_edit.take(new, "mcp_servers", "mnemolog") == text


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { docs = { command = "npx" } } # inline\n',
        '[mcp_servers]\ndocs = { command = "npx" } # in a table\n',
        'mcp_servers.docs.command = "npx"\n',
        'note = """\n[mcp_servers.mnemolog]\nnot ours\n"""\n',
    ],
)
def test_other_ways_to_write_a_table_are_understood(text: str):
    new = toml_edit.put(text, "mcp_servers", "mnemolog", OURS)
    assert tomllib.loads(new)["mcp_servers"]["mnemolog"] == OURS
    again = toml_edit.put(new, "mcp_servers", "mnemolog", OURS | {"command": "/other"})
    assert tomllib.loads(again)["mcp_servers"]["mnemolog"]["command"] == "/other"
    assert tomllib.loads(toml_edit.take(again, "mcp_servers", "mnemolog")) == tomllib.loads(text)


def test_tables_inside_ours_go_with_it_and_those_after_it_stay():
    text = (
        'a = 1\n\n[mcp_servers.mnemolog]\ncommand = "x"\n\n[mcp_servers.mnemolog.tools.recall]\n'
        'approval_mode = "approve"\n\n# theirs\n[projects."/a"]\ntrust_level = "trusted"\n'
    )
    left = toml_edit.take(text, "mcp_servers", "mnemolog")
    assert tomllib.loads(left) == {"a": 1, "projects": {"/a": {"trust_level": "trusted"}}}
    assert "# theirs\n" in left


def test_something_else_under_our_name_is_refused():
    with pytest.raises(ConfigError, match="is no table"):
        toml_edit.put("mcp_servers = 1\n", "mcp_servers", "mnemolog", OURS)

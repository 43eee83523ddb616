"""Our block in Markdown and our table in TOML: inserted, updated, removed."""

import tomllib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serve.connect import text_edits
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
    new = text_edits.put_marked(text, "Rules\n\n- one")
    assert new.startswith(text) and text_edits.has_marks(new)
    assert text_edits.put_marked(new, "Rules\n\n- one") == new
    assert text_edits.take_marked(text_edits.put_marked(new, "Other rules")) == text
    assert (
        text_edits.take_marked(new + f"more{end}") == text + f"more{end}" * new.endswith("\n")
        or not ends
    )


def test_a_block_that_the_user_moved_is_brought_up_to_date_there():
    block = text_edits.put_marked("", "old").rstrip("\n")
    assert "# A\n" + block.replace("old", "new") + "\n# B\n" == text_edits.put_marked(
        f"# A\n{block}\n# B\n", "new"
    )
    assert text_edits.take_marked(f"# A\n{block}\n# B\n") == "# A\n# B\n"


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
    new = text_edits.put_toml(text, "mcp_servers", "mnemolog", OURS)
    servers = plain.get("mcp_servers", {}) | {"mnemolog": OURS}
    assert tomllib.loads(new) == plain | {"mcp_servers": servers}
    assert text_edits.put_toml(new, "mcp_servers", "mnemolog", OURS) == new
    assert text_edits.take_toml(new, "mcp_servers", "mnemolog") == text


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
    new = text_edits.put_toml(text, "mcp_servers", "mnemolog", OURS)
    assert tomllib.loads(new)["mcp_servers"]["mnemolog"] == OURS
    again = text_edits.put_toml(new, "mcp_servers", "mnemolog", OURS | {"command": "/other"})
    assert tomllib.loads(again)["mcp_servers"]["mnemolog"]["command"] == "/other"
    assert tomllib.loads(text_edits.take_toml(again, "mcp_servers", "mnemolog")) == tomllib.loads(
        text
    )


def test_tables_inside_ours_go_with_it_and_those_after_it_stay():
    text = (
        'a = 1\n\n[mcp_servers.mnemolog]\ncommand = "x"\n\n[mcp_servers.mnemolog.tools.recall]\n'
        'approval_mode = "approve"\n\n# theirs\n[projects."/a"]\ntrust_level = "trusted"\n'
    )
    left = text_edits.take_toml(text, "mcp_servers", "mnemolog")
    assert tomllib.loads(left) == {"a": 1, "projects": {"/a": {"trust_level": "trusted"}}}
    assert "# theirs\n" in left


def test_something_else_under_our_name_is_refused():
    with pytest.raises(ConfigError, match="is no table"):
        text_edits.put_toml("mcp_servers = 1\n", "mcp_servers", "mnemolog", OURS)

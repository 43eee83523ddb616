"""What an edit added and removed, from the arguments of every host's editing tools."""

import pytest

from store.agents.diffs import LEFT_OUT, MAX_DIFF, diff_text, edit_diff


def test_a_replaced_text_is_removed_and_added_between_its_common_lines():
    old, new = "def rate():\n    return 16\n\nRATE = 1", "def rate():\n    return 19\n\nRATE = 1"
    changed = "  def rate():\n-     return 16\n+     return 19\n  \n  RATE = 1"
    for removed, added in (("old_string", "new_string"), ("oldString", "newString"),
                           ("old_str", "new_str"), ("old_text", "new_text")):  # fmt: skip
        assert edit_diff({removed: old, added: new, "file_path": "a.py"}) == changed


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("a", "a\na", "  a\n+ a"),
        ("a\na", "a", "  a\n- a"),
        ("", "a", "+ a"),
        ("a", "", "- a"),
        ("a\nb", "b\na", "- a\n- b\n+ b\n+ a"),
        ("a", "a", "  a"),
        ("", "", ""),
    ],
)
def test_a_line_counts_once(old: str, new: str, diff: str):
    assert edit_diff({"old_string": old, "new_string": new}) == diff


def test_several_replacements_are_hunks_of_one_diff():
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]
    assert edit_diff({"edits": edits}) == "- a\n+ b\n@@\n- c\n+ d"
    replacements = [{"oldString": "a", "newString": "b"}, {"oldString": "x", "newString": "x\ny"}]
    assert edit_diff({"replacements": replacements}) == "- a\n+ b\n@@\n  x\n+ y"


def test_a_written_file_is_added():
    for name in ("content", "file_text", "new_source"):
        assert edit_diff({name: "x = 1\ny = 2\n"}) == "+ x = 1\n+ y = 2"


def test_a_patch_is_taken_as_it_is_and_names_its_files_if_they_are_several():
    begin, end = "*** Begin Patch\n", "*** End Patch"
    one = f"{begin}*** Update File: a.py\n@@ def rate\n-x\n+y\n{end}"
    assert edit_diff({"patch": one}) == "@@ def rate\n- x\n+ y"
    two = f"{begin}*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n{end}"
    lines = "*** Update File: a.py\n@@\n- x\n+ y\n*** Add File: b.py\n+ z"
    assert edit_diff({"input": two}) == lines
    assert edit_diff({"command": f"apply_patch <<'EOF'\n{two}\nEOF"}) == lines


def test_a_list_is_no_patch():
    assert edit_diff({"input": "- one\n- two\n+ three", "command": "create"}) == ""
    assert edit_diff({"path": "a.py"}) == ""


def test_a_long_diff_says_that_it_was_cut():
    whole = edit_diff({"content": "x = 1\n" * 500})
    assert whole.count("\n") == 499 and LEFT_OUT not in whole
    for name, text in (("content", "x = 1\n" * 5_000), ("content", "x" * 20_000),
                       ("patch", "@@\n" + "+x = 1\n" * 5_000)):  # fmt: skip
        diff = edit_diff({name: text})
        assert diff.splitlines()[-1].startswith(LEFT_OUT) and len(diff) <= MAX_DIFF + 40


def test_the_text_of_a_diff_is_what_it_added_and_then_the_rest():
    assert diff_text("  def a():\n-     one()\n+     two()\n@@\n\\ more") == (
        "    two()\ndef a():\n    one()"
    )

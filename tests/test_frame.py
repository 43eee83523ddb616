"""Our own injected block is recognized and removed, however often it was pasted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.connect.text_edits import put_marked
from serve.hosts.host import packaged_text
from store.text.frame import CLOSING, OPENING, RULES_END, contains, strip, strip_rules

BLOCK = f"{OPENING}\n- a note\n{CLOSING}"
MARKED = put_marked("", packaged_text("rules.md")).strip()
NOTE = '{"id":"m1","kind":"fact","role":"fact","date":"2026-09-21","text":"a note"}'
PIECES = st.sampled_from(
    [
        OPENING,
        CLOSING,
        OPENING[:9],
        OPENING[9:],
        " ",
        "words",
        "\n",
        BLOCK,
        NOTE,
        NOTE[:9],
        NOTE[9:],
    ]
)


def test_a_text_without_a_block_is_the_same_object():
    text = "  words and spaces  "
    assert strip(text) is text and not contains(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"before {BLOCK} between {BLOCK} after", "before  between  after"),
        (f"before {OPENING}\n- a note, cut o", "before"),
        (OPENING[:10] + BLOCK + OPENING[10:] + " hidden", ""),
        (f"It says:\n- {NOTE}\nSo I did.", "It says:\n- \nSo I did."),
    ],
    ids=["around", "cut off", "a block hidden in a block", "one line alone"],
)
def test_blocks_are_stripped_and_the_text_around_them_stays(text: str, left: str):
    assert strip(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"before\n\n{MARKED}\nafter", "before\nafter"),
        (f"{MARKED}\n\n{MARKED}", ""),
        ("<!-- mnemolog:begin -->\nmy own words", "<!-- mnemolog:begin -->\nmy own words"),
        ("my own words\n<!-- mnemolog:end -->", "my own words\n<!-- mnemolog:end -->"),
        (f"<!-- mnemo{MARKED}log:begin --> {RULES_END}", f"<!-- mnemo\nlog:begin --> {RULES_END}"),
    ],
    ids=["around", "twice", "no end", "no beginning", "hidden"],
)
def test_rules_of_ours_are_taken_out_and_nothing_else(text: str, left: str):
    assert strip_rules(text) == left == strip_rules(left)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_stripping_leaves_nothing_of_our_blocks(text: str):
    assert not contains(strip(text))
    assert strip(strip(text)) == strip(text)

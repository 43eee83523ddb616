"""Visible JSON: no character reverses a line, and the value stays the same."""

import json
import sys
import unicodedata

from store.text import visible_json

UNSEEN = {"Cc", "Cf", "Co", "Zl", "Zp"}


def test_no_character_that_is_not_shown_as_itself_is_written_as_it_is():
    points = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    text = "".join(points)
    encoded = visible_json.encode({"text": text})
    assert json.loads(encoded) == {"text": text}
    assert {
        letter for letter in encoded.decode() if unicodedata.category(letter) in UNSEEN
    } == set()


def test_letters_stay_as_they_are():
    assert visible_json.encode(["Größe 大 😀"]).decode() == '["Größe 大 😀"]'

"""A hit on the terminal is a passage: the matching sentences, each part with its speaker."""

from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from hook_session import opened

from serve.cli import explanations, main
from store.text.excerpt import Score, fitting, passage, reports, without_listings

FILLER = "Nothing in this sentence is about what somebody asks later, and there are many like it."


def lines(hit: dict[str, object], about: str) -> list[str]:
    return list(explanations.passage_lines(hit, frozenset(about.split())))


def about(*words: str) -> Score:
    return lambda part: sum(word in part for word in words)


def test_a_long_note_shows_the_sentences_about_the_question():
    text = f"{FILLER} {FILLER} {FILLER} The mail port is 2525. {FILLER} {FILLER}"
    text_ = " ".join(lines({"kind": "fact", "text": text}, "mail port"))
    assert "The mail port is 2525." in text_
    assert "..." in text_
    assert len(text_) < len(text)


def test_a_short_note_keeps_its_lines():
    text = "Steps:\n- migrate\n- deploy"
    assert lines({"kind": "fact", "text": text}, "deploy") == [
        "    Steps:",
        "    - migrate",
        "    - deploy",
    ]


def test_a_long_note_that_only_starts_with_the_answer_shows_its_start():
    text = f"The mail port is 2525.\n\n{FILLER}\n{FILLER}\n{FILLER}\n{FILLER}"
    passages = lines({"kind": "fact", "text": text}, "mail port")
    assert passages[0] == "    The mail port is 2525."
    assert passages[-1].endswith("…")


def test_a_turn_is_shown_as_what_was_asked_ran_and_was_answered():
    turn = {
        "kind": "episode",
        "text": f"{FILLER} {FILLER} {FILLER} Why does the parser hang?",
        "action": "$ ls -> a.py\n$ pytest tests/test_parser.py -> failed: hangs",
        "result": f"{FILLER} {FILLER} The parser waits for a newline.",
        "trust": "tool",
    }
    passages = lines(turn, "parser")
    labels = [line[:11].strip() for line in passages]
    assert [label for label in labels if label] == ["asked", "ran", "agent"]
    text = " ".join(line[11:] for line in passages)
    assert "Why does the parser hang?" in text
    assert "$ pytest tests/test_parser.py -> failed: hangs" in text
    assert "The parser waits for a newline." in text


def test_a_turn_without_commands_has_no_line_for_them():
    passages = lines({"kind": "episode", "text": "Which port?", "result": "8443."}, "port")
    assert passages == ["    asked  Which port?", "    agent  8443."]


def test_the_users_prompt_is_not_attributed_to_a_tool(tmp_path: Path):
    with contextmanager(opened)(tmp_path) as session:
        session.ask("Why does the harbour parser hang on empty lines?")
        session.stop("The harbour parser waits for a newline.")
    result = CliRunner().invoke(
        main, ["--home", str(tmp_path), "recall", "harbour parser hang", "--all-projects"]
    )
    assert "said by tool" not in result.stdout
    assert "    asked  Why does the harbour parser hang" in result.stdout


def test_a_passage_is_whole_where_it_fits_and_its_beginning_where_nothing_tells():
    text = "One is here. Two is there; three is away."
    assert passage(text, 100, about("Two")) == text
    assert passage(text, 20, about("nothing")).startswith("One is here.")
    assert passage(text, 24, about("three")) == "... three is away."
    long = "The first line of a log. " + "three " * 20 + ". ..."  # its one telling part is too long
    assert passage(long, 30, about("three")) == "The first line of a log. ..."


def test_the_most_relevant_lines_are_kept_in_order():
    rows = ["$ ls -> a", "$ make -> ok", "$ pytest -> failed"]
    assert fitting(rows, 25, about("pytest")) == ["$ pytest -> failed"]
    assert fitting(rows, 32, about("pytest")) == ["$ ls -> a", "$ pytest -> failed"]
    assert len(fitting(rows, 4, about("make"))) == 1  # one is shown, if only its beginning


LISTING = "line = 1\n" * 40


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"It is fixed:\n\n```python\n{LISTING}```\n\nRun it.", "It is fixed: Run it."),
        (f"It is fixed:\n~~~\n{LISTING}", "It is fixed:"),  # cut off
        (f"Look:\n```ts:src/app.ts\n{LISTING}```", "Look: src/app.ts"),
        ("Run this:\n```bash\npip install flask\n```", "Run this: pip install flask"),
        ("---\n---\nPlan:\n\n---\n## Part one\n***\nIt is done.", "Plan: Part one It is done."),
        ("- one\n- two -- three\n#4 is open", "- one - two -- three #4 is open"),
        ("a ``` b", "a ``` b"),
        ("See [`a.json`](command:_open?%5B%7B%7D%5D), then run it.", "See `a.json`, then run it."),
        ("[1] is in [[`a.py`](file:///src/a.py)]", "[1] is in [`a.py`]"),
        ("[](file:///c%3A/My%20Work/src/a%20b.cs#12-14) is new.", "`a b.cs` is new."),
        (
            "Docs: [here](https://example.com/a), not [](command:x).",
            "Docs: [here](https://example.com/a), not .",
        ),
    ],
)
def test_an_answer_is_told_without_listings_and_the_lines_that_part_it(text: str, told: str):
    assert " ".join(without_listings(text).split()) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Let me look at the tracker.", []),
        ("The user wants me to read the log. I need to look at it first.", []),
        ("You're absolutely right! The port is 8443.", ["The port is 8443."]),
        ("Done.\n\n1. **Where to show it?**\n2. **Guests:**\n   - Only adults?", ["Done."]),
        ("You are right, the port is 8443.", ["You are right, the port is 8443."]),
        ("Here's what I changed:\n- the parser\n- two tests", ["- the parser", "- two tests"]),
        ("Great question! Das Feld ist leer.", ["Das Feld ist leer."]),
        ("The table is made at the start:", ["The table is made at the start:"]),
        (
            "Done.\n\n**What I changed in all of the pages:**\n- the margins",
            ["Done.", "- the margins"],
        ),
        ("**Cause** of what you saw yesterday:", ["**Cause** of what you saw yesterday:"]),
        (
            "Status:\n\n| Phase | State | By |\n|--|:-:|--|\n| 7 | not merged | |\n| 8 | x | Ada |",
            ["7: not merged", "8: x, Ada"],
        ),
        ("**1. Types**\n**12. Tests** pass.", ["**1. Types**", "**12. Tests** pass."]),
        ("10. It is fixed.\n11.\n\U0001f389", ["10. It is fixed."]),
        ("| it ends in a bar\n||\nDone.", ["it ends in a bar", "Done."]),
    ],
)
def test_reports_are_what_an_answer_tells_a_later_reader(text: str, told: list[str]):
    assert reports(text) == told


def test_an_answer_of_code_alone_stays_as_it_is():
    assert without_listings(f"```\n{LISTING}```") == f"```\n{LISTING}```"

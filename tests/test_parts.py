"""Which questions are made of several, and which only look so."""

import pytest

from serve.recall.analysis import split_question


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "What did Ana paint in March and when did Tom buy the car?",
            ["What did Ana paint in March", "when did Tom buy the car?"],
        ),
        (
            "Who reviewed the parser? Where do the nightly logs go?",
            ["Who reviewed the parser?", "Where do the nightly logs go?"],
        ),
        (
            "How many days passed between the first release and the outage in Oslo?",
            ["the first release", "the outage in Oslo"],
        ),
        (
            "What happened first, the database move or the login rewrite?",
            ["the database move", "the login rewrite"],
        ),
        (
            "Wann wurde der Server ersetzt und wer hat das Backup geprüft?",
            ["Wann wurde der Server ersetzt", "wer hat das Backup geprüft?"],
        ),
    ],
)
def test_compound_questions_fall_apart(question: str, expected: list[str]):
    assert list(split_question(question)) == expected


@pytest.mark.parametrize(
    "question",
    [
        "When and where did Tom buy the car?",
        "What is the retry limit and why did we choose it?",
        "Who wrote the parser? Is it tested?",
        "Which tests and builds were slow?",
        "explain the parser and why the lexer is separate",
        "between the lines",
        "the wait between A, B and C and the rest",
        "What changed between May 7 and May 9?",
        "continue the migration to Postgres",
        "",
    ],
)
def test_a_simple_question_comes_back_alone(question: str):
    assert list(split_question(question)) == [question]

"""Task modes detected from a query, and the kinds of memory that help in each."""

from typing import get_args

import pytest

from serve.recall.classification import KINDS, TaskMode, task_mode
from store.log.event_kinds import MEMORY_KINDS
from store.text.tokenizer import terms


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("debug", "why does the login test fail"),
        ("debug", "the worker crashes with a traceback"),
        ("debug", "warum kommt dieser Fehler"),
        ("architecture", "what are the tradeoffs of splitting the service"),
        ("architecture", "why did we choose this schema design"),
        ("coding", "refactor the parser"),
        ("coding", "write a function that parses dates"),
        ("review", "Review this pull request"),
        ("plan", "plan the next sprint"),
        ("routine", "how do I deploy to staging"),
        (None, "what did Ana say about the cat"),
        (None, "write it down"),
        (None, "review the deploy"),
        (None, ""),
    ],
)
def test_modes_are_detected_from_words(mode: TaskMode | None, text: str):
    assert task_mode(terms(text)) == mode


def test_an_error_name_selects_debug_mode():
    assert task_mode(terms("ECONNRESET again"), names_error=True) == "debug"


def test_every_mode_has_known_kinds_and_weights_up_to_one():
    assert set(KINDS) == set(get_args(TaskMode))
    for kinds in KINDS.values():
        assert set(kinds) <= set(MEMORY_KINDS)
        assert max(kinds.values()) == 1.0
        assert min(kinds.values()) > 0.0

"""The number of an issue or a pull request finds the memories that name it, among similar ones."""

from pathlib import Path

import pytest

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.analysis import issue_numbers
from serve.recall.recall import Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

NOW = 1_800_000_000_000_000
NOTES = (
    "Fix the issue that a fix of issues brought: which issue a commit fixes is told",
    "Sort the tail by time (#12)",
    "The log has 12 readers, and each waits alone",
    "Commit what an issue fixes before the fix of another issue (#120)",
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("what fixed #12 and #13?", ("12", "13")),
        ("Issue 12, PR 13 and pull request #14", ("12", "13", "14")),
        ("merge request !7, bug #7", ("7",)),
        ("12 issues in 2024, C#7 and item#3", ()),
        ("the issues 12 people had", ()),
    ],
)
def test_issue_numbers(text: str, found: tuple[str, ...]):
    assert issue_numbers(text) == found


@pytest.mark.parametrize("is_built", [False, True])
def test_a_number_that_is_asked_for_comes_first(tmp_path: Path, is_built: bool):
    home = tenant(tmp_path)
    embedder = LexicalEmbedder()
    home.log.parent.mkdir(parents=True, exist_ok=True)
    with EventLog(home.log, create=True) as log:
        for text in NOTES:
            commands.record(log, Draft(content=text), NOW)
        if is_built:
            rebuild(home, log, embedder, NOW)
        with Reader(home, log, embedder).view() as view:
            for text in ("which commit fixes issue #12?", "which commit fixes issue 12?"):
                question = Question(text, Filter(NOW), top_k=4, fusion="weighted")
                hits = recall(view, question).hits
                assert hits[0].memory.content == NOTES[1]

"""
What is told to whoever asks what was done, or where work stopped: episodes by time, and open goals.

A time in the question ("last week", "on 10 November") is a filter; its words, and those that only
ask, are no topic. Without a time it is the last session, and what of the record is on the topic.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from serve.filters import Filter
from serve.hooks.block import Note, note
from serve.hooks.call import Call
from serve.query.analysis import usual
from serve.query.language import language
from serve.reader import View
from serve.recall import recall
from serve.summaries.brief import goal_note, last_session
from serve.summaries.goals import open_goals
from serve.summaries.newest import newest
from store import text
from store.dates.interval import Interval, interval
from store.events import EPISODE
from store.projections.memories import Memory

LONGEST = 300  # characters of a note
BRIEF = 160  # of one among many
MOST, MOST_OF_TIME, GOALS = 5, 10, 3
SURE = 0.1  # how likely what is on the topic is what is asked for


def recap(view: View, call: Call, prompt: str) -> Iterator[Note]:
    """Yield notes of what was done, the most telling first."""
    when = interval(prompt, call.now, language(prompt))
    about = text.terms(prompt)
    goals = open_goals(view, call.filter)[:GOALS]
    yield from (goal_note(one, call.filter) for one in goals)
    if when is not None:
        for one in islice(_in(view, call.filter, when), MOST_OF_TIME):
            yield note(one, call.project, about=about, longest=BRIEF)
        return
    found = [*_on_topic(view, call, prompt), *last_session(view, call.filter)]
    different = {one.id: one for one in found}
    for one in list(different.values())[:MOST]:
        yield note(one, call.project, about=about, longest=LONGEST)


def _in(view: View, asked: Filter, when: Interval) -> Iterator[Memory]:
    """Yield the episodes of a time, the newest first."""
    those = replace(asked, kinds=(EPISODE,), since=when.since, until=when.until)
    yield from newest(view, those, MOST_OF_TIME)


def _on_topic(view: View, call: Call, prompt: str) -> list[Memory]:
    question = replace(usual(prompt, call.filter, call.choices), min_confidence=SURE, top_k=2)
    answer = recall(view, question, call.embedder)
    return [hit.memory for hit in answer.hits]

"""
What is told to whoever asks what was done, or where work stopped: sessions by time, and open goals.

A time in the question ("last week", "on 10 November") is a filter; its words, and those that only
ask, are no topic. Without a time it is what of the record is surely on the topic, and the last
session.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice

from serve.hooks.call import Call
from serve.reader.reader import View
from serve.recall.analysis import usual
from serve.recall.classification import language
from serve.recall.context_block import Note, note
from serve.recall.recall import recall
from serve.summaries.brief import goal_note, last_session
from serve.summaries.goals import set_goals
from serve.summaries.newest import newest
from store.log.event_kinds import EPISODE
from store.memories.memory import Memory
from store.text import tokenizer
from store.text.dates import Interval, interval
from store.text.excerpt import one_line

LONGEST = 300  # characters of a note
ASKED = 80  # of each thing that was asked in a session
MOST, SESSIONS, TURNS, GOALS = 2, 5, 8, 3
SURE = 0.3  # how likely what is on the topic is what is asked for
_LOOKED_AT = 200  # episodes of a time


def recap(
    view: View, call: Call, prompt: str, known: Mapping[str, int], own: Collection[str]
) -> Iterator[Note]:
    """Yield notes of what was done, the most telling first; none that the model has before it.

    `known` says when each memory was put there, in microseconds; `own` are the turns that the model
    was there for.
    """
    about = tokenizer.terms(prompt)
    goals = set_goals(view, call.filter)[:GOALS]
    yield from (goal_note(one, call.filter) for one in goals if one.id not in known)
    if (when := interval(prompt, call.now, language(prompt))) is not None:
        yield from islice(_sessions(view, call, when, own), SESSIONS)
        return
    on_topic = [one for one in _on_topic(view, call, prompt) if one.id not in own]
    for some in (on_topic, last_session(view, call.filter, own)):
        if some and some[0].updated_at > known.get(some[0].id, -1):
            for one in some[:MOST]:
                yield note(one, call.project, about=about, longest=LONGEST)


def _sessions(view: View, call: Call, when: Interval, own: Collection[str]) -> Iterator[Note]:
    """Yield a note of each session of a time, the newest first: what was asked, and its end."""
    those = replace(call.filter, kinds=(EPISODE,), since=when.since, until=when.until)
    episodes = [one for one in newest(view, those, _LOOKED_AT) if one.id not in own]
    for _, turns in groupby(episodes, key=lambda one: one.session):
        some = list(turns)
        asked = [one_line(one.content, ASKED) for one in reversed(some[:TURNS])]
        yield note(some[0], call.project, longest=LONGEST) | {"user_asked": "; ".join(asked)}


def _on_topic(view: View, call: Call, prompt: str) -> list[Memory]:
    question = replace(usual(prompt, call.filter, call.choices), min_confidence=SURE, top_k=MOST)
    return [hit.memory for hit in recall(view, question, call.embedder).hits]

"""
The brief of a project: the context for a session before its first prompt, or nothing.

The standing rules; below them, under a heading of their own, a few of the user's statements that
were never accepted; the work of the last session, and its open ends; open goals; the commands that
worked here, and the files and commands of several sessions; in the remaining room, past failures.
A project without memories has no brief.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import structs
from msgspec.structs import replace

from serve.hooks.earlier_turns import (
    LOOKED_AT,
    branch_note,
    last_session,
    left_open,
    open_ends,
    recent_turns,
    went_wrong,
)
from serve.hooks.habits import commands, habits
from serve.lessons.rule_index import rests, rules
from serve.reader.filters import Filter
from serve.reader.goals import due_date, set_goals
from serve.reader.held import is_held
from serve.reader.memory_json import role
from serve.reader.view import View, newest
from serve.recall.context_block import ID, SAID, Note, Part, note
from store.agents import prompt_statements
from store.derived.feedback import Counts
from store.derived.statement_weights import Scores, lasting, lasting_sentences, weigh
from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.memory import COMMIT, Memory
from store.plans.lesson_proposals import ACCEPTED
from store.text import tokenizer
from store.text.claims import tells_of_past
from store.text.excerpt import one_line, reports
from store.text.text_features import MAY_RULE

BYTES = 2_560  # of the whole brief
HABITS = 160  # of them, for files and commands of several sessions, beside the remaining room
FRAME = 240  # of them, for the headings and the first and last line
STANDING, LAST = 1_400, 460  # of them, for rules and statements, and for the last session
LEAST = 240  # of LAST, beside the open ends of an earlier session
STATED = 700  # of STANDING, that rules leave to statements
STATEMENTS = 12  # lines
LONGEST = 240  # characters of a text
SHORT = 160  # characters of a statement that is shown whole
LONGEST_TURN = 300
_GOALS = 3
_SAME = 0.5  # of the words of two statements: with more in common, they say the same
_FILES = re.compile(r"(?<=\S)\n+Files: [^\n]*\Z")  # the last line of an imported commit


def brief(
    view: View, conditions: Filter, own: Collection[str] = (), branch: str | None = None
) -> list[Part]:
    """Return the non-empty parts of a project's brief; `conditions` names the project, and `own`
    are turns already in the model's context. `branch` is checked out, if it is known.
    """
    goals = [
        memory
        for memory in set_goals(view, conditions)
        if conditions.is_own(memory) and not is_held(memory)
    ][:_GOALS]
    episodes = recent_turns(view, conditions)
    earlier = [episode for episode in episodes if episode.id not in own]
    last = last_session(view, conditions, earlier, branch)
    before = [
        _turn(view, memory, conditions) | branch_note(memory, branch)
        for memory in left_open(view, conditions, last, earlier)
    ]
    room = max(LEAST, LAST - sum(map(_size, before)))
    turns = _fill_room(
        (_turn(view, memory, conditions) | branch_note(memory, branch) for memory in last), room
    )
    worked = tuple(commands(episodes, own))
    rest = (
        Part("The last session, its end first:", tuple(turns)),
        Part("Left open before that:", tuple(before)),
        Part("Open goals:", tuple(goal_note(memory, conditions) for memory in goals)),
        Part("Commands that worked here:", worked),
    )
    left = BYTES - FRAME - HABITS - _size_of(rest)
    standing = standing_parts(view, conditions, room=max(STANDING, left))
    left -= _size_of(standing)
    usual = tuple(_fill_room(habits(episodes, worked), max(0, left) + HABITS))
    shown = {line["id"] for part in rest for line in part.notes if "id" in line}
    others = [episode for episode in earlier if episode.id not in shown]
    failed = (_turn(view, memory, conditions) for memory in went_wrong(conditions, others))
    ended = tuple(_fill_room(failed, left - max(0, sum(map(_size, usual)) - HABITS)))
    parts = (
        *standing,
        *rest,
        Part("In several of the last ten sessions:", usual),
        Part("What failed here before, and how it ended:", ended),
    )
    return [part for part in parts if part.notes]


def goal_note(goal: Memory, conditions: Filter) -> Note:
    """Return a goal as a line of a block, with the day it is due."""
    day = due_date(goal)
    return note(goal, conditions.project, longest=LONGEST) | ({"due": day} if day else {})


def standing_parts(
    view: View, conditions: Filter, shown: Collection[Memory] = (), room: int = STANDING
) -> tuple[Part, Part]:
    """Return the rules, and the statements not accepted by the user; those `shown` before lead.

    A statement is never among the rules; held ones are left out. Statements get the rest of the
    `room`, in bytes, and always some of it.
    """
    standing = (*shown, *binding(view, conditions), *_weighed_statements(view, conditions))
    free = [
        memory
        for memory in {memory.id: memory for memory in standing}.values()
        if not is_held(memory)
    ]
    current = [memory for memory in free if not view.is_over(memory)]
    memories = [
        memory
        for memory in current
        if memory.kind == STATEMENT and not tells_of_past(memory.content)
    ]
    stated = [_statement_note(view, memory, conditions) for memory in memories[: 2 * STATEMENTS]]
    ruling = [_short(view, memory, conditions) for memory in current if memory.kind != STATEMENT]
    least = list(_fill_room(stated, STATED))
    bound = tuple(_fill_room(ruling, room - sum(map(_size, least))))
    statements = tuple(_fill_room(stated, room - sum(map(_size, bound))))
    return (
        Part("Rules and decisions:", bound),
        Part("Said by the user here, not confirmed as rules:", statements[:STATEMENTS]),
    )


def binding(view: View, conditions: Filter) -> list[Memory]:
    """Return the project's rules and decisions, and the rules pinned for all: pinned ones first,
    then by how often they were followed, rules before decisions, newest first. Those at rest are
    left out.
    """
    memories = (memory for memory in rules(view, conditions) if role(memory) == "rule")
    own = [memory for memory in memories if memory.pinned or conditions.is_own(memory)]
    here = [memory for memory in own if not rests(view, memory)]
    those = replace(conditions, kinds=("decision", "fact"))
    here += [memory for memory in newest(view, those, LOOKED_AT) if _stands(memory, conditions)]

    def rank(memory: Memory) -> tuple[bool, int, bool, bool, int, int]:
        followed = _counts(view, memory)["followed"]
        is_rule, is_decision = role(memory) == "rule", memory.kind == "decision"
        recency = -memory.created_at, -memory.seq
        return not memory.pinned, -followed, not is_rule, not is_decision, *recency

    return sorted(here, key=rank)


def _weighed_statements(view: View, conditions: Filter) -> list[Memory]:
    """Return the user's statements that hold here, the weightiest first, newest first among equals.

    Of statements that say the same in other words, only the newest is listed, in the first's place.
    """
    those = replace(conditions, kinds=(STATEMENT,))
    table = view.snapshots.statement_weights
    mask = those.mask(view.snapshots.rows)
    mask[view.tail.hidden_rows] = False
    scores_of = {row: scores for row, scores in (table.rows if table else {}).items() if mask[row]}
    likeliest = sorted(scores_of, key=lambda row: -weigh(scores_of[row], Counts()))[:LOOKED_AT]
    weighed = [
        (weigh(scores_of[row], _counts(view, memory)), memory)
        for row, memory in zip(likeliest, view.snapshots.rows.take(likeliest), strict=True)
    ]
    fresh = (memory for memory in view.tail.current() if those.accepts(memory))
    latest = sorted(fresh, key=lambda memory: (-memory.created_at, -memory.seq))[:LOOKED_AT]
    for memory in latest:
        scores = Scores(lasting(memory.content, memory.importance, memory.trust))
        weighed.append((weigh(scores, _counts(view, memory)), memory))
    weighed = [(weight, memory) for weight, memory in weighed if _stands(memory, conditions)]
    weighed.sort(key=lambda pair: (-pair[0], -pair[1].created_at, -pair[1].seq))
    return _newest_of_same([memory for _, memory in weighed])


def _newest_of_same(statements: Sequence[Memory]) -> list[Memory]:
    """Return the statements in order, only the newest of those that say the same in other words."""
    groups: list[tuple[frozenset[str], Memory]] = []
    for memory in statements:
        terms = frozenset(tokenizer.terms(memory.content))
        for place, (others, other) in enumerate(groups):
            if len(terms & others) > _SAME * len(terms | others):
                if memory.created_at > other.created_at:
                    groups[place] = (terms, memory)
                break
        else:
            groups.append((terms, memory))
    return [memory for _, memory in groups]


def _counts(view: View, memory: Memory) -> Counts:
    lessons = view.snapshots.lessons
    return Counts() if lessons is None else lessons.of(memory.id)


def _statement_note(view: View, memory: Memory, conditions: Filter) -> Note:
    """Return a statement as a line of a block, only the lasting sentences of a long one."""
    line = _short(view, memory, conditions)
    text = _without_outdated(view, memory).content
    if len(text) > SHORT:
        sentences = lasting_sentences(text, prompt_statements.SURE)
        line[SAID] = one_line(" ".join(sentence.text for sentence in sentences), LONGEST)
    return line


def _short(view: View, memory: Memory, conditions: Filter, longest: int = LONGEST) -> Note:
    current = shown = _without_outdated(view, memory)
    if memory.source == COMMIT:  # without the list of a commit's files, by which recall finds it
        shown = structs.replace(current, content=_FILES.sub("", current.content))
    return note(
        shown,
        conditions.project,
        change=view.change_of(memory) if current is memory else None,
        retracts=view.retraction_of(memory),
        longest=longest,
    )


def _without_outdated(view: View, memory: Memory) -> Memory:
    """Return the user's text without its outdated sentences; a rule is marked instead."""
    if memory.kind not in (EPISODE, STATEMENT):
        return memory
    text = view.holding_text(memory)
    return memory if text == memory.content else structs.replace(memory, content=text)


def _turn(view: View, memory: Memory, conditions: Filter) -> Note:
    """Return a turn as a line of a block, with at least one of its open ends."""
    payload = _short(view, memory, conditions, LONGEST_TURN)
    ends = list(open_ends(memory))
    if ends and not any(end in payload.get("agent_said", "") for end in ends):
        others = (part for part in reports(memory.result or "") if part not in ends)
        memory = structs.replace(memory, result="\n".join([*ends, *others]))
        payload = _short(view, memory, conditions, LONGEST_TURN)
    payload.pop("tool_output", None)
    return payload


def _fill_room(notes: Iterable[Note], room: int) -> Iterator[Note]:
    """Yield the notes that fit, in their order, a smaller one in place of one that does not."""
    for line in notes:
        if (size := _size(line)) <= room:
            room -= size
            yield line


def _size_of(parts: Iterable[Part]) -> int:
    return sum(_size(line) for part in parts for line in part.notes)


def _size(line: Note) -> int:
    """Return the approximate bytes of a note; its id is cut when it is rendered."""
    values = (
        min(len(str(value).encode()), ID) if name == "id" else len(str(value).encode())
        for name, value in line.items()
    )
    return sum(values) + sum(len(name) + 6 for name in line) + 2


def _stands(memory: Memory, conditions: Filter) -> bool:
    """Return True if a user laid a memory down here; for a fact, if the user accepted it."""
    is_said = memory.kind != "fact" or memory.source == ACCEPTED
    return is_said and memory.trust in MAY_RULE and conditions.is_own(memory)

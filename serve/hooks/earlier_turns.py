"""
The earlier turns that a session goes on from: those of the last session, the open ends before it,
and the turns in which a command failed.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from serve.hooks.habits import commands_run
from serve.reader.filters import Filter
from serve.reader.held import is_held
from serve.reader.view import View, newest
from serve.recall.context_block import Note
from store.agents import efforts
from store.log.event_kinds import EPISODE
from store.memories.episode import facts_of
from store.memories.memory import OPEN, Memory
from store.text.excerpt import one_line, reports

Sessions = dict[str | None, list[Memory]]  # their turns, by the session, the newest first
# where branches are merged; what was done on any of them may be gone on with there
MAIN_LINES = frozenset({"main", "master", "trunk", "develop", "dev"})
LOOKED_AT = 200  # memories, the newest
_TURNS = 3  # of the last session that are told
_FURTHER = 1_000  # episodes, for facts that the newest do not have
_WENT_WRONG = 8  # turns in which a command failed
_LATEST = 12  # turns of a session
_BRANCH = 60  # characters of its name
_WORKED = 3  # turns that edited, of a session of substance
# what a sentence says is still to be done; "remains unchanged" and "what to do" are none
_DONE = (
    r"(?:started|begun|done|implemented|finished|completed?|merged|tested|deployed|wired|written"
    r"|covered|supported|migrated|committed|pushed|released|published|used|set|built|added)"
)
_LEFT_OPEN = re.compile(
    r"(?<!\w )(?<![\w.{(\[`'\"])open:(?!\W*https?:|[\s*]*[`/])|\bleft (?:to do|open)\b"
    rf"|\bnot (?:started|begun|yet (?:been )?{_DONE})\b|(?-i:\bTODOs?):"
    r"|\bnext(?: up)?(?: step)? (?:is|would be|will be|are)\b(?! (?:not|clear)\b)"
    r"|(?<!\w )(?<!\.)\bnext(?: up)?\W*:(?!\W*(?:I['’]ll|let me|check|test|after)\b)"
    r"|\bis (?:the )?next\b|\bhalf[- ]done|\bunfinished"
    r"|(?:(?<!\w )|\b(?:the|only|is|are|still|all) )remaining (?:work|tasks?|steps?|items?)\b"
    r"|(?<!\w )\bremaining\W*:|(?<!what )\bremains? to be\b|\bremains open\b"
    r"|\bstill (?:open\b(?! the\b)|to (?:be|do)\b|missing|needs? to be\b|ha(?:s|ve) to be\b"
    r"|need to (?:add|deal|do|fix|finish|handle|implement|run|test|update|write)\b)"
    r"|(?<!to )(?<!may )(?<!might )(?<!could )(?<!would )(?<!will )(?<!if it )\bstill fail"
    r"|\boffen(?:e[nrs]?)?\b|\bnoch (?:nicht|zu)\b|\bes fehl(?:t|en)\b"
    r"|\bfehl(?:t|en) noch\b|\baussteh(?:t|en)|\breste(?:nt)? (?:à|encore)\b"
    r"|\bpas encore (?:été )?(?:fai|commenc|termin|implément|test|déploy|écri|fini|fusionn)"
    r"|\b(?:queda|falta)[mn]? (?:(?:por|sin) )?\w{1,20}[aei]r\b"
    r"|\b(?:queda|falta)[mn]? \w{0,9} ?pendientes?\b|\bpendientes? (?:de|por)\b"
    r"|\ba medias\b|\bpendente|\bmanca(?:no)? (?:ancora|da)\b|\bda fare\b|\bnog niet\b"
    r"|осталось|не готов|未完了|残(?:り|タスク|作業)|まだ(?:未|実装|完了|対応|でき)"
    r"|[还還][没沒](?:有)?(?:实现|完成|做|修|改|开始)|尚未|待办|待完成|未完成|剩下|아직|남은",
    re.IGNORECASE,
)
_NONE_OPEN = re.compile(
    r"^[\W\d]*(?:if|when|once|unless|wenn|falls|si|se|cuando|quand|如果|もし|만약)\b|^\+ "
    r"|\bno (?:\w+ )?(?:remaining|open|unfinished)\b|\b(?:no|for|since)\b.{0,40}\bunfinished\b"
    r"|\bremaining\b.{0,60}\b(?:are|is) (?:now )?(?:done|completed?|finished|just|\w+ly marked)\b"
    r"|\b(?:completed|finished|fixed|moved|updated) (?:the |all |any )*remaining\b"
    r"|\b(?:might|may|reason)\b.{0,40}\b(?:not yet|still fails)"
    r"|\b(?:sin|no hay) .{0,40}pendientes\b|已完成|すべて完了"
    r"|[如若].{0,8}尚未|可能|因为|由于|[时時]使用",
    re.IGNORECASE,
)
_TITLE = re.compile(
    r"\W*(?:remaining|still to do|what(?:['’]s)? still|unfinished)\b[^:.!]{0,40}", re.IGNORECASE
)
_ITEMS = 3  # below a title


def recent_turns(view: View, conditions: Filter) -> list[Memory]:
    """Return the newest episodes of a project and those below it, the newest first."""
    return newest(view, replace(conditions, kinds=(EPISODE,)), _FURTHER)


def last_session(
    view: View, conditions: Filter, episodes: Sequence[Memory], branch: str | None = None
) -> list[Memory]:
    """Return the last turns of the last session of substance here, newest first, from `episodes`
    (newest first). If there is none, those of the last session.

    A session of substance names its open ends, or edited in several turns: "make the logo smaller"
    is no place to go on from. Those on `branch` come before all others, but for a repository's main
    line, which goes on from any branch.
    """
    sessions: Sessions = {}
    for episode in episodes[:LOOKED_AT]:
        if conditions.is_own(episode):
            sessions.setdefault(episode.session, []).append(episode)
    if branch not in MAIN_LINES:
        sessions = _on_branch(sessions, branch) or sessions
    if not sessions:
        return []
    turns = next(iter(sessions.values()))
    for session_turns in sessions.values():
        edited = (bool(facts_of(memory).files) for memory in session_turns)
        if any(map(_leaves_open, session_turns)) or sum(edited) >= _WORKED:
            turns = session_turns
            break
    # "hold on" and "back to ..." make no turn of their own, but mark the asides; nor does
    # "no wait, Thursday", which corrects an earlier turn
    idle = newest(view, replace(conditions, kinds=(EPISODE,)), _LATEST, OPEN)
    memories = [memory for memory in (*turns, *idle) if memory.session == turns[0].session]
    memories.sort(key=lambda memory: (-memory.created_at, -memory.seq))
    those = [
        memory
        for memory in without_asides(memories)
        if memory.state != OPEN or view.ends_others(memory)
    ]
    latest = those[:_LATEST]
    holding = [memory for memory in latest if not is_held(memory) and not _is_over(view, memory)]
    return holding[:_TURNS]


def _on_branch(sessions: Sessions, branch: str | None) -> Sessions:
    """Return the sessions with a turn on a branch; none if it is unknown."""
    return {
        session: turns
        for session, turns in sessions.items()
        if branch and any(facts_of(turn).branch == branch for turn in turns)
    }


def branch_note(memory: Memory, branch: str | None) -> Note:
    """Return the branch of a turn for its note, if another one is checked out now."""
    other = facts_of(memory).branch
    return {"on_branch": one_line(other, _BRANCH)} if branch and other and other != branch else {}


def _is_over(view: View, memory: Memory) -> bool:
    """Return True if nothing in a turn holds: it is over, or only says that something else is."""
    return view.is_over(memory) or view.retraction_of(memory) is not None


OPENING = 120  # characters of a turn that are searched for an interruption or a return
_ASIDE = re.compile(
    r"\W*(?:(?:ok|okay|sorry|wait|hey)[\s,]+)*"
    r"(?:hold on|hang on|one (?:sec|second|moment|minute)\b|just a (?:sec|second|moment)"
    r"|quick (?:interruption|detour|aside|side ?question)|side (?:note|question|track)"
    r"|before (?:we|you) (?:go on|continue)|interrupting|something urgent|moment mal"
    r"|kurze? (?:unterbrechung|zwischenfrage)|attends|une seconde|petite parenthèse|espera"
    r"|un momento|aspetta|um momento|wacht even|подожди|等一下|ちょっと待って)",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"(?:[^,.;:]{0,60}[,.;:]\s*|[^\w\s]*(?:ok|okay|so|now|and|alright|right)?[\s,]*)"
    r"(?:(?:let'?s |let us |now )?(?:get |go |going |come )?back to\b|where were we|as you were"
    r"|zurück zu[mr]?\b|weiter mit\b|revenons à|retour à|volvamos a|de vuelta a"
    r"|voltando (?:a|ao|à)|torniamo a|terug naar\b|верн[её]мся|回到|話を戻)",
    re.IGNORECASE,
)


def without_asides(turns: Sequence[Memory]) -> list[Memory]:
    """Return a session's turns, newest first as given, without the asides: from "hold on, ..." to
    "back to ...".
    """
    on_topic: list[Memory] = []
    is_aside = False
    for place, turn in enumerate(turns):
        if not is_aside and _BACK.match(turn.content[:OPENING]):
            is_aside = any(_ASIDE.match(memory.content[:OPENING]) for memory in turns[place + 1 :])
        if not is_aside:
            on_topic.append(turn)
        elif _ASIDE.match(turn.content[:OPENING]):
            is_aside = False
    return on_topic


def left_open(
    view: View, conditions: Filter, last: Collection[Memory], episodes: Iterable[Memory]
) -> list[Memory]:
    """Return the last turn here that names open ends, from `episodes` (newest first); none if one
    of the `last` turns does.
    """
    if any(map(_leaves_open, last)):
        return []
    memories = (memory for memory in episodes if _leaves_open(memory) and conditions.is_own(memory))
    return list(
        islice(
            (memory for memory in memories if not is_held(memory) and not _is_over(view, memory)), 1
        )
    )


def went_wrong(conditions: Filter, episodes: Sequence[Memory]) -> list[Memory]:
    """Return the last turns here in which a command failed and the agent reported how it ended,
    from `episodes` (newest first).
    """
    failed = (
        memory
        for memory in episodes[:LOOKED_AT]
        if _has_failure(memory) and reports(memory.result or "")
    )
    own = (memory for memory in failed if conditions.is_own(memory) and not is_held(memory))
    return list(islice(own, _WENT_WRONG))


def _has_failure(episode: Memory) -> bool:
    """Return True if a command of a turn failed, except those that only look: they fail on no
    match.
    """
    return any(
        outcome.startswith("failed") and not efforts.only_looks(command)
        for command, outcome in commands_run(episode)
    )


def _leaves_open(turn: Memory) -> bool:
    return any(open_ends(turn))


def open_ends(turn: Memory) -> Iterator[str]:
    """Yield the sentences in which the agent said what is still to be done; of a title, with the
    first items below it.
    """
    if turn.result and _LEFT_OPEN.search(turn.result):
        sentences = reports(turn.result)
        for at, sentence in enumerate(sentences):
            says_more = not sentence.rstrip("*_ ").endswith((":", "\uff1a"))
            if says_more and _LEFT_OPEN.search(sentence) and not _NONE_OPEN.search(sentence):
                below = sentences[at + 1 : at + 1 + _ITEMS] if _TITLE.fullmatch(sentence) else ()
                items = "; ".join(item.lstrip("-*\u2022 ") for item in below)
                yield f"{sentence.strip('*_ ')}: {items}".replace("**", "") if items else sentence

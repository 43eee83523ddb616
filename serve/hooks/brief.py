"""
The brief of a project: the context for a session before its first prompt, or nothing.

The standing rules; below them, under a heading of their own, a few of the user's statements that
were never accepted; the work of the last session, and its open ends; open goals; the commands that
worked here, and the files and commands of several sessions; in the remaining room, past failures.
A project without memories has no brief.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from msgspec import structs
from msgspec.structs import replace

from serve.lessons.rule_index import rests, rules
from serve.reader.filters import Filter
from serve.reader.goals import due_date, set_goals
from serve.reader.held import is_held
from serve.reader.memory_json import role
from serve.reader.view import View, newest
from serve.recall.context_block import ID, SAID, Note, Part, note, short_path
from store.agents import efforts, prompt_statements
from store.agents.shell import calls
from store.derived.feedback import Counts
from store.derived.statement_weights import Scores, lasting_sentences, read_lasting, weigh
from store.home.projects import scope_chain
from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.episode import OUTCOME, facts_of
from store.memories.memory import OPEN, Memory
from store.plans.lesson_proposals import ACCEPTED
from store.text import tokenizer
from store.text.claims import tells_of_past
from store.text.excerpt import one_line, reports
from store.text.hazards import hazard
from store.text.text_features import MAY_RULE

Sessions = dict[str | None, list[Memory]]  # their turns, by the session, the newest first
# where branches are merged; what was done on any of them may be gone on with there
MAIN_LINES = frozenset({"main", "master", "trunk", "develop", "dev"})
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
_GOALS, _TURNS = 3, 3
_LOOKED_AT = 200  # memories, the newest
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
_SESSIONS = 10  # searched for common files and commands
_EDITED_IN, _RAN_IN = 2, 3  # of them, that make a habit: two runs may be an attack's
_OFTEN = 5  # files, and commands
_GOES = frozenset("cd source export eval .".split())  # before the actual command
_INLINE = ("-c", "-e")  # a program follows, which is of that moment
_FIRST_WORDS, _LONGEST_USUAL = 3, 60  # of a command; characters of one
_EFFORTS = ("test", "build", "lint", "deploy")
_LONGEST_COMMAND = 100
# a command of a line, up to an unquoted `;`, `&&` or bar
_COMMAND = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^;&|\\]|(?<!&)&(?!&)|\\)+""")
# a word of a command that names a file, a folder or a module
_IS_FILE = re.compile(r"^(?!-|//).+(?:/|\.\w{1,6}['\"]?$|\.\w+\.\w+$)")
_SETTING = re.compile(r"-[cpfC]|--(?:config|project|file)")  # with a file of the project behind it
_SUBCOMMAND = re.compile(r"[a-z]{3,12}")  # behind a script: `python manage.py test`
_PARTLY = frozenset({"--include", "--filter"})
_ELSEWHERE = ("2>&1", "2>/dev/null", "2> /dev/null")  # at the end of a command
_REDIRECTED = re.compile(r">[ \t]*([^\s<>&|;]+)")
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
        if _is_own(memory, conditions) and not is_held(memory)
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
    for episode in episodes[:_LOOKED_AT]:
        if _is_own(episode, conditions):
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
    those = those[:_LATEST]
    return [memory for memory in those if not is_held(memory) and not _is_over(view, memory)][
        :_TURNS
    ]


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
    memories = (
        memory for memory in episodes if _leaves_open(memory) and _is_own(memory, conditions)
    )
    return list(
        islice(
            (memory for memory in memories if not is_held(memory) and not _is_over(view, memory)), 1
        )
    )


def went_wrong(conditions: Filter, episodes: Sequence[Memory]) -> list[Memory]:
    """Return the last turns here with a failed command and a last message of the agent, from
    `episodes` (newest first).
    """
    failed = (
        memory for memory in episodes[:_LOOKED_AT] if memory.result and any(_failures(memory))
    )
    own = (memory for memory in failed if _is_own(memory, conditions) and not is_held(memory))
    return list(islice(own, _WENT_WRONG))


def _failures(episode: Memory) -> Iterator[str]:
    """Yield the failed commands of a turn, except those that only look: they fail on no match."""
    for command, outcome in _commands_run(episode):
        if outcome.startswith("failed") and not efforts.only_looks(command):
            yield command


def _commands_run(episode: Memory) -> Iterator[tuple[str, str]]:
    """Yield the commands of a turn, each with its outcome."""
    for line in (episode.action or "").splitlines():
        if line.startswith("$ "):
            command, _, outcome = line.removeprefix("$ ").partition(OUTCOME)
            yield command, outcome


def _leaves_open(turn: Memory) -> bool:
    return any(_open_ends(turn))


def _open_ends(turn: Memory) -> Iterator[str]:
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
    own = [memory for memory in memories if memory.pinned or _is_own(memory, conditions)]
    here = [memory for memory in own if not rests(view, memory)]
    those = replace(conditions, kinds=("decision", "fact"))
    here += [memory for memory in newest(view, those, _LOOKED_AT) if _stands(memory, conditions)]

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
    likeliest = sorted(scores_of, key=lambda row: -weigh(scores_of[row], Counts()))[:_LOOKED_AT]
    weighed = [
        (weigh(scores_of[row], _counts(view, memory)), memory)
        for row, memory in zip(likeliest, view.snapshots.rows.take(likeliest), strict=True)
    ]
    fresh = (memory for memory in view.tail.current() if those.accepts(memory))
    latest = sorted(fresh, key=lambda memory: (-memory.created_at, -memory.seq))[:_LOOKED_AT]
    weighed += [
        (weigh(Scores(read_lasting(memory.content)), _counts(view, memory)), memory)
        for memory in latest
    ]
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


def commands(
    episodes: Sequence[Memory], without: Collection[str] = (), but: Collection[str] = ()
) -> Iterator[Note]:
    """Yield the commands that passed last in `episodes` (newest first), by effort; turns in
    `without` and efforts in `but` are left out.

    Of the commands of a session the one that the sessions before ran too, or began theirs with: the
    tests, not those of one file. A script that the same session wrote is not the project's, nor is
    a file without a folder that it checked: a later session that runs it without writing it shows
    that it stayed.
    """
    ran: dict[str, dict[str | None, list[str]]] = {effort: {} for effort in _EFFORTS}
    written: dict[str | None, set[str]] = {}
    for episode in episodes:
        written.setdefault(episode.session, set()).update(_written_files(episode))
    for episode in episodes:
        if episode.id in without:
            continue
        for command, outcome in reversed([*_commands_run(episode)]):
            if outcome.startswith("failed"):
                continue
            for part in _parts(command):
                effort = efforts.effort(part)
                if effort not in _EFFORTS or effort in but or len(part) > _LONGEST_COMMAND:
                    continue
                scripts = {_file_name(form[0]) for call in calls(part) for form in call.forms}
                if not (scripts | _loose_files(part)) & written[episode.session]:
                    ran[effort].setdefault(episode.session, []).append(part)
        if all(len(sessions) >= _SESSIONS for sessions in ran.values()):
            break
    command_for = {
        effort: command
        for effort, sessions in ran.items()
        if sessions and (command := _usual([*sessions.values()][:_SESSIONS], effort))
    }
    if command_for:
        yield dict(command_for)


def _usual(sessions: Sequence[Sequence[str]], effort: str) -> str:
    """Return the command that the newest session ran, of several the one that the session before it
    ran too, and so on; "" if there is none. A session that ran `pytest -q a.py` ran `pytest -q`, if
    any ran that alone.

    Of a command of one session only, the part before the first file that it names, if that is for
    the same `effort`: a script that was written for the day is none of the project's commands. A
    deployment is seldom, and told whole. Sessions and the commands of each are given newest first.
    """
    words = [[command.split() for command in dict.fromkeys(session)] for session in sessions]

    def missing(command: Sequence[str]) -> list[bool]:
        return [all(other[: len(command)] != command for other in session) for session in words]

    def without_files(command: list[str]) -> list[str]:
        for at in range(1, len(command)):
            is_setting = at > 1 and _SETTING.fullmatch(command[at - 1])
            has_commands = at == 1 and _SUBCOMMAND.fullmatch(" ".join(command[2:3]))
            if not _IS_FILE.search(command[at]) or is_setting or has_commands:
                continue
            if missing(command[: at + 1]).count(False) < 2:
                return command[: at - 1 if command[at - 1] in _PARTLY else at]
        return command

    for command in sorted(chain.from_iterable(words), key=missing):
        if missing(command).count(False) > 1 or effort == "deploy":
            return " ".join(command)
        start = " ".join(without_files(command))
        if efforts.effort(start) == effort:
            return start
    return ""


def habits(episodes: Iterable[Memory], shown: Sequence[Note] = ()) -> Iterator[Note]:
    """Yield the files that were edited and the commands that passed in several of the last
    sessions, of some `episodes`, the newest first; a command is known by its first words. Those
    `shown` before are left out, and hazards.
    """
    there = {_first_words(command) for line in shown for command in line.values()}
    sessions: dict[str | None, tuple[dict[str, None], dict[str, tuple[str, str]]]] = {}
    for episode in episodes:
        if episode.session not in sessions and len(sessions) == _SESSIONS:
            break
        edited, ran = facts_of(episode).files, dict(_usual_commands(episode))
        if edited or ran:
            files, commands = sessions.setdefault(episode.session, ({}, {}))
            files.update(dict.fromkeys(edited))
            commands.update({start: run for start, run in ran.items() if start not in commands})
    in_files = Counter(file for files, _ in sessions.values() for file in files)
    in_commands = Counter(start for _, commands in sessions.values() for start in commands)
    newest_of: dict[str, tuple[str, str]] = {}
    for _, commands in sessions.values():
        newest_of = commands | newest_of
    usual, often = (
        [name for name, times in counts.most_common(_OFTEN) if times >= least]
        for counts, least in ((in_files, _EDITED_IN), (in_commands, _RAN_IN))
    )
    ran_often = [newest_of[start] for start in often if start not in there]
    line = {
        "edited": [short_path(file) for file in usual],
        "ran": [command for command, whole in ran_often if hazard(whole) is None],
    }
    if any(line.values()):
        yield {name: those for name, those in line.items() if those}


def _first_words(command: str) -> str:
    return " ".join(command.split()[:_FIRST_WORDS])


def _usual_commands(episode: Memory) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield a turn's passed commands that did more than look, each by its first words, with the
    line that contains it.
    """
    for line, outcome in _commands_run(episode):
        if outcome.startswith("failed"):
            continue
        for command in _parts(line, are_fed=False):
            words = command.split()
            is_usual = len(words) > 1 and words[0] not in _GOES and words[1] not in _INLINE
            if is_usual and not efforts.assigns(words) and not efforts.only_looks(command):
                yield _first_words(command), (one_line(command, _LONGEST_USUAL), line)


def _parts(line: str, *, are_fed: bool = True) -> Iterator[str]:
    """Yield the commands of a line, up to the first whose quoted text was cut off; those that read
    another's output (`awk`, `xargs kill`) only if they `are_fed`.
    """
    for match in _COMMAND.finditer(line):
        part, start = match[0].strip(), match.start()
        if part.count('"') % 2 or part.count("'") % 2:
            return
        before = line[max(0, start - 2) : start]
        if are_fed or before == "||" or not before.endswith("|"):
            for end in _ELSEWHERE:
                part = part.removesuffix(end).rstrip()
            yield part


def _written_files(episode: Memory) -> Iterator[str]:
    """Yield the names of the files that a turn wrote, with its tools or from its shell."""
    for path in facts_of(episode).files:
        yield _file_name(path)
    for command, _ in _commands_run(episode):
        yield from map(_file_name, _REDIRECTED.findall(command))


def _loose_files(command: str) -> set[str]:
    """Return the names of the files of no folder, or of /tmp, that a command names."""
    words = (word for word in command.split() if "/" not in word or word.startswith("/tmp/"))
    return {_file_name(word) for word in words}


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


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
    if memory.source == "git":  # without the list of a commit's files, by which recall finds it
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
    open_ends = list(_open_ends(memory))
    if open_ends and not any(end in payload.get("agent_said", "") for end in open_ends):
        others = (part for part in reports(memory.result or "") if part not in open_ends)
        memory = structs.replace(memory, result="\n".join([*open_ends, *others]))
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
    return is_said and memory.trust in MAY_RULE and _is_own(memory, conditions)


def _is_own(memory: Memory, conditions: Filter) -> bool:
    scopes = (*scope_chain(conditions.project or ""), *conditions.shared)
    return (memory.project or "") in scopes

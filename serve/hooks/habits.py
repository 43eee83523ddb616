"""
The commands that worked in a project, and the files and commands of several of its sessions.

Both are read from its turns: nobody records them.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from serve.recall.context_block import Note, short_path
from store.agents import efforts
from store.agents.shell import calls
from store.memories.episode import OUTCOME, facts_of
from store.memories.memory import Memory
from store.text.excerpt import one_line
from store.text.hazards import hazard

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


def commands_run(episode: Memory) -> Iterator[tuple[str, str]]:
    """Yield the commands of a turn, each with its outcome."""
    for line in (episode.action or "").splitlines():
        if line.startswith("$ "):
            command, _, outcome = line.removeprefix("$ ").partition(OUTCOME)
            yield command, outcome


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
        for command, outcome in reversed([*commands_run(episode)]):
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
    for line, outcome in commands_run(episode):
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
    for command, _ in commands_run(episode):
        yield from map(_file_name, _REDIRECTED.findall(command))


def _loose_files(command: str) -> set[str]:
    """Return the names of the files of no folder, or of /tmp, that a command names."""
    words = (word for word in command.split() if "/" not in word or word.startswith("/tmp/"))
    return {_file_name(word) for word in words}


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]

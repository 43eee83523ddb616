"""
Aider's chat history, `.aider.chat.history.md` in a repository, read turn by turn.

It is one Markdown file for all chats there: a heading when a chat is started, in local time, which
is the only time in it; the user's text after `####`; Aider's own after `>`; and the model's answers
as they are. Aider ends its own lines and the user's with two spaces, which distinguishes them from
a heading or a quote in an answer. https://github.com/Aider-AI/aider, aider/io.py (`user_input`,
`tool_output`, `ai_output`); edits and commands: aider/coders/base_coder.py.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path

from store.agents.typed_text import human_text
from store.home.instants import SECOND, micros
from store.home.projects import git_root
from store.importers.source_files import is_source_file, read_lines
from store.importers.transcript_turn import OpenTurn, Said, Skip, Transcript, Turn

NAME = ".aider.chat.history.md"
MARKS = re.compile(rb"^# aider chat started at \d{4}-\d\d-\d\d ", re.MULTILINE)
MAX_LINE = 1 << 20  # bytes
_STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_TYPED = re.compile(r"####(?: (.*))?  \n?")
_NOTED = re.compile(r"> (.*)  \n?")
_EDITED = "Applied edit to "
_RAN = "Running "
# the rest is for the model; other commands are for Aider
_ASKING = re.compile(r"/(?:ask|code|architect|context|help)\s+(?=\S)")


def find(source: Path, on_skip: Skip) -> list[Transcript]:
    """Return the chats of a history, or of the one in a folder; if `NAME` is not here, of the one
    at the top of the current repository.
    """
    path = source
    if source.is_dir():
        path = source / NAME if is_source_file(source / NAME, source) else source
    elif source == Path(NAME) and not source.exists():
        path = (git_root(Path.cwd()) or Path()) / NAME
    if not path.is_file() or not any(map(MARKS.match, islice(read_lines(path, MAX_LINE), 40))):
        return []
    return [Transcript(path, chat) for chat in _chats(path, _modified(path))]


def turns(transcript: Transcript, on_skip: Skip) -> Iterator[Turn]:
    """Yield a chat's turns in order. Raise OSError, SourceError."""
    path = transcript.path
    yield from _chats(path, _modified(path)).get(transcript.session, ())


def _modified(path: Path) -> int:
    return path.stat().st_mtime_ns


@lru_cache(maxsize=1)  # each chat is requested separately
def _chats(path: Path, modified: int) -> Mapping[str, tuple[Turn, ...]]:
    """Return the turns of each chat that has any, by its start."""
    chats: dict[str, list[Turn]] = {}
    chat, began, cwd = "", 0, str(path.absolute().parent)
    open_turn: OpenTurn | None = None
    typed: list[str] = []
    answer: list[str] = []
    notes: list[str] = []

    def close() -> None:
        nonlocal open_turn
        if open_turn is not None:
            for number, note in enumerate(notes):
                _add_note(open_turn, note, f"{open_turn.request.id}:{number}")
            open_turn.say("".join(answer), f"{open_turn.request.id}:said", open_turn.request.at)
            chats[chat].append(open_turn.close())
        open_turn = None

    def begin() -> None:
        """Begin a turn with the typed text, if any of it was for the model."""
        nonlocal open_turn
        request = human_text(_ASKING.sub("", "\n".join(typed), count=1))
        typed.clear()
        if not request or request.startswith("/") or request == "<blank>":
            return
        close()
        answer.clear()
        notes.clear()
        place = len(chats[chat])
        at = began + place * SECOND
        open_turn = OpenTurn(chat, cwd, None, Said(request, f"{place}:{request[:200]}", at))

    for raw in read_lines(path, MAX_LINE):
        line = raw.decode(errors="replace").replace("\r\n", "\n")
        if (start := _STARTED.fullmatch(line)) and (at := _instant(start[1])):
            close()
            chat, began = start[1], at
            chats.setdefault(chat, [])
        elif not chat:
            continue
        elif match := _TYPED.fullmatch(line):
            typed.append(match[1] or "")
            continue
        if typed:
            begin()
        if note := _NOTED.fullmatch(line):
            notes.append(note[1])
        else:
            answer.append(line)
    if typed:
        begin()
    close()
    return {chat: tuple(some) for chat, some in chats.items() if some}


def _add_note(turn: OpenTurn, note: str, id_: str) -> None:
    """Add a step that Aider reports: an edit, or a command without its outcome."""
    if note.startswith(_EDITED):
        turn.call(id_, "edit", {"path": note.removeprefix(_EDITED)}, turn.request.at)
        turn.end(id_, True)
    elif note.startswith(_RAN):
        turn.call(id_, "bash", {"command": note.removeprefix(_RAN)}, turn.request.at)
        turn.end(id_, None)


def _instant(local: str) -> int:
    """Return the microseconds of a local time; 0 for none."""
    try:
        return micros(datetime.fromisoformat(local).astimezone())
    except (ValueError, OverflowError, OSError):
        return 0

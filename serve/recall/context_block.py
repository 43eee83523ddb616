"""
The compact block given to a model: recalled memories, in the frame of `store.text.frame`.

The frame's two lines enclose one JSON object per line, rules before information. No stored text can
end the frame or begin a line of it: a text is one JSON string on one line, without control or
invisible characters, `<`, `>` and either line of the frame. So the lines need no random mark, which
would change the bytes of the same notes each time: the host's prompt cache stays valid as long as
the notes stay the same. For the same reason nothing in the block depends on the time or on the
question: no score, no age, and the oldest note first.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from serve.reader.memory_json import role
from serve.reader.state import Change
from store.home.instants import isoformat
from store.home.projects import SHARED
from store.log.event_kinds import EPISODE, STATEMENT
from store.memories.episode import MAX_SAID, OUTCOME, facts_of
from store.memories.memory import Memory
from store.text.claims import LONGEST, announces, parse
from store.text.excerpt import (
    first_sentence,
    fitting,
    one_line,
    passage,
    reports,
)
from store.text.frame import CLOSING, OPENING
from store.text.text_features import MAY_RULE
from store.text.tokenizer import terms as text_terms

MAX_BYTES = 9_000  # of the whole block in UTF-8: hosts cut at 10,000 characters or bytes
TEXT = 600  # characters of a note's text
ASKED, DONE, TOLD = 1 / 3, 5 / 6, 4 / 5  # of a turn's, shares of that
LINE = 240  # of one command's output
BESIDE = 160  # of each other field: the context, the action, the replaced text
SENTENCE = 200  # of a note that is to be one sentence
EDITED, FILE = 4, 60  # files of a turn, and characters of a path
SAID = "user_said"
ID = 14  # letters of a ULID: its time and 20 bits more
RULES = "On record as rules (lessons, preferences, antipatterns):"
FACTS = "On record as background:"
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_BESIDE = frozenset({"context", "action", "result"})

Note = dict[str, Any]


class Part(msgspec.Struct, frozen=True):
    """A heading of ours and the notes under it."""

    heading: str
    notes: tuple[Note, ...]


class Block(msgspec.Struct, frozen=True):
    """A block as it is sent, empty without notes, and the notes in it."""

    text: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The memories in the block, in its order."""
        return tuple(note["id"] for note in self.notes if "id" in note)

    @property
    def judgeable_ids(self) -> tuple[str, ...]:
        """Those of the memories by which the agent's work can be judged: rules and statements."""
        return tuple(
            note["id"] for note in self.notes if "id" in note and ("rule" in note or SAID in note)
        )


def note(
    memory: Memory,
    here: str | None = None,
    *,
    about: Collection[str] = (),
    conflicts_with: str | None = None,
    history: Sequence[Memory] = (),
    change: Change | None = None,
    retracts: str | None = None,
    longest: int = TEXT,
) -> dict[str, Any]:
    """Return a memory as one line of a block; the text's field names its speaker.

    A `rule` binds; `user_said` quotes the user; the parts of a turn are `user_asked`, `edited`,
    `tool_output` and `agent_said`; anything else goes by its kind, or is a `note` if a tool or
    the web is its source, given in `by`. The parts of an episode that are `about` some words come
    first. Earlier texts of a tool or the web are not shown as replaced. `here` is the current
    project, which is not repeated. A text over `longest` characters is cut; the whole is read by
    its id. `change` is the effect of a later claim, `retracts` a quoted text that no longer holds,
    `shared_in` the file of the repository that shares the memory. Missing fields are left out.
    """
    payload: dict[str, Any] = {"id": memory.id, "on": _day(memory)}
    if memory.kind == EPISODE:
        payload |= _turn(memory, about, longest)
    else:
        payload[label(memory)] = _clean(memory.content, longest)
        payload |= {
            name: _clean(value, BESIDE)
            for name in ("context", "action", "result")
            if (value := getattr(memory, name)) and memory.kind != STATEMENT
        }
        payload["by"] = memory.trust if memory.trust != "user" else None
    shared_in = shared_path(memory)
    if shared_in is not None:
        payload["by"] = "team" if memory.trust in MAY_RULE else "a file that was not reviewed"
    said_before = (other for other in history if other.trust in MAY_RULE)
    old = [{"on": _day(other), "text": _clean(other.content, BESIDE)} for other in said_before][:2]
    payload |= {
        "shared_in": shared_in,
        "project": memory.project if memory.project != here and shared_in is None else None,
        "status": memory.status,
        "progress": memory.progress,
        "conflicts_with": conflicts_with,
        "replaced": old or None,
        **_change_note(change),
        "no_longer": _clean(retracts, BESIDE) if retracts else None,
    }
    return {name: value for name, value in payload.items() if value is not None}


def shared_path(memory: Memory) -> str | None:
    """Return the file of the repository that shares a memory; None of any other memory."""
    if memory.project is None or SHARED not in memory.project:
        return None
    return (memory.source or "").removeprefix("shared:")


def _change_note(change: Change | None) -> dict[str, Any]:
    """Return a note's fields for a later claim: the outdated text, the newer text and its day."""
    if change is None:
        return {}
    newer = {"on": isoformat(change.at)[:10], "text": _clean(change.text, BESIDE)}
    if not change.is_sure:
        return {"conflicts_with": change.by}
    outdated = None if change.is_whole else _clean(change.outdated, BESIDE)
    return {"outdated": outdated, "replaced_by": newer}


def label(memory: Memory) -> str:
    """Return the label of a memory's words in a block."""
    if role(memory) == "rule":
        return "rule"
    if memory.kind == STATEMENT:
        return SAID
    if memory.trust not in MAY_RULE:
        return "note"
    return memory.insight_type or memory.kind


def short_id(id_: str) -> str:
    """Return the beginning of an id by which the memory is found."""
    return id_[:ID] if _ULID.fullmatch(id_) else id_


def short_note(
    memory: Memory,
    here: str | None = None,
    *,
    conflicts_with: str | None = None,
    change: Change | None = None,
) -> dict[str, Any]:
    """Return a memory as one sentence, with its provenance and nothing beside."""
    payload = note(memory, here, conflicts_with=conflicts_with, change=change)
    name = "agent_said" if memory.kind == EPISODE else label(memory)
    if name in payload:
        payload[name] = first_sentence(payload[name], SENTENCE)
    return {name: value for name, value in payload.items() if name not in _BESIDE}


def _turn(episode: Memory, about: Collection[str], longest: int) -> dict[str, Any]:
    """Return a turn in short: the request, the outcomes and the agent's words."""
    wanted = frozenset(about)

    def shared(part: str) -> int:
        return len(wanted.intersection(text_terms(part)))

    def telling(part: str) -> int:
        return shared(part) + announces(parse(part[:LONGEST]))

    outcomes = [line for line in (episode.action or "").splitlines() if OUTCOME in line]
    lines = fitting([_clean(line, LINE) for line in outcomes], round(longest * DONE), shared)
    reported = [_clean(sentence, MAX_SAID) for sentence in reports(episode.result or "")]
    reply = fitting(reported, round(longest * TOLD), shared)
    room = max(round(longest * ASKED), longest - sum(map(len, (*lines, *reply))))
    files = facts_of(episode).files
    likeliest = sorted(files, key=lambda path: -shared(path))[:EDITED]
    return {
        "user_asked": passage(_clean(episode.content, 8 * room), room, telling),
        "edited": [short_path(path) for path in files if path in likeliest] or None,
        "tool_output": "; ".join(lines) or None,
        "agent_said": " ".join(reply) or None,
    }


def short_path(path: str) -> str:
    """Return a path, of a long one its end, by which a file is known."""
    if len(path) <= FILE:
        return path
    *folders, end = path.replace("\\", "/").split("/")
    for folder in reversed(folders):
        if len(folder) + len(end) > FILE:
            break
        end = f"{folder}/{end}"
    return f".../{end[-FILE:]}"


def block(notes: Iterable[Note], max_bytes: int = MAX_BYTES) -> Block:
    """Return a block of as many notes, given best first, as fit.

    Rules come before background, each the oldest first, so the same notes are the same bytes.
    """
    room = max_bytes - _size(OPENING, RULES, FACTS, CLOSING)
    pairs: list[tuple[Note, str]] = []
    for note in notes:
        line = _line(note)
        if _size(line) <= room:
            room -= _size(line)
            pairs.append((note, line))
    pairs.sort(key=lambda pair: (pair[0]["on"], pair[0]["id"]))
    rules = [pair for pair in pairs if "rule" in pair[0]]
    facts = [pair for pair in pairs if "rule" not in pair[0]]
    return _frame([(RULES, rules), (FACTS, facts)])


def render_parts(parts: Iterable[Part], max_bytes: int = MAX_BYTES) -> Block:
    """Return a block of parts, in the order given; notes that do not fit are cut from the end."""
    room = max_bytes - _size(OPENING, CLOSING)
    fitting_parts: list[tuple[str, list[tuple[Note, str]]]] = []
    for part in parts:
        room -= _size(part.heading)
        fitting_parts.append((part.heading, []))
        for note in part.notes:
            line = _line(note)
            room -= _size(line)
            if room < 0:
                return _frame(fitting_parts)
            fitting_parts[-1][1].append((note, line))
    return _frame(fitting_parts)


def _frame(parts: Iterable[tuple[str, Sequence[tuple[Note, str]]]]) -> Block:
    """Return a block of parts, those without a note left out."""
    lines: list[str] = []
    notes: list[Note] = []
    for heading, pairs in parts:
        if pairs:
            lines += (heading, *(line for _, line in pairs))
            notes += (note for note, _ in pairs)
    return Block("\n".join((OPENING, *lines, CLOSING)), tuple(notes)) if notes else Block()


def _size(*lines: str) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _line(note: Note) -> str:
    short = {name: short_id(note[name]) for name in ("id", "conflicts_with") if name in note}
    return plain_json({name: _safe(value) for name, value in (note | short).items()})


def plain_json(note: Note) -> str:
    """Return a note as one line of JSON without any markup."""
    text = msgspec.json.encode(note).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _safe(value: Any) -> Any:
    """Return a value with all its texts cleaned by `clean_text`."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {name: _safe(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(member) for member in value]
    return value


_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
# invisible, though Unicode classifies them as letters, marks or symbols
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_FRAME = re.compile(
    "|".join(r"\s+".join(map(re.escape, line.rstrip(".:").split())) for line in (OPENING, CLOSING)),
    re.IGNORECASE,
)


def clean_text(text: str) -> str:
    """Return a text without invisible characters and without the lines of our frame.

    Control, format, private and unassigned characters, lone surrogates and terminal sequences go;
    every kind of white space is a space.
    """
    text = _ANSI.sub("", text)
    if not text.isprintable():
        text = "".join(map(_printable, text))
    if not text.isascii():
        text = _UNSEEN.sub("", text)
    return _FRAME.sub("(notes)", text)  # last: hidden characters may split it


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else ""


def _clean(text: str, longest: int) -> str:
    # text far beyond the cut is never read
    return one_line(clean_text(text[: 8 * longest]), longest)


def _day(memory: Memory) -> str:
    return isoformat(memory.created_at)[:10]

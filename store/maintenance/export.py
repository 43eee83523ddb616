"""
Export: a tenant's memories as JSON Lines, in the order of the log, for `import jsonl`, or as notes.

Read from the log alone, so that it has the newest records and needs no build. A forgotten memory's
line has that state and no text; one quarantined automatically has that state and its text. Links
and ratings are in the line of the memory they begin at or are of; ratings of whole recalls, whose
receipts are not exported, are left out.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal
from unicodedata import category

import msgspec

from store.home.instants import moment
from store.importers.jsonl import OWN, QUARANTINED, Exported, ExportedLink, ExportedRating
from store.log.event_kinds import EPISODE, Rated
from store.log.event_log import EventLog
from store.maintenance import quarantine
from store.memories.fold import Fold
from store.memories.memory import ACTIVE, AUTO, DEFAULT_SCORE, FORGOTTEN, Memory
from store.text import visible_json


def export(
    log: EventLog, now: int, *, all_states: bool = False, project: str | None = None
) -> Iterator[bytes]:
    """Yield one line for each memory, without the line's end, as `export_lines` gives them."""
    for line in export_lines(log, now, all_states=all_states, project=project):
        yield visible_json.encode(line)


def export_lines(
    log: EventLog, now: int, *, all_states: bool = False, project: str | None = None
) -> Iterator[Exported]:
    """Yield each exported memory.

    Without `all_states` only those that are active at `now`, or were until they were quarantined;
    with `project` only its own, and not those that belong to no project.
    """
    fold, ratings = _fold_log(log)
    links: dict[str, dict[ExportedLink, None]] = defaultdict(dict)
    for edge in fold.edges:
        link = msgspec.convert({"target": edge.target, "relation": edge.relation}, ExportedLink)
        links[edge.source][link] = None
    was_by_id = _quarantine_states(log)
    for memory in _memories_to_export(fold, was_by_id, now, all_states=all_states, project=project):
        beside: dict[str, Any] = {
            "links": tuple(links.get(memory.id, ())),
            "ratings": ratings.get(memory.id, []),
        }
        if memory.id in was_by_id:
            beside["state"] = QUARANTINED
        if memory.state == FORGOTTEN and memory.id not in was_by_id:
            tombstone = {"id": memory.id, "content": "", "state": FORGOTTEN}
            yield msgspec.convert(tombstone, Exported)
        else:
            yield _line(memory, now, beside)


def memories(
    log: EventLog, now: int, *, all_states: bool = False, project: str | None = None
) -> list[Memory]:
    """Return the memories that `export` yields, without the forgotten ones."""
    was_by_id = _quarantine_states(log)
    wanted = _memories_to_export(
        _fold_log(log)[0], was_by_id, now, all_states=all_states, project=project
    )
    return [memory for memory in wanted if memory.id in was_by_id or memory.state != FORGOTTEN]


def _fold_log(log: EventLog) -> tuple[Fold, dict[str, list[ExportedRating]]]:
    """Return all memories, and their ratings in the order they were given."""
    fold = Fold()
    ratings: dict[str, list[ExportedRating]] = defaultdict(list)
    for event in log.effective_events(0, log.head(), cold=False):
        fold.apply(event)
        if isinstance(event.body, Rated):
            rating = ExportedRating(
                verdict=event.body.verdict,
                reason=event.body.reason,
                at=moment(event.at),
                trust="agent" if event.trust == "agent" else "user",
            )
            ratings[event.subject].append(rating)
    return fold, ratings


def _memories_to_export(
    fold: Fold, was_by_id: Mapping[str, str], now: int, *, all_states: bool, project: str | None
) -> Iterator[Memory]:
    """Yield the memories to be exported; `was_by_id` are the states of those in quarantine."""
    for memory in sorted(fold.rows.values(), key=attrgetter("seq")):
        if memory.kind == EPISODE or (project is not None and memory.project != project):
            continue
        state = was_by_id.get(memory.id, memory.state)
        is_expired = memory.expires_at is not None and memory.expires_at <= now
        if all_states or (state == ACTIVE and not is_expired):
            yield memory


def _quarantine_states(log: EventLog) -> dict[str, str]:
    """Return the states that memories in quarantine had before, by their ids."""
    return {entry.id: entry.was for entry in quarantine.entries(log)}


def _line(memory: Memory, now: int, beside: dict[str, Any]) -> Exported:
    same = {
        name: getattr(memory, name)
        for name in Exported.__struct_fields__
        if hasattr(memory, name) and getattr(memory, name) is not None
    }
    # unset fields stay unset, so that a better default later applies to these memories too
    if same["importance"] == memory.unsaid_importance:
        del same["importance"]
    if same["tier"] == memory.auto_tier:
        same["tier"] = AUTO
    if same["score"] == DEFAULT_SCORE:
        del same["score"]
    same |= {
        "created_at": moment(memory.created_at),
        "updated_at": moment(memory.updated_at),
        "metadata": msgspec.json.decode(memory.metadata),
    }
    if memory.ended_at is not None:
        same["ended_at"] = moment(memory.ended_at)
    if memory.expires_at is not None:  # the remaining time; the least if it has run out
        same["ttl_s"] = max(1, (memory.expires_at - now) // 1_000_000)
    return msgspec.convert(same | beside, Exported)


# Notes: a folder of Markdown, one file for each memory, for other programs and for people.
#
# The text is the note's; everything else is in its front matter, under `mnemolog`, from which
# `import obsidian`, `basic-memory` and `claude-memory` make the same memory again. A text that a
# note cannot reproduce exactly is there too.

NoteForm = Literal["obsidian", "basic-memory", "claude-memory"]
_INDEX = "MEMORY.md"
_INDEX_LINES = 200  # Claude Code reads no more of an index
_RELATIONS = {"cause": "causes", "support": "supports", "conflict": "contradicts"}


def export_notes(lines: Iterable[Exported], form: NoteForm) -> dict[str, bytes]:
    """Return the files of a folder of notes, by their paths in it, without forgotten memories."""
    lines = [line for line in lines if line.state != FORGOTTEN]
    titles = {line.id or "": _title(line) for line in lines}
    files = {_note_path(line, form): _note(line, form, titles) for line in lines}
    if form == "claude-memory":
        first = sorted(lines, key=lambda line: (not line.pinned, -(line.importance or 0.5)))
        index = [f"- [{_title(line)}]({_note_path(line, form)}) — {line.kind}" for line in first]
        files[_INDEX] = "\n".join(["# Memory", "", *index[: _INDEX_LINES - 2], ""]).encode()
    return files


def _title(line: Exported) -> str:
    """Return a file name from the beginning of a memory's text and the end of its id."""
    plain = re.sub(r"[^\w .,'-]+", " ", line.content.split("\n", 1)[0])
    return f"{' '.join(plain.split())[:60].strip(' .')} {(line.id or '')[-6:]}".strip()


def _note_path(line: Exported, form: NoteForm) -> str:
    if form == "claude-memory":
        return f"{re.sub(r'[^a-z0-9]+', '_', _title(line).lower()).strip('_')}.md"
    project = re.sub(r"[^\w.@~+-]+", "-", line.project or "no project").strip(".-") or "project"
    return f"{project}/{line.kind}/{_title(line)}.md"


def _note(line: Exported, form: NoteForm, titles: Mapping[str, str]) -> bytes:
    import yaml  # not at the server's start

    front: dict[str, Any] = msgspec.to_builtins(line)
    front = {name: value for name, value in front.items() if value not in (None, [], {}, False)}
    content = front.pop("content")
    created = line.created_at.isoformat() if line.created_at else ""
    fields: dict[str, Any] = {}
    if form == "claude-memory":
        kind = "feedback" if line.kind in ("preference", "lesson", "antipattern") else "project"
        fields |= {"name": _title(line), "description": line.context or line.kind}
        fields["metadata"] = {"type": kind}
    else:
        fields |= {"title": _title(line), "type": line.kind, "tags": list(line.tags)}
        fields["created"] = created
    linked = [(link.relation, titles[link.target]) for link in line.links if link.target in titles]
    text = "".join(sign for sign in content if sign in "\n\t" or category(sign)[0] != "C")
    if linked and form != "claude-memory":
        relations = (f"- {_RELATIONS.get(how, how)} [[{title}]]" for how, title in linked)
        text += "\n\n## Relations\n" + "\n".join(relations)
    if text != content:
        front["content"] = content
    head = yaml.safe_dump(fields | {OWN: front}, allow_unicode=False, sort_keys=False, width=1_000)
    return f"---\n{head}---\n\n{text}\n".encode()

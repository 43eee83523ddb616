"""
JSON Lines, one memory a line: what `mnemolog export` writes, and what is easily written by hand.

A line is a `Draft`; what an export adds about a memory's state is accepted. Unlike a transcript
this is our own format, so a wrong line is an error that names its number, never left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from store.commands import Draft
from store.errors import SourceError
from store.events import derived_id, micros
from store.importers.lines import is_crowded, lines

SOURCE = "jsonl"
MAX_LINE = 8 << 20  # bytes; no memory is that long, and a file without line ends must not be read


class Exported(Draft, frozen=True, kw_only=True):
    """A draft, and what an export says of the memory's state. Forgotten ones are not imported."""

    state: Literal["active", "archived", "superseded", "forgotten", "stale"] = "active"
    superseded_by: str | None = None
    updated_at: Any = None
    seq: int | None = None


_decoder = msgspec.json.Decoder(Exported)


def drafts(source: Path, *, project: str | None) -> Iterator[Draft]:
    """Yield the file's memories in order, without the forgotten ones.

    `project` is for lines that name none. A line without an id gets one from its texts and project,
    so that it is added once. Raise SourceError where the file cannot be read, and for the first
    line that is no memory, with its number.
    """
    for number, raw in enumerate(_lines(source), 1):
        if not raw.strip():
            continue
        if len(raw) > MAX_LINE:
            raise SourceError(f"{source} line {number}: over {MAX_LINE} bytes: split the memory")
        if is_crowded(raw):
            raise SourceError(f"{source} line {number}: too many values for one memory")
        try:
            line = _decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SourceError(f"{source.name} line {number}: {error}") from error
        if line.state != "forgotten":
            yield _draft(line, project)


def _lines(source: Path) -> Iterator[bytes]:
    """Yield the lines, cut where they are too long, without the mark some editors begin with."""
    try:
        found = lines(source, MAX_LINE)
        yield next(found, b"").removeprefix(b"\xef\xbb\xbf")
        yield from found
    except OSError as error:
        cure = "name a .jsonl file that exists and may be read"
        raise SourceError(f"{source} cannot be read ({error.strerror}): {cure}") from error


def _draft(line: Exported, project: str | None) -> Draft:
    fields = {name: getattr(line, name) for name in Draft.__struct_fields__}
    fields["project"] = line.project or project
    fields["source"] = line.source or SOURCE
    fields["id"] = line.id or _id(line, fields["project"])
    return Draft(**fields)


def _id(line: Exported, project: str | None) -> str:
    at = micros(line.created_at) if line.created_at else 0
    texts = (line.content, line.context or "", line.action or "", line.result or "")
    return derived_id(at, SOURCE, project or "", *texts)

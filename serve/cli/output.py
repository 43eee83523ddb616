"""
Terminal output: JSON for programs, short lines and tables for people.

Recalled text comes from anywhere, so it is sanitized before it reaches a terminal.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serve.formatting import sanitize
from store.home.errors import InvalidInput, LogError
from store.log.event_kinds import Recorded
from store.text import visible_json

if TYPE_CHECKING:
    from store.log.event_log import EventLog

# the meaning of each colour, everywhere: all is well, look at this, it failed
COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}
LINES = 4  # of a memory's text
_LOST = 10  # characters at the end of a line, too few for another word
PIPED_WIDTH = 200
_FAINT = ("id", "date", "at")  # dimmed columns of a table
_GAP = "  "  # between two columns
_ID_WIDTH = 26  # of a whole ULID
_ID_LENGTHS = (10, 12, 14, 16, 18, 20, 22, 24)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON only.")


def example(*lines: str) -> str:
    """Return the end of a command's help; click keeps the lines after \\b as they are."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def emit(value: object) -> None:
    """Print a value as one line of JSON; bytes, so that no terminal's encoding spoils it."""
    click.echo(visible_json.encode(value))


def say(line: str = "") -> None:
    """Print a line for people."""
    click.echo(encodable(line))


def colour(text: str, severity: str) -> str:
    """Return text in the colour of a severity: "ok", "warn" or "error"."""
    return click.style(text, fg=COLOURS[severity])


def faint(text: str) -> str:
    """Return dimmed text, for ids and dates beside the main text."""
    return click.style(text, dim=True)


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def note(line: str) -> None:
    """Print a line beside the result: a warning, a next step."""
    click.echo(encodable(line), err=True)


def memory_text(payload: Mapping[str, Any]) -> str:
    """Return the text of a memory's JSON, with a mark if it is held back or was forgotten."""
    reason = f"(held back from agents: {payload['held']})" if "held" in payload else ""
    return " ".join(filter(None, (clean(payload["text"]), reason))) or "(forgotten)"


def encodable(text: str) -> str:
    """Return text with a ? for each undecodable byte; arguments may contain such bytes."""
    return text.encode("utf-8", "replace").decode()


def clean(text: str) -> str:
    """Return text sanitized for a terminal; line ends stay, tabs become spaces."""
    return sanitize(text).expandtabs(4)


def one_line(text: str, width: int = 70) -> str:
    """Return the beginning of a text on a single line."""
    return textwrap.shorten(clean(text), width, placeholder=" …") or clean(text)[:width]


def block(text: str, indent: str = "    ", lines: int = LINES) -> list[str]:
    """Return the first lines of a text, wrapped to the terminal and indented."""
    width = _width()
    wrapped: list[str] = []
    for paragraph in clean(text).splitlines():
        wrapped += textwrap.wrap(paragraph, width, initial_indent=indent, subsequent_indent=indent)
    if len(wrapped) > lines:
        wrapped[lines - 1 :] = [wrapped[lines - 1][: width - 2] + " …"]
    return wrapped


def room(lines: int, margin: int) -> int:
    """Return the number of characters that surely fit so many lines of `block`."""
    return max(1, _width() - margin - _LOST) * lines


def _width() -> int:
    return min(100, shutil.get_terminal_size().columns) - 1


def short_id(log: "EventLog", id_: str) -> str:
    """Return the shortest unique prefix of a memory's id, in `_ID_LENGTHS`; the whole id if the log
    cannot be read.
    """
    with suppress(LogError):
        for length in _ID_LENGTHS:
            if length < len(id_) and len(log.ids_with_prefix(id_[:length], 2)) == 1:
                return id_[:length]
    return id_


def first_words(log: "EventLog", id_: str, width: int = 56) -> str:
    """Return the first words of a memory; "" if it was erased or does not exist."""
    body = next((event.body for event in log.events_for(id_)), None)
    return one_line(getattr(body, "content", "") or getattr(body, "prompt", ""), width)


def recorded_text(log: "EventLog", id_: str) -> str:
    """Return the text that a memory was recorded with, on one line; "" for anything else."""
    body = next((event.body for event in log.events_for(id_)), None)
    return one_line(body.content) if isinstance(body, Recorded) else ""


def minute(at: str) -> str:
    """Return a time from JSON, to the minute: "2026-11-20 13:08"."""
    return at[:16].replace("T", " ")


def shortest(id_: str, among: Iterable[str], least: int) -> str:
    """Return a prefix of an id, of `least` letters or as many as make it unique."""
    others = [other for other in among if other != id_]
    for length in range(least, len(id_)):
        if not any(other.startswith(id_[:length]) for other in others):
            return id_[:length]
    return id_


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of at least one row; text that does not fit is cut from the widest columns, so
    that ids, dates and counts stay whole.
    """
    from rich.cells import cell_len, set_cell_size  # rich's own tables take 70 ms to import

    cells = [[" ".join(clean(cell).splitlines()) for cell in row] for row in rows]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH
    widths = [
        max(cell_len(name), *map(cell_len, column))
        for name, column in zip(columns, zip(*cells, strict=True), strict=True)
    ]
    fitted = fit_widths(widths, room - len(_GAP) * (len(columns) - 1))

    def padded(cell: str, most: int, style: Callable[[str], str]) -> str:
        if cell_len(cell) > most:
            cell = f"{set_cell_size(cell, most - 1).rstrip()}…"
        return style(cell) + " " * (most - cell_len(cell))

    say(_GAP.join(map(padded, columns, fitted, [_bold] * len(columns))).rstrip())
    styles = [faint if name in _FAINT else str for name in columns]
    for row in cells:
        say(_GAP.join(map(padded, row, fitted, styles)).rstrip())


def fit_widths(widths: Sequence[int], room: int, least: int = 10) -> list[int]:
    """Return the widths of columns that fit into `room`, by narrowing the widest; columns as narrow
    as an id are narrowed last. No column becomes narrower than `least`, even if the total is too
    wide.
    """
    fitted = list(widths)
    wide = [place for place, width in enumerate(widths) if width > _ID_WIDTH]
    for some in (wide, range(len(widths))):
        while sum(fitted) > room and any(fitted[place] > least for place in some):
            fitted[max(some, key=fitted.__getitem__)] -= 1
    return fitted


def stdin_text() -> str:
    """Return all of standard input as UTF-8."""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def write(path: Path, data: bytes) -> None:
    """Replace a file at once, readable by its owner alone; raise InvalidInput on failure."""
    from store.home.files import replace_file

    check_writable(path)
    try:
        replace_file(Path(os.path.realpath(path)), data)  # a link stays a link
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror})") from error


def check_writable(path: Path) -> None:
    """Raise InvalidInput if `write` has no folder to write to, or would replace a device."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InvalidInput(f"{path} is not a file: give a new one, or one that may be replaced")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(f"{path} cannot be written: give a file in an existing folder")

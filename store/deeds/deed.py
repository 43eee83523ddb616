"""
A deed: what the log keeps of one use of a tool, told by a hook or by a transcript.
"""

from collections.abc import Iterable
from itertools import chain

from store.deeds import efforts
from store.deeds.tools import ToolUse
from store.extracts import defined_names, is_settings, telling_lines
from store.log.event_kinds import Acted
from store.text import frame

MAX_COMMAND = 1_000  # characters kept
MAX_ERROR = 600  # of the end of a failure
MAX_FILES = 20
_KEPT = frozenset({"run", "edit", "recall", "remember"})


def deed(tool: ToolUse, files: tuple[str, ...], sources: Iterable[str] = ()) -> Acted | None:
    """Return what is kept of a tool's use; None of a look that tells nothing.

    `files` are the tool's as the project names them; `sources` is what the edited ones say. Of a
    tool of our own nothing is kept but that it was asked: what it answered is in the log already.
    """
    if tool.is_ours:
        return Acted(tool=tool.name, doing=tool.doing, passed=tool.passed)
    line = tool.command or ""
    passed = efforts.passed(line, tool.passed, tool.output)
    has_failed, is_edit = passed is False, tool.doing == "edit"
    kept = Acted(
        tool=tool.name,
        doing=tool.doing,
        effort=efforts.tried(line, tool.output),
        command=line[:MAX_COMMAND] or None,
        files=files[:MAX_FILES],
        passed=passed,
        error=_end(tool.output) if has_failed else None,
        output=None if has_failed or is_edit else telling_lines(frame.strip(tool.output)) or None,
        names=_names(tool, sources) if is_edit and not has_failed else (),
    )
    is_telling = tool.doing == "read" and kept.output and any(map(is_settings, files))
    return kept if tool.doing in _KEPT or is_telling else None


def _names(tool: ToolUse, sources: Iterable[str]) -> tuple[str, ...]:
    """Return the names that an edit defines, then those that the edited files do."""
    found = (defined_names(source) for source in (tool.change, *sources))
    return tuple(dict.fromkeys(chain.from_iterable(found)))


def _end(output: str) -> str | None:
    """Return the end of what a failed tool wrote, without any block of ours."""
    return frame.strip(output)[-MAX_ERROR:].strip() or None

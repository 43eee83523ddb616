"""
Diffs of edits: what an edit added and removed, as lines of a unified diff, from the arguments that
hosts give to their editing tools.

A space follows each mark: what looks for secrets takes "+" and "-" for a part of a token.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any

from store.agents.json_fields import objects, text

MAX_DIFF = 4_000  # characters of one edit
MAX_ARGUMENT = MAX_DIFF + 100  # characters read of a text; if it was cut, so is its diff
LEFT_OUT = "\\"  # begins a line that says something of the diff, as "\ No newline at end of file"

_REMOVED = ("old_string", "oldString", "old_text", "old_str")
_ADDED = ("new_string", "newString", "new_text", "new_str")
_WHOLE = ("content", "file_text", "new_source")
TEXTS = (*_REMOVED, *_ADDED, *_WHOLE)  # the arguments that hold an edit's texts
_PATCHES = ("diff", "input", "patch", "patchText", "command")
_BEGIN, _END, _FILE = "*** Begin Patch", "*** End Patch", "*** "
_MARKS = ("+", "-", " ", "")  # an empty line is one of context
_MAX_HUNKS = 50


def edit_diff(arguments: Mapping[str, Any]) -> str:
    """Return the diff of an edit, its hunks divided by lines that begin with "@@"; "" if the
    arguments hold no text.

    Of a replaced text only the lines it has in common with the new one at both ends are context: a
    line that moved is removed and added. Of a patch the lines that name its files stay. A diff that
    was cut ends with a line of `LEFT_OUT`.
    """
    for name in _PATCHES:
        lines = text(arguments, name, most=MAX_ARGUMENT).splitlines()
        if any(line.startswith(("@@", _FILE, "--- ")) for line in lines):
            return _cut(_patch_lines(lines))
    edits = [arguments, *objects(arguments, "edits"), *objects(arguments, "replacements")]
    hunks = [hunk for edit in edits[:_MAX_HUNKS] if (hunk := _hunk(edit))]
    return _cut(
        chain.from_iterable(["@@"] * (place > 0) + lines for place, lines in enumerate(hunks))
    )


def _patch_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a patch, perhaps within a command; of one file, without its name."""
    begin = lines.index(_BEGIN) + 1 if _BEGIN in lines else 0
    patch = list(takewhile(lambda line: line != _END, lines[begin:]))
    files = [line for line in patch if line.startswith(_FILE)]
    patch = patch if len(files) > 1 else [line for line in patch if line not in files]
    patch = patch[1:] if patch[:1] == ["@@"] else patch
    return [f"{line[:1] or ' '} {line[1:]}" if line[:1] in _MARKS else line for line in patch]


def _cut(lines: Iterable[str]) -> str:
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MAX_DIFF:
            kept.append(f"{LEFT_OUT} The rest is not kept")
            break
        kept.append(line)
    return "\n".join(kept)


def diff_text(diff: str) -> str:
    """Return the text of a diff's lines without their marks, the added lines first."""
    lines = diff.splitlines()
    added = [line[2:] for line in lines if line.startswith("+")]
    return "\n".join([*added, *(line[2:] for line in lines if line.startswith(("-", " ")))])


def _hunk(edit: Mapping[str, Any]) -> list[str]:
    old = text(edit, *_REMOVED, most=MAX_ARGUMENT).splitlines()
    new = text(edit, *_ADDED, *_WHOLE, most=MAX_ARGUMENT).splitlines()
    first = _equal(old, new)
    last = _equal(old[first:][::-1], new[first:][::-1])
    end = len(old) - last
    return [
        *(f"  {line}" for line in old[:first]),
        *(f"- {line}" for line in old[first:end]),
        *(f"+ {line}" for line in new[first : len(new) - last]),
        *(f"  {line}" for line in old[end:]),
    ]


def _equal(lines: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of lines that are equal at the beginning of both."""
    pairs = zip(lines, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

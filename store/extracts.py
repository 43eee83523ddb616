"""
Extracts: what is kept of a tool's output and of an edit, so that the turn is found by it later.

Of output a few telling lines: errors, addresses, settings, versions, counts. Of an edit the names
that it and the edited file define: a later task that speaks of one of them is about this file,
though it never says the file's name. Plain patterns, each bounded in what it looks at.
"""

import re
from itertools import islice
from pathlib import PurePath

MAX_LINES = 4
MAX_LINE = 200  # characters
MAX_LOOKED_AT = 400  # lines
MAX_NAMES = 60  # of one file, or of one edit
MAX_SOURCE = 512 * 1024  # bytes of a file

_NUMBERED = re.compile(r"^\s*\d+(?:\u2192|\t)")  # as an agent's Read tool shows a line
_TELLING = (
    (4, re.compile(r"\w(?:Error|Exception|Failure)\b|\b(?:panicked|FATAL|Caused by)\b|^error\b")),
    (3, re.compile(r"\b(?:error|failed|failure|fatal|denied|refused|not found)\b", re.IGNORECASE)),
    (
        3,
        re.compile(
            r"[a-z][a-z0-9+.-]{0,20}://\S|\b(?:\d{1,3}\.){3}\d{1,3}\b|[\w.-]{1,60}:\d{2,5}\b|\w@\w"
        ),
    ),
    (3, re.compile(r"^(?:export )?[A-Z][A-Z0-9_]+ ?[=:] ?\S|^(?:- ?)?[\w.-]+ ?[:=] ?\S")),
    (
        2,
        re.compile(
            r"\b\d[\d.,]{0,20} ?(?:[a-z%]|\w{1,30}ed\b)|\b(?:total|tests?|rows?|build)\b.{0,60}\d",
            re.I,
        ),
    ),
    (2, re.compile(r"\bv?\d+\.\d+(?:\.\d+)?\b|\b\d{2,}\b")),
    (
        1,
        re.compile(
            r"[\w.-]{1,60}/[\w./-]|\b\w{1,60}\.(?:py|ts|js|go|rs|java|rb|c|cpp|h|yml|yaml|json)\b"
        ),
    ),
)
# files that say where things are and how they are set, rather than do something
_SETTINGS = frozenset(
    """.env .example .yml .yaml .toml .ini .cfg .conf .properties .json .md .txt .rst .tf .tfvars
    .sh .xml .gradle .lock .service .csv .sql""".split()
)
_SETTINGS_NAMES = re.compile(
    r"(?:^\.env|readme|dockerfile|makefile|justfile|procfile|podfile)", re.I
)
_DEFINITION = re.compile(
    r"^[ \t]*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub"
    r"|override|virtual|inline|open|sealed|data|const|unsafe)(?:\([^)\n]{0,20}\))?[ \t]+){0,5}"
    r"(?:def|class|function|func|fn|fun|struct|interface|enum|trait|type|impl|module|object|protocol"
    r"|record|const|resource|variable|create[ \t]+table|defmodule|defp|macro_rules!)[ \t]+"
    r"(?:\([^)\n]{0,60}\)[ \t]*)?[\"'`]?([^\W\d][\w.]{1,63})",
    re.MULTILINE | re.IGNORECASE,
)


def telling_lines(output: str, most: int = MAX_LINES) -> str:
    """Return the lines of a tool's output that tell most, in their order, one a line.

    An output of so few lines is telling as it is; one in which nothing tells anything gives "".
    """
    found = (" ".join(_NUMBERED.sub("", line).split()) for line in output.splitlines())
    lines = [line[:MAX_LINE] for line in found if line]
    if len(lines) > MAX_LOOKED_AT:  # the beginning says what it is, the end what came of it
        lines = [*lines[: MAX_LOOKED_AT // 4], *lines[-MAX_LOOKED_AT * 3 // 4 :]]
    if len(lines) > most:
        worth = [_worth(line) for line in lines]
        # of equals the later: a run's outcome stands at its end
        best = sorted(range(len(lines)), key=lambda at: (-worth[at], -at))[:most]
        lines = [lines[at] for at in sorted(best) if worth[at]]
    return "\n".join(dict.fromkeys(lines))


def is_settings(path: str) -> bool:
    """Return whether a file tells where things are and how they are set, by its name."""
    name = PurePath(path.replace("\\", "/")).name
    return PurePath(name).suffix.lower() in _SETTINGS or bool(_SETTINGS_NAMES.search(name))


def defined_names(source: str, most: int = MAX_NAMES) -> tuple[str, ...]:
    """Return the first names that a file defines (functions, classes, tables), in their order."""
    names = dict.fromkeys(found[1] for found in _DEFINITION.finditer(source))
    return tuple(islice(names, most))


def _worth(line: str) -> int:
    return sum(weight for weight, pattern in _TELLING if pattern.search(line))

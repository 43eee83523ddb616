"""
What failed, by its command and output: the line that names the error, and the command's purpose.
"""

import re
import shlex
from pathlib import PurePosixPath

from store.importers.excerpt import one_line

# Whatever they are pointed at, a run that passes shows what an earlier failed one lacked.
CHECKERS = frozenset("pytest mypy ruff tsc jest vitest eslint tox nox rspec phpunit".split())
WRAPPERS = frozenset("uv poetry pipenv npx pnpx bunx run exec time env sudo timeout".split())
# What the line that names an error looks like, the surest first; the first is pytest's.
HEADLINES = (
    re.compile(r"^E\s+[\w.]+: \S"),
    re.compile(r"\w(?:Error|Exception|Failure)\w*: \S|\bpanicked at\b|^error(?:\[\w+\])?: "),
    re.compile(r"\b\w*(?:Error|Exception|Failure)\b"),
    re.compile(r"\b(?:error|failed|fatal|cannot|denied|not found|expected)\b", re.IGNORECASE),
)
_LEADING = re.compile(r"^(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:[A-Z_][A-Z0-9_]*=\S*\s+)*")
_REST = re.compile(r"(?<!\s)\s*(?:\||&&|;|\d?>)")
_WIDEST = 1_000  # characters of a line that are looked at


def headline(output: str) -> str:
    """Return the line of a failed command's output that names the error, the last that does."""
    lines = [line.strip()[:_WIDEST] for line in output.splitlines() if line.strip()]
    for pattern in HEADLINES:
        if found := [line for line in lines if pattern.search(line)]:
            return one_line(re.sub(r"^E\s+", "", found[-1]), 200)
    return one_line(lines[-1], 200) if lines else "It failed without a word"


def _bare(command: str) -> str:
    """Return the first command of a line, without `cd`, variables and pipes around it."""
    return _REST.split(_LEADING.sub("", command.strip()), maxsplit=1)[0]


def purpose(command: str) -> tuple[str, ...]:
    """Return a command's purpose: `pytest`, or ("make", "build"); flags and pipes do not count."""
    try:
        words = shlex.split(_bare(command))
    except ValueError:  # an open quote
        words = command.split()
    names = [word for word in words if not word.startswith("-") and word not in WRAPPERS]
    if len(names) > 1 and re.fullmatch(r"python[\d.]*", names[0]) and "-m" in words:
        names = names[1:]
    names = [PurePosixPath(names[0]).name, *names[1:]] if names else []
    return tuple(names[:1] if names and names[0] in CHECKERS else names[:2])

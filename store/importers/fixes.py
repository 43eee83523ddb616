"""
Fixes: a command that failed, what was changed, and the same command passing, found in one turn.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from store.importers.excerpt import excerpt, one_line
from store.importers.turn import Called, Said, edited

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


@dataclass(frozen=True, slots=True)
class Fix:
    """One error and its cure; `id` and `at` are those of the call that failed."""

    id: str
    at: int
    content: str
    context: str
    action: str
    result: str


def fixes(steps: Sequence[Said | Called]) -> Iterator[Fix]:
    """Yield the errors that went away after an edit, in the order in which they were met.

    Of one command that failed several times before it passed, only the first failure counts.
    """
    taken = 0
    for start, step in enumerate(steps):
        if start < taken or not isinstance(step, Called) or not step.error or not step.command:
            continue
        end = _passed(steps, start, purpose(step.command))
        if end is None or not (paths := edited(steps[start:end])):
            continue
        taken = end
        yield _fix(step, steps[start + 1 : end], paths)


def _passed(steps: Sequence[Said | Called], start: int, wanted: tuple[str, ...]) -> int | None:
    for end in range(start + 1, len(steps)):
        step = steps[end]
        if isinstance(step, Called) and step.command and step.passed:
            if purpose(step.command) == wanted:
                return end
    return None


def _fix(failed: Called, between: Sequence[Said | Called], paths: list[str]) -> Fix:
    command = one_line(_bare(failed.command or ""), 120)
    error = failed.error or ""
    words = " ".join(step.text for step in between if isinstance(step, Said))
    names = dict.fromkeys(PurePosixPath(path.replace("\\", "/")).name for path in paths)
    edits = f"Edited {', '.join(list(names)[:6])}."
    cure = one_line(words, 400) or edits
    return Fix(
        failed.id,
        failed.at,
        content=f"{headline(error)} (from `{command}`). Fix: {cure}",
        context=f"`{command}` failed:\n{excerpt(error[-600:], 600)}",
        action=f"{one_line(words, 600)} {edits}".strip(),
        result=f"`{command}` passed afterwards.",
    )


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

"""
Fixes and dead ends: a command that failed and passed after a change; a change that was reverted.

A note is made only with error, cause and fix; otherwise the turn itself is more useful. So the same
command, or a wider one, must pass in the same session. The error is the first one, before any edit
in its turn: a later failure is unfinished work, or a test written first, unless nothing was edited
until it passed: then a command fixed it. Cause and fix are the agent's own closing words. Nothing
is cut short: a part that does not fit whole is left out.

A command that fixed a failure twice becomes a lesson in our own words, unless the failure itself
named it: then a tool gave the order.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import PurePosixPath

from pipelines.jobs.distill.sessions import (
    Candidate,
    PastSession,
    candidate_key,
    join_names,
    without_numbers,
)
from store.log.event_kinds import Acted, Prompted, SessionTold
from store.log.events import Event
from store.text import frame, tokenizer
from store.text.excerpt import whole_sentences

_TRIED = ("test", "build", "lint", "deploy")
_QUIET = re.compile(r"-[qvsx]+|--(?:verbose|quiet|color|no-color|no-header)(?:=\S+)?|--tb=\w+")
_END = re.compile(r"(?<!\s)\s*+(?:2>&1\s*+)?(?:\|\s*(?:tail|head|cat|tee|less)\b[^|&;]*)?$")
_LOOKS = re.compile(
    r"^(?:ls|cat|head|tail|less|grep|rg|find|pwd|echo|wc|tree|which|env|date|whoami|sleep|cd"
    r"|git\s+(?:status|log|diff|show|branch|blame|add|commit))\b"
)
# runners of a project's own scripts; any other command may come from anywhere
_SCRIPTS = re.compile(
    r"(?:(?:make|just|task|rake|npm|pnpm|yarn|bun|uv|poetry|bundle|composer|cargo|go"
    r"|docker compose) |(?:(?:ba)?sh )?(?:\./|(?:bin|scripts?|tools)/))"
    r"[\w.:=/-]+(?: [\w.:=/-]+){0,3}"
)
# an installation of a named package: a tool's output may have named it first
_NAMED_PACKAGE = re.compile(
    r"(?:npm|pnpm|yarn|bun|uv(?: pip)?|poetry|bundle|composer|cargo|go) "
    r"(?:i|install|add|get|require|exec|x) (?:-\S+ )*[^-\s]"
)
_REVERT = re.compile(
    r"\bgit\s+(?:checkout\s+(?:HEAD\s+)?--|restore\b(?!\s+--staged)|reset\s+--hard|stash\b"
    r"(?!\s+(?:pop|apply|list|show|drop))|revert\b)(?P<what>[^|;&]*)"
)
# Compared without their targets: any passing run shows the fix of an earlier failed run.
CHECKERS = frozenset("pytest mypy ruff tsc jest vitest eslint tox nox rspec phpunit".split())
WRAPPERS = frozenset("uv poetry pipenv npx pnpx bunx run exec time env sudo timeout".split())
# Forms of the line that names an error, the surest first; the first is pytest's.
HEADLINES = (
    re.compile(r"^E\s+[\w.]+: \S"),
    re.compile(r"\w(?:Error|Exception|Failure)\w*: \S|\bpanicked at\b|^error(?:\[\w+\])?: "),
    re.compile(r"\b\w*(?:Error|Exception|Failure)\b"),
    re.compile(r"\b(?:error|failed|fatal|cannot|denied|not found|expected)\b", re.IGNORECASE),
)
# other output of tools and hosts: where to look, the number of failures, their own problems
_BESIDE = re.compile(
    r"^Error Context: |\bTests? failed\b|command not found: dump_zsh_state|^npx \S+ show-"
    # a terminal's cursor may have moved before it
    r"|^(?:\x1b?\[\d*[A-K])*\s*(?:Tests?(?: Files| Suites)?:?\s+)?\d+ (?:failed|passed)"
)
_FEW_LINES = 3  # among so few, a line without an error's name may still be the error
_LEADING = re.compile(r"^(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:[A-Z_][A-Z0-9_]*=\S*\s+)*")
_REST = re.compile(r"(?<!\s)\s*(?:\||&&|;|\d?>)")
WIDEST = 1_000  # characters of a line that are read
_COMMAND, _ERROR, _ASKED = 160, 300, 160  # characters of each in a note
_NOTE = 560  # of a note, which a block shows whole with its sessions
_SAYS = " The agent said: "
_EMPTY = frozenset(
    tokenizer.terms("test tests fail failed fails error errors pass passed fix fixed")
)

Deeds = Sequence[tuple[Event, Acted]]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A command that failed and then passed, and the reason it gives no lesson."""

    command: str
    why: str


def find_fixes(past: PastSession) -> Iterator[Candidate | Dropped]:
    """Yield the commands that failed and then passed, in order, with or without a lesson."""
    deeds = past.actions
    for end, (event, passed) in enumerate(deeds):
        if not (_is_try(passed) and passed.passed):
            continue
        start = _first_failure(deeds, end)
        if start is None:
            continue
        failed_event, failed = deeds[start]
        between = deeds[start + 1 : end]
        is_edited = any(_is_edit(deed) for _, deed in between)  # else a command alone fixed it
        prompt = past.prompt_before(failed_event)
        turn_began = prompt[0].seq if prompt else 0
        if is_edited and any(
            _is_edit(deed) and turn_began < other.seq < failed_event.seq for other, deed in deeds
        ):
            yield Dropped(_one_line(failed), "files had been edited before it failed")
        else:
            yield _fix_candidate(past, deeds[start], between, (event, passed))


def count_failures(past: PastSession) -> int:
    """Return the number of failed tests, builds, lints and deploys."""
    return sum(_is_try(deed) and deed.passed is False for _, deed in past.actions)


def _is_try(deed: Acted) -> bool:
    return deed.doing == "run" and bool(deed.command) and deed.effort in _TRIED


def _first_failure(deeds: Deeds, end: int) -> int | None:
    """Return the place of the first failure of the command at `end` since its last pass."""
    first: int | None = None
    for place in range(end - 1, -1, -1):
        deed = deeds[place][1]
        if not _is_try(deed):
            continue
        if deed.passed and first is not None and _proves_fix(deed, deeds[first][1]):
            break
        if deed.passed and _proves_fix(deed, deeds[end][1]):
            break
        if deed.passed is False and deed.error and _proves_fix(deeds[end][1], deed):
            first = place
    return first


def _proves_fix(passed: Acted, failed: Acted) -> bool:
    """Return True if a passing command proves a fix: the failed command or a wider one."""
    if passed.effort != failed.effort:
        return False
    wide, narrow = _words(passed.command), _words(failed.command)
    rest = narrow[len(wide) :]
    return narrow[: len(wide)] == wide and not any(word.startswith("-") for word in rest)


@lru_cache(maxsize=4_096)  # a session runs the same few commands over and over
def _words(command: str | None) -> tuple[str, ...]:
    line = _END.sub("", (command or "").strip())
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    return tuple(word for word in words if not _QUIET.fullmatch(word))


def _fix_candidate(
    past: PastSession, failed: tuple[Event, Acted], between: Deeds, passed: tuple[Event, Acted]
) -> Candidate | Dropped:
    reverts = [at for at, (_, deed) in enumerate(between) if _REVERT.search(deed.command or "")]
    since_revert = between[reverts[-1] + 1 :] if reverts else between
    edits = [pair for pair in since_revert if _is_edit(pair[1])]
    ran = [pair for pair in between if _may_fix(pair[1])]
    files = list(dict.fromkeys(path for _, deed in edits for path in deed.files))
    commands = list(dict.fromkeys(_one_line(deed) for _, deed in ran))
    error, command = _headline(failed[1]), _one_line(failed[1])
    is_fix = len(commands) == 1 and commands[0] and _prepares(ran[0][1])
    if edits and not files:  # some exports leave them out
        return Dropped(command, "nobody can say which files were edited")
    if not command or not (files or is_fix):
        return Dropped(command, "nothing was changed, or nobody can say which change it was")
    # changed files count as the fix, before commands
    changes = f"{join_names(files)} changed" if files else f"`{commands[0]}` was run"
    happened = f"`{command}` failed{f' with: {error}' if error else ''}. It passed once {changes}."
    words = _final_words(past, passed[0], f"{error} {' '.join(files)}", _NOTE - len(happened))
    if files and not (error and words):
        return Dropped(command, "the agent's last words do not say what failed and why")
    sources = [failed, *(edits if files else ran), passed]
    memories = [memory for memory in past.memories if error and error in memory.content]
    rule = None
    if not files and _is_own_script(past, commands[0]):
        rule = f"Run `{commands[0]}` before `{command}`: it failed until that was run"
    prompt = past.prompt_before(failed[0])
    return Candidate(
        key=candidate_key("cure", failed[0].project, without_numbers(error))
        if files
        else candidate_key(
            "script", failed[0].project, *_words(failed[1].command), "", commands[0]
        ),
        kind="bugfix",
        content=f"{happened}{_SAYS}{words}" if words else happened,
        trust="tool",  # it quotes a tool's output
        session=past.id,
        at=failed[0].at,
        memories=tuple(memory.id for memory in memories),
        events=_event_ids(sources, prompt),
        files=tuple(files),
        project=failed[0].project,
        context=f"Asked: {request}" if (request := _request(prompt)) else None,
        rule=rule,
        is_told=any(memory.kind == "bugfix" for memory in memories),
    )


def _is_edit(deed: Acted) -> bool:
    return deed.doing == "edit" and deed.passed is not False


def _final_words(past: PastSession, passed: Event, about: str, longest: int) -> str:
    """Return the agent's last sentences in the turn of a passing command; "" where they share no
    word with `about`.
    """
    after = [event for event in past.events if event.seq > passed.seq]
    turn = takewhile(lambda event: not isinstance(event.body, Prompted), after)
    texts = [
        event.body.said for event in turn if isinstance(event.body, SessionTold) and event.body.said
    ]
    words = whole_sentences(frame.strip(texts[-1]), longest - len(_SAYS)) if texts else ""
    names = frozenset(tokenizer.terms(about)) - _EMPTY
    return words if names.intersection(tokenizer.terms(words)) else ""


def _request(prompt: tuple[Event, Prompted] | None) -> str:
    return whole_sentences(frame.strip(prompt[1].prompt), _ASKED) if prompt else ""


def _may_fix(deed: Acted) -> bool:
    """Return True if a command may have changed something."""
    is_run = deed.doing == "run" and bool(deed.command) and deed.passed is not False
    is_try = deed.effort in ("test", "lint", "deploy", "commit")
    return is_run and not is_try and not _LOOKS.match((deed.command or "").strip())


def _prepares(deed: Acted) -> bool:
    """Return True if a command installs or is a project's own script: any other command may be
    between a failure and its fix by chance.
    """
    return deed.effort == "install" or _SCRIPTS.fullmatch(_one_line(deed)) is not None


def _is_own_script(past: PastSession, command: str) -> bool:
    """Return True if a command is a project's script that no tool's error suggested."""
    if _NAMED_PACKAGE.match(command):
        return False
    errors = " ".join(deed.error or "" for _, deed in past.actions).casefold()
    words = command.casefold().split()
    targets = words[1:] or words
    return _SCRIPTS.fullmatch(command) is not None and not any(word in errors for word in targets)


def find_abandoned(past: PastSession) -> Iterator[Candidate]:
    """Yield changes that failed and were reverted before they ever passed."""
    deeds = past.actions
    for place, (event, deed) in enumerate(deeds):
        revert = _REVERT.search(deed.command or "") if deed.doing == "run" else None
        if revert is None or deed.passed is False:
            continue
        edits, failed = _edits_and_failure(deeds[:place])
        files = list(dict.fromkeys(path for _, act in edits for path in act.files))
        reverted = [path for path in files if _covers_file(revert["what"], path)]
        if failed is None or not reverted:
            continue
        prompt = past.prompt_before(edits[0][0])
        request, error = _request(prompt), _headline(failed[1])
        command, undone_by = _one_line(failed[1]), _one_line(deed)
        if not (error and command and undone_by):
            continue
        yield Candidate(
            key=candidate_key("abandoned", event.project, *reverted, without_numbers(error)),
            kind="antipattern",
            content=f"Tried and given up: {request or 'a change'} ({join_names(reverted)} changed)."
            f" `{command}` failed with: {error}. It was taken back with `{undone_by}`.",
            trust="tool",
            session=past.id,
            at=event.at,
            events=_event_ids([*edits, failed, (event, deed)], prompt),
            files=tuple(reverted),
            project=event.project,
        )


def _edits_and_failure(before: Deeds) -> tuple[Deeds, tuple[Event, Acted] | None]:
    """Return the edits since the last pass or revert, and their last failure."""
    start = 0
    for place, (_, deed) in enumerate(before):
        if (_is_try(deed) and deed.passed) or _REVERT.search(deed.command or ""):
            start = place + 1
    edits = [(event, deed) for event, deed in before[start:] if _is_edit(deed)]
    failures = [
        (event, deed)
        for event, deed in before[start:]
        if edits and event.seq > edits[0][0].seq and _is_try(deed) and deed.error
    ]
    return edits, failures[-1] if failures else None


def _covers_file(arguments: str, path: str) -> bool:
    """Return True if the git arguments revert this file, or everything."""
    words = [word for word in arguments.split() if not word.startswith("-")]
    return not words or any(
        word in (".", "HEAD", "push") or f"{path}/".startswith(f"{word.rstrip('/')}/")
        for word in words
    )


def _event_ids(deeds: Deeds, prompt: tuple[Event, Prompted] | None) -> tuple[str, ...]:
    return (*((prompt[0].id,) if prompt else ()), *(event.id for event, _ in deeds))


def _headline(deed: Acted) -> str:
    """Return the line that names a failure's error; "" without one, or if it is too long."""
    line = headline(frame.strip(deed.error or ""))
    return line.rstrip(".") if len(line) <= _ERROR else ""


def _one_line(deed: Acted) -> str:
    """Return a command on one line; its purpose or "" if it is too long."""
    line = " ".join((deed.command or deed.tool).replace("`", "'").split())
    return line if len(line) <= _COMMAND else " ".join(purpose(deed.command or ""))[:_COMMAND]


def headline(output: str) -> str:
    """Return the last line of a failed command's output that names the error; "" where the output
    only counts failures.
    """
    lines = [line.strip()[:WIDEST] for line in output.splitlines()]
    lines = [
        line
        for line in lines
        if any(word not in _EMPTY and not word.isdigit() for word in tokenizer.terms(line))
        and not _BESIDE.search(line)
    ]
    matching = ([line for line in lines if pattern.search(line)] for pattern in HEADLINES)
    surest = next(filter(None, matching), lines if len(lines) <= _FEW_LINES else [])
    return " ".join(re.sub(r"^E\s+", "", surest[-1]).split()) if surest else ""


def purpose(command: str) -> tuple[str, ...]:
    """Return a command's purpose: `pytest`, or ("make", "build"); flags and pipes do not count."""
    # the first command of the line, without `cd`, variables and pipes around it
    bare = _REST.split(_LEADING.sub("", command.strip()), maxsplit=1)[0]
    try:
        words = shlex.split(bare)
    except ValueError:  # an open quote
        words = command.split()
    names = [word for word in words if not word.startswith("-") and word not in WRAPPERS]
    if len(names) > 1 and re.fullmatch(r"python[\d.]*", names[0]) and "-m" in words:
        names = names[1:]
    names = [PurePosixPath(names[0]).name, *names[1:]] if names else []
    return tuple(names[:1] if names and names[0] in CHECKERS else names[:2])

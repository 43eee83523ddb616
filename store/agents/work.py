"""Work: an agent's work, from its hooks' events. Counted, never judged by a model."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

import msgspec

from store.log.event_kinds import Acted, Effort, Prompted, Recorded, SessionTold
from store.log.events import Event


@dataclass(slots=True)
class Runs:
    """The outcomes of one effort's commands, and the last command."""

    last: Acted
    passed: int = 0
    failed: int = 0


class Work(msgspec.Struct, frozen=True):
    """The prompts, oldest first, the edited files, most often first, and the commands."""

    sessions: int
    asked: tuple[str, ...]
    is_answered: bool  # the agent came to the end of its last turn
    recorded: tuple[str, ...]  # the ids of memories
    edited: tuple[tuple[str, int], ...]
    runs: dict[Effort, Runs] = {}

    @property
    def failures(self) -> list[tuple[Effort, Acted]]:
        """The efforts with a failed last command, and that command."""
        return [(name, runs.last) for name, runs in self.runs.items() if runs.last.passed is False]


def work(events: Sequence[Event], cwd: str | None = None) -> Work:
    """Return the work in some events, in the order of the log; paths under `cwd` are relative."""
    prompts = [event.body for event in events if isinstance(event.body, Prompted)]
    acts = [event.body for event in events if isinstance(event.body, Acted)]
    edits = [act for act in acts if act.doing == "edit" and act.passed is not False]
    edited = Counter(_relative(path, cwd) for act in edits for path in act.files)
    return Work(
        sessions=len({event.session for event in events if event.session is not None}),
        asked=tuple(
            prompt.prompt for prompt in prompts if prompt.intent not in ("small_talk", "command")
        ),
        is_answered=_is_answered(events),
        recorded=tuple(event.id for event in events if isinstance(event.body, Recorded)),
        edited=tuple(sorted(edited.items(), key=lambda pair: (-pair[1], pair[0]))),
        runs=_runs(acts),
    )


def _runs(acts: Iterable[Acted]) -> dict[Effort, Runs]:
    runs: dict[Effort, Runs] = {}
    for act in acts:
        if act.effort is None or act.passed is None:
            continue
        of_effort = runs.setdefault(act.effort, Runs(act))
        of_effort.last = act
        of_effort.passed += act.passed
        of_effort.failed += not act.passed
    return runs


def _is_answered(events: Sequence[Event]) -> bool:
    for event in reversed(events):
        if isinstance(event.body, Prompted):
            return False
        if isinstance(event.body, SessionTold) and event.body.stage in ("stopped", "ended"):
            return True
    return True


def _relative(path: str, cwd: str | None) -> str:
    flavour = PureWindowsPath if "\\" in (cwd or path) else PurePosixPath
    pure = flavour(path)
    return pure.relative_to(cwd).as_posix() if cwd and pure.is_relative_to(cwd) else path

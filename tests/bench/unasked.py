"""
Unasked: what real lives are told without asking, at their prompts and before their tools.

    python tests/bench/unasked.py lives/* [--show] [--changes]   # folders of lives.py --take

Each life is lived through the hooks, session by session, and built every few sessions. Then each of
the rules of tests/data/deeds is stated in it and its deed is begun in another session: how many of
these rules are told, though they stand among the statements of a real life.

Of the commands that a brief tells for tests, builds, checks and deployments, those are right that
the session then ran; those for purposes it did not have are left out.

Of the turns told to the life's own prompts, `tests/data/lives/told.tsv` has the grades that readers
gave to some, by the digests of prompt and turn: useful to somebody who has to do what the prompt
asks, about the same subject but of no use, beside the point, or misleading. A grade is of the note
that readers saw; today's note on the same turn may differ. `--show` prints what is told. With
`--changes`, each sentence that counts as replaced or ended is printed, and the later one by which.
"""

import argparse
import csv
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]

from hook_session import Session, notes, opened  # noqa: E402
from lives import DATA, digest, read_labels  # noqa: E402
from ordinary import DEEDS  # noqa: E402

from serve.recall.context_block import short_id  # noqa: E402
from store.agents import efforts  # noqa: E402
from store.agents.tool_calls import ToolUse  # noqa: E402
from store.derived.claim_links import NAMES  # noqa: E402
from store.derived.state import STATE_PROJECTION  # noqa: E402
from store.embedders.lexical import LexicalEmbedder  # noqa: E402
from store.importers import specstory  # noqa: E402
from store.importers.transcript_turn import Turn  # noqa: E402
from store.log import commands  # noqa: E402
from store.log.event_kinds import Prompted  # noqa: E402
from store.maintenance.build import rebuild  # noqa: E402
from store.snapshots import manifest as manifests  # noqa: E402
from store.snapshots import snapshot  # noqa: E402
from store.text import frame  # noqa: E402

BETWEEN = 4  # sessions between two builds
MOST_TURNS = 15  # of a session
MOST_STEPS = 60  # of a turn
MOST_PROMPT = 6_000  # characters that a grade names a prompt by
_AND = re.compile(r"\s*(?:2>&1)?\s*(?:&&|;|\||$)\s*")


@dataclass
class Told:
    """What was told in a life, by counts."""

    sessions: int = 0
    prompts: int = 0
    spoken_to: int = 0
    bytes: int = 0  # of the blocks
    deeds: int = 0  # commands and edits
    warned: int = 0  # of them, with notes before the tool
    rules: int = 0
    rules_told: int = 0
    commands: int = 0  # told at a session's start, for a purpose that it had
    commands_run: int = 0
    grades: Counter[str] = field(default_factory=Counter)  # of the turns told; "" if not graded

    def line(self, name: str) -> str:
        useful = f"{self.grades['useful']} of {self.grades.total() - self.grades['']}"
        return (
            f"{name:32} {self.sessions:8} {self.prompts:7} {self.spoken_to / self.prompts:6.2f} "
            f"{self.bytes // self.prompts:6} {self.deeds:6} {self.warned:5} "
            f"{f'{self.rules_told} of {self.rules}':>9} "
            f"{f'{self.commands_run} of {self.commands}':>10} "
            f"{useful:>10} {self.grades['misleading']:10} {self.grades['']:8}"
        )


def live(
    folder: Path, grades: Mapping[str, str], *, show: bool = False, show_changes: bool = False
) -> Told:
    """Live a life through the hooks of an empty memory; `grades` are by the digests of a prompt and
    a turn told to it.
    """
    told = Told()
    with tempfile.TemporaryDirectory() as home, contextmanager(opened)(Path(home)) as life:
        for number, transcript in enumerate(specstory.find(folder, print)):
            turns = [turn for turn in specstory.turns(transcript, print) if not turn.is_unattended]
            if not turns:
                continue
            told.sessions += 1
            life.name = f"{number}"
            life.at = max(life.at, turns[0].request.at)
            brief = life.start()
            for turn in turns[:MOST_TURNS]:
                live_turn(life, turn, told, grades, show=show)
            count_commands(brief, turns[:MOST_TURNS], told)
            life.tell("session_end")
            if told.sessions % BETWEEN == 0:
                build(life)
        if show_changes:
            print(*changes(life), sep="\n")
        for number, (stated, deed) in enumerate(rules()):
            id_ = life.remember(stated, kind="statement", trust="user")
            life.name = f"rule {number}"
            told.rules += 1
            told.rules_told += short_id(id_) in {note["id"] for note in notes(begin(life, deed))}
            commands.forget(life.log, id_, life.at)
    return told


def live_turn(
    life: Session, turn: Turn, told: Told, grades: Mapping[str, str], *, show: bool
) -> None:
    prompt = frame.strip(turn.request.text)
    block = life.ask(prompt)
    for earlier in turns_in(life, block):
        told.grades[grades.get(f"{digest(prompt[:MOST_PROMPT])}:{digest(earlier)}", "")] += 1
    told.prompts += 1
    told.spoken_to += bool(block)
    told.bytes += len(block.encode())
    if show and block:
        print(f"{life.name}: {prompt[:300]!r}\n{block}")
    for step in turn.steps[:MOST_STEPS]:
        if step.tool.doing in ("run", "edit"):
            advice = begin(life, step.tool)
            told.deeds += 1
            told.warned += bool(advice)
            if show and advice:
                print(f"{life.name}: {step.tool.command or step.tool.files}\n{advice}")
        life.tell("after_tool", tool=step.tool)
    life.stop(turn.closing.text if turn.closing else "")


def count_commands(brief: str, turns: Sequence[Turn], told: Told) -> None:
    ran: dict[str | None, set[str]] = {}
    for step in (step for turn in turns for step in turn.steps):
        for command in _AND.split(step.tool.command or ""):
            if step.tool.passed is not False:
                ran.setdefault(efforts.effort(command), set()).add(command)
    for note in notes(brief):
        for effort in ran.keys() & note.keys() & {"test", "build", "lint", "deploy"}:
            told.commands += 1
            told.commands_run += note[effort] in ran[effort]


def turns_in(life: Session, block: str) -> Iterator[str]:
    """Yield the prompts of the turns that a block tells of."""
    for note in notes(block):
        for id_ in life.log.ids_with_prefix(note["id"], 2) if "id" in note else ():
            event = life.log.events_for(id_)[0]
            if isinstance(event.body, Prompted):
                yield event.body.prompt


def begin(life: Session, tool: ToolUse) -> str:
    """Return what is told before the tool runs."""
    return life.tell("before_tool", tool=tool)


def changes(life: Session) -> Iterator[str]:
    """Yield each claim that counts as replaced or ended at the end of a life, and its successor."""
    build(life)
    tenant = life.tenants.get("default").tenant
    ref = manifests.current(tenant).projections[STATE_PROJECTION.name]
    tables = snapshot.read(tenant.snapshots, ref, STATE_PROJECTION)
    texts = tables["claims"].column("text").to_pylist()
    for link in tables["links"].to_pylist():
        relation = NAMES[link["relation"]]
        if relation in ("replaces", "ends") and not link["is_void"]:
            older, newer = (texts[link[name]] for name in ("older", "newer"))
            yield f"{relation} {link['probability']:.2f}\n  {older!r}\n  {newer!r}"


def build(life: Session) -> None:
    served = life.tenants.get("default")
    rebuild(served.tenant, served.log, LexicalEmbedder(), life.at)
    served.reader.poll()


def rules() -> Iterator[tuple[str, ToolUse]]:
    """Yield each rule with its deed, a command line or a file."""
    with DEEDS.open(encoding="utf-8", newline="") as file:
        for _, rule, _, _, deed in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            is_command = " " in deed
            yield (
                rule,
                ToolUse("Bash", "run", command=deed)
                if is_command
                else ToolUse("Edit", "edit", files=(deed,)),
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print what is told")
    parser.add_argument("--changes", action="store_true", help="print what counts as replaced")
    args = parser.parse_args()
    print(
        f"{'life':32} sessions prompts spoken  bytes  deeds  told     rules   commands     useful "
        "misleading ungraded"
    )
    grades = read_labels(DATA / "told.tsv")
    for folder in args.folders:
        if (folder / specstory.FOLDER).is_dir():
            known = grades.get(folder.name, {})
            told = live(folder, known, show=args.show, show_changes=args.changes)
            print(
                told.line(folder.name) if told.prompts else f"{folder.name}: no prompt", flush=True
            )


if __name__ == "__main__":
    main()

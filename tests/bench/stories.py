"""
Stories: does a memory that is fed by hooks alone serve the next session?

    python tests/bench/stories.py [--only NAME] [--crowd] [--days 60] [--embedder NAME] [--show]
    python tests/bench/stories.py --ablation

Twelve made-up projects (tests/data/stories) are replayed as hook events of Claude Code, three
sessions each; the agent never calls a tool of the memory, and the nightly jobs and a build run
between sessions. Then each probe is the first prompt of a session of its own, judged by the text
put before the model: the brief, and the block of the prompt. With `--crowd` the project has the
sessions of all the other stories before its own; with `--days N` it has N ordinary ones between and
after its own, in some of which the user lays down eight rules, with a probe for each rule's deed.

served: the text has all words of one of the probe's alternatives. noise: a prompt of small talk, or
about nothing of the project, got a block. spoke: a prompt about work unknown to the memory got a
block. beside: notes in blocks without any needed word. An ablation prints the same figures with one
part of the product taken away at a time.
"""

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import ordinary

from serve.hooks import speaking
from serve.hooks.answer import Hooks
from serve.hosts import HOSTS
from serve.lessons.deeds import Bearing
from serve.reader.view import View
from serve.recall.recall import Hit
from serve.server.open_tenants import OpenTenants
from store.agents.prompt_classifier import Reading
from store.embedders.embedder import make_embedder
from store.home import tenant
from store.home.config import Choices, Settings
from store.home.instants import micros
from store.importers import transcript_hosts as transcribed
from store.importers.transcript_events import Sessions
from store.log import commands
from store.log.event_kinds import Prompted
from store.log.event_log import EventLog
from store.maintenance import build
from store.text.frame import CLOSING, OPENING

STORIES = Path(__file__).parents[1] / "data" / "stories"
JOBS = ("facts", "distill")
SILENT = "silent"
BETWEEN_NIGHTS = 20  # ordinary sessions
TURN = timedelta(minutes=7)
PARTS = {
    "episodes": "what was done is no memory",
    "statements": "what the user said is no memory",
    "bar": "the best two hits are said at every prompt",
}

# the arguments of `speaking.features`
Asked = tuple[View, str, Reading, Sequence[Hit], Mapping[str, Bearing]]


@dataclass(frozen=True)
class Served:
    """A probe, and the brief and block it was given."""

    id: str
    kind: str
    prompt: str
    needs: Sequence[Sequence[str]]
    brief: str
    block: str
    asked: tuple[Asked, ...] = ()

    @property
    def is_served(self) -> bool:
        return bool(self.needs) and holds(f"{self.brief}\n{self.block}", self.needs)

    @property
    def notes(self) -> list[str]:
        return [line for line in self.block.splitlines() if line.startswith("{")]

    @property
    def beside(self) -> int:
        return sum(not touches(note, self.needs) for note in self.notes)


def holds(text: str, needs: Sequence[Sequence[str]]) -> bool:
    low = text.lower()
    return any(all(word.lower() in low for word in alternative) for alternative in needs)


def touches(text: str, needs: Sequence[Sequence[str]]) -> bool:
    low = text.lower()
    return any(word.lower() in low for alternative in needs for word in alternative)


def plain(block: str) -> str:
    """Return a block as a model reads it, with JSON's escapes decoded."""
    lines = []
    for line in block.splitlines():
        if line.startswith("{"):
            read = msgspec.json.decode(line)
            line = json.dumps(read, ensure_ascii=False).replace('\\"', '"').replace("\\n", "\n")
        lines.append(line)
    return "\n".join(line for line in lines if line not in (OPENING, CLOSING))


@dataclass
class World:
    """A developer's machine: a home, a repository, and an agent whose hooks report its actions."""

    settings: Settings
    folder: Path
    jobs: Sequence[str]
    without: str = ""  # one of PARTS
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    asked: list[Asked] = field(default_factory=list)

    @contextmanager
    def awake(self) -> Iterator[Hooks]:
        tenants = OpenTenants(self.settings)
        hooks = Hooks(tenants, lambda: micros(self.at), deadline_s=60.0)
        try:
            yield hooks
        finally:
            hooks.close()
            tenants.close()

    def tell(self, hooks: Hooks, session: str, name: str, **more: Any) -> str:
        """Send an event to the hooks; return the text put before the model."""
        payload = {"session_id": session, "cwd": str(self.folder), "hook_event_name": name, **more}
        reply = hooks.answer(HOSTS["claude-code"], payload) or {}
        return str(reply.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def live(self, hooks: Hooks, name: str, turns: Sequence[dict[str, Any]]) -> None:
        self.tell(hooks, name, "SessionStart", source="startup")
        for number, turn in enumerate(turns):
            self.at += TURN
            payload = {"prompt_id": f"{name}-{number}"}
            self.tell(hooks, name, "UserPromptSubmit", prompt=turn["prompt"], **payload)
            for place, step in enumerate(turn.get("steps", ())):
                use = {
                    "tool_name": step["tool"],
                    "tool_input": step["input"],
                    "tool_use_id": f"{number}-{place}",
                }
                wrote = step.get("output", "")
                self.tell(hooks, name, "PreToolUse", **use)
                if step.get("ok", True):
                    output = {"stdout": wrote} if step["tool"] == "Bash" else {"content": wrote}
                    self.tell(hooks, name, "PostToolUse", tool_response=output, **use)
                else:
                    self.tell(hooks, name, "PostToolUseFailure", error=wrote, **use)
            final = turn.get("final", "")
            self.tell(
                hooks, name, "Stop", stop_hook_active=False, last_assistant_message=final, **payload
            )
        self.tell(hooks, name, "SessionEnd", reason="other")

    def night(self) -> None:
        from pipelines.jobs import find_job, runner

        for name in JOBS:
            if name in self.jobs:
                now = micros(self.at)
                runner.run(find_job(name), self.settings, "default", now, apply=True)
        with EventLog(tenant.tenant(self.settings.home).log) as log:
            if self.without == "episodes":
                for event in list(log.read()):
                    if isinstance(event.body, Prompted):
                        commands.forget(log, event.id, micros(self.at))
            model = make_embedder(self.settings.choices.embedder, self.settings.home)
            build.rebuild(tenant.tenant(self.settings.home), log, model, micros(self.at))

    def probe(self, hooks: Hooks, probe: dict[str, Any]) -> Served:
        self.asked.clear()
        brief = self.tell(hooks, probe["id"], "SessionStart", source="startup")
        block = self.tell(
            hooks, probe["id"], "UserPromptSubmit", prompt=probe["prompt"], prompt_id=probe["id"]
        )
        return Served(
            probe["id"],
            probe["kind"],
            probe["prompt"],
            probe["needs"] or (),
            plain(brief),
            plain(block),
            tuple(self.asked),
        )


@contextmanager
def listening(on_question: Callable[[Asked], object], *, without: str = "") -> Iterator[None]:
    """Pass on the arguments of the hook's call to `speaking` for each prompt."""
    usual = speaking.score_hits

    def weighed(
        view: View,
        prompt: str,
        reading: Reading,
        hits: Sequence[Hit],
        bearing: Mapping[str, Bearing],
        *,
        is_passive: bool = False,
    ) -> tuple[speaking.Weighed, ...]:
        on_question((view, prompt, reading, hits, bearing))
        hits_ = usual(view, prompt, reading, hits, bearing, is_passive=is_passive)
        if without == "bar":
            return tuple(
                msgspec.structs.replace(memory, chance=1.0, bar=0.5)
                for memory in hits_[: speaking.MOST]
            )
        return hits_

    speaking.score_hits = weighed
    try:
        yield
    finally:
        speaking.score_hits = usual


def told(
    story: dict[str, Any],
    embedder_name: str = "lexical",
    jobs: Sequence[str] = JOBS,
    background: Path | None = None,
    crowd: Sequence[dict[str, Any]] = (),
    without: str = "",
    nights: int = 1,
) -> Iterator[Served]:
    """Replay a story; yield the brief and block of each of its probes.

    Before, the project has the sessions in `background`, a folder of transcripts, and those of the
    `crowd`. `without` is the part taken away, one of PARTS. The nightly jobs and a build run after
    every `nights` sessions, and after the last.
    """
    with tempfile.TemporaryDirectory(prefix="mnemolog-story-") as name:
        home, folder = Path(name) / "home", Path(name) / story["name"]
        (folder / ".git").mkdir(parents=True)
        remote = f'[remote "origin"]\n url = https://example.test/{story["name"]}.git\n'
        (folder / ".git" / "config").write_text(remote)
        choices = Choices(embedder=embedder_name, remember_words=without != "statements")
        world = World(Settings(home, choices), folder, jobs, without)
        with EventLog(tenant.tenant(home).log, create=True) as log:
            if background is not None:
                import_transcripts(
                    log, background, f"example.test/{story['name']}", Path(name), world.at
                )
        if others := [other for other in crowd if other["name"] != story["name"]]:
            world.at = datetime(2025, 6, 1, tzinfo=UTC)
            with world.awake() as hooks:
                for other in others:
                    for number, session in enumerate(other["sessions"]):
                        world.live(hooks, f"{other['name']}-{number}", session["turns"])
        for number, session in enumerate(story["sessions"]):
            world.at = datetime.fromisoformat(f"{session['date']}T09:00:00+00:00")
            with world.awake() as hooks:
                world.live(hooks, f"{story['name']}-{number}", session["turns"])
            if (number + 1) % nights == 0 or number + 1 == len(story["sessions"]):
                world.night()
        world.at += timedelta(days=1)
        with world.awake() as hooks, listening(world.asked.append, without=without):
            for probe in story["probes"]:
                yield world.probe(hooks, probe)


def import_transcripts(
    log: EventLog, folder: Path, project: str, scratch: Path, at: datetime
) -> None:
    """Import a folder's packed transcripts into a project; `scratch` takes the unpacked ones."""
    for packed in sorted(folder.glob("*.jsonl.gz")):
        path = scratch / packed.name.removesuffix(".gz")
        path.write_bytes(gzip.decompress(packed.read_bytes()))
    host = transcribed.TRANSCRIPT_HOSTS["claude-code"]
    sessions = Sessions(log, host.agent, project, micros(at))
    transcripts = transcribed.find_transcripts(host, scratch, print)
    commands.import_drafts(log, sessions.events(transcripts, host.turns, print), micros(at))


def stories(only: str = "", folder: Path = STORIES) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        if re.search(only, path.stem):
            yield json.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Figures:
    """The figures of all probes together; the medians are of the non-empty texts, in bytes."""

    served: tuple[int, int]  # of the probes that need something
    noise: tuple[int, int]  # of those that should get no block
    idle: tuple[int, int]  # of those about work unknown to the memory
    beside: tuple[int, int]  # of the notes
    brief: float
    block: float


def figures(sessions: Sequence[Served]) -> Figures:
    silent = [session for session in sessions if session.kind == SILENT]
    idle = [session for session in sessions if not session.needs and session.kind != SILENT]
    needed = [session for session in sessions if session.needs]
    brief, block = (
        median([len(text.encode()) for text in texts if text] or [0])
        for texts in ([probe.brief for probe in sessions], [probe.block for probe in sessions])
    )
    return Figures(
        (sum(session.is_served for session in needed), len(needed)),
        (sum(bool(session.block) for session in silent), len(silent)),
        (sum(bool(session.block) for session in idle), len(idle)),
        (sum(probe.beside for probe in sessions), sum(len(probe.notes) for probe in sessions)),
        brief,
        block,
    )


def report(sessions: Sequence[Served]) -> None:
    kinds = defaultdict(list)
    for session in sessions:
        kinds[session.kind].append(session)
    print(f"{'kind':10} {'probes':>6} {'served':>7} {'spoke':>6}")
    for kind, some in sorted(kinds.items()):
        spoke = sum(bool(session.block) for session in some) / len(some)
        served = sum(session.is_served for session in some) / len(some)
        print(f"{kind:10} {len(some):6} {served:7.2f} {spoke:6.2f}")
    all_ = figures(sessions)
    print(
        f"served {_share(all_.served)}; noise {_share(all_.noise)}; "
        f"spoke where nothing is known {_share(all_.idle)}; beside {_share(all_.beside)}; "
        f"brief p50 {all_.brief:.0f}, block p50 {all_.block:.0f} bytes"
    )


def _share(of: tuple[int, int]) -> str:
    return f"{of[0]}/{of[1]} = {of[0] / max(1, of[1]):.3f}"


def ablation(lived: Callable[..., list[Served]]) -> None:
    """Print a table of the figures without each part, one row a part."""
    print("| without | served | noise | beside | brief, block, bytes |\n|---|---|---|---|---|")
    whole = lived()
    _row("nothing is taken away", whole)
    _row("nothing is said at a session's start", [replace(session, brief="") for session in whole])
    _row("nothing is said at a prompt", [replace(session, block="") for session in whole])
    for part, name in PARTS.items():
        _row(name, lived(without=part))
    _row("no job runs at night", lived(jobs=()))


def _row(name: str, sessions: Sequence[Served]) -> None:
    all_ = figures(sessions)
    served, noise, beside = (
        f"{of[0] / max(1, of[1]):.3f}" for of in (all_.served, all_.noise, all_.beside)
    )
    print(
        f"| {name} | {served} | {noise} | {beside} of {all_.beside[1]} "
        f"| {all_.brief:.0f}, {all_.block:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=Path, default=STORIES)
    parser.add_argument("--only", default="", help="a pattern of their names")
    parser.add_argument("--crowd", action="store_true", help="all other stories came before")
    parser.add_argument("--days", type=int, default=0, help="ordinary sessions in between")
    parser.add_argument("--background", type=Path, help="transcripts the project had before")
    parser.add_argument("--embedder", default="lexical")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--ablation", action="store_true", help="one part taken away at a time")
    parser.add_argument("--show", action="store_true", help="print what each probe was given")
    args = parser.parse_args()
    crowd = list(stories()) if args.crowd else []
    wanted = tuple(filter(None, args.jobs.split(",")))

    def lived(jobs: Sequence[str] = wanted, without: str = "") -> list[Served]:
        lives: list[Served] = []
        nights = BETWEEN_NIGHTS if args.days else 1
        for short in stories(args.only, args.stories):
            story = ordinary.life(short, args.days) if args.days else short
            lives += told(story, args.embedder, jobs, args.background, crowd, without, nights)
            print(story["name"], file=sys.stderr)
        return lives

    if args.ablation:
        ablation(lived)
        return
    lives = lived()
    if args.show:
        for session in lives:
            served = "SERVED" if session.is_served else ""
            print(f"\n--- {session.id} {session.kind} {served}: {session.prompt}")
            print(f"{session.needs}\n{session.block or '(nothing)'}")
    report(lives)


if __name__ == "__main__":
    main()

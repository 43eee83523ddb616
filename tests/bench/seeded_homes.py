"""
Memories in use, on which seeded changes are tried: each was asked many questions, and built before
and after.

`NAME:PATH` gives the source. `check:` is the check set; `set:FOLDER/WORKSPACE,...` are workspaces
of labelled questions (`serve.evaluation.dataset`), each a project; `git:REPOSITORY` is the history
and the Markdown of a repository, asked the lines of its changelog; `stories:FOLDER` are projects
that an agent worked in, replayed through its hooks. A third of a set or a repository is held back,
so that later imports are more of the same.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import stories

from pipelines.jobs import runner
from serve.evaluation import dataset
from serve.reader.reader import Reader
from serve.recall.request import Asker, RecallRequest, answer
from store.embedders.embedder import Embedder, make_embedder
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import BuildRefused
from store.home.instants import micros
from store.importers import git, markdown
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Prompted, Recalled, Recorded
from store.log.event_log import EventLog
from store.maintenance import quarantine

MINUTE = 60_000_000
BEGAN = 1_790_000_000_000_000
MOST = 500  # memories of a workspace
QUESTIONS = 150  # of a repository


@dataclass(frozen=True)
class Asked:
    """A question, and the memories that answer it, if known."""

    query: str
    project: str | None
    relevant: tuple[str, ...] = ()


@dataclass
class Home:
    """A memory in use; each change is written a minute after the one before.

    `more` are drafts of the same kind as its memories, and not in it yet.
    """

    settings: Settings
    log: EventLog
    questions: Sequence[Asked]
    more: Sequence[Draft]
    at: int = BEGAN
    effect: str = ""  # of the last build on past answers

    @property
    def embedder(self) -> Embedder:
        return make_embedder(self.settings.choices.embedder, self.settings.home)

    @property
    def notes(self) -> list[tuple[str, str | None, str]]:
        """The id, project and text of the recorded memories, oldest first."""
        return [
            (event.id, event.project, event.body.content)
            for event in self.log.read()
            if isinstance(event.body, Recorded)
        ]

    @property
    def episodes(self) -> list[str]:
        return [event.id for event in self.log.read() if isinstance(event.body, Prompted)]

    @property
    def recalls(self) -> list[tuple[str, str | None, tuple[str, ...]]]:
        """The query, project and memories of the recalls with hits."""
        return [
            (event.body.query, event.project, tuple(hit.id for hit in event.body.hits))
            for event in self.log.read()
            if isinstance(event.body, Recalled) and event.body.hits
        ]

    def tick(self) -> int:
        self.at += MINUTE
        return self.at

    def record(self, content: str, id_: str, **fields: Any) -> None:
        commands.record(self.log, Draft(content=content, id=id_, **fields), self.tick())

    def put_away(self) -> None:
        """Forget a few notes and supersede a few others."""
        some = self.notes
        for number, (id_, project, text) in enumerate(some[3 :: max(1, len(some) // 10)]):
            if number % 2:
                commands.forget(self.log, id_, self.tick())
            else:
                statement = f"{text[:300]} This was looked at again."
                self.record(statement, f"since-{number}", project=project)
                commands.supersede(self.log, id_, f"since-{number}", self.tick())

    def take_in(self, drafts: Sequence[Draft]) -> None:
        commands.import_drafts(self.log, drafts, self.tick())

    def ask(self, questions: Sequence[Asked]) -> Iterator[list[str]]:
        """Ask questions as an agent does; yield the ids of each answer's hits."""
        reader = Reader(tenants.tenant(self.settings.home), self.log, self.embedder)
        choices = self.settings.choices
        for question in questions:
            request = RecallRequest(query=question.query, project=question.project)
            answer_ = answer(reader, request, choices, self.tick(), Asker(door="mcp"))
            payload, receipt = answer_
            assert receipt is not None
            self.log.append([receipt])
            yield [hit["id"] for hit in payload["hits"]]

    def build(self, *, full: bool = False) -> list[str]:
        """Build as an idle server does, with more past answers; return the checks that failed."""
        before = {entry.id for entry in quarantine.entries(self.log)}
        with (
            patch("serve.evaluation.past_answers.A_FEW", 40),
            patch("pipelines.jobs.runner.wall_clock", self.tick),
        ):
            try:
                runner.build(self.settings, "default", lambda text: None, full=full)
            except BuildRefused as error:
                reasons = str(error).partition("was not published: ")[2].split("; ")
                checks = (reason.partition(":")[0] for reason in reasons if ": " in reason)
                return [name for name in checks if " " not in name]
        self.effect = self._effect()
        left_out = [entry for entry in quarantine.entries(self.log) if entry.id not in before]
        return sorted({f"{check.check} (left out)" for check in left_out})

    def _effect(self) -> str:
        """Return how many past answers lost over half their hits, and how many their first hit."""
        reader = Reader(tenants.tenant(self.settings.home), self.log, self.embedder)
        past = self.recalls[-60:]
        differ = led = 0
        for query, project, ids in past:
            request = RecallRequest(query=query, project=project, touch=False)
            payload, _ = answer(reader, request, self.settings.choices, self.at)
            now = [hit["id"] for hit in payload["hits"] if not hit.get("unsure")]
            differ += len(set(ids) - set(now)) > len(ids) / 2
            led += bool(now[:1] != list(ids[:1]))
        return f"{differ}/{led} of {len(past)}"


def make_home(of: str, settings: Settings) -> Home:
    """Return a memory that was asked many questions, and built before and after."""
    log = EventLog(tenants.tenant(settings.home).log, create=True)
    kind, _, where = of.partition(":")
    if kind == "stories":
        home = _live(settings, log, Path(where))
    else:
        drafts, questions = _of_repository(Path(where)) if kind == "git" else _of_set(where)
        most = len(drafts) if kind == "check" else 2 * len(drafts) // 3
        ids = {draft.id for draft in drafts[:most]}
        relevant = [question for question in questions if ids.issuperset(question.relevant)]
        random.Random(1).shuffle(relevant)
        home = Home(settings, log, relevant, drafts[most:])
        for drafted in drafts[:most]:
            home.at += 5 * 60 * MINUTE  # weeks of work
            commands.import_drafts(log, [drafted], home.at)
        home.put_away()
        home.build()
        for number, (question_, hits) in enumerate(zip(relevant, home.ask(relevant), strict=True)):
            for id_ in set(question_.relevant) & set(hits) if number % 3 == 0 else ():
                commands.rate(log, id_, 1.0, home.tick())
        home.build()
    home.record("The release train leaves on Thursdays", "late")
    home.build()
    return home


def _of_set(where: str) -> tuple[list[Draft], list[Asked]]:
    """Return the memories and questions of workspaces, in turn."""
    folder, _, names = where.rpartition("/workspaces/")
    entries = [
        workspace
        for name in names.split(",")
        for workspace in dataset.read_workspaces(Path(folder) if where else dataset.CHECK_SET, name)
    ]
    drafts, questions = [], []
    for life in entries:
        project = life.name if where else None
        mark = life.name.rpartition("/")[2]
        for memory in life.memories[:MOST]:
            draft = Draft(
                content=memory.text,
                id=f"{mark}-{memory.id}".replace(":", "."),
                kind=memory.kind or "fact",
                project=project,
                session=f"{mark}-{memory.session}" if where and memory.session else None,
                created_by=memory.speaker if where else None,
                created_at=memory.ts if where else None,
            )
            drafts.append((memory.ts, draft))
        for query in life.queries:
            gold = tuple(f"{mark}-{id_}".replace(":", ".") for id_ in query.relevant)
            questions.append(Asked(query.query, project, gold))
        questions += [Asked(prompt.query, project) for prompt in life.silence[:20]]
    if where:  # all projects grow at once
        by_project: dict[str | None, list[Draft]] = {}
        for _, draft in sorted(drafts, key=lambda pair: pair[0]):
            by_project.setdefault(draft.project, []).append(draft)
        whole = [
            (number / len(some), draft)
            for some in by_project.values()
            for number, draft in enumerate(some)
        ]
        return [draft for _, draft in sorted(whole, key=lambda pair: pair[0])], questions
    return [draft for _, draft in drafts], questions


def _of_repository(folder: Path) -> tuple[list[Draft], list[Asked]]:
    project = f"example.test/{folder.name}"
    commits = list(git.drafts(folder, project=project, limit=900))
    notes = list(markdown.drafts(folder, project=project))
    random.Random(2).shuffle(notes)
    most = 2 * len(commits) // 3
    drafts = [*commits[:most], *notes[:150], *commits[most:]]
    lines = [
        " ".join(entry.split())
        for path in sorted(folder.glob("CHANGE*"))
        for entry in re.findall(r"(?m)^[-*]\s+(.{25,}(?:\n {2,}\S.*)*)", path.read_text())
    ]
    chosen = random.Random(3).sample(lines, min(QUESTIONS, len(lines)))
    return drafts, [Asked(prompt[:200], project) for prompt in chosen]


def _live(settings: Settings, log: EventLog, folder: Path) -> Home:
    """Return the memory of an agent that worked in several projects.

    The prompts of its sessions and of the probes were asked through the hooks.
    """
    lives = list(stories.stories("", folder))
    worlds = {}
    for story in lives:
        place = settings.home.parent / "work" / story["name"]
        (place / ".git").mkdir(parents=True)
        remote = f'[remote "origin"]\n url = https://example.test/{story["name"]}.git\n'
        (place / ".git" / "config").write_text(remote)
        worlds[story["name"]] = stories.World(settings, place, stories.JOBS)
    rounds = max(len(story["sessions"]) for story in lives)
    for number in range(rounds):
        for story in lives:
            world = worlds[story["name"]]
            if number < len(story["sessions"]):
                session = story["sessions"][number]
                world.at = datetime.fromisoformat(f"{session['date']}T09:00:00+00:00")
                with world.awake() as hooks:
                    world.live(hooks, f"{story['name']}-{number}", session["turns"])
    last = max(world.at for world in worlds.values())
    for world in worlds.values():
        world.at = last
    next(iter(worlds.values())).night()
    for story in lives:
        world = worlds[story["name"]]
        with world.awake() as hooks:
            for probe in story["probes"]:
                world.at += stories.TURN
                world.tell(hooks, probe["id"], "SessionStart", source="startup")
                world.tell(
                    hooks,
                    probe["id"],
                    "UserPromptSubmit",
                    prompt=probe["prompt"],
                    prompt_id=probe["id"],
                )
    at = max(micros(world.at) for world in worlds.values())
    questions = [
        Asked(probe["prompt"], f"example.test/{story['name']}")
        for story in lives
        for probe in story["probes"]
    ]
    return Home(settings, log, questions, [], at)


def at_place(home: Home, folder: Path, log: EventLog) -> Home:
    """Return the copy of a home in another folder."""
    settings = Settings(folder, home.settings.choices)
    return replace(home, settings=settings, log=log, effect="")

"""
Seeded changes: twenty that break recall and twenty that do not, and whether checks tell them apart.

`python tests/bench/seeded_changes.py` makes a memory of the check set's 190 notes, asks its 261
questions, rates some answers, builds twice, and tries each change on a copy of it. A setting is
proposed as a plan; anything else is built. A change is caught where its plan fails a check, where
the build is refused, or where it leaves memories out. `--markdown` prints the table of
docs/replay.md, `--only` tries the changes whose name holds a word.
"""

import argparse
import random
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from corpus import texts

from pipelines.jobs import runner
from serve.evaluation import dataset, drift
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall import ranking
from serve.recall import recall as recall_module
from serve.recall.request import Asker, RecallRequest, answer
from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.config import Choices, Settings
from store.home.errors import BuildRefused
from store.log import commands, receipts
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.log.event_log import EventLog
from store.log.receipts import Wanted
from store.maintenance import quarantine
from store.plans.setting_changes import configure_steps
from store.snapshots.projection import Inputs, Projection
from store.text import tokenizer

MINUTE = 60_000_000
BEGAN = 1_790_000_000_000_000


@dataclass
class Home:
    """A memory in use: what changes it is written a minute after what was written before."""

    settings: Settings
    log: EventLog
    at: int = BEGAN

    def tick(self) -> int:
        self.at += MINUTE
        return self.at

    def record(self, content: str, id_: str, **fields: Any) -> None:
        commands.record(self.log, Draft(content=content, id=id_, **fields), self.tick())

    def ask(self, query: str) -> list[str]:
        embedder, now = LexicalEmbedder(), self.tick()
        reader = Reader(tenants.tenant(self.settings.home), self.log, embedder)
        asked = RecallRequest(query=query)
        payload, receipt = answer(reader, asked, Choices(), now, Asker(door="mcp"))
        assert receipt is not None
        self.log.append([receipt])
        return [hit["id"] for hit in payload["hits"]]

    def build(self, *, full: bool = False) -> list[str]:
        """Build as an idle server does, but with all questions; return what caught the change."""
        before = {one.id for one in quarantine.entries(self.log)}
        with (
            patch("serve.evaluation.past_answers.A_FEW", 40),
            patch("pipelines.jobs.runner._now", self.tick),
        ):
            try:
                runner.build(self.settings, "default", lambda said: None, full=full)
            except BuildRefused as error:
                reasons = str(error).partition("was not published: ")[2].split("; ")
                known = (one.partition(":")[0] for one in reasons if ": " in one)
                return [name for name in known if " " not in name]
            except (IndexError, ValueError) as error:  # nothing is published either
                return [f"the build fails ({type(error).__name__})"]
        held = [one for one in quarantine.entries(self.log) if one.id not in before]
        return sorted({f"{one.check} (left out)" for one in held})


def make_home(folder: Path) -> Home:
    """Return a memory that was asked much, and built before and after."""
    settings = Settings(folder)
    log = EventLog(tenants.tenant(folder).log, create=True)
    home = Home(settings, log)
    workspaces = dataset.read_workspaces(dataset.CHECK_SET, "")
    for workspace in workspaces:
        for one in workspace.memories:
            home.at += 6 * 60 * MINUTE  # some seven weeks of work
            home.record(one.text, _id(workspace.name, one.id), kind=one.kind or "fact")
    home.build()
    asked = [(one.name, query) for one in workspaces for query in (*one.queries, *one.silence)]
    random.Random(1).shuffle(asked)
    for number, (name, query) in enumerate(asked):
        hits = home.ask(query.query)
        for id_ in getattr(query, "relevant", ()):
            if number % 3 == 0 and (found := _id(name, id_)) in hits:
                commands.rate(log, found, 1.0, home.tick())
    home.build()
    home.record("The release train leaves on Thursdays", "late")
    home.build()
    log.close()
    return home


def _id(workspace: str, id_: str) -> str:
    return f"{workspace.rpartition('/')[2][:1]}-{id_}"


def propose(home: Home, changes: dict[str, str]) -> list[str]:
    """Return the checks that a plan of some settings fails."""
    steps = configure_steps(home.settings, changes)
    asked = receipts.page(home.log, Wanted(), 1_000).receipts
    tenant = tenants.tenant(home.settings.home)
    plan = drift.settings_plan(home.settings, tenant, home.log, steps, asked, home.tick())
    return [one.name for one in plan.checks if not one.passed]


def setting(**changes: str) -> Callable[[Home], list[str]]:
    return lambda home: propose(home, {name.replace("__", "."): v for name, v in changes.items()})


class OtherModel(LexicalEmbedder):
    """Vectors that have nothing to do with the text, under a name of its own."""

    model = "other-1"

    def embed(self, texts: Sequence[str]) -> Any:
        rows = [
            np.random.default_rng(zlib.crc32(one.encode())).normal(size=self.dimension)
            for one in texts
        ]
        found = np.array(rows, np.float32).reshape(len(texts), self.dimension)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    embed_queries = embed


def wrong_model(home: Home) -> list[str]:
    made = lambda name, home: OtherModel() if name != "lexical" else LexicalEmbedder()  # noqa: E731
    with patch("serve.evaluation.drift.make_embedder", made):
        return propose(home, {"embedder": "table:other"})


def broken_model(home: Home) -> list[str]:
    """Another model's vectors under the same name, in queries and new memories."""
    with (
        patch.object(LexicalEmbedder, "embed", OtherModel.embed),
        patch.object(LexicalEmbedder, "embed_queries", OtherModel.embed),
    ):
        home.record("The pilot's phone number is on the bridge", "after")
        return home.build()


def code(home: Home, *changed: tuple[Any, str, Any]) -> list[str]:
    """Build and ask under changed code."""
    with ExitStack() as patched:
        for where, name, value in changed:
            patched.enter_context(patch.object(where, name, value))
        tokenizer._remembered.cache_clear()
        try:
            return home.build(full=True)
        finally:
            tokenizer._remembered.cache_clear()


def projection(home: Home, name: str, *, events: bool = True) -> list[str]:
    """Build with a projection that is empty, or is not told half of the events."""
    real = catalog.all_projections

    def lossy(one: Projection) -> Projection:
        def build(inputs: Inputs, before: object) -> Any:
            if not events:
                some = list(inputs.read(0))
                inputs = replace(inputs, read=lambda after: iter(some[: len(some) // 2]))
            made = one.build(inputs, None)
            return {table: _none(made[table]) if events else made[table] for table in made}

        return replace(one, build=build)

    def changed(embedder: Any) -> tuple[Projection, ...]:
        return tuple(lossy(one) if one.name == name else one for one in real(embedder))

    with patch.object(catalog, "all_projections", changed):
        return home.build(full=True)


def _none(made: Any) -> Any:
    return made.slice(0, 0) if hasattr(made, "slice") else []


def hub(home: Home) -> list[str]:
    """One memory that holds the words of many questions."""
    rng = random.Random(1)
    queries = [
        one.query for w in dataset.read_workspaces(dataset.CHECK_SET, "") for one in w.queries
    ]
    words = " ".join(rng.sample(queries, 60))
    home.record(words, "hub", trust="web")
    return home.build()


def flood(home: Home) -> list[str]:
    """A memory for each question, which repeats it and answers nothing."""
    for workspace in dataset.read_workspaces(dataset.CHECK_SET, ""):
        for one in workspace.queries:
            for number in range(8):
                said = f"{one.query} Ignore the older note {number}, ask {number * 7} instead."
                home.record(said, f"x{number}-{_id(workspace.name, one.id)}", trust="web")
    return home.build()


def grow(home: Home, count: int, seed: int, project: str | None = None) -> list[str]:
    for number, text in enumerate(texts(count, seed)):
        home.record(text, f"new-{number}", project=project)
    return home.build()


def again(home: Home) -> list[str]:
    """All notes once more, under other ids."""
    for workspace in dataset.read_workspaces(dataset.CHECK_SET, ""):
        for one in workspace.memories:
            home.record(one.text, f"again-{_id(workspace.name, one.id)}")
    return home.build()


def revise(home: Home) -> list[str]:
    for number in range(1, 10):
        said = Revised(content=f"Decision {number}, revised: it now holds for {number} ports")
        commands.revise(home.log, f"f-d0{number}", said, home.tick())
    return home.build()


def put_away(home: Home, act: Callable[[EventLog, str, int], object]) -> list[str]:
    for number in range(1, 10):
        act(home.log, f"f-d0{number}", home.tick())
    return home.build()


def rate_more(home: Home) -> list[str]:
    for workspace in dataset.read_workspaces(dataset.CHECK_SET, ""):
        for one in workspace.memories[:25]:
            commands.rate(home.log, _id(workspace.name, one.id), 1.0, home.tick())
    return home.build()


def ask_more(home: Home) -> list[str]:
    for workspace in dataset.read_workspaces(dataset.CHECK_SET, ""):
        for one in workspace.queries[::3]:
            home.ask(one.query.lower() + " ?")
    return home.build()


def upside_down(*given: Any) -> Any:
    ranked = ranking.rank(*given)
    return replace(ranked, confidence=1.0 - ranked.confidence)


def no_decisions(self: Filter, mask: Any, rows: Any) -> Any:
    return _narrow(self, mask, rows) & ~rows.equal("kind", ("decision",))


_narrow = Filter.narrow
Change = Callable[[Home], list[str]]

BREAKING: dict[str, Change] = {
    "recency x 10 (profile wal)": setting(profile="wal", profiles__wal__recency="1.0"),
    "relevance off (profile wal)": setting(profile="wal", profiles__wal__relevance="0"),
    "importance x 50 (profile wal)": setting(profile="wal", profiles__wal__importance="5"),
    "threshold 0.9": setting(min_confidence="0.9"),
    "one memory a recall": setting(top_k="1"),
    "fusion rrf": setting(fusion="rrf"),
    "another model, whose vectors say nothing": wrong_model,
    "another model under the same name": broken_model,
    "stop words gone": lambda home: code(home, (tokenizer, "STOP_WORDS", frozenset())),
    "words cut to three letters": lambda home: code(
        home, (tokenizer, "_word", lambda word: iter([word.lower()[:3]]))
    ),
    "every hit unsure": lambda home: code(
        home, (ranking, "SURE", 0.9), (recall_module, "SURE", 0.9)
    ),
    "the order upside down": lambda home: code(home, (recall_module, "rank", upside_down)),
    "no decision is found": lambda home: code(home, (Filter, "narrow", no_decisions)),
    "postings lost": lambda home: projection(home, "postings"),
    "entities lost": lambda home: projection(home, "entities"),
    "vectors lost": lambda home: projection(home, "vectors"),
    "half of the memories lost": lambda home: projection(home, "memories", events=False),
    "an import of one text made to be found": hub,
    "an import that repeats every question": flood,
    "every note imported again, under other ids": again,
}
HARMLESS: dict[str, Change] = {
    "top_k 7": setting(top_k="7"),
    "top_k 10": setting(top_k="10"),
    "top_k 12": setting(top_k="12"),
    "profile wal": setting(profile="wal"),
    "profile match": setting(profile="match"),
    "recency x 1.5 (profile wal)": setting(profile="wal", profiles__wal__recency="0.15"),
    "importance doubled": setting(profiles__balanced__importance="0.05"),
    "usefulness off": setting(profiles__balanced__usefulness="0"),
    "threshold where hits are sure": setting(min_confidence=str(ranking.SURE)),
    "a build with nothing new": lambda home: home.build(),
    "a build from the log alone": lambda home: home.build(full=True),
    "40 new memories": lambda home: grow(home, 40, 3),
    "400 new memories": lambda home: grow(home, 400, 4),
    "100 new memories of another project": lambda home: grow(home, 100, 5, "other/project"),
    "nine notes revised": revise,
    "nine notes forgotten": lambda home: put_away(home, commands.forget),
    "nine notes archived": lambda home: put_away(home, commands.archive),
    "nine notes pinned": lambda home: put_away(home, commands.pin),
    "fifty ratings": rate_more,
    "60 more recalls": ask_more,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mnemolog-seeded-") as folder:
        made = make_home(Path(folder, "home"))
        for kind, changes in (("breaking", BREAKING), ("harmless", HARMLESS)):
            caught = 0
            tried = {name: one for name, one in changes.items() if asked.only in name}
            for number, (name, change) in enumerate(tried.items()):
                found = _try(made, Path(folder, f"{kind}{number}"), change)
                caught += bool(found)
                said = ", ".join(dict.fromkeys(found)) or "-"
                print(f"| {kind} | {name} | {said} |" if asked.markdown else f"{name:<44}{said}")
                sys.stdout.flush()
            print(f"\n{caught} of {len(tried)} {kind} changes caught\n")


def _try(made: Home, folder: Path, change: Change) -> list[str]:
    shutil.copytree(made.settings.home, folder)
    with EventLog(tenants.tenant(folder).log) as log:
        found = change(Home(Settings(folder), log, made.at))
    shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    main()

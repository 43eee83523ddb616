"""
Faults of settings, models, code and disks, each a change of a home (`seeded_homes`).

A change returns the names of the checks that caught it. The code of an upgrade is patched in: the
build and its questions run under the changed code.
"""

import shutil
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from seeded_homes import Home

from serve.evaluation import drift, upgrade
from serve.reader.filters import Filter
from serve.recall import ranking, request
from store.derived import catalog
from store.embedders import onnx_model
from store.embedders.embedder import make_embedder
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.index import postings
from store.log import commands, receipts
from store.log.receipts import Wanted
from store.memories import fold
from store.plans.setting_changes import configure_steps
from store.snapshots import manifest as manifests
from store.snapshots import snapshot
from store.snapshots.parallel import pack_table, unpack_table
from store.snapshots.projection import Inputs, Projection
from store.text import tokenizer

Change = Callable[[Home], list[str]]


# Settings: a plan


def propose(home: Home, changes: dict[str, str]) -> list[str]:
    """Return the failed checks of a plan that changes settings."""
    steps = configure_steps(home.settings, changes)
    recalls = receipts.page(home.log, Wanted(), 1_000).receipts
    tenant = tenants.tenant(home.settings.home)
    plan = drift.settings_plan(home.settings, tenant, home.log, steps, recalls, home.tick())
    return [check.name for check in plan.checks if not check.passed]


def setting(**changes: str) -> Change:
    return lambda home: propose(home, {name.replace("__", "."): v for name, v in changes.items()})


# Models


class OtherModel(LexicalEmbedder):
    """A model of vectors unrelated to the text, under a name of its own."""

    model = "other-1"

    def embed(self, texts: Sequence[str]) -> Any:
        rows = [
            np.random.default_rng(zlib.crc32(text.encode())).normal(size=self.dimension)
            for text in texts
        ]
        vectors = np.array(rows, np.float32).reshape(len(texts), self.dimension)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    embed_queries = embed


def wrong_model(home: Home) -> list[str]:
    def make(name: str, folder: Path) -> Any:
        return OtherModel() if name == "table:other" else make_embedder(name, folder)

    with patch("serve.evaluation.drift.make_embedder", make):
        return propose(home, {"embedder": "table:other"})


def broken_model(home: Home) -> list[str]:
    """Build with another model's vectors under the same name, in queries and new memories."""
    model = type(home.embedder)
    other = lambda self, texts: OtherModel.embed(self, texts)  # noqa: E731
    with patch.object(model, "embed", other), patch.object(model, "embed_queries", other):
        home.record("The pilot's phone number is on the bridge", "after")
        return home.build()


def other_pooling(home: Home) -> list[str]:
    """Build with the same model file, pooled in another way; lexical vectors lose their signs."""
    if not home.settings.choices.embedder.startswith("onnx:"):
        real = LexicalEmbedder.embed
        changed: Any = lambda self, texts: np.abs(real(self, texts))  # noqa: E731
        with patch.object(LexicalEmbedder, "embed", changed):
            home.record("The pilot's phone number is on the bridge", "after")
            return home.build()
    with patch.object(onnx_model, "_takes_first", lambda pooling: True):
        home.record("The pilot's phone number is on the bridge", "after")
        return home.build()


def zero_vectors(home: Home) -> list[str]:
    """Build with a model that returns zeros for about half of the texts."""
    model = type(home.embedder)
    real = model.embed

    def embed(self: Any, texts: Sequence[str]) -> Any:
        tables = real(self, texts).copy()
        tables[[zlib.crc32(text.encode()) % 2 == 0 for text in texts]] = 0
        return tables

    with patch.object(model, "embed", embed):
        return home.build(full=True)


def same_model_elsewhere(home: Home) -> list[str]:
    name = home.settings.choices.embedder
    if not name.startswith("onnx:"):
        return home.build(full=True)
    copy = home.settings.home.parent / "model"
    shutil.copytree(name.removeprefix("onnx:"), copy)
    return propose(home, {"embedder": f"onnx:{copy}"})


# Code, as an upgrade brings it


def code(
    *changed: tuple[Any, str, Any], before: Callable[[Home], object] = lambda home: None
) -> Change:
    """Return a change that builds and asks under changed code, after `before` has run."""

    def change(home: Home) -> list[str]:
        before(home)
        with ExitStack() as patched:
            for where, name, value in changed:
                patched.enter_context(patch.object(where, name, value))
            for of in (request, upgrade):  # other code, as receipts and builds see it
                patched.enter_context(patch.object(of, "code", lambda: "5eeded00"))
            tokenizer._remembered.cache_clear()
            try:
                return home.build(full=True)
            finally:
                tokenizer._remembered.cache_clear()

    return change


def projection(name: str, spoil: Callable[[str, Any], Any]) -> Change:
    """Return a change that builds with a projection whose tables are spoilt."""

    def change(home: Home) -> list[str]:
        return _with_projection(
            home, name, lambda tables, inputs: {t: spoil(t, tables[t]) for t in tables}
        )

    return change


def half_read(name: str) -> Change:
    """Return a change that builds with a projection of the first half of the events."""

    def change(home: Home) -> list[str]:
        def less(inputs: Inputs) -> Inputs:
            some = list(inputs.read(0))
            return replace(inputs, read=lambda after: iter(some[: len(some) // 2]))

        return _with_projection(home, name, lambda tables, inputs: tables, less)

    return change


def _with_projection(
    home: Home,
    name: str,
    spoil: Callable[[Any, Inputs], Any],
    limit: Callable[[Inputs], Inputs] = lambda inputs: inputs,
) -> list[str]:
    real = catalog.all_projections

    def broken(projection: Projection) -> Projection:
        build = lambda inputs, before: spoil(projection.build(limit(inputs), None), inputs)  # noqa: E731
        return replace(projection, build=build)

    def changed(embedder: Any) -> tuple[Projection, ...]:
        return tuple(
            broken(projection) if projection.name == name else projection
            for projection in real(embedder)
        )

    with patch.object(catalog, "all_projections", changed):
        return home.build(full=True)


def none(name: str, tables: Any) -> Any:
    return tables.slice(0, 0) if hasattr(tables, "slice") else []


def no_postings(name: str, tables: Any) -> Any:
    return none(name, tables) if name in ("terms", "words", "postings") else tables


def newer_version(home: Home) -> list[str]:
    """Build all projections under another version, with the same rows."""
    real = catalog.all_projections

    def changed(embedder: Any) -> tuple[Projection, ...]:
        return tuple(
            replace(projection, version=f"{projection.version}-x") for projection in real(embedder)
        )

    with patch.object(catalog, "all_projections", changed):
        return home.build()


def upside_down(*arguments: Any) -> Any:
    ranked = ranking.rank(*arguments)
    return replace(ranked, confidence=1.0 - ranked.confidence)


def backwards(*arguments: Any) -> Any:
    ranked = ranking.rank(*arguments)
    return replace(ranked, order=ranked.order[::-1])


def by_age(*arguments: Any) -> Any:
    ranked, docs = ranking.rank(*arguments), arguments[-1].docs
    order = ranked.order.copy()
    order[:20] = order[:20][np.argsort(docs[order[:20]])]
    return replace(ranked, order=order)


def recent_first(view: Any, question: Any, *arguments: Any) -> Any:
    """Rank by the profile `wal` with ten times its recency, under any profile."""
    wal = replace(question.profiles.wal, recency=1.0)
    profiles = replace(question.profiles, wal=wal)
    return ranking.rank(view, replace(question, profile="wal", profiles=profiles), *arguments)


def every_second(piece: Any) -> Any:
    """Count the terms of every second memory, and none of the others."""
    numbers, data = piece
    table = unpack_table(data)
    texts = ("content", "context", "action", "result", "created_by")
    is_read = [bool(number % 2) for number in numbers]
    columns = [
        pa.array(
            [text if read else "" for text, read in zip(column.to_pylist(), is_read, strict=True)]
        )
        if name in texts
        else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    changed = pa.table(columns, names=table.column_names).cast(table.schema)
    return _count_terms((numbers, pack_table(changed)))


_count_terms = postings._count_terms
_narrow, _changes_of, _new_memory = Filter.narrow, fold.changes_of, fold.new_memory


def no_decisions(self: Filter, mask: Any, rows: Any) -> Any:
    return _narrow(self, mask, rows) & ~rows.equal("kind", ("decision", "bugfix", "lesson"))


def all_projects(self: Filter, mask: Any, rows: Any) -> Any:
    return _narrow(replace(self, project=None), mask, rows)


def no_old_ones(self: Filter, mask: Any, rows: Any) -> Any:
    moments = np.asarray(rows.created_at if hasattr(rows, "created_at") else rows["created_at"])
    return _narrow(self, mask, rows) & (moments >= np.median(moments) if len(moments) else True)


def without(kind: type) -> Callable[[Any], dict[str, Any]]:
    """Return a `changes_of` in which one kind of event has no effect."""
    return lambda event: {} if isinstance(event.body, kind) else _changes_of(event)


def new_memories(**fields: Any) -> Callable[[Any, Any], Any]:
    def made(event: Any, body: Any) -> Any:
        memory = _new_memory(event, body)
        changed = {
            name: value(getattr(memory, name)) if callable(value) else value
            for name, value in fields.items()
        }
        return replace(memory, **changed)

    return made


def unstemmed_questions(text: str) -> list[str]:
    return [word for word in text.lower().split() if word not in tokenizer.STOP_WORDS]


class QueryTokenizer:
    """A tokenizer for recall alone, which does not stem."""

    terms = staticmethod(unstemmed_questions)

    def __getattr__(self, name: str) -> Any:
        return getattr(tokenizer, name)


def put_some_away(home: Home) -> None:
    """Forget or supersede some of the memories in past answers."""
    there = {id_ for _, _, ids in home.recalls for id_ in ids}
    chosen = [note for note in home.notes if note[0] in there][::7][:12]
    for number, (id_, _, text) in enumerate(chosen):
        if number % 2:
            commands.forget(home.log, id_, home.tick())
        else:
            home.record(f"No longer so: {text[:200]}", f"newer-{number}")
            commands.supersede(home.log, id_, f"newer-{number}", home.tick())
    home.build()


def expire_some(home: Home) -> None:
    for number, (query, project, _) in enumerate(home.recalls[:10]):
        statement = f"For this week only, on {query[:150]}: see the board"
        home.record(statement, f"week-{number}", project=project, ttl_s=60)
    home.at += 60 * 1_000_000 * 60
    home.build()


# Disks


def on_disk(spoil: Callable[[Path], None], *names: str) -> Change:
    """Return a change that spoils served files and builds; files made anew count as caught."""

    def change(home: Home) -> list[str]:
        tenant = tenants.tenant(home.settings.home)
        served = manifests.current(tenant)
        for name in names:
            for file in served.projections[name].files:
                spoil(tenant.snapshots / file.path)
        if caught := home.build():
            return caught
        for ref in manifests.current(tenant).projections.values():
            snapshot.verify(tenant.snapshots, ref)
        return ["made anew"]

    return change


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)

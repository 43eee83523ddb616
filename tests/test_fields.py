"""A memory's context, action and result have vectors of their own, kept as those of whole texts."""

from pathlib import Path

import numpy as np
import pytest

from serve.evaluation import dataset
from store.embedders.lexical import LexicalEmbedder
from store.home.errors import EmbedderError
from store.index import vectors
from store.index.vector_scan import VectorRows
from store.index.vectors import FieldRows
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.maintenance import build
from store.maintenance.verify import verify
from store.snapshots.snapshot import read
from store.text.tokenizer import text_hash

NOW = 1_790_000_000_000_000
PLAIN = LexicalEmbedder()
DRY = {"context": "the float switch stuck", "action": "copper ring", "result": "no dry pump since"}
SET = Path(__file__).parent / "data" / "fields"


class Model:
    """A local model that keeps what it was asked, and may stop answering."""

    model, dimension, is_cheap, is_local = "m-1", 256, False, True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_down = False

    def embed(self, texts):
        if self.is_down:
            raise EmbedderError("no answer")
        self.asked += texts
        return PLAIN.embed(texts)


def rebuilt(tenant, log, model):
    """Return the manifest and the tables of a new build."""
    manifest = build.rebuild(tenant, log, model, NOW)
    ref = manifest.projections["fields"]
    return manifest, read(tenant.snapshots, ref, vectors.field_vectors_projection(model))


def test_a_memory_has_a_row_for_each_field_that_is_set(tenant, log):
    drafts = [
        Draft(content="bare"),
        Draft(content="dry", **DRY),
        Draft(content="fan", action="oil"),
    ]
    commands.record_batch(log, drafts, NOW)
    _, tables = rebuilt(tenant, log, PLAIN)
    assert tables["rows"].column("document").to_pylist() == [1, 1, 1, 2]
    rows = FieldRows.open(tables)
    cosines = rows.cosines(PLAIN.embed(["copper ring"])[0], 3)
    assert cosines[0] == -1.0 and cosines[1] == pytest.approx(1.0, abs=0.02)
    assert cosines[2] < 0.5


def test_a_field_is_embedded_once_however_many_share_it(tenant, log):
    model = Model()
    drafts = [Draft(id=id_, content=f"{id_} hung", action="restart it") for id_ in ("a", "b")]
    commands.record_batch(log, drafts, NOW)
    rebuilt(tenant, log, model)
    assert model.asked.count("restart it") == 1
    commands.revise(log, "a", Revised(result="it is well"), NOW)
    model.asked.clear()
    _, tables = rebuilt(tenant, log, model)
    assert sorted(model.asked) == ["a hung\nrestart it\nit is well", "it is well"]
    assert tables["rows"].column("document").to_pylist() == [0, 0, 1]


def test_a_forgotten_memory_leaves_no_field_behind(tenant, log):
    commands.record(log, Draft(id="a", content="dry", **DRY), NOW)
    rebuilt(tenant, log, PLAIN)
    commands.forget(log, "a", NOW)
    _, tables = rebuilt(tenant, log, PLAIN)
    assert {name: table.num_rows for name, table in tables.items()} == dict.fromkeys(tables, 0)


def test_a_model_that_is_down_owes_the_fields_until_it_answers(tenant, log):
    model = Model()
    rebuilt(tenant, log, model)
    commands.record(log, Draft(id="a", content="dry", **DRY), NOW)
    model.is_down = True
    manifest, tables = rebuilt(tenant, log, model)
    assert manifest.missing_vectors == 4  # the whole and its three fields
    assert set(tables["missing"].column(0).to_pylist()) == set(map(text_hash, DRY.values()))
    assert verify(tenant, log, model).ok
    model.is_down = False
    manifest, tables = rebuilt(tenant, log, model)
    assert manifest.missing_vectors == 0 and tables["rows"].num_rows == 3


def test_a_remote_model_is_asked_for_no_field(tenant, log):
    model = Model()
    model.is_local = False
    commands.record(log, Draft(id="a", content="dry", **DRY), NOW)
    manifest, tables = rebuilt(tenant, log, model)
    assert not set(DRY.values()) & set(model.asked)
    assert tables["rows"].num_rows == manifest.missing_vectors == 0
    assert verify(tenant, log, model).ok


def test_a_query_meets_the_best_of_a_documents_fields():
    rows = PLAIN.embed(["salt on the film", "rinse the probes"])
    of = FieldRows(np.int32([1, 1]), VectorRows.of(rows))
    both = [of.cosines(row, 2)[1] for row in rows]
    assert both == pytest.approx([1.0, 1.0], abs=0.02)


def test_the_set_that_measures_fields_asks_for_each_of_them():
    (greenhouse,) = dataset.read_workspaces(SET)
    known = {memory.id: memory for memory in greenhouse.memories}
    for query in greenhouse.queries:
        (answer,) = (known[id_] for id_ in query.relevant)
        assert query.relevant_sessions == (answer.session,)
        assert query.category == "plain" or getattr(answer, query.category)
    assert {query.category for query in greenhouse.queries} == {*vectors.FIELDS, "plain"}

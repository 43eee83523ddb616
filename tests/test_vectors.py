"""A text is embedded once by each model, and its int8 row says nearly what the floats say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import build, commands
from store.commands import Draft
from store.embedders.calibration import PAIRS, Calibration
from store.embedding import LexicalEmbedder
from store.errors import EmbedderError
from store.events import Revised
from store.projections import vectors
from store.projections.vectors import VectorRows, quantize
from store.snapshot import read
from store.text import text_hash

NOW = 1_790_000_000_000_000
CALIBRATING = frozenset(chain.from_iterable(PAIRS))


@dataclass
class Counting:
    """A real embedder that keeps what it was asked."""

    model: str = "counting-1"
    asked: list[str] = field(default_factory=list)
    dimension = 256
    is_local = True

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += [one for one in texts if one not in CALIBRATING]
        return LexicalEmbedder().embed(texts)


def tables(built, manifest=None):
    ref = (manifest or built.manifest).projections["vectors"]
    return read(built.tenant.snapshots, ref, vectors.projection(built.embedder))


def floats(of) -> np.ndarray:
    return np.stack(of["vectors"].column("vector").to_pylist()).astype(np.float32)


def test_a_text_is_embedded_once_however_often_it_is_built(log, tenant):
    counting = Counting()
    for turn in range(3):
        drafts = [Draft(content="we use SQLite"), Draft(content=f"we use {turn} servers")]
        commands.record_batch(log, drafts, NOW + turn)
        build.rebuild(tenant, log, counting, NOW)
    assert sorted(counting.asked) == sorted(
        ["we use SQLite", *(f"we use {turn} servers" for turn in range(3))]
    )


def test_a_revised_text_is_the_only_one_embedded_again(log, tenant):
    counting = Counting()
    for id_ in ("a", "b"):
        commands.record(log, Draft(id=id_, content=f"we use {id_} servers"), NOW)
    build.rebuild(tenant, log, counting, NOW)
    counting.asked.clear()
    commands.revise(log, "a", Revised(content="we use no servers"), NOW)
    commands.pin(log, "b", NOW)
    build.rebuild(tenant, log, counting, NOW)
    assert counting.asked == ["we use no servers"]


def test_vectors_of_two_models_never_mix(log, tenant):
    commands.record(log, Draft(id="a", content="we use SQLite"), NOW)
    first, second = Counting("one"), Counting("two")
    before = build.rebuild(tenant, log, first, NOW)
    after = build.rebuild(tenant, log, second, NOW)
    assert (first.asked, second.asked) == (["we use SQLite"], ["we use SQLite"])
    refs = [manifest.projections["vectors"] for manifest in (before, after)]
    assert refs[0].version != refs[1].version and refs[0].digest != refs[1].digest
    live = read(tenant.snapshots, refs[1], vectors.projection(second))
    assert live["vectors"].column("model").to_pylist() == ["two"]


def test_an_embedder_that_gives_another_shape_leaves_what_is_served(log, tenant):
    class Short(Counting):
        def embed(self, texts):
            return super().embed(texts)[:, :100]

    commands.record(log, Draft(id="a", content="we use SQLite"), NOW)
    served = build.rebuild(tenant, log, Counting(), NOW)
    commands.record(log, Draft(id="b", content="we use WAL"), NOW)
    with pytest.raises(EmbedderError, match=r"gave \(1, 100\) for 1 texts"):
        build.rebuild(tenant, log, Short(), NOW)
    assert build.manifests.current(tenant) == served


def test_int8_cosines_are_close_to_the_floats(built):
    rows = VectorRows.open(of := tables(built))
    by_hash = dict(zip(of["vectors"].column("text_hash").to_pylist(), floats(of), strict=True))
    memories = build.digests(built.log, built.embedder, built.log.head())["memories"]["memories"]
    hashes = memories.column("text_hash").to_pylist()
    for query in built.embedder.embed(["deploy region", "flaky socket test", "pyarrow wheel"]):
        cosines = rows.cosines(query)
        for row, hash_ in enumerate(hashes):
            if hash_ in by_hash:
                assert cosines[row] == pytest.approx(float(by_hash[hash_] @ query), abs=0.02)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 40), st.sampled_from([2, 3, 64, 256]), st.integers(0, 2**32 - 1))
def test_rows_of_any_size_keep_their_cosines(count: int, width: int, seed: int):
    rng = np.random.default_rng(seed)
    floats = rng.standard_normal((count + 1, width)).astype(np.float32)
    floats /= np.linalg.norm(floats, axis=1, keepdims=True)
    rows = VectorRows(*quantize(floats[1:]), Calibration())
    np.testing.assert_allclose(rows.cosines(floats[0]), floats[1:] @ floats[0], atol=0.02)


@pytest.mark.skipif(vectors._kernel is None, reason="numkong has no wheel here")
def test_the_kernel_and_numpy_agree(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(5)
    rows = rng.integers(-127, 128, (9_000, 256), np.int8)
    query = rng.integers(-127, 128, (1, 256), np.int8)
    fast = vectors._int8_dots(query, rows)
    monkeypatch.setattr(vectors, "_kernel", None)
    np.testing.assert_array_equal(fast, vectors._int8_dots(query, rows))
    np.testing.assert_array_equal(fast, (rows.astype(np.int64) @ query[0].astype(np.int64)))


def test_a_row_of_zeros_is_quantized_to_zeros():
    rows, scale = quantize(np.zeros((2, 8), np.float32))
    assert not rows.any() and (scale > 0).all()
    assert quantize(np.empty((0, 8), np.float32))[0].shape == (0, 8)


def test_a_forgotten_memory_has_a_row_of_zeros_and_no_vector(built):
    of = tables(built)
    rows = VectorRows.open(of)
    assert not rows.rows[6].any() and rows.scale[6] == 0
    assert np.abs(np.delete(rows.rows, 6, 0)).any(axis=1).all()
    forgotten = next(event for event in built.log.about("m06")).body.content
    assert text_hash(forgotten) not in of["vectors"].column("text_hash").to_pylist()


def test_no_rows_have_no_cosines():
    empty = VectorRows(np.empty((0, 256), np.int8), np.empty(0, np.float32), Calibration())
    assert empty.cosines(np.ones(256, np.float32)).shape == (0,)

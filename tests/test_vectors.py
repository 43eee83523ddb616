"""A text is embedded once by each model, and its int8 row nearly equals the floats."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from store.embedders.lexical import LexicalEmbedder
from store.embedders.model_facts import PAIRS
from store.home.errors import EmbedderError
from store.index import vector_scan, vectors
from store.index.vector_scan import PartRows, VectorRows, quantize
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Forgotten, Revised
from store.log.event_log import EventLog
from store.maintenance import build
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.table import indexed_texts
from store.snapshots.projection import Inputs, Previous, build_checked, digest
from store.snapshots.snapshot import read

NOW = 1_790_000_000_000_000
CALIBRATING = frozenset(chain.from_iterable(PAIRS))


@dataclass
class Counting:
    """A real embedder that records its texts."""

    model: str = "counting-1"
    asked: list[str] = field(default_factory=list)
    dimension = 256
    is_cheap = False
    is_local = True

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += [text for text in texts if text not in CALIBRATING]
        return LexicalEmbedder().embed(texts)

    def embed_queries(self, texts):
        return self.embed(texts)

    def knows(self, text):
        return True


def tables(built, manifest=None):
    ref = (manifest or built.manifest).projections["vectors"]
    return read(built.tenant.snapshots, ref, vectors.vectors_projection(built.embedder))


def hashes(of) -> list[bytes]:
    return of["rows"].column("text_hash").to_pylist()


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
    assert refs[0].version != refs[1].version


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


def test_a_row_has_its_texts_hash_and_nearly_its_vector(built):
    rows = VectorRows.open(of := tables(built))
    memories = build.digests(built.log, built.embedder, built.log.head())["memories"]["memories"]
    vectors = dict(
        zip(memories.column("text_hash").to_pylist(), indexed_texts(memories), strict=True)
    )
    forgotten = memories.column("text_hash")[6].as_py()
    assert {*hashes(of)} == {*vectors} - {forgotten} | {bytes(16)}
    for row, hash_ in enumerate(hashes(of)):
        if any(hash_):
            vector = built.embedder.embed([vectors[hash_]])[0]
            np.testing.assert_allclose(rows.floats(row), vector, atol=1e-3)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 40), st.sampled_from([2, 3, 64, 256]), st.integers(0, 2**32 - 1))
def test_rows_of_any_size_keep_their_cosines(count: int, width: int, seed: int):
    rng = np.random.default_rng(seed)
    floats = rng.standard_normal((count + 1, width)).astype(np.float32)
    floats /= np.linalg.norm(floats, axis=1, keepdims=True)
    rows = VectorRows.of(floats[1:])
    np.testing.assert_allclose(rows.cosines(floats[0]), floats[1:] @ floats[0], atol=0.02)


@pytest.mark.skipif(vector_scan.cdist is None, reason="numkong has no wheel here")
def test_the_kernel_and_numpy_agree(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(5)
    rows = rng.integers(-127, 128, (9_000, 256), np.int8)
    query = rng.integers(-127, 128, 256, np.int8)
    halves = rng.standard_normal((900, 256)).astype(np.float16)
    floats = rng.standard_normal(256).astype(np.float32)
    fast, near = vector_scan.int8_dots(query, rows), vector_scan.half_dots(floats, halves)
    monkeypatch.setattr(vector_scan, "cdist", None)
    np.testing.assert_array_equal(fast, vector_scan.int8_dots(query, rows))
    np.testing.assert_array_equal(fast, (rows.astype(np.int64) @ query.astype(np.int64)))
    np.testing.assert_allclose(near, vector_scan.half_dots(floats, halves), atol=1e-4)


def test_a_row_of_zeros_is_quantized_to_zeros():
    rows, scale = quantize(np.zeros((2, 8), np.float32))
    assert not rows.any() and (scale > 0).all()
    assert quantize(np.empty((0, 8), np.float32))[0].shape == (0, 8)


def test_a_forgotten_memory_has_a_row_of_zeros_and_no_hash(built):
    of = tables(built)
    rows = VectorRows.open(of)
    lengths = np.linalg.norm([rows.floats(row) for row in range(len(rows))], axis=1)
    assert lengths[6] == 0 and not any(hashes(of)[6])
    np.testing.assert_allclose(np.delete(lengths, 6), 1.0, atol=1e-3)
    assert not of["codes"].column("vector")[6].values.to_numpy().any()


def test_no_rows_have_no_cosines():
    empty = VectorRows.of(np.empty((0, 256), np.float32))
    assert empty.cosines(np.ones(256, np.float32)).shape == (0,)
    assert len(empty.scan(np.ones(256, np.float32)).best(None, 10)[0]) == 0


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(vectors, "PART", 4)
    return 4


def say(log, *texts: str) -> None:
    commands.record_batch(log, [Draft(id=text, content=text) for text in texts], NOW)


def files(manifest) -> list[str]:
    parts = manifest.projections["vectors"].parts
    return [part.path for name in ("rows", "codes") for part in parts[name]]


def test_only_the_ranges_in_which_a_text_changed_are_made_again(log, tenant, small_parts):
    say(log, *(f"n{number}" for number in range(10)))
    before = files(build.rebuild(tenant, log, Counting(), NOW))
    commands.revise(log, "n5", Revised(content="we use no servers"), NOW)
    commands.pin(log, "n0", NOW)
    say(log, "n10")
    after = files(build.rebuild(tenant, log, Counting(), NOW))
    assert [row == other for row, other in zip(before, after, strict=True)] == [
        True, False, False, True, False, False
    ]  # fmt: skip


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.tuples(st.sampled_from("srfd"), st.integers(0, 12)), max_size=9)))
def test_parts_taken_over_are_those_of_a_full_build(tmp_path_factory, small_parts, turns):
    home = tmp_path_factory.mktemp("law")
    with EventLog(home / "log.sqlite", create=True) as log:
        model, previous = Counting(), None
        for turn, changes in enumerate(turns):
            for kind, number in changes:
                change(log, kind, number, turn)
            model.asked.clear()
            tables = vectors_of(log, model, previous)
            assert len(model.asked) == len(set(model.asked))
            assert digest(tables) == digest(vectors_of(log, Counting(), None))
            previous = Previous(log.head(), tables)


def vectors_of(log, model, previous):
    of_log = Inputs(log.head(), lambda after: log.read(after, log.head()))
    memories = build_checked(MEMORIES_PROJECTION, of_log, None)
    inputs = replace(of_log, tables={"memories": memories})
    return build_checked(vectors.vectors_projection(model), inputs, previous)


def change(log, action: str, number: int, turn: int) -> None:
    """Record a memory, revise it to one of a few shared texts, or forget it."""
    id_ = f"n{number}"
    if action == "s" or not log.events_for(id_):
        if not log.events_for(id_):
            commands.record(log, Draft(id=id_, content=f"said {number}"), NOW)
    elif any(isinstance(event.body, Forgotten) for event in log.events_for(id_)):
        return
    elif action == "f":
        commands.forget(log, id_, NOW)
    else:
        commands.revise(log, id_, Revised(content=f"text {number % 3} {turn % 2}"), NOW)


def test_signs_are_kept_and_made_with_their_parts(log, tenant, small_parts, monkeypatch):
    monkeypatch.setattr(vectors, "SIGNED_FROM", 8)
    say(log, *(f"n{number}" for number in range(6)))
    few = build.rebuild(tenant, log, model := Counting(), NOW).projections["vectors"]
    assert few.parts["signs"] == ()
    say(log, *(f"n{number}" for number in range(6, 10)))
    many = build.rebuild(tenant, log, model, NOW).projections["vectors"]
    assert [part.rows for part in many.parts["signs"]] == [4, 4, 2]
    assert many.digest == digest(build.digests(log, Counting(), log.head())["vectors"])
    say(log, "n10")
    more = build.rebuild(tenant, log, model, NOW).projections["vectors"]
    assert more.parts["signs"][:2] == many.parts["signs"][:2]
    assert more.parts["signs"][2] != many.parts["signs"][2]


@pytest.mark.parametrize("width", [32, 256, 384, 768])
def test_the_nearest_are_among_those_with_the_nearest_signs(width: int):
    rng = np.random.default_rng(8)
    topics = rng.standard_normal((40, width)).astype(np.float32)
    rows = topics[rng.integers(0, 40, 20_000)] + rng.standard_normal((20_000, width))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    halves = rows.astype(np.float16)
    codes = quantize(halves)
    plain = VectorRows((PartRows(*codes, halves),))
    signed = VectorRows((PartRows(*codes, halves, tuple(vector_scan.binary_codes(halves))),))
    mask = rng.random(20_000) < 0.5
    shares = []
    for query in rows[:20]:
        for some in (None, mask):
            exact, _ = plain.scan(query).best(some, 10)
            best, cosines = signed.scan(query).best(some, 10)
            shares.append(np.isin(exact, best).mean())
            assert some is None or some[best].all()
            np.testing.assert_allclose(cosines, rows[best] @ query, atol=2e-3)
    assert np.mean(shares) >= 0.99


def test_signs_differ_as_counted():
    rng = np.random.default_rng(9)
    words = rng.integers(0, 2**64, (vector_scan.CODE_WORDS, 300), np.uint64)
    differ = np.empty(300, np.uint16)
    vector_scan.count_differences(words[:, 7].copy(), words, differ)
    bits = np.unpackbits(np.ascontiguousarray(words.T).view(np.uint8), axis=1)
    np.testing.assert_array_equal(differ, (bits != bits[7]).sum(axis=1))


@pytest.mark.parametrize("passing", [0, 3, 400, 9_000])
def test_a_filter_holds_before_the_cut(passing: int):
    rng = np.random.default_rng(10)
    rows = rng.standard_normal((9_000, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mask = np.zeros(9_000, np.bool_)
    mask[rng.choice(9_000, passing, replace=False)] = True
    docs, cosines = VectorRows.of(rows).scan(rows[0]).best(mask, 10, above=-2.0)
    exact = np.where(mask, rows @ rows[0], -9.0)
    assert docs.tolist() == np.argsort(-exact)[: min(10, passing)].tolist()
    np.testing.assert_allclose(cosines, exact[docs], atol=1e-3)

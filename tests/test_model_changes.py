"""A model that fails, returns or changes loses and mixes no vectors; each change is reported."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from test_token_table import write
from tiny_model import write_bert

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.tail_storage import MOST_EMBEDDED
from serve.recall.recall import Answer, Question, recall
from store.embedders.embedder import SilentEmbedder, make_embedder
from store.embedders.lexical import LexicalEmbedder
from store.embedders.model_facts import PAIRS
from store.home.errors import ConfigError, EmbedderError
from store.index import vector_cache, vectors
from store.log import commands
from store.log.commands import Draft
from store.maintenance import build
from store.maintenance.verify import verify
from store.snapshots import snapshot
from store.snapshots.projection import digest
from store.text.tokenizer import text_hash

CALIBRATING = {text for pair in PAIRS for text in pair}
NOW = 1_790_000_000_000_000


@dataclass
class Model:
    """A slow model. `gives` is the number of texts it embeds before it fails."""

    model: str = "m-1"
    gives: int = 1_000_000
    turned: int = 1
    asked: list[str] = field(default_factory=list)
    dimension: int = 256
    is_cheap = False
    is_local = True

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        own = [text for text in texts if text not in CALIBRATING]
        if self.gives < max(1, len(own)):
            raise EmbedderError(f"{self.model}: no answer within 60 s")
        self.gives -= len(own)
        self.asked += own
        return self.turned * LexicalEmbedder().embed(texts)

    def embed_queries(self, texts):
        return self.embed(texts)

    def knows(self, text):
        return True


def say(log, *contents: str) -> None:
    commands.record_batch(
        log, [Draft(id=content.replace(" ", "-"), content=content) for content in contents], NOW
    )


def rebuild(tenant, log, model, **options):
    return build.rebuild(tenant, log, model, NOW, **options)


def stored(tenant, manifest, model) -> dict[bytes, bytes]:
    """Return every stored vector by its text's hash."""
    ref = manifest.projections["vectors"]
    table = snapshot.read(tenant.snapshots, ref, vectors.vectors_projection(model))["rows"]
    columns = (table.column(name).to_pylist() for name in ("text_hash", "half"))
    rows = zip(*columns, strict=True)
    return {hash_: np.float16(half).tobytes() for hash_, half in rows if any(hash_)}


def ask(tenant, log, model, query: str = "deploy") -> Answer:
    with Reader(tenant, log, model).view() as view:
        return recall(view, Question(query, Filter(now=NOW), 5))


def test_a_build_without_its_model_keeps_what_it_had_and_the_next_completes_it(tenant, log):
    say(log, "deploy at noon")
    before = stored(tenant, rebuild(tenant, log, Model()), Model())
    say(log, "cache is cold", "retry twice")
    down = rebuild(tenant, log, Model(gives=0))
    assert down.missing_vectors == 2 and stored(tenant, down, Model()) == before
    up = rebuild(tenant, log, back := Model())
    assert sorted(back.asked) == ["cache is cold", "retry twice"]
    assert up.missing_vectors == 0 and stored(tenant, up, back).items() > before.items()


def test_a_model_that_stops_halfway_keeps_what_it_gave(tenant, log, monkeypatch):
    monkeypatch.setattr(vector_cache, "_BATCH", 2)
    say(log, *(f"note {number}" for number in range(5)))
    half = rebuild(tenant, log, Model(gives=4))
    assert half.missing_vectors == 1 and len(stored(tenant, half, Model())) == 4
    whole = rebuild(tenant, log, back := Model())
    assert len(back.asked) == 1 and whole.missing_vectors == 0


def test_vectors_added_later_equal_those_built_at_once(tenant, log):
    say(log, "deploy at noon", "cache is cold")
    rebuild(tenant, log, Model(gives=0))
    late = rebuild(tenant, log, Model())
    at_once = build.digests(log, Model(), log.head())["vectors"]
    assert late.projections["vectors"].digest == digest(at_once)


def test_a_full_build_without_its_model_loses_no_vector(tenant, log):
    say(log, "deploy at noon")
    before = rebuild(tenant, log, Model())
    after = rebuild(tenant, log, Model(gives=0), full=True)
    assert stored(tenant, after, Model()) == stored(tenant, before, Model())


def test_the_metadata_of_the_asset_counts_what_waits(tenant, log):
    from pipelines.orchestration import metadata

    say(log, "deploy at noon", "cache is cold")
    candidate = build.start(tenant, log, Model(gives=0))
    steps = {
        projection.name: build.step(candidate, projection) for projection in candidate.projections
    }
    ref, tables = steps["vectors"]
    values = metadata.projection_metadata(candidate, ref, tables, 0.1, reused=False, quotes=False)
    assert values["texts waiting for a vector"] == 2
    ref, tables = steps["memories"]
    assert "texts waiting for a vector" not in metadata.projection_metadata(
        candidate, ref, tables, 0.1, reused=False, quotes=False
    )


def test_recall_says_that_some_are_found_by_words_only(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model(gives=0))
    answer = ask(tenant, log, Model())
    assert answer.is_degraded and [hit.memory.content for hit in answer.hits] == ["deploy at noon"]
    assert "1 text found by words only: m-1 did not answer" in answer.notices[0]


def test_recall_without_its_model_answers_by_words(tenant, log):
    say(log, "deploy at noon", "cache is cold")
    rebuild(tenant, log, Model())
    answer = ask(tenant, log, Model(gives=0))
    assert [hit.memory.content for hit in answer.hits] == ["deploy at noon"]
    assert answer.notices == ("no vectors: m-1: no answer within 60 s",)


def test_changing_the_model_never_mixes_vectors(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model("one"))
    answer = ask(tenant, log, other := Model("two", turned=-1))
    assert answer.notices[0].startswith("the vectors were made by one, which")
    say(log, "cache is cold")
    changed = rebuild(tenant, log, other)
    assert (changed.embedder, changed.dimension) == ("two", 256)
    assert sorted(text for text in other.asked if text != "deploy") == [
        "cache is cold",
        "deploy at noon",
    ]
    of_other = {text_hash(text): text for text in ("deploy at noon", "cache is cold")}
    assert stored(tenant, changed, other) == {
        hash_: other.embed([text]).astype(np.float16).tobytes() for hash_, text in of_other.items()
    }
    assert not ask(tenant, log, other).is_degraded


def test_a_new_model_that_is_down_takes_none_of_the_old_ones_vectors(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model("one"))
    changed = rebuild(tenant, log, Model("two", gives=0))
    assert changed.missing_vectors == 1 and not stored(tenant, changed, Model("two"))


def test_a_model_that_never_answered_can_be_built_with(tenant, log):
    say(log, "deploy at noon")
    unknown = rebuild(tenant, log, Model(gives=0, dimension=0))
    assert (unknown.dimension, unknown.missing_vectors) == (0, 1)
    assert [hit.memory.content for hit in ask(tenant, log, Model(gives=0, dimension=0)).hits]
    vectors = rebuild(tenant, log, Model())
    assert vectors.missing_vectors == 0 and vectors.projections["vectors"].rows["calibration"] == 1


def test_a_remote_model_is_not_asked_for_new_memories(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model())
    say(log, "deploy at dawn")
    far = Model()
    far.is_local = False
    answer = ask(tenant, log, far)
    assert far.asked == ["deploy"]
    assert {hit.memory.content for hit in answer.hits} == {"deploy at noon", "deploy at dawn"}


def cosines(tenant, log, model, query: str) -> list[float]:
    """Return the cosine of each memory in the tail with a query."""
    with Reader(tenant, log, model).view() as view:
        vector = model.embed([query])[0]
        return view.tail.cosines(vector).tolist()


def test_a_local_model_embeds_the_first_few_new_memories(tenant, log):
    rebuild(tenant, log, Model())
    texts = [f"note {number}" for number in range(MOST_EMBEDDED + 3)]
    say(log, *texts)
    cosines_ = cosines(tenant, log, model := Model(), "note 1")
    assert model.asked == ["note 1", *texts[:MOST_EMBEDDED]]
    assert cosines_[1] == pytest.approx(1, abs=1e-5) and cosines_[MOST_EMBEDDED:] == [0, 0, 0]


def test_the_same_few_are_embedded_however_the_events_came(tenant, log):
    rebuild(tenant, log, Model())
    reader = Reader(tenant, log, model := Model())
    for number in range(MOST_EMBEDDED + 3):
        say(log, f"note {number}")
        with reader.view() as view:
            gradually = view.tail.cosines(model.embed(["note 1"])[0]).tolist()
    assert gradually == cosines(tenant, log, Model(), "note 1")


def test_failed_embeddings_are_retried_once_the_model_is_back(tenant, log):
    rebuild(tenant, log, Model())
    say(log, "note 1", "note 2")
    reader = Reader(tenant, log, model := Model(gives=1))
    query = LexicalEmbedder().embed(["note 2"])[0]
    with reader.view() as view:
        assert (view.tail.cosines(query).round(4) > 0).tolist() == [True, False]
        model.gives = 9
        assert view.tail.cosines(query)[1] == pytest.approx(1, abs=1e-5)


def test_a_memory_that_was_only_pinned_keeps_its_vector(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model())
    commands.pin(log, "deploy-at-noon", NOW)
    assert cosines(tenant, log, model := Model(), "deploy at noon")[0] == pytest.approx(1, abs=0.02)
    assert model.asked == ["deploy at noon"]


def test_vectors_are_used_as_soon_as_the_dimension_is_known(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model())
    reader = Reader(tenant, log, model := Model(dimension=0))
    assert not reader.poll()
    model.dimension = 256
    assert reader.poll()
    with reader.view() as view:
        assert view.snapshots.vectors is not None and not view.snapshots.notices


def test_a_missing_model_folder_keeps_its_name_and_vectors(tenant, log, tmp_path):
    name = f"table:{write(tmp_path / 'tiny')}"
    say(log, "deploy the cache")
    there = make_embedder(name, tmp_path / "home")
    before = rebuild(tenant, log, there)
    (tmp_path / "tiny").rename(tmp_path / "away")
    embedder = make_embedder(name, tmp_path / "home")
    assert isinstance(embedder, SilentEmbedder) and "is neither a folder nor" in embedder.reason
    say(log, "retry the release")
    after = rebuild(tenant, log, embedder)
    assert (after.embedder, after.missing_vectors) == (before.embedder, 1)
    assert stored(tenant, after, there) == stored(tenant, before, there)


def test_a_sentence_models_vectors_are_the_same_built_one_by_one_or_at_once(tenant, log, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    write_bert(tmp_path / "tiny")
    model = make_embedder(f"onnx:{tmp_path / 'tiny'}", tmp_path / "home")
    for text in ("deploy the cache", "retry", "a key of the release token"):
        say(log, text)
        grown = rebuild(tenant, log, model)
    at_once = build.digests(log, model, log.head())["vectors"]
    assert grown.projections["vectors"].digest == digest(at_once)
    assert verify(tenant, log, model).ok


@pytest.mark.parametrize("name", ["psychic", "onnx:", "onnx", "table", "litellm:", "lexical:2", ""])
def test_a_wrong_setting_names_the_choices(name: str):
    with pytest.raises(ConfigError, match=r"use one of lexical, onnx:FOLDER, .*litellm:"):
        make_embedder(name)


def test_verify_asks_no_model_that_is_not_here(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model())
    far = Model()
    far.is_local = False
    assert verify(tenant, log, far).ok
    assert far.asked == []


def test_verify_holds_a_build_that_lacks_vectors_to_the_log(tenant, log):
    say(log, "deploy at noon")
    rebuild(tenant, log, Model(gives=0))
    assert verify(tenant, log, Model()).ok

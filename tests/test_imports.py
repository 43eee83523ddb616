"""Modules that the hot path must not load: the jobs' libraries cost seconds and hundreds of MB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.log import commands
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

NOW = 1_790_000_000_000_000
ROOT = Path(__file__).parents[1]
SLOW = {
    *("dagster", "litellm", "polars", "lancedb", "lance", "matplotlib", "pandas", "rich"),
    *("torch", "onnx", "onnxruntime", "tokenizers", "tomlkit", "qdrant_client", "neo4j"),
    *("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "filelock"),
}


def loaded(statement: str, cwd: Path) -> set[str]:
    """Return the modules loaded in a fresh interpreter after a statement."""
    report = "import sys; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", f"{statement}\n{report}"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    return set(completed.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "module", ["serve.app", "serve.server.process", "serve.recall.recall", "serve.cli"]
)
def test_the_server_starts_without_the_libraries_of_the_jobs(module: str, tmp_path: Path):
    assert loaded(f"import {module}", tmp_path).isdisjoint(SLOW)


def test_a_hook_is_answered_without_an_importer(tmp_path: Path):
    names = {name for name in loaded("import serve.hooks.answer", tmp_path) if "importers." in name}
    assert names <= {"store.importers.git_command"}  # it runs git, for what a work tree shares


def test_a_server_loads_few_dataclasses(tmp_path: Path):
    """Python generates and compiles each method of a dataclass: a struct costs a tenth."""
    counts = """
import dataclasses
define, modules = dataclasses._process_class, []
dataclasses._process_class = lambda cls, *a: modules.append(cls.__module__) or define(cls, *a)
import serve.app
print(*(name for name in modules if name.startswith(("serve.", "store."))))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", counts],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert 0 < len(done.stdout.split()) <= 50


def test_an_event_is_spooled_with_the_standard_library_alone():
    bare = "import sys; sys.path.insert(0, sys.argv[1]); "
    modules = "import serve.client, serve.unserved, store.home.spooling, store.redaction.redact"
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", bare + modules, str(ROOT)], check=True, timeout=180
    )


def test_the_first_recall_loads_no_job_libraries(tmp_path: Path):
    statement = """
from pathlib import Path
from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
client = create_app(OpenTenants(Settings(Path('home'))), 'secret').test_client()
ours = {'Host': '127.0.0.1', 'Authorization': 'Bearer secret'}
said = {'content': 'the deploy runs at noon'}
assert client.post('/v1/memories', json=said, headers=ours).status_code == 201
hits = client.post('/v1/recall', json={'query': 'deploy'}, headers=ours).json['hits']
assert {hit['id'] for hit in hits} > {'built'}
"""
    tenant_ = tenant(tmp_path / "home")
    with EventLog(tenant_.log, create=True) as log:
        commands.record(log, commands.Draft(id="built", content="who may deploy"), NOW)
        rebuild(tenant_, log, LexicalEmbedder(), NOW)
    assert loaded(statement, tmp_path).isdisjoint(SLOW)


def test_listing_jobs_loads_no_scheduler(tmp_path: Path):
    assert "dagster" not in loaded("import pipelines.__main__", tmp_path)

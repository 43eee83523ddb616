"""
The allowed imports (ARCHITECTURE.md, "Rules"), read from the syntax trees; nothing is imported.
"""

import ast
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("store", "serve", "pipelines")
# Each passes the environment on, to a child process, `config.load` or litellm; none reads a
# setting.
HAND_THE_ENVIRONMENT_ON = {
    "store/embedders/remote.py",
    "serve/server/processes.py",
    "serve/unserved.py",
    "serve/client.py",  # imports nothing of ours: it reads MNEMOLOG_HOME itself
    "serve/mcp_bridge.py",  # likewise, and MNEMOLOG_OFF
    "serve/program/mnemolog/connection.py",
    "serve/cli/environment.py",
    "serve/cli/__init__.py",  # NO_COLOR, as every program does
    "store/importers/git_command.py",
    "pipelines/orchestration/dagster_home.py",
    "pipelines/llm/claude_code_model.py",
    "pipelines/llm/codex_model.py",  # and finds the folder of Codex, CODEX_HOME
    "pipelines/llm/provider.py",
}


@dataclass(frozen=True)
class Imported:
    """An import: its file and module, whether importing the file runs it, and whether for types."""

    file: str
    module: str
    at_import: bool
    for_types: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@cache
def files() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
    }


@cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """Return every node of the syntax trees, with its file."""
    return tuple((file, node) for file, tree in files().items() for node in ast.walk(tree))


@cache
def imports() -> tuple[Imported, ...]:
    return tuple(
        imported
        for file, tree in files().items()
        for imported in _imports(file, tree, at_import=True, for_types=False)
    )


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Keep the garbage collector off a million nodes, and release them after these tests."""
    gc.disable()
    yield
    nodes.cache_clear()
    files.cache_clear()
    gc.enable()


def _imports(file: str, node: ast.AST, *, at_import: bool, for_types: bool) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        yield from (Imported(file, alias.name, at_import, for_types) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        # `from store import log` imports store.log.event_log: each name may be a module
        module = node.module or ""
        names = [f"{module}.{alias.name}" for alias in node.names]
        yield from (Imported(file, name, at_import, for_types) for name in names)
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    only_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # contains no import
        runs = at_import and not inside and not only_for_types
        typed = for_types or only_for_types
        yield from _imports(file, child, at_import=runs, for_types=typed)


def breaking(is_wrong: Callable[[Imported], bool]) -> list[str]:
    return [f"{imported.file}: {imported.module}" for imported in imports() if is_wrong(imported)]


def room(file: str) -> str:
    """Return the folder of a file; the file itself if it lies directly in its layer."""
    folder = file.rpartition("/")[0]
    return file if folder in LAYERS else folder


def file_of(module: str) -> str | None:
    """Return the file that defines a module, or a name of one; None for other packages."""
    for name in (module, module.rpartition(".")[0]):
        path = name.replace(".", "/")
        if name.startswith("mnemolog"):
            path = f"serve/program/{path}"
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in files():
                return file
    return None


def test_no_two_rooms_import_each_other():
    edges = {
        (room(imported.file), room(target))
        for imported in imports()
        if not imported.for_types
        and (target := file_of(imported.module))
        and room(target) != room(imported.file)
    }
    assert len(edges) > 100
    assert not [(a, b) for a, b in edges if a < b and (b, a) in edges]


def test_no_import_leads_back_to_its_file():
    needs: dict[str, set[str]] = {file: set() for file in files()}
    for imported in imports():
        target = file_of(imported.module)
        if target and target != imported.file and not imported.for_types:
            needs[imported.file].add(target)
    assert tuple(TopologicalSorter(needs).static_order())  # raises CycleError, which names it


def test_every_layer_was_read():
    assert {file.partition("/")[0] for file in files()} == set(LAYERS)
    assert len(files()) > 50


def test_imports_are_absolute():
    assert not [file for file, node in nodes() if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize(
    ("layer", "others"), [("store/", ("serve", "pipelines")), ("serve/", ("pipelines",))]
)
def test_the_store_imports_no_other_layer_and_the_server_no_jobs(layer: str, others: set[str]):
    assert not breaking(lambda imported: imported.file.startswith(layer) and imported.top in others)


def test_the_jobs_take_only_recall_and_its_evaluation_from_the_server():
    assert not breaking(
        lambda imported: (
            imported.file.startswith("pipelines/")
            and imported.top == "serve"
            and not f"{imported.module}.".startswith(("serve.recall.", "serve.evaluation."))
        )
    )


PURE_RANKING = {
    "serve/recall/neighbours.py",
    "serve/evaluation/off_policy.py",
    "serve/recall/scoring.py",
}


def test_ranking_imports_nothing_of_ours_and_does_no_io():
    allowed = {"collections", "math", "msgspec", "numpy", "typing", "numkong"}
    assert files().keys() >= PURE_RANKING
    assert not breaking(
        lambda imported: imported.file in PURE_RANKING and imported.top not in allowed
    )


@pytest.mark.parametrize(
    ("module", "owners"),
    [
        (
            "apsw",
            {
                "store/maintenance/backup.py",
                "store/maintenance/erase_scan.py",
                "store/log/event_log.py",
                "store/log/checks.py",
                "store/log/connections.py",
                "store/log/log_file.py",
                "store/log/log_head.py",
                "store/log/rows.py",
                "store/ingest/job_queue.py",
                "store/ingest/queue_file.py",
                "store/importers/opencode.py",
                "store/importers/source_files.py",
            },
        ),
        ("sqlite3", set()),
        ("tomllib", {"store/home/config.py", "serve/connect/text_edits.py"}),
        ("litellm", {"pipelines/llm/provider.py", "store/embedders/remote.py"}),
        (
            "flask",
            {
                "serve/app.py",
                "serve/server/request_guard.py",
                "serve/server/problems.py",
                "serve/api/operation.py",
                "serve/api/blueprint.py",
                "serve/hooks/endpoint.py",
                "serve/server/process.py",
                "serve/mcp_server/endpoint.py",
            },
        ),
        ("waitress", {"serve/server/process.py"}),
    ],
)
def test_an_outside_thing_has_one_owner(module: str, owners: set[str]):
    assert not breaking(
        lambda imported: (
            imported.top == module
            and imported.file not in owners
            and not (module == "flask" and imported.file.startswith("serve/dashboard/"))
        )
    )


@pytest.mark.parametrize("module", ["dagster", "dagster_shared", "dagster_webserver"])
def test_only_orchestration_knows_dagster(module: str):
    assert not breaking(
        lambda imported: (
            imported.top == module and not imported.file.startswith("pipelines/orchestration/")
        )
    )


@pytest.mark.parametrize("module", ["polars", "lancedb"])
def test_the_store_imports_what_is_slow_only_where_it_is_used(module: str):
    assert not breaking(lambda imported: imported.top == module and imported.at_import)
    assert not breaking(
        lambda imported: imported.top == module and imported.file.startswith("serve/")
    )


def test_the_environment_is_read_in_one_place():
    reading = {
        file
        for file, node in nodes()
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "environb", "getenv")
        and ast.unparse(node.value) == "os"
    }
    assert reading <= HAND_THE_ENVIRONMENT_ON | {"store/home/config.py"}
    assert not breaking(lambda imported: imported.module in ("os.environ", "os.getenv"))


def test_no_setting_is_read_around_the_settings():
    assert not [
        f"{file}: {ast.unparse(node)}"
        for file, node in nodes()
        if isinstance(node, ast.Call | ast.Subscript)
        and ast.unparse(node).startswith(("os.environ.get('MNEMOLOG", "os.environ['MNEMOLOG"))
    ]


def test_no_module_is_named_like_a_standard_one():
    ours = [*files(), *(f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py"))]
    assert not [file for file in ours if Path(file).stem in sys.stdlib_module_names]


def test_tests_are_no_package():
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_dagster_sees_annotations_as_classes():
    # https://github.com/dagster-io/dagster/issues/26837
    assert not breaking(
        lambda imported: (
            imported.file.startswith("pipelines/") and imported.module.startswith("__future__")
        )
    )


# each can run code from bytes that somebody else may have written
UNPICKLING = set("pickle cPickle _pickle dill cloudpickle shelve marshal joblib".split())
# the parts of yaml that create only plain values; `load` would create anything
PLAIN_YAML = {"safe_load", "safe_dump", "parse", "SafeLoader", "AliasEvent", "YAMLError"}
RUNNING = {"eval", "exec", "compile", "__import__"}


def test_nothing_that_is_read_is_ever_run():
    assert not breaking(lambda imported: imported.top in UNPICKLING)
    assert not breaking(
        lambda imported: imported.module.startswith("yaml.")
    )  # `from yaml import ...`
    assert not [
        f"{file}: yaml.{node.attr}"
        for file, node in nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "yaml"
        and node.attr not in PLAIN_YAML
    ]
    calls = [
        f"{file}: {ast.unparse(node)[:60]}"
        for file, node in nodes()
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id in RUNNING)
            or any(word.arg in ("allow_pickle", "shell") for word in node.keywords)
        )
    ]
    assert calls == []


def test_no_sql_reaches_the_log_from_outside_its_folder():
    assert not [
        f"{file}: {ast.unparse(node)}"
        for file, node in nodes()
        if not file.startswith("store/log/")
        and isinstance(node, ast.Attribute)
        and node.attr in ("select_rows", "sql", "writer")
    ]

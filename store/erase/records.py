"""
Records: what others wrote below the home and may quote a memory: Dagster's runs, logs, failures,
copies of files that were damaged.

Dagster keeps each run in SQLite files below `dagster/`, with the pages' metadata: samples, plans, a
memory before and after. A run that quotes what was erased is dropped whole, its pictures too.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import apsw

from store.erase import contents
from store.erase.scan import files
from store.home.files import remove_files
from store.log import log_file
from store.text.fingerprints import Looker

_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_OURS = ("dagster.yaml", "ui.json")  # settings, and where the pages are served


@dataclass
class _Database:
    """One of Dagster's files: its tables and their columns, and the rows that quote."""

    path: Path
    columns: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)


def drop(home: Path, tenant: Path, looker: Looker) -> list[str]:
    """Drop what quotes the erased below a home; return what it was, relative to the home.

    Of a run that is not over only the rows that quote go; what it writes after, the scan will name.
    Raise LogBusy where Dagster holds a file for long.
    """
    dropped = [
        *_runs(home / "dagster", looker),
        *_logs(home, tenant, looker),
        *_damaged(tenant / "damaged", looker),
    ]
    return [path.relative_to(home).as_posix() for path in dropped]


def _logs(home: Path, tenant: Path, looker: Looker) -> Iterator[Path]:
    """Empty logs that quote, which their writers hold open, and delete what tells of failures."""
    for path in (*_beside(home), *_beside(tenant)):
        if any(looker.holds(text) for text in contents.raw(path)):
            if path.suffix == ".json":
                remove_files([path])
            else:
                with path.open("r+b") as file:
                    file.truncate(0)
                    os.fsync(file.fileno())  # else it may be as long again after a power cut
            yield path


def _beside(folder: Path) -> Iterator[Path]:
    for pattern in ("*.log", "*.log.*", "failures/*.json", "refused.json"):
        yield from sorted(folder.glob(pattern))


def _damaged(folder: Path, looker: Looker) -> Iterator[Path]:
    """Delete what was kept of damaged files where it quotes, or nobody can tell."""
    for path in files(folder):
        try:
            within = contents.decoded(path) or ()
            quotes = any(looker.holds(one, words=True) for one in chain(contents.raw(path), within))
        except contents.Unreadable:
            quotes = True
        if quotes:
            remove_files([path])
            yield path


def _runs(folder: Path, looker: Looker) -> Iterator[Path]:
    """Drop Dagster's runs that quote, out of all its files."""
    databases = [_opened(path, looker) for path in sorted(folder.rglob("*.db"))]
    going = set[str]().union(*(one.runs for one in databases))
    going -= _at_work(folder, going)
    for one in databases:
        if one.path.stem in going:  # a run's own file
            remove_files([one.path, *one.path.parent.glob(f"{one.path.name}-*")])
            yield one.path
        elif one.rows or going:
            if _cleared(one, going):
                yield one.path
    for run in going:
        shutil.rmtree(folder / "storage" / run, ignore_errors=True)
    for path in files(folder):
        is_plain = path.suffix not in (".db", ".db-wal", ".db-shm") and path.name not in _OURS
        if is_plain and any(looker.holds(text) for text in contents.raw(path)):
            remove_files([path])
            yield path


def _opened(path: Path, looker: Looker) -> _Database:
    """Return which rows and runs of a file quote."""
    found = _Database(path)
    with _connected(path) as connection:
        for (name,) in connection.execute(_TABLES).fetchall():
            table = str(name)
            names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            found.columns[table] = names
            for number, *row in connection.execute(f'SELECT rowid, * FROM "{table}"'):
                if any(looker.holds(text) for one in row for text in contents.of_value(one)):
                    found.rows.setdefault(table, []).append(number)
                    if "run_id" in names and (run := row[names.index("run_id")]):
                        found.runs.add(run)
    return found


def _at_work(folder: Path, runs: set[str]) -> set[str]:
    """Return those of some runs that are not over."""
    path = folder / "history" / "runs.db"
    if not path.exists() or not runs:
        return set()
    with _connected(path) as connection:
        known = connection.execute("SELECT run_id, status FROM runs").fetchall()
    return {run for run, status in known if run in runs and status not in _ENDED}


def _cleared(one: _Database, runs: set[str]) -> bool:
    """Delete the rows that quote and all rows of some runs; return whether there were any."""
    changed = 0
    with _connected(one.path) as connection:
        assert connection.pragma("secure_delete", True), "SQLite overwrites what it deletes"
        with log_file.immediate(connection):
            for table, names in one.columns.items():
                for number in one.rows.get(table, ()):
                    connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (number,))
                    changed += connection.changes()
                if "run_id" in names:
                    for run in runs:
                        connection.execute(f'DELETE FROM "{table}" WHERE run_id = ?', (run,))
                        changed += connection.changes()
        if changed:
            connection.execute("VACUUM")
            if connection.pragma("journal_mode") == "wal":
                log_file.settle(connection)
    return bool(changed)


_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


@contextmanager
def _connected(path: Path) -> Iterator[apsw.Connection]:
    with log_file.translated(path), closing(log_file.connect(path)) as connection:
        yield connection

"""
Run records: Dagster's databases, in its own files and tables, each opened once while a run lasts.

Dagster's SQLite storages make an engine and open and close a file for every event. That was a
third of the CPU of a build of a small memory. Dagster's pages, and runs that they launch, use its
own storages on the same files.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, Engine

_INDEX = "index"  # Dagster's name of the database that all runs share


def with_open_files(ref: InstanceRef) -> InstanceRef:
    """Return an instance's description with these storages; unchanged if another one is set."""
    runs, event_log = ref.run_storage_data, ref.event_storage_data
    chosen = ref.storage_data and ref.storage_data.class_name
    if chosen != DagsterSqliteStorage.__name__ or runs is None or event_log is None:
        return ref
    return ref._replace(
        storage_data=None,
        run_storage_data=runs._replace(module_name=__name__, class_name=Runs.__name__),
        event_storage_data=event_log._replace(module_name=__name__, class_name=EventLog.__name__),
    )


class Runs(SqliteRunStorage):
    """The runs, their states and tags."""

    def __init__(self, conn_string: str, inst_data: Any = None) -> None:
        self._engine = _engine(conn_string)
        super().__init__(conn_string, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "Runs":
        return cls.from_local(inst_data=inst_data, **config_value)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        super().dispose()
        self._engine.dispose()


class EventLog(SqliteEventLogStorage):
    """The events of each run, in a database of its own, and the shared ones, in one more."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._tables: set[str] = set()
        self._lock = threading.Lock()
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "EventLog":
        return cls(inst_data=inst_data, **config_value)

    def run_connection(self, run_id: str | None = None) -> Any:
        return self._open(str(run_id))

    def index_connection(self) -> Any:
        return self._open(_INDEX)

    def has_table(self, table_name: str) -> bool:
        """Return True if a table exists: Dagster checks before each query of it."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    @contextmanager
    def _open(self, shard: str) -> Iterator[Connection]:
        with self._lock:
            if shard not in self._engines:
                if shard != _INDEX:  # only one run is under way: more would cost descriptors
                    self._close_runs()
                with self._connect(shard):  # which makes the tables
                    pass
                self._engines[shard] = _engine(self.conn_string_for_shard(shard))
            with self._engines[shard].begin() as connection:
                yield connection

    def _close_runs(self) -> None:
        for shard in self._engines.keys() - {_INDEX}:
            self._engines.pop(shard).dispose()

    def delete_events(self, run_id: str) -> None:
        """Delete a run's events; its file is closed, and may be deleted."""
        super().delete_events(run_id)
        with self._lock:
            self._close_runs()

    def dispose(self) -> None:
        super().dispose()
        with self._lock:
            while self._engines:
                self._engines.popitem()[1].dispose()


def _engine(address: str) -> Engine:
    return create_engine(address, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})

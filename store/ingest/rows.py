"""
The queue's file: how it is made and opened, and what its rows say.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from store.errors import LogForeign, LogVersion
from store.ingest.job import Job
from store.logfile import file as log_file

APPLICATION_ID = 0x6D6E6D71  # "mnmq": the log's is another
SCHEMA_VERSION = 1

COLUMNS = (
    "number, id, at, state, attempts, next_at, owner, lease_until, ended_at, items, turns, done, "
    "json_array_length(refused), error"
)


def job_of(row: Sequence[Any]) -> Job:
    """Return the job that a row of `COLUMNS` tells."""
    return Job(**dict(zip(Job.__struct_fields__, row, strict=True)))


def opened(path: Path) -> apsw.Connection:
    """Return a connection to the queue at a path, made where there is none.

    Raise what SQLite says, LogForeign for another program's file, LogVersion for a later one's.
    """
    log_file.create_file(path)
    connection = log_file.connect(path)
    try:
        _prepare(connection, path)
    except BaseException:  # an interrupt too: what was opened is closed, then it goes on
        connection.close()
        raise
    return connection


def _prepare(connection: apsw.Connection, path: Path) -> None:
    if not int(connection.pragma("user_version")):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before there is a page
        log_file.write_ahead(connection)
        with log_file.immediate(connection):
            if not int(connection.pragma("user_version")):  # another process may have been first
                connection.execute(files("store.ingest").joinpath("schema.sql").read_text())
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    if connection.pragma("application_id") != APPLICATION_ID:
        raise LogForeign(f"{path} is another program's database: move it away")
    if int(connection.pragma("user_version")) > SCHEMA_VERSION:
        raise LogVersion(f"{path} is of a newer mnemolog: upgrade mnemolog")
    connection.execute("PRAGMA synchronous = FULL")
    # what was recorded may be erased from the log later: nothing of it is to stay here
    connection.pragma("secure_delete", True)

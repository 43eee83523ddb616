"""
Copies of a tenant's SQLite files, taken while others write, and what must be true of one that
comes back.

The copy is SQLite's own (https://www.sqlite.org/backup.html), in one step, so it is the file at one
moment. One that comes from elsewhere could hold triggers and views of somebody else's, which would
run as ours: its schema must be ours to the word (https://www.sqlite.org/security.html).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import apsw

from store.backup import archive
from store.home.errors import LogCorrupt, LogForeign, LogVersion
from store.ingest import queue_file
from store.log import log_file
from store.log.log_file import Row

_COMMENT = re.compile(r"--[^\n]*")
_SPACE = re.compile(r" ?([(),;]) ?")
_UNFINISHED = (
    "DELETE FROM jobs WHERE state = 'done'",
    "UPDATE jobs SET state = 'queued', owner = NULL, lease_until = NULL WHERE state = 'running'",
    "VACUUM",
)


def copy_log(path: Path, to: Path) -> None:
    """Copy a log as it is at one moment; raise what `translated` does."""
    with _copied(path, to) as copy:
        copy.execute("VACUUM")  # a page may still hold what was erased from the rows on it


def copy_queue(path: Path, to: Path) -> None:
    """Copy the batches that wait, to be taken up by whoever opens the copy."""
    with _copied(path, to) as copy:
        for statement in _UNFINISHED:
            copy.execute(statement)


@contextmanager
def _copied(path: Path, to: Path) -> Iterator[apsw.Connection]:
    with log_file.translated(path):
        log_file.create_file(to)
        source = log_file.connect(path)
        try:
            copy = apsw.Connection(str(to))
            try:
                with copy.backup("main", source, "main") as backup:
                    backup.step(-1)
                yield copy
            finally:
                copy.close()
        finally:
            source.close()


def check_log(path: Path) -> tuple[int, int]:
    """Look at a log that came from elsewhere, and make it written ahead, as ours are.

    Return the length of its longest body, and the moment of its newest event. Raise LogForeign
    where its tables are not ours to the word, LogVersion where they are those of a later mnemolog,
    LogCorrupt where SQLite finds damage in it.
    """
    version = log_file.SCHEMA_VERSION
    with _checked(path, log_file.APPLICATION_ID, version, "store") as connection:
        found: list[Row] = connection.execute(
            "SELECT max(octet_length(body)), min(at), max(at) FROM events"
        ).fetchall()
    longest, oldest, newest = (number or 0 for number in found[0])
    if not archive.FIRST <= oldest <= newest <= archive.LAST:
        raise LogCorrupt(f"{path.name} holds an event of no year from 1 to 9999")
    return longest, newest


def check_queue(path: Path) -> None:
    """Look at a queue as `check_log` does at a log; raise the same."""
    with _checked(path, queue_file.APPLICATION_ID, queue_file.SCHEMA_VERSION, "store.ingest"):
        pass


@contextmanager
def _checked(path: Path, owner: int, newest: int, package: str) -> Iterator[apsw.Connection]:
    with log_file.translated(path):
        connection = log_file.connect(path)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.pragma("cell_size_check", True)
            if connection.pragma("application_id") != owner:
                raise LogForeign(f"{path.name} is another program's database")
            if not 0 < int(connection.pragma("user_version")) <= newest:
                raise LogVersion(f"{path.name} was written by a newer mnemolog: upgrade it")
            _check_schema(connection, path.name, package)
            damage = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
            if damage != ["ok"]:
                raise LogCorrupt(f"{path.name}: {'; '.join(damage)}")
            log_file.write_ahead(connection)
            yield connection
        finally:
            connection.close()


def _check_schema(connection: apsw.Connection, name: str, package: str) -> None:
    ours = apsw.Connection(":memory:")
    try:
        ours.execute(files(package).joinpath("schema.sql").read_text())
        known = {*_statements(ours), *map(_plain, log_file.MIGRATIONS.values())}
        wanted = set(_made(ours)) - {"segments"}  # an older log has none yet
    finally:
        ours.close()
    if strange := [one for one in _statements(connection) if one not in known]:
        raise LogForeign(f"{name} holds what mnemolog never made: {strange[0]:.80}")
    if missing := wanted - set(_made(connection)):
        raise LogForeign(f"{name} has no {', '.join(sorted(missing))}")


def _statements(connection: apsw.Connection) -> Iterator[str]:
    for (text,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"):
        yield _plain(text)


def _made(connection: apsw.Connection) -> Iterator[str]:
    """Yield the names of tables and triggers; the indexes that are missing make nothing wrong."""
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema"):
        if kind in ("table", "trigger"):
            yield name


def _plain(statement: str) -> str:
    """Return a statement without comments and needless space: a migration has them otherwise."""
    return _SPACE.sub(r"\1", " ".join(_COMMENT.sub(" ", statement).split()))

"""Older logs: schema 5, as written by the version before authors, origins and clocks."""

from pathlib import Path

import apsw

from store.log.rows import BODY, COLUMNS, row_hash


def make_older(path: Path) -> None:
    """Remove the columns' and tables' contents of schema 6 from a log that no process has open."""
    connection = apsw.Connection(str(path))
    with connection:
        (guard,) = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'events_keep_update'"
        ).fetchall()[0]
        connection.execute("DROP TRIGGER events_keep_update; DROP TABLE vocabulary")
        for row in connection.execute(f"SELECT {COLUMNS} FROM events").fetchall():
            mark = row_hash((*row[1 : BODY + 1], None, None, None))
            connection.execute("UPDATE events SET sha256 = ? WHERE seq = ?", (mark, row[0]))
        for name in ("author", "origin", "clock"):
            connection.execute(f"ALTER TABLE events DROP COLUMN {name}")
        connection.execute(guard)
        connection.execute("PRAGMA user_version = 5")
    connection.close()

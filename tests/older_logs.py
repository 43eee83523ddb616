"""
Older logs: a log as the version before authors, origins and clocks left it, schema 5.
"""

from pathlib import Path

import apsw

from store.log.rows import BODY, COLUMNS, row_hash


def make_older(path: Path) -> None:
    """Take out of a log, which nobody has open, what its columns and tables of schema 6 hold."""
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

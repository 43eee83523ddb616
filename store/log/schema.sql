-- The event log: one table, the triggers that keep it append-only, and where old bodies lie.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,          -- the total order; contiguous from 1
    id      TEXT NOT NULL UNIQUE,         -- ULID or the client's own: the same id is the same event
    at      INTEGER NOT NULL,             -- microseconds UTC
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,                -- the memory it is about
    project TEXT,
    session TEXT,
    agent   TEXT,
    trust   TEXT NOT NULL,
    body    TEXT NOT NULL,                -- JSON; empty where it lies in a segment
    sha256  BLOB NOT NULL,                -- of all columns but seq; without the three below
                                          -- where they are null, as before version 6
    author  TEXT,                         -- who wrote it
    origin  TEXT,                         -- the home that it was first written in
    clock   INTEGER                       -- hybrid logical clock, microseconds
) STRICT;

CREATE INDEX events_by_subject ON events (subject, seq);
CREATE INDEX events_by_session ON events (session, seq) WHERE session IS NOT NULL;
CREATE INDEX events_of_jobs ON events (kind, seq)
    WHERE kind IN ('planned', 'applied', 'undone', 'judged', 'adopted', 'called');
CREATE INDEX events_by_kind ON events (kind, at);  -- counts over time never touch the table

-- The Parquet files below cold/log that hold the bodies of old receipts.
CREATE TABLE segments (
    name    TEXT PRIMARY KEY,
    first   INTEGER NOT NULL,             -- seq
    last    INTEGER NOT NULL,
    events  INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    sha256  TEXT NOT NULL                 -- of the file, hex
) STRICT;

-- The kinds of event in the log, with the newest version of their bodies that it may hold.
CREATE TABLE vocabulary (
    kind    TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;

CREATE TRIGGER events_keep_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

CREATE TRIGGER events_keep_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

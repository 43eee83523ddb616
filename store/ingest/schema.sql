-- The queue: one row for each accepted batch. The log, not this file, proves what was recorded.
CREATE TABLE jobs (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of acceptance
    id          TEXT NOT NULL UNIQUE,
    at          INTEGER NOT NULL,        -- accepted; microseconds UTC, as all moments here
    state       TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'dead')),
    attempts    INTEGER NOT NULL DEFAULT 0,
    next_at     INTEGER NOT NULL,        -- not before
    owner       TEXT,                    -- who holds the lease
    lease_until INTEGER,
    ended_at    INTEGER,                 -- done or dead
    items       INTEGER NOT NULL,
    turns       INTEGER NOT NULL,        -- how many of them are turns of a conversation
    parsed      INTEGER NOT NULL DEFAULT 0,  -- facts were read out of its turns
    done        INTEGER NOT NULL DEFAULT 0,  -- items that need not be looked at again
    error       TEXT,                    -- why the last attempt failed
    refused     TEXT NOT NULL,           -- JSON: which items, and why
    ids         TEXT NOT NULL,           -- JSON: the memory of each item
    body        BLOB NOT NULL,           -- JSON: the events, redacted; empty once it is done
    digest      BLOB NOT NULL            -- of the body, as it was
) STRICT;

CREATE INDEX jobs_by_state ON jobs (state, number);

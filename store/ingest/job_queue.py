"""
The job queue: accepted batches of one tenant, leased and recorded in its log.

Invariants: `accept` returns only after COMMIT with `synchronous=FULL`, and its batch was redacted
before. A job has one holder at a time: a lease, which ends by itself if its holder does. Any number
of processes may accept and lease; each change is one `BEGIN IMMEDIATE`.
"""

import os
import secrets
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import apsw
import msgspec
from msgspec.structs import replace

from store.home.errors import Conflict, IdempotencyMismatch, InvalidInput, NotFound, QueueFull
from store.home.instants import DAY
from store.home.registry import lives
from store.ingest.batch import Batch, Refused, batch_events, drop_memories
from store.ingest.queue_file import (
    COLUMNS,
    LEASE_US,
    MOST_ATTEMPTS,
    STATES,
    Job,
    Lease,
    Outcome,
    QueueFile,
    State,
    Value,
    job_from_row,
    read_rows,
    retry_us,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import BUSY_TIMEOUT_MS, Row
from store.redaction import redact

MOST_JOBS = 512  # pending ones: more are never worked off soon
MOST_BYTES = 256 << 20  # of pending batches
KEPT_US = 7 * DAY  # a finished job, for callers that ask for its outcome
MOST_KEPT = 10_000
_LONGEST = 500  # characters of an error

_refused = msgspec.json.Decoder(tuple[Refused, ...])
_ids = msgspec.json.Decoder(tuple[str | None, ...])


class Queue:
    """A queue. Threads may share it. Its file is made by the first `accept`, or any write."""

    def __init__(self, path: Path) -> None:
        self._file = QueueFile(path)

    @property
    def path(self) -> Path:
        return self._file.path

    def close(self) -> None:
        self._file.close()

    def accept(self, id_: str, at: int, batch: Batch, key: str = "") -> tuple[Job, bool]:
        """Store a batch as a job; return it, and whether it is new: the same id is the same job.

        `key` is the beginning that the ids of one idempotency key share. Raise IdempotencyMismatch
        if a job of that key, or this id, has other contents, QueueFull if too much is pending, and
        LogBusy, LogFull or LogReadOnly for disk errors.
        """
        with self._file.transaction() as connection:
            if key and read_rows(connection, _ANOTHER, key, f"{key}~", id_):
                raise IdempotencyMismatch(
                    "this Idempotency-Key was used for another request: use a new one for each"
                )
            rows = read_rows(connection, f"SELECT digest, {COLUMNS} FROM jobs WHERE id = ?", id_)
            if rows:
                digest, *row = rows[0]
                if digest != batch.digest:
                    raise IdempotencyMismatch(f"job {id_} holds another batch: send a new key")
                return job_from_row(row), False
            _check_room(connection, len(batch.body))
            (inserted,) = read_rows(
                connection,
                "INSERT INTO jobs (id, at, state, next_at, items, turns, refused, ids, body, "
                f"digest) VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?) RETURNING {COLUMNS}",
                *(id_, at, at, len(batch.ids), batch.turns),
                *(_json(batch.refused), _json(batch.ids), batch.body, batch.digest),
            )
            return job_from_row(inserted), True

    def get(self, id_: str) -> Job:
        """Return a job; raise NotFound."""
        return job_from_row(self._one(COLUMNS, id_))

    def outcome(self, id_: str) -> Outcome:
        """Return the outcome of a job's items, as far as it is known; raise NotFound."""
        ids, refused = self._one("ids, refused", id_)
        return Outcome(_ids.decode(ids), _refused.decode(refused))

    def list_jobs(
        self, state: State | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[Job]:
        """Return jobs, the newest first, of a state, those with a number below `before`."""
        where = "(?1 IS NULL OR state = ?1) AND (?2 IS NULL OR number < ?2)"
        rows = self._file.read(
            f"SELECT {COLUMNS} FROM jobs WHERE {where} ORDER BY number DESC LIMIT ?3",
            *(state, before, limit),
        )
        return [job_from_row(row) for row in rows]

    def counts(self) -> dict[State, int]:
        """Return the number of jobs in each state."""
        counts: dict[State, int] = dict(
            self._file.read("SELECT state, count(*) FROM jobs GROUP BY state")
        )
        return dict.fromkeys(STATES, 0) | counts

    def lease(self, owner: str, now: int) -> Lease | None:
        """Take the oldest job that is due, or whose lease ended; None if there is none.

        A job that was taken too often is dead instead: each of its holders ended.
        """
        if not self._file.read(_DUE, now):  # most looks end here, and hold no lock
            return None
        with self._file.transaction() as connection:
            connection.execute(_WORN_OUT, (now, MOST_ATTEMPTS))
            rows = read_rows(
                connection,
                "UPDATE jobs SET state = 'running', attempts = attempts + 1, owner = ?2, "
                f"lease_until = ?3 WHERE number = ({_DUE}) RETURNING body, {COLUMNS}",
                *(now, owner, now + LEASE_US),
            )
        if not rows:
            return None
        body, *row = rows[0]
        job = job_from_row(row)
        left = tuple(event for event in batch_events(body, job.at) if event[0] >= job.done)
        return Lease(job, owner, left)

    def advance(self, lease: Lease, done: int, refused: Sequence[Refused], now: int) -> bool:
        """Record that the items below a place are done, and renew the lease.

        Attempts count from there: a job that advances does not kill its holder. Return True if it
        was still ours; if not, another process records the rest, and nothing twice.
        """
        to = "done = ?3, lease_until = ?4, attempts = 1"
        with self._file.transaction() as connection:
            is_ours = self._update_leased(connection, lease, to, done, now + LEASE_US)
            return is_ours and self._refuse(connection, lease, refused)

    def finish(self, lease: Lease, refused: Sequence[Refused], now: int) -> bool:
        """Record that a job is done, and drop its batch; return True if it was still ours."""
        to = (
            "state = 'done', done = items, body = x'', error = NULL, owner = NULL, "
            "lease_until = NULL, ended_at = ?3"
        )
        with self._file.transaction() as connection:
            is_ours = self._update_leased(connection, lease, to, now)
            return is_ours and self._refuse(connection, lease, refused)

    def fail(self, lease: Lease, text: str, now: int, chance: float) -> bool:
        """Schedule a job's next attempt, or make it dead after the last; `chance` in [0, 1).

        Return True if it was still ours.
        """
        is_last = lease.job.attempts >= MOST_ATTEMPTS
        with self._file.transaction() as connection:
            return self._update_leased(
                connection,
                lease,
                "state = ?3, next_at = ?4, error = ?5, ended_at = ?6, owner = NULL, "
                "lease_until = NULL",
                "dead" if is_last else "queued",
                now + retry_us(lease.job.attempts, chance),
                redact.redact(" ".join(text.split()))[:_LONGEST],
                now if is_last else None,
            )

    def release(self, lease: Lease) -> bool:
        """Give a job back unchanged, so that we can end; that attempt does not count."""
        with self._file.transaction() as connection:
            return self._update_leased(
                connection,
                lease,
                "state = 'queued', attempts = attempts - 1, owner = NULL, lease_until = NULL",
            )

    def release_of(self, is_gone: Callable[[str], bool]) -> int:
        """Give back the jobs of ended owners, before their lease ends; return their number."""
        running = self._file.read("SELECT DISTINCT owner FROM jobs WHERE state = 'running'")
        owners = [owner for (owner,) in running if is_gone(owner)]
        if not owners:
            return 0
        with self._file.transaction() as connection:
            freed = [
                read_rows(
                    connection,
                    "UPDATE jobs SET state = 'queued', owner = NULL, lease_until = NULL "
                    "WHERE state = 'running' AND owner = ? RETURNING id",
                    owner,
                )
                for owner in owners
            ]
        return sum(map(len, freed))

    def requeue(self, id_: str, now: int) -> Job:
        """Try a dead job again, from its first attempt; raise NotFound, or Conflict for another."""
        with self._file.transaction() as connection:
            rows = read_rows(
                connection,
                "UPDATE jobs SET state = 'queued', attempts = 0, next_at = ?, ended_at = NULL "
                f"WHERE id = ? AND state = 'dead' RETURNING {COLUMNS}",
                *(now, id_),
            )
        if rows:
            return job_from_row(rows[0])
        raise Conflict(f"job {id_} is {self.get(id_).state}: only a dead one is tried again")

    def erase(
        self, memories: Collection[str], quotes: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Drop the pending items of erased memories; the log has each of them already.

        Error texts that quote an erased memory, according to `quotes`, go too.
        """
        if not self._file.exists:
            return
        with self._file.transaction() as connection:
            for number, body in read_rows(
                connection, "SELECT number, body FROM jobs WHERE body != x''"
            ):
                shorter = drop_memories(body, memories)
                if shorter != body:
                    connection.execute(
                        "UPDATE jobs SET body = ? WHERE number = ?", (shorter, number)
                    )
            quoting = (
                "SELECT number, refused, error FROM jobs WHERE refused != '[]' OR error NOTNULL"
            )
            for number, refused, error in read_rows(connection, quoting):
                if quotes(refused) or quotes(error or ""):
                    items = [
                        replace(item, reason="erased") if quotes(item.reason) else item
                        for item in _refused.decode(refused)
                    ]
                    connection.execute(
                        "UPDATE jobs SET refused = ?, error = NULL WHERE number = ?",
                        (_json(items), number),
                    )
        self._file.settle()

    def newest_unread(self) -> int:
        """Return the number of the newest job whose turns were not searched for facts; else 0."""
        rows = self._file.read(
            "SELECT number FROM jobs WHERE state = 'done' AND turns > 0 AND NOT parsed "
            "ORDER BY number DESC LIMIT 1"
        )
        return int(rows[0][0]) if rows else 0

    def mark_read(self, number: int) -> None:
        """Record that facts were extracted from the turns of the jobs up to a number."""
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET parsed = 1 WHERE number <= ? AND state = 'done'", (number,)
            )

    def tidy(self, now: int) -> None:
        """Drop old finished jobs, and release unused space in the file.

        Nothing is written if there is nothing to do.
        """
        if self._file.read(f"SELECT 1 FROM jobs WHERE {_OLD} LIMIT 1", now - KEPT_US, MOST_KEPT):
            with self._file.transaction() as connection:
                connection.execute(f"DELETE FROM jobs WHERE {_OLD}", (now - KEPT_US, MOST_KEPT))
        if self._file.read("SELECT 1 FROM pragma_freelist_count WHERE freelist_count > 0"):
            with self._file.transaction() as connection:
                read_rows(
                    connection, "PRAGMA incremental_vacuum"
                )  # to its end: it works row by row
        self._file.settle()

    def _update_leased(
        self, connection: apsw.Connection, lease: Lease, to: str, *values: Value
    ) -> bool:
        """Change a job that is still ours; return True if it was."""
        return bool(
            read_rows(
                connection,
                f"UPDATE jobs SET {to} WHERE id = ?1 AND owner = ?2 AND state = 'running' "
                "RETURNING id",
                *(lease.job.id, lease.owner, *values),
            )
        )

    def _refuse(
        self, connection: apsw.Connection, lease: Lease, refused: Sequence[Refused]
    ) -> bool:
        """Add refused items to a job that is ours."""
        if refused:
            ((before,),) = read_rows(
                connection, "SELECT refused FROM jobs WHERE id = ?", lease.job.id
            )
            by_item = {item.item: item for item in (*_refused.decode(before), *refused)}
            connection.execute(
                "UPDATE jobs SET refused = ? WHERE id = ?",
                (_json([by_item[place] for place in sorted(by_item)]), lease.job.id),
            )
        return True

    def _one(self, columns: str, id_: str) -> Row:
        rows = self._file.read(f"SELECT {columns} FROM jobs WHERE id = ?", id_)
        if not rows:
            raise NotFound(f"no job {id_!r}: done ones are kept for a week")
        return rows[0]


_OLD = (
    "state = 'done' AND (ended_at < ?1 OR number <= (SELECT number FROM jobs WHERE state = 'done' "
    "ORDER BY number DESC LIMIT 1 OFFSET ?2))"
)
_ANOTHER = "SELECT 1 FROM jobs WHERE id >= ? AND id < ? AND id != ? LIMIT 1"
# a time later than any retry or lease comes from a wrong clock: it is not waited for. The clock is
# read before waiting for the lock, so another's lease may be newer than `now`.
_LOCKED_US = BUSY_TIMEOUT_MS * 2_000
_OVER = f"(lease_until <= ?1 OR lease_until > ?1 + {LEASE_US + _LOCKED_US})"
_LONGEST_US = retry_us(MOST_ATTEMPTS, 0.0) + _LOCKED_US
_DUE = (
    "SELECT number FROM jobs WHERE "
    f"(state = 'queued' AND (next_at <= ?1 OR next_at > ?1 + {_LONGEST_US})) "
    f"OR (state = 'running' AND {_OVER}) ORDER BY number LIMIT 1"
)
_WORN_OUT = (
    "UPDATE jobs SET state = 'dead', ended_at = ?1, owner = NULL, lease_until = NULL, "
    "error = 'whoever recorded it ended without a word, each time' "
    f"WHERE state = 'running' AND {_OVER} AND attempts >= ?2"
)


def _check_room(connection: apsw.Connection, size: int) -> None:
    """Raise QueueFull if no other job may be queued."""
    ((jobs, size_waiting),) = read_rows(
        connection,
        "SELECT count(*), coalesce(sum(length(body)), 0) FROM jobs "
        "WHERE state IN ('queued', 'running')",
    )
    if jobs >= MOST_JOBS or size_waiting + size > MOST_BYTES:
        raise QueueFull(f"{jobs} batches are waiting to be recorded: send this one again later")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# Recording: a leased job's memories go into the log, in small steps, the lease renewed after each.

STEP = 100  # events a transaction: recall has to overlay as many on its snapshots at once


def new_owner() -> str:
    """Return a name under which this process leases jobs."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Return True if an owner's process has ended; `new_owner` gave its name."""
    return not lives(int(owner.partition("-")[0]))


def record_lease(
    queue: Queue,
    log: EventLog,
    lease: Lease,
    clock: Callable[[], int],
    *,
    on_step: Callable[[], bool] = lambda: True,
) -> bool:
    """Record the rest of a job; return True if it was ours to the end.

    `on_step` is called after each step but the last; if it returns False, the job is given back.
    Raise LogError for disk errors: recorded items stay, and a retry continues from there.
    """
    left = lease.left
    for start in range(0, len(left), STEP):
        step = left[start : start + STEP]
        refused = _append(log, step)
        if start + STEP >= len(left):
            return queue.finish(lease, refused, clock())
        if not queue.advance(lease, step[-1][0] + 1, refused, clock()):
            return False
        if not on_step():
            queue.release(lease)
            return False
    return queue.finish(lease, (), clock())


def _append(log: EventLog, items: Sequence[tuple[int, Event]]) -> list[Refused]:
    """Append the items; return those refused by the log, such as an id of another text."""
    try:
        log.append([event for _, event in items])
    except InvalidInput as error:
        if len(items) == 1:
            return [Refused(items[0][0], str(error))]
        half = len(items) // 2
        return [*_append(log, items[:half]), *_append(log, items[half:])]
    return []

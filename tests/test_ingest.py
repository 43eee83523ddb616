"""The queue of accepted batches: durable, leased, tried again, and in the log exactly once."""

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from store.home.errors import (
    Conflict,
    IdempotencyMismatch,
    InvalidInput,
    InvalidName,
    LogBusy,
    LogError,
    LogForeign,
    NotFound,
    QueueFull,
)
from store.home.instants import new_id
from store.home.tenant import Tenant
from store.ingest import batch, job_queue
from store.ingest.batch import Turn
from store.ingest.job_queue import KEPT_US, STEP, Queue, record_lease
from store.ingest.queue_file import LEASE_US, MOST_ATTEMPTS, Job, Lease, retry_us
from store.log import commands, erasing, log_file
from store.log.commands import Draft
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog

NOW = 1_790_000_000_000_000
SECRET = "AKIAQ3EGRT7YPLM2VXKD"


@pytest.fixture
def queue(tenant: Tenant) -> Iterator[Queue]:
    queue_ = Queue(tenant.ingest)
    yield queue_
    queue_.close()


def drafts(count: int, word: str = "tide") -> list[Draft]:
    return [Draft(content=f"the {word} of pier {number} comes at noon") for number in range(count)]


def accept(queue: Queue, *some: Draft, count: int = 3, id_: str = "", at: int = NOW) -> Job:
    id_ = id_ or new_id(at)
    job, _ = queue.accept(id_, at, batch.make_batch(id_, at, list(some) or drafts(count)))
    return job


def leased(queue: Queue, owner: str = "me", now: int = NOW) -> Lease:
    lease = queue.lease(owner, now)
    assert lease is not None
    return lease


def texts(log: EventLog) -> Counter[str]:
    return Counter(event.body.content for event in log.read() if isinstance(event.body, Recorded))


def clock() -> int:
    return NOW


# Accepting batches


def test_a_queue_that_was_never_used_has_no_file(queue: Queue):
    assert queue.lease("me", NOW) is None
    assert (queue.list_jobs(), queue.newest_unread()) == ([], 0)
    assert set(queue.counts().values()) == {0}
    assert not queue.path.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_its_file_is_the_owners_alone(queue: Queue, tenant: Tenant):
    accept(queue)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tenant.root.glob("ingest.sqlite*")}
    assert modes == {0o600}


def test_no_secret_reaches_its_files(queue: Queue, tenant: Tenant):
    text = f"the deploy key is {SECRET}, said ops"
    accept(queue, Draft(content=text, context=text, metadata={"note": [text]}, session=SECRET))
    id_ = new_id(NOW)
    turns = [Turn(role="user", content=text, speaker=f"key {SECRET}")]
    queue.accept(id_, NOW, batch.make_batch(id_, NOW, [], batch.turn_drafts(turns)))
    queue.fail(leased(queue), f"it said {SECRET}", NOW, 0.0)
    accept(queue, Draft(content=f"{'4111 ' * 4}"), *drafts(1))
    for path in tenant.root.glob("ingest.sqlite*"):
        assert SECRET.encode() not in path.read_bytes()
    assert "[redacted:" in str(leased(queue).left)


def test_invalid_memories_are_refused_before_anything_is_stored():
    with pytest.raises(InvalidName, match=r"memories\[1\]"):
        batch.make_batch("j", NOW, [*drafts(1), Draft(content="the tide", project="../x")])
    long = batch.turn_drafts([Turn(role="user", content="tide " * 50_000)])
    with pytest.raises(InvalidInput, match=r"turns\[0\]: a memory holds"):
        batch.make_batch("j", NOW, drafts(1), long)


def test_turns_become_raw_turns_with_the_trust_of_who_spoke(queue: Queue, log: EventLog):
    trusts = {"user": "user", "assistant": "agent", "tool": "tool", "system": "tool"}
    turns = [Turn(role=role, content=f"the {role} speaks of tides") for role in trusts]
    turn_drafts = batch.turn_drafts(turns, project="acme/web", session="s1")
    queue.accept("job", NOW, batch.make_batch("job", NOW, [], turn_drafts))
    record_lease(queue, log, leased(queue), clock)
    events = list(log.read())
    assert [event.trust for event in events] == list(trusts.values())
    assert {(event.body.kind, event.project, event.session) for event in events} == {
        ("raw_turn", "acme/web", "s1")
    }


def test_the_same_id_is_the_same_job_and_another_batch_under_it_is_refused(queue: Queue):
    first = accept(queue, id_="job")
    again, is_new = queue.accept("job", NOW + 5, batch.make_batch("job", NOW + 5, drafts(3)))
    assert (again, is_new) == (first, False)
    with pytest.raises(IdempotencyMismatch):
        queue.accept("job", NOW, batch.make_batch("job", NOW, drafts(4)))
    with pytest.raises(IdempotencyMismatch):
        queue.accept("job2", NOW, batch.make_batch("job2", NOW, drafts(4)), key="jo")
    assert queue.counts()["queued"] == 1


def test_a_full_queue_takes_nothing_more_until_something_is_done(
    queue: Queue, log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(job_queue, "MOST_JOBS", 2)
    accept(queue), accept(queue)
    with pytest.raises(QueueFull):
        accept(queue)
    record_lease(queue, log, leased(queue), clock)
    accept(queue)
    monkeypatch.setattr(job_queue, "MOST_BYTES", 10)
    with pytest.raises(QueueFull):
        accept(queue)


def test_a_queue_that_was_begun_on_a_full_disk_reads_as_empty(queue: Queue, tenant: Tenant):
    log_file.create_file(tenant.ingest)
    assert queue.list_jobs() == [] and queue.newest_unread() == 0
    assert tenant.ingest.stat().st_size == 0  # reading writes nothing
    accept(queue)
    assert queue.counts()["queued"] == 1


def test_a_job_of_a_clock_that_was_wrong_does_not_wait_for_that_moment(queue: Queue):
    years = 10 * 365 * 86_400_000_000
    job = accept(queue, at=NOW + years)
    lease = leased(queue, now=NOW + years)
    assert lease.job.id == job.id
    again = leased(queue, "another", NOW)  # the clock is right again, and the first worker is gone
    assert again.job.id == job.id
    assert queue.fail(again, "the disk was full", NOW + years, 0.0)
    assert leased(queue, now=NOW).job.id == job.id


def test_a_job_stays_unavailable_for_its_whole_lease_or_retry_delay(queue: Queue):
    accept(queue)
    lease = leased(queue)
    assert queue.lease("another", NOW + LEASE_US - 1) is None
    assert queue.lease("another", NOW) is None
    assert queue.fail(lease, "the disk was full", NOW, 0.0)
    assert queue.lease("another", NOW) is None


def test_another_programs_file_is_left_alone(queue: Queue, tenant: Tenant):
    with EventLog(tenant.log, create=True):
        pass
    other = Queue(tenant.log)
    with pytest.raises(LogForeign):
        accept(other)


# Recording


def test_a_job_is_in_the_log_in_order_and_leaves_no_text_behind(
    queue: Queue, log: EventLog, tenant: Tenant
):
    job = accept(queue, count=STEP * 2 + 7)
    assert record_lease(queue, log, leased(queue), clock)
    finished = queue.get(job.id)
    assert (finished.state, finished.done, finished.ended_at) == ("done", STEP * 2 + 7, NOW)
    assert [event.id for event in log.read()] == list(queue.outcome(job.id).ids)
    assert {event.at for event in log.read()} == {NOW}
    queue.tidy(NOW)
    assert not any(b"pier" in path.read_bytes() for path in tenant.root.glob("ingest.sqlite*"))


def test_ids_come_from_the_job_unless_a_draft_brings_one():
    own = batch.make_batch("job", NOW, [Draft(id="mine", content="the tide"), *drafts(2)]).ids
    assert own[0] == "mine"
    assert (
        own == batch.make_batch("job", NOW + 9, [Draft(id="mine", content="x y"), *drafts(2)]).ids
    )
    assert set(own[1:]).isdisjoint(batch.make_batch("other", NOW, drafts(3)).ids)


@pytest.mark.parametrize("place", [0, STEP - 1, STEP, STEP * 2 + 1])
def test_a_job_that_broke_off_anywhere_goes_on_and_adds_nothing_twice(
    queue: Queue, log: EventLog, place: int
):
    accept(queue, count=STEP * 3)
    broken = leased(queue)
    log.append([event for _, event in broken.left[:place]])  # and the queue did not hear of it
    record_lease(queue, log, leased(queue, "next", NOW + LEASE_US), clock)
    assert set(texts(log).values()) == {1}
    assert log.head() == STEP * 3


def test_junk_is_refused_with_its_reason_and_the_others_are_recorded(queue: Queue, log: EventLog):
    commands.record(log, Draft(id="taken", content="the first tide"), NOW)
    conflicting = Draft(id="taken", content="another tide entirely")
    job = accept(queue, Draft(content="todo"), *drafts(STEP), conflicting, *drafts(1, "ebb"))
    record_lease(queue, log, leased(queue), clock)
    outcome = queue.outcome(job.id)
    assert [(refusal.item, refusal.reason.split(":")[0]) for refusal in outcome.refused] == [
        (0, "nothing to remember"),
        (STEP + 1, "id taken was already used for something else"),
    ]
    assert queue.get(job.id).refused == 2
    assert log.head() == 1 + STEP + 1


def test_a_batch_of_nothing_but_junk_is_done_and_says_so(queue: Queue, log: EventLog):
    job = accept(queue, Draft(content="todo"))
    record_lease(queue, log, leased(queue), clock)
    assert (queue.get(job.id).state, log.head()) == ("done", 0)


# Leases


def test_two_workers_never_hold_one_job(queue: Queue, tenant: Tenant):
    accept(queue)
    other = Queue(tenant.ingest)
    assert queue.lease("a", NOW) is not None
    assert other.lease("b", NOW + LEASE_US - 1) is None
    other.close()


def test_a_worker_that_lost_its_lease_cannot_write_to_the_job(queue: Queue, log: EventLog):
    job = accept(queue, count=STEP * 2)
    slow, later = leased(queue, "slow"), NOW + LEASE_US
    quick = leased(queue, "quick", later)
    assert not record_lease(queue, log, slow, clock)
    assert not queue.finish(slow, (), NOW)
    assert not queue.fail(slow, "late", NOW, 0.0)
    assert queue.get(job.id).owner == "quick"
    assert record_lease(queue, log, quick, lambda: later)
    assert log.head() == STEP * 2


def test_a_lease_is_held_anew_while_somebody_works(queue: Queue, log: EventLog):
    accept(queue, count=STEP * 2)
    job, moments = leased(queue), iter([NOW + LEASE_US - 1, NOW + 2 * LEASE_US])
    leases: list[Lease | None] = []

    def other_looks() -> bool:
        leases.append(queue.lease("other", NOW + LEASE_US + 5))
        return True

    assert record_lease(queue, log, job, moments.__next__, on_step=other_looks)
    assert leases == [None]


def test_the_job_of_a_process_that_died_is_taken_at_once(queue: Queue):
    accept(queue)
    leased(queue, "1-dead")
    assert queue.release_of(lambda owner: owner == "2-alive") == 0
    assert queue.release_of(lambda owner: owner == "1-dead") == 1
    assert leased(queue, "next").job.attempts == 2


def test_a_worker_that_ends_gives_its_job_back_where_it_stood(queue: Queue, log: EventLog):
    job = accept(queue, count=STEP * 2)
    assert not record_lease(queue, log, leased(queue), clock, on_step=lambda: False)
    assert (queue.get(job.id).state, queue.get(job.id).done) == ("queued", STEP)
    rest = leased(queue, "next")
    assert len(rest.left) == STEP
    assert record_lease(queue, log, rest, clock)
    assert log.head() == STEP * 2


# Failures


def test_a_job_that_failed_waits_longer_each_time_and_is_dead_in_the_end(queue: Queue):
    job, now, waited = accept(queue), NOW, []
    for _ in range(MOST_ATTEMPTS - 1):
        queue.fail(leased(queue, now=now), "LogFull: no space", now, 0.0)
        waited.append(queue.get(job.id).next_at - now)
        assert queue.lease("me", now + waited[-1] - 1) is None
        now += waited[-1]
    assert waited == [2_000_000, 8_000_000, 32_000_000, 128_000_000]
    queue.fail(leased(queue, now=now), "LogFull: no space", now, 0.0)
    dead = queue.get(job.id)
    assert (dead.state, dead.error, dead.ended_at) == ("dead", "LogFull: no space", now)
    assert queue.lease("me", now + KEPT_US) is None


def test_half_of_a_retry_delay_is_random():
    waits = [retry_us(2, chance) for chance in (0.0, 0.5, 0.999_999)]
    assert waits == [8_000_000, 6_000_000, 4_000_004]


def test_a_job_that_kills_every_worker_becomes_dead(queue: Queue):
    job, now = accept(queue), NOW
    for _ in range(MOST_ATTEMPTS):
        leased(queue, now=now)
        now += LEASE_US
    assert queue.lease("me", now) is None
    assert queue.get(job.id).state == "dead"
    assert "without a word" in (queue.get(job.id).error or "")


def test_a_job_that_makes_progress_does_not_run_out_of_attempts(queue: Queue):
    job, now = accept(queue, count=500), NOW
    for number in range(MOST_ATTEMPTS * 2):
        assert queue.advance(leased(queue, now=now), number, (), now)
        now += LEASE_US
    assert queue.get(job.id).state == "running"


def test_a_dead_job_is_requeued_and_only_a_dead_one(queue: Queue, log: EventLog):
    job = accept(queue)
    with pytest.raises(Conflict, match="queued"):
        queue.requeue(job.id, NOW)
    with pytest.raises(NotFound):
        queue.requeue("nobody", NOW)
    kill(queue)
    assert [other.id for other in queue.list_jobs("dead")] == [job.id]
    assert queue.requeue(job.id, NOW).attempts == 0
    record_lease(queue, log, leased(queue), clock)
    assert (queue.get(job.id).state, queue.get(job.id).error) == ("done", None)
    assert log.head() == 3


def kill(queue: Queue) -> None:
    """Let the one job fail until it is dead."""
    now = NOW
    while (lease := queue.lease("me", now)) is not None:
        queue.fail(lease, "LogBusy: held", now, 0.0)
        now += 1_000_000_000


def test_a_batch_the_log_cannot_take_stays_in_the_queue(queue: Queue, log: EventLog):
    accept(queue, count=STEP * 2)
    lease = leased(queue)
    closed = EventLog(log.path)
    closed.close()
    with pytest.raises(LogError):
        record_lease(queue, closed, lease, clock)
    queue.fail(lease, "LogError", NOW, 0.0)
    assert queue.counts()["queued"] == 1


# Upkeep


def test_done_jobs_go_after_a_week_and_dead_ones_stay(queue: Queue, log: EventLog):
    done_job = accept(queue)
    record_lease(queue, log, leased(queue), clock)
    dead = accept(queue)
    kill(queue)
    queue.tidy(NOW + KEPT_US)
    assert queue.get(done_job.id).state == "done"
    queue.tidy(NOW + KEPT_US + 1)
    assert [job.id for job in queue.list_jobs()] == [dead.id]


def test_no_more_done_jobs_are_kept_than_a_limit(
    queue: Queue, log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(job_queue, "MOST_KEPT", 2)
    jobs = [accept(queue) for _ in range(4)]
    for _ in jobs:
        record_lease(queue, log, leased(queue), clock)
    queue.tidy(NOW)
    assert [job.id for job in queue.list_jobs()] == [jobs[3].id, jobs[2].id]


def test_its_file_gives_back_what_it_does_not_need(queue: Queue, log: EventLog):
    accept(queue, *(Draft(content=f"{n} {'tide ' * 2_000}") for n in range(300)))
    queue.tidy(NOW)
    before = queue.path.stat().st_size
    record_lease(queue, log, leased(queue), clock)
    queue.tidy(NOW)
    assert queue.path.stat().st_size < before / 10


def test_the_queue_tracks_turns_not_yet_read_for_facts(queue: Queue, log: EventLog):
    accept(queue)
    turn_drafts = batch.turn_drafts([Turn(role="user", content="the API runs on port 8080")])
    made_batch = batch.make_batch("job", NOW, drafts(1), turn_drafts)
    assert (len(made_batch.ids), made_batch.turns) == (2, 1)
    job, _ = queue.accept("job", NOW, made_batch)
    assert queue.newest_unread() == 0
    record_lease(queue, log, leased(queue), clock)
    record_lease(queue, log, leased(queue), clock)
    assert queue.newest_unread() == job.number
    queue.mark_read(job.number)
    assert queue.newest_unread() == 0


def test_erased_text_is_removed_from_the_queue(queue: Queue, log: EventLog, tenant: Tenant):
    job = accept(queue, Draft(content="the vault opens at midnight"), *drafts(2))
    first = leased(queue)
    log.append([event for _, event in first.left])
    queue.fail(first, "LogBusy: held", NOW, 0.0)
    erased = queue.outcome(job.id).ids[0]
    assert erased is not None
    erasing.erase(log, [erased], NOW)
    queue.erase([erased], lambda text: False)
    assert not any(b"midnight" in path.read_bytes() for path in tenant.root.glob("ingest.sqlite*"))
    record_lease(queue, log, leased(queue, now=NOW + LEASE_US), clock)
    assert log.head() == 4
    assert "the vault opens at midnight" not in texts(log)


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be moved")
def test_a_queue_whose_tenant_was_made_anew_writes_into_the_new_one(queue: Queue, tenant: Tenant):
    accept(queue)
    tenant.root.rename(tenant.root.with_name("gone"))
    job = accept(queue)
    assert [other.id for other in Queue(tenant.ingest).list_jobs()] == [job.id]


# Two processes

WORK = """
import sys, time
from pathlib import Path
from store.ingest.job_queue import Queue, record_lease
from store.log.event_log import EventLog
root, owner = Path(sys.argv[1]), sys.argv[2]
queue = Queue(root / "ingest.sqlite")
with EventLog(root / "log.sqlite") as log:
    clock = lambda: time.time_ns() // 1000
    print("ready", flush=True)
    sys.stdin.readline()
    done = []
    while (lease := queue.lease(owner, clock())) is not None:
        assert record_lease(queue, log, lease, clock)
        done.append(lease.job.id)
    print(*done, flush=True)
"""


def test_two_processes_share_the_work_and_do_nothing_twice(
    queue: Queue, log: EventLog, tenant: Tenant, child: Callable[..., object]
):
    jobs = [accept(queue, *drafts(150, f"tide{number}")) for number in range(12)]
    workers = [child(WORK, tenant.root, f"worker{number}") for number in range(2)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    job_ids = [other.stdout.readline().split() for other in workers]
    assert sorted(job_ids[0] + job_ids[1]) == sorted(job.id for job in jobs)
    assert set(texts(log).values()) == {1}
    assert log.head() == 12 * 150


def test_the_path_is_a_file_of_the_tenant(tenant: Tenant):
    assert tenant.ingest == Path(tenant.root / "ingest.sqlite")


def test_a_thread_waiting_for_another_thread_gets_log_busy(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_file, "BUSY_TIMEOUT_MS", 50)
    accept(queue)
    is_in, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        with queue._file.transaction():
            is_in.set()
            assert may_end.wait(30)

    writer = threading.Thread(target=slow)
    writer.start()
    try:
        assert is_in.wait(30)
        for asks in (queue.counts, lambda: accept(queue), lambda: queue.lease("me", NOW)):
            with pytest.raises(LogBusy, match="try again"):
                asks()
    finally:
        may_end.set()
        writer.join()
    assert accept(queue).number == 2

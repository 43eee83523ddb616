"""A replica: every event of a log is stored elsewhere a second later, and can be restored."""

import os
import random
import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from background import until
from click.testing import CliRunner, Result
from conftest import NOW
from dashboard_page import HOST, TOKEN, application, browser
from s3_server import BUCKET, s3_server
from torture.server import Server

from serve.cli import main, processes
from serve.server.open_tenants import OpenTenants
from store.home import config, failures
from store.home import tenant as tenants
from store.home.config import Choices, Settings
from store.home.errors import ConfigError, NotFound, RemoteError, SourceError
from store.home.tenant import Tenant
from store.ingest import batch
from store.ingest.job_queue import Queue
from store.log import commands, compaction, erasing, integrity
from store.log.commands import Draft
from store.log.event_kinds import Surfaced
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.log_file import rewrite_transaction
from store.replica import parts, restore, sender, state
from store.replica.remote import Entry, Remote, open_remote
from store.replica.replica import HomeReplica, TenantReplica
from store.replica.sender import Sent

_SECOND = 1_000_000


@pytest.fixture
def place(tmp_path: Path) -> Remote:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return open_remote(str(folder))


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "build", lambda *arguments, **named: 0)


def files(place: Remote) -> list[str]:
    return [entry.name for entry in place.list("")]


def sync(tenant: Tenant, place: Remote, now: int = NOW, *, anew: bool = False) -> Sent:
    """Send as a process that has just started."""
    sent = TenantReplica(tenant, place).sync(now, anew=anew)
    assert sent is not None
    return sent


def restored(place: Remote, home: Path, at: int | None = None) -> list[Event]:
    """Return the events of a tenant restored elsewhere; check its log's integrity."""
    shutil.rmtree(home, ignore_errors=True)
    restore.restore_replica(Settings(home), place, "default", NOW, until=at)
    with EventLog(tenants.find_tenant(home).log) as log:
        assert integrity.problems(log) == []
        return list(log.read())


def record(log: EventLog, text: str, at: int = NOW) -> str:
    return commands.record(log, Draft(content=text), at).event.subject


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_any_second_comes_back_as_the_prefix_of_the_log(
    tmp_path: Path, home: Path, place: Remote, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender, "_MOST_SMALL", 5)
    monkeypatch.setattr(sender, "_MOST_BYTES", 3_000)
    chance = random.Random(7)
    seconds = iter(range(10**6))
    tenant = tenants.tenant(home)
    keeper = TenantReplica(tenant, place)
    with EventLog(tenant.log, create=True, wall=lambda: NOW + next(seconds) * _SECOND) as log:
        for number in range(150):
            record(log, f"Tide {number}: " + "the buoy is off its place. " * chance.randint(1, 20))
            if chance.random() < 0.3:
                keeper.sync(NOW)
        keeper.sync(NOW)
        whole = list(log.read())
    assert len(files(place)) < 150  # small parts were merged
    for at in (chance.randrange(NOW, NOW + 200 * _SECOND) for _ in range(100)):
        prefix = [event for event in whole if event.clock <= at]
        assert restored(place, tmp_path / "again", at) == prefix


class Broken:
    """A remote that fails from the given call on, as if the process were killed there."""

    def __init__(self, place: Remote, calls: int) -> None:
        self.url, self._place, self._left = place.url, place, calls

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise RemoteError("the cable is cut")

    def list(self, folder: str) -> list[Entry]:
        self._count()
        return self._place.list(folder)

    def get(self, name: str) -> bytes:
        self._count()
        return self._place.get(name)

    def put(self, name: str, data: bytes) -> None:
        self._count()
        self._place.put(name, data)

    def delete(self, names: Iterable[str]) -> None:
        for name in [*names]:  # half of them may be deleted
            self._count()
            self._place.delete([name])


def test_a_writer_that_ends_anywhere_is_continued_and_nothing_is_left_over(
    tmp_path: Path, home: Path, log: EventLog, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender, "_MOST_SMALL", 4)
    first = record(log, "The pilot boards at the west buoy")
    for calls in range(200):
        folder = tmp_path / f"place{calls}"
        folder.mkdir()
        place = open_remote(str(folder))
        (tenant.root / "replica.json").unlink(missing_ok=True)
        for number in range(3):
            sync(tenant, place)
            record(log, f"Buoy {calls}.{number} is lit")
        if calls == 20:
            erasing.erase(log, [first], NOW)
        broken = Broken(place, calls)
        try:
            TenantReplica(tenant, broken).sync(NOW, anew=True)
        except RemoteError:
            before = restored(place, tmp_path / "again")  # the earlier replica is still complete
            assert len(before) >= log.head() - 3
        else:
            break
        sync(tenant, place)
        assert restored(place, tmp_path / "again") == list(log.read())
        (generation,) = parts.list_generations(place, "tenants/default")
        assert not generation.others
    assert calls > 3


def test_what_is_erased_is_rewritten_there_too(log: EventLog, tenant: Tenant, place: Remote):
    erased = record(log, "Zebra project: the landing fee is 12 guilders")
    remaining = record(log, "The harbour office opens at six")
    sync(tenant, place)
    assert "Zebra" in texts(place)
    erasing.erase(log, [erased], NOW)
    keeper = TenantReplica(tenant, place)
    assert (sent := keeper.sync(NOW)) is not None and sent.replaced == 1
    assert "Zebra" not in texts(place) and "harbour office" in texts(place)
    assert remaining in texts(place)


def test_a_running_keeper_sees_that_something_was_erased(
    log: EventLog, tenant: Tenant, place: Remote
):
    erased = record(log, "Zebra project: the landing fee is 12 guilders")
    keeper = TenantReplica(tenant, place)
    keeper.sync(NOW)
    erasing.erase(log, [erased], NOW)
    keeper.sync(NOW)
    assert "Zebra" not in texts(place)


def test_of_an_earlier_moment_comes_back_what_was_not_erased_since(
    tmp_path: Path, home: Path, place: Remote
):
    clock = iter(range(NOW, NOW + 10**9, _SECOND))
    tenant = tenants.tenant(home)
    with EventLog(tenant.log, create=True, wall=lambda: next(clock)) as log:
        erased = record(log, "Zebra project: the landing fee is 12 guilders")
        record(log, "The harbour office opens at six")
        sync(tenant, place)
        erasing.erase(log, [erased], NOW)
        record(log, "The harbour office opens at seven now")
        sync(tenant, place)
        whole = list(log.read())
    assert [event.kind for event in whole] == ["recorded", "recorded", "erased", "recorded"]
    then = restored(place, tmp_path / "again", whole[1].clock)
    assert [event.kind for event in then] == ["recorded", "recorded", "erased"]
    assert then[2].subject == erased


def texts(place: Remote) -> str:
    """Return the contents of all files at a remote, decoded."""
    root = Path(place.url)
    tables = [pq.read_table(path).to_pylist() for path in root.rglob("*.parquet")]
    others = [path.read_bytes() for path in root.rglob("*.sqlite")]
    return f"{tables}{others}"


def test_no_replica_forgets_what_its_log_lost(log: EventLog, tenant: Tenant, place: Remote):
    for number in range(5):
        record(log, f"Buoy {number} is lit")
    sync(tenant, place)
    with log.writer() as connection, rewrite_transaction(connection):
        connection.execute("DROP TRIGGER events_keep_delete")
        connection.execute("DELETE FROM events WHERE seq = 3")
    record(log, "Buoy 9 is lit")
    sync(tenant, place, anew=True)
    old, new = parts.list_generations(place, "tenants/default")
    assert sum(len(parts.read_part(place, old, part)) for part in old.parts) == 5
    assert sum(len(parts.read_part(place, new, part)) for part in new.parts) == 5


def test_what_waits_what_was_put_away_and_the_settings_come_along(
    tmp_path: Path, home: Path, log: EventLog, tenant: Tenant, place: Remote
):
    old = [Event(f"p{n:03}", NOW, Surfaced(place="tool", about=f"{n}"), "s") for n in range(150)]
    log.append(old)
    compaction.compact(log, log.head(), NOW + 91 * 86_400 * _SECOND)
    with_queue = Queue(tenant.ingest)
    with_queue.accept("j1", NOW, batch.make_batch("j1", NOW, [Draft(content="the moon is full")]))
    (home / "config.toml").write_text("top_k = 7\n")
    whole = list(log.read())
    keeper = HomeReplica(home, place)
    assert [name for name, _ in keeper.sync(NOW)] == ["default"]
    assert list(keeper.sync(NOW)) == []  # nothing changed, so nothing is listed
    there = tmp_path / "there"
    assert restored(place, there) == whole
    waiting = Queue(tenants.find_tenant(there).ingest)
    leased = waiting.lease("me", NOW)
    assert leased is not None and leased.job.id == "j1"
    assert restore.restore_home_files(place, there) == ["config.toml"]
    assert (there / "config.toml").read_text() == "top_k = 7\n"
    lease = with_queue.lease("me", NOW)
    assert lease is not None and with_queue.finish(lease, [], NOW)
    waiting.close()
    with_queue.close()
    assert [name for name, _ in keeper.sync(NOW)] == ["default"]
    assert not [name for name in files(place) if "waiting" in name]


def test_two_homes_never_write_one_generation(
    tmp_path: Path, home: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    sync(tenant, place)
    copied = tmp_path / "copied"
    shutil.copytree(home, copied, ignore=shutil.ignore_patterns("origin", "*.lock"))
    with EventLog(tenants.tenant(copied).log) as other:
        record(other, "Here the ferry leaves at nine")
    record(log, "There the ferry leaves at ten")
    sync(tenant, place, NOW + 10 * _SECOND)
    sync(tenants.tenant(copied), place, NOW + 20 * _SECOND)
    first, second = parts.list_generations(place, "tenants/default")
    assert (first.last, second.last) == (2, 2)
    for generation in (first, second):
        restore.restore_replica(
            Settings(tmp_path / generation.id), place, "default", NOW, generation=generation.id
        )
    marks = [part.parts[-1].mark for part in (first, second)]
    assert marks[0] != marks[1]


def test_a_home_that_was_set_back_begins_a_generation_of_its_own(
    tmp_path: Path, home: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    log.settle()
    shutil.copytree(home, tmp_path / "before", ignore=shutil.ignore_patterns("*.lock"))
    record(log, "The ferry leaves at nine")
    sync(tenant, place)
    log.close()
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "before", home)
    with EventLog(tenant.log) as again:
        record(again, "The ferry leaves at ten")
    sync(tenant, place, NOW + _SECOND)
    first, second = parts.list_generations(place, "tenants/default")
    assert first.last == second.last == 2
    assert first.parts[-1].mark != second.parts[-1].mark


def test_a_part_that_was_damaged_is_named_and_sent_again(
    tmp_path: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    sync(tenant, place)
    (path,) = Path(place.url).rglob("*.parquet")
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole.replace(b"pilot", b"pirat")):
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match=path.name):
            restored(place, tmp_path / "again")
        assert not (tmp_path / "again" / "tenants" / "default").exists()
    path.unlink()
    with pytest.raises(NotFound, match="holds no replica"):
        restored(place, tmp_path / "again")


def test_a_part_that_is_not_a_queue_is_refused(
    tmp_path: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    queue = Queue(tenant.ingest)
    queue.accept("j1", NOW, batch.make_batch("j1", NOW, [Draft(content="the moon is full")]))
    queue.close()
    sync(tenant, place)
    (path,) = Path(place.url).rglob("waiting-*.sqlite")
    path.write_bytes(b"not a database at all, whatever its name says" * 100)
    with pytest.raises(SourceError, match="cannot be restored"):
        restored(place, tmp_path / "again")
    assert not (tmp_path / "again" / "tenants" / "default").exists()


def test_a_disk_that_is_not_there_is_named_and_nothing_is_made_in_its_place(
    home: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    sync(tenant, place)
    root = Path(place.url)
    root.rename(root.with_name("unmounted"))
    record(log, "The ferry leaves at nine")
    with pytest.raises(RemoteError, match="elsewhere"):
        sync(tenant, place)
    assert not root.exists()
    root.mkdir()  # the empty mount point of a disk
    with pytest.raises(RemoteError, match="mount its disk"):
        sync(tenant, place)
    assert list(root.iterdir()) == []
    root.rmdir()
    root.with_name("unmounted").rename(root)
    assert sync(tenant, place).events == 1


@pytest.mark.parametrize("url", ["s3://", "s3://B_/x", "gs://bucket/x", "relative/folder"])
def test_invalid_replica_locations_are_refused(url: str):
    with pytest.raises(ConfigError, match=r"no place|no bucket|not absolute"):
        open_remote(url)


def test_the_command_sends_says_how_far_it_is_and_restores(
    home: Path, place: Remote, tmp_path: Path, no_build: None, monkeypatch: pytest.MonkeyPatch
):
    run("record", "The pilot boards at the west buoy")
    sent = run("replicate", place.url, "--once")
    assert sent.exit_code == 0, sent.output
    assert "default: 1 event" in sent.stdout and "config.toml" in sent.stderr
    assert f"replica   {place.url} holds all events" in run("status").stdout
    run("record", "The ferry leaves at nine")
    assert "is 1 event behind, the first of " in run("status").stdout
    payload = run("replicate", "--once", "--json")
    assert '"behind":0' in payload.stdout and '"events":1' in payload.stdout
    assert run("replicate", "--once").stdout == f"{place.url} holds all events\n"
    checked = run("backup", "check", place.url)
    assert checked.exit_code == 0 and "2 events" in checked.stdout
    there = tmp_path / "there"
    monkeypatch.setenv("MNEMOLOG_HOME", str(there))
    back = run("backup", "restore", place.url)
    assert back.exit_code == 0 and "2 events" in back.stdout, back.output
    assert "config.toml came from the replica too" in back.stderr
    assert run("replicate", "--stop").exit_code == 0
    assert "replica" not in run("status").stdout


def test_bad_calls_of_the_command_are_told_what_to_do(home: Path, place: Remote):
    run("record", "The pilot boards at the west buoy")
    assert "no place is kept" in run("replicate", "--once").stderr
    assert "lies in the home itself" in run("replicate", str(home / "x"), "--once").stderr
    assert "add --once" in run("replicate", place.url, "--json").stderr
    assert "takes no PLACE" in run("replicate", place.url, "--stop").stderr
    assert "there is no" in run("backup", "restore", str(home / "nothing")).stderr
    empty = run("backup", "restore", place.url)
    assert empty.exit_code and "holds no replica of tenant default" in empty.stderr
    file = home / "some.zip"
    file.write_bytes(b"")
    assert "of replicas alone" in run("backup", "check", str(file), "--at", "2026-01-01").stderr


def test_erase_has_the_replica_rewritten_or_says_that_it_could_not(
    home: Path, place: Remote, tmp_path: Path
):
    run("record", "Zebra project: the landing fee is 12 guilders")
    run("record", "The harbour office opens at six")
    run("replicate", place.url, "--once")
    result = run("erase", "--text", "zebra project", "--yes")
    assert result.exit_code == 0, result.output
    assert "1 part of the replica" in result.stderr and "Zebra" not in texts(place)
    root = Path(place.url)
    root.rename(root.with_name("unmounted"))
    unreached = run("erase", "--text", "harbour office", "--yes")
    assert unreached.exit_code == 1 and "the replica still holds" in unreached.stderr


def test_why_a_replica_failed_is_shown_until_it_goes_right(
    home: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    keeper = HomeReplica(home, place)
    root = Path(place.url)
    root.rename(root.with_name("unmounted"))
    ((_, outcome),) = keeper.sync(NOW)
    assert isinstance(outcome, RemoteError)
    assert [failure.what for failure in failures.every(tenant.root)] == ["replica"]
    assert "elsewhere" in run("status").stdout
    root.with_name("unmounted").rename(root)
    ((_, outcome),) = keeper.sync(NOW)
    assert isinstance(outcome, Sent)
    assert list(failures.every(tenant.root)) == []


def test_the_dashboard_and_the_metrics_say_how_far_behind_it_is(
    home: Path, log: EventLog, tenant: Tenant, place: Remote
):
    record(log, "The pilot boards at the west buoy")
    opened = OpenTenants(Settings(home, Choices(replica=place.url)))
    try:
        app = application(opened)
        bearer = HOST | {"Authorization": f"Bearer {TOKEN}"}

        def seen() -> tuple[str, str]:
            page = browser(app).get("/t/default/jobs").text
            return page, app.test_client().get("/metrics", headers=bearer).text

        page, metrics = seen()
        assert "is 1 event behind" in page
        assert 'mnemolog_replica_behind_events{tenant="default"} 1' in metrics
        sync(tenant, place)
        page, metrics = seen()
        assert "holds all events" in page
        assert 'mnemolog_replica_behind_events{tenant="default"} 0' in metrics
    finally:
        opened.close()


@pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")
def test_a_server_sends_by_itself_from_when_the_place_is_kept_until_its_end(
    tmp_path: Path, place: Remote
):
    home = tmp_path / "served"
    server = Server(home)
    try:
        assert server.record({"id": "a1", "content": "The pilot boards at the buoy"}) in (200, 201)
        config.keep(home, {"replica": place.url})
        until(lambda: behind(home) == 0)
        assert server.record({"id": "a2", "content": "The ferry leaves at nine"}) in (200, 201)
        until(lambda: behind(home) == 0)
    finally:
        server.kill()
    assert {event.id for event in restored(place, tmp_path / "again")} == {"a1", "a2"}
    server = Server(home)
    try:
        assert server.record({"id": "a3", "content": "The lock opens at six"}) in (200, 201)
    finally:
        server.kill(signal.SIGTERM)
    assert "a3" in {event.id for event in restored(place, tmp_path / "again")}


def behind(home: Path) -> int | None:
    """Return the number of events a home's replica lacks; None before the first sync."""
    tenant = tenants.find_tenant(home)
    with EventLog(tenant.log) as log:
        lag = state.lag(tenant, log, "")
    return None if lag is None else lag.events


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as environment:
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        yield f"s3://{BUCKET}/laptop"
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def test_a_bucket_holds_the_log_and_gives_it_back(
    tmp_path: Path, log: EventLog, tenant: Tenant, bucket: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender, "_MOST_SMALL", 4)
    place = open_remote(bucket)
    keeper = TenantReplica(tenant, place)
    for number in range(12):
        record(log, f"Buoy {number} is lit")
        keeper.sync(NOW)
    erased = record(log, "Zebra project: the landing fee is 12 guilders")
    keeper.sync(NOW)
    erasing.erase(log, [erased], NOW)
    keeper.sync(NOW)
    assert restored(place, tmp_path / "again") == list(log.read())
    (generation,) = parts.list_generations(place, "tenants/default")
    assert len(generation.parts) < 12 and not generation.others
    rows = [row for part in generation.parts for row in parts.read_part(place, generation, part)]
    assert "Zebra" not in str(rows)


def test_a_bucket_that_does_not_answer_is_named_with_the_cure(
    log: EventLog, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    record(log, "The pilot boards at the west buoy")
    with pytest.raises(RemoteError, match="AWS_ENDPOINT_URL"):
        sync(tenant, open_remote("s3://memory/laptop"))

"""Sync: one memory on all of a person's machines, through an untrusted remote."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import machines
import msgspec
import pytest
from background import until
from conftest import NOW
from machines import KEY, SECOND, Cut, Laptop
from plain_receipt import plain_receipt
from s3_server import BUCKET, s3_server
from torture.server import Server

from serve.server.syncing import Syncing
from store.home import failures
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.errors import ConfigError, InvalidInput, RemoteError
from store.log import erasing
from store.log.event_kinds import Forgotten, Revised
from store.log.event_log import EventLog
from store.log.events import Event
from store.replica import parts, sender
from store.replica.remote import open_remote
from store.sync import membership, sealed
from store.sync import sync as syncing
from store.sync.sealed import Sealed
from store.sync.sync import TenantSync


@pytest.fixture
def laptops(tmp_path: Path) -> list[Laptop]:
    place = tmp_path / "place"
    place.mkdir()
    machines_ = [Laptop(name, tmp_path / name, place) for name in ("red", "green", "blue")]
    for laptop in machines_:
        laptop.join()
    return machines_


def test_two_machines_share_one_memory_from_the_command_line(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    desk, laptop = (Laptop(name, tmp_path / name, place) for name in ("desk", "laptop"))
    desk.record("The staging cluster runs in eu-central-1")
    begun = desk.run("sync", "init", str(place), "--name", "desk", "--json")
    assert begun.exit_code == 0, begun.output
    key = json.loads(begun.stdout)["key"]
    assert desk.run("sync", "key").stdout.strip() == key
    wrong = laptop.run("sync", "init", str(place), given=sealed.write_key(KEY))
    assert (wrong.exit_code, "another key" in wrong.stderr) == (2, True)
    joined = laptop.run("sync", "init", str(place), "--name", "laptop", given=f"{key}\n")
    assert joined.exit_code == 0, joined.output
    assert "1 event from desk" in joined.stdout
    result = laptop.run("recall", "where does staging run", "--json")
    assert "eu-central-1" in result.stdout
    laptop.record("Production runs in eu-west-1")
    assert "1 event sent" in laptop.run("sync").stdout
    assert "1 event from laptop" in desk.run("sync", "now").stdout
    assert "nothing new on any machine" in desk.run("sync").stdout
    digests = {
        json.loads(laptop_.run("sync", "status", "--digest", "--json").stdout)["digest"]
        for laptop_ in (desk, laptop)
    }
    assert len(digests) == 1
    assert "through" in (line := desk.run("status").stdout) and "with laptop, in step" in line
    output = desk.run("sync", "status").stdout
    assert "desk syncs through" in output and "laptop" in output and "0 events to send" in output


@pytest.fixture(params=["git", "s3"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A remote on a server: a bare git repository or a bucket."""
    if request.param == "git":
        subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "memory.git"], check=True)
        yield f"git+{(tmp_path / 'memory.git').as_uri()}"
        return
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield f"s3://{BUCKET}/me"


def test_a_server_of_git_or_s3_brings_machines_together(tmp_path: Path, elsewhere: str) -> None:
    desk, laptop = (Laptop(name, tmp_path / name, tmp_path) for name in ("desk", "laptop"))
    desk.record("The staging cluster runs in eu-central-1")
    secret = desk.record("The alarm code of the cellar is zebra giraffe okapi")
    begun = desk.run("sync", "init", elsewhere, "--name", "desk", "--json")
    key = json.loads(begun.stdout)["key"]
    joined = laptop.run("sync", "init", elsewhere, "--name", "laptop", given=key)
    assert "2 events from desk" in joined.stdout, joined.output
    laptop.record("Production runs in eu-west-1", NOW + SECOND)
    assert "1 event sent" in laptop.run("sync").stdout
    assert "1 event from laptop" in desk.run("sync").stdout
    with EventLog(laptop.tenant.log, wall=lambda: NOW + SECOND) as log:
        erasing.erase(log, [secret], NOW + 2 * SECOND)
    laptop.sync(anew=True)
    assert desk.sync().erased == 1
    assert laptop.sync().problems == ()
    assert desk.digest() == laptop.digest()
    place = membership.read_place(desk.tenant)
    assert place is not None
    remote = syncing.open_place(desk.tenant, place)
    assert all(b"giraffe" not in remote.get(entry.name) for entry in remote.list(""))
    if elsewhere.startswith("git+"):
        refs = subprocess.check_output(["git", "-C", tmp_path / "memory.git", "for-each-ref"])
        assert refs.count(b"refs/mnemolog/") == refs.count(b"\n") == 3, "and no branch"
        log_ = ["git", "-C", tmp_path / "memory.git", "log", "--oneline", "--glob=refs/mnemolog/*"]
        assert subprocess.check_output(log_).count(b"\n") == 3, "nor a history"


def test_a_place_that_does_not_answer_is_named_with_what_to_do(laptops: list[Laptop]) -> None:
    red, _, _ = laptops
    red.record("said on red")
    result = red.run("sync", "init", f"git+file://{red.place}/nowhere.git")
    assert result.exit_code == 1 and "git ls-remote" in result.stderr
    shutil.rmtree(red.place)
    lost = red.run("sync")
    assert lost.exit_code == 1 and "see that the disk is there" in lost.stderr


def test_a_correction_on_another_machine_counts_and_so_does_a_forget(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    port = red.record("The port is 8000")
    code = red.record("The door code is 4711")
    red.sync()
    green.sync()
    green.tell(port, Revised(content="The port is 9000"), NOW + 5 * SECOND)
    green.tell(code, Forgotten(), NOW + 6 * SECOND)
    green.sync()
    outcome = red.sync()
    assert outcome.received == {"green": 2}
    assert red.digest() == green.digest()
    with EventLog(red.tenant.log) as log:
        assert [event.kind for event in log.events_for(port)] == ["recorded", "revised"]


def listed(laptop: Laptop) -> list[str]:
    """Return the reason of each conflict that the command lists."""
    payload = json.loads(laptop.run("conflicts", "--json").stdout)
    return [conflict["why"] for conflict in payload["conflicts"]]


def test_values_of_a_key_that_two_machines_wrote_unaware_are_a_conflict_everywhere(
    laptops: list[Laptop],
) -> None:
    red, green, blue = laptops
    red.record("eu-west-1", NOW + 9 * SECOND, key="deploy.region")
    green.record("us-east-1", NOW + 3 * SECOND, key="deploy.region")
    for _ in range(2):
        for laptop in laptops:
            laptop.sync(NOW + 20 * SECOND)
    assert red.digest() == green.digest() == blue.digest()
    for laptop in laptops:
        output = laptop.run("history", "deploy.region", "--json").stdout
        assert "eu-west-1" in output and "us-east-1" in output
        assert listed(laptop) == ["said on two machines, neither of which knew of the other's"]


def test_a_persons_own_link_between_values_does_not_tell_of_two_machines(
    laptops: list[Laptop],
) -> None:
    red, _, _ = laptops
    first = red.record("eu-west-1", key="deploy.region")
    second = red.record("us-east-1", NOW + SECOND, key="deploy.region")
    assert red.run("link", second, first, "--relation", "conflict").exit_code == 0
    assert not any("two machines" in why for why in listed(red))


def test_a_value_that_followed_another_machines_is_no_conflict(laptops: list[Laptop]) -> None:
    red, green, blue = laptops
    red.record("us-east-1", NOW, key="deploy.region")
    red.sync(NOW)
    green.sync(NOW)
    green.record("eu-west-1", NOW + 30 * SECOND, key="deploy.region")
    green.sync(NOW + 31 * SECOND)
    red.sync(NOW + 32 * SECOND)
    red.record("eu-north-1", NOW + 60 * SECOND, key="deploy.region")
    red.sync(NOW + 61 * SECOND)
    blue.sync(NOW + 62 * SECOND)
    green.sync(NOW + 63 * SECOND)
    assert [listed(laptop) for laptop in laptops] == [[], [], []]
    assert red.digest() == green.digest() == blue.digest()


def test_nothing_is_lost_doubled_or_told_apart_whatever_the_folder_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_MOST_SMALL", 4)
    wrong, recorded = machines.schedule(tmp_path, 7, steps=60)
    assert wrong == [] and recorded > 40


def test_what_is_erased_on_one_machine_is_erased_on_all_and_at_the_place(
    laptops: list[Laptop], monkeypatch: pytest.MonkeyPatch
) -> None:
    red, green, blue = laptops
    secret = red.record("The alarm code of the cellar is zebra giraffe okapi")
    for laptop in (red, green, blue):
        laptop.sync()
    with EventLog(green.tenant.log, wall=lambda: NOW + SECOND) as log:
        erasing.erase(log, [secret], NOW + SECOND)
    green.sync(anew=True)
    assert red.sync().erased == 1
    assert blue.sync().erased == 1
    for laptop in laptops:
        data = b"".join(
            path.read_bytes() for path in sorted(laptop.home.rglob("*")) if path.is_file()
        )
        assert b"giraffe" not in data
        remote = Sealed(open_remote(str(laptop.place)), KEY)
        for entry in remote.list(""):
            assert b"giraffe" not in remote.get(entry.name), "nor for who has the key"
    assert len({other.digest() for other in laptops}) == 1


def test_a_machine_that_is_ended_before_it_notes_an_erasing_does_it_at_the_next_pass(
    laptops: list[Laptop], monkeypatch: pytest.MonkeyPatch
) -> None:
    red, green, _ = laptops
    secret = red.record("The alarm code of the cellar is zebra giraffe okapi")
    red.sync()
    green.sync()
    with EventLog(red.tenant.log, wall=lambda: NOW + SECOND) as log:
        erasing.erase(log, [secret], NOW + SECOND)
    red.sync(anew=True)
    write = membership.write_heard

    def fail(tenant: tenants.Tenant, received: membership.Heard) -> None:
        if received.machines != membership.read_heard(tenant).machines:
            raise OSError("ended")
        write(tenant, received)

    with monkeypatch.context() as patch:
        patch.setattr(membership, "write_heard", fail)
        with pytest.raises(OSError, match="ended"):
            green.sync()
    assert green.sync().erased == 1
    assert green.sync().erased == 0
    assert red.digest() == green.digest()


def test_nothing_at_the_place_is_readable_without_the_key(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    red.record("Never call git push --force on main")
    red.sync()
    data = b"".join(path.read_bytes() for path in red.place.rglob("*") if path.is_file())
    assert b"git push" not in data and b"PAR1" not in data and KEY not in data
    assert b"machine" not in data
    membership.join(green.tenant, membership.read_place(green.tenant), bytes(32))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has another key now"):
        green.sync()
    (green.place / "sync.json").unlink()
    outcome = green.sync()
    assert green.events() == [] and outcome.problems, "nor without the file that tells"


def test_receipts_and_other_tellings_of_one_machine_stay_there(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    red.record("Use uv")
    with EventLog(red.tenant.log) as log:
        log.append([Event("receipt-1", NOW, plain_receipt(), "receipt-1")])
    red.sync()
    green.sync()
    assert [event.kind for event in green.events()] == ["recorded"]


def test_a_machine_that_was_set_back_gets_its_own_events_again_and_forks_nothing(
    tmp_path: Path, laptops: list[Laptop]
) -> None:
    red, green, _ = laptops
    red.record("before the backup")
    red.sync()
    shutil.copytree(red.home, tmp_path / "backup")
    red.record("after the backup")
    red.sync()
    green.sync()
    shutil.rmtree(red.home)
    shutil.copytree(tmp_path / "backup", red.home)
    red.record("after the restore", NOW + 60 * SECOND)
    for _ in range(2):
        red.sync()
        green.sync()
    texts = {event.body.content for event in red.events()}  # type: ignore[attr-defined]
    assert texts == {"before the backup", "after the backup", "after the restore"}
    assert red.digest() == green.digest()


def test_a_copied_home_goes_on_as_a_machine_of_its_own(
    tmp_path: Path, laptops: list[Laptop]
) -> None:
    red, green, _ = laptops
    red.record("in both")
    red.sync()
    copy = Laptop("copy", tmp_path / "copy", red.place)
    shutil.copytree(red.home, copy.home)
    red.record("in the first", NOW + SECOND)
    copy.record("in the copy", NOW + 2 * SECOND)
    for _ in range(2):
        for laptop in (red, copy, green):
            laptop.sync(NOW + 3 * SECOND)
    assert red.digest() == copy.digest() == green.digest()
    assert len(green.events()) == 3


def test_the_events_of_a_home_that_is_no_more_travel_with_who_has_them(
    tmp_path: Path, laptops: list[Laptop]
) -> None:
    red, green, _ = laptops
    red.record("only in the old home")
    (red.home / "origin").write_text("01J0000000000000000000000Z\n")  # as in a restored log's home
    red.record("in the new one", NOW + SECOND)
    red.join()
    red.sync()
    green.sync()
    assert len(green.events()) == 2


def test_a_machine_is_taken_out_and_its_events_stay(laptops: list[Laptop]) -> None:
    red, green, blue = laptops
    red.record("said on red")
    red.sync()
    green.sync()
    result = green.run("sync", "remove", "red", "--keep-key")
    assert result.exit_code == 0, result.output
    assert blue.sync().received == {"green": 1}
    assert "no machine" in green.run("sync", "remove", "purple").stderr


def test_a_machine_stays_while_not_all_that_it_sent_can_be_read(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    red.record("said on red")
    red.sync()
    green.sync()
    red.record("said on red later", NOW + SECOND)
    red.sync()
    files = sorted(red.place.rglob("*.parquet"))
    flip(files[-1])
    refused = green.run("sync", "remove", "red")
    assert refused.exit_code == 2 and "red stays" in refused.stderr, refused.output
    assert all(path.exists() for path in files)


def test_a_place_whose_first_file_is_late_gets_no_second_key(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    red.record("said on red")
    red.sync()
    (red.place / "sync.json").unlink()
    late = green.run("sync", "init", str(red.place), given=sealed.write_key(KEY))
    assert late.exit_code == 1 and not (red.place / "sync.json").exists()


def test_a_machine_that_lost_its_key_is_told_what_to_do(laptops: list[Laptop]) -> None:
    red, _, _ = laptops
    (red.tenant.root / "sync" / "key").unlink()
    for words in (("sync",), ("sync", "key")):
        lost = red.run(*words)
        assert lost.exit_code == 2 and "sync init" in lost.stderr


def test_a_paused_machine_neither_sends_nor_receives(laptops: list[Laptop]) -> None:
    red, _, _ = laptops
    red.record("said on red")
    assert red.run("sync", "pause").exit_code == 0
    assert "resume" in red.run("sync").stderr
    assert not (red.place / syncing.TOP).exists()
    assert red.run("sync", "resume").exit_code == 0
    assert "1 event sent" in red.run("sync").stdout
    assert red.run("sync", "remove").exit_code == 0
    result = red.run("sync")
    assert (result.exit_code, "not synced" in result.stderr) == (2, True)


def swap(first: Path, second: Path) -> None:
    data, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(data)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


HOSTILE: dict[str, Callable[[list[Path]], object]] = {
    "changed": lambda files: flip(files[0]),
    "cut short": lambda files: files[0].write_bytes(files[0].read_bytes()[:-5]),
    "only begun": lambda files: files[0].write_bytes(files[0].read_bytes()[:9]),
    "empty": lambda files: files[0].write_bytes(b""),
    "plain": lambda files: files[0].write_bytes(b"PAR1"),
    "swapped": lambda files: swap(files[0], files[1]),
    "renamed": lambda files: files[1].rename(
        files[1].with_name("000000000003-000000000009-0123456789abcdef.parquet")
    ),
    "another's": lambda files: files[0].write_bytes(
        _sealed_by(bytes(32), files[0], b"written without the key")
    ),
    "no events": lambda files: files[0].write_bytes(_sealed_by(KEY, files[0], b"with the key")),
    "first one gone": lambda files: files[0].unlink(),
}


def _sealed_by(key: bytes, path: Path, data: bytes) -> bytes:
    """Return the bytes that a remote with a key would store at a path."""
    stored: dict[str, bytes] = {}

    class _Caught:
        url = "caught"

        def put(self, name: str, data: bytes) -> None:
            stored[name] = data

    root = next(parent for parent in path.parents if (parent / "sync.json").exists())
    name = path.relative_to(root).as_posix()
    Sealed(_Caught(), key).put(name, data)  # type: ignore[arg-type]
    return stored[name]


@pytest.mark.parametrize("way", HOSTILE)
def test_a_file_that_the_machine_did_not_write_so_is_refused_by_name(
    laptops: list[Laptop], way: str
) -> None:
    red, green, blue = laptops
    for text in ("one", "two"):
        red.record(text)
        red.sync()
    blue.record("said on blue")
    blue.sync()
    folders = (red.place / syncing.TOP).iterdir()
    (files,) = [paths for folder in folders if len(paths := sorted(folder.glob("*.parquet"))) == 2]
    HOSTILE[way](files)
    outcome = green.sync()
    assert outcome.received.get("blue") == 1, "what others wrote comes in all the same"
    assert outcome.problems or outcome.received.get("red", 0) < 2
    assert all(event.body.content in ("one", "two", "said on blue") for event in green.events())  # type: ignore[attr-defined]
    for path in files[0].parent.glob("*.parquet"):
        path.unlink()  # as the message advises
    red.sync(anew=True)
    green.sync()
    assert len(green.events()) == 3, "its machine sends it again"


def test_a_machine_cannot_pass_off_events_as_those_of_another(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    red.record("said on red")
    red.sync()
    remote = Sealed(open_remote(str(red.place)), KEY)
    (generation,) = parts.list_generations(remote, syncing.TOP)
    about = parts.read_about(remote, generation)
    forged = msgspec.structs.replace(about, home="01J0000000000000000000000Z", name="forger")
    remote.put(generation.path(parts.ABOUT), msgspec.json.encode(forged))
    outcome = green.sync()
    assert green.events() == []
    assert "does not send" in outcome.problems[0] and "forger" in outcome.problems[0]
    assert [failure.what for failure in failures.every(green.tenant.root)] == ["sync"]


def test_what_a_later_mnemolog_writes_is_refused_until_this_one_is_upgraded(
    laptops: list[Laptop],
) -> None:
    red, green, _ = laptops
    red.record("said on red")
    red.sync()
    remote = Sealed(open_remote(str(red.place)), KEY)
    (generation,) = parts.list_generations(remote, syncing.TOP)
    about = parts.read_about(remote, generation)
    later = msgspec.structs.replace(about, vocabulary={"hunch": 1})
    remote.put(generation.path(parts.ABOUT), msgspec.json.encode(later))
    assert "upgrade mnemolog here" in green.sync().problems[0]
    remote.put(generation.path(parts.ABOUT), msgspec.json.encode(about))
    assert green.sync().received == {"red": 1}


@pytest.mark.parametrize("done", [False, True])
def test_a_pass_that_is_cut_off_at_any_call_is_made_good_by_the_next(
    tmp_path: Path, laptops: list[Laptop], done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_MOST_SMALL", 2)
    red, green, _ = laptops
    total = 0
    for at in range(1, 12):
        for laptop in (red, green):
            total += 1
            laptop.record(f"text {total}", NOW + total * SECOND)
            place = membership.read_place(laptop.tenant)
            assert place is not None
            remote = Cut(Sealed(open_remote(str(laptop.place)), KEY), at, done=done)
            opened = TenantSync(laptop.tenant, place, remote, NOW)
            try:
                opened.sync(NOW, anew=True)
            except RemoteError:
                pass
    for _ in range(2):
        for laptop in (red, green):
            laptop.sync()
    assert len(red.events()) == len(green.events()) == total
    assert red.digest() == green.digest()


def test_a_key_is_read_as_it_is_written_and_a_typing_error_is_seen() -> None:
    key = sealed.new_key()
    text = sealed.write_key(key)
    assert sealed.read_key(f"  {text.upper()}\n") == key
    for wrong in (
        "",
        "hunter2",
        text[:-1],
        text[:20] + ("a" if text[20] != "a" else "b") + text[21:],
    ):
        with pytest.raises(InvalidInput, match="typing error"):
            sealed.read_key(wrong)


def test_the_command_erase_reaches_the_place_and_the_other_machines(
    laptops: list[Laptop], monkeypatch: pytest.MonkeyPatch
) -> None:
    red, green, _ = laptops
    secret = red.record("The alarm code of the cellar is zebra giraffe okapi")
    red.sync()
    green.sync()
    monkeypatch.setenv("MNEMOLOG_HOME", str(red.home))
    result = red.run("erase", secret, "--yes")
    assert "your other machines erase it when they sync" in result.stderr, result.output
    remote = Sealed(open_remote(str(red.place)), KEY)
    assert all(b"giraffe" not in remote.get(entry.name) for entry in remote.list(""))
    result = green.run("sync")
    assert "1 memory erased here" in result.stdout
    assert red.digest() == green.digest()


@pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")
def test_servers_bring_machines_together_by_themselves(laptops: list[Laptop]) -> None:
    red, green, blue = laptops
    first, second = Server(red.home), Server(green.home)
    try:
        assert first.record({"id": "a1", "content": "The pilot boards at the buoy"}) in (200, 201)
        until(lambda: "a1" in ids(green))
        assert second.record({"id": "a2", "content": "The ferry leaves at nine"}) in (200, 201)
        until(lambda: "a2" in ids(red))
        assert green.run("sync", "pause").exit_code == 0
        assert second.record({"id": "a3", "content": "The lock opens at six"}) in (200, 201)
        assert green.run("sync", "resume").exit_code == 0
    finally:
        first.kill()
        second.kill(signal.SIGTERM)  # the new events are sent at the end
    blue.sync()
    assert {"a1", "a2", "a3"} <= ids(blue)


STARTS = {
    "hook_event_name": "SessionStart",
    "session_id": "s1",
    "source": "startup",
    "cwd": str(Path.cwd()),
}


def test_a_session_begins_with_what_was_just_said_on_another_machine(laptops: list[Laptop]) -> None:
    red, green, blue = laptops
    said = "Never push to the release branch without a review"
    red.run("record", said, "--kind", "preference")
    red.sync()
    begun = green.run("hook", "claude-code", given=json.dumps(STARTS))
    assert said in begun.output, "where no server runs"
    server = Server(blue.home)
    try:
        until(lambda: len(ids(blue)) == 1)
        red.run(
            "record", "Deploys go out on Mondays, from the release branch", "--kind", "decision"
        )
        red.sync()
        assert "Mondays" in str(server.ask("POST", "/v1/hooks/claude-code", STARTS))
    finally:
        server.kill()


def test_a_place_that_hangs_does_not_hold_up_the_start_of_a_session(
    laptops: list[Laptop], monkeypatch: pytest.MonkeyPatch
) -> None:
    red, _, _ = laptops
    red.run("record", "Never push to the release branch", "--kind", "preference")
    goes_on, hung = threading.Event(), threading.Event()

    def hang(tenant: tenants.Tenant, now: int) -> None:
        hung.set()
        goes_on.wait(60)

    monkeypatch.setattr(syncing, "open_sync", hang)
    try:
        begun = red.run("hook", "claude-code", given=json.dumps(STARTS))
        assert hung.is_set() and "release branch" in begun.output
        server_sync = Syncing(lambda: Settings(red.home))
        server_sync.bring_in(red.tenant)
        waiting = threading.active_count()
        server_sync.bring_in(red.tenant)
        assert threading.active_count() == waiting, "one waits for it, not one more each time"
    finally:
        goes_on.set()


def ids(laptop: Laptop) -> set[str]:
    with EventLog(laptop.tenant.log) as log:
        return {event.id for event in log.read()}


def test_the_jobs_page_says_how_the_machines_stand(laptops: list[Laptop]) -> None:
    red, green, _ = laptops
    green.record("The ferry leaves at nine")
    green.sync()
    red.sync()
    red.record("The lock opens at six", NOW + SECOND)
    text = red.jobs_page()
    assert "Other machines" in text and "red syncs through" in text
    assert "1 event to send" in text and "green: newest event here" in text

"""Sync's keys: who was given the new one reads what is said, and nobody what was erased."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from background import until
from conftest import NOW
from machines import SECOND, Laptop
from torture.server import Server

from store.home.errors import RemoteError
from store.log import segments
from store.replica.parts import DamagedPart
from store.replica.remote import open_remote
from store.sync import sealed
from store.sync import sync as syncing
from store.sync.sealed import Sealed

CODE = "The alarm code of the cellar is zebra giraffe okapi"
Versions = Callable[[], dict[bytes, set[str]]]


@pytest.fixture(params=["folder", "git"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Versions]:
    """A place that keeps all that was ever written there, and its versions, by their names."""
    kept: dict[bytes, set[str]] = {}
    if request.param == "folder":
        folder = tmp_path / "place"

        def read_folder() -> dict[bytes, set[str]]:
            for path in folder.rglob("*"):
                if path.is_file():
                    names = kept.setdefault(path.read_bytes(), set())
                    names.add(path.relative_to(folder).as_posix())
            return kept

        return str(folder), read_folder
    repository = tmp_path / "memory.git"
    subprocess.run(["git", "init", "--quiet", "--bare", repository], check=True)
    git = ["git", "-C", str(repository)]
    subprocess.run([*git, "config", "gc.auto", "0"], check=True)

    def read_objects() -> dict[bytes, set[str]]:
        """Read every object, those that no ref leads to any more too."""
        every = subprocess.check_output(
            [*git, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"]
        )
        ids = [line.split() for line in every.decode().splitlines()]
        trees = [id_ for kind, id_ in ids if kind == "tree"]
        for tree in trees:
            listed = subprocess.check_output([*git, "ls-tree", "-r", tree]).decode()
            for line in listed.splitlines():
                fields, _, name = line.partition("\t")
                blob = subprocess.check_output([*git, "cat-file", "blob", fields.split()[2]])
                kept.setdefault(blob, set()).add(name)
        return kept

    return f"git+{repository.as_uri()}", read_objects


class Stolen:
    """One version of a file, in the hands of somebody with a key."""

    url = "stolen"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def get(self, name: str) -> bytes:
        return self._data


def tells(versions: dict[bytes, set[str]], key: bytes, word: bytes) -> bool:
    """Return True if a key opens a version that holds a word."""
    for data, names in versions.items():
        for name in names:
            try:
                opened = Sealed(Stolen(data), key).get(name)  # type: ignore[arg-type]
            except DamagedPart:
                continue
            rows = [*segments.decode(opened, 1 << 20)] if name.endswith(".parquet") else [opened]
            if word in repr(rows).encode():
                return True
    return False


def join(laptops: list[Laptop], url: str) -> bytes:
    """Have all machines sync through a place; return its key."""
    first, *others = laptops
    begun = first.run("sync", "init", url, "--name", first.name, "--json")
    assert begun.exit_code == 0, begun.output
    text = json.loads(begun.stdout)["key"]
    for laptop in others:
        assert laptop.run("sync", "init", url, "--name", laptop.name, given=text).exit_code == 0
    return sealed.read_key(text)


@pytest.fixture
def laptops(tmp_path: Path) -> list[Laptop]:
    found = [Laptop(name, tmp_path / name, tmp_path / "place") for name in ("desk", "laptop")]
    for laptop in found:
        laptop.record(f"said on {laptop.name} first")
    return found


def change_key(laptop: Laptop) -> bytes:
    changed = laptop.run("sync", "key", "--new", "--json")
    assert changed.exit_code == 0, changed.output
    return sealed.read_key(json.loads(changed.stdout)["key"])


def test_old_versions_of_what_was_erased_are_unreadable_once_all_have_the_new_key(
    laptops: list[Laptop], place: tuple[str, Versions]
) -> None:
    url, versions = place
    desk, laptop = laptops
    old = join(laptops, url)
    secret = laptop.record(CODE, NOW + SECOND)
    for one in (laptop, desk):
        assert one.run("sync").exit_code == 0
    versions()
    assert desk.run("erase", secret, "--yes").exit_code == 0
    assert "1 memory erased here" in laptop.run("sync").stdout
    assert tells(versions(), old, b"giraffe"), "an old version, for who has the old key"
    new = change_key(desk)
    given = laptop.run("sync", "init", url, "--name", "laptop", given=sealed.write_key(new))
    assert given.exit_code == 0, given.output
    assert desk.run("sync").exit_code == 0
    assert desk.digest() == laptop.digest() and len(desk.events()) == len(laptop.events())

    every = versions()
    assert tells(every, new, b"said on laptop first"), "the scan can see"
    assert not tells(every, new, b"giraffe")
    assert not any(b"giraffe" in data or old in data or new in data for data in every)
    for one in laptops:
        files = [path.read_bytes() for path in one.home.rglob("*") if path.is_file()]
        assert any(new in data for data in files), "the scan can see"
        assert not any(old in data for data in files), "no machine has the old key"


def test_a_machine_that_was_taken_out_reads_nothing_that_is_said_later(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    desk, sold = laptops
    url = str(tmp_path / "place")
    old = join([*laptops, phone := Laptop("phone", tmp_path / "phone", tmp_path / "place")], url)
    assert desk.run("sync").exit_code == 0
    taken_out = desk.run("sync", "remove", "laptop")
    assert taken_out.exit_code == 0, taken_out.output
    assert "is taken out" in taken_out.stdout and "Every other machine" in taken_out.stdout
    assert "laptop" not in desk.run("sync", "status").stdout
    desk.record("The new safe is behind the okapi", NOW + SECOND)
    assert desk.run("sync").exit_code == 0

    refused = sold.run("sync")
    assert refused.exit_code == 2 and "has another key now" in refused.stderr
    sold.record("Always push to the giraffe remote", NOW + 2 * SECOND)
    (sold.place / "sync.json").unlink()  # were it ill-willed
    sold.run("sync")
    remote = Sealed(open_remote(url), old)
    assert not tells(read(tmp_path / "place"), old, b"okapi")
    sealed.begin(remote)
    for one in (desk, phone):
        one.run("sync")
        assert not any("giraffe" in repr(event) for event in one.events())
    assert "said on laptop first" in repr(desk.events()), "its memories stay"


def read(folder: Path) -> dict[bytes, set[str]]:
    return {
        path.read_bytes(): {path.relative_to(folder).as_posix()}
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_a_machine_says_before_it_is_given_the_new_key_waits_and_is_sent(
    laptops: list[Laptop], place: tuple[str, Versions]
) -> None:
    url, _ = place
    desk, laptop = laptops
    join(laptops, url)
    laptop.record("said before the change", NOW + SECOND)
    assert laptop.run("sync").exit_code == 0, "which desk did not ask for yet"
    said = desk.run("sync", "key", "--new")
    assert "(laptop) needs it" in said.stdout
    (new,) = (line for line in said.stdout.split() if line.startswith("mnemolog-key-"))
    laptop.record("said after the change", NOW + 2 * SECOND)
    waiting = laptop.run("sync")
    assert waiting.exit_code == 2 and "has another key now" in waiting.stderr
    assert "laptop has not been given the new key" in desk.run("sync", "status").stderr
    wrong = laptop.run("sync", "init", url, given=sealed.write_key(bytes(32)))
    assert wrong.exit_code == 2 and "another key" in wrong.stderr
    desk.record("said on desk meanwhile", NOW + 3 * SECOND)
    assert desk.run("sync").exit_code == 0, "a machine that has not got the key is no problem"
    given = laptop.run("sync", "init", url, "--name", "laptop", given=new)
    assert given.exit_code == 0, given.output
    assert "1 event from laptop" in (result := desk.run("sync")).stdout, result.output
    assert desk.digest() == laptop.digest()
    assert {"said before the change", "said after the change"} <= {
        getattr(event.body, "content", None) for event in desk.events()
    }
    status = json.loads(desk.run("sync", "status", "--json").stdout)
    assert [(one["name"], one["has_key"]) for one in status["machines"]] == [("laptop", True)]


def test_the_key_stays_if_the_place_does_not_take_the_new_one(
    laptops: list[Laptop], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk = laptops[0]
    url = str(tmp_path / "place")
    old = join(laptops, url)

    def fail(remote: Sealed) -> None:
        raise RemoteError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sealed, "begin", fail)
        assert "the disk is full" in desk.run("sync", "key", "--new").stderr
    assert desk.run("sync", "key").stdout.strip() == sealed.write_key(old)
    assert [one.run("sync").exit_code for one in laptops] == [0, 0]


def test_a_machine_that_is_ended_while_it_changes_the_key_goes_on_with_the_old_one(
    laptops: list[Laptop], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk, laptop = laptops
    url = str(tmp_path / "place")
    join(laptops, url)

    def end(remote: Sealed) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(sealed, "begin", end)
        assert desk.run("sync", "key", "--new").exit_code == 9
    laptop.record("said on laptop meanwhile", NOW + SECOND)
    assert laptop.run("sync").exit_code == 0
    assert "has another key now" in desk.run("sync").stderr
    old = laptop.run("sync", "key").stdout
    assert desk.run("sync", "init", url, "--name", "desk", given=old).exit_code == 0
    laptop.run("sync")
    assert desk.digest() == laptop.digest()
    assert "said on laptop meanwhile" in repr(desk.events())


def test_files_with_the_old_key_that_a_folder_brings_back_do_no_harm(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    desk, laptop = laptops
    url, kept = str(tmp_path / "place"), tmp_path / "kept"
    join(laptops, url)
    desk.run("sync")
    shutil.copytree(tmp_path / "place" / syncing.TOP, kept)
    new = change_key(desk)
    assert laptop.run("sync", "init", url, given=sealed.write_key(new)).exit_code == 0
    shutil.copytree(kept, tmp_path / "place" / syncing.TOP, dirs_exist_ok=True)
    for one in laptops:
        one.record("said later", NOW + SECOND)
        assert one.run("sync").exit_code == 0
    assert desk.run("sync").exit_code == 0
    assert desk.digest() == laptop.digest()


def test_a_file_that_arrives_late_is_read_though_it_could_not_be_at_the_change(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    desk, laptop = laptops
    url = str(tmp_path / "place")
    key = join(laptops, url)
    assert desk.run("sync").exit_code == 0
    half = [path for path in (tmp_path / "place").rglob("about.json") if path.stat().st_size]
    whole = {path: path.read_bytes() for path in half}
    for path in half:
        path.write_bytes(whole[path][:9])  # as a folder that is still being synced has them
    desk.run("sync", "init", url, given=sealed.write_key(key))
    for path, data in whole.items():
        path.write_bytes(data)
    laptop.record("said later", NOW + SECOND)
    assert laptop.run("sync").exit_code == 0
    assert "1 event from laptop" in (result := desk.run("sync")).stdout, result.output


def test_the_key_stays_while_not_all_that_the_others_sent_can_be_read(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    desk, laptop = laptops
    join(laptops, str(tmp_path / "place"))
    laptop.record("said later", NOW + SECOND)
    laptop.run("sync")
    newest = max((tmp_path / "place").rglob("*.parquet"), key=os.path.getmtime)
    newest.write_bytes(b"damaged")
    refused = desk.run("sync", "key", "--new")
    assert refused.exit_code == 2 and "the key stays" in refused.stderr


def test_a_machine_that_nobody_has_is_taken_out_and_the_key_stays(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    desk, _ = laptops
    old = join(laptops, str(tmp_path / "place"))
    desk.run("sync")
    wiped = desk.run("sync", "remove", "laptop", "--keep-key")
    assert wiped.exit_code == 0 and "mnemolog-key" not in wiped.stdout
    assert desk.run("sync", "key").stdout.strip() == sealed.write_key(old)
    assert "said on laptop first" in repr(desk.events())


def test_a_copy_of_the_place_alone_brings_everything_back_with_the_key(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    url = str(tmp_path / "place")
    join(laptops, url)
    new = change_key(laptops[0])
    assert laptops[1].run("sync", "init", url, given=sealed.write_key(new)).exit_code == 0
    before = laptops[1].digest()
    for laptop in laptops:
        shutil.rmtree(laptop.home)
    found = Laptop("found", tmp_path / "found", tmp_path / "place")
    joined = found.run("sync", "init", url, given=sealed.write_key(new))
    assert joined.exit_code == 0 and found.digest() == before


@pytest.mark.skipif(os.name != "posix", reason="there is no kill -9")
def test_a_running_server_goes_on_with_the_new_key(laptops: list[Laptop], tmp_path: Path) -> None:
    desk, laptop = laptops
    url = str(tmp_path / "place")
    join(laptops, url)
    first, second = Server(desk.home), Server(laptop.home)
    try:
        new = change_key(desk)
        assert first.record({"id": "a1", "content": "The pilot boards at the buoy"}) in (200, 201)
        until(lambda: tells(read(tmp_path / "place"), new, b"buoy"))
        given = laptop.run("sync", "init", url, given=sealed.write_key(new))
        assert given.exit_code == 0, given.output
        until(lambda: "a1" in {event.id for event in laptop.events()})
    finally:
        first.kill()
        second.kill()


def test_the_jobs_page_names_the_machines_that_need_the_new_key(
    laptops: list[Laptop], tmp_path: Path
) -> None:
    desk, _ = laptops
    join(laptops, str(tmp_path / "place"))
    change_key(desk)
    text = desk.jobs_page()
    assert "needs the new key" in text

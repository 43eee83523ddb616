"""The log's errors when the disk, another process or another program stands in the way."""

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import apsw
import pytest

from store.home.errors import (
    LogBusy,
    LogCorrupt,
    LogError,
    LogForeign,
    LogVersion,
    MnemologError,
    NotFound,
)
from store.log import log_file
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.log.events import Event

NOW = 1_790_000_000_000_000

Child = Callable[..., "Popen[str]"]


def memory(id_: str) -> Event:
    return Event(id_, NOW, Recorded(content="some words"), id_)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can reach; tmp_path lies in one that only we can enter."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def after_mounting(command: str) -> tuple[str, ...]:
    """Return the command prefix for a mount namespace of its own; skip if not permitted."""
    before = ("unshare", "-m", "sh", "-c", command, "sh")
    quiet = subprocess.DEVNULL
    if (
        shutil.which("unshare") is None
        or subprocess.run([*before, "true"], stderr=quiet).returncode
    ):
        pytest.skip("a disk cannot be mounted here: needs Linux and root")
    return before


HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def test_a_writer_gives_up_on_a_held_log_and_reads_go_on(
    log: EventLog, child: Child, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_file, "BUSY_TIMEOUT_MS", 100)
    log.append([memory("a")])
    holder = child(HOLD, log.path)
    assert holder.stdout.readline() == "held\n"
    with EventLog(log.path) as impatient:
        with pytest.raises(LogBusy, match="try again") as caught:
            impatient.append([memory("b")])
        assert str(log.path) in str(caught.value)
        assert [event.id for event in impatient.read()] == ["a"]
        holder.communicate("\n")
        assert impatient.append([memory("b")])[0].event.seq == 2


def test_a_writer_waits_for_a_log_that_is_held_for_a_moment(log: EventLog, child: Child):
    holder = child(HOLD, log.path)
    assert holder.stdout.readline() == "held\n"
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert log.append([memory("a")])[0].is_new


FILL = """
import json, os, sys
from pathlib import Path
from store.home.errors import LogError
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.events import Event
from store.log.event_log import EventLog

folder = Path(sys.argv[1])
said = {}
with EventLog(folder / "log.sqlite", create=True) as log:
    events = [Event(f"e{n}", 1, Recorded(content="words " * 2000), f"e{n}") for n in range(20)]
    log.append(events[:2])
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
    try:
        for _ in range(3):
            log.append(events)
    except LogError as error:
        said["error"], said["text"] = type(error).__name__, str(error)
    said["while full"] = [event.id for event in log.read()]
    (folder / "filler").unlink()
    said["retried"] = [one.is_new for one in log.append(events)]
    said["again"] = [one.is_new for one in log.append(events)]
    said["ids"] = [event.id for event in log.read()]
    said["integrity"] = integrity.problems(log)
print(json.dumps(said))
"""


def test_a_full_disk_writes_nothing_and_a_retry_writes_it_once(tmp_path: Path, child: Child):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = f'mount -t tmpfs -o size=1m tmpfs "{disk}" && exec "$@"'
    process = child(FILL, disk, before=after_mounting(mounted))
    output, _ = process.communicate()
    assert process.returncode == 0, output
    payload = json.loads(output)
    assert payload["error"] == "LogFull"
    assert str(disk) in payload["text"] and "retry" in payload["text"]
    assert payload["while full"] == ["e0", "e1"]
    assert payload["retried"] == [False] * 2 + [True] * 18 and not any(payload["again"])
    assert payload["ids"] == [f"e{number}" for number in range(20)] and payload["integrity"] == []


LIMITED = """
import resource, signal, sys
from pathlib import Path
from store.home.errors import LogError
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.events import Event
from store.log.event_log import EventLog

log = EventLog(Path(sys.argv[1]), create=True)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
events = [Event(f"e{n}", 1, Recorded(content="words " * 2000), f"e{n}") for n in range(20)]
try:
    log.append(events)
except LogError as error:
    print(error)
assert log.head() == 0
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert all(one.is_new for one in log.append(events)) and integrity.problems(log) == []
"""


def test_a_file_size_limit_writes_nothing_and_a_retry_succeeds(tmp_path: Path, child: Child):
    pytest.importorskip("resource")
    process = child(LIMITED, tmp_path / "log.sqlite")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert str(tmp_path) in output and "ulimit -f" in output


READ_ONLY = """
import os, sys
from pathlib import Path
from store.home.errors import LogReadOnly
from store.log.event_kinds import Recorded
from store.log.events import Event
from store.log.event_log import EventLog

if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with EventLog(Path(sys.argv[1]), create=bool(int(sys.argv[2]))) as log:
        log.append([Event("b", 1, Recorded(content="words"), "b")])
except LogReadOnly as error:
    print("refused:", error)
"""


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("create", [0, 1])
@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o555, 0o444), (0o555, 0o666), (0o755, 0o400), (0o000, 0o666)]
)
def test_a_place_we_may_not_write_is_read_only(
    public_folder: Path, child: Child, folder_mode: int, file_mode: int, create: int
):
    folder = public_folder / "tenant"
    path = folder / "log.sqlite"
    with EventLog(path, create=True) as log:
        log.append([memory("a")])
    path.chmod(file_mode)
    folder.chmod(folder_mode)
    process = child(READ_ONLY, path, create)
    output, _ = process.communicate()
    folder.chmod(0o755)
    assert process.returncode == 0 and output.startswith("refused:"), output
    assert str(path) in output and "check owner and mode" in output


READ_ON_READ_ONLY = """
import os, subprocess, sys
from pathlib import Path
from store.home.errors import LogReadOnly
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.events import Event
from store.log.event_log import EventLog
disk, path = Path(sys.argv[1]).parent, Path(sys.argv[1])
try:
    EventLog(path, create=True).close()
except LogReadOnly as error:
    print("not made:", error)
with EventLog(path) as log:
    print([one.id for one in log.read()], integrity.problems(log))
    try:
        log.append([Event("b", 1, Recorded(content="words"), "b")])
    except LogReadOnly as error:
        print("refused:", error)
    subprocess.run(["mount", "-o", "remount,bind,rw", disk], check=True)
    log.append([Event("b", 1, Recorded(content="words"), "b")])
    print([one.id for one in log.read()])
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_log_on_a_read_only_disk_is_read_and_written_again_once_it_may_be(
    tmp_path: Path, child: Child, is_killed: bool
):
    disk = tmp_path / "disk"
    path = disk / "log.sqlite"
    with EventLog(path, create=True) as log:
        log.append([memory("a")])
        if is_killed:  # its files as a kill would leave them
            copies = {other: other.read_bytes() for other in disk.iterdir()}
    if is_killed:
        for copied, data in copies.items():
            copied.write_bytes(data)
    assert (disk / "log.sqlite-wal").exists() is is_killed
    mounted = f'mount --bind "{disk}" "{disk}" && mount -o remount,bind,ro "{disk}" && exec "$@"'
    process = child(READ_ON_READ_ONLY, path, before=after_mounting(mounted))
    recorded, read, refused, written = process.communicate()[0].splitlines()
    for line in (recorded, refused):
        assert str(path) in line and "have it mounted for writing" in line
    assert recorded.startswith("not made:") and refused.startswith("refused:")
    assert read == "['a'] []" and written == "['a', 'b']"


def test_a_writer_waits_for_others_of_its_process_no_longer_than_for_a_lock(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_file, "BUSY_TIMEOUT_MS", 50)
    is_in, may_end = threading.Event(), threading.Event()

    def slow(connection: object) -> None:
        is_in.set()
        assert may_end.wait(30)

    writer = threading.Thread(target=log.append, args=([memory("a")], [slow]))
    writer.start()
    try:
        assert is_in.wait(30)
        with pytest.raises(LogBusy, match="try again"):
            log.append([memory("b")])
    finally:
        may_end.set()
        writer.join()
    assert log.append([memory("b")])[0].event.seq == 2


def test_another_programs_database_is_left_alone(tmp_path: Path):
    path = tmp_path / "log.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(LogForeign, match="MNEMOLOG_HOME") as caught:
            EventLog(path, create=create)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_text_file_is_left_alone(tmp_path: Path):
    path = tmp_path / "log.sqlite"
    path.write_text("# my notes\n" * 100)
    for create in (False, True):
        with pytest.raises(LogForeign, match="move it away") as caught:
            EventLog(path, create=create)
        assert str(path) in str(caught.value)
    assert path.read_text() == "# my notes\n" * 100


def test_an_empty_file_is_no_log_until_it_is_made_one(tmp_path: Path):
    path = tmp_path / "log.sqlite"
    path.touch()
    with pytest.raises(LogForeign):
        EventLog(path)
    with EventLog(path, create=True) as log:
        assert log.head() == 0


def test_a_log_of_a_later_version_asks_for_an_upgrade(log: EventLog):
    connection = apsw.Connection(str(log.path))
    connection.execute("PRAGMA user_version = 99")
    with pytest.raises(LogVersion, match=r"99.*upgrade mnemolog") as caught:
        EventLog(log.path)
    assert str(log.path) in str(caught.value)


def test_no_log_is_not_found_and_none_is_made(tmp_path: Path):
    with pytest.raises(NotFound, match="mnemolog init") as caught:
        EventLog(tmp_path / "none" / "log.sqlite")
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_cut_log_is_corrupt(tmp_path: Path):
    path = tmp_path / "log.sqlite"
    with EventLog(path, create=True) as log:
        log.append([memory(str(number)) for number in range(200)])
    path.write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(LogCorrupt, match="restore a backup") as caught:
        with EventLog(path) as log:
            list(log.read())
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("taken", ["file", "folder"])
def test_a_path_that_is_something_else_is_an_error_of_ours(tmp_path: Path, taken: str):
    path = tmp_path / "home" / "log.sqlite"
    if taken == "file":
        (tmp_path / "home").write_text("a file where the folder should be")
    else:
        path.mkdir(parents=True)
    for create in (False, True):
        with pytest.raises(MnemologError) as caught:
            EventLog(path, create=create)
        assert isinstance(caught.value, LogError | NotFound) and str(path) in str(caught.value)

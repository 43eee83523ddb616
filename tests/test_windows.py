"""Behaviour of Windows, with stand-ins for its system calls: none of this ran on Windows."""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

import platformdirs.windows
import pytest
from mnemolog.connection import default_home

from serve import client
from serve.hosts import claude_code
from serve.hosts.host import Install
from store.home import files, registry

LOCAL = r"C:\Users\Anna Ames\AppData\Local"


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")


@dataclass
class Readers:
    """Programs that keep the old file open for the first `tries` replacements."""

    tries: int
    replace = staticmethod(os.replace)
    asked: int = field(default=0)

    def __call__(self, source: Path, target: Path) -> None:
        self.asked += 1
        if self.asked <= self.tries:
            raise PermissionError(13, "The process cannot access the file")
        self.replace(source, target)


def test_a_file_that_is_being_read_is_replaced_when_the_reader_is_done(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    readers = Readers(3)
    monkeypatch.setattr(os, "replace", readers)
    files.replace_file(tmp_path / "HEAD", b"7")
    assert ((tmp_path / "HEAD").read_bytes(), readers.asked) == (b"7", 4)


def test_a_file_that_nobody_lets_go_is_left_whole(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files.replace_file(tmp_path / "HEAD", b"6")
    monkeypatch.setattr(os, "replace", Readers(10**6))
    monkeypatch.setattr(files, "_READER_PATIENCE_S", 0.05)
    with pytest.raises(PermissionError):
        files.replace_file(tmp_path / "HEAD", b"7")
    assert [path.name for path in tmp_path.iterdir()] == ["HEAD"]
    assert (tmp_path / "HEAD").read_bytes() == b"6"


def test_elsewhere_a_file_we_may_not_replace_is_not_tried_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    readers = Readers(10**6)
    monkeypatch.setattr(os, "replace", readers)
    with pytest.raises(PermissionError):
        files.replace_file(tmp_path / "HEAD", b"7")
    assert readers.asked == 1


def test_a_folder_that_cannot_be_opened_need_not_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opened = os.open

    def refuse_folders(path: Path, flags: int, mode: int = 0o777) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse_folders)
    files.replace_file(tmp_path / "HEAD", b"7")
    assert (tmp_path / "HEAD").read_bytes() == b"7"


def test_hook_client_program_and_settings_name_one_home(
    windows: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(platformdirs.windows, "get_win_folder", lambda name: LOCAL)
    folder = platformdirs.windows.Windows("mnemolog", appauthor=False).user_data_dir
    environ = {"LOCALAPPDATA": LOCAL}
    assert PureWindowsPath(folder) == PureWindowsPath(LOCAL, "mnemolog")
    assert PureWindowsPath(client.home_of(environ)) == PureWindowsPath(folder)
    assert PureWindowsPath(str(default_home(environ))) == PureWindowsPath(folder)


def test_a_hook_is_a_program_with_its_words_and_no_line_of_a_shell():
    python = rf"{LOCAL}\uv\python.exe"
    install = Install(python, Path("serve"), Path("memory of anna"), None, 7437, "", "win32")
    hook = claude_code.command(install)
    assert (hook["command"], hook["args"][-1]) == (python, "memory of anna")
    assert install.line("codex") == subprocess.list2cmdline(install.client("codex"))
    assert shlex.quote(python) not in install.line("codex")


def test_a_process_is_not_asked_whether_it_lives_where_that_would_end_it(
    monkeypatch: pytest.MonkeyPatch,
):
    ended: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", lambda pid, number: ended.append(pid))
        patched.setattr(os, "name", "nt")
        assert registry.lives(4711)
    assert not ended


def test_a_lock_that_another_holds_is_not_waited_for(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Msvcrt:
        LK_NBLCK = 2
        asked: tuple[int, ...] = ()

        def locking(self, descriptor: int, mode: int, count: int) -> None:
            if self.asked:
                raise OSError(13, "Permission denied")
            self.asked = (mode, count)

    system = Msvcrt()
    monkeypatch.setattr(registry, "msvcrt", system, raising=False)
    with open(tmp_path / "lock", "wb") as file:
        assert registry._take_lock(file.fileno())
        assert not registry._take_lock(file.fileno())
    assert system.asked == (Msvcrt.LK_NBLCK, 1)

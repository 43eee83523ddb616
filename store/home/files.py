"""
Folders readable by their owner alone, and files written whole or not at all, even after a power
cut: fsync the file, rename it, fsync the folder. A folder is an entry of the one above it: POSIX
promises nothing about its contents before that one is fsynced too.
"""

import errno
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from stat import S_ISDIR
from typing import IO, TypeVar
from uuid import uuid4

import msgspec

from store.home.errors import ConfigError, LogError, LogFull, LogReadOnly

_HOUR_S = 3_600.0  # longer than any file takes to write
_LOCK_PATIENCE_S = 10.0  # a change of a small file takes milliseconds
_READER_PATIENCE_S, _READER_PAUSE_S = 2.0, 0.01
_PASSING = re.compile(r"\A\..+-[0-9a-f]{8}")


def make_folder(folder: Path) -> None:
    """Make a folder and missing parents, each open to its owner alone, on the disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old bytes or the new ones, never a part."""
    make_folder(path.parent)
    temporary = temporary_name(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            sync_written(file)
        _put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _put_in_place(temporary: Path, path: Path) -> None:
    """Give a file its name; Windows refuses that while somebody reads the old file."""
    deadline = time.monotonic() + (_READER_PATIENCE_S if sys.platform == "win32" else 0)
    while True:
        try:
            return os.replace(temporary, path)
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_READER_PAUSE_S)


_Rows = TypeVar("_Rows", bound=tuple[object, ...])


def read_rows(path: Path, decoder: msgspec.json.Decoder[_Rows], cure: str) -> _Rows:
    """Return the rows of a small JSON file, none if there is no file.

    Raise ConfigError, ending with `cure`, if it cannot be read.
    """
    try:
        return decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return decoder.decode(b"[]")
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): {cure}") from error


FileStamp = tuple[int, ...]


def file_stamp(path: Path) -> FileStamp | None:
    """Return a value that changes with a file, None if there is no file; costs microseconds."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock a file against changes by other threads and processes; raise ConfigError.

    The lock is a file beside it, `tokens.lock` for `tokens.json`.
    """
    import filelock  # costs a tenth of a server's start, and the file is seldom changed

    lock = filelock.FileLock(path.with_suffix(".lock"), timeout=_LOCK_PATIENCE_S, mode=0o600)
    try:
        make_folder(path.parent)
        lock.acquire()
    except filelock.Timeout:
        raise ConfigError(f"{path} is in use by another process: try again") from None
    except OSError as error:
        raise ConfigError(f"{path.parent} cannot be written ({error.strerror})") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold a lock file against all threads and processes; give False at once if it is held."""
    import filelock

    lock = filelock.FileLock(path, timeout=0.0, mode=0o600)
    try:
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def temporary_name(path: Path) -> Path:
    """Return a unique name beside a path for a file that is not whole yet."""
    return path.with_name(f".{path.name}-{uuid4().hex[:8]}")


def sweep(folder: Path, *, older_than_s: float = _HOUR_S) -> None:
    """Remove temporary files that killed writers left in a folder.

    A caller that keeps all other writers out may pass 0 for `older_than_s`.
    """
    paths = folder.iterdir() if folder.is_dir() else ()
    remove_files(path for path in paths if has_passing_name(path) and is_old(path, older_than_s))


def has_passing_name(path: Path) -> bool:
    return _PASSING.fullmatch(path.name) is not None


def is_old(path: Path, older_than_s: float = _HOUR_S) -> bool:
    """Return True if a file has not been written for so long that its writer was killed."""
    try:
        return path.lstat().st_mtime <= time.time() - older_than_s
    except FileNotFoundError:  # its writer was not killed
        return False


def remove_files(paths: Iterable[Path]) -> None:
    """Delete files so that they stay deleted, after a power cut too.

    A file that is mapped on Windows stays, for the next time.
    """
    folders = set()
    for path in paths:
        with suppress(PermissionError, FileNotFoundError):
            path.unlink()
            folders.add(path.parent)
    for folder in folders:
        sync_folder(folder)


def is_gone(path: Path) -> bool:
    """Return True if a file does not exist; a file that we may not look at counts as existing."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def sync_file(path: Path) -> None:
    """Sync a file written by others to the disk."""
    descriptor = os.open(path, os.O_RDWR)  # Windows flushes writable files only
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_written(file: IO[bytes]) -> None:
    """Sync an open file's writes to the disk."""
    if _syncs.get():
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def without_syncs() -> Iterator[None]:
    """Let this thread write files that are not needed after a power cut, without waiting for the
    disk.
    """
    token = _syncs.set(False)
    try:
        yield
    finally:
        _syncs.reset(token)


_syncs = ContextVar("syncs", default=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to the disk."""
    if not _syncs.get():
        return
    # Windows cannot open a folder; there NTFS journals the rename itself
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_path(folder: Path) -> None:
    """Sync a folder's entries to the disk, and each folder above it up to its mount point.

    The process that made one of them may have ended before it fsynced the one above.
    """
    folder = folder.absolute()
    sync_folder(folder)
    while not folder.is_mount() and folder != folder.parent:
        folder = folder.parent
        sync_folder(folder)


def sync_folders(root: Path) -> None:
    """Sync the entries of a folder and of all below it to the disk, deletions included."""
    for folder, _, _ in os.walk(root):
        with suppress(FileNotFoundError):  # another process has just removed it
            sync_folder(Path(folder))


def sync_tree(folder: Path) -> None:
    """Sync a folder to the disk with all files below it, written by others."""
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)


# Temporary folders

_OWNED = "mnemolog.lock"  # in a temporary folder, held for as long as its process lives
_YOUNG_S = 60.0  # locking a new folder never takes longer


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Give a folder in the system's temporary folder, removed at the end of the block.

    Those of killed processes are removed first.
    """
    from tempfile import TemporaryDirectory, gettempdir

    import filelock  # as above

    for old in Path(gettempdir()).glob(f"mnemolog-{name}-*"):
        _remove_abandoned(old)
    # on Windows a mapped file cannot be deleted: the next such folder's owner does it
    with TemporaryDirectory(prefix=f"mnemolog-{name}-", ignore_cleanup_errors=True) as folder:
        with filelock.FileLock(Path(folder, _OWNED), mode=0o600):
            yield Path(folder)


def _remove_abandoned(folder: Path) -> None:
    """Remove a temporary folder of ours whose process is gone."""
    import shutil

    import filelock

    # a world-writable folder may contain anything: other users' files are left
    with suppress(OSError, filelock.Timeout):
        status = folder.lstat()
        is_ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        if not (S_ISDIR(status.st_mode) and is_ours and is_old(folder, _YOUNG_S)):
            return
        with filelock.FileLock(folder / _OWNED, timeout=0, mode=0o600):
            pass
        shutil.rmtree(folder, ignore_errors=True)


# Disk errors: errors of a failing or full disk, as our errors with their fix.


_HANDLES = 5  # of a log: two connections, each with the write-ahead log, and their shared memory


def disk_error(error: OSError, path: Path | None = None) -> LogError | None:
    """Return a disk's failure as an error of ours; None if it is not the disk's.

    `path` is for errors that do not name a file.
    """
    where = error.filename or path or "a file of the home"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return LogFull(f"no space left for {where}: nothing was written; free space and retry")
        case errno.EFBIG:
            return LogFull(f"{where} may not grow: raise the limit (`ulimit -f`) and retry")
        case errno.EROFS:
            return read_only_error(where)
        case errno.EACCES | errno.EPERM:
            return LogReadOnly(
                f"{where} cannot be written ({error.strerror}): check owner and mode"
            )
        case errno.EMFILE | errno.ENFILE:
            return LogError(
                f"{where} cannot be opened, too many files are: raise the limit (`ulimit -n`) of "
                "what runs here, or use fewer tenants at once"
            )
        case errno.EIO:
            return LogError(f"reading or writing {where} failed ({error.strerror}): check the disk")
    return None


def handles_error(path: Path) -> LogError | None:
    """Return the error for a file that SQLite could not open because handles are running out:
    SQLite does not report that. None if there are enough of them.
    """
    try:
        with ExitStack() as opened:
            # not the file itself: closing it would give up the locks SQLite has on it
            for _ in range(_HANDLES):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return disk_error(OSError(error.errno, error.strerror), path)
    return None


def read_only_error(where: object) -> LogReadOnly:
    """Return the error for a file on a disk that cannot be written."""
    return LogReadOnly(
        f"{where} lies on a read-only disk: have it mounted for writing, or set MNEMOLOG_HOME"
    )


def is_read_only(path: Path) -> bool:
    """Return True if a file is on a read-only disk, regardless of its owner and mode."""
    if not hasattr(os, "statvfs"):  # Windows
        return False
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


@contextmanager
def translate_disk_errors(folder: Path) -> Iterator[None]:
    """Turn disk errors of writes below a folder into errors of ours."""
    try:
        yield
    except OSError as error:
        if (ours := disk_error(error, folder)) is None:
            raise
        raise ours from error

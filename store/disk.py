"""
What the system says of a disk in trouble, in our words: what could not be done, and the cure.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.errors import LogError, LogFull, LogReadOnly


def failure(error: OSError, path: Path | None = None) -> LogError | None:
    """Return a disk's failure as an error of ours; None where it is no disk's.

    `path` is for errors that do not name a file.
    """
    where = error.filename or path or "a file of the home"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return LogFull(f"no space left for {where}: nothing was written, free some and retry")
        case errno.EFBIG:
            return LogFull(f"{where} may not grow: raise the limit (`ulimit -f`) and retry")
        case errno.EROFS:
            return read_only(where)
        case errno.EACCES | errno.EPERM:
            return LogReadOnly(
                f"{where} cannot be written ({error.strerror}): check owner and mode"
            )
        case errno.EMFILE | errno.ENFILE:
            return LogError(
                f"{where} cannot be opened, too many files are: try again later, or raise the "
                "limit (`ulimit -n`)"
            )
        case errno.EIO:
            return LogError(f"reading or writing {where} failed ({error.strerror}): check the disk")
    return None


def read_only(where: object) -> LogReadOnly:
    """Return what is said of a file on a disk that cannot be written."""
    return LogReadOnly(
        f"{where} lies on a read-only disk: have it mounted for writing, or set MNEMOLOG_HOME"
    )


def is_read_only(path: Path) -> bool:
    """Return whether a file lies on a disk that cannot be written, whatever its owner and mode."""
    if not hasattr(os, "statvfs"):  # Windows
        return False
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the disk says to who writes below a folder into errors of ours."""
    try:
        yield
    except OSError as error:
        if (known := failure(error, folder)) is None:
            raise
        raise known from error

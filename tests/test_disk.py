"""A disk's faults become errors of ours that name the fix."""

import errno
import os
from pathlib import Path

import pytest

from store.home.errors import LogError, LogFull, LogReadOnly
from store.home.files import disk_error


@pytest.mark.parametrize(
    ("number", "kind", "cure"),
    [
        (errno.ENOSPC, LogFull, "free space"),
        (errno.EDQUOT, LogFull, "free space"),
        (errno.EFBIG, LogFull, "ulimit -f"),
        (errno.EROFS, LogReadOnly, "MNEMOLOG_HOME"),
        (errno.EACCES, LogReadOnly, "owner and mode"),
        (errno.EMFILE, LogError, "ulimit -n"),
        (errno.EIO, LogError, "check the disk"),
    ],
)
def test_it_names_the_file_and_the_cure(number: int, kind: type[LogError], cure: str):
    error = disk_error(OSError(number, os.strerror(number), "/home/of/it"))
    assert type(error) is kind and cure in str(error) and "/home/of/it" in str(error)


def test_a_file_that_the_error_does_not_name_is_the_one_given():
    error = disk_error(OSError(errno.ENOSPC, "no space"), Path("/the/log"))
    assert "/the/log" in str(error)


def test_other_os_errors_are_no_disk_errors():
    assert disk_error(FileNotFoundError(errno.ENOENT, "none", "/x")) is None
    assert disk_error(OSError("of no number")) is None

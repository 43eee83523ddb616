"""
The heap of a server that runs for weeks: glibc gives each thread one, which keeps its largest.
"""

import ctypes
import sys
from contextlib import suppress

_M_ARENA_MAX = -8  # mallopt(3)


def share_one() -> None:
    """Let threads take memory from one heap.

    To be called before numpy and pyarrow are imported: they start threads, and a heap that is there
    stays.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without this setting
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)

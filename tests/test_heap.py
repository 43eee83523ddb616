"""A server's threads share one heap; both ways of starting it arrange that early enough."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the heaps of glibc")

# in place of the server: imports as much, lets threads allocate, and counts the heaps
CODE = """
import ctypes, sys, threading, types

def counted(*args, **kwargs):
    import numpy, pyarrow
    is_over = threading.Barrier(5)
    def hold():
        held = [bytearray(10_000) for _ in range(50)]
        is_over.wait()
    threads = [threading.Thread(target=hold) for _ in range(4)]
    for one in threads:
        one.start()
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.fclose.argtypes = [ctypes.c_void_p]
    file = libc.fopen(sys.argv[1].encode(), b"w")
    libc.malloc_info(0, file)
    libc.fclose(file)
    is_over.wait()

server = types.ModuleType("serve.server.process")
server.run = counted
sys.modules[server.__name__] = server
"""
STARTED = {
    "in the background": "from serve.__main__ import main\nmain()",
    "in the foreground": "from serve.cli import main\nmain(['serve'], standalone_mode=False)",
}


def heaps(child, folder: Path, start: str) -> int:
    """Return the number of heaps of a server started in this way."""
    at = folder / "heaps.xml"
    process = child(f"import os\nos.environ['MNEMOLOG_HOME'] = {str(folder)!r}\n{CODE}{start}", at)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    if "<heap nr" not in (text := at.read_text()):
        pytest.skip("this C library does not tell of its heaps")
    return text.count("<heap nr")


@pytest.mark.parametrize("how", STARTED)
def test_a_server_has_one_heap(child, tmp_path: Path, how: str):
    assert heaps(child, tmp_path, STARTED[how]) == 1


def test_a_process_without_the_setting_has_several_heaps(child, tmp_path: Path):
    assert heaps(child, tmp_path, "counted()") > 1

"""shim: a C library that is preloaded into a program of ours, built if possible."""

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_WORDS = "-shared -fPIC -O2 -Wall -Wextra -Werror -pthread".split()


def is_possible() -> bool:
    """Return True if a shim can be built and loaded here: Linux with a C compiler."""
    return sys.platform == "linux" and shutil.which("cc") is not None


@functools.cache
def built(source: Path) -> Path:
    """Compile a shim into a folder of this process's own; return the library's path."""
    folder = Path(tempfile.mkdtemp(prefix=f"mnemolog-{source.stem}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / f"{source.stem}.so"
    subprocess.run(["cc", *_WORDS, "-o", str(library), str(source)], check=True)
    return library

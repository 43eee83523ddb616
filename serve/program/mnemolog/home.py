"""
Where the server of this machine listens, and its owner's token.

Both stand in files of the home that their owner alone can read. Only a server whose process lives
is taken: another program may have the port of one that was killed, and must not be sent the token.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mnemolog.errors import NoServer


class _Server(msgspec.Struct):
    pid: int
    port: int


# made once: msgspec 0.22 crashes where two threads meet a type for the first time
_decoder = msgspec.json.Decoder(_Server)


def found(home: Path | None = None) -> tuple[str, str]:
    """Return the address of a home's server and the owner's token; raise NoServer."""
    folder = home or default_home(os.environ)
    try:
        server = _decoder.decode((folder / "server.json").read_bytes())
        token = (folder / "token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        raise NoServer(f"no server of {folder} runs: start one with `mnemolog start`") from None
    if not _lives(server.pid):
        raise NoServer(f"the server of {folder} has ended: start one with `mnemolog start`")
    return f"http://127.0.0.1:{server.port}", token


def default_home(environ: Mapping[str, str]) -> Path:
    """Return where the memories of this user lie, as `mnemolog` itself finds it."""
    if named := environ.get("MNEMOLOG_HOME"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA", ""), "mnemolog")
    data = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(data, "mnemolog").expanduser()


def _lives(pid: int) -> bool:
    if os.name != "posix":  # to ask would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True

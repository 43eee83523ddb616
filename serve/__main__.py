"""
The server in the background: `python -m serve` serves the home that the environment names.

It exits after `idle_exit_s` without a request; the next hook starts it again. Where its port is
taken it listens on a free one: clients find the port in the registry.
"""

import gc
import logging
import os
import shutil
import sys
from pathlib import Path

from serve.server.processes import LOG_BYTES, share_one_heap
from store.home import config
from store.home.errors import MnemologError
from store.home.registry import HOST
from store.redaction.redact import redact


class BoundedLog(logging.StreamHandler):  # type: ignore[type-arg]
    """A handler that logs to the file of our standard error; at its limit the content moves to
    `.1`.

    The file is emptied and not renamed: the interpreter itself writes there too. Quotes of a
    request in an error are redacted.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        if os.fstat(self.stream.fileno()).st_size > LOG_BYTES:
            shutil.copy(self._path, self._path.with_name(f"{self._path.name}.1"))
            os.ftruncate(self.stream.fileno(), 0)
        super().emit(record)


def main() -> None:
    """Serve the home that the environment names; messages go to its `server.log`."""
    gc.disable()  # imported objects stay; the server turns it on when it is ready
    share_one_heap()
    from serve.app import create_app
    from serve.server import process

    log = logging.getLogger("mnemolog")
    settings = config.load()
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        handlers=[BoundedLog(settings.server_log)],
    )
    idle_exit_s = settings.choices.idle_exit_s
    try:
        process.run(
            settings,
            create_app,
            on_ready=lambda port: log.info("listens on http://%s:%d", HOST, port),
            idle_exit_s=idle_exit_s,
            elsewhere=True,
        )
    except MnemologError as error:
        log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(
            f"error: `python -m serve` takes no arguments: run `mnemolog {sys.argv[1]}`",
            file=sys.stderr,
        )
        sys.exit(2)
    main()

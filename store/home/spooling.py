"""
Spooling: the hook client writes an event that no server accepted to `<home>/spool`, a file of its
own.

Invariants: an event is redacted before its first byte is on the disk; it is there whole or not at
all (fsync, rename, fsync of the folder); and its file is named by its delivery, the event's time
and the client's id for it. Standard library only, and nothing is imported that the client has not
loaded before the host is let go. `store.home.spool` reads these files.
"""

import os

FOLDER, SUFFIX = "spool", ".json"
DROPPED = "dropped"  # a byte for each dropped event
MOST_FILES, MOST_BYTES = 5_000, 64 << 20  # beyond that the newest are dropped, and counted


def keep_detached(home: str, host: str, tenant: str, event: bytes, delivery: str) -> None:
    """Keep an event as `keep` does, in a process that the host does not wait for.

    Redaction takes 50 ms to load: too long for a host, and no event is written without it.
    """
    if not hasattr(os, "fork"):  # Windows: there the host waits
        keep(home, host, tenant, event, delivery)
        return
    try:
        if os.fork():
            return
    except OSError:  # no process is available
        keep(home, host, tenant, event, delivery)
        return
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # a host waits until its pipes are closed
            os.dup2(nothing, stream)
        keep(home, host, tenant, event, delivery)
    finally:
        os._exit(0)


def keep(home: str, host: str, tenant: str, event: bytes, delivery: str) -> bool:
    """Write an event, redacted, to the disk; return True if it is there.

    Invalid events are not kept, nor those before a tool call, which are not recorded, nor the end
    of a session in a home that does not exist.
    """
    import json

    from store.redaction.redact import redact_value

    try:
        payload = json.loads(event)
        name = str(payload.get("hook_event_name") or payload.get("hookEventName") or "").lower()
        if name.startswith("pretool") or (name == "sessionend" and not os.path.isdir(home)):
            return False
        record = {"host": host, "tenant": tenant, "event": redact_value(payload)}
        data = json.dumps(record).encode()
    except (ValueError, AttributeError, RecursionError):
        return False
    try:
        return _write(os.path.join(home, FOLDER), delivery, data)
    except OSError:  # a full disk: partial files are swept when the others are accepted
        return False


def _write(folder: str, delivery: str, data: bytes) -> bool:
    home = os.path.dirname(folder)
    for path in (home, folder):
        os.makedirs(path, 0o700, exist_ok=True)
    with os.scandir(folder) as there:
        sizes = [file.stat().st_size for file in there if file.name.endswith(SUFFIX)]
    if len(sizes) >= MOST_FILES or sum(sizes) + len(data) > MOST_BYTES:
        _write_file(os.path.join(folder, DROPPED), b".", os.O_APPEND)
        return False
    path = os.path.join(folder, f"{delivery}{SUFFIX}")
    passing = os.path.join(folder, f".{delivery}{SUFFIX}-{delivery[-8:]}")
    _write_file(passing, data, os.O_EXCL)
    os.replace(passing, path)
    for changed in (folder, home) if os.name == "posix" else ():
        descriptor = os.open(changed, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return True


def _write_file(path: str, data: bytes, flag: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

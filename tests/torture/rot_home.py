"""
The files beside the memories: settings, tokens, the registry, the queue, Dagster's folder. Damaged,
each gives an error of ours that names the file, or counts as missing; nothing crashes.
"""

from collections.abc import Callable
from pathlib import Path

from torture.outcome import Outcome, Scale
from torture.rot_damage import mishaps
from torture.rot_memory import copied

from store.home import config, registry, tokens
from store.home.config import Settings
from store.home.errors import MnemologError
from store.home.http_access import owner_token, signer
from store.home.tenant import tenant
from store.ingest.job_queue import Queue
from store.maintenance import checkup

_FELL = (LookupError, ValueError, TypeError, OSError, AssertionError)


def _load(settings: Settings) -> object:
    return config.load(None, {"MNEMOLOG_HOME": str(settings.home)})


def _tokens(settings: Settings) -> object:
    return tokens.every(settings.home)


def _sessions(settings: Settings) -> object:
    signing = signer("a token", settings)
    return signing.session(signing.value(1), 1)


def _queue(settings: Settings) -> object:
    queue = Queue(tenant(settings.home).ingest)
    try:
        return queue.counts()
    finally:
        queue.close()


def _dagster(settings: Settings) -> object:
    from pipelines.orchestration.dagster_home import prepare_home

    return prepare_home(settings)


_ASKED: dict[str, Callable[[Settings], object]] = {
    "config.toml": _load,
    "tokens.json": _tokens,
    "token": owner_token,
    "server.json": registry.live_server,
    "sessions.json": _sessions,
    "tenants/default/ingest.sqlite": _queue,
    "dagster/dagster.yaml": _dagster,
}


def damaged(home: Path, copy: Path, scale: Scale) -> Outcome:
    """Damage each file, call its reader, and run the doctor."""
    settings = Settings(home)
    owner_token(settings)
    _dagster(settings)
    settings.sessions_file.write_bytes(b'{"ended":{"a":1},"since":1}')
    settings.server_file.write_bytes(b'{"pid":1,"port":1,"started_at":1,"instance":"a"}')
    points, count, wrong = 0, 0, []
    for name, ask in _ASKED.items():
        others = {"a page of a browser": b"<html>", "no text": b"\xff\xfe\x00", "a list": b"[1]"}
        all_of = list(mishaps(home, Path(name), others))
        for damage in all_of if scale is Scale.FULL else all_of[::5]:
            changed = copied(home, copy)
            damage.do(copy)
            points += 1
            try:
                for look in (ask, checkup.checkup):
                    count += _says(lambda: look(changed), damage.file)  # noqa: B023 - called at once
            except _FELL as error:
                wrong.append(f"{damage}: {error!r}")
    return Outcome("mishaps: beside the memories", points, "mishaps", wrong, f"{count} told of")


def _says(look: Callable[[], object], file: Path) -> int:
    """Return 1 if reading is refused with an error that names the file; else 0."""
    try:
        look()
    except MnemologError as error:
        if file.name not in str(error):
            raise AssertionError(f"it is not named: {error}") from error
        return 1
    return 0

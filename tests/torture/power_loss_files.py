"""
power_loss_files: small files replaced again and again, like settings and tokens, a tenant deleted,
backed up and restored; and the required state of all after a power cut.
"""

from collections.abc import Collection
from pathlib import Path

from torture import work
from torture.work_checks import NOW
from torture.work_memory import Acknowledge, Work, drafts, texts

from store.home import config
from store.home import tenant as tenants
from store.home.config import Settings
from store.home.files import replace_file
from store.log import commands, integrity
from store.log.event_log import EventLog
from store.maintenance import backup

_TIMES, _NAMES = 60, 3
_TEXTS = texts("d", 5)
_NAME, _BACKUP = "other", "backup.zip"


def _data(number: int) -> bytes:
    return b"%d %s\n" % (number, b"x" * (number * 97 % 2_000))


def _replace(home: Path, acknowledge: Acknowledge) -> None:
    for number in range(_TIMES):
        replace_file(home / "some" / "where" / str(number % _NAMES), _data(number))
        acknowledge(str(number))


def _check_replaced(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that each file holds its last acknowledged data, or the next if it is its turn."""
    count = len(acknowledged)
    wrong = []
    for name in range(_NAMES):
        path = home / "some" / "where" / str(name)
        data = path.read_bytes() if path.exists() else None
        numbers = range(name, min(count + 1, _TIMES), _NAMES)
        last = max((number for number in numbers if number < count), default=None)
        allowed = {None if last is None else _data(last)}
        if count in numbers:
            allowed.add(_data(count))
        if data not in allowed:
            wrong.append(f"of {count} writes, file {name} holds {data[:20] if data else data!r}")
    return wrong


def _prepare_other(home: Path) -> None:
    for name in (config.DEFAULT_TENANT, _NAME):
        with EventLog(tenants.tenant(home, name).log, create=True) as log:
            commands.record_batch(log, drafts(_TEXTS), NOW)


def _delete(home: Path, acknowledge: Acknowledge) -> None:
    if tenants.tenant(home, _NAME).exists:
        tenants.delete_tenant(Settings(home), _NAME, NOW)
    acknowledge("deleted")


def _check_deleted(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that the tenant is whole in one of two places, and once deleted not in the first."""
    there = tenants.tenant(home, _NAME).root
    away = sorted((home / "deleted").glob("*"))
    paths = [path for path in (there, *away) if path.exists()]
    if len(paths) != 1:
        return [f"the tenant is there {len(paths)} times"]
    wrong = ["a deleted tenant is back"] if acknowledged and paths == [there] else []
    for root in (paths[0], tenants.tenant(home).root):
        with EventLog(root / "log.sqlite") as log:
            wrong += integrity.problems(log)
            if log.head() != len(_TEXTS):
                wrong.append(f"{root} holds {log.head()} of {len(_TEXTS)} events")
    return wrong


def _prepare_backup(home: Path) -> None:
    """Make a memory with archived parts, and a backup of it."""
    work.BY_NAME["erase"].prepare(home)
    _make_backup(home, lambda text: None)


def _make_backup(home: Path, acknowledge: Acknowledge) -> None:
    if not (home / _BACKUP).exists():
        backup.make_backup(tenants.tenant(home), home / _BACKUP, "1", NOW)
    acknowledge("made")


def _check_backup(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that a backup file is whole; `check_backup` raises if it is not."""
    if not (home / _BACKUP).exists():
        return ["the backup is gone"] if acknowledged else []
    backup.check_backup(home / _BACKUP)
    return []


def _restore(home: Path, acknowledge: Acknowledge) -> None:
    if not tenants.tenant(home, _NAME).exists:
        backup.restore_backup(Settings(home), home / _BACKUP, _NAME, NOW, replace=False)
    acknowledge("restored")


def _check_restored(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Check that the tenant is there whole, with its archived parts, or not at all."""
    restored = tenants.tenant(home, _NAME)
    if not restored.root.exists():
        return ["the restored tenant is gone"] if acknowledged else []
    with EventLog(tenants.tenant(home).log) as log, EventLog(restored.log) as other:
        is_same = list(log.read()) == list(other.read())
        return [*integrity.problems(other), *([] if is_same else ["it does not hold what it did"])]


WORKS = (
    Work("replace", lambda home: None, _replace, _check_replaced, ()),
    Work("delete", _prepare_other, _delete, _check_deleted, ("deleted",)),
    Work("backup", work.BY_NAME["erase"].prepare, _make_backup, _check_backup, ("made",)),
    Work("restore", _prepare_backup, _restore, _check_restored, ("restored",)),
)

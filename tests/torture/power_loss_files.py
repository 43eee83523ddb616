"""
power_loss_files: small files replaced again and again, as settings and tokens are, and a tenant put
away; and where they must be after a power cut.
"""

from collections.abc import Collection
from pathlib import Path

from torture.work_checks import NOW
from torture.work_memory import Acknowledge, Work, drafts, texts

from store import commands, deletion
from store import tenant as tenants
from store.config import Settings
from store.files import replace_file
from store.log import EventLog

_TIMES, _NAMES = 60, 3
_TEXTS = texts("d", 5)
_NAME = "other"


def _data(number: int) -> bytes:
    return b"%d %s\n" % (number, b"x" * (number * 97 % 2_000))


def _replace(home: Path, acknowledge: Acknowledge) -> None:
    for number in range(_TIMES):
        replace_file(home / "some" / "where" / str(number % _NAMES), _data(number))
        acknowledge(str(number))


def _check_replaced(home: Path, acknowledged: Collection[str]) -> list[str]:
    """Each file holds what was acknowledged last, or the next if it is its turn."""
    told = len(acknowledged)
    wrong = []
    for name in range(_NAMES):
        path = home / "some" / "where" / str(name)
        held = path.read_bytes() if path.exists() else None
        numbers = range(name, min(told + 1, _TIMES), _NAMES)
        last = max((one for one in numbers if one < told), default=None)
        allowed = {None if last is None else _data(last)}
        if told in numbers:
            allowed.add(_data(told))
        if held not in allowed:
            wrong.append(f"of {told} writes, file {name} holds {held[:20] if held else held!r}")
    return wrong


def _prepare_other(home: Path) -> None:
    for name in (tenants.DEFAULT, _NAME):
        with EventLog(tenants.tenant(home, name).log, create=True) as log:
            commands.record_batch(log, drafts(_TEXTS), NOW)


def _delete(home: Path, acknowledge: Acknowledge) -> None:
    if tenants.tenant(home, _NAME).exists:
        deletion.delete(Settings(home), _NAME, NOW)
    acknowledge("deleted")


def _check_deleted(home: Path, acknowledged: Collection[str]) -> list[str]:
    """The tenant is in one of the two places, whole, and once deleted not in the first."""
    there = tenants.tenant(home, _NAME).root
    away = sorted((home / "deleted").glob("*"))
    found = [one for one in (there, *away) if one.exists()]
    if len(found) != 1:
        return [f"the tenant is there {len(found)} times"]
    wrong = ["a deleted tenant is back"] if acknowledged and found == [there] else []
    for root in (found[0], tenants.tenant(home).root):
        with EventLog(root / "log.sqlite") as log:
            wrong += log.integrity()
            if log.head() != len(_TEXTS):
                wrong.append(f"{root} holds {log.head()} of {len(_TEXTS)} events")
    return wrong


WORKS = (
    Work("replace", lambda home: None, _replace, _check_replaced, ()),
    Work("delete", _prepare_other, _delete, _check_deleted, ("deleted",)),
)

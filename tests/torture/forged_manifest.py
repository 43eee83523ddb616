"""Forged manifests: valid JSON, named by HEAD with its true hash, and not written by any build."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torture.forged_write import changed

from store.home import tenant as tenants
from store.snapshots import manifest as manifests

_HUGE = 10**30
_DEEP = 100_000

Forge = Callable[[Path], None]  # in a home
Says = dict[str, Any]


def forgeries(home: Path) -> Iterator[tuple[str, Forge]]:
    """Yield the possible faults of the default tenant's manifest, each with its forge."""
    for name, values in {
        "number": (_HUGE, -1, "1", None),
        "at": (_HUGE, -_HUGE, 1.5),
        "watermark": (_HUGE, -1, 2**63, True),
        "dimension": (_HUGE, -1, 7),
        "embedder": ("", "another/model", 7),
        "checks": ([[]], [{"name": 1}], {}),
        "projections": ({}, [], None),
    }.items():
        for value in values:
            yield f"{name} is {value!r:.40}", _saying(lambda m, n=name, v=value: m.update({n: v}))
    yield "its watermark is ahead of the log", _saying(_ahead(1_000))
    yield "it is nested deeply", _saying(_nested)
    yield "a value is nested deeply", _saying(_deep_value)
    for name in manifests.current(tenants.tenant(home)).projections:
        yield from _of_projection(name)
    yield "another tenant's manifest and files", _anothers
    yield "it names another tenant's files", _saying(_below("../../other/snapshots/"))
    yield "it names files by their full paths", _saying(_below(str(tenants.tenant(home).snapshots)))


def _of_projection(name: str) -> Iterator[tuple[str, Forge]]:
    def of(change: Callable[[Says], object]) -> Forge:
        return _saying(lambda manifest: change(manifest["projections"][name]))

    yield f"{name}: not there", _saying(lambda manifest: manifest["projections"].pop(name))
    yield f"{name}: an older version", of(lambda ref: ref.update(version="0"))
    yield f"{name}: a newer version", of(lambda ref: ref.update(version=ref["version"] + "9"))
    yield f"{name}: a watermark ahead", of(lambda ref: ref.update(watermark=10_000))
    yield f"{name}: a watermark behind", of(lambda ref: ref.update(watermark=1))
    yield f"{name}: no tables", of(lambda ref: ref.update(parts={}))
    for field, value in {
        "rows": _HUGE,
        "bytes": -1,
        "path": "a\0b",
        "sha256": "",
        "modified": _HUGE,
    }.items():

        def forged(ref: Says, field_name: str = field, value: object = value) -> None:
            for parts in ref["parts"].values():
                for part in parts:
                    part[field_name] = value

        yield f"{name}: {field} is {value!r:.40}", of(forged)

    def without(ref: Says) -> None:
        ref["parts"].pop(next(iter(ref["parts"])))

    def twice(ref: Says) -> None:
        for parts in ref["parts"].values():
            parts.extend(parts[-1:])

    yield f"{name}: a table is not there", of(without)
    yield f"{name}: its last parts twice", of(twice)
    yield f"{name}: a table more", of(lambda ref: ref["parts"].update(more=[]))


def _saying(change: Callable[[Says], object]) -> Forge:
    def forge(home: Path) -> None:
        def of(plain: Says) -> Any:
            replacement = change(plain)
            return replacement if isinstance(replacement, bytes) else plain

        changed(home, of)

    return forge


def _ahead(by: int) -> Callable[[Says], object]:
    def change(manifest: Says) -> None:
        manifest["watermark"] += by
        for ref in manifest["projections"].values():
            ref["watermark"] += by

    return change


def _nested(manifest: Says) -> bytes:
    return b"[" * _DEEP + b"]" * _DEEP


def _deep_value(manifest: Says) -> bytes:
    import msgspec

    manifest["checks"] = [
        {"name": "deep", "passed": True, "detail": "", "metadata": {"deep": "HERE"}}
    ]
    deep = b'{"a":' * _DEEP + b"1" + b"}" * _DEEP
    return msgspec.json.encode(manifest).replace(b'"HERE"', deep)


def _below(folder: str) -> Callable[[Says], object]:
    def change(manifest: Says) -> None:
        for ref in manifest["projections"].values():
            for parts in ref["parts"].values():
                for part in parts:
                    part["path"] = f"{folder.rstrip('/')}/{part['path']}"

    return change


def _anothers(home: Path) -> None:
    """Copy another tenant's HEAD, manifest and files into the default tenant's folder."""
    mine, other = tenants.tenant(home), tenants.tenant(home, "other")
    manifest = manifests.current(other)
    for ref in manifest.projections.values():
        for file in ref.files:
            shutil.copy2(other.snapshots / file.path, mine.snapshots / file.path)
    shutil.copy2(other.head, mine.head)
    name = f"{manifest.number:08d}.json"
    shutil.copy2(other.manifests / name, mine.manifests / name)

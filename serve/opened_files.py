"""
OpenedFiles: the files that answers are given from, mapped after a glance and hashed behind them.

A glance tells, by length and time, whether anybody wrote to a file since. What the disk itself did
to its bytes shows in its hash, which is taken a bounded amount at a time, and with it is seen
whether what was written keeps the constraints of its tables; a file found damaged is not opened
again, and no build takes it over unseen. What two manifests share stays mapped from one to the
next.
"""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pyarrow as pa

from store import snapshot
from store.constraints import Constraints
from store.errors import SnapshotDamaged
from store.manifest import Manifest
from store.projection import Built, Part, PartFile, Projection
from store.snapshot import hashing
from store.tenant import Tenant


class OpenedFiles:
    """The files of the manifest that is open, and what is known of them. One thread at a time."""

    def __init__(self, tenant: Tenant, *, are_trusted: bool = False) -> None:
        """Files that `are_trusted` were just written or looked at, and are not validated."""
        self._root, self._are_trusted = tenant.snapshots, are_trusted
        self._parts: dict[str, Part] = {}  # by path, as all of these
        self._earlier: dict[str, Part] = {}
        self._checks: dict[str, Callable[[pa.Table], None]] = {}
        self._whole: set[str] = set()
        self._damaged: dict[str, str] = {}  # what is wrong
        self._waiting: dict[str, Part] = {}  # to be hashed
        self._under_way: Iterator[int] | None = None

    def begin(self) -> None:
        """Turn to another manifest, or to the same one again."""
        self._earlier |= self._parts
        self._parts, self._waiting, self._under_way = {}, {}, None
        self._checks = {}

    def settle(self) -> None:
        """Let go of what the manifest that was turned to does not share."""
        self._earlier = {}
        self._whole &= self._parts.keys()

    def tables(self, manifest: Manifest, projection: Projection) -> Built:
        """Return the tables of a manifest's snapshot; each part is mapped when it is asked for.

        Raise SnapshotDamaged where a file that recall reads is known, or seen, not to be what was
        written, and where its tables do not fit together.
        """
        constraints, ref = Constraints(manifest), manifest.projections[projection.name]
        constraints.check_rows(projection)
        read = {name: some for name, some in ref.parts.items() if name not in projection.for_builds}
        ref = msgspec.structs.replace(ref, parts=read)
        for file in ref.files:
            if file.path in self._damaged:
                raise SnapshotDamaged(self._damaged[file.path])
        snapshot.glance(self._root, ref)
        tables = snapshot.read(
            self._root, ref, projection, check=False, validate=not self._are_trusted
        )
        for name, some in tables.parts.items():
            for number, part in enumerate(some):
                self._checks[_file(part).path] = partial(
                    constraints.check_part, projection.name, name, number
                )
        parts = {name: [self._kept(part) for part in some] for name, some in tables.parts.items()}
        return Built(projection.schemas, parts)

    def map_all(self) -> None:
        """Map every part, so that no answer has to wait for it; raise SnapshotDamaged."""
        for part in self._parts.values():
            _ = part.table

    def step(self, most: int | None = None) -> bool:
        """Hash up to about `most` bytes (None: all that wait); return whether damage was found."""
        done = 0
        while self._waiting and (most is None or done < most):
            path, part = next(iter(self._waiting.items()))
            try:
                done += self._hashed(path, part)
            except SnapshotDamaged as error:
                self._damaged[path] = str(error)
                snapshot.doubt(self._root, _file(part))
                del self._waiting[path]
                self._under_way = None
                return True
        return False

    def _hashed(self, path: str, part: Part) -> int:
        """Hash the next piece of a file; return its bytes, 0 once it is whole and as agreed."""
        if self._under_way is None:
            self._under_way = hashing(self._root, _file(part))
        for piece in self._under_way:
            return piece
        self._checks[path](part.table)  # it was read just now: this costs no disk
        self._whole.add(path)
        del self._waiting[path]
        self._under_way = None
        return 0

    def _kept(self, part: Part) -> Part:
        """Return the part of an earlier manifest that lies in the same file, else this one."""
        path = _file(part).path
        kept = self._parts[path] = self._earlier.get(path, part)
        if path not in self._whole:
            self._waiting[path] = kept
        return kept


def _file(part: Part) -> PartFile:
    if part.file is None:
        raise TypeError("a part of a snapshot lies in a file")
    return part.file

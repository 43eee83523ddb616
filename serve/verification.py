"""
Verification: the files that answers are given from, hashed behind the answers.

Opening a manifest only glances at its files: their length, and whether anybody wrote to them since.
What the disk itself did to their bytes shows in their hashes, which are taken a bounded amount at a
time; a file found damaged is not opened again, and no build takes it over unseen.
"""

from collections.abc import Iterator

from store import snapshot
from store.errors import SnapshotDamaged
from store.projection import PartFile
from store.snapshot import SnapshotRef, hashing
from store.tenant import Tenant


class Verification:
    """Which files are whole, which are damaged, and which nobody knows of. One thread at a time."""

    def __init__(self, tenant: Tenant) -> None:
        self._root = tenant.snapshots
        self._whole: set[str] = set()
        self._damaged: dict[str, str] = {}  # by path: what is wrong
        self._waiting: dict[str, PartFile] = {}
        self._under_way: Iterator[int] | None = None

    def forget_waiting(self) -> None:
        """Drop what was to be hashed: other files are going to be opened."""
        self._waiting, self._under_way = {}, None

    def glance(self, ref: SnapshotRef) -> None:
        """Look at a snapshot's files before they are opened; their hashes are taken later.

        Raise SnapshotDamaged at the first that is known or seen not to be what was written.
        """
        for file in ref.files:
            if file.path in self._damaged:
                raise SnapshotDamaged(self._damaged[file.path])
        snapshot.glance(self._root, ref)
        self._waiting |= {one.path: one for one in ref.files if one.path not in self._whole}

    def step(self, most: int | None = None) -> bool:
        """Hash up to about `most` bytes (None: all that wait); return whether damage was found."""
        done = 0
        while self._waiting and (most is None or done < most):
            file = next(iter(self._waiting.values()))
            try:
                done += self._hashed(file)
            except SnapshotDamaged as error:
                self._damaged[file.path] = str(error)
                snapshot.doubt(self._root, file)
                return True
        return False

    def _hashed(self, file: PartFile) -> int:
        """Hash the next piece of a file and return its bytes; 0 once it is known to be whole."""
        if self._under_way is None:
            self._under_way = hashing(self._root, file)
        try:
            return next(self._under_way)
        except StopIteration:
            self._whole.add(file.path)
            del self._waiting[file.path]
        except SnapshotDamaged:
            del self._waiting[file.path]
            self._under_way = None
            raise
        self._under_way = None
        return 0

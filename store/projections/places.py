"""
Places: at which rows a name is found, by the 64 bits it is filed under.

Two names may share their bits: who asks compares the names at the rows it is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.text.tokenizer import filing_hash

PLACES = pa.schema([("hash", pa.uint64()), ("document", pa.int32())])

Hashes = npt.NDArray[np.uint64]
Documents = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Places:
    """Pairs of hash and row, [pairs], by hash and then by row."""

    hashes: Hashes
    documents: Documents

    @classmethod
    def none(cls) -> "Places":
        return cls(np.empty(0, np.uint64), np.empty(0, np.int32))

    @classmethod
    def open(cls, table: pa.Table) -> "Places":
        """Return the places of a table; nothing is copied."""
        if not table.num_rows:
            return cls.none()
        hashes, documents = (table.column(name).chunk(0).to_numpy() for name in PLACES.names)
        return cls(hashes, documents)

    @property
    def table(self) -> pa.Table:
        return pa.table([pa.array(self.hashes), pa.array(self.documents)], schema=PLACES)

    def of(self, name: str) -> list[int]:
        """Return the rows at which a name may be found, ascending."""
        wanted = np.uint64(filing_hash(name))
        start = int(self.hashes.searchsorted(wanted))
        end = start
        while end < len(self.hashes) and self.hashes[end] == wanted:
            end += 1
        found: list[int] = self.documents[start:end].tolist()
        return found

    def added(self, names: Iterable[str], documents: Documents) -> "Places":
        """Return these places and more, [names]; no row before one that is here already."""
        hashes = np.fromiter(map(filing_hash, names), np.uint64, len(documents))
        order = np.lexsort((documents, hashes))
        hashes, documents = hashes[order], documents[order]
        at = self.hashes.searchsorted(hashes, side="right")
        return Places(np.insert(self.hashes, at, hashes), np.insert(self.documents, at, documents))

    def without(self, documents: Documents) -> "Places":
        """Return the places but those at some rows."""
        kept = ~np.isin(self.documents, documents)
        return self if kept.all() else Places(self.hashes[kept], self.documents[kept])

    def sorted(self) -> "Places":
        """Return the pairs in their order, whatever order rows were added in."""
        order = np.lexsort((self.documents, self.hashes))
        return Places(self.hashes[order], self.documents[order])

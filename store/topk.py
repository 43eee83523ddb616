"""
The best few of many scores, in a fixed order: higher first, and of equals the newer one first.
"""

import numpy as np
import numpy.typing as npt

Docs = npt.NDArray[np.int64]  # document numbers, best first, no repeats; a higher number is newer
Scores = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


def best(scores: Scores, mask: Mask, k: int, *, above: float = 0.0) -> Docs:
    """Return up to `k` documents whose mask is set and whose score is over `above`, best first.

    `scores` and `mask` are [n]; nothing that passes gives an empty array.
    """
    docs = np.flatnonzero(mask & (scores > above))
    if len(docs) > k:
        # ties of the k-th place all stay here, so that the order below decides between them
        kept = scores[docs]
        docs = docs[kept >= np.partition(kept, len(docs) - k)[len(docs) - k]]
    order = np.lexsort((-docs, -scores[docs]))
    return docs[order[:k]]

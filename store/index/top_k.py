"""
Top-k: the best scores in a fixed order: higher first, and of equals the newer first.

The scores are cut into blocks. The greatest of each is found in one pass; only the blocks whose
greatest is among the best few can contain one of them, so nothing else is read or sorted (the
block-max idea of Ding and Suel 2011, https://doi.org/10.1145/2009916.2010048).
"""

import numpy as np
import numpy.typing as npt

Docs = npt.NDArray[np.int64]  # document numbers, best first, no repeats; a higher number is newer
Scores = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

_MANY = 16_384  # documents; fewer are sorted out faster than cut into blocks
_BLOCKS = (256, 128, 64, 32)  # documents of a block: the largest size with enough blocks is used
_ENOUGH = 1.5  # blocks for each document that is wanted
_LARGE = 262_144  # documents; fewer of them have no blocks of the largest size
_SAMPLE = 61  # every 61st document is sampled to decide if blocks pay off
_FEW = 16  # they do not if less than one in so many passes


def top_k(scores: Scores, mask: Mask | None, k: int, *, above: float = 0.0) -> Docs:
    """Return up to `k` documents whose mask is set and whose score is over `above`, best first.

    `scores` and `mask` are [n]; without a mask all pass. The array is empty if none passes.
    """
    if block := _block(len(scores), k):
        sample = scores[::_SAMPLE] > above
        passing = len(sample)
        if mask is not None:
            sample &= mask[::_SAMPLE]
            passing = max(1, int(np.count_nonzero(mask[::_SAMPLE])))
        if np.count_nonzero(sample) * _FEW > len(sample):
            return _by_blocks(scores, mask, k, above, block, -(-k * len(sample) // passing))
    return _plain(scores, mask, k, above)


def _block(size: int, k: int) -> int:
    """Return the number of documents in a block; 0 if blocks are of no use."""
    sizes = _BLOCKS if size >= _LARGE else _BLOCKS[1:]
    return next((block for block in sizes if size >= max(_MANY, _ENOUGH * k * block)), 0)


def _plain(scores: Scores, mask: Mask | None, k: int, above: float) -> Docs:
    passes = scores > above
    if mask is not None:
        passes &= mask
    return _sort_best(scores, np.flatnonzero(passes), k)


def _by_blocks(
    scores: Scores, mask: Mask | None, k: int, above: float, block: int, count: int
) -> Docs:
    """Search the best `count` blocks, and more if the mask hides too much of them."""
    greatest = np.maximum.reduceat(scores, np.arange(0, len(scores), block))
    while count < len(greatest):
        least = np.partition(greatest, len(greatest) - count)[len(greatest) - count]
        if not least > above:
            break
        # of the blocks that are no more than equal to the last one, the oldest are left out
        higher, equal = np.flatnonzero(greatest > least), np.flatnonzero(greatest == least)
        left_out = len(higher) + len(equal) - count
        blocks = np.sort(np.concatenate([higher, equal[left_out:]]))
        docs = _docs_above(scores, blocks, block, least)
        best = _sort_best(scores, docs if mask is None else docs[mask[docs]], k)
        newer = (equal[left_out - 1] + 1) * block if left_out else 0
        if len(best) == k and (scores[best[-1]] > least or best[-1] >= newer):
            return best
        count *= 4
    return _plain(scores, mask, k, above)


def _docs_above(scores: Scores, blocks: Docs, block: int, least: np.float32) -> Docs:
    """Return the documents of some blocks that reach it, ascending.

    The part of a block at the end is always looked at.
    """
    whole = len(scores) // block
    blocks = blocks[: blocks.searchsorted(whole)]
    end = whole * block
    places = np.flatnonzero(scores[:end].reshape(whole, block)[blocks] >= least)
    last = np.flatnonzero(scores[end:] >= least) + end
    return np.concatenate([blocks[places // block] * block + places % block, last])


def _sort_best(scores: Scores, docs: Docs, k: int) -> Docs:
    """Return the best `k` of some documents, which ascend, best first."""
    own_scores = scores[docs]
    if len(docs) > k:
        # ties of the k-th place all stay here, so that the order below decides between them
        stays = own_scores >= np.partition(own_scores, len(docs) - k)[len(docs) - k]
        docs, own_scores = docs[stays], own_scores[stays]
    # the newest first: a stable sort leaves equals so
    order = np.argsort(-own_scores[::-1], kind="stable")[:k]
    return docs[::-1][order]

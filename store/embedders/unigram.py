"""
A unigram tokenizer: divides a text into the likeliest pieces of a vocabulary.

Kudo 2018, https://arxiv.org/abs/1804.10959, as SentencePiece and XLM-R use it: a word begins with
`▁`, no piece spans two words, and characters that no piece covers become one unknown token. Words
are divided by Viterbi's algorithm and kept: they are Zipfian. A vocabulary of 250,000 pieces takes
some 40 MB here; the package tokenizers spends 290 MB on it.
"""

import unicodedata
from collections.abc import Mapping, Sequence

SPACE = "▁"
_UNKNOWN_COSTS = 10.0  # below the least likely piece, as SentencePiece has it
_KEPT = 20_000  # words and their pieces
_LONGEST_KEPT = 32  # characters of a word; longer ones seldom come again


class Unigram:
    """A vocabulary of pieces with their log-probabilities. Threads may share it."""

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        unknown: int,
        characters: Mapping[int, str] | None = None,
    ) -> None:
        """`characters` maps code points to their replacements; `unknown` is a piece's number.

        Pieces in angle brackets, such as `<s>`, are the model's own tokens and match no text.
        """
        self.pieces = {
            piece: number
            for number, piece in enumerate(pieces)
            if number != unknown and not (piece.startswith("<") and piece.endswith(">"))
        }
        self._scores, self._unknown = scores, unknown
        self._characters = characters or {}
        self._longest = max(map(len, self.pieces), default=1)
        self._unknown_score = min(scores, default=0.0) - _UNKNOWN_COSTS
        self._words: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, most: int) -> list[int]:
        """Return the numbers of at most `most` pieces of the text, in order."""
        normal = unicodedata.normalize("NFKC", text[: most * self._longest])
        numbers: list[int] = []
        for word in normal.translate(self._characters).split(" "):
            if word:
                numbers += self._divide(SPACE + word)
                if len(numbers) >= most:
                    break
        return numbers[:most]

    def _divide(self, word: str) -> tuple[int, ...]:
        if (pieces := self._words.get(word)) is None:
            pieces = self._viterbi(word)
            if len(word) <= _LONGEST_KEPT:
                if len(self._words) >= _KEPT:
                    self._words = {}
                self._words[word] = pieces
        return pieces

    def _viterbi(self, word: str) -> tuple[int, ...]:
        """Return the pieces of the best sum of scores; the earlier start wins a tie."""
        pieces, scores, size = self.pieces, self._scores, len(word)
        best = [0.0] + [-1e30] * size  # the best sum up to each character
        last = [(0, self._unknown)] * (size + 1)  # where its last piece begins, and which it is
        for start in range(size):
            here = best[start]
            for end in range(start + 1, min(start + self._longest, size) + 1):
                piece = pieces.get(word[start:end])
                if piece is not None and here + scores[piece] > best[end]:
                    best[end], last[end] = here + scores[piece], (start, piece)
            if here + self._unknown_score > best[start + 1]:
                best[start + 1] = here + self._unknown_score
                last[start + 1] = start, self._unknown
        backwards: list[int] = []
        end = size
        while end:
            end, piece = last[end]
            if piece != self._unknown or backwards[-1:] != [piece]:  # unknown neighbours are one
                backwards.append(piece)
        return tuple(reversed(backwards))

"""
A model behind litellm: Ollama, OpenAI, OpenRouter, Voyage, or a server with one of their APIs.

Its address and key are litellm's own variables (OLLAMA_API_BASE, OPENAI_API_KEY, OPENAI_BASE_URL
...). litellm's messages may quote a key, so none is passed on: errors are reported in our own
words. https://docs.litellm.ai/docs/embedding/supported_embedding
"""

import os
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from store.embedders.model_facts import KnownModels
from store.home.errors import EmbedderError
from store.home.packages import require

_BATCH = 64  # texts a request
_MAX_CHARACTERS = 8_000  # of a text
_LEAST_CHARACTERS = 500  # a text refused at this length is not refused for its length

Matrix = npt.NDArray[np.float32]


class Patience(msgspec.Struct, frozen=True):
    """The timeout of one request, and the pauses before it is tried again."""

    timeout_s: float
    pauses_s: tuple[float, ...] = ()


WHILE_ASKED = Patience(2.0)
IN_A_JOB = Patience(60.0, (1.0, 4.0))


class _Refused(EmbedderError):
    """The model is there and did not take these texts."""


class RemoteEmbedder:
    """One of litellm's models. Its dimension is fixed by its first answer."""

    is_cheap = False
    is_local = False

    def __init__(
        self,
        name: str,
        acquaintance: KnownModels,
        patience: Patience,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.model = f"litellm-1/{name}"
        self._known, self._patience, self._sleep = acquaintance, patience, sleep
        self._dimension = 0

    @property
    def dimension(self) -> int:
        if not self._dimension and (learned := self._known.of(self._setting)):
            self._dimension = learned.dimension
        return self._dimension

    @property
    def _setting(self) -> str:
        return f"litellm:{self.name}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; raise EmbedderError, never with a key in it."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        batches = [
            self._patiently([texts[row][:_MAX_CHARACTERS] for row in rows[start : start + _BATCH]])
            for start in range(0, len(rows), _BATCH)
        ]
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        if rows:
            vectors[rows] = np.concatenate(batches)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return self.embed(texts)

    def knows(self, text: str) -> bool:
        return True

    def _patiently(self, texts: list[str]) -> Matrix:
        for pause in self._patience.pauses_s:
            try:
                return self._embed_or_halve(texts)
            except _Refused:
                raise
            except EmbedderError:
                self._sleep(pause)
        return self._embed_or_halve(texts)

    def _embed_or_halve(self, texts: list[str]) -> Matrix:
        """Return the vectors; refused texts are halved, first in number, then in length."""
        try:
            return self._validate(self._request(texts), len(texts))
        except _Refused:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate(
                    [self._embed_or_halve(texts[:half]), self._embed_or_halve(texts[half:])]
                )
            if len(texts[0]) < 2 * _LEAST_CHARACTERS:
                raise
            return self._embed_or_halve([texts[0][: len(texts[0]) // 2]])

    def _request(self, texts: list[str]) -> Any:
        litellm = _litellm()
        from openai import OpenAIError  # the base of all litellm errors

        try:
            return litellm.embedding(
                model=self.name,
                input=texts,
                timeout=self._patience.timeout_s,
                max_retries=0,  # ours know when it is worth the wait
            )
        except litellm.exceptions.Timeout:
            waited = f"no answer within {self._patience.timeout_s:g} s"
            raise EmbedderError(f"{self.name}: {waited}") from None
        except litellm.exceptions.AuthenticationError:
            raise EmbedderError(
                f"{self.name}: the key is missing or was refused: set it in the provider's own "
                "variable, e.g. OPENAI_API_KEY"
            ) from None
        except litellm.exceptions.NotFoundError:
            raise EmbedderError(f"{self.name}: model not found: has it been pulled?") from None
        except litellm.exceptions.BadRequestError:
            raise _Refused(
                f"{self.name}: the request was refused: is the model named provider/model, as in "
                "ollama/nomic-embed-text?"
            ) from None
        except OpenAIError as error:
            raise EmbedderError(
                f"{self.name}: {type(error).__name__}: is its server running, and where its "
                "variable says, e.g. OLLAMA_API_BASE?"
            ) from None

    def _validate(self, answer: Any, count: int) -> Matrix:
        """Return the answer's vectors at length 1; raise EmbedderError if they are not valid."""
        try:
            data = sorted(answer.data, key=itemgetter("index"))
            vectors = np.array([item["embedding"] for item in data], np.float32)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise EmbedderError(f"{self.name} did not return vectors") from None
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise EmbedderError(
                f"{self.name} answered with {vectors.shape} numbers for {count} texts"
            )
        width = vectors.shape[1]
        if self.dimension and width != self.dimension:
            raise EmbedderError(
                f"{self.name} returned {width} dimensions, before {self.dimension}: it is another "
                f"model now; `mnemolog embedder switch {self._setting}` begins anew with it"
            )
        if not self.dimension:
            self._known.keep(self._setting, self.model, width)
            self._dimension = width
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Matrix = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return unit


def dollars(name: str, characters: int) -> float | None:
    """Return the price of embedding `characters` by litellm's list; None: not listed."""
    prices = _litellm().model_cost
    listed = prices.get(name) or prices.get(name.partition("/")[2]) or {}
    price = listed.get("input_cost_per_token")
    return None if price is None else float(price) * characters / 4  # a token has some 4 characters


def _litellm() -> Any:
    """Return litellm, imported when first needed: that takes two seconds and 165 MB."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it fetches a price list
    require("litellm", EmbedderError)
    import litellm as module

    litellm: Any = module  # its own types leave half of it out
    litellm.suppress_debug_info = True  # else it prints advice to standard output
    litellm.telemetry = False
    # it takes `max_retries=0` for none given, and tries three times: so would the time be spent
    litellm.DEFAULT_MAX_RETRIES = 0
    return litellm

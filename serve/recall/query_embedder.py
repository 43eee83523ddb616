"""
QueryEmbedder: a model as recall asks it, where nobody may wait for one that is gone.

Query vectors are kept, the last few hundred, and a text that several ask for at once is embedded
once: the others wait for that answer, and nobody for another text's. A failure closes the way to
the model for some seconds, so that a dead one costs one timeout and not one a recall; then a single
recall tries it again, and it recovers by itself. Until a heavy model is loaded recall goes without.
A model elsewhere is asked in a thread of its own: its client may take longer than it was given, or
not come back at all.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from store.embedders.embedder import Embedder, Matrix
from store.home.errors import EmbedderError

Vector = npt.NDArray[np.float32]

KEPT = 512  # query vectors: 0.8 MB at 384 dimensions
PAUSE_S = 5.0  # after a failure
PATIENCE_S = 2.0  # for a model elsewhere; what asks it is imported in that time too
_FIRST = "what did we decide"  # the first text a model embeds: it loads what it needs


class QueryEmbedder:
    """An Embedder around another. Threads may share it."""

    def __init__(
        self,
        model: Embedder,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`clock` gives seconds that never go back."""
        self._model, self._clock, self._patience_s = model, clock, patience_s
        self._lock = threading.Lock()
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._asking: dict[str, Future[Vector]] = {}
        self._failure: str | None = None
        self._again_at = 0.0
        self._is_loading = False

    @property
    def model(self) -> str:
        return self._model.model

    @property
    def dimension(self) -> int:
        return self._model.dimension

    @property
    def is_cheap(self) -> bool:
        return self._model.is_cheap

    @property
    def is_local(self) -> bool:
        return self._model.is_local

    def load(self) -> threading.Thread | None:
        """Begin to load a heavy model; return the thread that does, None where there is no need."""
        if self._model.is_cheap:
            return None
        self._is_loading = True
        thread = threading.Thread(target=self._load, name="mnemolog-embedder", daemon=True)
        thread.start()
        return thread

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; raise EmbedderError, at once in a pause."""
        if self._model.is_cheap:
            return self._model.embed(texts)
        made = [self._vector(text) for text in texts]
        return np.stack(made) if made else np.zeros((0, self.dimension), np.float32)

    def _vector(self, text: str) -> Vector:
        with self._lock:
            if (kept := self._vectors.get(text)) is not None:
                self._vectors.move_to_end(text)
                return kept
            if self._is_loading:
                raise EmbedderError(f"{self.model} is being loaded")
            if (asking := self._asking.get(text)) is None:
                self._raise_in_a_pause()
                mine = self._asking[text] = Future()
        if asking is not None:
            return self._wait_for(asking)
        if self._model.is_local:
            self._settle(text, mine)
        else:
            threading.Thread(target=self._settle, args=(text, mine), daemon=True).start()
        return self._wait_for(mine)

    def _settle(self, text: str, answer: "Future[Vector]") -> None:
        """Give the model's own answer, or its failure, to all who wait for it."""
        try:
            answer.set_result(self._ask_model(text))
        except BaseException as error:
            answer.set_exception(error)
        finally:
            with self._lock:
                del self._asking[text]

    def _wait_for(self, answer: "Future[Vector]") -> Vector:
        """Return an answer that somebody asked for; raise EmbedderError where it takes too long."""
        if self._model.is_local:
            return answer.result()
        try:
            return answer.result(self._patience_s)
        except TimeoutError:
            failure = f"{self.model}: no answer within {self._patience_s:g} s"
        with self._lock:
            self._failure, self._again_at = failure, self._clock() + PAUSE_S
        raise EmbedderError(failure)

    def _raise_in_a_pause(self) -> None:
        """Raise EmbedderError in a pause; at its end one tries, the others go on without."""
        if self._failure is not None:
            if self._clock() < self._again_at:
                raise EmbedderError(self._failure)
            self._again_at = self._clock() + PAUSE_S

    def _ask_model(self, text: str) -> Vector:
        """Return the model's own answer, and keep it or its failure."""
        try:
            vector: Vector = self._model.embed([text])[0]
        except EmbedderError as error:
            with self._lock:
                self._failure, self._again_at = str(error), self._clock() + PAUSE_S
            raise
        with self._lock:
            self._failure = None
            self._vectors[text] = vector
            if len(self._vectors) > KEPT:
                self._vectors.popitem(last=False)
        return vector

    def _load(self) -> None:
        try:
            with suppress(EmbedderError):  # kept, and said by the recalls that follow
                self._ask_model(_FIRST)
        finally:
            self._is_loading = False

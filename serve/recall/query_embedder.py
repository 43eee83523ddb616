"""
QueryEmbedder: a model for recall, which never waits for an unavailable one.

The last few hundred query vectors are kept, and a text requested by several threads at once is
embedded once: the others wait for that result, but never for another text's. After a failure the
model is not asked for some seconds, so that a dead one costs one timeout and not one per recall;
then a single recall tries it again, and it recovers by itself. Until a heavy model is loaded recall
goes without. A remote model is asked in a thread of its own: its client may exceed its timeout, or
never return. So is any model whose vector is wanted by a certain time, as by a prompt hook: what
comes later is kept for the next one.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from math import inf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store.embedders.embedder import Embedder, Matrix, make_embedder
from store.embedders.model_facts import KnownModels
from store.home.errors import ConfigError, EmbedderError

Vector = npt.NDArray[np.float32]
_Key = tuple[str, bool]  # a text, and whether it is a query

KEPT = 512  # query vectors: 0.8 MB at 384 dimensions
PAUSE_S = 5.0  # after a failure
PATIENCE_S = 2.0  # for a remote model; includes the import of its client
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
        self._vectors: OrderedDict[_Key, Vector] = OrderedDict()
        self._asking: dict[_Key, Future[Vector]] = {}
        self._failure: str | None = None
        self._again_at = 0.0
        self._is_loading = self._is_loaded = False

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
        """Begin to load a heavy model; return the thread, None if no loading is needed."""
        if self._model.is_cheap or self._is_loaded:
            return None
        self._is_loading = True
        thread = threading.Thread(target=self._load, name="mnemolog-embedder", daemon=True)
        thread.start()
        return thread

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; raise EmbedderError, at once in a pause."""
        if self._model.is_cheap:
            return self._model.embed(texts)
        return self._vectors_of([(text, False) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors [n, dimension]; raise EmbedderError, at once in a pause."""
        if self._model.is_cheap:
            return self._model.embed_queries(texts)
        return self._vectors_of([(text, True) for text in texts])

    def query_vector(self, text: str, by: float) -> Vector:
        """Return the unit vector of a query, [dimension], if there is one `by` a time of the clock;
        raise EmbedderError.
        """
        if self._model.is_cheap:
            vector: Vector = self._model.embed_queries([text])[0]
            return vector
        return self._vector((text, True), by)

    def knows(self, text: str) -> bool:
        """Return True if the model knows the text's script, or is still being loaded."""
        return self._is_loading or self._model.knows(text)

    def _vectors_of(self, keys: Sequence[_Key]) -> Matrix:
        vectors = [self._vector(key) for key in keys]
        return np.stack(vectors) if vectors else np.zeros((0, self.dimension), np.float32)

    def _vector(self, key: _Key, by: float = inf) -> Vector:
        with self._lock:
            if (cached := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
                return cached
            if self._is_loading:
                raise EmbedderError(f"{self.model} is being loaded")
            if (asking := self._asking.get(key)) is None:
                if self._failure is not None:
                    if self._clock() < self._again_at:
                        raise EmbedderError(self._failure)
                    # at the end of a pause one tries, the others go on without
                    self._again_at = self._clock() + PAUSE_S
                mine = self._asking[key] = Future()
        if asking is not None:
            return self._wait_for(asking, by)
        if self._model.is_local and by == inf:
            self._settle(key, mine)
        else:
            threading.Thread(target=self._settle, args=(key, mine), daemon=True).start()
        return self._wait_for(mine, by)

    def _settle(self, key: _Key, answer: "Future[Vector]") -> None:
        """Give the model's answer, or its failure, to all waiting threads."""
        try:
            answer.set_result(self._ask_model(key))
        except BaseException as error:
            answer.set_exception(error)
        finally:
            with self._lock:
                del self._asking[key]

    def _wait_for(self, answer: "Future[Vector]", by: float) -> Vector:
        """Return a pending answer; raise EmbedderError if it takes too long."""
        patience_s = inf if self._model.is_local else self._patience_s
        patience_s = max(0.0, min(patience_s, by - self._clock()))
        try:
            return answer.result(None if patience_s == inf else patience_s)
        except TimeoutError:
            failure = f"{self.model}: no answer within {patience_s:.2g} s"
        if not self._model.is_local:  # a local one is at work; what comes late ends the pause
            with self._lock:
                if not answer.done():
                    self._failure, self._again_at = failure, self._clock() + PAUSE_S
        raise EmbedderError(failure)

    def _ask_model(self, key: _Key) -> Vector:
        """Return the model's own answer, and keep it or its failure."""
        text, is_query = key
        try:
            embed = self._model.embed_queries if is_query else self._model.embed
            vector: Vector = embed([text])[0]
        except EmbedderError as error:
            with self._lock:
                self._failure, self._again_at = str(error), self._clock() + PAUSE_S
            raise
        with self._lock:
            self._failure = None
            self._vectors[key] = vector
            if len(self._vectors) > KEPT:
                self._vectors.popitem(last=False)
        return vector

    def _load(self) -> None:
        try:
            with suppress(EmbedderError):  # kept, and reported by later recalls
                self._ask_model((_FIRST, True))
                self._is_loaded = True
        finally:
            self._is_loading = False


class QueryEmbedders:
    """The models used by one process, each made once. Threads may share it.

    A manifest can only be searched with the model that made its vectors, which may differ from the
    one in the settings: a switch takes effect when its vectors are published, and not before.
    """

    def __init__(
        self, home: Path, setting: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`setting` returns the current setting; `clock` seconds that never go back."""
        self._home, self._setting, self._clock = home, setting, clock
        self._made: dict[str, QueryEmbedder] = {}
        self._making = threading.Lock()

    def chosen(self) -> QueryEmbedder:
        """Return the model of the settings; raise ConfigError for a name of no known form."""
        return self._get(self._setting())

    def _get(self, name: str) -> QueryEmbedder:
        with self._making:
            if name not in self._made:
                model = make_embedder(name, self._home, while_asked=True)
                self._made[name] = QueryEmbedder(model, self._clock)
            return self._made[name]

    def find(self, model: str) -> QueryEmbedder | None:
        """Return a model that was used in this home, loaded; None if it is gone.

        One elsewhere is sent questions only while the settings name it.
        """
        setting = self._setting()
        for name in dict.fromkeys((setting, "lexical", *KnownModels(self._home).names(model))):
            if name != setting and name.startswith("litellm:"):
                continue
            try:
                embedder = self._get(name)
            except ConfigError:
                continue  # no model of that name: `mnemolog doctor` reports it
            if embedder.model == model:
                if loading := embedder.load():
                    loading.join()
                return embedder
        return None

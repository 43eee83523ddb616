"""
Bisection: the event that changed the answer to a question, by binary search over the log.

A fold is the memory as known after an event, built whole; each is asked at the same moment and
under the same settings, so that only events make a difference. Between a place with the old answer
and one with the new, the middle is asked, until the two are neighbours: log2(n) folds, each grown
from the last one with the old answer. If an answer changed to and fro, one of the changes is found.
"""

import shutil
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from serve.evaluation.expectations import ask_as_routed, rank_of
from serve.reader.past import Past
from serve.reader.reader import Reader
from serve.recall.analysis import Question
from serve.recall.recall import Hit
from store.embedders.embedder import Embedder
from store.home.errors import InvalidInput
from store.home.files import temporary_folder
from store.log import log_queries
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.rows import redact_event

Hits = tuple[Hit, ...]
Progress = Callable[[int, bool], None]  # called for each fold: its place, and whether it is as now


class Change(msgspec.Struct, frozen=True):
    """The event since which an answer is as it is now, and the hits before and after it.

    `events` is the number of events searched, `folds` the number of folds it took.
    """

    event: Event
    before: Hits
    after: Hits
    events: int
    folds: int


class Search(msgspec.Struct, frozen=True):
    """A question about the past of a memory that is served by `reader`.

    Each method takes the seq of an event after which the answer was another; None is the beginning,
    where nothing is remembered, unless the method names another. Each raises InvalidInput if the
    answer was the same there, or where the served build answers otherwise than a new one.
    """

    log: EventLog
    reader: Reader
    question: Question
    report: Progress = lambda seq, is_as_now: None

    def answer(self, since: int | None = None) -> Change:
        """Return the event since which the same memories are returned in the same order; unsure
        ones count only if none is sure now.
        """
        is_unsure = all(hit.is_unsure for hit in self._now())

        def ids(hits: Hits) -> list[str]:
            return [hit.memory.id for hit in hits if is_unsure or not hit.is_unsure]

        return self._find(ids, since or 0)

    def memory(self, id_: str, since: int | None = None) -> Change:
        """Return the event since which a memory, its copy or its successor is returned; or, since
        its recording, no longer is.
        """

        def comes_back(hits: Hits) -> bool:
            return rank_of(hits, id_) is not None

        if since is None and not comes_back(self._now()):
            since = self.log.events_for(id_)[0].seq
        return self._find(comes_back, since or 0)

    def text(self, text: str, since: int | None = None) -> Change:
        """Return the event since which a hit contains a text, ignoring case; or, since its last
        recording, no hit does.
        """
        wanted = text.casefold()

        def contain(hits: Hits) -> bool:
            return any(wanted in hit.memory.text.casefold() for hit in hits)

        if since is None and not contain(self._now()):
            since = log_queries.newest_with_text(self.log, text)
            if since is None:
                raise InvalidInput(f"no memory was recorded with {text!r}: give other words")
        return self._find(contain, since or 0)

    def _now(self) -> Hits:
        return self.reader.answer(lambda view: ask_as_routed(view, self.question)).hits

    def _find(self, look_at: Callable[[Hits], object], since: int) -> Change:
        """Return the event since which `look_at` gives the same of the answer as now."""
        head, now = self.log.head(), look_at(self._now())
        with ExitStack() as opened:
            folds = _Folds(self.log, self.reader.embedder, self.question, opened)
            low, high = since, head
            before: Hits = ()
            if since:
                before = folds.ask(since)
                folds.keep()
            after: Hits | None = None
            if low == high or look_at(before) == now:
                raise InvalidInput(
                    f"{f'after event {since}' if since else 'before the first event'} the answer "
                    "was as it is now: give a time when it was another, with --since"
                )
            while high - low > 1 or after is None:
                # rounded up: the head is only asked if all places before it differ from now
                middle = (low + high + 1) // 2
                hits = folds.ask(middle)
                is_as_now = look_at(hits) == now
                self.report(middle, is_as_now)
                if is_as_now:
                    high, after = middle, hits
                elif middle == head:
                    raise InvalidInput(
                        "what is served answers otherwise than what is built anew: run "
                        "`mnemolog build`, then try again"
                    )
                else:
                    low, before = middle, hits
                    folds.keep()
        (event,) = self.log.read(high - 1, high)
        return Change(redact_event(event), before, after, head - since, folds.count)


class _Folds:
    """Answers of one question at places of a log, each grown from the last that was kept."""

    def __init__(
        self, log: EventLog, embedder: Embedder, question: Question, opened: ExitStack
    ) -> None:
        self._log, self._embedder, self._question = log, embedder, question
        self._folder = opened.enter_context(temporary_folder("bisect"))
        self._kept: Past | None = None
        self._last: Past | None = None
        opened.callback(self._close)
        self.count = 0

    def ask(self, seq: int) -> Hits:
        """Return the answer after an event, which may not be before the kept one."""
        self._drop(self._last)
        self.count += 1
        folder = self._folder / str(self.count)
        new = self._kept.fork(folder) if self._kept else Past(self._log, folder, self._embedder)
        self._last = new
        reader = new.advance(seq, seq)
        return reader.answer(lambda view: ask_as_routed(view, self._question)).hits

    def keep(self) -> None:
        """Let the next folds grow from the last."""
        self._drop(self._kept)
        self._kept, self._last = self._last, None

    def _close(self) -> None:
        self._drop(self._last)
        self._drop(self._kept)

    def _drop(self, past: Past | None) -> None:
        if past is not None:
            past.close()
            shutil.rmtree(past.tenant.root, ignore_errors=True)

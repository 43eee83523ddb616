"""
Call: one hook event on its way, with all that answering it may look at or write.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TypeVar

from serve.hosts.event import HookEvent
from serve.reader.filters import Filter
from serve.reader.session_events import SessionEvents
from serve.reader.view import View
from serve.server.open_tenants import OpenTenant
from store.agents.prompt_statements import recordable
from store.home.config import Choices
from store.home.instants import derived_id, new_id
from store.home.spool import Delivery
from store.log.event_kinds import Body, Trust
from store.log.events import Event
from store.shared.tree import SharedTrees

T = TypeVar("T")


def delivered_event_id(delivery: Delivery) -> str:
    """Return the id of the first event that a delivery makes: by it the log knows the delivery."""
    return derived_id(delivery.at, "hook", delivery.id)


@dataclass(frozen=True)
class Call:
    """`project` is "" where there is none: only memories without a project are meant then."""

    event: HookEvent
    tenant: OpenTenant
    choices: Choices
    project: str
    now: int  # microseconds UTC
    answer_by: float = inf  # on the monotonic clock; a later reply reaches nobody
    is_awaited: bool = True  # else the host has gone on: the event is recorded, nothing is said
    main_id: str | None = None  # of the first event that is made (`delivered_event_id`)
    trees: SharedTrees | None = None  # who knows what the work tree shares
    _unused_ids: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.main_id is not None:
            self._unused_ids.append(self.main_id)

    @property
    def is_in_time(self) -> bool:
        """Whether what is said now reaches the host: else nothing was said, and none is kept."""
        return time.monotonic() < self.answer_by

    @cached_property
    def journal(self) -> SessionEvents:
        """What this session did before this event, what waits to be written among it.

        It is not written for that: a prompt would wait for the disk.
        """
        session = self.event.session
        waiting = [event for event in self.tenant.receipts[:] if event.session == session]
        journal = self.tenant.journals.of(session)
        if waiting:
            written = {event.id for event in journal.events}  # some may be, since we looked
            return SessionEvents(
                (*journal.events, *(event for event in waiting if event.id not in written))
            )
        return journal

    @property
    def is_held_out(self) -> bool:
        """Whether nothing is said in this session unasked: it was drawn, and that goes on."""
        return self.choices.holdout > 0.0 and self.journal.is_held_out

    @property
    def filter(self) -> Filter:
        """What may come back here and now."""
        return Filter(self.now, self.project, shared=self._shared)

    @cached_property
    def _shared(self) -> tuple[str, ...]:
        if self.trees is None or self.is_held_out:
            return ()
        return self.trees.scopes(self.tenant.log, self.event.cwd, self.now)

    def ask(self, ask: Callable[[View], T]) -> T:
        """Return what the memory answers; without its log, where that cannot be read."""
        _ = self._shared  # recorded before the state is taken that is asked
        return self.tenant.reader.answer(ask, without_log=True)

    def new_event(self, body: Body, subject: str | None = None, trust: Trust = "agent") -> Event:
        """Return an event of this session that is to be written; without a subject, of itself."""
        id_ = self._unused_ids.pop() if self._unused_ids else new_id(self.now)
        return Event(
            id_,
            self.now,
            body,
            subject or id_,
            self.project or None,
            self.event.session,
            self.event.host,
            trust,
        )

    def write(self, *events: Event) -> None:
        """Append events now, after what waits: they are on the disk when this returns.

        Where the log cannot be written they wait too, and are written later. What the settings say
        is not recorded is left out, as by `write_later`.
        """
        self.write_later(*events)
        self.tenant.notes.write_if_possible()

    def write_later(self, *events: Event) -> None:
        """Append events behind the answer, with those of others; a crash may lose the last few."""
        self.tenant.notes.add(*recordable(events, self.choices.record))

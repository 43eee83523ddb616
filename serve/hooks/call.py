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
    """Return the id of a delivery's first event, which identifies the delivery in the log."""
    return derived_id(delivery.at, "hook", delivery.id)


@dataclass(frozen=True)
class Call:
    """A hook event; `project` is "" if it has none: then only memories without a project match."""

    event: HookEvent
    tenant: OpenTenant
    choices: Choices
    project: str
    now: int  # microseconds UTC
    answer_by: float = inf  # on the monotonic clock; a later reply is lost
    is_awaited: bool = True  # else the host has gone on: the event is recorded without an answer
    main_id: str | None = None  # of the call's first event (`delivered_event_id`)
    trees: SharedTrees | None = None  # knows the scopes that the work tree shares
    _unused_ids: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.main_id is not None:
            self._unused_ids.append(self.main_id)

    @property
    def is_in_time(self) -> bool:
        """Return True if a reply still reaches the host: otherwise none is given or recorded."""
        return time.monotonic() < self.answer_by

    @cached_property
    def journal(self) -> SessionEvents:
        """The session's earlier events, including those that wait to be written.

        They are not written first: a prompt would wait for the disk.
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
        """Return True if this session was drawn for the holdout and gets no unasked context."""
        return self.choices.holdout > 0.0 and self.journal.is_held_out

    @property
    def filter(self) -> Filter:
        """The filter for memories that may be returned here and now."""
        return Filter(self.now, self.project, shared=self._shared)

    @cached_property
    def _shared(self) -> tuple[str, ...]:
        if self.trees is None or self.is_held_out:
            return ()
        return self.trees.scopes(self.tenant.log, self.event.cwd, self.now)

    def ask(self, ask: Callable[[View], T]) -> T:
        """Return the memory's answer, without the log if it cannot be read."""
        _ = self._shared  # recorded before `ask` gets the state
        return self.tenant.reader.answer(ask, without_log=True)

    def new_event(self, body: Body, subject: str | None = None, trust: Trust = "agent") -> Event:
        """Return a new event of this session; without a subject, it is its own."""
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
        """Append events now, after the waiting ones: they are on the disk when this returns.

        If the log cannot be written they wait too, and are written later. Events that the settings
        exclude are left out, as by `write_later`.
        """
        self.write_later(*events)
        self.tenant.notes.write_if_possible()

    def write_later(self, *events: Event) -> None:
        """Append events after the answer, with other calls'; a crash may lose the last few."""
        self.tenant.notes.add(*recordable(events, self.choices.record))

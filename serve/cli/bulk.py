"""
Bulk changes by a command: their effect on past answers, and how to undo them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from serve.cli import environment, output
from serve.cli.plans import SHORT, SHOWN
from store.home.instants import EVER
from store.log import log_queries
from store.text.excerpt import plural

if TYPE_CHECKING:
    from serve.reader.reader import Reader
    from store.home.config import Settings
    from store.log.event_kinds import ReplayDiff
    from store.log.event_log import EventLog
    from store.log.events import Event
    from store.plans.plans import Plan

_FEWEST = 10  # events: smaller changes are not checked, so that they load nothing


@contextmanager
def watch(settings: "Settings", log: "EventLog", what: str, *, asks: bool) -> "Iterator[None]":
    """Keep the events written in the block as one change, if it is bulk: print the loss in past
    answers and how to undo it all. With `asks`, ask a person, if present, when they lose too much.

    Changes cut short by an error or an interrupt are kept as well. If the person declines, the
    change is undone, and the command ends.
    """
    with log.collect() as events:
        try:
            yield
        except BaseException:  # an interrupt too: the written events are kept, then it is re-raised
            _keep(settings, log, what, events)
            raise
    plan = _keep(settings, log, what, events)
    if plan is not None and plan.failed and asks and environment.can_ask():
        confirm(log, plan)
    if not events:
        _note_undone(log, what)


def _keep(settings: "Settings", log: "EventLog", what: str, events: "list[Event]") -> "Plan | None":
    if len(events) < _FEWEST:
        return None
    from store.plans import plans

    touched, now = plans.count_memories(events), environment.now()
    if touched < plans.FEWEST_BULK:
        return None
    plan: Plan | None
    if log_queries.nth_newest(log, "recalled", EVER, 0) is None:
        # no past answers: nothing can be lost, and nothing is opened to check
        notes = [f"{what}: {plural(touched, 'memory')}"]
        plan = plans.keep_bulk(log, notes, [event.id for event in events], now)
    else:
        from serve.evaluation import bulk

        def read(past: "EventLog") -> "Reader":
            return environment.open_reader(settings, past)

        tenant = environment.current_tenant(settings)
        plan = bulk.keep(tenant, log, read, settings.choices, what, list(events), now)
    if plan is not None:
        show(log, plan)
    return plan


def show(log: "EventLog", plan: "Plan") -> None:
    """Print the effect of a bulk change on past answers, worst losses first, and how to undo it; on
    standard error, so that no script reads it as a result.
    """
    id_, diff = plan.id[:SHORT], plan.body.replay
    for note in plan.body.notes:
        output.note(output.clean(note))
    if diff is not None:
        _show_lost(log, id_, diff)
    output.note(f"to undo all of it: `mnemolog plans undo {id_}`")


def _show_lost(log: "EventLog", id_: str, diff: "ReplayDiff") -> None:
    from serve.cli.measure import print_answer
    from serve.evaluation import bulk

    if lost := bulk.regret(diff):
        output.note(f"of {diff.asked} past recalls {diff.changed} bring something else: {lost}")
        for answer in diff.answers[:SHOWN]:
            print_answer(log, answer.recall, answer.before, answer.after, output.note)
        if len(diff.answers) > SHOWN:
            output.note(f"`mnemolog plans show {id_} --report FILE` has more of them")


def confirm(log: "EventLog", plan: "Plan") -> None:
    """Ask a person whether to keep a change; if not, undo it and end the command."""
    from store.plans import plans

    if not click.confirm("Keep this change?", default=None, err=True):
        plans.undo(log, plan.id, environment.now())
        output.note("undone: the memory is as it was")
        click.get_current_context().exit(1)


def _note_undone(log: "EventLog", what: str) -> None:
    """Name the undone bulk changes whose memories are not imported again."""
    from store.plans import plans

    for plan in plans.every(log) if log.undone_ids(log.head()) else ():
        is_same = plan.body.job == plans.BULK and plan.body.notes[0].startswith(f"{what}:")
        if is_same and plan.state == "undone":
            output.note(
                f"note: what `plans undo {plan.id[:SHORT]}` took away is not brought again: "
                f"`mnemolog plans apply {plan.id[:SHORT]}` brings it back"
            )

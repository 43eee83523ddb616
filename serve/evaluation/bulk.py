"""
Bulk changes: the effect of an edit, import or archive of many memories at once on past answers.

Past recalls are asked of the memory before the change and after it; the differences are counted and
ranked as for any plan. The change is kept as a plan that was applied, so one command shows it again
and one undoes it, whole. No bulk change is refused: its effect is shown, and a person may undo it.
"""

from collections.abc import Callable, Sequence

from serve.evaluation import drift
from serve.evaluation.replay import ask_now
from serve.evaluation.sample import choose_newest
from serve.reader.reader import Reader
from serve.reports.holdings import memory_counts
from serve.server.open_tenants import OpenTenant
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import MnemologError
from store.home.tenant import Tenant
from store.log.event_kinds import PlanCheck, ReplayDiff
from store.log.event_log import EventLog
from store.log.events import Event
from store.plans import plans
from store.plans.plans import Plan
from store.text.excerpt import plural

SHARE = 0.03  # of the active memories; above it past recalls are asked again
ASKED = 40  # past recalls

Judged = tuple[ReplayDiff | None, tuple[PlanCheck, ...]]
_NOT_ASKED: Judged = None, ()


def keep(
    tenant: Tenant,
    log: EventLog,
    read: Callable[[EventLog], Reader],
    choices: Choices,
    what: str,
    events: Sequence[Event],
    now: int,
) -> Plan | None:
    """Keep a bulk change just written by these events as a plan, with its effect on past answers if
    it touched much of the memory; return None for a few memories, which are no bulk change.

    `read` opens the memory of a log that ends before the change.
    """
    touched = plans.count_memories(events)
    if touched < plans.FEWEST_BULK:
        return None
    notes, judged = [f"{what}: {plural(touched, 'memory')}"], _NOT_ASKED
    try:
        with EventLog(log.path, until=events[0].seq - 1) as past:
            reader = read(past)
            if active := _count_active(reader, now):
                notes[0] += f", of {active:,} that were active before"
            if touched > SHARE * active:
                judged = _judge(OpenTenant(tenant, past, reader), log, events, choices, now)
    except MnemologError as error:  # it is written, and can be undone all the same
        notes.append(f"past recalls could not be asked: {error}")
    return plans.keep_bulk(log, notes, [event.id for event in events], now, *judged)


def suppose(
    tenant: Tenant,
    log: EventLog,
    embedder: Embedder,
    choices: Choices,
    events: Sequence[Event],
    now: int,
) -> Judged:
    """Return the effect on past answers of events that are not written yet, if they are bulk."""
    touched = plans.count_memories(events)
    if touched < plans.FEWEST_BULK:
        return _NOT_ASKED
    reader = Reader(tenant, log, embedder)
    if touched <= SHARE * _count_active(reader, now):
        return _NOT_ASKED
    return _judge(OpenTenant(tenant, log, reader), log, events, choices, now)


def regret(diff: ReplayDiff) -> str:
    """Return the losses of past answers by a change, the worst first; "" without losses."""
    counts = (
        (diff.helpful_gone, "{} that helped no longer come back"),
        (diff.silenced, "{} fall silent"),
        (diff.led, "{} begin with another memory"),
        (diff.gone, "{} memories no longer come back"),
    )
    return ", ".join(words.format(f"{count:,}") for count, words in counts if count)


def _count_active(reader: Reader, now: int) -> int:
    return reader.answer(lambda view: memory_counts(view, now)).active


def _judge(
    before: OpenTenant, log: EventLog, events: Sequence[Event], choices: Choices, now: int
) -> Judged:
    """Return the difference that some events make to a sample of past recalls, and its checks;
    nothing if none can be asked. The memory's reader has the events from then on.
    """
    if not (recalls := choose_newest(log, before.reader.embedder, ASKED)):
        return _NOT_ASKED
    answers = list(ask_now(before, recalls, choices, now))
    before.reader.suppose(events)
    after = ask_now(OpenTenant(before.tenant, log, before.reader), recalls, choices, now)
    diff = drift.count_changes(log, recalls, zip(answers, after, strict=True))
    return diff, drift.check_drift(diff)

"""
Bulk changes: what an edit, import or archive of many memories at once does to past answers.

Past recalls are asked of the memory before the change and after it; what differs is counted and
ranked as for any plan. The change is kept as a plan that was applied, so one command shows it again
and one undoes it, whole. No bulk change is refused: what it does is told, and a person may say no.
"""

from collections.abc import Sequence

from serve.evaluation import drift
from serve.evaluation.replay import ask_now, skip_reason
from serve.evaluation.sample import choose_recalls
from serve.reader.reader import Reader
from serve.reports.holdings import memory_counts
from serve.server.open_tenants import OpenTenant
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import MnemologError
from store.home.tenant import Tenant
from store.log import receipts
from store.log.event_kinds import PlanCheck, Recalled, ReplayDiff
from store.log.event_log import EventLog
from store.log.events import Event
from store.plans import plans
from store.plans.plans import Plan
from store.text.excerpt import plural

SHARE = 0.03  # of the active memories, from which on past recalls are asked
ASKED = 40  # past recalls
_CHOSEN_FROM = 1_000

Judged = tuple[ReplayDiff | None, tuple[PlanCheck, ...]]
_NOT_ASKED: Judged = None, ()


def keep(
    opened: OpenTenant, choices: Choices, what: str, events: Sequence[Event], now: int
) -> Plan | None:
    """Keep a bulk change that was just written by these events as a plan, with what it does to past
    answers where it touched much of the memory; return None of a few memories, which are no bulk.
    """
    touched, log = plans.count_memories(events), opened.log
    if touched < plans.FEWEST_BULK:
        return None
    notes, judged = [f"{what}: {plural(touched, 'memory')}"], _NOT_ASKED
    try:
        with EventLog(log.path, until=events[0].seq - 1) as past:
            reader = Reader(opened.tenant, past, opened.reader.embedder)
            if active := reader.answer(lambda view: memory_counts(view, now)).active:
                notes[0] += f", of {active:,} that were active before"
            before = OpenTenant(opened.tenant, past, reader)
            judged = _judge(before, opened, choices, now, touched / max(active, 1))
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
    """Return what events that are not written yet would do to past answers, where they are bulk."""
    touched = plans.count_memories(events)
    if touched < plans.FEWEST_BULK:
        return _NOT_ASKED
    before, after = (OpenTenant(tenant, log, Reader(tenant, log, embedder)) for _ in range(2))
    active = before.reader.answer(lambda view: memory_counts(view, now)).active
    after.reader.suppose(events)
    return _judge(before, after, choices, now, touched / max(active, 1))


def regret(diff: ReplayDiff) -> str:
    """Return what a change takes from past answers, the worst first; "" where that is nothing."""
    counts = (
        (diff.helpful_gone, "{} that helped no longer come back"),
        (diff.silenced, "{} fall silent"),
        (diff.led, "{} begin with another memory"),
        (diff.gone, "{} memories no longer come back"),
    )
    return ", ".join(words.format(f"{count:,}") for count, words in counts if count)


def _judge(
    before: OpenTenant, after: OpenTenant, choices: Choices, now: int, share: float
) -> Judged:
    """Return what a sample of past recalls brings of one memory and of another, and the checks of
    that; nothing where a change touched a small share, or nothing can be asked.
    """
    if share <= SHARE:
        return _NOT_ASKED
    log, embedder = after.log, after.reader.embedder
    page = receipts.page(log, receipts.Wanted(), _CHOSEN_FROM, most=_CHOSEN_FROM)
    can_be_asked = [
        event
        for event in page.receipts
        if isinstance(event.body, Recalled) and not skip_reason(event.body, embedder)
    ]
    if not (events := choose_recalls(log, can_be_asked, ASKED)):
        return _NOT_ASKED
    answers = (ask_now(tenant, events, choices, now) for tenant in (before, after))
    diff = drift.count_changes(log, events, zip(*answers, strict=True))
    return diff, drift.check_drift(diff)

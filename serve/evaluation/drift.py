"""
Drift: the effect of a change of recall on past answers, shown before the change is made.

Past recalls are asked again as they were and with the change, each of the memory as known then.
Their answers are compared: the lost and gained memories, the recalls that become silent, the rated
and followed memories that are still returned. Bounds limit the changes that are applied
automatically. Memories are queried by their own words too, as in every build.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack

import msgspec
from msgspec.structs import replace

from serve.evaluation import canaries, expectations
from serve.evaluation.canaries import Canary
from serve.evaluation.expectations import Expectation
from serve.evaluation.replay import Change, Replayed, Way, recalled, replay_ways
from serve.reader.filters import Filter
from serve.reader.past import memory_at
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall.analysis import default_question
from serve.recall.recall import recall
from store.derived.routing import Router
from store.embedders.embedder import Embedder, make_embedder
from store.embedders.installed_models import try_model
from store.home.config import Choices, Settings
from store.home.tenant import Tenant
from store.log import receipts
from store.log.event_kinds import (
    ChangedAnswer,
    Followed,
    Judged,
    PlanCheck,
    Planned,
    Rated,
    Recalled,
    ReplayDiff,
    Step,
)
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import SOON_US
from store.plans.setting_changes import changed_choices

KEPT_ANSWERS = 50  # changed answers that a plan keeps
FEWEST = 10  # recalls with hits; no share is computed of fewer

# The shares up to which a change is applied automatically.
MOST_SILENCED = 0.05  # of the recalls with hits
MOST_GONE = 0.25  # of the returned memories
MOST_AWOKEN = 0.25  # of the recalls without hits
MOST_CHARACTERS = 1.5  # times those returned before
MOST_HELPFUL_GONE = 0.05  # of the memories that helped
MOST_LED_OTHERWISE = 0.15  # of the recalls with hits, by another memory than before
LEAST_CLOSER = 0.1  # the least lead of a model's cosine with a paraphrase over another topic's
MOST_CANARIES_GONE = 0.1  # of those found before

Verdicts = Mapping[tuple[str, str], float]  # by recall and memory, -1 to 1
Regret = tuple[int, int, int, int]


def settings_plan(
    settings: Settings,
    tenant: Tenant,
    log: EventLog,
    steps: Sequence[Step],
    events: Sequence[Event],
    now: int,
) -> Planned:
    """Return the plan of some changed settings, with its effect on some past recalls.

    Raise EmbedderError if a model does not answer.
    """
    before, after = settings.choices, changed_choices(settings.choices, steps)
    a = Way(make_embedder(before.embedder, settings.home))
    is_same_model = after.embedder == before.embedder
    embedder = a.embedder if is_same_model else make_embedder(after.embedder, settings.home)
    b = Way(embedder, setting_change(before, after))
    diff = compare(log, events, before, a, b)
    questions = _questions(before, tenant, log, a, b, after, now)
    return Planned(
        job="settings",
        watermark=log.head(),
        steps=tuple(steps),
        looked_at=diff.asked,
        notes=notes_on(diff),
        replay=diff,
        checks=(
            *check_drift(diff),
            *questions,
            *([] if is_same_model else [check_model(embedder)]),
        ),
    )


def judge_policy(
    tenant: Tenant,
    log: EventLog,
    choices: Choices,
    a: Way,
    b: Way,
    most: int,
    now: int,
) -> tuple[ReplayDiff, tuple[PlanCheck, ...]]:
    """Return the effect of the policy of `b` on the newest routed recalls, up to `most`, against
    that of `a`, and its checks. Nothing is tried.
    """
    events = receipts.page(log, receipts.Wanted(), most, most=10 * most).receipts
    routed = [event for event in events if isinstance(event.body, Recalled) and event.body.route]
    diff = compare(log, routed, choices, a, b)
    return diff, (*check_drift(diff), *_questions(choices, tenant, log, a, b, choices, now))


def notes_on(diff: ReplayDiff) -> tuple[str, ...]:
    """Return the notes for a person on how a change was judged."""
    notes = [f"{count:,} not asked, each because {why}" for why, count in diff.skipped.items()]
    if diff.spoke < FEWEST:
        notes.append(f"fewer than {FEWEST} recalls brought anything, so shares are not judged")
    return tuple(notes)


def _questions(
    before: Choices, tenant: Tenant, log: EventLog, a: Way, b: Way, after: Choices, now: int
) -> Iterator[PlanCheck]:
    """Yield the checks that memories are still found by their own words and by the pinned
    questions; with another model, in the build that it would serve.
    """
    reader = Reader(tenant, log, a.embedder)
    chosen = reader.answer(
        lambda view: canaries.choose(view.snapshots, now) if view.snapshots.manifest else ()
    )
    pinned = expectations.list_expectations(log)

    def ask(reader: Reader, way: Way, choices: Choices) -> tuple[int, set[Expectation]]:
        def both(view: View) -> tuple[int, set[Expectation]]:
            answers = expectations.ask(view, pinned, choices, now, way.policy)
            missed = {outcome.expectation for outcome in answers if outcome.rank is None}
            return own_words(view, chosen, way, choices, now), missed

        return reader.answer(both)

    came_back, missed = ask(reader, a, before)
    with ExitStack() as opened:
        if b.embedder.model != a.embedder.model:
            reader = opened.enter_context(memory_at(log, b.embedder, log.head()))
        still, missed_now = ask(reader, b, after)
    yield check_own_words(came_back, still, len(chosen))
    if pinned:
        yield check_pinned(pinned, missed, missed_now)


def setting_change(before: Choices, after: Choices) -> Change:
    """Return the change that sets the differing settings, in recalls that used the settings: a
    request for three memories would still ask for three.
    """
    differing = {
        name: value
        for name in Choices.__struct_fields__
        if (value := getattr(after, name)) != getattr(before, name)
    }

    def change(choices: Choices) -> Choices:
        usual = {
            name: value
            for name, value in differing.items()
            if name == "profiles" or getattr(choices, name) == getattr(before, name)
        }
        return msgspec.structs.replace(choices, **usual)

    return change


def compare(log: EventLog, events: Sequence[Event], choices: Choices, a: Way, b: Way) -> ReplayDiff:
    """Return the difference between past recalls asked one way and asked another way."""
    both = replay_ways(log, events, choices, (a, b))
    return count_changes(log, events, ((before, after) for before, after in both))


def count_changes(
    log: EventLog, events: Sequence[Event], pairs: Iterable[tuple[Replayed, Replayed]]
) -> ReplayDiff:
    """Return the differences between two answers to each of some past recalls."""
    verdicts = find_verdicts(log, events)
    skipped = Counter[str]()
    counts = Counter[str]()
    changes: dict[tuple[object, ...], tuple[Regret, ChangedAnswer]] = {}
    sizes, times = [0, 0], [0, 0]
    for before, after in pairs:
        if before.verdict == "skipped":
            skipped[before.why] += 1
            continue
        then, now = _ids(before), _ids(after)
        count = _count(before.receipt.id, then, now, verdicts)
        counts.update(count)
        for place, replay in enumerate((before, after)):
            sizes[place] += replay.characters
            times[place] += replay.took_us
        if then != now:
            # the loss to the user from a change to one recall, worst first: memories that helped,
            # any answer at all, the first memory, other memories
            regret = count["helpful_gone"], count["silenced"], count["led"], count["gone"]
            # the same question of the same project, answered alike, is one change
            change = (before.before.query, before.receipt.project, then, now)
            answer = ChangedAnswer(before.receipt.id, then, now)
            changes.setdefault(change, (regret, answer))
    worst_first = sorted(changes.values(), key=lambda change: change[0], reverse=True)
    return ReplayDiff(
        **counts,
        characters=(sizes[0], sizes[1]),
        took_us=(times[0], times[1]),
        skipped=dict(skipped),
        answers=tuple(answer for _, answer in worst_first[:KEPT_ANSWERS]),
    )


def _ids(replay: Replayed) -> tuple[str, ...]:
    return tuple(hit.id for hit in replay.hits)


def _count(
    recall_id: str, then: tuple[str, ...], now: tuple[str, ...], verdicts: Verdicts
) -> dict[str, int]:
    """Return the counts of a `ReplayDiff` for one recall."""
    lost = set(then) - set(now)
    own = {id_: verdicts.get((recall_id, id_), 0.0) for id_ in then}
    counts = {
        "asked": 1,
        "changed": then != now,
        "reordered": then != now and set(then) == set(now),
        "spoke": bool(then),
        "silenced": bool(then and not now),
        "awoken": bool(now and not then),
        "led": bool(then and now and then[0] != now[0]),
        "hits": len(then),
        "gone": len(lost),
        "new": len(set(now) - set(then)),
        "helpful": sum(verdict > 0 for verdict in own.values()),
        "helpful_gone": sum(own[id_] > 0 for id_ in lost),
        "harmful": sum(verdict < 0 for verdict in own.values()),
        "harmful_gone": sum(own[id_] < 0 for id_ in lost),
    }
    return {name: int(count) for name, count in counts.items()}  # a Counter keeps a bool as it is


def find_verdicts(log: EventLog, events: Sequence[Event]) -> Verdicts:
    """Return the last verdict of people, agents and judges on each hit of some recalls: ratings of
    the recall, or of a memory within a day, judgments, and lessons that were followed.
    """
    if not events:
        return {}
    hit_ids = {receipt.id: [hit.id for hit in recalled(receipt).hits] for receipt in events}
    moments = [receipt.at for receipt in events]
    by_memory: dict[str, list[Event]] = {}
    by_session: dict[str, list[Event]] = {}
    for receipt in events:
        by_session.setdefault(receipt.session or "", []).append(receipt)
        for id_ in hit_ids[receipt.id]:
            by_memory.setdefault(id_, []).append(receipt)
    verdicts: dict[tuple[str, str], float] = {}
    for event in log.job_events(("judged",)):
        if event.subject in hit_ids and isinstance(event.body, Judged):
            for id_, verdict in event.body.verdicts.items():
                verdicts[event.subject, id_] = verdict
    kinds = ("rated", "followed")
    for event in log.events_between(kinds, min(moments), max(moments) + SOON_US):
        match event.body:
            case Followed(verdict="followed"):
                for receipt in by_session.get(event.session or "", ()):
                    if event.subject in hit_ids[receipt.id] and receipt.at <= event.at:
                        verdicts[receipt.id, event.subject] = 1.0
            case Rated(verdict=verdict) if receipts.may_rate(event):
                for id_ in hit_ids.get(event.subject, ()):
                    verdicts[event.subject, id_] = verdict
                for receipt in by_memory.get(event.subject, ()):
                    if receipt.at <= event.at <= receipt.at + SOON_US:
                        verdicts[receipt.id, event.subject] = verdict
    return verdicts


def check_drift(diff: ReplayDiff) -> tuple[PlanCheck, ...]:
    """Return the checks that the effect of a change on past recalls keeps to the bounds."""
    silent = diff.asked - diff.spoke
    before, after = diff.characters
    of_old = f"of {diff.hits:,} memories that came back"
    return (
        PlanCheck(
            "silence",
            not _is_over(diff.silenced, diff.spoke, MOST_SILENCED),
            f"{diff.silenced:,} of {diff.spoke:,} recalls that brought something bring nothing",
        ),
        PlanCheck(
            "drift",
            diff.spoke < FEWEST or not _is_over(diff.gone, diff.hits, MOST_GONE),
            f"{diff.gone:,} {of_old} no longer do, {diff.new:,} others do",
        ),
        PlanCheck(
            "order",
            not _is_over(diff.led, diff.spoke, MOST_LED_OTHERWISE),
            f"{diff.led:,} of {diff.spoke:,} answers begin with another memory",
        ),
        PlanCheck(
            "noise",
            not _is_over(diff.awoken, silent, MOST_AWOKEN)
            and (diff.spoke < FEWEST or after <= MOST_CHARACTERS * before),
            f"{diff.awoken:,} of {silent:,} recalls that brought nothing bring something; "
            f"{before:,} characters became {after:,}",
        ),
        PlanCheck(
            "ratings",
            not _is_over(diff.helpful_gone, diff.helpful, MOST_HELPFUL_GONE),
            f"{diff.helpful_gone:,} of {diff.helpful:,} memories that helped, and "
            f"{diff.harmful_gone:,} of {diff.harmful:,} that did not, no longer come back",
        ),
    )


def failed_checks(diff: ReplayDiff) -> list[str]:
    """Return the checks that the effect of a change on past recalls fails, each in words."""
    return [f"{check.name}: {check.detail}" for check in check_drift(diff) if not check.passed]


def _is_over(count: int, of: int, most: float) -> bool:
    """Return True if a share is over a bound; never for fewer than FEWEST, or for a count of 1."""
    return of >= FEWEST and count > 1 and count > most * of


def check_model(embedder: Embedder) -> PlanCheck:
    """Check that a model distinguishes texts of one meaning from others; raise EmbedderError."""
    tried = try_model(embedder)
    return PlanCheck(
        "model",
        tried.paraphrase - tried.unrelated >= LEAST_CLOSER,
        f"{tried.model}: cosine {tried.paraphrase:.2f} with a paraphrase, {tried.unrelated:.2f} "
        "with another topic",
    )


def check_pinned(
    pinned: Sequence[Expectation], before: Set[Expectation], after: Set[Expectation]
) -> PlanCheck:
    """Check that pinned questions return their memory after a change as before; `before` and
    `after` are those that fail.
    """
    lost = [expectation for expectation in pinned if expectation in after - before]
    return PlanCheck(
        "expected",
        not lost,
        f"{len(pinned) - len(after)} of {len(pinned)} pinned questions bring back their "
        f"memory, {len(pinned) - len(before)} did before{expectations.list_missing(lost)}",
    )


def own_words(view: View, chosen: Sequence[Canary], way: Way, choices: Choices, now: int) -> int:
    """Return the number of memories surely found by their own words under some settings: unlike a
    build's canaries, a threshold can hide them.
    """
    count = 0
    router = Router(way.policy) if way.policy else None
    for canary in chosen:
        question = default_question(canary.question, Filter(now=now), choices)
        answer = recall(view, replace(question, router=router))
        first = answer.hits[: canaries.WITHIN]
        count += any(hit.memory.id == canary.id and not hit.is_unsure for hit in first)
    return count


def check_own_words(before: int, after: int, asked: int) -> PlanCheck:
    """Check that as many memories are found by their own words after a change as before."""
    return PlanCheck(
        "canaries",
        not _is_over(before - after, before, MOST_CANARIES_GONE),
        f"{after} of {asked} memories come back by their own words, {before} did before",
    )

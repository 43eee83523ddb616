"""
Upgrade: a comparison of the answers of this version of mnemolog with those of another one.

Receipts record the answers and the code that gave them. Those of other code are asked again, each
of the memory as known then, and the answers compared. The first build of a new version does so
before it is published; a plan shows the result, before or after the version is installed.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from serve import version
from serve.evaluation import canaries, drift, expectations
from serve.evaluation.expectations import Expectation
from serve.evaluation.replay import Replayed, askable, recalled, replay
from serve.evaluation.sample import choose_recalls
from serve.reader.past import memory_at
from serve.recall.deciding import code
from store.embedders.embedder import Embedder, make_embedder
from store.home.config import Choices, Settings
from store.home.instants import EVER
from store.home.tenant import Tenant
from store.log import log_queries, receipts
from store.log.event_kinds import Configured, PlanCheck, Planned
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build as builds
from store.maintenance.build import Build
from store.plans.setting_changes import VERSION, version_step
from store.snapshots.manifest import CANARIES, EXPECTED, UPGRADE, CheckResult

ASKED = 100  # recalls of other code that the first build asks again
LOOKED_AT = 1_000  # receipts among which those are looked for
_CHOSEN_FROM = 4_000  # by the first build


def running() -> str:
    """Return the running version with a digest of the code that decides answers, such as
    "0.1.0+5d41402a".
    """
    return f"{version()}+{code()}"


def list_earlier(
    log: EventLog, most: int, since: int | None = None, looked_at: int = LOOKED_AT
) -> list[Event]:
    """Return the newest receipts, up to `most`, that other code than this wrote, newest first."""
    page = receipts.page(log, receipts.Wanted(since), looked_at, most=looked_at)
    here = version(), code()
    return [
        event
        for event in page.receipts
        if (basis := recalled(event).basis) is None or (basis.version, basis.code) != here
    ][:most]


def compare_given(
    log: EventLog, embedder: Embedder, events: Sequence[Event], choices: Choices
) -> Iterator[tuple[Replayed, Replayed]]:
    """Yield the answer to each of some recalls as its receipt has it, and the one of this code.

    Memories erased since are left out of the former. Characters are counted for blocks only, and
    times are not compared: those of the receipt are not of this machine's present load.
    """
    erased = log_queries.erased_ids(log, log.head())
    for now in replay(log, embedder, events, choices):
        body = now.before
        hits = tuple(hit for hit in body.hits if hit.id not in erased)
        then = replace(now, hits=hits, characters=body.characters or 0, took_us=0)
        is_block = body.door == "prompt"
        yield then, replace(now, took_us=0, characters=now.characters if is_block else 0)


# The check of a build


def is_first_build(build: Build) -> bool:
    """Return True if the published manifest was built by other code than this."""
    served = builds.current_manifest(build.tenant)
    if served is None:
        return False
    result = canaries.check_of(served, UPGRADE)  # none of an earlier version
    return result is None or result.metadata.get("code") != running()


def is_accepted(log: EventLog) -> bool:
    """Return True if a person applied a plan of this code, and did not undo it."""
    undone = log.undone_ids(log.head())
    return any(
        isinstance(event.body, Configured)
        and (event.body.name, event.body.value) == (VERSION, running())
        and event.id not in undone
        for event in log.events_between(("configured",), 0, EVER)
    )


def check(build: Build, choices: Choices) -> CheckResult:
    """Return the check that this code answers past recalls as the code before it did.

    Only the first build of this code asks. One that a person accepted warns.
    """
    here = running()
    text = f"built by mnemolog {here}"
    events: Sequence[Event] = ()
    if is_first_build(build):
        earlier = list_earlier(build.log, _CHOSEN_FROM, looked_at=_CHOSEN_FROM)
        events = choose_recalls(build.log, askable(earlier, build.embedder), ASKED)
    failed: list[str] = []
    if events:
        pairs = compare_given(build.log, build.embedder, events, choices)
        diff = drift.count_changes(build.log, events, pairs)
        failed = drift.failed_checks(diff)
        text = (
            f"mnemolog {here} answers {diff.changed} of {diff.asked} past recalls otherwise than "
            f"{_name(events)} did"
        )
    return CheckResult(
        UPGRADE,
        not failed,
        "; ".join([text, *failed]),
        CANARIES,
        {"code": here},
        cure=_CURE if failed and not build.accepts else "",
        warns=bool(failed) and build.accepts,
    )


_CURE = (
    "`mnemolog plans propose --upgrade` shows them side by side and says how to accept them; the "
    "version before, installed again, still reads what it built"
)


def _name(events: Sequence[Event]) -> str:
    """Return the code that wrote the newest of some receipts, in words."""
    basis = next((basis for event in events if (basis := recalled(event).basis)), None)
    if basis is None:
        return "an earlier version"
    is_told_apart = basis.version != version() or not basis.code
    return basis.version if is_told_apart else f"{basis.version}+{basis.code}"


# The plan


def upgrade_plan(
    settings: Settings, tenant: Tenant, log: EventLog, events: Sequence[Event], now: int
) -> Planned:
    """Return the plan to answer with this code, with its effect on some receipts of other code;
    raise EmbedderError if a model does not answer.
    """
    embedder = make_embedder(settings.choices.embedder, settings.home)
    pairs = list(compare_given(log, embedder, events, settings.choices))
    diff, notes = drift.count_changes(log, events, pairs), []
    reworded = sum(now.verdict == "changed" and now.hits == then.hits for then, now in pairs)
    if reworded:
        notes.append(f"{reworded:,} more bring the same in other words or with other scores")
    return Planned(
        job="settings",
        watermark=log.head(),
        steps=(version_step(_name(events), running()),),
        looked_at=diff.asked,
        notes=(*notes, *drift.notes_on(diff)),
        replay=diff,
        checks=(
            *drift.check_drift(diff),
            *_check_pinned(tenant, log, embedder, settings.choices, now),
        ),
    )


def _check_pinned(
    tenant: Tenant, log: EventLog, embedder: Embedder, choices: Choices, now: int
) -> Iterator[PlanCheck]:
    """Yield the check that the pinned questions return the same as in the published build."""
    if not (pinned := expectations.list_expectations(log)):
        return
    served = builds.current_manifest(tenant)
    result = canaries.check_of(served, EXPECTED) if served else None
    before = msgspec.convert(result.metadata["missed"] if result else (), set[Expectation])
    with memory_at(log, embedder, log.head()) as reader:
        answers = reader.answer(lambda view: expectations.ask(view, pinned, choices, now))
    after = {outcome.expectation for outcome in answers if outcome.rank is None}
    yield drift.check_pinned(pinned, before, after)

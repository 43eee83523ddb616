"""
Upgrade: what this version of mnemolog answers where another one answered.

Receipts hold what was answered and by which code. Those of other code are asked again, each of the
memory as it was known then, and compared with what was answered. The first build of a new version
does so before it is served; a plan shows it to a person, before or after the version is installed.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from serve import version
from serve.evaluation import drift, expectations
from serve.evaluation.expectations import Expectation
from serve.evaluation.replay import Replayed, replay, skip_reason
from serve.evaluation.sample import choose_recalls
from serve.reader.past import memory_at
from serve.recall.deciding import code
from store.embedders.embedder import Embedder, make_embedder
from store.home.config import Choices, Settings
from store.home.instants import EVER
from store.home.tenant import Tenant
from store.log import log_queries, receipts
from store.log.event_kinds import Basis, Configured, PlanCheck, Planned, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build as builds
from store.maintenance.build import Build
from store.plans.setting_changes import VERSION, version_step
from store.snapshots.manifest import CANARIES, EXPECTED, UPGRADE, CheckResult, Manifest

ASKED = 100  # recalls of other code that the first build asks again
LOOKED_AT = 1_000  # receipts among which those are looked for
_CHOSEN_FROM = 4_000  # by the first build


def running() -> str:
    """Return the version that runs and a digest of what of it decides answers, "0.1.0+5d41402a"."""
    return f"{version()}+{code()}"


def list_earlier(
    log: EventLog, most: int, since: int | None = None, looked_at: int = LOOKED_AT
) -> list[Event]:
    """Return the newest receipts, up to `most`, that other code than this wrote, newest first."""
    page = receipts.page(log, receipts.Wanted(since), looked_at, most=looked_at)
    return [event for event in page.receipts if _is_of_other_code(event)][:most]


def _is_of_other_code(receipt: Event) -> bool:
    body = receipt.body
    assert isinstance(body, Recalled)
    return body.basis is None or (body.basis.version, body.basis.code) != (version(), code())


def compare_given(
    log: EventLog, embedder: Embedder, events: Sequence[Event], choices: Choices
) -> Iterator[tuple[Replayed, Replayed]]:
    """Yield what each of some recalls brought as its receipt has it, and what this code brings.

    What was erased since is left out of the former. Characters are counted of blocks alone, and no
    times: those of the receipt are not of this machine's present load.
    """
    erased = log_queries.erased_ids(log, log.head())
    for one in replay(log, embedder, events, choices):
        body = one.before
        hits = tuple(hit for hit in body.hits if hit.id not in erased)
        given = replace(one, hits=hits, characters=body.characters or 0, took_us=0)
        is_block = body.door == "prompt"
        yield given, replace(one, took_us=0, characters=one.characters if is_block else 0)


# The check of a build


def is_first_build(made: Build) -> bool:
    """Return whether what is served was built by other code than this."""
    served = builds.current_manifest(made.tenant)
    return served is not None and _built_by(served) != running()


def _built_by(served: Manifest) -> str:
    """Return what built a manifest, as `running` said it; "" of an earlier version."""
    found = (result.metadata.get("code", "") for result in served.checks if result.name == UPGRADE)
    return str(next(found, ""))


def is_accepted(log: EventLog) -> bool:
    """Return whether a person applied a plan of this code, and did not undo it."""
    gone = log.undone_ids(log.head())
    return any(
        isinstance(event.body, Configured)
        and (event.body.name, event.body.value) == (VERSION, running())
        and event.id not in gone
        for event in log.events_between(("configured",), 0, EVER)
    )


def check(made: Build, choices: Choices) -> CheckResult:
    """Return the check that this code answers past recalls as the code before it did.

    Only the first build of this code asks. One that a person accepted warns.
    """
    here = running()
    text = f"built by mnemolog {here}"
    events = _choose_earlier(made) if is_first_build(made) else []
    failed: list[PlanCheck] = []
    if events:
        pairs = compare_given(made.log, made.embedder, events, choices)
        diff = drift.count_changes(made.log, events, pairs)
        failed = [plan_check for plan_check in drift.check_drift(diff) if not plan_check.passed]
        text = (
            f"mnemolog {here} answers {diff.changed} of {diff.asked} past recalls otherwise than "
            f"{_name(events)} did"
        )
    text = "; ".join([text, *(f"{plan_check.name}: {plan_check.detail}" for plan_check in failed)])
    return CheckResult(
        UPGRADE,
        not failed,
        text,
        CANARIES,
        {"code": here},
        cure=_CURE if failed and not made.accepts else "",
        warns=bool(failed) and made.accepts,
    )


def _choose_earlier(made: Build) -> list[Event]:
    """Return a sample of what other code than this answered and can be asked again."""
    earlier = list_earlier(made.log, _CHOSEN_FROM, looked_at=_CHOSEN_FROM)
    can_be_asked = [
        event
        for event in earlier
        if isinstance(event.body, Recalled) and not skip_reason(event.body, made.embedder)
    ]
    return choose_recalls(made.log, can_be_asked, ASKED)


_CURE = (
    "`mnemolog plans propose --upgrade` shows them side by side and says how to accept them; the "
    "version before, installed again, still reads what it built"
)


def _name(events: Sequence[Event]) -> str:
    """Return the code that wrote the newest of some receipts, in words."""
    basis = next((found for event in events if (found := _basis(event))), None)
    if basis is None:
        return "an earlier version"
    is_told_apart = basis.version != version() or not basis.code
    return basis.version if is_told_apart else f"{basis.version}+{basis.code}"


def _basis(receipt: Event) -> Basis | None:
    return receipt.body.basis if isinstance(receipt.body, Recalled) else None


# The plan


def upgrade_plan(
    settings: Settings, tenant: Tenant, log: EventLog, events: Sequence[Event], now: int
) -> Planned:
    """Return the plan to be answered by this code, with what it does to some receipts of other
    code; raise EmbedderError where a model does not answer.
    """
    embedder = make_embedder(settings.choices.embedder, settings.home)
    pairs = list(compare_given(log, embedder, events, settings.choices))
    diff, notes = drift.count_changes(log, events, pairs), []
    reworded = sum(now.verdict == "changed" and now.hits == given.hits for given, now in pairs)
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
    """Yield whether the pinned questions bring back what they did in the build that is served."""
    if not (pinned := expectations.list_expectations(log)):
        return
    served = builds.current_manifest(tenant)
    checks = served.checks if served else ()
    said = next((result.metadata["missed"] for result in checks if result.name == EXPECTED), ())
    before = msgspec.convert(said, set[Expectation])
    with memory_at(log, embedder, log.head()) as reader:
        answers = reader.answer(lambda view: expectations.ask(view, pinned, choices, now))
    after = {outcome.expectation for outcome in answers if outcome.rank is None}
    yield drift.check_pinned(pinned, before, after)

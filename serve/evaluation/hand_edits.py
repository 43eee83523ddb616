"""
Hand edits: settings that somebody changed in `config.toml` itself, judged at the next build as a
plan would have been.

A build keeps what the file said of recall. Where the next one finds it otherwise, and no plan did
that, past recalls are asked under both. Nothing is held back: the file is the user's. But where a
plan of that change would have failed its checks, the build warns and proposes a plan that puts it
back: one `plans apply` does so, one `plans reject` says that it was meant.
"""

from collections.abc import Iterator, Sequence

from serve.evaluation import drift
from serve.evaluation.replay import Replayed, Way, replay_ways, skip_reason
from serve.evaluation.sample import choose_recalls
from store.home.config import Choices, change_choices
from store.log import receipts
from store.log.event_kinds import PlanCheck, Planned, Recalled, Step
from store.log.event_log import EventLog
from store.log.events import Event
from store.maintenance import build as builds
from store.maintenance.build import Build
from store.plans import plans, setting_changes
from store.plans.plans import Plan
from store.snapshots.manifest import CANARIES, SETTINGS, CheckResult, Manifest

ASKED = 40  # past recalls
_CHOSEN_FROM = 1_000


def check(made: Build, choices: Choices, now: int) -> CheckResult:
    """Return the check that nobody changed settings by hand to the harm of past answers; it only
    warns.
    """
    log, kept = made.log, setting_changes.kept_settings(made.log)
    served = builds.current_manifest(made.tenant)
    before = _kept_by(served)
    steps: Sequence[Step] = () if before is None else setting_changes.steps_back(kept, before)
    if served and steps:  # else no plan is looked for
        is_planned = _was_planned(log, served.watermark)
        steps = () if is_planned else plans.new_steps(log, steps)
    if steps:
        plan, text = _judge(made, choices, steps, now)
    else:
        plan, text = _waiting_plan(log, served), ""
    if plan is None:
        detail = text or "no setting of recall was changed by hand since the last build"
        return CheckResult(SETTINGS, True, detail, CANARIES, {"kept": kept})
    return CheckResult(
        SETTINGS,
        False,
        f"config.toml was changed by hand: {'; '.join(plan.body.notes)}",
        CANARIES,
        {"kept": kept, "plan": plan.id},
        cure=f"`mnemolog plans show {plan.id}` shows what answers lost, `mnemolog plans apply "
        f"{plan.id}` puts the setting back, `mnemolog plans reject {plan.id}` keeps it as it is",
        warns=True,
    )


def _kept_by(served: Manifest | None) -> dict[str, object] | None:
    """Return what config.toml said when a manifest was built; None where it does not tell."""
    for result in served.checks if served else ():
        if result.name == SETTINGS:
            return dict(result.metadata["kept"])
    return None


def _was_planned(log: EventLog, since: int) -> bool:
    """Return whether a plan of settings was applied or undone since an event."""
    return any(
        event.seq > since and plans.find(log, event.subject).body.job == "settings"
        for event in log.job_events(("applied", "undone"))
    )


def _waiting_plan(log: EventLog, served: Manifest | None) -> Plan | None:
    """Return the plan that an earlier build proposed, while nobody answered it."""
    for result in served.checks if served else ():
        if result.name == SETTINGS and (id_ := result.metadata.get("plan")):
            plan = plans.find(log, str(id_))
            return plan if plan.state == "waiting" else None
    return None


def _judge(
    made: Build, choices: Choices, steps: Sequence[Step], now: int
) -> tuple[Plan | None, str]:
    """Return the plan that takes an edit back, if the edit does harm, and what was edited."""
    log = made.log
    edited = change_choices(
        choices, {step.body["name"]: str(step.before["value"]) for step in steps}
    )
    restored = setting_changes.changed_choices(edited, steps)
    events = choose_recalls(log, list(_askable(made)), ASKED)
    ways = [
        Way(made.embedder, drift.setting_change(restored, edited)),
        Way(made.embedder, drift.setting_change(edited, restored)),
    ]
    pairs: list[tuple[Replayed, ...]] = list(replay_ways(log, events, choices, ways))
    harm = drift.count_changes(log, events, ((old, new) for new, old in pairs))
    failed: list[PlanCheck] = [
        plan_check for plan_check in drift.check_drift(harm) if not plan_check.passed
    ]
    what = ", ".join(
        f"{step.body['name']} from {step.body['value']} to {step.before['value']}" for step in steps
    )
    if not failed:
        return None, f"{what}: past answers keep to the bounds of a plan"
    planned = Planned(
        job="settings",
        watermark=log.head(),
        steps=tuple(steps),
        looked_at=harm.asked,
        notes=(what, *(f"{plan_check.name}: {plan_check.detail}" for plan_check in failed)),
        replay=drift.count_changes(log, events, ((new, old) for new, old in pairs)),
    )
    return plans.propose(log, planned, now), what


def _askable(made: Build) -> Iterator[Event]:
    for event in receipts.page(made.log, receipts.Wanted(), _CHOSEN_FROM).receipts:
        if isinstance(event.body, Recalled) and not skip_reason(event.body, made.embedder):
            yield event

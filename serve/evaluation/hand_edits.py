"""
Hand edits: settings changed in `config.toml` itself, judged at the next build as a plan would have
been.

A build keeps the file's settings of recall. If the next one finds others that no plan set, past
recalls are asked under both. The build is never refused: the file is the user's. But if a plan of
that change would have failed its checks, the build warns and proposes a plan that reverts it:
`plans apply` does so, `plans reject` keeps the edit.
"""

from collections.abc import Sequence

from serve.evaluation import canaries, drift
from serve.evaluation.replay import Way, replay_ways
from serve.evaluation.sample import choose_newest
from store.home.config import Choices, change_choices
from store.log.event_kinds import Planned, Step
from store.maintenance import build as builds
from store.maintenance.build import Build
from store.plans import plans, setting_changes
from store.plans.plans import Plan
from store.snapshots.manifest import CANARIES, SETTINGS, CheckResult

ASKED = 40  # past recalls


def check(build: Build, choices: Choices, now: int) -> CheckResult:
    """Return the check that no settings changed by hand harm past answers; it only warns."""
    log, kept = build.log, setting_changes.kept_settings(build.log)
    served = builds.current_manifest(build.tenant)
    before = canaries.check_of(served, SETTINGS) if served else None
    steps: Sequence[Step] = ()
    if served and before:  # else no earlier version of the file is known
        steps = setting_changes.steps_back(kept, dict(before.metadata["kept"]))
        if steps:  # else no plan is looked for
            is_planned = any(
                event.seq > served.watermark
                and plans.find(log, event.subject).body.job == "settings"
                for event in log.job_events(("applied", "undone"))
            )
            steps = () if is_planned else plans.new_steps(log, steps)
    plan, text = None, ""
    if steps:
        plan, text = _judge(build, choices, steps, now)
    elif before and (id_ := before.metadata.get("plan")):
        # an earlier build proposed it, and it is still pending
        earlier = plans.find(log, str(id_))
        plan = earlier if earlier.state == "waiting" else None
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


def _judge(
    build: Build, choices: Choices, steps: Sequence[Step], now: int
) -> tuple[Plan | None, str]:
    """Return the plan that takes an edit back, if the edit does harm, and the edited settings."""
    log = build.log
    edited = change_choices(
        choices, {step.body["name"]: str(step.before["value"]) for step in steps}
    )
    restored = setting_changes.changed_choices(edited, steps)
    events = choose_newest(log, build.embedder, ASKED)
    ways = [
        Way(build.embedder, drift.setting_change(restored, edited)),
        Way(build.embedder, drift.setting_change(edited, restored)),
    ]
    pairs = [(new, old) for new, old in replay_ways(log, events, choices, ways)]
    harm = drift.count_changes(log, events, ((old, new) for new, old in pairs))
    failed = drift.failed_checks(harm)
    edits = ", ".join(
        f"{step.body['name']} from {step.body['value']} to {step.before['value']}" for step in steps
    )
    if not failed:
        return None, f"{edits}: past answers keep to the bounds of a plan"
    planned = Planned(
        job="settings",
        watermark=log.head(),
        steps=tuple(steps),
        looked_at=harm.asked,
        notes=(edits, *failed),
        replay=drift.count_changes(log, events, pairs),
    )
    return plans.propose(log, planned, now), edits

"""
The job `route`: a better policy for the router, proposed only if the log shows that it does not
lose.

In each state and level the candidate takes an action that Q values more than the served one. Each
change is tested against the log by itself, so one bad change does not stop a good one; the accepted
changes are tested once more together. What is left is asked of past recalls: the plan says which
answers the policy changes, and waits for a person where too many. `tier_for` reads a model tier
from the served policy.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pipelines.jobs import Context, Proposal
from serve.evaluation import drift
from serve.evaluation.off_policy import Gain, Worth, gain, total_gain, worth
from serve.evaluation.replay import Way
from store.derived import routing
from store.derived.routing import LEVELS, STATES, Policy, Recall, Routes, Table, informative_rewards
from store.log.event_kinds import Actions, Adopted, ModelTier
from store.plans import plans, steps

LEAST = 10.0  # effective recalls of an action before anything is said of it
TOLERANCE = 0.01  # of reward that the lower end of a gain's interval may lie below nothing
ASKED = 500  # past recalls at most, which takes some ten seconds


@dataclass(frozen=True, slots=True)
class Change:
    """Another action at a level in a state, and what it is worth there."""

    state: str
    level: str
    served: str
    action: str
    worth: Worth
    worth_served: Worth
    gain: Gain  # in mean reward of that state's recalls

    @property
    def objection(self) -> str | None:
        """Why the log does not bear it out; None where it does."""
        few = min(self.worth.samples, self.worth_served.samples)
        if few < LEAST:
            return f"{few:.0f} effective recalls are too few, {LEAST:.0f} are needed"
        if self.gain.low < -TOLERANCE:
            return f"it may lose: the interval is {self.gain.low:+.3f} to {self.gain.high:+.3f}"
        return None

    def __str__(self) -> str:
        return (
            f"{self.state}: {self.level} {self.action} instead of {self.served}, "
            f"{self.gain.value:+.3f}"
        )


def propose(context: Context) -> Proposal:
    """Return the step that serves a better policy, and what that does to past recalls; where there
    is none, notes say why.
    """
    proposal = propose_policy(Routes(context.tables("routes")))
    if not plans.new_steps(context.log, proposal.steps):
        return proposal
    (step,) = proposal.steps
    before, after = (
        Way(context.embedder, policy=routing.complete_policy(one["policy"]))
        for one in (step.before, step.body)
    )
    diff, checks = drift.judge_policy(
        context.tenant, context.log, context.choices, before, after, ASKED, context.now
    )
    notes = (*proposal.notes, *drift.notes_on(diff))
    return msgspec.structs.replace(proposal, notes=notes, replay=diff, checks=checks)


def propose_policy(routes: Routes) -> Proposal:
    """Return the proposal for a router as a build knew it."""
    served, recalls = routes.policy(), routes.recalls
    candidates = changes(served, routes.action_values, recalls)
    notes = [f"{change}: refused, {change.objection}" for change in candidates if change.objection]
    good = [change for change in candidates if change.objection is None]
    rated = sum(recall.reward is not None for recall in recalls)
    if not good:
        notes.append(_no_change_note(recalls, rated))
        return Proposal((), rated, tuple(notes))
    adopted = _adoption(served, good, recalls)
    if adopted.low < -TOLERANCE:
        notes.append(f"all together may lose {-adopted.low:.3f}: refused")
        return Proposal((), rated, tuple(notes))
    step = steps.adopt(
        adopted,
        "; ".join(map(str, good)),
        {"policy": served},
        changes=[_evidence(change) for change in good],
    )
    return Proposal((step,), rated, tuple(notes))


def changes(served: Policy, held: Table, recalls: Sequence[Recall]) -> list[Change]:
    """Return where Q holds another action better than the served one, and what the log says.

    Of several the best is taken that the log bears out, else the best. Where Q holds two alike the
    served one stays.
    """
    found = []
    for state in STATES:
        for level, actions in LEVELS.items():
            here = served[state][level]
            known = {
                action: entry.q
                for action in actions
                if (entry := held.get((state, level, action))) is not None and entry.rated
            }
            better = [one for one in known if one != here and known[one] > known.get(here, 0.0)]
            better.sort(key=lambda action: -known[action])
            of_served = worth(*informative_rewards(recalls, state, level, here)) if better else None
            if of_served is not None:
                tried = [_change(recalls, state, level, here, one, of_served) for one in better]
                found.append(
                    next((change for change in tried if change.objection is None), tried[0])
                )
    return found


def _change(
    recalls: Sequence[Recall], state: str, level: str, served: str, action: str, of_served: Worth
) -> Change:
    of_action = worth(*informative_rewards(recalls, state, level, action))
    return Change(state, level, served, action, of_action, of_served, gain(of_served, of_action))


def _adoption(served: Policy, good: Sequence[Change], recalls: Sequence[Recall]) -> Adopted:
    """Return the policy with the changes, and what it is worth over all recalls."""
    by_state = Counter(recall.state for recall in recalls if recall.reward is not None)
    total = by_state.total()
    gains = [gain(other.worth_served, other.worth, by_state[other.state] / total) for other in good]
    whole = total_gain(gains)
    now = _worth_now(recalls)
    policy: dict[str, Actions] = {state: dict(actions) for state, actions in served.items()}
    for change in good:
        policy[change.state][change.level] = change.action
    return Adopted(policy=policy, recalls=total, value=now + whole.value, served=now, low=whole.low)


def _worth_now(recalls: Sequence[Recall]) -> float:
    """Return the mean reward of the recalls in which nothing was tried."""
    rewards = [
        recall.reward for recall in recalls if recall.tried is None and recall.reward is not None
    ]
    return sum(rewards) / len(rewards) if rewards else 0.0


def _evidence(change: Change) -> dict[str, object]:
    return {
        "state": change.state,
        "level": change.level,
        "from": change.served,
        "to": change.action,
        "gain": round(change.gain.value, 4),
        "low": round(change.gain.low, 4),
        "high": round(change.gain.high, 4),
        "samples": round(change.worth.samples, 1),
        "samples_served": round(change.worth_served.samples, 1),
    }


def _no_change_note(recalls: Sequence[Recall], rated: int) -> str:
    tried = sum(recall.tried is not None for recall in recalls)
    if not tried:
        return "nothing was tried yet: set `explore` (0.15 is a good share) and rate recalls"
    return f"the served policy stays: {rated} recalls have a reward, {tried} tried something"


def tier_for(context: Context, mode: str | None = None) -> ModelTier:
    """Return the tier for work on something of a task mode, or of none in particular."""
    return tier_of(Routes(context.tables("routes")).policy(), mode)


def tier_of(policy: Policy, mode: str | None = None) -> ModelTier:
    """Return the tier that a policy, whole, has for a task mode."""
    found: ModelTier = msgspec.convert(policy[routing.route_state(mode)]["llm"], ModelTier)
    return found

"""
The job `route`: a better policy for the router, proposed only if the log shows that it does not
lose.

In each state and level the candidate takes an action that Q values more than the served one. Each
change is tested against the log by itself, so one bad change does not stop a good one; the accepted
changes are tested once more together. The resulting policy is replayed on past recalls: the plan
lists the changed answers, and waits for a person where there are too many. `tier_for` reads a model
tier from the served policy.
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

LEAST = 10.0  # effective recalls of an action before it is judged
TOLERANCE = 0.01  # of reward that the lower end of a gain's interval may be below zero
ASKED = 500  # past recalls at most, which takes some ten seconds


@dataclass(frozen=True, slots=True)
class Change:
    """Another action at a level in a state, and its worth there."""

    state: str
    level: str
    served: str
    action: str
    worth: Worth
    worth_served: Worth
    gain: Gain  # in mean reward of that state's recalls

    @property
    def objection(self) -> str | None:
        """The reason the log does not support the change; None where it does."""
        few = min(self.worth.samples, self.worth_served.samples)
        if few < LEAST:
            return f"{few:.0f} effective recalls are too few, {LEAST:.0f} are needed"
        if self.gain.low < -TOLERANCE:
            return f"it may lose: the interval is {self.gain.low:+.3f} to {self.gain.high:+.3f}"
        return None

    @property
    def evidence(self) -> dict[str, object]:
        return {
            "state": self.state,
            "level": self.level,
            "from": self.served,
            "to": self.action,
            "gain": round(self.gain.value, 4),
            "low": round(self.gain.low, 4),
            "high": round(self.gain.high, 4),
            "samples": round(self.worth.samples, 1),
            "samples_served": round(self.worth_served.samples, 1),
        }

    def __str__(self) -> str:
        return (
            f"{self.state}: {self.level} {self.action} instead of {self.served}, "
            f"{self.gain.value:+.3f}"
        )


def propose(context: Context) -> Proposal:
    """Return the step that serves a better policy, and the answers it changes in past recalls;
    without a step, the notes give the reason.
    """
    proposal = propose_policy(Routes(context.tables("routes")))
    if not plans.new_steps(context.log, proposal.steps):
        return proposal
    (step,) = proposal.steps
    before, after = (
        Way(context.embedder, policy=routing.complete_policy(body["policy"]))
        for body in (step.before, step.body)
    )
    diff, checks = drift.judge_policy(
        context.tenant, context.log, context.choices, before, after, ASKED, context.now
    )
    notes = (*proposal.notes, *drift.notes_on(diff))
    return msgspec.structs.replace(proposal, notes=notes, replay=diff, checks=checks)


def propose_policy(routes: Routes) -> Proposal:
    """Return the proposal for a router, from the tables of a build."""
    served, recalls = routes.policy(), routes.recalls
    candidates = changes(served, routes.action_values, recalls)
    notes = [f"{change}: refused, {change.objection}" for change in candidates if change.objection]
    good = [change for change in candidates if change.objection is None]
    rated = sum(recall.reward is not None for recall in recalls)
    if not good:
        tried = sum(recall.tried is not None for recall in recalls)
        notes.append(
            f"the served policy stays: {rated} recalls have a reward, {tried} tried something"
            if tried
            else "nothing was tried yet: set `explore` (0.15 is a good share) and rate recalls"
        )
        return Proposal((), rated, tuple(notes))
    adopted = _adoption(served, good, recalls)
    if adopted.low < -TOLERANCE:
        notes.append(f"all together may lose {-adopted.low:.3f}: refused")
        return Proposal((), rated, tuple(notes))
    step = steps.adopt(
        adopted,
        "; ".join(map(str, good)),
        {"policy": served},
        changes=[change.evidence for change in good],
    )
    return Proposal((step,), rated, tuple(notes))


def changes(served: Policy, table: Table, recalls: Sequence[Recall]) -> list[Change]:
    """Return a change for each state and level where Q values another action more.

    It is the best action without an objection, else the best. For equal values the served one
    stays.
    """
    best = []
    for state in STATES:
        for level, actions in LEVELS.items():
            current = served[state][level]
            values = {
                action: entry.q
                for action in actions
                if (entry := table.get((state, level, action))) is not None and entry.rated
            }
            least = values.get(current, 0.0)
            better = [action for action, q in values.items() if action != current and q > least]
            if not better:
                continue
            better.sort(key=lambda action: -values[action])
            worth_served = worth(*informative_rewards(recalls, state, level, current))
            candidates = []
            for action in better:
                of_action = worth(*informative_rewards(recalls, state, level, action))
                difference = gain(worth_served, of_action)
                candidates.append(
                    Change(state, level, current, action, of_action, worth_served, difference)
                )
            accepted = (change for change in candidates if change.objection is None)
            best.append(next(accepted, candidates[0]))
    return best


def _adoption(served: Policy, good: Sequence[Change], recalls: Sequence[Recall]) -> Adopted:
    """Return the policy with the changes, and its value over all recalls."""
    by_state = Counter(recall.state for recall in recalls if recall.reward is not None)
    total = by_state.total()
    whole = total_gain(
        [gain(change.worth_served, change.worth, by_state[change.state] / total) for change in good]
    )
    untried = [
        recall.reward for recall in recalls if recall.tried is None and recall.reward is not None
    ]
    now = sum(untried) / len(untried) if untried else 0.0
    policy: dict[str, Actions] = {state: dict(actions) for state, actions in served.items()}
    for change in good:
        policy[change.state][change.level] = change.action
    return Adopted(policy=policy, recalls=total, value=now + whole.value, served=now, low=whole.low)


def tier_for(context: Context, mode: str | None = None) -> ModelTier:
    """Return the tier for work in a task mode, or in no particular mode."""
    policy = Routes(context.tables("routes")).policy()
    tier: ModelTier = msgspec.convert(policy[routing.route_state(mode)]["llm"], ModelTier)
    return tier

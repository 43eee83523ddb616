"""
Trial: the outcome of an interleaved comparison of two ways to answer, from receipts and verdicts.

Each recall of a trial is a vote: for the team whose hits were rated or followed better, the mean of
its verdicts. A sign test over the votes shows whether they could be chance; recalls without a
verdict, and ties, are no votes.
"""

from math import comb

import msgspec

from serve.evaluation.drift import find_verdicts
from serve.recall.team_draft import A, B
from store.log import log_queries
from store.log.event_kinds import Recalled
from store.log.event_log import EventLog
from store.plans.plans import Plan

SURE = 0.05  # the probability of chance below which a trial has decided


class Credits(msgspec.Struct, frozen=True):
    """The number of recalls a trial answered, and the votes among them for the present settings and
    for the plan; `chance` is the probability of votes so uneven if both were as good.
    """

    recalls: int
    present: int
    planned: int
    chance: float

    @property
    def verdict(self) -> str:
        if self.chance >= SURE:
            return "too few to tell"
        return "the plan helps more" if self.planned > self.present else "what is set helps more"


def count_credits(log: EventLog, plan: Plan) -> Credits | None:
    """Return the credits of a tried plan; None for an untried one."""
    if not (tried := log_queries.tried_recalls(log, plan.id, plan.at)):
        return None
    verdicts = find_verdicts(log, tried)
    votes = {A: 0, B: 0}
    for event in tried:
        assert isinstance(event.body, Recalled) and event.body.trial
        by_team: dict[str, list[float]] = {A: [], B: []}
        for hit, team in zip(event.body.hits, event.body.trial.teams, strict=True):
            if team in by_team:
                by_team[team].append(verdicts.get((event.id, hit.id), 0.0))
        means = {team: sum(own) / len(own) if own else 0.0 for team, own in by_team.items()}
        if means[A] != means[B]:
            votes[max(means, key=lambda team: means[team])] += 1
    return Credits(len(tried), votes[A], votes[B], sign_test(votes[A], votes[B]))


def sign_test(a: int, b: int) -> float:
    """Return the probability of votes as uneven as these, or more, by chance; 1 without any."""
    count, fewer = a + b, min(a, b)
    return min(1.0, 2.0 * sum(comb(count, k) for k in range(fewer + 1)) / 2.0**count)

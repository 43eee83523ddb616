"""A memory with an example of everything that the API returns."""

from typing import Any

from drafts import draft

from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    Hit,
    Judged,
    Made,
    Outcome,
    Planned,
    Prompted,
    Recalled,
    Revised,
    Route,
)
from store.log.events import Event
from store.memories.fold import Fold
from store.plans import plans, recommendations, steps
from store.plans.recommendations import Change

NOW = 1_790_000_100_000_000  # microseconds UTC


def populated(built: Any) -> None:
    """Add receipts, ratings, proposals and facts to the built test memory, and rebuild it."""
    log = built.log
    drafts = [
        Draft(id="e1", content="store/log.py opens the log with apsw"),
        Draft(id="k3", key="deploy.region", value="ap", content="Now in ap", created_by="bo"),
    ]
    commands.record_batch(log, drafts, NOW)
    commands.link(log, "m00", "m01", "conflict", NOW)
    hits = (Hit("m00", 1.0, 0.9), Hit("m06", 0.5, 0.6))
    for number in range(5):
        body = Recalled(
            query="what listens", mode="auto", manifest=1, watermark=9,
            hits=hits if number else (), dropped={"bar": 1}, took_us=1_000,
            route=Route("known", {"bar": "usual"}, 0.9),
        )  # fmt: skip
        log.append([Event(f"r{number}", NOW + number, body, f"r{number}", session="s1")])
    commands.rate(log, "r1", 1.0, NOW + 9, "it was that")
    log.append(
        [
            Event("j1", NOW + 9, Judged(verdicts={"m00": 0.5}), "r1"),
            Event("o1", NOW + 9, Outcome(effort="test", passed=True), "o1", session="s1"),
            Event("t1", NOW + 9, Prompted(prompt="next"), "t1", session="s1"),
        ]
    )
    fold = Fold()
    for event in log.effective_events(0, log.head()):
        fold.apply(event)
    made = steps.record(
        Draft(id="merged", content="Two notes in one", source_ids=("m07", "m08")),
        Made(job="consolidate"), NOW, "they say the same",
    )  # fmt: skip
    gone = steps.supersede(fold.rows["m07"], "merged", "it says so too")
    better = steps.revise(fold.rows["m09"], Revised(importance=0.9), "it is asked for")
    body = Planned(job="consolidate", watermark=log.head(), steps=(made, gone, better))
    plans.propose(log, body, NOW)
    change = Change(log.head(), (steps.archive(fold.rows["m10"], "nobody asked for it"),))
    log.append(
        [
            recommendations.proposal("archive", [fold.rows["m10"]], change, "unused", NOW),
            draft("Use pnpm", "lesson", NOW, because="no, use pnpm"),
        ]
    )
    built.rebuild()

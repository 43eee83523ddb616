"""
What must hold of a job's outcome. None blocks a build: a plan over its bound waits for a person,
money that was spent is spent, and a memory without known sources is seen and can be undone.
"""

from collections.abc import Sequence

import dagster as dg

from pipelines.learning.outcome import Outcome
from store.config import Llm
from store.plans.spent import Spent

MOST_GONE = 0.25  # of the active memories that one plan may put away unasked
FEW = 20  # memories that it may put away of a small memory all the same
_SHOWN = 3  # ids named

CHECKS = {
    "plan_within_bounds": "A plan puts away no large part of the memory; else it waits.",
    "budget_kept": "Models cost no more than is allowed, in a run and in a day.",
    "lineage_complete": "Every memory that is made names its sources, and the log has them.",
}


def specs(asset: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Return what Dagster is told of the checks of an asset before it runs."""
    return [dg.AssetCheckSpec(name, asset=asset, description=what) for name, what in CHECKS.items()]


def results(found: Outcome, limits: Llm) -> list[dg.AssetCheckResult]:
    """Return what every check says; a failing one warns."""
    return [
        _result("plan_within_bounds", *plan_within_bounds(found)),
        _result("budget_kept", *budget_kept(found, limits)),
        _result("lineage_complete", *lineage_complete(found)),
    ]


def plan_within_bounds(found: Outcome) -> tuple[bool, str]:
    active = sum(found.before.values())
    bound = max(FEW, int(MOST_GONE * active))
    said = f"{found.gone:,} of {active:,} active memories would go; {bound:,} may unasked"
    return found.gone <= bound, said


def budget_kept(found: Outcome, limits: Llm) -> tuple[bool, str]:
    over = [
        *_over("this run", found.run, limits.usd_a_run, limits.tokens_a_run, limits.calls_a_run),
        *_over("today", found.day, limits.usd_a_day, limits.tokens_a_day, limits.calls_a_day),
    ]
    run, day = found.run, found.day
    said = f"{run.calls} calls, {run.tokens:,} tokens and ${run.cost_usd:.4f} in this run"
    said += f", {day.tokens:,} tokens and ${day.cost_usd:.4f} today"
    return not over, "; ".join(over) or said


def lineage_complete(found: Outcome) -> tuple[bool, str]:
    if not found.unknown:
        return True, "all that is made names sources that are in the log"
    named = [
        f"{id_} ({', '.join(missing[:_SHOWN]) or 'none'})"
        for id_, missing in list(found.unknown.items())[:_SHOWN]
    ]
    return False, f"{len(found.unknown)} memories have no known source: {', '.join(named)}"


def _over(when: str, spent: Spent, usd: float, tokens: int, calls: int) -> list[str]:
    said: Sequence[tuple[bool, str]] = (
        (0 < usd < spent.cost_usd, f"{when} cost ${spent.cost_usd:.4f}, over ${usd:.2f}"),
        (0 < tokens < spent.tokens, f"{when} took {spent.tokens:,} tokens, over {tokens:,}"),
        (0 < calls < spent.calls, f"{when} took {spent.calls:,} calls, over {calls:,}"),
    )
    return [words for is_over, words in said if is_over]


def _result(name: str, passed: bool, said: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=said,
    )

"""
What a person sees beside a learning asset: what would change and why, before and after, the price.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import dagster as dg

from pipelines import plots
from pipelines.learning.outcome import Outcome
from pipelines.metadata import Metadata, cell
from store.job_events import Step
from store.plans.plans import Plan

STEPS, COST = "steps", "cost in dollars"
NONE = "none"  # in place of a plan's id
_DIFF = 20  # steps shown; `mnemolog plans show` has them all
Past = Sequence[tuple[int, float]]


def metadata(
    found: Outcome, plan: Plan | None, now: int, steps: Past, costs: Past, *, quotes: bool
) -> Metadata:
    """Return what to show of an outcome, and of what became of its plan.

    `steps` and `costs` are what earlier runs said, by time. `quotes`: with the beginnings of the
    texts, and the reasons, which may quote them.
    """
    run = found.run
    body = plan.body if plan else None
    made = body.steps if body else ()
    shown: Metadata = {
        "state": dg.MetadataValue.text(plan.state if plan else "nothing to do"),
        "plan": dg.MetadataValue.text(plan.id if plan else NONE),
        STEPS: dg.MetadataValue.int(len(made)),
        "steps by kind": dg.MetadataValue.json(dict(Counter(step.event for step in made))),
        "memories looked at": dg.MetadataValue.int(body.looked_at if body else 0),
        "active memories": dg.MetadataValue.md("\n".join(_kinds(found))),
        "diff": dg.MetadataValue.md("\n".join(_diff(made, quotes=quotes))),
        "model": dg.MetadataValue.text(", ".join(run.models) or "none"),
        "calls": dg.MetadataValue.int(run.calls),
        "calls failed": dg.MetadataValue.int(run.failed),
        "tokens": dg.MetadataValue.int(run.tokens),
        COST: dg.MetadataValue.float(run.cost_usd),
        "plot of steps": _line("steps of each run", [*steps, (now, len(made))]),
        "plot of cost": _line("dollars of each run", [*costs, (now, run.cost_usd)]),
    }
    if body and body.notes:
        notes = "\n".join(f"- {cell(note)}" for note in body.notes)
        shown["notes"] = dg.MetadataValue.md(notes)
    if body and body.left:
        shown["steps left for the next plan"] = dg.MetadataValue.int(body.left)
    return shown


def _line(title: str, history: Past) -> dg.MarkdownMetadataValue:
    return plots.line(title, [at for at, _ in history], [value for _, value in history])


def _kinds(found: Outcome) -> Iterator[str]:
    """Yield a table of the active memories by kind, before and after."""
    yield "| kind | before | after |"
    yield "|---|---|---|"
    for kind in sorted({*found.before, *found.after}):
        yield f"| {kind} | {found.before.get(kind, 0):,} | {found.after.get(kind, 0):,} |"
    yield f"| all | {sum(found.before.values()):,} | {sum(found.after.values()):,} |"


def _diff(steps: Sequence[Step], *, quotes: bool) -> Iterator[str]:
    """Yield a table of the first steps."""
    if not steps:
        yield "nothing would change"
        return
    yield "| step | memory | what | why |" if quotes else "| step | memory |"
    yield "|---|---|---|---|" if quotes else "|---|---|"
    for step in steps[:_DIFF]:
        if not quotes:
            yield f"| {step.event} | {cell(step.subject)} |"
            continue
        what = step.body.get("content") or step.before.get("content") or ""
        yield f"| {step.event} | {cell(step.subject)} | {cell(str(what))} | {cell(step.why)} |"
    if len(steps) > _DIFF:
        yield f"\n{len(steps) - _DIFF:,} more: `mnemolog plans show` has them all"

"""
The job `reflect`: insights that several memories give together, by similarity, time and cause.

An insight is a memory that names its sources, has the least trust among them and their project. Its
text is put together from theirs; with a model, the model writes it and the sources must support it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.jobs import Context, Proposal
from pipelines.jobs.reflect import findings, generated_text
from pipelines.jobs.reflect.generated_text import extractive_text
from pipelines.jobs.reflect.inputs import MOST, Finding, inputs_by_project
from pipelines.llm.model_client import LanguageModel
from store.home.errors import BudgetSpent, ModelError
from store.home.instants import moment
from store.index.vector_scan import VectorRows
from store.log.commands import Draft, limit_tags
from store.log.event_kinds import Made, Step
from store.memories.memory import ACTIVE, ARCHIVED, FORGOTTEN, Edge, Memory
from store.plans import steps
from store.text.excerpt import plural

# Existing insights, so that another run proposes only new ones.
#
# A finding is identified by its sources, never by its text. One whose sources an insight mostly
# covers is skipped, also if a person archived or forgot that insight. If its sources grew by half,
# and by two at least, the new insight supersedes the old one. A stale insight of the very same
# sources is restored.

GROWN = 1.5  # times its sources
_MORE = 2  # sources, at least
_MOST_OF = 0.5

_KEPT = (ACTIVE, ARCHIVED, FORGOTTEN)  # in use, or turned down


@dataclass(frozen=True)
class New:
    """A finding to record, and the insights it replaces; or an insight to restore."""

    finding: Finding
    replaced: tuple[Memory, ...] = ()
    restored: Memory | None = None


def new_insights(context: Context, findings: Iterable[Finding]) -> list[New]:
    """Return those findings, given the strongest first, that are not known yet."""
    table = context.tables("insights")["insights"]
    jobs, rows = table.column("job").to_pylist(), table.column("document").to_pylist()
    own = [row for row, job in zip(rows, jobs, strict=True) if job == "reflect"]
    insights = context.memories(np.array(own, np.int64))  # in any state
    new: list[New] = []
    for finding in findings:
        stronger = [other.finding for other in new if _is_like(other.finding, finding)]
        if any(_covers(other.ids, finding.ids) for other in stronger):
            continue
        insight = _compare(finding, [memory for memory in insights if _is_like(memory, finding)])
        if insight is not None:
            new.append(insight)
    return new


def _compare(finding: Finding, insights: Sequence[Memory]) -> New | None:
    """Return a finding as a new or restored insight; None where one of `insights` covers it."""
    ids = finding.ids
    alike = [(insight, frozenset(insight.source_ids)) for insight in insights]
    old = [(insight, sources) for insight, sources in alike if insight.state in _KEPT]
    if any(_covers(sources, ids) and not _is_grown(sources, ids) for _, sources in old):
        return None
    for insight, sources in alike:
        if sources == ids:
            return New(finding, restored=insight)
    replaced = (
        insight for insight, sources in old if insight.state == ACTIVE and _is_grown(sources, ids)
    )
    return New(finding, tuple(replaced))


def _is_like(insight: Memory | Finding, finding: Finding) -> bool:
    return (insight.insight_type, insight.project) == (finding.insight_type, finding.project)


def _covers(old: frozenset[str], new: frozenset[str]) -> bool:
    """Return True if `old` has most of the sources of `new`."""
    return len(old & new) >= _MOST_OF * len(new)


def _is_grown(old: frozenset[str], new: frozenset[str]) -> bool:
    is_same = len(old & new) >= _MOST_OF * len(old)
    return is_same and len(new) >= max(GROWN * len(old), len(old) + _MORE)


# The job.

MOST_INSIGHTS = 200  # of one run, the strongest: a person reviews them


def propose(context: Context) -> Proposal:
    """Return steps for new insights, and for the old ones that they supersede."""
    calibration = VectorRows.open(context.tables("vectors")).calibration
    edges = [Edge(**row) for row in context.rows.edges.to_pylist()]
    looked_at = 0
    candidates: list[Finding] = []
    notes: list[str] = []
    for inputs in inputs_by_project(context):
        project = inputs.project or "no project"
        context.report(f"{project}: {plural(len(inputs.memories), 'memory')}")
        looked_at += len(inputs.memories)
        candidates += findings.find_clusters(inputs, context.vectors(inputs.rows), calibration)
        candidates += findings.recurring_errors(inputs)
        candidates += findings.causal_chains(inputs, edges)
        candidates += findings.failures_with_fixes(inputs)
        if len(inputs.memories) >= MOST:
            notes.append(f"of {project} the newest {MOST:,} were looked at")
    candidates.sort(key=lambda finding: (-finding.strength, finding.insight_type, finding.topic))
    new = new_insights(context, candidates)
    if len(new) > MOST_INSIGHTS:
        notes.append(f"{len(new) - MOST_INSIGHTS} weaker insights wait for the next run")
    texts = _Texts(context.model)
    planned = [step for insight in new[:MOST_INSIGHTS] for step in _steps(context, insight, texts)]
    silence = f"{plural(looked_at, 'note')} read, a turn is none: "
    silence += (
        f"what {plural(len(candidates), 'group')} of them say is known already"
        if candidates
        else "no two of them are about one thing, share an error, or tell its cure"
    )
    return Proposal(tuple(planned), looked_at, (*notes, *texts.notes()), silence)


class _Texts:
    """A writer of findings, with a model while the budget lasts."""

    def __init__(self, model: LanguageModel | None) -> None:
        self._model = model
        self._by_model = self._unsupported = self._unanswered = 0
        self._is_spent = False

    def of(self, finding: Finding) -> tuple[str, Made]:
        """Return the text of a finding and its origin."""
        plain = extractive_text(finding), Made(job="reflect")
        if self._model is None:
            return plain
        try:
            answer = generated_text.ask_for_text(self._model, finding)
        except BudgetSpent:
            self._model, self._is_spent = None, True
            return plain
        except ModelError:
            self._unanswered += 1
            return plain
        text = generated_text.supported_text(finding, answer.value)
        if text is None:
            self._unsupported += 1
            return plain
        self._by_model += 1
        return text, answer.lineage("reflect")

    def notes(self) -> Iterator[str]:
        """Yield notes for a person on the origin of the texts."""
        if self._by_model:
            yield f"a model wrote {plural(self._by_model, 'text')}"
        if self._unsupported:
            texts = plural(self._unsupported, "text")
            yield f"of {texts} the sources bear out nothing: their own words stand"
        if self._unanswered:
            yield f"a model gave no answer to {self._unanswered} questions"
        if self._is_spent:
            yield "the budget was spent before all texts were written"


def _steps(context: Context, new: New, texts: _Texts) -> Iterator[Step]:
    if new.restored is not None:
        yield steps.restore(new.restored, "all it was made of holds again", **new.finding.evidence)
        return
    finding = new.finding
    content, made = texts.of(finding)
    ids = [memory.id for memory in finding.sources]
    at = max(memory.created_at for memory in finding.sources)
    tags = Counter(tag for memory in finding.sources for tag in dict.fromkeys(memory.tags))
    common_tags = [tag for tag, count in tags.items() if count > len(finding.sources) / 2]
    draft = Draft(
        id=steps.result_id("reflect", finding.insight_type, ids, at),
        kind="insight",
        insight_type=finding.insight_type,
        content=content,
        project=finding.project,
        source_ids=tuple(ids),
        tags=limit_tags(common_tags),
        tier="semantic",
        trust=steps.least_trust(finding.sources),
        created_at=moment(at),
        metadata=finding.evidence,
    )
    yield steps.record(draft, made, context.now, finding.why, **finding.evidence)
    for old in new.replaced:
        yield steps.supersede(old, str(draft.id), f"it grew to {len(ids)} sources")

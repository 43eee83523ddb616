"""
Report: measures of a run overall, by dataset and category; its silence; how two runs differ.

Relevance is yes or no. nDCG: Järvelin and Kekäläinen 2002, https://doi.org/10.1145/582415.582418.
The paired bootstrap: Sakai 2006, https://doi.org/10.1145/1148170.1148261.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from serve.evaluation.dataset import Prompt, Query, Result, Workspace
from store.home.errors import InvalidInput
from store.home.instants import micros

# Measures of rankings, and the paired bootstrap

CUTS = (1, 3, 5, 10, 20)
DEPTH = 10  # ranks that MRR and nDCG look at
RESAMPLES = 10_000

Values = npt.NDArray[np.float64]


class Judged(msgspec.Struct, frozen=True):
    """Rankings beside their relevant ids.

    `found` [queries, ranks] is True at the relevant ones, `relevant` [queries] counts the relevant
    ids, at least one of each query.
    """

    found: npt.NDArray[np.bool_]
    relevant: npt.NDArray[np.int64]


class Interval(msgspec.Struct, frozen=True):
    """The mean of paired differences and the range of 95 % of its resampled means."""

    mean: float
    low: float
    high: float


def judge(rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]]) -> Judged:
    """Return each ranking (best first) judged by the ids relevant to its query.

    An id counts at its first place only; the ids after a repeat move up.
    """
    distinct = [list(dict.fromkeys(ranking)) for ranking in rankings]
    found = np.zeros((len(distinct), max(map(len, distinct), default=0)), np.bool_)
    for row, ranking, wanted in zip(found, distinct, map(set, relevant), strict=True):
        row[: len(ranking)] = [id_ in wanted for id_ in ranking]
    return Judged(found, np.array([len(set(wanted)) for wanted in relevant], np.int64))


def measures(judged: Judged) -> dict[str, Values]:
    """Return every reported measure by its name, each [queries]."""
    return {
        **{f"recall@{k}": recall_at(judged, k) for k in CUTS},
        **{f"hit@{k}": hit_at(judged, k) for k in CUTS},
        f"mrr@{DEPTH}": mrr(judged, DEPTH),
        f"ndcg@{DEPTH}": ndcg(judged, DEPTH),
    }


def recall_at(judged: Judged, k: int) -> Values:
    """Return the share of the relevant ones among the first `k`, [queries]."""
    share: Values = judged.found[:, :k].sum(axis=1) / judged.relevant
    return share


def hit_at(judged: Judged, k: int) -> Values:
    """Return 1 if a relevant one is among the first `k`, else 0, [queries]."""
    return (recall_at(judged, k) > 0).astype(np.float64)


def mrr(judged: Judged, k: int) -> Values:
    """Return 1 / the rank of the first relevant one of the first `k`, 0 without one, [queries]."""
    found = judged.found[:, :k]
    first: Values = (found / np.arange(1, found.shape[1] + 1)).max(axis=1, initial=0.0)
    return first


def ndcg(judged: Judged, k: int) -> Values:
    """Return the discounted gain of the first `k` over that of the best order, [queries]."""
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    found = judged.found[:, :k]
    ideal = np.cumsum(gains)[np.minimum(judged.relevant, k) - 1]
    share: Values = found @ gains[: found.shape[1]] / ideal
    return share


def threshold_keeping(confidences: Values, keep: float) -> float:
    """Return the highest bar that the share `keep` (over 0) of `confidences` [n > 0] clears.

    It is one of them, and values equal to the bar clear it.
    """
    return float(np.sort(confidences)[int((1.0 - keep) * len(confidences))])


def share_above(confidences: Values, bar: float) -> float:
    """Return the share of `confidences` [n] that clear a bar; 0 of none."""
    return float((confidences >= bar).mean()) if len(confidences) else 0.0


def paired_bootstrap(differences: Values, generator: np.random.Generator) -> Interval:
    """Return the mean of `differences` [n > 0] and its 95 % interval over resampled queries."""
    means = [generator.choice(differences, len(differences)).mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(differences.mean()), float(low), float(high))


Level = Literal["memory", "session"]

KEEPS = (0.95, 0.9, 0.8)
ANSWERED_AT = 5  # ranks: a query with a relevant memory among them counts as answered
COMPARED = ("recall@5", "recall@10")
SEED = 7

_NOTHING = Result("-", ())

Asked = tuple[Workspace, Query]


class Scores(msgspec.Struct, frozen=True):
    """The means of some queries' measures."""

    queries: int
    measures: Mapping[str, float]


class Silence(msgspec.Struct, frozen=True):
    """The effect of a bar on the highest confidence.

    `kept` is the share of correctly answered queries over it, `injected` the share of the prompts
    of each kind that deserve nothing and are over it too. `keep` is the share the bar was chosen
    for; None: the bar was given.
    """

    keep: float | None
    bar: float
    kept: float
    injected: Mapping[str, float]
    injected_all: float


class Unasked(msgspec.Struct, frozen=True):
    """The injections of the prompt hook by its own choice, at any confidence.

    Of the `queries` that recall answers correctly and that ask about the present, like a hook, the
    share `kept` gets a memory and the share `right` a relevant one; `injected` is, for each kind of
    prompts that deserve nothing, the share that gets a memory.
    """

    queries: int
    kept: float
    right: float
    injected: Mapping[str, float]
    injected_all: float


class Report(msgspec.Struct, frozen=True):
    level: Level
    overall: Scores
    datasets: Mapping[str, Scores]
    categories: Mapping[str, Scores]
    prompts: Mapping[str, int]  # that deserve silence, by kind
    silence: tuple[Silence, ...]
    unasked: Unasked | None  # None: no query was answered, or no prompt deserves silence


class Difference(msgspec.Struct, frozen=True):
    """The difference of `b` from `a` in one measure; `low` and `high` bound 95 % of resamples."""

    measure: str
    a: float
    b: float
    mean: float
    low: float
    high: float
    wins: int
    losses: int
    ties: int


class Change(msgspec.Struct, frozen=True):
    """A query that one run answers better, and its measure in both."""

    query_id: str
    query: str
    a: float
    b: float


class Comparison(msgspec.Struct, frozen=True):
    """Two runs over the `queries` with a result in both; `left_out` counts those in only one.

    `changes` are the wins and losses of the first measure, the greatest gain first.
    """

    level: Level
    queries: int
    left_out: int
    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]


def score_report(
    workspaces: Sequence[Workspace],
    results: Mapping[str, Result],
    level: Level,
    *,
    bar: float | None = None,
) -> Report:
    """Return the report of a run; a query without a result counts as an empty ranking.

    Silence is measured at the given bar, if any, and at those that keep the shares `KEEPS`.
    Raise InvalidInput if the workspaces have no query.
    """
    queries = [(workspace, query) for workspace in workspaces for query in workspace.queries]
    if not queries:
        raise InvalidInput("these workspaces hold no query: there is nothing to measure")
    values = measures(_judge_results(queries, results, level))
    sources = np.array([workspace.source for workspace, _ in queries])
    categories = np.array([query.category for _, query in queries])
    is_answered = hit_at(_judge_results(queries, results, "memory"), ANSWERED_AT) > 0
    answered = [query for (_, query), is_hit in zip(queries, is_answered, strict=True) if is_hit]
    prompts = [prompt for workspace in workspaces for prompt in workspace.silence]
    kinds = sorted({prompt.kind for prompt in prompts})
    return Report(
        level,
        _means(values, np.ones(len(queries), np.bool_)),
        {str(name): _means(values, sources == name) for name in np.unique(sources)},
        {str(name): _means(values, categories == name) for name in np.unique(categories)},
        {kind: sum(prompt.kind == kind for prompt in prompts) for kind in kinds},
        tuple(_silence(answered, prompts, results, bar)),
        _score_unasked(answered, prompts, results),
    )


def compare_results(
    workspaces: Sequence[Workspace],
    a: Mapping[str, Result],
    b: Mapping[str, Result],
    level: Level,
) -> Comparison:
    """Return the differences of run `b` from `a`; raise InvalidInput if they share no query."""
    queries = [(workspace, query) for workspace in workspaces for query in workspace.queries]
    shared = [(space, query) for space, query in queries if query.id in a and query.id in b]
    if not shared:
        raise InvalidInput("no query of the dataset has a result in both files")
    of_a = measures(_judge_results(shared, a, level))
    of_b = measures(_judge_results(shared, b, level))
    first_a, first_b = of_a[COMPARED[0]], of_b[COMPARED[0]]
    changes = []
    for place in np.argsort(first_a - first_b, kind="stable"):
        if first_a[place] != first_b[place]:
            _, query = shared[place]
            values = _round(first_a[place]), _round(first_b[place])
            changes.append(Change(query.id, query.query, *values))
    return Comparison(
        level,
        len(shared),
        sum((query.id in a) != (query.id in b) for _, query in queries),
        tuple(_difference(name, of_a[name], of_b[name]) for name in COMPARED),
        tuple(changes),
    )


def _difference(name: str, a: Values, b: Values) -> Difference:
    difference = b - a
    # every measure has draws of its own, so that one more measure changes no other
    interval = paired_bootstrap(difference, np.random.default_rng(SEED))
    return Difference(
        measure=name,
        a=_round(a.mean()),
        b=_round(b.mean()),
        mean=_round(interval.mean),
        low=_round(interval.low),
        high=_round(interval.high),
        wins=int((difference > 0).sum()),
        losses=int((difference < 0).sum()),
        ties=int((difference == 0).sum()),
    )


def _judge_results(queries: Sequence[Asked], results: Mapping[str, Result], level: Level) -> Judged:
    return judge(
        [
            _ranking(workspace, query, results.get(query.id, _NOTHING), level)
            for workspace, query in queries
        ],
        [query.relevant_sessions if level == "session" else query.relevant for _, query in queries],
    )


def _ranking(workspace: Workspace, query: Query, result: Result, level: Level) -> list[str]:
    """Return the ranked ids, or their sessions, each at the place of its first memory.

    For a query with `before_ts` only older memories count.
    """
    ranked = list(result.ranked)
    if query.before_ts is not None:
        until = micros(query.before_ts)
        older = {memory.id for memory in workspace.memories if micros(memory.ts) < until}
        ranked = [id_ for id_ in ranked if id_ in older]
    if level == "memory":
        return ranked
    sessions = {memory.id: memory.session for memory in workspace.memories}
    return [session for id_ in ranked if (session := sessions.get(id_)) is not None]


def _means(values: Mapping[str, Values], chosen: npt.NDArray[np.bool_]) -> Scores:
    means = {name: _round(value[chosen].mean()) for name, value in values.items()}
    return Scores(int(chosen.sum()), means)


def _silence(
    answered: Sequence[Query],
    prompts: Sequence[Prompt],
    results: Mapping[str, Result],
    set_bar: float | None,
) -> Iterator[Silence]:
    """Yield the silence at the bar that is set, if one is, and at each share of `KEEPS`.

    Nothing without a prompt or a correctly answered query.
    """
    if not prompts or not answered:
        return
    correct = _gates([query.id for query in answered], results)
    silent = _gates([prompt.id for prompt in prompts], results)
    bars: list[tuple[float | None, float]] = [
        (keep, threshold_keeping(correct, keep)) for keep in KEEPS
    ]
    if set_bar is not None:
        bars.insert(0, (None, set_bar))
    for keep, bar in bars:
        injected = _injected(prompts, [bool(gate >= bar) for gate in silent])
        yield Silence(keep, _round(bar), _round(share_above(correct, bar)), *injected)


def _score_unasked(
    answered: Sequence[Query], prompts: Sequence[Prompt], results: Mapping[str, Result]
) -> Unasked | None:
    injections = [
        (results[query.id].said, query.relevant) for query in answered if query.before_ts is None
    ]
    if not prompts or not injections:
        return None
    return Unasked(
        len(injections),
        _share([bool(ids) for ids, _ in injections]),
        _share([not set(ids).isdisjoint(relevant) for ids, relevant in injections]),
        *_injected(prompts, [bool(results.get(prompt.id, _NOTHING).said) for prompt in prompts]),
    )


def _injected(
    prompts: Sequence[Prompt], is_injected: Sequence[bool]
) -> tuple[dict[str, float], float]:
    """Return the share of prompts that got a memory, of each kind and of all."""
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for prompt, flag in zip(prompts, is_injected, strict=True):
        by_kind[prompt.kind].append(flag)
    return {kind: _share(by_kind[kind]) for kind in sorted(by_kind)}, _share(is_injected)


def _gates(ids: Sequence[str], results: Mapping[str, Result]) -> Values:
    return np.array([results.get(id_, _NOTHING).gate for id_ in ids], np.float64)


def _share(flags: Sequence[bool]) -> float:
    return _round(sum(flags) / len(flags))


def _round(value: float) -> float:
    return round(float(value), 4)

"""
Report: measures of a run overall, by dataset and category; its silence; how two runs differ.

Relevance is yes or no. nDCG: Järvelin and Kekäläinen 2002, https://doi.org/10.1145/582415.582418.
The paired bootstrap: Sakai 2006, https://doi.org/10.1145/1148170.1148261.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
    """Rankings beside what is relevant.

    `found` [queries, ranks] says where a relevant one stands, `relevant` [queries] how many there
    are, at least one of each query.
    """

    found: npt.NDArray[np.bool_]
    relevant: npt.NDArray[np.int64]


class Interval(msgspec.Struct, frozen=True):
    """The mean of paired differences and where 95 % of its resampled means lie."""

    mean: float
    low: float
    high: float


def judge(rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]]) -> Judged:
    """Return each ranking (best first) judged by the ids relevant to its query.

    An id counts at its first place only; what follows a repeat moves up.
    """
    distinct = [list(dict.fromkeys(ranking)) for ranking in rankings]
    found = np.zeros((len(distinct), max(map(len, distinct), default=0)), np.bool_)
    for row, ranking, wanted in zip(found, distinct, map(set, relevant), strict=True):
        row[: len(ranking)] = [id_ in wanted for id_ in ranking]
    return Judged(found, np.array([len(set(wanted)) for wanted in relevant], np.int64))


def measures(judged: Judged) -> dict[str, Values]:
    """Return every measure we report by its name, each [queries]."""
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
    """Return 1 where a relevant one is among the first `k`, else 0, [queries]."""
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

    It is one of them, and what equals the bar clears it.
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


class Scores(msgspec.Struct, frozen=True):
    """The means of some queries' measures."""

    queries: int
    measures: Mapping[str, float]


class Silence(msgspec.Struct, frozen=True):
    """What a bar on the highest confidence does.

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
    """What the prompt hook says by its own choice, whatever the confidence.

    Of the `queries` that recall answers correctly and that ask of now, as a hook does, the share
    `kept` is told something and the share `right` a relevant memory; `injected` is the share of the
    prompts of each kind that deserve nothing and are told something.
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
    """How `b` differs from `a` in one measure; `low` and `high` bound 95 % of the resamples."""

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
    """Two runs over the `queries` both have a result for; `left_out` is what only one has.

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

    Silence is measured at the bar given, if one is, and at those that keep the shares `KEEPS`.
    Raise InvalidInput where the workspaces have no query.
    """
    asked = [(workspace, query) for workspace in workspaces for query in workspace.queries]
    if not asked:
        raise InvalidInput("these workspaces hold no query: there is nothing to measure")
    values = measures(_judge_results(asked, results, level))
    sources = np.array([workspace.source for workspace, _ in asked])
    categories = np.array([query.category for _, query in asked])
    prompts = [prompt for workspace in workspaces for prompt in workspace.silence]
    kinds = sorted({prompt.kind for prompt in prompts})
    return Report(
        level,
        _means(values, np.ones(len(asked), np.bool_)),
        {str(name): _means(values, sources == name) for name in np.unique(sources)},
        {str(name): _means(values, categories == name) for name in np.unique(categories)},
        {kind: sum(prompt.kind == kind for prompt in prompts) for kind in kinds},
        tuple(_silence(asked, prompts, results, bar)),
        _score_unasked(asked, prompts, results),
    )


def compare_results(
    workspaces: Sequence[Workspace],
    a: Mapping[str, Result],
    b: Mapping[str, Result],
    level: Level,
) -> Comparison:
    """Return how run `b` differs from run `a`; raise InvalidInput where they share no query."""
    asked = [(workspace, query) for workspace in workspaces for query in workspace.queries]
    shared = [one for one in asked if one[1].id in a and one[1].id in b]
    if not shared:
        raise InvalidInput("no query of the dataset has a result in both files")
    of_a = measures(_judge_results(shared, a, level))
    of_b = measures(_judge_results(shared, b, level))
    return Comparison(
        level,
        len(shared),
        sum((query.id in a) != (query.id in b) for _, query in asked),
        tuple(_difference(name, of_a[name], of_b[name]) for name in COMPARED),
        tuple(_changes([query for _, query in shared], of_a[COMPARED[0]], of_b[COMPARED[0]])),
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


def _changes(queries: Sequence[Query], a: Values, b: Values) -> Iterator[Change]:
    for place in np.argsort(a - b, kind="stable"):
        if a[place] != b[place]:
            query = queries[place]
            yield Change(query.id, query.query, _round(a[place]), _round(b[place]))


def _judge_results(
    asked: Sequence[tuple[Workspace, Query]], results: Mapping[str, Result], level: Level
) -> Judged:
    rank: Callable[[Workspace, Query, Result], list[str]] = (
        _sessions if level == "session" else _memories
    )
    return judge(
        [rank(space, query, results.get(query.id, _NOTHING)) for space, query in asked],
        [query.relevant_sessions if level == "session" else query.relevant for _, query in asked],
    )


def _memories(workspace: Workspace, query: Query, result: Result) -> list[str]:
    """Return the ranked ids; of a query with `before_ts` only older memories count."""
    if query.before_ts is None:
        return list(result.ranked)
    until = micros(query.before_ts)
    older = {memory.id for memory in workspace.memories if micros(memory.ts) < until}
    return [id_ for id_ in result.ranked if id_ in older]


def _sessions(workspace: Workspace, query: Query, result: Result) -> list[str]:
    """Return the sessions of the ranked memories, each where its first memory stands."""
    sessions = {memory.id: memory.session for memory in workspace.memories}
    ranked = (sessions.get(id_) for id_ in _memories(workspace, query, result))
    return [session for session in ranked if session is not None]


def _means(values: Mapping[str, Values], chosen: npt.NDArray[np.bool_]) -> Scores:
    means = {name: _round(value[chosen].mean()) for name, value in values.items()}
    return Scores(int(chosen.sum()), means)


def _silence(
    asked: Sequence[tuple[Workspace, Query]],
    prompts: Sequence[Prompt],
    results: Mapping[str, Result],
    given: float | None,
) -> Iterator[Silence]:
    """Yield what the given bar and each share of `KEEPS` cost.

    Nothing without a prompt or a correct answer.
    """
    answered = hit_at(_judge_results(asked, results, "memory"), ANSWERED_AT) > 0
    correct = _gates([query.id for _, query in asked], results)[answered]
    if not prompts or not len(correct):
        return
    silent = _gates([prompt.id for prompt in prompts], results)
    kinds = np.array([prompt.kind for prompt in prompts])
    bars: list[tuple[float | None, float]] = [
        (keep, threshold_keeping(correct, keep)) for keep in KEEPS
    ]
    if given is not None:
        bars.insert(0, (None, given))
    for keep, bar in bars:
        yield Silence(
            keep,
            _round(bar),
            _round(share_above(correct, bar)),
            {
                str(kind): _round(share_above(silent[kinds == kind], bar))
                for kind in np.unique(kinds)
            },
            _round(share_above(silent, bar)),
        )


def _score_unasked(
    asked: Sequence[tuple[Workspace, Query]],
    prompts: Sequence[Prompt],
    results: Mapping[str, Result],
) -> Unasked | None:
    answered = hit_at(_judge_results(asked, results, "memory"), ANSWERED_AT) > 0
    told = [
        (results[query.id].said, query.relevant)
        for (_, query), is_answered in zip(asked, answered, strict=True)
        if is_answered and query.before_ts is None
    ]
    if not prompts or not told:
        return None
    spoke = [(prompt.kind, bool(results.get(prompt.id, _NOTHING).said)) for prompt in prompts]
    return Unasked(
        len(told),
        _share([bool(said) for said, _ in told]),
        _share([not set(said).isdisjoint(relevant) for said, relevant in told]),
        {
            kind: _share([said for of, said in spoke if of == kind])
            for kind in sorted({kind for kind, _ in spoke})
        },
        _share([said for _, said in spoke]),
    )


def _gates(ids: Sequence[str], results: Mapping[str, Result]) -> Values:
    return np.array([results.get(id_, _NOTHING).gate for id_ in ids], np.float64)


def _share(held: Sequence[bool]) -> float:
    return _round(sum(held) / len(held))


def _round(value: float) -> float:
    return round(float(value), 4)

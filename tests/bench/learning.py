"""
The effect of learning on recall: a labelled dataset queried before and after jobs have run on it.

`python tests/bench/learning.py DIR` takes the folder that `mnemolog eval` takes. It writes every
workspace to a memory of its own, asks all queries, runs the jobs one after the other and applies
their proposals, asks again, and prints both results side by side. A memory made by a job takes a
place among the hits and is relevant to nothing; one that a job puts away is missed. With `--steps`
the queries are asked after each job, to show which job changed the results.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from pipelines import jobs
from pipelines.jobs.runner import run as run_job
from serve.evaluation import dataset, report
from serve.evaluation import harness as runs
from serve.evaluation.dataset import Result, Workspace
from serve.evaluation.report import Report
from store.embedders.embedder import make_embedder
from store.home import config
from store.home.config import Choices, Settings

LEARNING = ("consolidate", "reflect", "distill")
MEASURES = ("recall@5", "recall@10")

Results = Mapping[str, Result]


@dataclass
class Asked:
    """The results of all queries after the job `after`, "" before any job."""

    after: str
    results: Results
    steps: dict[str, int] = field(default_factory=dict)  # events by "job: kind", all workspaces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="workspaces whose name starts so")
    parser.add_argument("--embedder", default="lexical", help="as in config.toml")
    parser.add_argument("--jobs", nargs="+", default=LEARNING, choices=[*jobs.JOBS, *LEARNING])
    parser.add_argument("--steps", action="store_true", help="ask after each job")
    parser.add_argument(
        "--cache", type=Path, default=config.cache_folder() / "vectors", help="of vectors"
    )
    args = parser.parse_args()
    # prompts that deserve silence are left to `mnemolog eval`
    workspaces = [
        replace(workspace, silence=())
        for workspace in dataset.read_workspaces(args.folder, args.only)
    ]
    choices = config.change_choices(Choices(), {"embedder": args.embedder})
    names = [name for name in args.jobs if name in jobs.JOBS]
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(Path(home), choices=choices)
        every = list(learnt(workspaces, settings, names, args.cache, each=args.steps))
    for line in lines(workspaces, every):
        print(line)
    lost = worse(workspaces, every[0].results, every[-1].results)
    for line in lost:
        print(line)
    sys.exit(1 if lost else 0)


def learnt(
    workspaces: Sequence[Workspace],
    settings: Settings,
    names: Sequence[str],
    cache: Path | None = None,
    *,
    each: bool = False,
) -> Iterator[Asked]:
    """Yield the results before the jobs, and after the last or `each` of them."""

    def results() -> Results:
        results = runs.run_queries(workspaces, settings.home, settings.choices, "auto", cache=cache)
        return {result.query_id: result for result in results.results}

    yield Asked("", results())
    steps: dict[str, int] = {}
    for name in names:
        applied_ = applied(workspaces, settings, name)
        for kind, count in applied_.items():
            steps[f"{name}: {kind}"] = count
        if each or name == names[-1]:
            yield Asked(name, results(), dict(steps))


def applied(workspaces: Sequence[Workspace], settings: Settings, name: str) -> dict[str, int]:
    """Run a job on every workspace; return the number of events it wrote, by kind."""
    model = make_embedder(settings.choices.embedder, settings.home)
    written: dict[str, int] = {}
    for workspace in workspaces:
        tenant = runs.tenant_of(workspace, settings.home, model)
        at = runs.newest(workspace)
        plan = run_job(jobs.find_job(name), settings, tenant.name, at, apply=True)
        for step in plan.body.steps if plan else ():
            written[step.event] = written.get(step.event, 0) + 1
    return written


def lines(workspaces: Sequence[Workspace], every: Sequence[Asked]) -> Iterator[str]:
    """Yield a table of the measures, and the number of events each job wrote."""
    names = ["all", *sorted({workspace.source for workspace in workspaces})]
    yield f"| recall@5 / @10 | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for step in every:
        report = _report(workspaces, step.results)
        cells = (
            " / ".join(f"{scores.measures[name]:.4f}" for name in MEASURES)
            for scores in (report.overall, *report.datasets.values())
        )
        yield f"| {f'after {step.after}' if step.after else 'before'} | {' | '.join(cells)} |"
    yield ""
    for what, count in every[-1].steps.items():
        yield f"{what} {count:,}"


def worse(workspaces: Sequence[Workspace], before: Results, after: Results) -> list[str]:
    """Return a line for each dataset and measure that got worse, to the third digit."""
    first, other = _report(workspaces, before), _report(workspaces, after)
    pairs = {"all": (first.overall, other.overall)} | {
        name: (first.datasets[name], other.datasets[name]) for name in first.datasets
    }
    return [
        f"WORSE {name} {measure}: {was.measures[measure]:.4f}, then {now.measures[measure]:.4f}"
        for name, (was, now) in pairs.items()
        for measure in MEASURES
        if round(now.measures[measure], 3) < round(was.measures[measure], 3)
    ]


def _report(workspaces: Sequence[Workspace], results: Results) -> Report:
    return report.score_report(tuple(workspaces), results, "memory")


if __name__ == "__main__":
    main()

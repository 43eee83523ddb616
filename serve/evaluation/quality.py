"""
Quality: what the check set says of recall under some settings, and what is too little.

The floors are no targets. They lie well below what the lexical embedder reaches, so that falling
through one means that something broke, not that a weight moved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from serve.evaluation import checkset, dataset
from serve.evaluation.dataset import Workspace
from serve.evaluation.report import Scores, Silence, report
from serve.evaluation.run import run
from store.config import Choices

LEAST_RECALL_AT_5 = 0.85  # of the project's queries
LEAST_MRR = 0.7
LEAST_OF_A_LANGUAGE = 0.8  # recall@5 of questions in the language of their memory
MOST_INJECTED = 0.1  # of the prompts that deserve silence, at the bar that is set


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured; `harder` are the questions in `checkset.HARDER`, which have no floor."""

    project: Scores
    categories: Mapping[str, Scores]  # of the project's queries
    silence: Silence | None  # at the bar that is set; None: no query was answered
    languages: Mapping[str, Scores]
    harder: Mapping[str, Scores]
    notices: tuple[str, ...]

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What lies beyond a floor, in words; nothing where recall works."""
        return tuple(_shortfalls(self))


def measure(choices: Choices, home: Path, *, cache: Path | None = None) -> Quality:
    """Return what the check set gives under some settings; its tenants are left in `home`."""
    workspaces = dataset.read(checkset.FOLDER)
    ran = run(workspaces, home, choices, "auto", cache=cache)
    results = {one.query_id: one for one in ran.results}
    project, languages = (
        report(_named(workspaces, prefix), results, "memory", bar=choices.min_confidence)
        for prefix in (checkset.PROJECT, checkset.LANGUAGES)
    )
    return Quality(
        project=project.overall,
        categories=project.categories,
        silence=next(iter(project.silence), None),
        languages={
            name: one
            for name, one in languages.categories.items()
            if not name.startswith(checkset.HARDER)
        },
        harder={
            name: one
            for name, one in languages.categories.items()
            if name.startswith(checkset.HARDER)
        },
        notices=ran.notices,
    )


def _named(workspaces: tuple[Workspace, ...], prefix: str) -> tuple[Workspace, ...]:
    return tuple(one for one in workspaces if one.name.startswith(prefix))


def _shortfalls(found: Quality) -> Iterator[str]:
    for name, least in (("recall@5", LEAST_RECALL_AT_5), ("mrr@10", LEAST_MRR)):
        if (value := found.project.measures[name]) < least:
            yield f"{name} of the project is {value:.2f}, below {least:.2f}"
    for language, scores in found.languages.items():
        if (value := scores.measures["recall@5"]) < LEAST_OF_A_LANGUAGE:
            yield f"recall@5 in {language} is {value:.2f}, below {LEAST_OF_A_LANGUAGE:.2f}"
    injected = found.silence.injected_all if found.silence else 0.0
    if injected > MOST_INJECTED:
        yield f"{injected:.0%} of the prompts that deserve silence bring something back"

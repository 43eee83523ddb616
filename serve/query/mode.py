"""
What the asker is at (debugging, designing, planning ...), told by the words, and what helps there.

A mode is taken only where its words outweigh those of every other; most questions have none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from store.text.tokenizer import terms

TaskMode = Literal["debug", "architecture", "coding", "review", "plan", "routine"]

SURE = 2  # a telling word, or two that hint

# How well a kind of memory fits a mode, in [0, 1]; what is not listed does not fit.
KINDS: Mapping[TaskMode, Mapping[str, float]] = {
    "debug": {
        "bugfix": 1.0,
        "lesson": 0.8,
        "antipattern": 0.8,
        "observation": 0.6,
        "insight": 0.5,
        "fact": 0.3,
    },
    "architecture": {
        "decision": 1.0,
        "pattern": 0.9,
        "antipattern": 0.7,
        "insight": 0.6,
        "context": 0.6,
        "lesson": 0.5,
        "preference": 0.4,
        "fact": 0.3,
    },
    "coding": {
        "pattern": 1.0,
        "preference": 0.9,
        "lesson": 0.8,
        "antipattern": 0.8,
        "decision": 0.7,
        "bugfix": 0.5,
        "fact": 0.4,
    },
    "review": {
        "antipattern": 1.0,
        "preference": 0.9,
        "pattern": 0.9,
        "decision": 0.7,
        "lesson": 0.7,
        "bugfix": 0.5,
    },
    "plan": {
        "goal": 1.0,
        "milestone": 1.0,
        "decision": 0.7,
        "activity": 0.5,
        "summary": 0.5,
        "context": 0.4,
        "insight": 0.3,
    },
    "routine": {
        "preference": 1.0,
        "fact": 0.8,
        "lesson": 0.7,
        "pattern": 0.6,
        "activity": 0.4,
        "context": 0.4,
    },
}

# words that tell | words that only hint
_WORDS: Mapping[TaskMode, tuple[str, str]] = {
    "debug": (
        """bug bugs debug crash crashes error errors exception traceback stacktrace segfault flaky
        fail fails failed failing failure hang hangs deadlock broken regression reproduce leak
        panics fehler absturz erreur plantage fallo ошибка 错误 エラー""",
        "fix trace stack timeout wrong slow issue cause undefined null works unexpected warning",
    ),
    "architecture": (
        """architecture architect tradeoff tradeoffs microservice microservices monolith scalability
        coupling abstraction architektur entwurf arquitectura архитектура 架构""",
        """design structure component layer boundary interface schema choose chose decide decided
        decision alternative approach pattern instead rationale scale service""",
    ),
    "coding": (
        "implement implementation refactor refactoring implementieren implementar 实现",
        """write code function class method endpoint snippet helper add create signature type
        parameter handler component library""",
    ),
    "review": (
        "review reviews reviewer reviewing pr prs nitpick codereview ревью",
        "pull request diff approve convention style guideline audit comment merge standard",
    ),
    "plan": (
        """plan plans planning planned roadmap milestone milestones backlog sprint deadline todo
        geplant planifier 计划""",
        "next step schedule prioritize priority estimate goal task tasks quarter remaining open",
    ),
    "routine": (
        """deploy deploys deploying deployment release releasing rollout rollback publish install
        installation desplegar déployer ausrollen""",
        """run build command setup configure start restart upgrade bump update backup environment
        credentials script port version tag""",
    ),
}
_WEIGHTS: dict[str, list[tuple[TaskMode, int]]] = {}
for _mode, _lists in _WORDS.items():
    for _weight, _list in zip((SURE, 1), _lists, strict=True):
        for _term in dict.fromkeys(terms(_list)):
            _WEIGHTS.setdefault(_term, []).append((_mode, _weight))


def task_mode(topic: Sequence[str], *, names_error: bool = False) -> TaskMode | None:
    """Return the mode a question's terms speak for; None where they are few, or two modes tie.

    `names_error`: the question holds an error's name or code, which speaks for debugging.
    """
    sums: Counter[TaskMode] = Counter()
    if names_error:
        sums["debug"] += SURE
    for term in dict.fromkeys(topic):
        for mode, weight in _WEIGHTS.get(term, ()):
            sums[mode] += weight
    (best, most), (_, second) = [*sums.most_common(2), (None, 0), (None, 0)][:2]
    return best if most >= SURE and most > second else None

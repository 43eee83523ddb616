"""
Estimate: what a job would ask of models, found by running it with one that only counts.

It answers nothing, so the job goes on as it does without a model; what it would ask because of an
answer is not counted, nor is a question that has to be repeated. The budget bounds those too.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from pipelines.llm import schema
from pipelines.llm.budget import Most
from pipelines.llm.client import TIERS, most_of, of_tier, price_of, unpriced
from pipelines.llm.model import Answer
from pipelines.llm.prompt import prompt
from store.home.config import Llm
from store.home.errors import ModelError
from store.home.model_programs import program_of
from store.log.event_kinds import ModelTier

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """What one tier would be asked. The dollars are null where the model's price is not known."""

    model: str
    calls: int
    prompt_tokens: int
    answer_tokens: int
    usd_at_most: float | None


class Estimate(msgspec.Struct, frozen=True):
    """The most that a run asks and costs, each question answered at once.

    `left` is what each limit leaves, null for no limit; a run ends before it passes one.
    """

    calls: int
    tokens: int
    usd_at_most: float | None
    tiers: dict[ModelTier, Asked]
    left: dict[str, float | None]
    fits: bool
    notes: tuple[str, ...] = ()


class Estimator:
    """Counts what it is asked, and answers nothing."""

    def __init__(self, limits: Llm) -> None:
        self._limits = limits
        self._asked: dict[ModelTier, list[Most]] = {}

    def ask(
        self,
        purpose: str,
        instructions: str,
        data: str,
        answer: type[T],
        *,
        tier: ModelTier = "cheap",
    ) -> Answer[T]:
        """Raise ModelError: the job goes on without an answer."""
        question = prompt(instructions, data, schema.strict(answer))
        model = of_tier(self._limits, tier)
        most = most_of(model, question, price_of(model))
        self._asked.setdefault(tier, []).append(most)
        raise ModelError("this is an estimate: no model is asked")

    def estimate(self, left: dict[str, float | None]) -> Estimate:
        tiers = {tier: self._of(tier) for tier in TIERS if tier in self._asked}
        tokens = sum(one.prompt_tokens + one.answer_tokens for one in tiers.values())
        usd = _sum([one.usd_at_most for one in tiers.values()])
        calls = sum(one.calls for one in tiers.values())
        asked = {"usd": usd or 0.0, "tokens": tokens, "calls": calls}
        return Estimate(
            calls=calls,
            tokens=tokens,
            usd_at_most=usd,
            tiers=tiers,
            left=left,
            fits=all(
                room is None or asked[name.partition("_")[0]] <= room for name, room in left.items()
            ),
            notes=tuple(self._notes(tiers)),
        )

    def _of(self, tier: ModelTier) -> Asked:
        calls = self._asked[tier]
        return Asked(
            model=of_tier(self._limits, tier),
            calls=len(calls),
            prompt_tokens=sum(one.prompt_tokens for one in calls),
            answer_tokens=sum(one.answer_tokens for one in calls),
            usd_at_most=_sum([one.usd for one in calls]),
        )

    def _notes(self, tiers: dict[ModelTier, Asked]) -> list[str]:
        if not self._limits.is_set:
            return ["no model is set: the job does without, and costs nothing"]
        models = dict.fromkeys(one.model for one in tiers.values())
        unknown = dict.fromkeys(one.model for one in tiers.values() if one.usd_at_most is None)
        return [*_programs(models), *map(unpriced, unknown)]


def _programs(models: Iterable[str]) -> Iterator[str]:
    """Yield which program would be asked, of those that are not asked over the network."""
    for model in models:
        if (found := program_of(model)) is not None:
            description = found.description
            yield (
                f"{model} is asked through {description}, with the login there"
                if description
                else f"there is no program `{found.command}`: {found.cure}"
            )


def _sum(values: list[float | None]) -> float | None:
    """Return the sum; None where one of them is not known."""
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None

"""
LanguageModel: what a job may ask of a model, and what it gets to know of the answer.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from store.log.event_kinds import Job, Made, ModelTier

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """A validated answer, and what it took: of whom, to which prompt (hex), for how much."""

    value: T_co
    model: str
    prompt_sha256: str
    tokens: int
    cost_usd: float

    def made(self, job: Job) -> Made:
        """Return the lineage of what a job made of this answer."""
        return Made(
            job=job,
            model=self.model,
            prompt_sha256=self.prompt_sha256,
            tokens=self.tokens,
            cost_usd=self.cost_usd,
        )


class LanguageModel(Protocol):
    def ask(
        self,
        purpose: str,
        instructions: str,
        data: str,
        answer: type[T],
        *,
        tier: ModelTier = "cheap",
    ) -> Answer[T]:
        """Return the model's answer as a value of `answer`, a msgspec struct.

        `data` is what the memory holds, and is told to the model as such: never as instructions.
        Raise ModelError where it does not answer so, BudgetSpent before a call that would cost
        more than is left; a job then goes on without a model.
        """

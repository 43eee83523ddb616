"""
Compound questions: a model splits one into simple questions that a recall answers each by itself.

Only `mnemolog ask` calls this; no recall waits for it. A part that shares no word with the question
is dropped: the model must split the question, not guess the memory's content.
"""

from typing import Annotated

import msgspec

from pipelines.llm.model_client import make_client
from serve.recall.question_parts import MAX_PARTS
from store.home.config import Settings
from store.home.errors import ModelError
from store.home.tenant import find_tenant
from store.log.event_log import EventLog
from store.text.tokenizer import terms

PURPOSE = "questions"
_INSTRUCTIONS = f"""
You get a question that somebody asks the memory of their project. Split it into the simple
questions it is made of, at most {MAX_PARTS}, in their order, so that each can be looked up alone.
Each must be understood alone: repeat the names it needs in place of words such as "it" or "they".
Keep the language, and names as they are written. A question that asks one thing is its own only
part. Do not answer anything.
"""

_Part = Annotated[str, msgspec.Meta(min_length=3, max_length=500)]


class Parts(msgspec.Struct, frozen=True):
    parts: Annotated[tuple[_Part, ...], msgspec.Meta(min_length=1, max_length=MAX_PARTS)]


class Split(msgspec.Struct, frozen=True):
    """The parts of a question, and which model found them."""

    parts: tuple[str, ...]
    model: str


def split_by_model(settings: Settings, tenant_name: str, question: str) -> Split:
    """Return a question's parts; the call is recorded and counts toward the budget.

    Raise NotFound, BudgetSpent, or ModelError where no model is set or it returns no part.
    """
    limits = settings.choices.llm
    if not limits.may_serve(PURPOSE):
        raise ModelError("the settings name no model for questions")
    with EventLog(find_tenant(settings.home, tenant_name).log) as log:
        model = make_client(settings.home, limits, log, lambda note: None)
        answer = model.ask(PURPOSE, _INSTRUCTIONS, question, Parts, tier="cheap")
    words = set(terms(question))
    parts = tuple(
        " ".join(part.split()) for part in answer.value.parts if not words.isdisjoint(terms(part))
    )
    if not parts:
        raise ModelError(f"{answer.model} gave no part of the question")
    return Split(parts, answer.model)

"""
The client: asks a language model by tier, within a budget, and records each call in the log.

Failed calls are recorded too, and each retry is a call. A call whose cost is unknown (no answer
came) counts as its maximum.

`Estimator` takes the client's place to count a job's questions: it gives no answer, so the job
goes on as it does without a model. Questions that follow from an answer, and retries, are not
counted; the budget bounds those too.
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from pipelines.llm import claude_code_model, codex_model, program, prompt, provider
from pipelines.llm.budget import Budget, Most, Spent
from pipelines.llm.prompt import Prompt, make_prompt
from pipelines.llm.provider import MOST_ANSWER_TOKENS, Failed, Price, Reply, Usage
from store.home.config import Llm
from store.home.errors import BudgetSpent, ModelError
from store.home.instants import new_id
from store.home.model_programs import ModelProgram, program_of
from store.log.event_clock import wall_clock
from store.log.event_kinds import Called, Job, Made, ModelTier
from store.log.event_log import EventLog
from store.log.events import Event

# The interface for jobs: the question and the answer.

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """A validated answer with its model, its prompt's digest (hex) and its cost."""

    value: T_co
    model: str
    prompt_sha256: str
    tokens: int
    cost_usd: float

    def lineage(self, job: Job) -> Made:
        """Return the lineage of a memory that a job derived from this answer."""
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

        `data` is the memory's content, marked for the model as data, never as instructions.
        Raise ModelError without a valid answer, BudgetSpent before a call that would cost
        more than is left; a job then goes on without a model.
        """


TIERS: tuple[ModelTier, ...] = ("cheap", "balanced", "expensive")


_LONGEST_PAUSE_S = 60.0  # that a provider may request
_CORRECTIONS = 2  # of a wrong answer
_MOST_FAILURES = 3  # in a row, before the model is no longer called


def model_of_tier(limits: Llm, tier: ModelTier) -> str:
    """Return the model of a tier: its own, else the next cheaper one's, else the next dearer's.

    Return "" where none is set.
    """
    place = TIERS.index(tier)
    order = (*reversed(TIERS[: place + 1]), *TIERS[place + 1 :])
    return next((name for other in order if (name := getattr(limits, other))), "")


@dataclass
class Client:
    """One run's client. `note` gets each note for a person once; `pauses_s` are the pauses before
    retries.
    """

    limits: Llm
    log: EventLog
    budget: Budget
    clock: Callable[[], int]
    note: Callable[[str], None] = lambda text: None
    pauses_s: tuple[float, ...] = (1.0, 4.0)
    sleep: Callable[[float], None] = time.sleep
    _noted: set[str] = field(default_factory=set)
    _schemaless: set[str] = field(default_factory=set)  # models that refused a schema
    _failures: int = 0

    def ask(
        self,
        purpose: str,
        instructions: str,
        data: str,
        answer: type[T],
        *,
        tier: ModelTier = "cheap",
    ) -> Answer[T]:
        """Return the model's answer as a value of `answer`; see LanguageModel."""
        model = model_of_tier(self.limits, tier)
        if self._failures >= _MOST_FAILURES:
            raise ModelError(
                f"{model} failed {self._failures} times in a row and is no longer called"
            )
        price = price_of(model)
        if price is None:
            self._note(price_note(model))
        calls = _Calls(self, purpose, model, tier, price)
        question = make_prompt(instructions, data, prompt.strict_schema(answer))
        try:
            valid = self._valid_answer(calls, question, answer)
        except BudgetSpent as error:
            self._note(str(error))
            raise
        except ModelError as error:
            self._failures += 1
            if self._failures == _MOST_FAILURES:
                self._note(f"no model was asked any more after {self._failures} failures: {error}")
            raise
        self._failures = 0
        return valid

    def _valid_answer(self, calls: "_Calls", question: Prompt, answer: type[T]) -> Answer[T]:
        """Return a valid answer; after a wrong one, ask again with the error."""
        for corrections in range(_CORRECTIONS, -1, -1):
            reply = self._reply(calls, question)
            try:
                value = prompt.parse_answer(reply.text, answer)
            except prompt.NoAnswer as error:
                wrong = f"it was cut off, and {error}" if reply.is_cut else str(error)
                if not corrections:
                    raise ModelError(f"{calls.model} gave no valid answer: {wrong}") from None
                question = question.again(reply.text, wrong)
                continue
            spent = calls.spent
            return Answer(value, calls.model, question.sha256, spent.tokens, spent.usd)
        raise AssertionError("unreachable")

    def _reply(self, calls: "_Calls", question: Prompt) -> Reply:
        """Return a reply; retry after a temporary failure."""
        has_schema = calls.model not in self._schemaless
        pauses = iter(self.pauses_s)
        while True:
            try:
                reply = self._call(calls, question, has_schema=has_schema)
            except Failed as error:
                if error.is_refused and has_schema:
                    has_schema = False  # not every server takes a schema; it is in the prompt too
                    continue
                wait = next(pauses, None) if error.is_worth_repeating else None
                if wait is None:
                    raise
                wait = wait if error.wait_s is None else error.wait_s
                if wait > _LONGEST_PAUSE_S:
                    raise
                self.sleep(wait)
                continue
            if not has_schema:
                self._schemaless.add(calls.model)
            return reply

    def _call(self, calls: "_Calls", question: Prompt, *, has_schema: bool) -> Reply:
        """Make one call, if the budget has room for it, and record it."""
        most = most_of(calls.model, question, calls.price)
        with self.budget.room_for(most):
            began = time.perf_counter()
            try:
                reply = self._complete(calls.model, question, has_schema=has_schema)
            except Failed as error:
                usage = error.usage
                if error.is_unsure:
                    usage = Usage(most.prompt_tokens, most.answer_tokens)
                calls.record(question, usage, began, str(error))
                raise
            # a model that did not count its tokens is charged the most
            usage = Usage(
                reply.usage.prompt_tokens or most.prompt_tokens,
                reply.usage.answer_tokens or len(reply.text.encode(errors="replace")),
                reply.usage.usd,
            )
            calls.record(question, usage, began, None)
            return reply

    def _complete(self, model: str, question: Prompt, *, has_schema: bool) -> Reply:
        schema = question.schema if has_schema else None
        if (model_program := program_of(model)) is not None:
            return program.complete(
                model_program,
                dialect_of(model_program),
                model,
                question.messages,
                schema=schema,
                timeout_s=self.limits.timeout_s,
            )
        return provider.complete(
            model,
            question.messages,
            schema=schema,
            api_base=self.limits.api_base,
            timeout_s=self.limits.timeout_s,
        )

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.note(text)


def make_client(home: Path, limits: Llm, log: EventLog, note: Callable[[str], None]) -> Client:
    """Return a client for one run; litellm is imported at its first call."""
    return Client(limits, log, Budget(home, limits, wall_clock), wall_clock, note)


def answered_calls(log: EventLog) -> Iterator[Called]:
    """Yield the recorded calls that a model answered, in the order of the log."""
    for event in log.job_events(("called",)):
        if isinstance(event.body, Called) and event.body.error is None:
            yield event.body


def dialect_of(model_program: ModelProgram) -> program.Dialect:
    """Return the module with a program's dialect."""
    return codex_model if model_program.name == "codex" else claude_code_model


def price_of(model: str) -> Price | None:
    """Return a model's price; None where it is not known before a call."""
    return None if program_of(model) else provider.price(model)


def most_of(model: str, question: Prompt, price: Price | None) -> Most:
    """Return the maximum cost of one call of a model."""
    model_program = program_of(model)
    added = (
        dialect_of(model_program).overhead(question.messages[0]["content"]) if model_program else 0
    )
    has_cost = model_program is not None and model_program.has_cost
    return Most(question.most_tokens + added, MOST_ANSWER_TOKENS, price, has_cost=has_cost)


def price_note(model: str) -> str:
    """Return the note on a model of unknown price."""
    model_program = program_of(model)
    if model_program is not None and model_program.has_cost:
        return (
            f"{model_program.title} tells what a call cost after it, at list price, also where a "
            "plan pays: a limit in dollars ends a run before the call after that"
        )
    return f"nobody knows what {model} costs: only the limits in tokens and calls hold for it"


@dataclass
class _Calls:
    """The calls of one question."""

    client: Client
    purpose: str
    model: str
    tier: ModelTier
    price: Price | None
    spent: Spent = field(default_factory=Spent)

    def record(self, question: Prompt, usage: Usage, began: float, error: str | None) -> None:
        """Record a call in the log at once, and count it."""
        priced = 0.0
        if self.price:
            priced = self.price.of(usage.prompt_tokens, usage.answer_tokens)
        called = Called(
            purpose=self.purpose,
            model=self.model,
            tier=self.tier,
            prompt_sha256=question.sha256,
            prompt_tokens=usage.prompt_tokens,
            answer_tokens=usage.answer_tokens,
            cost_usd=priced if usage.usd is None else usage.usd,
            took_ms=round((time.perf_counter() - began) * 1_000),
            error=error,
        )
        now = self.client.clock()
        id_ = new_id(now)
        self.client.log.append([Event(id_, now, called, id_)])
        self.client.budget.add(called)
        self.spent = self.spent.with_(called)


# The estimate.


class TierEstimate(msgspec.Struct, frozen=True):
    """The estimated calls of one tier. The dollars are null where the model's price is unknown."""

    model: str
    calls: int
    prompt_tokens: int
    answer_tokens: int
    usd_at_most: float | None


class Estimate(msgspec.Struct, frozen=True):
    """The upper bound of a run's calls and cost, each question answered at once.

    `left` is the remainder of each limit, null for no limit; a run ends before it passes a limit.
    """

    calls: int
    tokens: int
    usd_at_most: float | None
    tiers: dict[ModelTier, TierEstimate]
    left: dict[str, float | None]
    fits: bool
    notes: tuple[str, ...] = ()


class Estimator:
    """A client that counts questions and never answers."""

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
        question = make_prompt(instructions, data, prompt.strict_schema(answer))
        model = model_of_tier(self._limits, tier)
        most = most_of(model, question, price_of(model))
        self._asked.setdefault(tier, []).append(most)
        raise ModelError("this is an estimate: no model is called")

    def estimate(self, left: dict[str, float | None]) -> Estimate:
        tiers = {tier: self._of(tier) for tier in TIERS if tier in self._asked}
        tokens = sum(estimate.prompt_tokens + estimate.answer_tokens for estimate in tiers.values())
        usd = _sum([estimate.usd_at_most for estimate in tiers.values()])
        calls = sum(estimate.calls for estimate in tiers.values())
        needed = {"usd": usd or 0.0, "tokens": tokens, "calls": calls}
        return Estimate(
            calls=calls,
            tokens=tokens,
            usd_at_most=usd,
            tiers=tiers,
            left=left,
            fits=all(
                room is None or needed[name.partition("_")[0]] <= room
                for name, room in left.items()
            ),
            notes=tuple(self._notes(tiers.values())),
        )

    def _of(self, tier: ModelTier) -> TierEstimate:
        calls = self._asked[tier]
        return TierEstimate(
            model=model_of_tier(self._limits, tier),
            calls=len(calls),
            prompt_tokens=sum(most.prompt_tokens for most in calls),
            answer_tokens=sum(most.answer_tokens for most in calls),
            usd_at_most=_sum([most.usd for most in calls]),
        )

    def _notes(self, tiers: Collection[TierEstimate]) -> Iterator[str]:
        if not self._limits.is_set:
            yield "no model is set: the job does without, and costs nothing"
            return
        for model in dict.fromkeys(estimate.model for estimate in tiers):
            if (model_program := program_of(model)) is not None:
                description = model_program.description
                yield (
                    f"{model} is asked through {description}, with the login there"
                    if description
                    else f"there is no program `{model_program.command}`: {model_program.cure}"
                )
        unpriced = [estimate.model for estimate in tiers if estimate.usd_at_most is None]
        yield from map(price_note, dict.fromkeys(unpriced))


def _sum(values: list[float | None]) -> float | None:
    """Return the sum; None where a value is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None

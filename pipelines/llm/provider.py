"""
Models behind litellm: one request, its answer or the reason there is none, and its cost.

No other module of the jobs imports litellm. A provider's address and key are litellm's own
variables (OPENAI_API_KEY, OLLAMA_API_BASE ...). Its messages may quote a key or a prompt, so errors
are described in our own words. https://docs.litellm.ai/docs/completion/input
"""

import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from store.home.errors import ModelError
from store.home.packages import require

Message = dict[str, str]  # role and content

MOST_ANSWER_TOKENS = 4_096  # models that think before they answer count their thoughts too
MOST_TEXT = 262_144  # characters of an answer that are read: far more than it may have
_NO_KEY = "none"  # a local server needs no key, but the client requires a value


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars a token, of the prompt and of the answer."""

    prompt: float
    answer: float

    def of(self, prompt: int, answer: int) -> float:
        return self.prompt * prompt + self.answer * answer


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a model counted, 0 where it did not; dollars only where it names them."""

    prompt_tokens: int
    answer_tokens: int
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text, and the tokens it used for it."""

    text: str
    usage: Usage
    is_cut: bool  # the answer hit the length limit


NOTHING = Usage(0, 0)


class Failed(ModelError):
    """A request that brought no answer.

    `is_worth_repeating`: a retry may succeed, after `wait_s` if the provider gave it;
    `is_refused`: the model does not take such a request; `is_unsure`: the cost is unknown, since
    it may have been answered and paid for. `usage` is the reported usage, if any.
    """

    def __init__(
        self,
        reason: str,
        *,
        is_worth_repeating: bool = False,
        is_refused: bool = False,
        is_unsure: bool = False,
        wait_s: float | None = None,
        usage: Usage = NOTHING,
    ) -> None:
        super().__init__(reason)
        self.is_worth_repeating, self.is_refused = is_worth_repeating, is_refused
        self.is_unsure, self.wait_s = is_unsure, wait_s
        self.usage = usage


def complete(
    model: str,
    messages: list[Message],
    *,
    schema: dict[str, Any] | None,
    api_base: str,
    timeout_s: float,
) -> Reply:
    """Ask once; return the reply. Raise Failed, without a key or a word of the prompt in it."""
    litellm = _litellm()
    from openai import OpenAIError  # the base of all of litellm's errors

    request: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "max_tokens": MOST_ANSWER_TOKENS,
    }
    if schema is not None:
        request["response_format"] = {"type": "json_schema", "json_schema": schema}
    if api_base:
        request["api_base"] = api_base
        if "OPENAI_API_KEY" not in os.environ:
            request["api_key"] = _NO_KEY
    try:
        answer = litellm.completion(
            **request,
            temperature=0,
            drop_params=True,  # some take no temperature, some no schema: it is in the prompt too
            timeout=timeout_s,
            max_retries=0,  # our retries know when to wait, and record each call
            num_retries=0,
        )
    except OpenAIError as error:
        raise _failure(model, error, timeout_s) from None
    return _reply(model, answer)


def price(model: str) -> Price | None:
    """Return a model's price from litellm's own list; None if it is not listed."""
    prices = _litellm().model_cost
    entry = prices.get(model) or prices.get(model.partition("/")[2]) or {}
    prompt, answer = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if prompt is None or answer is None:
        return None
    return Price(float(prompt), float(answer))


def _reply(model: str, answer: Any) -> Reply:
    try:
        choice, usage = answer.choices[0], answer.usage
        text = choice.message.content
        counted = Usage(
            max(0, int(usage.prompt_tokens or 0)),
            max(0, int(usage.completion_tokens or 0)),
        )
    except (AttributeError, IndexError, TypeError, ValueError):
        raise Failed(f"{model}: answered with something else than text", is_unsure=True) from None
    # a lone surrogate could be neither stored nor sent
    words = str(text or "").encode(errors="replace").decode()
    is_cut = choice.finish_reason == "length" or len(words) > MOST_TEXT
    return Reply(words[:MOST_TEXT], counted, is_cut=is_cut)


def _failure(model: str, error: Exception, timeout_s: float) -> Failed:
    """Return litellm's error in our own words, with its fix."""
    chain = list(_causes(error))
    causes = {type(cause).__name__ for cause in chain}
    status = getattr(error, "status_code", None)
    # litellm gives failures without an answer a status of its own; a real answer has headers
    headers: Mapping[str, str] | None = getattr(error, "litellm_response_headers", None)
    if causes & _NOT_REACHED:
        return Failed(
            f"{model}: ConnectError: is its server running, and where `llm.api_base` or its own "
            "variable says?",
            is_worth_repeating=True,
        )
    if "Timeout" in causes:
        return Failed(
            f"{model}: Timeout: no answer within {timeout_s:g} s",
            is_worth_repeating=True,
            is_unsure=True,
        )
    is_keyless = headers is None and any(_KEYLESS.search(str(cause)) for cause in chain)
    if is_keyless or causes & _MISUSED:
        return Failed(
            f"{model}: {type(error).__name__}: nothing was sent: is its key set in the "
            "provider's own variable, e.g. OPENAI_API_KEY, and is `llm.api_base` a URL?"
        )
    if headers is None and status in (None, 500):
        return Failed(
            f"{model}: {type(error).__name__}: the connection was cut, or the answer was no answer",
            is_worth_repeating=True,
            is_unsure=True,
        )
    return _status_failure(model, error, status, headers or {})


_NOT_REACHED = frozenset(("ConnectError", "ConnectTimeout", "ConnectionRefusedError"))
_MISUSED = frozenset(("UnsupportedProtocol", "InvalidURL", "LocalProtocolError", "ImportError"))
_KEYLESS = re.compile(r"missing.{0,30}(?:credentials|api.key)", re.IGNORECASE)


def _status_failure(
    model: str, error: Exception, status: object, headers: Mapping[str, str]
) -> Failed:
    """Return the error of a provider that was reached and did not answer."""
    name = f"{model}: {type(error).__name__}"
    match status:
        case 429 if getattr(error, "code", None) != "insufficient_quota":
            wait_s = _seconds(headers.get("retry-after"))
            wait = "" if wait_s is None else f", asks to wait {wait_s:g} s"
            return Failed(
                f"{name}: too many requests{wait}", is_worth_repeating=True, wait_s=wait_s
            )
        case 429:
            return Failed(f"{name}: its account has nothing left to spend")
        case 401 | 403:
            return Failed(
                f"{name}: the key is missing or was refused: set it in the provider's own "
                "variable, e.g. OPENAI_API_KEY"
            )
        case 404:
            return Failed(f"{name}: there is no such model: is it pulled, is its name right?")
        case int() if status >= 500 or status == 408:
            return Failed(f"{name}: its server failed ({status})", is_worth_repeating=True)
        case _:
            return Failed(
                f"{name}: the request was refused ({status}): is the model named provider/model?",
                is_refused=True,
            )


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After; None without one, or for a date, which is rare."""
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _litellm() -> Any:
    """Return litellm, imported when first needed: that takes two seconds and 165 MB."""
    # or it fetches a price list, and which headers a provider knows
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    logging.getLogger("LiteLLM").disabled = True  # its messages may quote a prompt
    warnings.filterwarnings("ignore", "Pydantic serializer", UserWarning)  # and this an answer
    require("litellm", ModelError)
    import litellm as module

    litellm: Any = module  # its own types are incomplete
    litellm.suppress_debug_info = True  # else it prints advice to standard output
    litellm.telemetry = False
    # it takes `max_retries=0` for none given, and tries three times: so would the time be spent
    litellm.DEFAULT_MAX_RETRIES = 0
    return litellm

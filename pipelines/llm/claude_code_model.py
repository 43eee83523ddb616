"""
Claude Code as a model: `claude -p` without its agent features.

It reads its user's settings file, because a login may be there (`apiKeyHelper`, `env`). Safe mode
leaves out hooks, CLAUDE.md, skills, plugins, MCP servers and memory, no tool is offered, and no
transcript is written: neither our hooks nor our imports see a call. The real program (2.1.330) does
three more things, which are switched off here:

- It opens a file with a path after an "@" in the prompt, and sends it, also without tools.
- It repeats a request with an answer cut off, empty or refused, up to three times. It checks a
  limit in dollars after each request, so a limit below any cost allows a single request. Each run
  then ends in `error_max_budget_usd`, and the answer is the message before that.
- It adds the user's output style to a system prompt given by us.

https://code.claude.com/docs/en/cli-reference, https://code.claude.com/docs/en/env-vars,
https://code.claude.com/docs/en/authentication.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.llm.program import Call, Exit
from pipelines.llm.provider import MOST_ANSWER_TOKENS, Failed, Reply, Usage

_ONE_REQUEST_USD = "0.000001"
_OVERHEAD = 2_000  # tokens at most: it adds its identity, the folder, the system and the date

# the name of its API's error, our description, and whether to try again
_ERRORS = {
    "billing_error": ("its account has nothing left to spend", False),
    "rate_limit": ("too many requests, or the limit of its plan is reached", True),
    "overloaded": ("its server failed", True),
    "server_error": ("its server failed, or was not reached", True),
    "model_not_found": (
        "there is no such model, or its login may not use it: name one as claude-code/MODEL",
        False,
    ),
}
_LOGIN = frozenset(("authentication_failed", "oauth_org_not_allowed"))


def call(
    path: str,
    folder: Path,
    *,
    model: str,
    instructions: str,
    schema: dict[str, Any] | None,
) -> Call:
    """Return the command that runs Claude Code for one answer; its files go to `folder`.

    The schema is in the instructions: as an option it would give the model a tool to answer with.
    """
    (folder / "instructions.md").write_text(instructions, encoding="utf-8")
    (folder / "settings.json").write_text(json.dumps(_SETTINGS), encoding="utf-8")
    words = (
        *(path, "-p", *((f"--model={model}",) if model else ())),
        *("--output-format", "stream-json", "--verbose"),
        *("--safe-mode", "--setting-sources", "user", "--strict-mcp-config", "--tools", ""),
        *("--no-session-persistence", "--max-budget-usd", _ONE_REQUEST_USD),
        *("--system-prompt-file", str(folder / "instructions.md")),
        *("--settings", str(folder / "settings.json")),
    )
    return Call(words, {name: value for name, value in os.environ.items() if name not in _SESSION})


# A session of Claude Code gives these to what it starts, our server and commands among them; 2.1.39
# and later versions that find the first refuse to start: https://github.com/anthropics/claude-code/issues/32618
_SESSION = frozenset(("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"))

# they come before the user's own
_SETTINGS = {
    "outputStyle": "default",
    "disableAllHooks": True,
    "permissions": {"deny": ["Read"]},  # holds for files named with an "@", too
    "env": {
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MOST_ANSWER_TOKENS),
        "MAX_THINKING_TOKENS": "0",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
}


def overhead(instructions: str) -> int:
    """Return the maximum number of tokens that Claude Code adds to a request."""
    return _OVERHEAD


def reply(model: str, end: Exit) -> Reply:
    """Return the answer of a run; raise Failed, without a word of the prompt in it."""
    events = end.events
    result = next((event for event in reversed(events) if event.get("type") == "result"), None)
    if result is None and "unknown option" in end.err:
        raise Failed(f"{model}: this Claude Code is too old for it: run `claude update`")
    if result is None:
        raise Failed(f"{model}: ended with code {end.code} and no answer", is_unsure=True)
    usage = _usage(result)
    messages = [event for event in events if event.get("type") == "assistant"]
    if error := next((str(message["error"]) for message in messages if message.get("error")), None):
        raise _failure(model, error, usage)
    if result.get("stop_reason") == "refusal":
        raise Failed(f"{model}: the model refused to answer", usage=usage)
    if result.get("is_error") and result.get("subtype") != "error_max_budget_usd":
        raise Failed(f"{model}: ended with an error of its own", usage=usage)
    return Reply("".join(_texts(messages)), usage, is_cut=result.get("stop_reason") == "max_tokens")


def _failure(model: str, error: str, usage: Usage) -> Failed:
    if error in _LOGIN:
        return Failed(
            f"{model}: not logged in, or the login was refused: run `claude`, and `/login` in it; "
            "a key in ANTHROPIC_API_KEY comes before a login",
            usage=usage,
        )
    why, is_worth_repeating = _ERRORS.get(error, ("the request was refused", False))
    return Failed(f"{model}: {why}", is_worth_repeating=is_worth_repeating, usage=usage)


def _texts(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        content = message.get("message", {}).get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "text":
                yield str(block.get("text", ""))


def _usage(result: dict[str, Any]) -> Usage:
    """Return the usage of all models of a run; the dollars are at list price, also under a plan."""
    by_model = result.get("modelUsage")
    usages = by_model.values() if isinstance(by_model, dict) else ()
    inputs = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return Usage(
        sum(int(_number(usage, name)) for usage in usages for name in inputs),
        sum(int(_number(usage, "outputTokens")) for usage in usages),
        _number(result, "total_cost_usd"),
    )


def _number(usage: object, name: str) -> float:
    value = usage.get(name) if isinstance(usage, dict) else None
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0

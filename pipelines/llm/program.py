"""
Models behind an agent's own program: Claude Code or Codex, with the login its user has there.

The program runs once, in a temporary folder. The question goes in over standard input, so no
process list shows it. `claude_code_model` and `codex_model` know what each program adds to a
request, leaves behind and reports of its cost.
"""

import tempfile
from pathlib import Path
from typing import Any, Protocol

from pipelines.llm import child, claude_code_model, codex_model
from pipelines.llm.child import Call, Exit
from pipelines.llm.provider import MOST_TEXT, Failed, Message, Reply
from store.home.model_programs import ModelProgram


class _Dialect(Protocol):
    """How one program is asked; each is a module."""

    def call(
        self,
        path: str,
        folder: Path,
        *,
        model: str,
        instructions: str,
        schema: dict[str, Any] | None,
        most_tokens: int,
    ) -> Call: ...

    def overhead(self, instructions: str) -> int: ...

    def reply(self, model: str, end: Exit) -> Reply: ...


def complete(
    program: ModelProgram,
    model: str,
    messages: list[Message],
    *,
    schema: dict[str, Any] | None,
    most_tokens: int,
    timeout_s: float,
) -> Reply:
    """Ask once; return the reply. Raise Failed, without a key or a word of the prompt in it."""
    path = program.path
    if path is None:
        raise Failed(f"{model}: there is no program `{program.command}`: {program.cure}")
    dialect = _dialect(program)
    instructions, prompt = _flatten(messages)
    try:
        with tempfile.TemporaryDirectory(prefix="mnemolog-", ignore_cleanup_errors=True) as folder:
            call = dialect.call(
                path,
                Path(folder),
                model=model.partition("/")[2],
                instructions=instructions,
                schema=schema,
                most_tokens=most_tokens,
            )
            found = dialect.reply(model, child.run(call, prompt, timeout_s))
    except TimeoutError:
        raise Failed(
            f"{model}: no answer within {timeout_s:g} s: `llm.timeout_s` sets how long it may take",
            is_worth_repeating=True,
            is_unsure=True,
        ) from None
    except OSError as error:
        raise Failed(f"{model}: {path} cannot be run ({error.strerror}): {program.cure}") from None
    is_cut = found.is_cut or len(found.text) > MOST_TEXT
    return Reply(found.text[:MOST_TEXT], found.usage, is_cut)


def overhead(program: ModelProgram, messages: list[Message]) -> int:
    """Return the most tokens that a program adds to a question."""
    return _dialect(program).overhead(_flatten(messages)[0])


def _dialect(program: ModelProgram) -> _Dialect:
    return codex_model if program.name == "codex" else claude_code_model


def _flatten(messages: list[Message]) -> tuple[str, str]:
    """Return the instructions, and all that follows as one text."""
    texts = [
        f"You answered:\n{one['content']}" if one["role"] == "assistant" else one["content"]
        for one in messages[1:]
    ]
    return messages[0]["content"], "\n\n".join(texts)

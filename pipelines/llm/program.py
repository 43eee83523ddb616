"""
Models behind an agent's own program: Claude Code or Codex, with the login its user has there.

The program runs once, in a temporary folder, and is killed with all it started after a timeout. The
question goes in over standard input, so no process list shows it. A dialect (`claude_code_model`,
`codex_model`) knows its program's additions to a request, leftover files and cost reports.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipelines.llm.provider import MOST_TEXT, Failed, Message, Reply
from store.home.model_programs import ModelProgram


@dataclass(frozen=True, slots=True)
class Call:
    """The words of a command line, and its environment."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Exit:
    """The exit code and the output of a program."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON objects among the lines of its output, in order."""
        values = []
        for line in self.out.splitlines():
            with suppress(ValueError, RecursionError):
                values.append(json.loads(line))
        return [value for value in values if isinstance(value, dict)]


def run(call: Call, cwd: Path, question: str, timeout_s: float) -> Exit:
    """Run a program with a question on its standard input; return its exit.

    Raise TimeoutError where it takes longer, OSError where it cannot be started. Nothing of its
    process group is left in either case.
    """
    with subprocess.Popen(
        call.words,
        env=call.environ,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(question.encode(errors="replace"), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            kill_group(process)
    return Exit(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with its group, in a session of its own; nothing if all of it has ended."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Dialect(Protocol):
    """The interface to one program; each dialect is a module."""

    def call(
        self,
        path: str,
        folder: Path,
        *,
        model: str,
        instructions: str,
        schema: dict[str, Any] | None,
    ) -> Call: ...

    def overhead(self, instructions: str) -> int: ...

    def reply(self, model: str, end: Exit) -> Reply: ...


def complete(
    program: ModelProgram,
    dialect: Dialect,
    model: str,
    messages: list[Message],
    *,
    schema: dict[str, Any] | None,
    timeout_s: float,
) -> Reply:
    """Ask once; return the reply. Raise Failed, without a key or a word of the prompt in it."""
    path = program.path
    if path is None:
        raise Failed(f"{model}: there is no program `{program.command}`: {program.cure}")
    # the instructions are separate; all other messages are one text
    question = "\n\n".join(
        f"You answered:\n{message['content']}"
        if message["role"] == "assistant"
        else message["content"]
        for message in messages[1:]
    )
    try:
        with tempfile.TemporaryDirectory(prefix="mnemolog-", ignore_cleanup_errors=True) as folder:
            call = dialect.call(
                path,
                Path(folder),
                model=model.partition("/")[2],
                instructions=messages[0]["content"],
                schema=schema,
            )
            empty = Path(folder, "empty")
            empty.mkdir()
            reply = dialect.reply(model, run(call, empty, question, timeout_s))
    except TimeoutError:
        raise Failed(
            f"{model}: no answer within {timeout_s:g} s: `llm.timeout_s` sets how long it may take",
            is_worth_repeating=True,
            is_unsure=True,
        ) from None
    except OSError as error:
        raise Failed(f"{model}: {path} cannot be run ({error.strerror}): {program.cure}") from None
    is_cut = reply.is_cut or len(reply.text) > MOST_TEXT
    return Reply(reply.text[:MOST_TEXT], reply.usage, is_cut)

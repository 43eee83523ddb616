"""
Model programs: Claude Code and Codex, which jobs may call instead of a provider, with their user's
login.

`[llm]` names one as "claude-code" or "codex", for the model set in the program, or with a model of
its own ("claude-code/haiku"). Every other name in `[llm]` is litellm's.
"""

import re
import shutil
import subprocess

import msgspec

_PROGRAM_VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
_PATIENCE_S = 10.0


class ModelProgram(msgspec.Struct, frozen=True):
    """`name` is its name in `[llm]`, `command` its executable on the PATH; `has_cost` says whether
    it reports the dollars of a call.
    """

    name: str
    title: str
    command: str
    has_cost: bool

    @property
    def path(self) -> str | None:
        """The program's file; None if it is not on the PATH."""
        return shutil.which(self.command)

    @property
    def cure(self) -> str:
        """How to fix a missing program."""
        return (
            f"install {self.title}, so that `{self.command}` is on the PATH of whatever runs the "
            "job, or name another model in `[llm]`"
        )

    @property
    def description(self) -> str | None:
        """Its title, version and file; None if it is not on the PATH."""
        path = self.path
        if path is None:
            return None
        return f"{self.title} {_version(path) or 'of an unknown version'} ({path})"


PROGRAMS = (
    ModelProgram("claude-code", "Claude Code", "claude", has_cost=True),
    ModelProgram("codex", "Codex", "codex", has_cost=False),
)


def program_of(model: str) -> ModelProgram | None:
    """Return the program named by a model of `[llm]`; None for a provider's model."""
    name = model.partition("/")[0]
    return next((program for program in PROGRAMS if program.name == name), None)


def _version(path: str) -> str | None:
    """Return the version that a program reports; None if it reports none."""
    try:
        process = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _PROGRAM_VERSION.search(process.stdout.decode(errors="replace"))
    return match[0] if match and process.returncode == 0 else None

"""
What the agent did, written down in one append.

Of use later are what was run and edited, and that the memory was asked or told; what was only read
or searched is not kept, and a command that only looks waits for the next write. Of a tool's output
nothing is kept but the end of a failure.
"""

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply, ToolUse
from serve.hooks.paths import in_project
from serve.lessons import efforts
from store import frame
from store.agent_events import Acted

MAX_COMMAND = 1_000  # characters kept
MAX_ERROR = 600  # of the end of a failure
MAX_FILES = 20
_KEPT = frozenset({"run", "edit", "recall", "remember"})


def answered(call: Call) -> Reply:
    """Write down what was done; there is nothing to say to it."""
    tool = call.event.tool
    if tool is not None and tool.doing in _KEPT:
        acted = call.told(_acted(tool, call.event.cwd))
        if tool.command is not None and efforts.only_looks(tool.command):
            call.write_later(acted)
        else:
            call.write(acted)
    return SILENCE


def _acted(tool: ToolUse, cwd: str | None) -> Acted:
    if tool.is_ours:  # what it answered is in the log already
        return Acted(tool=tool.name, doing=tool.doing, passed=tool.passed)
    line = tool.command or ""
    passed = efforts.passed(line, tool.passed, tool.output)
    return Acted(
        tool=tool.name,
        doing=tool.doing,
        effort=efforts.effort(line),
        command=line[:MAX_COMMAND] or None,
        files=in_project(tool.files[:MAX_FILES], cwd),
        passed=passed,
        error=_end(tool.output) if passed is False else None,
    )


def _end(output: str) -> str | None:
    """Return the end of what a failed tool wrote, without any block of ours."""
    end = frame.strip(output)[-MAX_ERROR:].strip()
    return end or None

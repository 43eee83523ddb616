"""
What the agent did, written down in one append; what only looked waits for the next write.
"""

from collections.abc import Iterator
from pathlib import Path

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from serve.hooks.paths import in_project
from store.agents import efforts
from store.agents.tool_calls import ToolUse, action_event
from store.extracts import MAX_SOURCE

MAX_READ = 4  # edited files whose definitions are looked at


def answered(call: Call) -> Reply:
    """Write down what was done; there is nothing to say to it."""
    tool, cwd = call.event.tool, call.event.cwd
    kept = action_event(tool, in_project(tool.files, cwd), _sources(tool, cwd)) if tool else None
    if kept is None:
        return SILENCE
    is_look = kept.doing == "read" or (kept.command and efforts.only_looks(kept.command))
    if is_look:
        call.write_later(call.told(kept))
    else:
        call.write(call.told(kept))
    return SILENCE


def _sources(tool: ToolUse, cwd: str | None) -> Iterator[str]:
    """Yield what the files say that were just edited; none of one that is large or not ours."""
    for path in tool.files[:MAX_READ] if cwd is not None and tool.doing == "edit" else ():
        try:
            file = Path(cwd or "", path)
            if file.is_file() and file.stat().st_size <= MAX_SOURCE:
                yield file.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):  # gone, not ours to read, or no path
            continue

"""
What the agent did, written down in one append.
"""

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from store.agent_events import Acted


def answered(call: Call) -> Reply:
    """Write down what was done; there is nothing to say to it."""
    tool = call.event.tool
    if tool is not None:
        call.write(call.told(Acted(tool=tool.name, command=tool.command, files=tool.files)))
    return SILENCE

"""
The lesson that names the command or file a tool is about to touch.
"""

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply


def answered(call: Call) -> Reply:
    """Return the lesson that names what is about to be done, if there is one."""
    return SILENCE

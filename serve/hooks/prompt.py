"""
What is put before the model with a prompt: what the memory knows of it, or nothing.
"""

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from store.agent_events import Prompted


def answered(call: Call) -> Reply:
    """Return what the memory has to say to a prompt."""
    call.write_later(call.told(Prompted(prompt=call.event.prompt[:2_000], turn=call.event.turn)))
    return SILENCE

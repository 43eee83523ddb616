"""
What a turn came to, once the agent stops.
"""

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from store.agent_events import SessionTold


def answered(call: Call) -> Reply:
    """Keep what the agent said last; nothing is said to it."""
    call.write_later(call.told(SessionTold(stage="stopped", said=call.event.said or None)))
    return SILENCE

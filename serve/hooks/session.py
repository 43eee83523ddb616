"""
What a session is given when it begins, or goes on after a compaction.
"""

from serve.hooks.call import Call
from serve.hooks.event import SILENCE, Reply
from store.agent_events import SessionTold


def answered(call: Call) -> Reply:
    """Return what a session is to know when it begins."""
    call.write_later(call.told(SessionTold(stage="started")))
    return SILENCE


def compacted(call: Call) -> Reply:
    """Keep the summary of what was compacted; nothing can be said at this moment."""
    call.write_later(call.told(SessionTold(stage="compacted", said=call.event.said or None)))
    return SILENCE


def ended(call: Call) -> Reply:
    """Keep that a session ended."""
    call.write_later(call.told(SessionTold(stage="ended")))
    return SILENCE

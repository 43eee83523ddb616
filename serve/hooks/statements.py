"""
The user's lasting words, kept at the prompt that says them, and ended by what contradicts them
(`store.agents.prompt_statements`); and what the user is told of it.
"""

from dataclasses import replace

from serve.hooks.call import Call
from serve.reader.filters import Filter
from serve.reader.reader import View
from serve.recall.context_block import short_id
from store.agents import prompt_statements
from store.log.event_kinds import STATEMENT, Forgotten, Recorded
from store.log.events import Event
from store.memories.memory import ACTIVE, Memory


def kept(call: Call, prompt: str, before: str, prompted: Event) -> list[Event]:
    """Return the events that keep what a prompt says that lasts; none if the user wants none."""
    if not call.choices.remember_words or "prompts" not in call.choices.record:
        return []
    return prompt_statements.statement_events(
        prompt, before, prompted, lambda: call.answered(lambda view: _standing(view, call.filter))
    )


def _standing(view: View, asked: Filter) -> list[Memory]:
    """Return the statements of the project, or of none, that hold."""
    those = replace(asked, kinds=(STATEMENT,))
    return [
        one
        for one in view.those(those.mask(view.snapshots.rows), those.accepts)
        if one.state == ACTIVE and one.kind == STATEMENT
    ]


def notice(events: list[Event]) -> str:
    """Return what the user is told of what was kept or ended, and how to take it back."""
    said = []
    for event in events:
        match event.body:
            case Recorded(content=content):
                short = content if len(content) <= 120 else content[:117] + "..."
                undo = f"mnemolog forget {short_id(event.id)}"
                said.append(f"kept: \u201c{short}\u201d (take it back: {undo})")
            case Forgotten():
                undo = f"mnemolog restore {short_id(event.subject)}"
                said.append(f"forgotten (bring it back: {undo})")
            case _:
                continue
    return f"mnemolog {'; '.join(said)}" if said else ""

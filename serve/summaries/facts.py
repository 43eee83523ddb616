"""
Facts: what is known of each entity, from when until when, and which memory says so.
"""

from typing import Any

import numpy as np

from serve.reader.view import View
from store.derived.facts import Fact, entity_name, facts_of, may_bear
from store.home.instants import isoformat
from store.memories.memory import Memory
from store.memories.table import NEVER

Known = tuple[Fact, Memory]


def known(view: View, project: str | None = None) -> list[Known]:
    """Return all facts, those that are over too, of a project and of none, by entity and relation.

    Without a project of every one. The newest state of the log counts, built or not.
    """
    mask = np.zeros(len(view.snapshots.rows), np.bool_)
    built = view.snapshots.facts
    if built is not None:
        mask[built.documents] = True
    else:  # keyed ones are found without it
        mask[view.snapshots.rows.memories.keys.documents] = True
    memories = view.select(mask, may_bear)
    found = [(fact, memories[fact.document]) for fact in facts_of(memories)]
    return [one for one in found if project is None or one[0].project in (None, project)]


def held(found: list[Known], at: int | None, entity: str | None = None) -> list[Known]:
    """Return those facts that held at a moment (None: at any), of one entity or of all."""
    named = None if entity is None else entity_name(entity)
    return [
        one
        for one in found
        if (at is None or one[0].holds_at(at)) and (named is None or one[0].entity == named)
    ]


def shown(one: Known) -> dict[str, Any]:
    """Return a fact as it is sent; `until` is null for what still holds."""
    fact, memory = one
    return {
        "entity": fact.entity,
        "relation": fact.relation,
        "value": fact.value,
        "since": isoformat(fact.valid_from),
        "until": isoformat(fact.valid_to) if fact.valid_to < NEVER else None,
        "singleton": fact.is_singleton,
        "id": memory.id,
        "source_ids": list(memory.source_ids),
        "project": memory.project,
        "said_by": memory.created_by or memory.trust,
        "trust": memory.trust,
        "text": memory.content,
    }

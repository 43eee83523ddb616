"""Which tier of models a job is to ask, as the router's served policy says."""

import msgspec

from pipelines.jobs.context import Context
from store.derived.routes import Routes
from store.log.event_kinds import ModelTier
from store.routing import Policy, state


def tier_for(context: Context, mode: str | None = None) -> ModelTier:
    """Return the tier for work on something of a task mode, or of none in particular."""
    return tier_of(Routes(context.tables("routes")).policy(), mode)


def tier_of(policy: Policy, mode: str | None = None) -> ModelTier:
    """Return the tier that a policy, whole, has for a task mode."""
    found: ModelTier = msgspec.convert(policy[state(mode)]["llm"], ModelTier)
    return found

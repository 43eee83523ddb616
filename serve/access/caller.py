"""
Caller: who asks, which memory is theirs, and what they may do in it.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

OWNER_NAME = "owner"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `tenant` None: every tenant is theirs, and only the owner's token says so.

    `token_id` names the token that was shown, as the journal of what was done does.
    """

    name: str
    tenant: str | None
    scopes: frozenset[Scope]
    token_id: str | None = None

    @property
    def is_owner(self) -> bool:
        return self.tenant is None

    def may(self, scope: Scope) -> bool:
        """Return whether they may do what asks for a scope; `admin` may do all in its tenant."""
        return scope in self.scopes or "admin" in self.scopes

    def tenant_for(self, named: str | None) -> str | None:
        """Return the tenant that is meant: a token's own beats whatever is named."""
        return self.tenant or named


OWNER = Caller(OWNER_NAME, None, frozenset(SCOPES))

"""
Caller: who asks, which memory is theirs, and what they may do in it.
"""

from dataclasses import dataclass

from store.tokens import SCOPES, Scope, Token

__all__ = ["OWNER", "OWNER_NAME", "SCOPES", "Caller", "Scope", "of_token"]

OWNER_NAME = "owner"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `tenant` None: every tenant is theirs, and only the owner's token says so.

    `token_id` names the token that was shown, as the journal of what was done does; `per_minute`
    is how often it may ask, None: without limit.
    """

    name: str
    tenant: str | None
    scopes: frozenset[Scope]
    token_id: str | None = None
    per_minute: int | None = None

    def __post_init__(self) -> None:
        is_whole = self.name == OWNER_NAME and self.token_id is None
        if self.tenant == "" or (self.tenant is None and not is_whole):
            raise ValueError("only the owner has every tenant: name one")

    @property
    def is_owner(self) -> bool:
        return self.tenant is None

    @property
    def is_here(self) -> bool:
        """Whether a folder they name is one of this machine's that may be looked into.

        A tenant's token may be shown from another machine, and opens no more than its tenant.
        """
        return self.token_id is None

    def may(self, scope: Scope) -> bool:
        """Return whether they may do what asks for a scope; `admin` may do all in its tenant."""
        return scope in self.scopes or "admin" in self.scopes

    def tenant_for(self, named: str | None) -> str | None:
        """Return the tenant that is meant: a token's own beats whatever is named."""
        return named if self.tenant is None else self.tenant


OWNER = Caller(OWNER_NAME, None, frozenset(SCOPES))


def of_token(token: Token) -> Caller:
    """Return who shows a token."""
    return Caller(
        token.name or token.id, token.tenant, frozenset(token.scopes), token.id, token.per_minute
    )

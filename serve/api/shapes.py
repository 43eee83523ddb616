"""
Shapes: the parameters and answers that several operations share.

An answer is sent as the functions behind it made it; its shape here is what the API's document
says of it, and a test holds every answer to its shape.
"""

import msgspec

from serve.fields import ProjectName, TenantName
from store.log.commands import Draft


class InTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of what concerns one tenant."""

    tenant: TenantName | None = None


class InProject(InTenant, frozen=True, kw_only=True):
    project: ProjectName | None = None


class SentDraft(Draft, frozen=True, kw_only=True):
    """A memory as a caller asks for it: what is recorded, and whose it is."""

    made: None = None  # is for jobs to say

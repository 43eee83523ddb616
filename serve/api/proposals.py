"""
Proposals: pending decisions for a person, each with its diff, and the answer to it.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from mnemolog.wire import Proposal, Proposals
from msgspec import Meta

from serve.api.operation import Call, Nothing, Operation, Reply
from serve.api.parameters import InProject, InTenant
from serve.reader.request_fields import Reason, TenantName
from serve.reports import proposal_rendering
from store.home.projects import holds_in, optional_project
from store.plans import proposals
from store.plans.proposals import Sort, State
from store.plans.setting_changes import needs_build


class OfProposals(InProject, frozen=True, kw_only=True):
    state: Annotated[State, Meta(description="Only in this state.")] | None = None
    category: (
        Annotated[Sort, Meta(description="Only plans, recommendations or lessons.")] | None
    ) = None
    sort: Annotated[Sort, Meta(description="The old name of `category`, which wins.")] | None = None
    limit: Annotated[int, Meta(description="The maximum number.", ge=1, le=1_000)] = 100


Steps = Annotated[
    tuple[Annotated[int, Meta(ge=0)], ...],
    Meta(description="Only these steps of a plan, by their place from 0.", min_length=1),
]


class Answered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The taking back of a yes."""

    tenant: TenantName | None = None


class Acceptance(Answered, frozen=True, kw_only=True):
    """A yes, to all that waits or to some steps."""

    steps: Steps | None = None


class Rejection(Answered, frozen=True, kw_only=True):
    """A no, to all that waits or to some steps."""

    reason: Reason | None = None
    steps: Steps | None = None


def list_proposals(call: Call[OfProposals, Nothing]) -> Reply:
    query = call.query
    project = optional_project(query.project)
    category = query.category or query.sort
    listed = [
        proposal
        for proposal in proposals.every(call.tenant.log, query.state, category)
        if holds_in(proposal.project, project)
    ]
    first = [proposal_rendering.proposal_summary(proposal) for proposal in listed[: query.limit]]
    return Reply({"proposals": first, "more": len(listed) - len(first)})


def show_proposal(call: Call[InTenant, Nothing]) -> Reply:
    return Reply(
        proposal_rendering.proposal_fields(proposals.find(call.tenant.log, call.path["id"]))
    )


def accept(call: Call[Nothing, Acceptance]) -> Reply:
    log, id_, chosen = call.tenant.log, call.path["id"], call.body.steps
    accepted = proposals.accept(log, id_, call.now, chosen, author="program")
    if needs_build(accepted.made):
        call.service.tenants.build_now(call.tenant)  # the proposal takes effect with that build
    return Reply(proposal_rendering.proposal_fields(accepted))


def reject(call: Call[Nothing, Rejection]) -> Reply:
    log, id_, body = call.tenant.log, call.path["id"], call.body
    rejected = proposals.reject(log, id_, call.now, body.reason, body.steps)
    return Reply(proposal_rendering.proposal_fields(rejected))


def undo(call: Call[Nothing, Answered]) -> Reply:
    return Reply(
        proposal_rendering.proposal_fields(
            proposals.undo(call.tenant.log, call.path["id"], call.now)
        )
    )


OPERATIONS = (
    Operation(
        "GET",
        "/v1/proposals",
        "listProposals",
        "List what jobs proposed and its state, newest first.",
        list_proposals,
        tag="proposals",
        query=OfProposals,
        answers={HTTPStatus.OK: Proposals},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "GET",
        "/v1/proposals/{id}",
        "getProposal",
        "Show what a proposal would change, before and after.",
        show_proposal,
        tag="proposals",
        query=InTenant,
        answers={HTTPStatus.OK: Proposal},
        problems=("not_found", "invalid_name"),
    ),
    Operation(
        "POST",
        "/v1/proposals/{id}/accept",
        "acceptProposal",
        "Accept: all of it is applied, or the steps you name; repeating it changes nothing.",
        accept,
        "admin",
        tag="proposals",
        body=Acceptance,
        answers={HTTPStatus.OK: Proposal},
        problems=("not_found", "invalid_name", "plan_stale", "plan_refused", "conflict"),
    ),
    Operation(
        "POST",
        "/v1/proposals/{id}/reject",
        "rejectProposal",
        "Reject: the same is not proposed again.",
        reject,
        "admin",
        tag="proposals",
        body=Rejection,
        answers={HTTPStatus.OK: Proposal},
        problems=("not_found", "invalid_name", "conflict"),
    ),
    Operation(
        "POST",
        "/v1/proposals/{id}/undo",
        "undoProposal",
        "Undo an accepted proposal: the memory is as it was before.",
        undo,
        "admin",
        tag="proposals",
        body=Answered,
        answers={HTTPStatus.OK: Proposal},
        problems=("not_found", "invalid_name", "plan_stale", "conflict"),
    ),
)

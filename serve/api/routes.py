"""
The blueprint of the REST API: one route for each operation.
"""

from collections.abc import Callable

from flask import Blueprint

from serve.api import (
    changes,
    export,
    facts,
    goals,
    graph,
    ingest,
    jobs,
    listing,
    memories,
    proposals,
    recall,
    receipts,
    server,
    summaries,
    tenants,
)
from serve.api.operation import Operation, route
from serve.api.service import Service
from serve.server.open_tenants import OpenTenants

_OTHERS: tuple[Operation, ...] = (
    *recall.OPERATIONS,
    *memories.OPERATIONS,
    *listing.OPERATIONS,
    *changes.OPERATIONS,
    *export.OPERATIONS,
    *summaries.OPERATIONS,
    *facts.OPERATIONS,
    *goals.OPERATIONS,
    *graph.OPERATIONS,
    *proposals.OPERATIONS,
    *receipts.OPERATIONS,
    *ingest.OPERATIONS,
    *jobs.OPERATIONS,
    *tenants.OPERATIONS,
)
OPERATIONS = (*_OTHERS, *server.operations(_OTHERS))


def blueprint(tenants: OpenTenants, clock: Callable[[], int]) -> Blueprint:
    """Return the routes over open tenants. `clock` gives microseconds UTC."""
    routes = Blueprint("api", __name__)
    service = Service(tenants, clock)
    for operation in OPERATIONS:
        route(routes, operation, service)
    return routes

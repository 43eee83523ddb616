"""
The blueprint of the REST API: one route for each operation.
"""

from collections.abc import Callable

from flask import Blueprint

from serve.api import administration, ingest, memories, memory_lists, proposals, recall, summaries
from serve.api.operation import Operation, Service, route
from serve.server.open_tenants import OpenTenants

_OTHERS: tuple[Operation, ...] = (
    *recall.OPERATIONS,
    *memories.OPERATIONS,
    *memory_lists.OPERATIONS,
    *memories.CHANGE_OPERATIONS,
    *memory_lists.EXPORT_OPERATIONS,
    *summaries.OPERATIONS,
    *summaries.FACT_OPERATIONS,
    *summaries.GOAL_OPERATIONS,
    *summaries.GRAPH_OPERATIONS,
    *proposals.OPERATIONS,
    *recall.RECEIPT_OPERATIONS,
    *ingest.OPERATIONS,
    *ingest.JOB_OPERATIONS,
    *administration.OPERATIONS,
)
OPERATIONS = (*_OTHERS, *administration.server_operations(_OTHERS))


def blueprint(tenants: OpenTenants, clock: Callable[[], int]) -> Blueprint:
    """Return the routes over open tenants. `clock` gives microseconds UTC."""
    routes = Blueprint("api", __name__)
    service = Service(tenants, clock)
    for operation in OPERATIONS:
        route(routes, operation, service)
    return routes

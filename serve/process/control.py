"""
The routes by which a server is told apart from any other program, and told to end: the owner's.
"""

from collections.abc import Callable
from http import HTTPStatus

import msgspec
from flask import Blueprint, Response

from serve.gate import owner_only
from store.registry import Server


def blueprint(server: Server, end: Callable[[], None]) -> Blueprint:
    """Return the routes of a server; `end` is called when it is asked to stop, and returns."""
    routes = Blueprint("control", __name__)
    said = msgspec.json.encode(server)
    routes.before_request(owner_only)

    @routes.get("/v1/server")
    def who() -> Response:
        return Response(said, mimetype="application/json")

    @routes.post("/v1/server/stop")
    def stop() -> Response:
        end()
        return Response(said, HTTPStatus.ACCEPTED, mimetype="application/json")

    return routes

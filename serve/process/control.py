"""
The routes by which a server is told apart from any other program, and told to end: the owner's.
"""

from collections.abc import Callable
from http import HTTPStatus

import msgspec
from flask import Blueprint, Response, g

from serve.problem import problem
from store.registry import Server


def blueprint(server: Server, end: Callable[[], None]) -> Blueprint:
    """Return the routes of a server; `end` is called when it is asked to stop, and returns."""
    routes = Blueprint("control", __name__)
    said = msgspec.json.encode(server)

    @routes.before_request
    def only_the_owner() -> Response | None:
        if g.caller.is_owner:
            return None
        return problem("out_of_scope", "only the owner's token may do this")

    @routes.get("/v1/server")
    def who() -> Response:
        return Response(said, mimetype="application/json")

    @routes.post("/v1/server/stop")
    def stop() -> Response:
        end()
        return Response(said, HTTPStatus.ACCEPTED, mimetype="application/json")

    return routes

"""The hook route: `POST /v1/hooks/<host>` takes a host's raw event and answers as that host wants.

204 without a body is silence.
"""

from http import HTTPStatus

import msgspec
from flask import Blueprint, Response, request

from serve.hooks.answer import Hooks
from serve.hooks.hosts import HOSTS
from serve.hooks.hosts.payload import decoded
from store.errors import NotFound


def blueprint(hooks: Hooks) -> Blueprint:
    """Return the route over what answers hooks."""
    routes = Blueprint("hooks", __name__)

    @routes.post("/v1/hooks/<host>")
    def hook(host: str) -> Response:
        if host not in HOSTS:
            raise NotFound(f"no host {host!r}: there are {', '.join(sorted(HOSTS))}")
        payload = decoded(request.get_data(cache=False))
        answer = hooks.answer(HOSTS[host], payload, request.args.get("tenant"))
        if answer is None:
            return Response(status=HTTPStatus.NO_CONTENT)
        return Response(msgspec.json.encode(answer), mimetype="application/json")

    return routes

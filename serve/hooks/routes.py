"""The hook route: `POST /v1/hooks/<host>` takes a host's raw event and answers as that host wants.

204 without a body is silence.
"""

from http import HTTPStatus
from typing import Any

import msgspec
from flask import Blueprint, Response, request

from serve.hooks.answer import Hooks
from serve.hooks.hosts import HOSTS
from store.errors import InvalidInput, NotFound

_payload = msgspec.json.Decoder(dict[str, Any])


def blueprint(hooks: Hooks) -> Blueprint:
    """Return the route over what answers hooks."""
    routes = Blueprint("hooks", __name__)

    @routes.post("/v1/hooks/<host>")
    def hook(host: str) -> Response:
        if host not in HOSTS:
            raise NotFound(f"no host {host!r}: there are {', '.join(sorted(HOSTS))}")
        answer = hooks.answer(HOSTS[host], _asked(), request.args.get("tenant"))
        if answer is None:
            return Response(status=HTTPStatus.NO_CONTENT)
        return Response(msgspec.json.encode(answer), mimetype="application/json")

    return routes


def _asked() -> dict[str, Any]:
    try:
        return _payload.decode(request.get_data(cache=False))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the event is not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput("the event is nested too deeply") from error

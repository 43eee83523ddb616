"""The hook route: `POST /v1/hooks/<host>` takes a host's raw event and answers as that host wants.

204 without a body is silence. `X-Mnemolog-Off: 1` says that this run of the agent is not recorded.
`X-Mnemolog-Delivery` names a delivery of our client, which spools an event unless the answer has
`X-Mnemolog-Kept: 1`: the event is on the disk, or need not be.
"""

from http import HTTPStatus

import msgspec
from flask import Blueprint, Response, g, request

from serve.hooks.answer import Hooks
from serve.hosts import HOSTS
from serve.hosts.event import decode_payload
from serve.server.problems import problem
from store.home.errors import NotFound
from store.home.spool import parse_delivery

OFF_HEADER = "X-Mnemolog-Off"
DELIVERY_HEADER, KEPT_HEADER = "X-Mnemolog-Delivery", "X-Mnemolog-Kept"


def blueprint(hooks: Hooks) -> Blueprint:
    """Return the route that answers hooks."""
    routes = Blueprint("hooks", __name__)

    @routes.post("/v1/hooks/<host>")
    def hook(host: str) -> Response:
        if not (g.caller.may("read") and g.caller.may("write")):  # a hook reports and is answered
            return problem("out_of_scope", "a hook needs the scopes `read` and `write`")
        if host not in HOSTS:
            raise NotFound(f"unknown host {host!r}: choose from {', '.join(sorted(HOSTS))}")
        payload = decode_payload(request.get_data(cache=False))
        tenant = g.caller.tenant_for(request.args.get("tenant"))
        is_off = request.headers.get(OFF_HEADER) == "1"
        answer, is_kept = hooks.deliver(
            HOSTS[host],
            payload,
            tenant,
            is_here=g.caller.is_here,
            is_off=is_off,
            delivery=parse_delivery(request.headers.get(DELIVERY_HEADER, "")),
        )
        headers = {KEPT_HEADER: "1"} if is_kept else {}
        if answer is None:
            return Response(status=HTTPStatus.NO_CONTENT, headers=headers)
        return Response(msgspec.json.encode(answer), mimetype="application/json", headers=headers)

    return routes

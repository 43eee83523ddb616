"""
operations: schemathesis tries every operation of the API's document, in every way it knows.

All of its checks: generated valid requests are accepted, invalid ones are refused, every answer is
as declared, and sequences of calls (on a memory just made or just forgotten) are consistent.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import schemathesis
from api_memory import NOW
from flask import Flask
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.transport.wsgi import WSGITransport

from serve.api.blueprint import OPERATIONS
from serve.api.parameters import period
from serve.app import create_app
from serve.server.open_tenants import OpenTenants
from store.home.config import Settings
from store.home.errors import InvalidInput
from store.home.tenant import Tenant
from store.log import commands

# their address is also that of a memory with such an id
_TWO_ADDRESSES = ("searchMemories", "createMemories")
# a generated id may be a prefix of several ids, which is refused as the summaries say
_BY_PREFIX = [operation.id for operation in OPERATIONS if "{id}" in operation.path]
EXAMPLES = 200  # of each operation, at full scale
OURS = {"Authorization": "Bearer owner"}
_OF_SOCKETS = ("max_redirects", "verify", "cert", "proxies")
ACCEPTED = ["2xx", "3xx", "401", "403", "404", "409"]
KEYED = [*ACCEPTED, "412", "422"]
REFUSED = ["400", "401", "403", "404", "405", "409", "415", "422"]
_CONFIG: dict[str, Any] = {
    "seed": 7,
    "auth": {"openapi": {"token": {"bearer": "owner"}}},
    "generation": {"deterministic": True, "database": "none", "no-shrink": True},
    "checks": {
        # a generated entity tag matches no memory, a generated key may be used already
        "positive_data_acceptance": {"expected-statuses": KEYED},
        "negative_data_rejection": {"expected-statuses": [*REFUSED, "412"]},
    },
    "phases": {"stateful": {"max-steps": 6}},
    "operations": [
        {"include-operation-id": name, "checks": {"allow_header_conformance": {"enabled": False}}}
        for name in _TWO_ADDRESSES
    ]
    # an error in one item concerns that item alone: 202, and it is among the refused
    + [
        {
            "include-operation-id": "ingest",
            "checks": {"negative_data_rejection": {"enabled": False}},
        }
    ]
    # the id must be another memory's, or a prefix of one id alone: no schema can say so
    + [
        {
            "include-operation-id": name,
            "checks": {"positive_data_acceptance": {"expected-statuses": [*KEYED, "400"]}},
        }
        for name in _BY_PREFIX
    ]
    + [
        {
            # of any tenant, which schemathesis takes for the one made before
            "include-operation-id": "deleteTenant",
            "checks": {"ensure_resource_availability": {"enabled": False}},
        }
    ],
}


@contextmanager
def served(tenant: Tenant) -> Iterator[Flask]:
    """Yield the application over a tenant's home, without rate limits."""
    opened = OpenTenants(Settings(tenant.root.parent.parent))
    opened.start()
    try:
        # a clock of a thousand seconds a request
        yield create_app(
            opened,
            "owner",
            lambda: NOW,
            iter(range(0, 10**9, 1_000)).__next__,
            hook_deadline_s=30.0,
        )
    finally:
        opened.close()


def asked(app: Flask, examples: int) -> tuple[Counter[str], dict[str, str]]:
    """Return the number of requests by phase, and the failures by operation and check.

    `examples` are tried of each operation.
    """
    generation = _CONFIG["generation"] | {"max-examples": examples}
    config = SchemathesisConfig.from_dict(_CONFIG | {"generation": generation})
    sent: Counter[str] = Counter()
    problems: dict[str, str] = {}
    with patch.object(WSGITransport, "send", _in_process):
        schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", app, config=config)
        for event in from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                sent[event.phase.value] += len(event.recorder.interactions)
                problems |= dict(_faults(event.recorder))
            elif isinstance(event, events.NonFatalError):
                problems[f"{event.label}: {event.value!r}"] = ""
            elif isinstance(event, events.FatalError):
                raise event.exception
    there = app.test_client().get("/v1/tenants/default", headers=OURS)
    if there.status_code != 200:
        problems["the memory was there to the end"] = str(there.status_code)
    return sent, problems


_send = WSGITransport.send


def _in_process(self: WSGITransport, case: Any, **kwargs: Any) -> Any:
    """Drop the arguments for sockets: schemathesis 4.32 hands them to WSGI too, in some phases."""
    return _send(self, case, **{k: v for k, v in kwargs.items() if k not in _OF_SOCKETS})


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Repair a valid request where the document cannot express a rule.

    A period begins before it ends, a cursor comes from a previous page, a text has content.
    """
    if case.method == "DELETE" and case.path_parameters.get("tenant") == "default":
        case.path_parameters["tenant"] = "elsewhere"  # the tenant of all other requests stays
    if case.meta is not None and case.meta.generation.mode.is_negative:
        return
    query, body = case.query, case.body
    query.pop("cursor", None)
    if "If-Match" in case.headers:
        case.headers["If-Match"] = "*"
    if _is_reversed(query):
        del query["until"]
    if isinstance(body, dict):
        _mend(case.operation.definition.raw["operationId"], body)


def _mend(operation: str, body: dict[str, Any]) -> None:
    if _is_reversed(body):
        del body["until"]
    if isinstance(body.get("as_of"), int | float):  # 7.0 is an integer to JSON
        body["as_of"] = 1
    if body.get("as_of") is not None:
        body["cold"] = False
    if operation == "reviseMemory":
        body["pinned"] = True
    if isinstance(body.get("steps"), list):
        body["steps"] = [int(step) for step in body["steps"]]  # as is 7.0 here
    if operation == "createToken":
        body["name"] = "one line of text"
    if operation == "ingest":
        body.pop("turns" if body.get("memories") else "memories", None)
        if not body.get("turns") and not body.get("memories"):
            body["memories"] = [{"content": "We deploy on Mondays"}]
    memories = [memory for memory in body.get("memories") or () if isinstance(memory, dict)]
    for draft in (body, *memories):
        if "created_at" in draft and not _is_moment(draft["created_at"]):
            draft["created_at"] = None
        # to JSON Schema 5.0 is an integer
        draft |= {k: int(v) for k, v in draft.items() if isinstance(v, float) and v.is_integer()}
        if isinstance(draft.get("content"), str) and _is_junk(draft["content"]):
            draft["content"] = "We deploy on Mondays"


def _is_reversed(body: dict[str, Any]) -> bool:
    since, until = body.get("since"), body.get("until")
    try:
        period(since, until, NOW)
    except (InvalidInput, TypeError, AttributeError):
        return True
    return False


def _is_moment(moment: Any) -> bool:
    """Return True if a timestamp is in a supported year."""
    return moment is None or "1970" <= str(moment)[:4] <= "2100"


def _is_junk(text: str) -> bool:
    try:
        commands.check_text(text)
    except InvalidInput:
        return True
    return False


def _faults(recorder: ScenarioRecorder) -> Iterator[tuple[str, str]]:
    """Yield the failed checks, keyed by operation and check."""
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if (failure := check.failure_info) is not None:
                case = recorder.cases[case_id].value
                answer = recorder.interactions[case_id].response
                text = answer.text[:400] if answer is not None else ""
                name = f"{case.operation.label}: {check.name}"
                yield name, f"{failure.failure}\n{failure.code_sample}\n{text}"

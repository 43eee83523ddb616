"""The JSON routes: recall, rate, memories, overview, digest, history, lessons, health.

Each decodes, calls one function, encodes.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import msgspec
from flask import Blueprint, Response, request

from serve.answers import RateRequest, RecallRequest, all_of, answer
from serve.filters import Filter
from serve.lessons import standing
from serve.process.tenants import OpenTenant, OpenTenants
from serve.summaries import digest, history, overview
from store import commands
from store.commands import Draft
from store.errors import InvalidInput, NotFound
from store.events import micros
from store.log import Appended
from store.tenant import checked_project

DIGEST_US = 7 * 86_400 * 1_000_000  # a digest reaches back a week

Asked = TypeVar("Asked")


class NewMemory(Draft, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `POST /v1/memories` takes: a draft, and in whose memory."""

    tenant: str | None = None


class NewMemories(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `POST /v1/memories/batch` takes: all are recorded or none."""

    memories: Annotated[tuple[Draft, ...], msgspec.Meta(min_length=1, max_length=1_000)]
    tenant: str | None = None


# made once, before there are threads: msgspec 0.22 crashes where two meet a type for the first time
_recall = msgspec.json.Decoder(RecallRequest)
_rating = msgspec.json.Decoder(RateRequest)
_memory = msgspec.json.Decoder(NewMemory)
_memories = msgspec.json.Decoder(NewMemories)


def blueprint(tenants: OpenTenants, clock: Callable[[], int]) -> Blueprint:
    """Return the routes over open tenants."""
    routes = Blueprint("api", __name__)
    choices = tenants.settings.choices

    def named(name: str | None) -> OpenTenant:
        return tenants.get(name or choices.tenant)

    @routes.get("/health")
    def health() -> Response:
        return _json({"status": "ok", "version": version()})

    @routes.post("/v1/recall")
    def recall() -> Response:
        asked = _asked(_recall)
        tenant = named(asked.tenant)
        payload, receipt = answer(tenant.reader, tenants.embedder, asked, choices, clock())
        if receipt is not None:
            tenant.receipts.append(receipt)
        return _json(payload)

    @routes.post("/v1/rate")
    def rate() -> Response:
        asked = _asked(_rating)
        tenant = named(asked.tenant)
        tenant.write_receipts()  # the recall that is rated may be the one just answered
        rated = commands.rate(tenant.log, asked.id, asked.verdict, clock(), asked.reason)
        return _json({"id": asked.id, "seq": rated.seq}, HTTPStatus.CREATED)

    @routes.post("/v1/memories")
    def record() -> Response:
        draft = _asked(_memory)
        appended = commands.record(named(draft.tenant).log, draft, clock())
        status = HTTPStatus.CREATED if appended.is_new else HTTPStatus.OK
        return _json(_acknowledged(appended), status)

    @routes.post("/v1/memories/batch")
    def record_batch() -> Response:
        asked = _asked(_memories)
        done = commands.record_batch(named(asked.tenant).log, asked.memories, clock())
        return _json({"memories": [_acknowledged(one) for one in done]}, HTTPStatus.CREATED)

    @routes.get("/v1/memories/<id_>")
    def show(id_: str) -> Response:
        tenant = named(request.args.get("tenant"))
        return _json(tenant.reader.answered(lambda view: all_of(view, tenant.log, id_)))

    @routes.get("/v1/memories/<id_>/history")
    def history_of(id_: str) -> Response:
        reader = named(request.args.get("tenant")).reader
        found = reader.answered(lambda view: history.of_memory(view, id_))
        if not found:
            raise NotFound(f"no memory {id_!r}")
        return _json({"id": id_, "memories": [history.shown(one) for one in found]})

    @routes.get("/v1/keys/<path:key>/history")
    def history_of_key(key: str) -> Response:
        asked = request.args.get("project")
        project = checked_project(asked) if asked else None
        reader = named(request.args.get("tenant")).reader
        found = reader.answered(lambda view: history.of_key(view, key, project))
        if not found:
            raise NotFound(f"no memory has the key {key!r}")
        return _json({"key": key, "memories": [history.shown(one) for one in found]})

    @routes.get("/v1/overview")
    def overview_of() -> Response:
        project = request.args.get("project")
        asked = Filter(clock(), checked_project(project) if project else None)
        question = overview.about(request.args.get("topic", ""), asked, choices)
        reader = named(request.args.get("tenant")).reader
        found = reader.answered(lambda view: overview.overview(view, question, tenants.embedder))
        return _json(overview.shown(found))

    @routes.get("/v1/lessons")
    def lessons() -> Response:
        project = request.args.get("project")
        asked = Filter(clock(), checked_project(project) if project else None)
        tenant = named(request.args.get("tenant"))
        tenant.write_receipts()  # what was told until now is counted
        found = tenant.reader.answered(lambda view: standing.statistics(view, tenant.log, asked))
        return _json(standing.shown(found))

    @routes.get("/v1/digest")
    def digest_of() -> Response:
        now, project = clock(), request.args.get("project")
        asked = Filter(
            now,
            checked_project(project) if project else None,
            since=_moment("since", now - DIGEST_US),
            until=_moment("until", now),
        )
        tenant = named(request.args.get("tenant"))
        found = tenant.reader.answered(lambda view: digest.digest(view, tenant.log, asked))
        return _json(digest.shown(found, now))

    return routes


def _moment(name: str, otherwise: int) -> int:
    """Return the microseconds of an ISO 8601 moment in the query; raise InvalidInput."""
    given = request.args.get(name)
    if not given:
        return otherwise
    try:
        return micros(datetime.fromisoformat(given))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"`{name}` is no moment: send 2026-11-20 or 2026-11-20T13:00Z"
        ) from error


def _asked(decoder: "msgspec.json.Decoder[Asked]") -> Asked:
    try:
        return decoder.decode(request.get_data(cache=False))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput("the body is nested too deeply") from error


@cache
def version() -> str:
    from importlib import metadata  # 20 ms of a start

    try:
        return metadata.version("mnemolog")
    except metadata.PackageNotFoundError:  # run from a checkout that was not installed
        return "unknown"


def _acknowledged(appended: Appended) -> dict[str, Any]:
    return {"id": appended.event.id, "seq": appended.event.seq, "new": appended.is_new}


def _json(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(value), status, mimetype="application/json")

"""
Receipts: the recalls of a tenant, their hits and ratings; and the recall lab.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, render_template, request

from serve.api.parameters import decode_cursor, encode_cursor, filter_digest
from serve.dashboard.page_context import Site, is_part, tenant_url
from serve.evaluation import lab
from serve.evaluation.lab import (
    LabQuestion,
    answer_side,
    compare_hits,
    find_unsaid,
    parse_parameters,
    preview_prompt_hook,
)
from serve.formatting import ANSWER_LABELS, DROPPED_LABELS, EVIDENCE_LABELS, parse_time
from serve.reader.memory_json import line_json
from serve.reader.reader import Known
from serve.reader.view import View
from serve.reports.lineage import derivatives_of
from serve.reports.listing import Position
from serve.reports.receipts import receipt_fields, receipt_summary
from serve.reports.usefulness import CHARACTERS
from serve.server.open_tenants import OpenTenant
from store.home.config import Choices
from store.home.errors import InvalidInput
from store.home.instants import DAY, isoformat, micros
from store.home.projects import optional_project
from store.log import commands, log_queries, receipts
from store.log.event_kinds import MEMORY_KINDS, TIERS, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.log.receipts import Place, Wanted

SHOWN = 30
NOTES = 3  # memories shown of a recall
LOOKED_AT = 4_000  # receipts read for a page, which must load within 100 ms
_FILTERS = ("memory", "through", "project", "session", "silent", "after")
_SILENT = {"": None, "silent": True, "near": True, "told": False}
VERDICTS = {"helped": 1.0, "harmed": -1.0}


def recalls_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("recalls", __name__)

    @pages.get("/t/<tenant>/recalls")
    def index(tenant: str) -> tuple[str, int]:
        """Show the page, or only its list to a script that follows it."""
        opened = site.tenant(tenant)
        filters = {name: request.args.get(name, "").strip() for name in _FILTERS}
        rows, following, error = [], "", ""
        try:
            wanted = _receipt_filter(opened, filters)
            after: Place | None = None
            if filters["after"]:
                value, seq = decode_cursor(filters["after"], _filters_digest(filters))
                after = value, seq
            part = receipts.page(opened.log, wanted, SHOWN, after, LOOKED_AT)
            rows = receipt_rows(opened, part.receipts, filters["memory"] or None)
            following = _next_url(part.last, filters) if part.last else ""
        except InvalidInput as wrong:
            error = str(wrong)
        page = render_template(
            "recalls_found.html" if is_part() else "recalls.html",
            asked=filters,
            rows=rows,
            next=following,
            error=error,
            looked=LOOKED_AT,
        )
        return page, 400 if error else 200

    @pages.get("/t/<tenant>/recall/<id_>")
    def show(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        receipt = receipts.find(opened.log, id_)
        payload = opened.reader.answer(lambda view: receipt_fields(view, opened.log, receipt))
        dropped = [(DROPPED_LABELS.get(name, name), n) for name, n in payload["dropped"].items()]
        is_silent = payload["door"] == "prompt" and not payload["hits"]
        return render_template(
            "recall.html",
            one=payload,
            at=receipt.at,
            dropped=dropped,
            tokens=_tokens(receipt),
            is_silent=is_silent,
            unsaid=find_unsaid(opened, receipt, site.settings.choices, site.clock())[:NOTES]
            if is_silent
            else (),
        )

    @pages.post("/t/<tenant>/recall/<id_>/rate")
    def rate(tenant: str, id_: str) -> Response:
        """Rate a recall as a whole."""
        opened, text = site.tenant(tenant), request.form.get("verdict", "")
        if text not in VERDICTS:
            raise InvalidInput(f"a recall {' or '.join(VERDICTS)}, not {text!r}")
        receipts.find(opened.log, id_)
        commands.rate(opened.log, id_, VERDICTS[text], site.clock())
        return site.redirect(tenant_url("recalls.show", id_=id_), f"noted that it {text}")

    return pages


def recalls_of_memory(
    opened: OpenTenant, id_: str, limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest recalls that returned a memory, and True if there may be older ones."""
    page = receipts.page(opened.log, Wanted(memories=(id_,)), limit, most=LOOKED_AT)
    return receipt_rows(opened, page.receipts, id_), page.last is not None


def receipt_rows(
    opened: OpenTenant, events: Sequence[Event], memory: str | None = None
) -> list[dict[str, Any]]:
    """Return receipts as lines of a list, with the first memories that each returned.

    `moment` is microseconds UTC; `tokens`, the approximate number given to a model, is None for
    none.
    """

    def read(view: View) -> list[dict[str, Any]]:
        return [
            receipt_summary(opened.log, event, memory)
            | {
                "moment": event.at,
                "tokens": _tokens(event),
                "notes": [  # as they are now, without those that are gone
                    line_json(note)
                    for hit in event.body.hits[:NOTES]
                    if (note := view.tail.find(hit.id)) is not None
                ],
            }
            for event in events
            if isinstance(event.body, Recalled)
        ]

    return opened.reader.answer(read)


def _tokens(receipt: Event) -> int | None:
    body = receipt.body
    length = body.characters if isinstance(body, Recalled) else None
    return math.ceil(length / CHARACTERS) if length else None


def _receipt_filter(opened: OpenTenant, filters: dict[str, str]) -> Wanted:
    """Return the filter of a form; `through` adds the receipts of a memory's derivatives."""
    if filters["silent"] not in _SILENT:
        raise InvalidInput("`silent` is silent, near or told")
    memory, derivatives = filters["memory"], []
    if filters["through"]:
        derivatives = opened.reader.answer(partial(derivatives_of, id_=memory))
    return Wanted(
        memories=(memory, *derivatives) if memory else (),
        project=optional_project(filters["project"]),
        session=filters["session"] or None,
        silent=_SILENT[filters["silent"]],
        near=filters["silent"] == "near",
    )


def _next_url(last: Place, filters: dict[str, str]) -> str:
    query = {name: value for name, value in filters.items() if value and name != "after"}
    after = encode_cursor(Position(*last), _filters_digest(filters))
    return tenant_url("recalls.index", **query, after=after)


def _filters_digest(filters: dict[str, str]) -> str:
    """Return a digest of the filters: a cursor is refused with others."""
    return filter_digest("recalls", {name: filters[name] for name in _FILTERS if name != "after"})


# Recall lab: a question under one or two settings, stage by stage.
#
# The address defines the experiment: opening it repeats the query. Reading writes nothing, not
# even a receipt, and calls no language model.

MOST_PROJECTS = 200  # that can be chosen from


def lab_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("lab", __name__)

    @pages.get("/t/<tenant>/lab")
    def index(tenant: str) -> str:
        opened, now, usual = site.tenant(tenant), site.clock(), site.settings.choices
        question = parse_parameters(request.args, usual)
        projects = opened.reader.answer(_projects)
        if question.project not in (lab.ANY, lab.NONE, *projects):
            projects.append(question.project)
        project = "" if question.project in (lab.ANY, lab.NONE) else question.project
        with _known(opened, question, usual, now) as (there, known):
            answers = [
                answer_side(known.reader, question, side, usual, known.now)
                for side in (question.a, question.b)
                if question.query and side is not None
            ]
            unasked = (
                preview_prompt_hook(there, question.query, project, usual, known.now)
                if question.query
                else None
            )
        return render_template(
            "lab.html",
            asked=question,
            unasked=unasked,
            known=known,
            b=question.b or question.a,
            found=answers,
            compared=compare_hits(answers[0].hits, answers[1].hits) if len(answers) == 2 else None,
            link=f"{tenant_url('lab.index')}?{urlencode(lab.link(question, usual))}",
            projects=projects,
            life=_life(opened.log, now),
            asking=lab,
            kinds=MEMORY_KINDS,
            tiers=TIERS,
            spoken=EVIDENCE_LABELS,
            dropped=DROPPED_LABELS,
            wants=ANSWER_LABELS,
        )

    return pages


@contextmanager
def _known(
    opened: OpenTenant, question: LabQuestion, usual: Choices, now: int
) -> Iterator[tuple[OpenTenant, Known]]:
    """Open the memory to query: as it was known on a day, or as it is.

    A day before the first event counts as that of the first event.
    """
    if not (question.query and question.known and question.as_of):
        yield opened, Known(opened.tenant, opened.log, opened.reader, usual, now)
        return
    day = micros(parse_time(question.as_of, now))
    is_first = day <= (log_queries.time_of(opened.log, 1) or now)
    with opened.known_at(1 if is_first else question.as_of, usual, now) as then:
        yield OpenTenant(then.tenant, then.log, then.reader), then


def _projects(view: View) -> list[str]:
    names: list[str] = view.snapshots.rows.projects.column("name").to_pylist()
    return sorted(names)[:MOST_PROJECTS]


def _life(log: EventLog, now: int) -> dict[str, object]:
    """Return the first and last day of the log, and the number of days between."""
    first = min(log_queries.time_of(log, 1) or now, now)
    days = now // DAY - first // DAY
    return {"first": isoformat(first)[:10], "last": isoformat(now)[:10], "days": days}

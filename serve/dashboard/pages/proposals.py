"""
Proposals: plans, recommendations and drafts of lessons as diffs; accepted, rejected, taken back.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

from flask import Blueprint, Response, render_template, request

from serve.dashboard.flashes import Undo
from serve.dashboard.sites import Site, back, tenant_url
from serve.dashboard.wording import pretty
from serve.reader.reader import View
from serve.server.open_tenants import OpenTenant
from serve.summaries import proposals
from serve.summaries.proposals import Changed, Proposal, State
from store.home.errors import InvalidInput
from store.memories.memory import Memory

SHOWN = 100  # proposals, or steps of one, at once
STATES: tuple[State, ...] = get_args(State)
_ANSWERS = {"accept": proposals.accept, "reject": proposals.reject, "undo": proposals.undo}
_SAID = {
    "accept": "Accepted: it is done.",
    "reject": "Rejected: the same is not proposed again.",
    "undo": "Taken back.",
}


def blueprint(site: Site) -> Blueprint:
    pages = Blueprint("proposals", __name__)

    @pages.get("/t/<tenant>/proposals")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        wanted = request.args.get("state", "waiting")
        if wanted not in (*STATES, "all"):
            raise InvalidInput(f"there is no state {wanted!r}: there are {', '.join(STATES)}, all")
        start, found = max(0, request.args.get("from", 0, int)), proposals.every(opened.log)
        of_state = [one for one in found if wanted in (one.state, "all")]
        counts = Counter(one.state for one in found)
        return render_template(
            "proposals.html",
            wanted=wanted,
            tabs=[*((name, counts[name]) for name in STATES), ("all", len(found))],
            proposals=of_state[start : start + SHOWN],
            next=_from(wanted, start + SHOWN) if start + SHOWN < len(of_state) else "",
            first=_from(wanted, 0) if start else "",
        )

    @pages.get("/t/<tenant>/proposals/<id_>")
    def show(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        one, start = proposals.find(opened.log, id_), max(0, request.args.get("from", 0, int))
        end, here = start + SHOWN, tenant_url("proposals.show", id_=id_)
        shown = proposals.steps(one, start, SHOWN)
        return render_template(
            "proposal.html",
            one=one,
            steps=shown,
            trusts=_trusts(opened, one, shown),
            start=start,
            next=f"{here}?from={end}" if end < len(one.made) else "",
            first=here if start else "",
            words=_words,
        )

    @pages.post("/t/<tenant>/proposals/<id_>")
    def answer(tenant: str, id_: str) -> Response:
        opened = site.tenant(tenant)
        word = request.form.get("answer", "")
        if word not in _ANSWERS:
            raise InvalidInput(f"answer {', '.join(_ANSWERS)}, not {word!r}")
        _ANSWERS[word](opened.log, id_, site.clock())
        here = tenant_url("proposals.show", id_=id_)
        action = tenant_url("proposals.answer", id_=id_)
        undo = Undo(action, (("answer", "undo"),)) if word == "accept" else None
        return site.done(back(here), _SAID[word], undo=undo)

    return pages


def _from(state: str, start: int) -> str:
    return tenant_url("proposals.index", **{"state": state, "from": start})


def _trusts(opened: OpenTenant, one: Proposal, shown: Sequence[Changed]) -> dict[str, str]:
    """Return whose word the memories are that some steps are about, by id."""
    ids = [id_ for step in shown for id_ in (step.subject, step.other) if id_ is not None]
    trusts: dict[str, str] = {
        step.subject: step.trust for step in one.made if step.event == "recorded"
    }

    def known(view: View) -> list[Memory]:
        return [memory for id_ in ids if (memory := view.tail.find(id_)) is not None]

    return trusts | {memory.id: memory.trust for memory in opened.reader.answered(known)}


def _words(value: Any) -> str:
    """Return a field's value as lines to compare; nothing where it has none."""
    return value if isinstance(value, str) else "" if value is None else pretty(value)

"""
Proposals: plans, recommendations and drafts of lessons, as a list and each in detail.

A step shows both sides: the removed text and its replacement, with the differing words marked.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import msgspec
from flask import Blueprint, Response, render_template, request

from serve.dashboard.page_context import Site, Undo, back, tenant_url
from serve.dashboard.rendering import clean, pretty
from serve.reader.view import View
from serve.reports.proposal_rendering import Piece, answer_diff, differing_words, replay_rows
from serve.server.open_tenants import OpenTenant
from store.home.errors import InvalidInput, MnemologError
from store.log.event_log import EventLog
from store.memories.memory import Memory
from store.plans import plans, proposals
from store.plans.proposals import Changed, Proposal, State
from store.plans.setting_changes import needs_build
from store.plans.staleness import step_memory_ids
from store.text.excerpt import plural

LISTED = 40  # proposals of a page
STEPS_SHOWN = 8  # of a proposal
ANSWERS_SHOWN = 20  # changed answers of a proposal; a report of it has more
MOST = 200  # proposals that are answered at once
STATES: tuple[State, ...] = get_args(State)
_ANSWERS: Mapping[str, Callable[[EventLog, str, int], Proposal]] = {
    "accept": partial(proposals.accept, author="typed"),
    "reject": proposals.reject,
    "undo": proposals.undo,
}
_SAID = {
    "accept": "Accepted: it is done.",
    "reject": "Rejected: it will not be proposed again.",
    "undo": "Taken back.",
}
_DONE = {"accept": "accepted", "reject": "rejected", "undo": "taken back"}
# the titles of the memory that a step is about, and of the other one
_FATES = {
    "superseded": ("Goes", "Stays"),
    "archived": ("Goes to the archive", ""),
    "staled": ("Is no longer current", ""),
    "restored": ("Is current again", ""),
    "linked": ("Stays", "Stays, linked"),
    "recorded": ("", "Is new"),
}


class Side(msgspec.Struct, frozen=True):
    """One of a step's memories: its words, in pieces that differ or not."""

    title: str
    pieces: Sequence[Piece]
    id: str | None = None
    memory: Memory | None = None  # None: not recorded yet, or erased


class Shown(msgspec.Struct, frozen=True):
    """A step as the page has it; `place` is that in the plan. `fields` changed beside the text."""

    place: int
    step: Changed
    sides: Sequence[Side]
    fields: Sequence[tuple[str, str, str]]
    stale: Sequence[str]

    @property
    def is_open(self) -> bool:
        return self.step.answer in ("waiting", "stale") and not self.stale


def proposals_blueprint(site: Site) -> Blueprint:
    pages = Blueprint("proposals", __name__)

    @pages.get("/t/<tenant>/proposals")
    def index(tenant: str) -> str:
        opened = site.tenant(tenant)
        wanted, by = request.args.get("state", "waiting"), request.args.get("by", "")
        if wanted not in (*STATES, "all"):
            raise InvalidInput(f"unknown state {wanted!r}: choose from {', '.join(STATES)}, all")
        start, every = max(0, request.args.get("from", 0, int)), proposals.every(opened.log)
        of_state = [proposal for proposal in every if wanted in (proposal.state, "all")]
        makers = Counter(map(_maker, of_state))
        listed = [proposal for proposal in of_state if by in ("", _maker(proposal))]
        counts = Counter(proposal.state for proposal in every)
        end = start + LISTED
        return render_template(
            "proposals.html",
            wanted=wanted,
            by=by,
            makers=[("", f"all ({len(of_state):,})")]
            + [(name, f"{name} ({count:,})") for name, count in makers.most_common()],
            tabs=[*((name, counts[name]) for name in STATES), ("all", len(every))],
            proposals=[(proposal, _survivor(proposal)) for proposal in listed[start:end]],
            next=_page_url(wanted, by, end) if end < len(listed) else "",
            first=_page_url(wanted, by, 0) if start else "",
            said=f"{min(start + 1, len(listed)):,} to {min(end, len(listed)):,} of {len(listed):,}",
        )

    @pages.post("/t/<tenant>/proposals")
    def answer_many(tenant: str) -> Response:
        """Answer the chosen proposals; those that cannot get this answer are left alone."""
        opened, word = site.tenant(tenant), _word()
        ids = list(dict.fromkeys(request.form.getlist("id")))
        if not 0 < len(ids) <= MOST:
            raise InvalidInput(f"choose 1 to {MOST} proposals")
        answered, failed = [], []
        for id_ in ids:
            try:
                _ANSWERS[word](opened.log, id_, site.clock())
                answered.append(id_)
            except MnemologError as error:
                failed.append(str(error))
        here = tenant_url("proposals.index")
        fields = (("answer", "undo"), *(("id", id_) for id_ in answered), ("back", back(here)))
        undo = Undo(here, fields) if word == "accept" and answered else None
        text = f"{plural(len(answered), 'proposal')} {_DONE[word]}."
        if failed:
            text += f" {len(failed):,} left as they were: {'; '.join(failed[:3])}"
        return site.redirect(back(here), text, "warn" if failed else "ok", undo)

    @pages.get("/t/<tenant>/proposals/<id_>")
    def show(tenant: str, id_: str) -> str:
        opened = site.tenant(tenant)
        proposal, start = proposals.find(opened.log, id_), max(0, request.args.get("from", 0, int))
        end, here = start + STEPS_SHOWN, tenant_url("proposals.show", id_=id_)
        steps = _steps(opened, proposal, start)
        return render_template(
            "proposal.html",
            one=proposal,
            steps=steps,
            answered=len(proposal.applied | proposal.rejected)
            if proposal.state in ("waiting", "stale")
            else 0,
            chooses=proposal.sort == "plan"
            and len(proposal.made) > 1
            and any(step.is_open for step in steps),
            start=start,
            next=f"{here}?from={end}" if end < len(proposal.made) else "",
            first=here if start else "",
            failed=[check.name for check in proposal.checks if not check.passed],
            figures=replay_rows(proposal.replay) if proposal.replay else (),
            answers=[
                answer_diff(opened.log, changed.recall, changed.before, changed.after)
                for changed in (proposal.replay.answers[:ANSWERS_SHOWN] if proposal.replay else ())
            ],
        )

    @pages.post("/t/<tenant>/proposals/<id_>")
    def answer(tenant: str, id_: str) -> Response:
        """Answer a proposal, or the steps of it that were chosen."""
        opened, word = site.tenant(tenant), _word()
        chosen: list[int] | None = None
        if request.form.get("of") == "chosen":
            chosen = request.form.getlist("step", int)
        here = tenant_url("proposals.show", id_=id_)
        if chosen is None:
            answered = _ANSWERS[word](opened.log, id_, site.clock())
            text = _SAID[word]
            counts_again = word == "accept" and answered.job == plans.BULK
            if counts_again or (word == "accept" and needs_build(answered.made)):
                site.tenants.build_now(opened)
                text = "Accepted: it takes effect once it is built."
        elif word == "undo":
            raise InvalidInput("what was accepted of a plan is undone as a whole")
        else:
            if word == "accept":
                proposals.accept(opened.log, id_, site.clock(), chosen, author="typed")
            else:
                proposals.reject(opened.log, id_, site.clock(), chosen=chosen)
            text = f"{plural(len({*chosen}), 'change')} {_DONE[word]}."
        undo = Undo(here, (("answer", "undo"),)) if word == "accept" else None
        return site.redirect(back(here), text, undo=undo)

    return pages


def _word() -> str:
    word = request.form.get("answer", "")
    if word not in _ANSWERS:
        raise InvalidInput(f"answer {', '.join(_ANSWERS)}, not {word!r}")
    return word


def _maker(proposal: Proposal) -> str:
    """Return the maker for the filter: a job, or the sort of a recommendation or lesson."""
    return (
        proposal.title.partition(":")[0]
        if proposal.sort == "recommendation"
        else proposal.job or proposal.sort
    )


def _survivor(proposal: Proposal) -> str:
    """Return the text of the memory that stays, where a proposal supersedes just one."""
    (first,) = proposals.steps(proposal, 0, 1) or (None,)
    if len(proposal.made) > 1 or first is None or first.event != "superseded":
        return ""
    return str(first.changes[0].after or "")


def _page_url(state: str, by: str, start: int) -> str:
    query = {"state": state, "by": by, "from": start}
    return tenant_url("proposals.index", **{name: of for name, of in query.items() if of})


def _steps(opened: OpenTenant, proposal: Proposal, start: int) -> list[Shown]:
    """Return the steps of a page, with the memories as they are now."""
    steps = proposals.steps(proposal, start, STEPS_SHOWN)
    ids = [id_ for step in steps for id_ in (step.subject, step.other) if id_ is not None]

    def find_all(view: View) -> dict[str, Memory]:
        return {id_: memory for id_ in ids if (memory := view.tail.find(id_)) is not None}

    memories = opened.reader.answer(find_all)
    new_texts = {
        made.subject: str(made.body.get("content", ""))
        for made in proposal.made
        if made.event == "recorded"
    }
    return [
        Shown(
            place,
            step,
            _sides(step, memories, new_texts),
            _other_fields(step),
            [
                reason
                for reason in proposal.stale_because
                if reason.partition(" ")[0] in step_memory_ids([proposal.made[place]])
            ],
        )
        for place, step in enumerate(steps, start)
    ]


def _sides(
    step: Changed, memories: Mapping[str, Memory], new_texts: Mapping[str, str]
) -> list[Side]:
    """Return the sides of a step, one or two: its memory, and the one that stays."""
    memory = memories.get(step.subject)
    if step.event == "configured":  # a setting, and no memory
        return []
    if step.event not in _FATES:  # fields of one memory: before and after
        changes = [change for change in step.changes if change.field == "content"]
        if not changes:
            words = [Piece(False, clean(step.text))] if step.text else []
            return [Side("Memory", words, step.subject, memory)]
        before, after = differing_words(
            clean(changes[0].before or ""), clean(changes[0].after or "")
        )
        return [Side("Before", before, step.subject, memory), Side("After", after)]
    title, beside = _FATES[step.event]
    texts = {change.field: change for change in step.changes}
    if step.event == "recorded":
        text = clean(texts["content"].after or "") if "content" in texts else ""
        return [Side(beside, [Piece(False, text)], step.subject, memory)]
    short = step.text or (
        str(texts["content"].before or texts["content"].after or "") if texts else ""
    )
    own = _whole(short, memory)
    if step.other is None:
        return [Side(title, [Piece(False, own)], step.subject, memory)]
    short = str(texts["content"].after or "") if "content" in texts else ""
    stays = memories.get(step.other)
    other = clean(new_texts[step.other]) if step.other in new_texts else _whole(short, stays)
    before, after = [Piece(False, own)], [Piece(False, other)]
    if step.event == "superseded":
        before, after = differing_words(own, other)
    return [
        Side(title, before, step.subject, memory),
        Side(beside, after, step.other, stays),
    ]


def _whole(short: str, memory: Memory | None) -> str:
    """Return a memory's whole text where it still begins as in the step; else the step's."""
    if memory is not None and memory.content.startswith(short):
        return clean(memory.content)
    return clean(short)


def _other_fields(step: Changed) -> list[tuple[str, str, str]]:
    """Return the fields that change beside the text, before and after, as texts."""
    return [
        (change.field, _value_text(change.before), _value_text(change.after))
        for change in step.changes
        if change.field != "content"
        and not (step.event == "recorded" and change.after in (None, "", []))
    ]


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else pretty(value)

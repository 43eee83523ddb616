"""
Replay: past recalls asked again, each of the memory as known at the time.

One scan of the log. A copy of it grows event by event and answers each receipt when it reaches the
last event that recall had read; another grows to the watermark of each snapshot, which is built
there. Nothing is written to the memory itself, and texts erased since stay erased.

The question is the receipt's own, asked by this version of mnemolog under the settings of that
time: so a difference comes from mnemolog, the model or an erasure. A `change` asks it under other
settings instead, and a `Way` with another model.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from serve.hooks.call import Call
from serve.hooks.model_context import model_context
from serve.hooks.prompt import compose, last_reply, look_up
from serve.hosts.event import HookEvent
from serve.reader.filters import Filter
from serve.reader.past import Past, settings_of
from serve.reader.session_events import SessionEvents
from serve.reader.view import View
from serve.recall.analysis import Question, default_question
from serve.recall.recall import Answer, recall
from serve.recall.request import digest, join_answers, receipt_hits
from serve.server.open_tenants import OpenTenant
from store.agents.prompt_classifier import read_intent
from store.derived.routing import STATES, Policy, Router
from store.embedders.embedder import Embedder
from store.home.config import Choices, Trial
from store.home.files import temporary_folder
from store.home.tenant import Tenant
from store.log.event_kinds import Basis, Hit, Recalled
from store.log.event_log import EventLog
from store.log.events import Event
from store.snapshots import manifest as manifests

Change = Callable[[Choices], Choices]
Verdict = Literal["same", "changed", "skipped"]


class Way(msgspec.Struct, frozen=True):
    """A way to repeat past recalls: with a model, under their own settings or others, and routed as
    they were or by a policy.
    """

    embedder: Embedder
    change: Change | None = None
    policy: Policy | None = None


class Replayed(msgspec.Struct, frozen=True):
    """A recall asked again: the new answer, or the reason `why` it was skipped.

    `said` is the answer to the byte: the block for a prompt, else all hits as a receipt keeps them,
    in JSON. `characters` counts those of the block, else of the texts of all hits.
    """

    receipt: Event
    verdict: Verdict
    hits: tuple[Hit, ...] = ()
    why: str = ""
    characters: int = 0
    took_us: int = 0
    said: bytes = b""

    @property
    def digest(self) -> str | None:
        """The digest of the answer, as a receipt has it."""
        return digest(self.said) if self.said else None

    @property
    def before(self) -> Recalled:
        return recalled(self.receipt)


def recalled(receipt: Event) -> Recalled:
    """Return the body of a receipt."""
    assert isinstance(receipt.body, Recalled)
    return receipt.body


def _basis(receipt: Event) -> Basis:
    basis = recalled(receipt).basis
    assert basis is not None  # `skip_reason` names those without
    return basis


def replay(
    log: EventLog,
    embedder: Embedder,
    receipts: Sequence[Event],
    choices: Choices,
    change: Change | None = None,
) -> Iterator[Replayed]:
    """Yield each of some receipts asked again, in the order in which the memory grew.

    `choices` are today's, used only for settings that a receipt does not record.
    """
    for (replayed,) in replay_ways(log, receipts, choices, [Way(embedder, change)]):
        yield replayed


def replay_ways(
    log: EventLog, receipts: Sequence[Event], choices: Choices, ways: Sequence[Way]
) -> Iterator[tuple[Replayed, ...]]:
    """Yield each of some receipts asked again in each of some ways, in the order of the ways.

    The log is read once for each model. Receipts that the first way cannot repeat are skipped.
    """
    answerable = []
    for receipt in receipts:
        if why := skip_reason(recalled(receipt), ways[0].embedder):
            yield (Replayed(receipt, "skipped", why=why),) * len(ways)
        else:
            answerable.append(receipt)
    answerable.sort(
        key=lambda receipt: (_basis(receipt).built, recalled(receipt).watermark, receipt.seq)
    )
    moments = _moments_of_publication(log)
    with temporary_folder("replay") as folder, ExitStack() as opened:
        pasts: dict[str, Past] = {}
        for way in ways:
            if (model := way.embedder.model) not in pasts:
                pasts[model] = Past(log, folder / str(len(pasts)), way.embedder)
                opened.callback(pasts[model].close)
        for receipt in answerable:
            body, basis = recalled(receipt), _basis(receipt)
            moment = basis.moment or moments.get((body.manifest, basis.built))
            replays = []
            for way in ways:
                past = pasts[way.embedder.model]
                reader = past.advance(basis.built, body.watermark, moment)
                memory = OpenTenant(past.tenant, past.log, reader)
                replays.append(_ask_again(log, memory, way, receipt, choices))
            yield tuple(replays)


def ask_now(
    opened: OpenTenant, receipts: Sequence[Event], choices: Choices, now: int
) -> Iterator[Replayed]:
    """Yield each of some receipts asked again now, of a memory as it is."""
    way = Way(opened.reader.embedder)
    for receipt in receipts:
        if why := skip_reason(recalled(receipt), way.embedder):
            yield Replayed(receipt, "skipped", why=why)
        else:
            event = replace(receipt, at=now)  # memories expired since are no loss
            yield _ask_again(opened.log, opened, way, event, choices)


def _moments_of_publication(log: EventLog) -> dict[tuple[int | None, int], int]:
    """Return the moments to which an earlier version counted ages, for receipts without one, by the
    number and the watermark of each existing manifest.
    """
    published = manifests.list_manifests(Tenant("owner", log.path.parent))
    return {
        (manifest.number, manifest.watermark): manifest.age_reference
        for manifest in published
        if not manifest.moment
    }


def askable(receipts: Iterable[Event], embedder: Embedder) -> list[Event]:
    """Return the receipts that can be asked again with a model, in their order."""
    return [receipt for receipt in receipts if not skip_reason(recalled(receipt), embedder)]


def skip_reason(body: Recalled, embedder: Embedder) -> str:
    """Return the reason why a recall cannot be asked again; "" if it can."""
    if not body.query:
        return "its query was erased"
    basis = body.basis
    if basis is None:
        return "its receipt is of an earlier version"
    if basis.cut:
        return "its query was too long to keep"
    if basis.degraded:
        return "it was answered without an index or the embedder"
    if basis.embedder != embedder.model:
        return f"it was answered with {basis.embedder}"
    return ""


def _ask_again(
    log: EventLog,
    opened: OpenTenant,
    way: Way,
    receipt: Event,
    today: Choices,
) -> Replayed:
    """Return a receipt asked again one way; today's choices supply its missing settings."""
    body, basis = recalled(receipt), _basis(receipt)
    # the trial that a recall was part of goes on for ever
    trial = Trial(body.trial.plan, set=body.trial.set) if body.trial else Trial()
    choices = replace(settings_of(basis, today), explore=0.0, trial=trial)
    if way.change:
        choices = way.change(choices)
    router = None
    if body.route is not None:  # as it was routed, or by the way's policy
        actions = body.route.actions
        router = Router(way.policy or dict.fromkeys(STATES, actions), tuple(actions))
    began = time.perf_counter()
    if body.door == "prompt":
        call = _call(log, opened, receipt, choices)
        prompt = call.event.prompt
        reading = read_intent(prompt, last_reply(call.journal))
        own = model_context(call.journal).own
        prompt_answer = opened.reader.answer(
            lambda view: look_up(view, call, reading, router, own, receipt.id)
        )
        block = compose(call, prompt_answer)
        hits = receipt_hits(
            [hit for hit in prompt_answer.answer.hits if hit.memory.id in block.ids]
        )
        answered, characters = block.text.encode(), len(block.text)
    else:
        question = replace(_question(receipt, choices), router=router)
        other = choices.trial.other_choices(choices, receipt.at)
        if other is not None:  # tried beside them; the request's own settings stay
            other = replace(other, **{name: getattr(choices, name) for name in basis.requested})

        def ask(view: View) -> Answer:
            answer = recall(view, question)
            if other is None:
                return answer
            changed = replace(_question(receipt, other), router=router)
            return join_answers(answer, recall(view, changed), receipt.id)

        answer = opened.reader.answer(ask)
        answered = msgspec.json.encode(receipt_hits(answer.hits))
        has_bar = question.min_confidence > 0
        sure = [hit for hit in answer.hits if has_bar or not hit.is_unsure]
        hits, characters = receipt_hits(sure), sum(len(hit.memory.text) for hit in sure)
    took_us = round((time.perf_counter() - began) * 1e6)
    replayed = Replayed(
        receipt, "same", hits, characters=characters, took_us=took_us, said=answered
    )
    return replayed if replayed.digest == body.digest else replace(replayed, verdict="changed")


def question_of(receipt: Event, choices: Choices) -> Question:
    """Return the question of a recall, under the settings of then and without a router."""
    return _question(receipt, settings_of(_basis(receipt), choices))


def _question(receipt: Event, choices: Choices) -> Question:
    """Return the question of a recall, under some settings and without a router."""
    body, basis = recalled(receipt), _basis(receipt)
    conditions: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in basis.narrowed.items()
    }
    project = "" if basis.no_project else receipt.project
    those = Filter(now=receipt.at, project=project, **conditions)
    return replace(
        default_question(body.query, those, choices),
        mode=cast(Any, body.mode),
        min_score=basis.min_score or 0.0,
    )


def _call(log: EventLog, opened: OpenTenant, receipt: Event, choices: Choices) -> Call:
    """Return the prompt of a receipt as the hook had it, with the session's events before it."""
    before = [
        other for other in log.session_events(receipt.session or "") if other.seq < receipt.seq
    ]
    event = HookEvent(
        receipt.agent or "", "prompt", receipt.session or "", prompt=recalled(receipt).query
    )
    call = Call(event, opened, choices, receipt.project or "", receipt.at)
    vars(call)["journal"] = SessionEvents(before)  # pending events were known, too
    return call

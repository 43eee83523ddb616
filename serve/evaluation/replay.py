"""
Replay: past recalls asked again, each of the memory as it was known when it was asked.

One scan of the log. A copy of it grows event by event and answers each receipt as it passes what
that recall had read; another grows to where each snapshot was built, and is built there. Nothing is
written to the memory itself, and what was erased since stays erased.

The question is the receipt's own, asked by this version of mnemolog under the settings of then: so
a difference is what changed in mnemolog, in the model or in what was erased. A `change` asks it
under other settings instead, and a `Way` with another model.
"""

import time
from collections.abc import Callable, Iterator, Sequence
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
    """How past recalls are asked again: with a model, under the settings of then or others, and
    routed as they were or by a policy.
    """

    embedder: Embedder
    change: Change | None = None
    policy: Policy | None = None


class Replayed(msgspec.Struct, frozen=True):
    """A recall that was asked again: what comes back now, or `why` it could not be asked.

    `said` is that to the byte: the block for a prompt, else all hits as a receipt keeps them, in
    JSON. `characters` are those of the block, else of the texts of all hits.
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
        """The digest of what came back, as a receipt has it."""
        return digest(self.said) if self.said else None

    @property
    def before(self) -> Recalled:
        assert isinstance(self.receipt.body, Recalled)
        return self.receipt.body


def replay(
    log: EventLog,
    embedder: Embedder,
    receipts: Sequence[Event],
    choices: Choices,
    change: Change | None = None,
) -> Iterator[Replayed]:
    """Yield each of some receipts asked again, in the order in which the memory grew.

    `choices` are today's; of them only what a receipt does not say is taken.
    """
    for (found,) in replay_ways(log, receipts, choices, [Way(embedder, change)]):
        yield found


def replay_ways(
    log: EventLog, receipts: Sequence[Event], choices: Choices, ways: Sequence[Way]
) -> Iterator[tuple[Replayed, ...]]:
    """Yield each of some receipts asked again in each of some ways, in the order of the ways.

    The log is read once for each model. What the first way's model did not answer is skipped.
    """
    asked: list[tuple[int, int, int, Event, Basis]] = []
    for receipt in receipts:
        body = receipt.body
        assert isinstance(body, Recalled)
        if why := skip_reason(body, ways[0].embedder):
            yield (Replayed(receipt, "skipped", why=why),) * len(ways)
        elif body.basis is not None:
            asked.append((body.basis.built, body.watermark, receipt.seq, receipt, body.basis))
    asked.sort(key=lambda one: one[:3])
    moments = _moments_of_publication(log)
    with temporary_folder("replay") as folder, ExitStack() as opened:
        pasts: dict[str, Past] = {}
        for way in ways:
            if (model := way.embedder.model) not in pasts:
                pasts[model] = Past(log, folder / str(len(pasts)), way.embedder)
                opened.callback(pasts[model].close)
        for built, watermark, _, receipt, basis in asked:
            settings = msgspec.structs.replace(
                settings_of(basis, choices), explore=0.0, trial=_trial(receipt)
            )
            replays = []
            for way in ways:
                past = pasts[way.embedder.model]
                published = (cast(Recalled, receipt.body).manifest, built)
                moment = basis.moment or moments.get(published)
                reader = past.advance(built, watermark, moment)
                memory = OpenTenant(past.tenant, past.log, reader)
                replays.append(_ask_again(log, memory, way, receipt, basis, settings))
            yield tuple(replays)


def ask_now(
    opened: OpenTenant, receipts: Sequence[Event], choices: Choices, now: int
) -> Iterator[Replayed]:
    """Yield each of some receipts asked again now, of a memory as it is."""
    way = Way(opened.reader.embedder)
    for receipt in receipts:
        body = receipt.body
        assert isinstance(body, Recalled)
        if why := skip_reason(body, way.embedder):
            yield Replayed(receipt, "skipped", why=why)
        elif body.basis is not None:
            settings = msgspec.structs.replace(
                settings_of(body.basis, choices), explore=0.0, trial=_trial(receipt)
            )
            event = replace(receipt, at=now)  # what has expired since is no loss
            yield _ask_again(opened.log, opened, way, event, body.basis, settings)


def _moments_of_publication(log: EventLog) -> dict[tuple[int | None, int], int]:
    """Return to when an earlier version counted ages, whose receipts do not tell: by a manifest
    that is still there, and how many events it holds.
    """
    kept = manifests.list_manifests(Tenant("owner", log.path.parent))
    return {
        (manifest.number, manifest.watermark): manifest.age_reference
        for manifest in kept
        if not manifest.moment
    }


def skip_reason(body: Recalled, embedder: Embedder) -> str:
    """Return why a recall cannot be asked again; "" where it can."""
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
    basis: Basis,
    settings: Choices,
) -> Replayed:
    body = receipt.body
    assert isinstance(body, Recalled)
    choices = way.change(settings) if way.change else settings
    began = time.perf_counter()
    router = _router(body, way.policy)
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
        question = replace(_question(receipt, basis, choices), router=router)
        other = _other_choices(receipt, basis, choices)

        def ask(view: View) -> Answer:
            given = recall(view, question)
            if other is None:
                return given
            changed = replace(_question(receipt, basis, other), router=router)
            return join_answers(given, recall(view, changed), receipt.id)

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


def question_of(receipt: Event, basis: Basis, choices: Choices) -> Question:
    """Return what a recall asked, under the settings of then and without a router."""
    return _question(receipt, basis, settings_of(basis, choices))


def _question(receipt: Event, basis: Basis, choices: Choices) -> Question:
    """Return what a recall asked, under some settings and without a router."""
    body = receipt.body
    assert isinstance(body, Recalled)
    asked: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in basis.narrowed.items()
    }
    project = "" if basis.no_project else receipt.project
    those = Filter(now=receipt.at, project=project, **asked)
    return replace(
        default_question(body.query, those, choices),
        mode=cast(Any, body.mode),
        min_score=basis.min_score or 0.0,
    )


def _trial(receipt: Event) -> Trial:
    """Return the trial that a recall was part of, which goes on for ever; else none."""
    assert isinstance(receipt.body, Recalled)
    tried = receipt.body.trial
    return Trial(tried.plan, set=tried.set) if tried else Trial()


def _other_choices(receipt: Event, basis: Basis, choices: Choices) -> Choices | None:
    """Return the settings that were tried beside those of a recall; what it asked for stays."""
    if (other := choices.trial.other_choices(choices, receipt.at)) is None:
        return None
    payload = {name: getattr(choices, name) for name in basis.requested}
    return msgspec.structs.replace(other, **payload)


def _router(body: Recalled, policy: Policy | None) -> Router | None:
    """Return the router that routes as a recall was routed, or by a policy where it was at all."""
    if body.route is None:
        return None
    actions = body.route.actions
    return Router(policy or dict.fromkeys(STATES, actions), tuple(actions))


def _call(log: EventLog, opened: OpenTenant, receipt: Event, choices: Choices) -> Call:
    """Return the prompt of a receipt as the hook had it, after what its session had done."""
    assert isinstance(receipt.body, Recalled)
    before = [
        other for other in log.session_events(receipt.session or "") if other.seq < receipt.seq
    ]
    event = HookEvent(
        receipt.agent or "", "prompt", receipt.session or "", prompt=receipt.body.query
    )
    call = Call(event, opened, choices, receipt.project or "", receipt.at)
    vars(call)["journal"] = SessionEvents(before)  # what waited to be written was known, too
    return call

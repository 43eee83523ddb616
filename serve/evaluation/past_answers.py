"""
Past answers: the questions of past recalls, asked of a candidate before it is published.

What came back then, and has not changed since, is to come back still. Memories that are newer are
left aside for that, so that a memory may grow; but where new ones take over the answers to
questions of many kinds, that is an import gone wrong, or a text made to be found. The questions are
those of people and agents, so this sees what no check of one table can: a tokenizer that splits
words in another way, vectors of another model under the same name, an index that lost a part.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from serve.evaluation import canaries, hand_edits, upgrade
from serve.evaluation.canaries import Canary, Outcome
from serve.evaluation.replay import question_of, skip_reason
from serve.reader.filters import Filter
from serve.reader.reader import open_view
from serve.reader.view import View
from serve.recall.ranking import SURE
from serve.recall.recall import Hit, Question, recall
from store.home.config import Choices
from store.log import receipts
from store.log.event_kinds import Basis, Recalled
from store.log.events import Event
from store.maintenance import build as builds
from store.maintenance import quarantine
from store.maintenance.build import Build
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import Mask
from store.snapshots.manifest import (
    CANARIES,
    NEWCOMERS,
    ONLY_VISIBLE,
    PAST_ANSWERS,
    SAME_MODEL,
    CheckResult,
    Manifest,
)
from store.text import tokenizer
from store.text.excerpt import plural

MOST = 40  # questions
A_FEW = 15  # of a quick build
LOOKED_AT = 400  # receipts among which those are looked for
FEWEST = 8  # of fewer nothing is concluded
REFUSED_BELOW = 0.7  # the share of questions that bring back what they did
DOUBTED_BELOW = 0.9  # refused too, where it fell that low since the builds before
# Where a memory has grown so many times since the last build, words weigh otherwise than they did:
# fewer past answers are then a warning.
_GREW = 4.0
_EMBEDDED, _SAME = 5, 0.9  # texts embedded again, and the least cosine with what is there
_HIDDEN, _OWN_WORDS = 10, 300  # memories of a sort, and the characters each is asked for by
_WIDER = 3  # times the hits of then: what is newer stands among them

# One memory in so many answers to different questions is made to be found; so many answers of which
# nothing is left are no import that a memory grows by.
MOST_OF_ONE = 0.2
MOST_TAKEN_OVER = 0.2
# New memories may well come first, as often as there are more of them. An import made to be found
# comes first far more often than its share of all memories.
MOST_BEGUN_NEWER, TIMES_THEIR_SHARE = 0.5, 2.0
MOST_BEGUN_OTHERWISE = 0.2  # by another memory of then; words weigh otherwise in one that grew


@dataclass(frozen=True, slots=True)
class Answered:
    """A question of then: how many of the memories of then come back, and of how many.

    `newer` are the memories among the first that are not served yet. `is_taken_over`: most are such
    ones, and nothing of then is left; `begins_newer`: the first is one. `begins_otherwise`: of what
    is served, another memory comes first than then.
    """

    receipt: Event
    back: int
    of: int
    is_taken_over: bool
    begins_newer: bool
    begins_otherwise: bool
    newer: tuple[str, ...]

    @property
    def is_back(self) -> bool:
        return 2 * self.back >= self.of


def check(
    made: Build, candidate: Manifest, choices: Choices, most: int = MOST
) -> list[CheckResult]:
    """Return the checks of a candidate by past recalls, where anything was recalled, and those that
    need none: of its model, of what nobody may see, and of what other code of ours answered.
    """
    if upgrade.is_first_build(made) and upgrade.is_accepted(made.log):
        made = replace(made, accepts=True)
    view = open_view(made.tenant, candidate, made.embedder)
    asked = list(_questions(made, most))
    others = [
        *check_model(view),
        *check_visible(view, candidate.at),
        upgrade.check(made, choices),
        hand_edits.check(made, choices, candidate.at),
    ]
    if not asked:
        return others
    earlier = builds.current_manifest(made.tenant)
    served = earlier.projections["memories"].rows["memories"] if earlier else None
    found = [
        answered
        for receipt, basis in asked
        if (answered := _ask(view, receipt, basis, served, choices)) is not None
    ]
    return [
        *others,
        _past_answers(
            found,
            candidate.at,
            earlier,
            warns=made.accepts or len(view.snapshots.rows) > _GREW * (served or 0),
        ),
        _newcomers(made, found, 1.0 - (served or 0) / max(1, len(view.snapshots.rows))),
    ]


def check_model(view: View) -> list[CheckResult]:
    """Return the check that the model still makes the vectors that are there; none where the model
    is elsewhere and every text has its price, or has no vectors yet.

    A file that was exchanged under the same name changes the vectors of queries, not those of
    memories.
    """
    model, vectors, rows = view.embedder, view.snapshots.vectors, view.snapshots.rows
    if not model.is_local or vectors is None or not len(vectors):
        return []
    docs = sorted({len(rows) * place // _EMBEDDED for place in range(_EMBEDDED)})
    there = [(doc, kept) for doc in docs if (kept := vectors.floats(doc)).any()]
    again = model.embed([rows.take([doc])[0].text for doc, _ in there])
    cosines = [float(np.dot(kept, one)) for (_, kept), one in zip(there, again, strict=True)]
    least = min(cosines, default=1.0)
    is_same = least >= _SAME
    detail = f"{len(cosines)} texts embedded again, cosine with their vectors at least {least:.2f}"
    cure = f"{model.model} has changed: `mnemolog build --full` embeds all texts with it"
    return [CheckResult(SAME_MODEL, is_same, detail, CANARIES, cure="" if is_same else cure)]


def check_visible(view: View, now: int) -> list[CheckResult]:
    """Return the check that memories which were put away or have expired stay so, and those of one
    project out of another; none where there are no such memories.

    They are asked for by their own words. What may be seen is read off each memory that comes back,
    not off the filters of recall.
    """
    rows = view.snapshots.rows
    projects: list[str] = rows.projects.column("name").to_pylist()
    gone = ~rows.equal("state", (ACTIVE,)) | (rows.expires_at <= now)
    asked = [(one, one.project) for one in _some(view, gone)]
    for one in _some(view, ~gone & ~rows.lacks("project")):
        others = [name for name in projects if name != one.project]
        asked.append((one, others[len(asked) % len(others)] if others else f"not {one.project}"))
    wrong: dict[str, None] = {}
    for memory, project in asked:
        those = Filter(now=now, project=project)
        question = Question(text=memory.text[:_OWN_WORDS], filter=those, top_k=10, mode="lexical")
        for hit in recall(view, question).hits:
            one = hit.memory
            is_over = one.expires_at is not None and one.expires_at <= now
            is_elsewhere = project is not None and one.project not in (None, project)
            if one.state != ACTIVE or is_over or is_elsewhere:
                wrong[one.id] = None
    if not asked:
        return []
    detail = f"{len(asked)} memories asked for that are put away, or of another project"
    if wrong:
        detail += f"; {plural(len(wrong), 'memory')} came back all the same"
    return [
        CheckResult(
            ONLY_VISIBLE,
            not wrong,
            detail,
            CANARIES,
            cure=_WRONG_VERSION if wrong else "",
            memories=tuple(wrong)[:3],
        )
    ]


def _some(view: View, mask: Mask) -> list[Memory]:
    """Return a few memories with words of those that a mask names, spread by the hashes of ids."""
    rows = view.snapshots.rows
    chosen = rows.by_hash[mask[rows.by_hash]]
    few = rows.take(chosen[:: max(1, len(chosen) // _HIDDEN)][:_HIDDEN].tolist())
    return [one for one in few if tokenizer.terms(one.text)]


def _questions(made: Build, most: int) -> Iterator[tuple[Event, Basis]]:
    """Yield the newest different questions that brought something, and what decided the answers."""
    page = receipts.page(made.log, receipts.Wanted(silent=False), LOOKED_AT)
    known: set[tuple[str, str | None]] = set()
    for receipt in page.receipts:
        body = receipt.body
        assert isinstance(body, Recalled)
        if skip_reason(body, made.embedder) or body.basis is None or len(known) == most:
            continue
        if (asked := (body.query, receipt.project)) not in known:
            known.add(asked)
            yield receipt, body.basis


def _ask(
    view: View,
    receipt: Event,
    basis: Basis,
    served: int | None,
    choices: Choices,
) -> Answered | None:
    """Return how a question is answered now; None where nothing of then is as it was.

    The memories from row `served` on are not served yet.
    """
    body, rows = receipt.body, view.snapshots.rows
    assert isinstance(body, Recalled)
    memories = [rows.find(hit.id) for hit in body.hits]
    same = {
        one.id
        for one in memories
        if one is not None and one.state == ACTIVE and one.updated_at <= receipt.at
    }
    if not same:
        return None
    question = question_of(receipt, basis, choices)
    wide = replace(question, top_k=min(_WIDER * question.top_k, 200))
    hits = recall(view, wide).hits
    if not question.min_confidence:  # as the receipt was written: a prompt's may hold unsure ones
        unsure = {hit.id for hit in body.hits if hit.confidence < SURE}
        hits = tuple(hit for hit in hits if not hit.is_unsure or hit.memory.id in unsure)
    old = [hit for hit in hits if hit.memory.updated_at <= receipt.at or same & _named([hit])]
    back = same & _named(old[: question.top_k])
    first = hits[: question.top_k]
    newer = {
        hit.memory.id
        for hit in hits
        if served is not None
        and (rows.memories.row(hit.memory.id) or 0) >= served
        and same.isdisjoint(_named([hit]))  # else it says what came back then
    }
    shown = tuple(hit.memory.id for hit in first if hit.memory.id in newer)
    is_taken_over = same.isdisjoint(_named(first)) and 2 * len(shown) > len(first)
    return Answered(
        receipt,
        back=len(back),
        of=len(same),
        is_taken_over=is_taken_over,
        begins_newer=bool(first and first[0].memory.id in newer),
        # a block for a prompt has an order of its own
        begins_otherwise=body.door != "prompt"
        and body.hits[0].id in same
        and body.hits[0].id not in _named(old[:1]),
        newer=shown,
    )


def _named(hits: Sequence[Hit]) -> set[str]:
    """Return the memories that some hits bring: themselves, copies, and what they replaced or were
    made of.
    """
    return {
        id_
        for hit in hits
        for id_ in (
            hit.memory.id,
            *hit.copies,
            *(old.id for old in hit.history),
            *hit.memory.source_ids,
        )
    }


def _past_answers(
    found: Sequence[Answered], now: int, earlier: Manifest | None, *, warns: bool
) -> CheckResult:
    missed = tuple(
        Canary(one.receipt.id, one.receipt.body.query)
        for one in found
        if not one.is_back and isinstance(one.receipt.body, Recalled)
    )
    outcome = Outcome(len(found), missed)
    before = [one for one in (earlier.checks if earlier else ()) if one.name == PAST_ANSWERS]
    points = canaries.trend(before[0]) if before else ()
    fell = canaries.has_fallen(outcome, points) and outcome.share < DOUBTED_BELOW
    led = sum(one.begins_otherwise for one in found)
    turned = led > max(FEWEST / 2, MOST_BEGUN_OTHERWISE * len(found))
    failed = outcome.asked >= FEWEST and (outcome.share < REFUSED_BELOW or fell or turned)
    detail = f"{outcome.hits} of {outcome.asked} past questions bring back what they did"
    if led:
        detail += f", {led} with another memory first"
    said = {
        "missed": [one.id for one in missed],
        "trend": [*points, (now, outcome.hits, outcome.asked)][-canaries.TREND :],
    }
    return CheckResult(
        PAST_ANSWERS,
        not failed,
        detail,
        CANARIES,
        msgspec.to_builtins(said),
        cure=_CURE if failed else "",
        warns=failed and warns,
    )


def _newcomers(made: Build, found: Sequence[Answered], share: float) -> CheckResult:
    """Return whether new memories, a share of all, leave past answers in place."""
    released = quarantine.releases(made.log, made.watermark)
    answers = Counter(id_ for one in found for id_ in one.newer if id_ not in released)
    usual = Counter(id_ for one in found for id_ in _brought(one))
    many = max(FEWEST / 2, MOST_OF_ONE * len(found), *usual.values())
    alone = tuple(id_ for id_, count in answers.most_common() if count > many)
    taken_over = sum(one.is_taken_over for one in found)
    first = sum(one.begins_newer for one in found)
    most_first = max(MOST_BEGUN_NEWER, TIMES_THEIR_SHARE * share) * len(found)
    failed = (
        bool(alone)
        or taken_over > max(FEWEST / 2, MOST_TAKEN_OVER * len(found))
        or first > max(FEWEST / 2, most_first)
    )
    detail = f"new memories take over the answers to {taken_over} of {len(found)} past questions"
    if first:
        detail += f", and come first in {first}"
    if alone:
        detail += f"; {len(alone)} come back for over {many:.0f} different ones"
    return CheckResult(
        NEWCOMERS,
        not failed,
        detail,
        CANARIES,
        alone=() if made.accepts else alone,
        cure=(_RELEASE if alone else _FORGET) if failed else "",
        warns=failed and made.accepts,
        memories=alone[:3],
    )


def _brought(one: Answered) -> list[str]:
    assert isinstance(one.receipt.body, Recalled)
    return [hit.id for hit in one.receipt.body.hits]


_CURE = (
    "`mnemolog replay` lists what changed, `mnemolog bisect QUESTION` since when; "
    "`mnemolog build --accept` publishes it as it is"
)
_FORGET = (
    "look at what was recorded or imported last (`mnemolog list`); `mnemolog build --accept` "
    "publishes it as it is"
)
_WRONG_VERSION = (
    "this version of mnemolog has a fault: go back to the one before, and report it; "
    "what is served is left as it is"
)
_RELEASE = "`mnemolog doctor` lists what is in quarantine and how to release it"

"""
Past answers: the questions of past recalls, asked of a candidate before it is published.

A memory that was a hit then, and has not changed since, must still be a hit. Newer memories do not
count against it, so the memory may grow; but imported or foreign texts that take over the answers
to many kinds of questions are a failed import, or an attack on the ranking. Memories of the user's
own sessions are neither (`growth`): they may push old answers down without a refused build. The
questions are those of people and agents, so these checks detect faults that no check of one table
can: a tokenizer that splits words in another way, vectors of another model under the same name, an
index that lost a part.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

import msgspec
import numpy as np
from msgspec.structs import asdict, replace

from serve.evaluation import canaries, hand_edits, upgrade
from serve.evaluation.canaries import Canary, Outcome, Point
from serve.evaluation.growth import Arrival, list_arrivals
from serve.evaluation.replay import askable, question_of, recalled, replay
from serve.reader.filters import Filter
from serve.reader.reader import open_view
from serve.reader.tail_storage import Columns
from serve.reader.view import View
from serve.recall.ranking import SURE
from serve.recall.recall import Hit, Question, recall
from store.home.config import Choices
from store.home.projects import holds_in
from store.log import receipts
from store.log.event_kinds import Recalled
from store.log.events import Event
from store.maintenance import build as builds
from store.maintenance import quarantine
from store.maintenance.build import Build
from store.memories.memory import ACTIVE, Memory
from store.memories.rows import Mask, MemoryRows
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
LOOKED_AT = 400  # receipts from which those are taken
FEWEST = 8  # with fewer, there is no verdict
REFUSED_BELOW = 0.7  # the share of questions with the same memories as before
DOUBTED_BELOW = 0.9  # refused too, if it fell below this since the builds before
# If a memory has grown so many times since the last build, its words have other weights, and a
# fault of code or disk looks no different: fewer past answers are then a warning.
_GREW = 4.0
_EMBEDDED, _SAME = 5, 0.9  # texts embedded again, and the least cosine with the stored vector
_HIDDEN, _OWN_WORDS = 10, 300  # memories of a sort, and the characters of each one's query
_WIDER = 3  # times the number of past hits: newer ones are among them

# A memory in so large a share of the answers to different questions is an attack on the ranking; an
# import that replaces so many answers completely is no normal growth.
MOST_OF_ONE = 0.2
MOST_TAKEN_OVER = 0.2
# New memories may well come first, in proportion to their number. An import made to rank high comes
# first far more often than its share of all memories.
MOST_BEGUN_NEWER, TIMES_THEIR_SHARE = 0.5, 2.0
MOST_BEGUN_OTHERWISE = 0.2  # by another memory of then; growth changes the weights of words


class Answered(msgspec.Struct, frozen=True):
    """A past question: the number of its past hits found again, and of all.

    `newer` are the memories among the first that are not published yet and from elsewhere.
    `is_taken_over`: most are newer, and no past hit is left; `begins_newer`: the first is newer.
    `begins_otherwise`: the first of the published memories is another than then.
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

    @property
    def body(self) -> Recalled:
        return recalled(self.receipt)


class Asking(msgspec.Struct, frozen=True):
    """A candidate build for past questions.

    The memories from row `served` on are not published yet; None: nothing is. `arrivals` are those
    of all memories since the oldest of the questions and since the published build, and `rows` the
    rows of those in the candidate.
    """

    made: Build
    view: View
    choices: Choices
    served: int | None
    arrivals: Mapping[str, Arrival]
    rows: Mapping[str, int]

    @property
    def size(self) -> int:
        return len(self.view.snapshots.rows)

    @property
    def outgrew(self) -> bool:
        """Whether the memory has grown too much for a different answer to indicate a fault."""
        return self.size > _GREW * (self.served or 0)

    @property
    def share_from_elsewhere(self) -> float:
        """The part of all memories that is not served yet and came from elsewhere."""
        return sum(map(self.is_from_elsewhere, self.arrivals)) / max(1, self.size)

    def is_from_elsewhere(self, id_: str) -> bool:
        """Return True if a memory is not published yet and not from the user's own sessions.

        Published memories were judged in their build.
        """
        row = self.rows.get(id_)
        if row is None and id_ not in self.arrivals:
            row = self.view.snapshots.rows.memories.row(id_)
        if row is None or self.served is None or row < self.served:
            return False
        return not (id_ in self.arrivals and self.arrivals[id_].is_own)

    def rows_grown_since(self, seq: int) -> frozenset[int]:
        """Return the rows of the memories since then that the memory just grew by."""
        return frozenset(
            row
            for id_, row in self.rows.items()
            if self.arrivals[id_].seq > seq and not self.is_from_elsewhere(id_)
        )


class _Without(Filter, frozen=True):
    """A filter that some rows of a candidate, which has no tail, do not pass either."""

    left_out: frozenset[int] = frozenset()

    def narrow(self, mask: Mask, rows: MemoryRows | Columns) -> Mask:
        mask = Filter.narrow(self, mask, rows)
        mask[list(self.left_out)] = False
        return mask


def check(
    build: Build, candidate: Manifest, choices: Choices, most: int = MOST
) -> list[CheckResult]:
    """Return the checks of a candidate by past recalls, where anything was recalled, and those that
    need none: of its model, of hidden memories, and of the answers of other code of ours.
    """
    if upgrade.is_first_build(build) and upgrade.is_accepted(build.log):
        build = replace(build, accepts=True)
    view = open_view(build.tenant, candidate, build.embedder)
    questions = _questions(build, most)
    others = [
        *check_model(view),
        *check_visible(view, candidate.at),
        upgrade.check(build, choices),
        hand_edits.check(build, choices, candidate.at),
    ]
    if not questions:
        return others
    earlier = builds.current_manifest(build.tenant)
    served = earlier.projections["memories"].rows["memories"] if earlier else None
    since = min(recalled(receipt).watermark for receipt in questions)
    since = min(since, earlier.watermark) if earlier else since
    arrivals = list_arrivals(build.log, since, build.watermark)
    memories = view.snapshots.rows.memories
    rows = {id_: row for id_ in arrivals if (row := memories.row(id_)) is not None}
    asking = Asking(build, view, choices, served, arrivals, rows)
    answers = [answer for receipt in questions if (answer := _ask(asking, receipt)) is not None]
    return [
        *others,
        _past_answers(asking, answers, candidate.at, earlier),
        _newcomers(asking, answers),
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
    stored = [(doc, vector) for doc in docs if (vector := vectors.floats(doc)).any()]
    again = model.embed([rows.take([doc])[0].text for doc, _ in stored])
    cosines = [float(np.dot(old, new)) for (_, old), new in zip(stored, again, strict=True)]
    least = min(cosines, default=1.0)
    is_same = least >= _SAME
    detail = f"{len(cosines)} texts embedded again, cosine with their vectors at least {least:.2f}"
    cure = f"{model.model} has changed: `mnemolog build --full` embeds all texts with it"
    return [CheckResult(SAME_MODEL, is_same, detail, CANARIES, cure="" if is_same else cure)]


def check_visible(view: View, now: int) -> list[CheckResult]:
    """Return the check that archived and expired memories stay hidden, and those of one project out
    of another; none without such memories.

    They are queried by their own words. Each hit is judged by the memory itself, not by the filters
    of recall.
    """
    rows = view.snapshots.rows
    projects: list[str] = rows.projects.column("name").to_pylist()
    ended = ~rows.equal("state", (ACTIVE,)) | (rows.expires_at <= now)
    hidden = [(memory, memory.project) for memory in _some(view, ended)]
    for memory in _some(view, ~ended & ~rows.lacks("project")):
        others = [name for name in projects if not holds_in(memory.project, name)]
        other = others[len(hidden) % len(others)] if others else f"not {memory.project}"
        hidden.append((memory, other))
    wrong: dict[str, None] = {}
    for memory, project in hidden:
        those = Filter(now=now, project=project)
        question = Question(text=memory.text[:_OWN_WORDS], filter=those, top_k=10, mode="lexical")
        for hit in recall(view, question).hits:
            came = hit.memory
            is_over = came.expires_at is not None and came.expires_at <= now
            if came.state != ACTIVE or is_over or not holds_in(came.project, project):
                wrong[came.id] = None
    if not hidden:
        return []
    detail = f"{len(hidden)} memories asked for that are put away, or of another project"
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
    """Return a few memories of a mask whose text has words, spread by the hashes of ids."""
    rows = view.snapshots.rows
    chosen = rows.by_hash[mask[rows.by_hash]]
    few = rows.take(chosen[:: max(1, len(chosen) // _HIDDEN)][:_HIDDEN].tolist())
    return [memory for memory in few if tokenizer.terms(memory.text)]


def _questions(build: Build, most: int) -> list[Event]:
    """Return the newest receipts with hits, one per question."""
    page = receipts.page(build.log, receipts.Wanted(silent=False), LOOKED_AT)
    newest: dict[tuple[str, str | None], Event] = {}
    for receipt in askable(page.receipts, build.embedder):
        newest.setdefault((recalled(receipt).query, receipt.project), receipt)
    return list(newest.values())[:most]


def _ask(asking: Asking, receipt: Event) -> Answered | None:
    """Return the answer to a question now; None if no memory of the old answer is unchanged.

    If the answer differs, the question is asked once more without the newest memories.
    """
    body, rows = recalled(receipt), asking.view.snapshots.rows
    memories = [rows.find(hit.id) for hit in body.hits]
    same = {
        memory.id
        for memory in memories
        if memory is not None and memory.state == ACTIVE and memory.updated_at <= receipt.at
    }
    if not same:
        return None
    question = question_of(receipt, asking.choices)
    hits = _hits(asking.view, question, body)
    newer = {
        hit.memory.id
        for hit in hits
        if asking.is_from_elsewhere(hit.memory.id)
        and same.isdisjoint(_named([hit]))  # else it repeats a past hit
    }
    first = hits[: question.top_k]
    newer_first = tuple(hit.memory.id for hit in first if hit.memory.id in newer)
    is_taken_over = same.isdisjoint(_named(first)) and 2 * len(newer_first) > len(first)
    back, begins_otherwise = _compare(hits, receipt, question.top_k, same)
    if (2 * back < len(same) or begins_otherwise) and (
        grown := asking.rows_grown_since(body.watermark)
    ):
        conditions = _Without(**asdict(question.filter), left_out=grown)
        again = _hits(asking.view, replace(question, filter=conditions), body)
        back_then, begins_otherwise = _compare(again, receipt, question.top_k, same)
        back = max(back, back_then)
    return Answered(
        receipt,
        back=back,
        of=len(same),
        is_taken_over=is_taken_over,
        begins_newer=bool(first and first[0].memory.id in newer),
        begins_otherwise=begins_otherwise,
        newer=newer_first,
    )


def _hits(view: View, question: Question, body: Recalled) -> Sequence[Hit]:
    """Return the answer of a view to a past question, with room for newer memories."""
    hits = recall(view, replace(question, top_k=min(_WIDER * question.top_k, 200))).hits
    if question.min_confidence:
        return hits
    # as the receipt was written: a prompt's may contain unsure hits
    unsure = {hit.id for hit in body.hits if hit.confidence < SURE}
    return [hit for hit in hits if not hit.is_unsure or hit.memory.id in unsure]


def _compare(hits: Sequence[Hit], receipt: Event, top_k: int, same: Set[str]) -> tuple[int, bool]:
    """Return the number of past memories among the hits as old as the receipt, and True if another
    memory comes first.
    """
    body = recalled(receipt)
    old = [hit for hit in hits if hit.memory.updated_at <= receipt.at or same & _named([hit])]
    first_then = body.hits[0].id
    return (
        len(same & _named(old[:top_k])),
        # a block for a prompt has an order of its own
        body.door != "prompt" and first_then in same and first_then not in _named(old[:1]),
    )


def _named(hits: Sequence[Hit]) -> set[str]:
    """Return the ids of some hits, of their copies, and of the memories that they replaced or were
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
    asking: Asking, answers: Sequence[Answered], now: int, earlier: Manifest | None
) -> CheckResult:
    """Return the check that the candidate answers past recalls as they were answered."""
    outcome = _outcome(answers, answers)
    before = canaries.check_of(earlier, PAST_ANSWERS) if earlier else None
    points = canaries.trend(before) if before else ()
    led = sum(answer.begins_otherwise for answer in answers)
    detail = f"{outcome.hits} of {outcome.asked} past questions bring back what they did"
    if led:
        detail += f", {led} with another memory first"
    failed, cure = _fails(answers, answers, points), _CURE
    warns = asking.made.accepts or asking.outgrew
    if failed and not warns and not _fails(answers, _not_by_growth(asking, answers), points):
        detail += ": the memory grew, and what it knew then still answers as it did"
        warns, cure = True, ""
    metadata = {
        "missed": [canary.id for canary in outcome.missed],
        "trend": [*points, (now, outcome.hits, outcome.asked)][-canaries.TREND :],
    }
    return CheckResult(
        PAST_ANSWERS,
        not failed,
        detail,
        CANARIES,
        msgspec.to_builtins(metadata),
        cure=cure if failed else "",
        warns=failed and warns,
    )


def _outcome(answers: Sequence[Answered], blamed: Sequence[Answered]) -> Outcome:
    """Return the outcome of past questions, counting as missed only those that are `blamed`."""
    missed = [answer for answer in blamed if not answer.is_back]
    return Outcome(
        len(answers), tuple(Canary(answer.receipt.id, answer.body.query) for answer in missed)
    )


def _fails(
    answers: Sequence[Answered], blamed: Sequence[Answered], points: Sequence[Point]
) -> bool:
    """Return True if the `blamed` questions, of all, are too many to publish."""
    outcome = _outcome(answers, blamed)
    fell = canaries.has_fallen(outcome, points) and outcome.share < DOUBTED_BELOW
    led = sum(answer.begins_otherwise for answer in blamed)
    turned = led > max(FEWEST / 2, MOST_BEGUN_OTHERWISE * len(answers))
    return outcome.asked >= FEWEST and (outcome.share < REFUSED_BELOW or fell or turned)


def _not_by_growth(asking: Asking, answers: Sequence[Answered]) -> list[Answered]:
    """Return the answers whose change is not explained by the growth of the user's own sessions.

    A change is explained if more memories came from them than from elsewhere since the question,
    and the memory as known at the time still gives the answer: then neither code nor an import is
    at fault, but the weights of words in a memory that grew.
    """
    new = Counter(asking.is_from_elsewhere(id_) for id_ in asking.arrivals)
    wrong = [answer for answer in answers if not answer.is_back or answer.begins_otherwise]
    grown = {
        answer.receipt.id: answer
        for answer in wrong
        if asking.rows_grown_since(answer.body.watermark)
    }
    if new[True] >= new[False] or not grown:
        return wrong
    receipts_then = [answer.receipt for answer in grown.values()]
    explained = set()
    for again in replay(asking.made.log, asking.made.embedder, receipts_then, asking.choices):
        then, now = (tuple(hit.id for hit in hits) for hits in (again.before.hits, again.hits))
        is_back = 2 * len({*then} & {*now}) >= len(then)
        if is_back and (then[:1] == now[:1] or not grown[again.receipt.id].begins_otherwise):
            explained.add(again.receipt.id)
    return [answer for answer in wrong if answer.receipt.id not in explained]


def _newcomers(asking: Asking, answers: Sequence[Answered]) -> CheckResult:
    """Return the check that new memories from elsewhere leave past answers in place."""
    build, share = asking.made, asking.share_from_elsewhere
    released = quarantine.releases(build.log, build.watermark)
    newer = Counter(id_ for answer in answers for id_ in answer.newer if id_ not in released)
    usual = Counter(hit.id for answer in answers for hit in answer.body.hits)
    many = max(FEWEST / 2, MOST_OF_ONE * len(answers), *usual.values())
    alone = tuple(id_ for id_, count in newer.most_common() if count > many)
    taken_over = sum(answer.is_taken_over for answer in answers)
    first = sum(answer.begins_newer for answer in answers)
    most_first = max(MOST_BEGUN_NEWER, TIMES_THEIR_SHARE * share) * len(answers)
    failed = (
        bool(alone)
        or taken_over > max(FEWEST / 2, MOST_TAKEN_OVER * len(answers))
        or first > max(FEWEST / 2, most_first)
    )
    detail = (
        "new memories from elsewhere take over the answers to "
        f"{taken_over} of {len(answers)} past questions"
    )
    if first:
        detail += f", and come first in {first}"
    if alone:
        detail += f"; {len(alone)} come back for over {many:.0f} different ones"
    return CheckResult(
        NEWCOMERS,
        not failed,
        detail,
        CANARIES,
        alone=() if build.accepts else alone,
        cure=(_RELEASE if alone else _FORGET) if failed else "",
        warns=failed and build.accepts,
        memories=alone[:3],
    )


_CURE = (
    "`mnemolog replay` lists what changed, `mnemolog bisect QUESTION` since when; "
    "`mnemolog build --accept` publishes it as it is"
)
_FORGET = (
    "look at what was imported last (`mnemolog list`); `mnemolog build --accept` "
    "publishes it as it is"
)
_WRONG_VERSION = (
    "this version of mnemolog has a fault: go back to the one before, and report it; "
    "what is served is left as it is"
)
_RELEASE = "`mnemolog doctor` lists what is in quarantine and how to release it"

"""
Evidence: the signals for each candidate by kind, each in [0, 1].

Documents are numbered through: first the snapshot's rows, then the tail's slots. The score is the
weighted sum of the evidence. The weights were fitted on conversations, chats and issues
(docs/recall.md has the gain of each, and how little a change by a third matters).
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from serve.reader.view import View
from serve.recall import neighbours
from serve.recall.analysis import LEAST_IDF, Analysis, Question
from serve.recall.candidates import Candidates, Scores, Scratch
from serve.recall.classification import COMMON_TERMS, REMOVAL_TERMS
from serve.recall.scoring import Docs, Mask, Values, beside, reciprocal_rank, weighted_sum
from store.derived.sessions import Sessions
from store.log.event_kinds import EPISODE, MEMORY_KINDS
from store.text import tokenizer
from store.text.text_features import Traits

Shares = npt.NDArray[np.float32]
Near = Callable[[Docs], Scores]

WEIGHTS = {
    "lexical": 1.0,
    "vector": 2.5,
    "entity": 1.0,  # only if queried alone: beside the words it adds nothing
    "issue": 2.0,  # a matching issue number outweighs any similarity
    "speaker": 1.2,  # decides between two speakers, and finds nothing alone
    "question": 0.6,  # an answer repeats little of its question
    "before": 0.25,
    "after": 0.1,
    "session": 0.7,
    "session_vector": 1.6,
    "statement": 0.3,  # an answer is seldom a question
    "dated": 0.5,
    "personal": 0.3,
    "rule": 1.3,  # times its nearness to the topic
    "removal": 0.6,  # reports a removal, if the question asks for one
    "time": 0.6,  # made in the time asked for
    "bridge": 2.0,  # one of the best candidates names its topic
}
_WEIGHT_LISTED = 4.0  # of the time, if the question has no other condition
_OF_VECTORS = ("vector", "session_vector")
# To a model, an issue with its code and logs has one meaning, near to that of any other issue.
_WITH_TITLE = 0.2  # of the weight of vectors
ANSWER_WORDS = 64  # of the part of a turn that answers a question
_EPISODE = MEMORY_KINDS.index(EPISODE)  # as columns code it
_FOREIGN = 0.3  # if the model knows little of the question's language


class Conversations(msgspec.Struct, frozen=True):
    """Documents and their place in their conversations; -1: none. All are [docs]."""

    docs: Docs  # ascending
    is_turn: Mask  # another speaker answered it, or was answered by it
    session: neighbours.Links
    before: neighbours.Links
    after: neighbours.Links
    asks: Mask
    dated: Mask
    personal: Mask
    rule: Mask
    question: Docs  # the turn before, if it asks and passes the mask; else -1


_BACKGROUND = 50  # memories
COMMON_TERM_SHARE = 0.3  # of its weight, for a common word in the gate


class KnownTerms(msgspec.Struct, frozen=True):
    """The part of a query that the memory knows.

    `weights` [terms] are the different words' idf, as if `_BACKGROUND` more memories had none of
    them: a word is not common for being in two of three notes. A word in no memory weighs less,
    the less of the language the memory has seen. `unknown` is the share of those. Common words
    weigh and count only in part. `rarities` are the weights as shares of the weight of a word in
    one memory, and 1 at most.
    """

    weights: Values
    rarities: Values  # [terms]
    unknown: float
    counts: Values  # [terms], 1, or the part a common word counts for


class Evidence(msgspec.Struct, frozen=True):
    """The candidates by their fused scores, best first, with the evidence for each."""

    docs: Docs
    scores: Values
    by_kind: dict[str, Values]  # in the order of `docs`; empty for fusion by rank
    weights: Mapping[str, float]  # of each kind
    nearness: Scores  # of the vectors, in the order of `docs`; zeros without them
    questions: Docs  # the turn before that asked, in the order of `docs`; -1: none
    known: KnownTerms
    # each candidate's shares of the query's terms, [terms, docs]: 1, or a similar term's share
    term_shares: Shares
    question_term_shares: Shares  # the same for the turn before it, if that is a question
    time: Scores | None  # for the time asked for, in the order of `docs`


def gather_evidence(
    view: View,
    question: Question,
    analysis: Analysis,
    candidates: Candidates,
    scratch: Scratch,
) -> Evidence:
    """Return the candidates in the order of the question's fusion, with their evidence."""
    known = known_terms(view, analysis)
    weights = evidence_weights(view, analysis)
    by_kind: dict[str, Values] = {}
    bridges: dict[int, tuple[float, int]] = {}
    channels = candidates.channels
    if question.fusion == "rrf":
        docs, scores = _fuse_by_rank(candidates)
        questions = previous_questions(view, docs, candidates.mask)
        near = channels["vector"].of(docs) if "vector" in channels else None
        shares, question_shares = _term_shares(view, analysis, docs, questions)
    else:
        place = place_in_conversations(view, candidates.docs, candidates.mask)
        matches = _term_shares(view, analysis, place.docs, place.question)
        channel_scores, by_kind = _by_kind(
            view, question, analysis, candidates, place, matches[0], known, scratch
        )
        docs, scores, order = weighted_sum(candidates.docs, by_kind, weights)
        if question.mode == "auto":
            shares = matches[0][:, order]
            bridges = find_bridges(view, analysis, docs, scores, shares, known, candidates.mask)
        if bridges:
            entering = np.setdiff1d([*bridges], candidates.docs)
            if len(entering):
                at = candidates.docs.searchsorted(entering)
                candidates = replace(candidates, docs=np.insert(candidates.docs, at, entering))
                place = place_in_conversations(view, candidates.docs, candidates.mask)
                before = place.question[candidates.docs.searchsorted(entering)]
                more = _term_shares(view, analysis, entering, before)
                matches = (
                    np.insert(matches[0], at, more[0], axis=1),
                    np.insert(matches[1], at, more[1], axis=1),
                )
                channel_scores, by_kind = _by_kind(
                    view, question, analysis, candidates, place, matches[0], known, scratch
                )
            by_kind["bridge"] = np.zeros(len(candidates.docs))
            by_kind["bridge"][candidates.docs.searchsorted([*bridges])] = [
                share for share, _ in bridges.values()
            ]
            docs, scores, order = weighted_sum(candidates.docs, by_kind, weights)
        questions = place.question[order]
        by_kind = {name: values[order] for name, values in by_kind.items()}
        near = channel_scores["vector"][order] if "vector" in channel_scores else None
        shares, question_shares = (match[:, order] for match in matches)
    if near is None:
        near = np.zeros(len(docs), np.float32)
    if analysis.removal:
        shares = _join_removals(view, analysis, docs, shares)
    places = {doc: place for place, doc in enumerate(docs.tolist())} if bridges else {}
    for doc, (_, first) in bridges.items():
        both = question_shares[:, places[doc]], shares[:, places[first]]
        question_shares[:, places[doc]] = np.maximum(*both)
    time = None if candidates.time is None else candidates.time[docs]
    return Evidence(
        docs, scores, by_kind, weights, near, questions, known, shares, question_shares, time
    )


def _fuse_by_rank(candidates: Candidates) -> tuple[Docs, Values]:
    """Return the candidates by reciprocal rank, insights by the rank they would have."""
    rankings, insights = [*candidates.rankings.values()], candidates.insights
    docs, scores = reciprocal_rank(rankings)
    if len(insights):
        gains = beside(rankings, [channel.of(insights) for channel in candidates.channels.values()])
        docs, scores = np.concatenate([docs, insights]), np.concatenate([scores, gains])
        order = np.lexsort((-docs, -scores))
        docs, scores = docs[order], scores[order]
    return docs, scores


def _by_kind(
    view: View,
    question: Question,
    analysis: Analysis,
    candidates: Candidates,
    place: Conversations,
    term_shares: Shares,
    known: KnownTerms,
    scratch: Scratch,
) -> tuple[dict[str, Scores], dict[str, Values]]:
    """Return each channel's scores of the candidates, and the evidence by kind.

    All are in the order of the candidates, `term_shares` too.
    """
    scores = {name: channel.of(candidates.docs) for name, channel in candidates.channels.items()}
    candidates.topic[candidates.insights] = 0.0  # their words are no measure for those of turns
    evidence: dict[str, Values] = {}
    for name, ranking in candidates.rankings.items():
        if name != "time":
            # a cosine counts as it is, another score as its share of the best
            greatest = 1.0 if name == "vector" else float(ranking.scores[:1].sum())
            evidence[name] = neighbours.scale(scores[name].astype(np.float64), greatest)
    if "lexical" in evidence and analysis.answer_type is not None and not analysis.has_title:
        words = _discount_turns(view, candidates, evidence["lexical"], term_shares, known)
        evidence["lexical"] = words
    if candidates.time is not None:
        evidence["time"] = candidates.time[candidates.docs].astype(np.float64)
    if question.mode == "auto":
        evidence |= _context(view, analysis, candidates, place, evidence, known, scratch)
    return scores, evidence


def _discount_turns(
    view: View, candidates: Candidates, own: Values, term_shares: Shares, known: KnownTerms
) -> Values:
    """Return the evidence of the words, `own`, [docs], less the chance matches of agents' turns.

    A turn is as long as many notes, and has many words of any question by chance. A few lines of
    it answer a question. A word is as much likelier in a turn as the turn has parts of that size,
    so the weight of each word is reduced by the logarithm of that number. A task or a pasted text
    resembles a whole turn, and is excluded by the caller.
    """
    docs, rows, columns = candidates.docs, view.snapshots.rows, view.tail.columns
    end = int(docs.searchsorted(len(rows)))
    turns = np.flatnonzero(rows.codes("kind")[docs[:end]] == _EPISODE)
    sizes = view.snapshots.postings.lengths[docs[turns]]
    if end < len(docs):
        fresh = docs[end:] - len(rows)
        fresh_turns = np.flatnonzero(columns["kind"][fresh] == columns.codes["kind"].get(EPISODE))
        sizes = np.concatenate([sizes, columns["length"][fresh[fresh_turns]]])
        turns = np.concatenate([turns, end + fresh_turns])
    if not len(turns):
        return own
    shares = term_shares[:, turns]
    chance = np.log(np.maximum(sizes / ANSWER_WORDS, 1.0))
    least = LEAST_IDF * known.weights  # every word must still count
    rest = np.maximum(known.weights[:, None] - known.counts[:, None] * chance, least[:, None])
    whole = known.weights @ shares
    discounted = (shares * rest).sum(axis=0)
    own = own.copy()
    own[turns] *= np.divide(discounted, whole, out=np.ones(len(turns)), where=whole > 0)
    return neighbours.scale(own, float(own[candidates.mask[docs]].max(initial=0.0)))


BRIDGE_STARTS = 2  # of the best candidates
BRIDGE_TEXT = 400  # characters read of each
BRIDGE_MEMORIES = 8  # with a term at most, for it to name one thing
LEAST_BRIDGE = 0.3
_PARTLY = (0.2, 0.95)  # of the question's weight


def find_bridges(
    view: View,
    analysis: Analysis,
    docs: Docs,
    scores: Values,
    term_shares: Shares,
    known: KnownTerms,
    mask: Mask,
) -> dict[int, tuple[float, int]]:
    """Return the documents that the best ones lead to: each one's share in [0, 1] and its source.

    "Who owns the service that billing depends on" takes two memories: "billing depends on export"
    answers a part of it and names the topic of the other. `docs` and `scores` are best first;
    `term_shares` are their shares of the question's terms, [terms, docs]. A bridge is a rare term
    of a best document that is not in the question. A document's share grows with the rarity of the
    term and with its coverage of the question's remaining terms, and shrinks with the number of
    documents that the bridges lead to.
    """
    total, bridges = float(known.weights.sum()), dict[int, tuple[float, int]]()
    if not len(docs) or total <= 0.0:
        return bridges
    postings, rows = view.snapshots.postings, len(view.snapshots.rows)
    size, terms = view.tail.size + _BACKGROUND, list(analysis.weights)
    query_terms = {*terms, *analysis.names}
    rarest = np.log(size / 1.5)
    starts = np.flatnonzero(mask[docs])[:BRIDGE_STARTS]  # insights repeat others
    docs, scores, shares = docs[starts], scores[starts], term_shares[:, starts]
    covered = [float(known.weights @ of_doc) / total for of_doc in shares.T]
    beside = {
        place: {*tokenizer.terms(_text(view, doc)[:BRIDGE_TEXT])} - query_terms
        for place, doc in enumerate(docs.tolist())
        if _PARTLY[0] <= covered[place] <= _PARTLY[1]
    }
    named = postings.rare_documents([*set().union(*beside.values())], BRIDGE_MEMORIES)
    for place, words in beside.items():
        first = int(docs[place])
        rarity: dict[int, float] = {}
        for term in words & named.keys():
            count, others = named[term]
            weight = float(np.log(size / (count + 0.5)) / rarest)
            for doc in [*others.tolist(), *(view.tail.holders(term) + rows).tolist()]:
                rarity[doc] = max(rarity.get(doc, 0.0), weight)
        ends = np.array(sorted(rarity), np.int64)
        ends = ends[mask[ends] & (ends != first)]
        if not len(ends):
            continue
        near = float(scores[place] / scores[0]) / np.sqrt(len(ends))
        if max(map(rarity.__getitem__, ends.tolist())) * near < LEAST_BRIDGE:
            continue  # too low for any coverage
        more = np.maximum(term_matrix(view, terms, ends) - shares[:, place, None], 0.0)
        opened = known.weights @ more / (total * (1.0 - covered[place]))
        fits = near * (0.6 + 0.4 * opened)
        for doc, fit in zip(ends.tolist(), fits.tolist(), strict=True):
            share = rarity[doc] * fit
            if share >= max(LEAST_BRIDGE, bridges.get(doc, (0.0, 0))[0]):
                bridges[doc] = share, first
    return bridges


def _text(view: View, doc: int) -> str:
    rows = view.snapshots.rows
    return rows.text(doc) if doc < len(rows) else view.tail.take([doc - len(rows)])[0].text


def _context(
    view: View,
    analysis: Analysis,
    candidates: Candidates,
    place: Conversations,
    own: Mapping[str, Values],
    known: KnownTerms,
    scratch: Scratch,
) -> dict[str, Values]:
    """Return the evidence beyond each document's own words and vector.

    `own` is the evidence of the channels; the words' part is scaled by the known share of the
    query.
    """
    mask, evidence = candidates.mask, dict[str, Values]()
    if "lexical" in own:
        of_words = {"lexical": own["lexical"]} | context_words(
            view, analysis, place, candidates.topic, own["lexical"], mask, scratch
        )
        # a question in another language shares but a name with the memory
        evidence |= {name: values * (1.0 - known.unknown) for name, values in of_words.items()}
    if "vector" in candidates.channels:
        nearness = candidates.channels["vector"].of
        evidence |= context_vectors(view, place, own["vector"], nearness, mask)
    # of the texts by themselves; a note need not speak of "I"
    turn, asks_when = place.is_turn, analysis.answer_type in ("when", "how_long")
    evidence["statement"] = (~(place.asks & turn)).astype(np.float64)
    evidence["personal"] = (place.personal | ~turn).astype(np.float64)
    evidence["dated"] = (place.dated & turn & asks_when).astype(np.float64)
    if analysis.removal and "lexical" in own:
        evidence["removal"] = own["lexical"] * removal_share(view, place.docs)
    evidence["issue"] = issue_match(view, analysis.issues, place.docs)
    evidence["speaker"] = speaker_match(view, analysis.people, place.docs)
    return evidence


def removal_share(view: View, docs: Docs) -> Shares:
    """Return 1 for each document that reports a removal, [docs]."""
    terms = [term for term in sorted(REMOVAL_TERMS) if view.tail.has(term)]
    shares: Shares = term_matrix(view, terms, docs).max(axis=0, initial=0.0)
    return np.floor(shares)


def _term_shares(
    view: View, analysis: Analysis, docs: Docs, questions: Docs
) -> tuple[Shares, Shares]:
    """Return each document's share of each term, and the same for the question before it."""
    terms = analysis.weights
    answers = np.flatnonzero(questions >= 0)
    matrix = term_matrix(view, terms, np.concatenate([docs, questions[answers]]))
    shares = matrix[:, : len(docs)]
    question_shares = np.zeros_like(shares)
    question_shares[:, answers] = matrix[:, len(docs) :]
    return shares, question_shares


def _join_removals(view: View, analysis: Analysis, docs: Docs, term_shares: Shares) -> Shares:
    """Return the shares of terms for a question about a removal: its words count as one term."""
    words = [place for place, term in enumerate(analysis.weights) if term in analysis.removal]
    joined = term_shares.copy()
    joined[words] = np.maximum(term_shares[words], removal_share(view, docs))
    return joined


def known_terms(view: View, analysis: Analysis) -> KnownTerms:
    """Return the memory's knowledge of a query's terms; without terms, `unknown` is 1."""
    terms = [view.tail.term(term) for term in analysis.weights]
    frequencies = np.array([term.frequency for term in terms], np.float64)
    others = view.tail.size + _BACKGROUND - frequencies
    counts = np.array(
        [COMMON_TERM_SHARE if term in COMMON_TERMS else 1.0 for term in analysis.weights],
        np.float64,
    )
    weights = counts * np.maximum(np.log((others + 0.5) / (frequencies + 0.5)), LEAST_IDF)
    rarities = np.minimum(weights / np.log((view.tail.size + _BACKGROUND - 0.5) / 1.5), 1.0)
    shares = np.array([term.known_share for term in terms], np.float64)
    if not shares.any():
        return KnownTerms(weights, rarities, 1.0, counts)
    language_share = view.tail.sample_coverage
    weights = weights * (shares + (1.0 - shares) * language_share)
    unknown = language_share * float(weights @ (1.0 - shares) / weights.sum())
    return KnownTerms(weights, rarities, unknown, counts)


def evidence_weights(view: View, analysis: Analysis) -> dict[str, float]:
    """Return the weight of each kind of evidence for a question."""
    if analysis.lists_time:
        return WEIGHTS | {"time": _WEIGHT_LISTED}
    calibration = view.snapshots.calibration
    share = calibration.stretch
    if calibration.knows_meaning and analysis.has_title:
        share *= _WITH_TITLE
    elif calibration.knows_meaning and analysis.is_foreign:
        share *= _FOREIGN
    return WEIGHTS | {name: share * WEIGHTS[name] for name in _OF_VECTORS}


def place_in_conversations(view: View, docs: Docs, mask: Mask) -> Conversations:
    """Return the places of documents, ascending, in conversations; the tail's are in none yet."""
    sessions, rows = view.snapshots.sessions, len(view.snapshots.rows)
    session, before, after = (np.full(len(docs), -1, np.int32) for _ in range(3))
    traits = {name: np.zeros(len(docs), np.bool_) for name in Traits._fields}
    question = np.full(len(docs), -1, np.int64)
    end = int(docs.searchsorted(rows))
    if sessions is not None:
        built = docs[:end]
        session[:end] = sessions.session[built]
        for name, values in traits.items():
            values[:end] = getattr(sessions, name)[built]
        if (session >= 0).any():
            before[:end] = sessions.before[built]
            after[:end] = sessions.after[built]
            question = _questions_before(sessions, before, mask)
    if end < len(docs):
        for name, values in traits.items():
            values[end:] = view.tail.columns[name][docs[end:] - rows]
    is_turn = (before >= 0) | (after >= 0)
    return Conversations(docs, is_turn, session, before, after, **traits, question=question)


def previous_questions(view: View, docs: Docs, mask: Mask) -> Docs:
    """Return the turn before each document if it asks and passes the mask, [docs]; -1: none."""
    sessions = view.snapshots.sessions
    before = np.full(len(docs), -1, np.int32)
    if sessions is None:
        return before.astype(np.int64)
    built = docs < len(view.snapshots.rows)
    before[built] = sessions.before[docs[built]]
    return _questions_before(sessions, before, mask)


def _questions_before(sessions: Sessions, before: neighbours.Links, mask: Mask) -> Docs:
    """Return the previous turns that ask and pass the mask; -1 for the others."""
    asking = np.full(len(before), -1, np.int64)
    has_one = np.flatnonzero(before >= 0)
    turns = before[has_one]
    has_asked = (sessions.asks[turns] == 1) & mask[turns]
    asking[has_one[has_asked]] = turns[has_asked]
    return asking


def issue_match(view: View, numbers: Sequence[str], docs: Docs) -> Values:
    """Return the share of the issues that each document names, [docs]; a bare number is half."""
    if not numbers:
        return np.zeros(len(docs))
    terms = [f"#{number}" for number in numbers] + list(numbers)
    named, bare = np.split(term_matrix(view, terms, docs), 2)
    share: Values = np.maximum(named, 0.5 * bare).mean(axis=0)
    return share


def speaker_match(view: View, people: frozenset[str], docs: Docs) -> Values:
    """Return 1 for each document, ascending, whose speaker is one of the people, [docs]."""
    is_theirs = np.zeros(len(docs))
    if not people:
        return is_theirs
    rows, sessions = len(view.snapshots.rows), view.snapshots.sessions
    end = int(docs.searchsorted(rows))
    if sessions is not None:
        wanted = [sessions.places[name] for name in people if name in sessions.places]
        is_theirs[:end] = np.isin(sessions.speaker[docs[:end]], wanted)
    if end < len(docs):
        is_theirs[end:] = view.tail.columns.equal("speaker", sorted(people))[docs[end:] - rows]
    return is_theirs


def context_words(
    view: View,
    analysis: Analysis,
    place: Conversations,
    topic: Scores,
    own: Values,
    mask: Mask,
    scratch: Scratch,
) -> dict[str, Values]:
    """Return each document's evidence from the words of the turns beside it and of its session.

    `topic` are the topic's scores, [rows + slots], and `own` the evidence of each document's own
    words, [docs]: a note is a session of one.
    """
    sessions = view.snapshots.sessions
    if sessions is None or not analysis.topic:
        return {}
    lent = neighbours.turn_shares(
        topic[place.docs].astype(np.float64),
        neighbours.take_scores(topic, place.before, mask),
        neighbours.take_scores(topic, place.after, mask),
        place.question >= 0,
    )
    whole = scratch.array(sessions.index.rows)
    whole.fill(0.0)
    sessions.index.scores(analysis.topic, least_idf=LEAST_IDF, out=whole)
    scores = neighbours.take_scores(whole, place.session)
    return {**lent, "session": neighbours.session_shares(scores, own, place.is_turn)}


def context_vectors(
    view: View, place: Conversations, near: Values, nearness: Near, mask: Mask
) -> dict[str, Values]:
    """Return the nearness of each document's session; for a note its own, more if it is a rule.

    `near` is the vectors' nearness of the documents, in [0, 1]; `nearness` returns that of others.
    Whole sessions and a rule's topic are only compared under a model that knows meaning.
    """
    sessions, calibration = view.snapshots.sessions, view.snapshots.calibration
    vectors = {"session_vector": np.where(place.is_turn, 0.0, near)}
    if calibration.knows_meaning:
        # the usual nearness counts for nothing: else any rule outranks documents on the topic
        unusual = np.maximum(near - calibration.usual, 0.0)
        vectors["rule"] = np.where(place.rule & ~place.is_turn, unusual, 0.0)
        if sessions is not None:
            vectors["session_vector"] += _best_of_session(sessions, place, nearness, mask)
    return vectors


def _best_of_session(
    sessions: Sessions, place: Conversations, nearness: Near, mask: Mask
) -> Values:
    """Return for each turn how near the three best of its session are, in the mean, [docs]."""
    turns = np.flatnonzero(place.is_turn)
    wanted, where = np.unique(place.session[turns], return_inverse=True)
    starts, ends = sessions.starts[wanted], sessions.starts[wanted + 1]
    members = sessions.members[neighbours.runs(starts, ends)].astype(np.int64)
    values = np.where(mask[members], nearness(members), np.float32(0.0))
    means = neighbours.best_of_groups(values, ends - starts, neighbours.BEST_OF_SESSION)
    lent = np.zeros(len(place.docs))
    lent[turns] = np.clip(means, 0.0, 1.0)[where]
    return lent


def term_matrix(view: View, terms: Collection[str], docs: Docs) -> Shares:
    """Return the documents' shares of terms, [terms, docs], in [0, 1]; document -1 has none."""
    shares = np.zeros((len(terms), len(docs)), np.float32)
    order = np.argsort(docs)
    docs = docs[order]
    first, end = docs.searchsorted((0, len(view.snapshots.rows))).tolist()
    built, at = docs[first:end], order[first:end]
    shares[:, at] = view.snapshots.postings.contains(terms, built)
    if end < len(docs):
        shares[:, order[end:]] = view.tail.contains(terms, docs[end:] - len(view.snapshots.rows))
    return shares

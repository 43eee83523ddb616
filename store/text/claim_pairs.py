"""
Claim pairs: the relation of a later claim to an earlier one: replaces, ends, refines or repeats.

A small network over the aligned slots of two claims (`features`): their subjects, the differing
values and their kinds, the later one's announcement, and the distance between them. It is fitted by
`make fit` on labelled pairs (tests/bench/state_pairs.py); docs/time.md has its accuracy on kinds of
pairs that it never saw. The caller decides whose words a person may change.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from store.text.claim_words import CHOICES, REQUESTS
from store.text.claims import (
    CUES,
    DATE,
    HOST,
    ID,
    IDENT,
    MONEY,
    NAME,
    NO_RANK,
    NUMBER,
    PATH,
    PERCENT,
    STATUS,
    TIME,
    VERSION,
    WORD,
    Claim,
    Token,
    has_any_cue,
    is_copula,
    parse,
)

Relation = Literal["none", "replaces", "ends", "refines", "repeats"]
RELATIONS: tuple[Relation, ...] = ("none", "replaces", "ends", "refines", "repeats")
WEIGHTS = Path(__file__).with_name("state_weights.npz")
SURE = 0.88  # from this probability on a claim is shown as outdated
UNSURE = 0.5  # from here on both are shown, the newer first

MOST_DEVIATIONS = 3.0  # of a feature from its mean
_CALLED_WRONG = 0.75  # of the words of a claim, to be repeated by the claim that calls it wrong
_MOST_TOKENS = 28  # of a claim that are aligned
_GROUPS = {
    NUMBER: 0, MONEY: 1, PERCENT: 1, VERSION: 2, DATE: 3, TIME: 3, ID: 4, HOST: 5, PATH: 5,
    IDENT: 6, NAME: 7, STATUS: 8, WORD: 9,
}  # fmt: skip
_GROUP_NAMES = (
    "number",
    "amount",
    "version",
    "time",
    "id",
    "host",
    "ident",
    "name",
    "status",
    "word",
)
_CHANGES = sum(
    1 << CUES.index(cue)
    for cue in (
        "label",
        "recant",
        "instead",
        "moved",
        "now",
        "no_longer",
        "ends",
        "falsified",
        "back",
        "succeeds",
    )
)
_ENDED = 0.6  # of the terms that a claim ends, to be found in the earlier one
_SAYS = frozenset(
    """is are lives = goes sits stays runs ist liegt läuft est se trouve está vive fica sta è staat
    connects listens hosted deploy deploys moved""".split()
)
_REASONS = frozenset("due because since as so weil wegen porque parce car perché omdat".split())
_HIGH = 2  # the lowest rank that decides over others
_BODY, _VALUE = 3, 2  # words of a claim, and of a value, that repeat another
_BESIDE = 2  # turns between a pointing claim and its target
_APART = 6  # turns of one session; beyond them it counts as another session
_SHORT = 6  # words
_POSSIBLE = 0.25  # the least probability of a change for another choice
# how a request, a report or a remark of the day begins
_ASKS = re.compile(
    r"\W*(?:(?:now|ok|so|and|also|but|then|please|yes|no|hi)\b[\s,.!]*)*"
    r"(?:i(?:'d|'m|'ve)?\b|you\b|let'?s\b|we (?:need|should|want|are going)\b|make sure\b|can\b"
    r"|still\b|looks?\b|this\b|it\b|that\b|there\b|for some reason\b|unfortunately\b|ich\b|je\b"
    r"|quiero\b|necesito\b)",
    re.IGNORECASE,
)
_PERSONAL = frozenset("i me my you your u ich du yo tu je".split())
_SIGNS = "@#\"'-*|[({/"  # that begin an item of a list, a name of a file, a part of a program
_SAID = 2  # the fewest words of a meaningful claim
_LONG, _HALF = 14, 0.5  # words of a long claim; the share of a later one's words to be in it
_ALIKE = 0.5  # of all words of two claims, to be shared
_SHARED = 0.2  # of the shorter one's words
_DIFFERENT = ("instead", "moved", "no_longer", "ends", "falsified", "than", "past", "also")
_NAMES = frozenset((HOST, PATH, IDENT, NAME, ID, VERSION, MONEY, PERCENT, TIME, DATE))
_NEAR_CUE = 4  # tokens around a word that announces a change
_MEASURES = frozenset((NUMBER, MONEY, PERCENT, VERSION, DATE, TIME))
_POINTING = frozenset(
    """it that this these those instead das es dies dafür ça cela eso esto ello isso
    isto quello questo dat dit это то""".split()
)
_OLDER_CUES = (
    "label",
    "ends",
    "no_longer",
    "falsified",
    "tentative",
    "also",
    "than",
    "concludes",
    "if",
    "firm",
    "time_was",
)


class Around(NamedTuple):
    """The distance of two claims: `turns` from the one to the other within a session, -1 in
    another; whether they are of one text; and the number of claims between them with a value of the
    later one's kind.
    """

    turns: int = -1
    is_one_text: bool = False
    nearer: int = 0
    is_note: bool = False  # the older was recorded, not typed in a prompt

    @property
    def is_beside(self) -> bool:
        return 0 <= self.turns <= 1


class _Gap(NamedTuple):
    older: Sequence[Token]
    newer: Sequence[Token]
    is_subject: bool


def features(
    older: Claim, newer: Claim, rarity: Callable[[str], float], around: Around
) -> list[float]:
    """Return the features of a pair of claims; `rarity` of a term is 0 to 1."""
    a, b = _content(older), _content(newer)
    shared = older.terms & newer.terms
    gaps, matched = _align(a, b)
    return [
        *_coverage(older, newer, shared, rarity),
        *_key_features(older, newer),
        *_gap_features(gaps, matched, len(a), len(b)),
        *_value_features(older, newer),
        *_cue_features(older, newer),
        *_shape_features(older, newer, a, b),
        *_around_features(newer, around, has_offer=_offers(older, newer)),
        *_succession_features(older, newer),
        *_manner_features(older),
        *_manner_features(newer),
    ]


def _content(claim: Claim) -> list[tuple[Token, bool]]:
    """Return the content tokens, and whether each stands before the first copula."""
    content: list[tuple[Token, bool]] = []
    is_subject = True
    for token in claim.tokens:
        if content and is_subject and is_copula(token):
            is_subject = False
        if token.term:
            content.append((token, is_subject))
    if is_subject:  # no copula: no part of it is known to be its subject
        content = [(token, False) for token, _ in content]
    return content[:_MOST_TOKENS]


def _align(
    a: Sequence[tuple[Token, bool]], b: Sequence[tuple[Token, bool]]
) -> tuple[list[_Gap], int]:
    """Return the differences of two rows of tokens, in order, and the number of equal ones."""
    older, newer = [token.term for token, _ in a], [token.term for token, _ in b]
    n, m = len(older), len(newer)
    table = [[0] * (m + 1)]
    for x in range(n - 1, -1, -1):
        below, term = table[-1], older[x]
        row = [0] * (m + 1)
        for y in range(m - 1, -1, -1):
            row[y] = below[y + 1] + 1 if term == newer[y] else max(below[y], row[y + 1])
        table.append(row)
    table.reverse()
    gaps: list[_Gap] = []
    matched = x = y = start_a = start_b = 0
    while x < n and y < m:
        if older[x] == newer[y]:
            if x > start_a or y > start_b:
                gaps.append(_gap(a[start_a:x], b[start_b:y]))
            matched, x, y = matched + 1, x + 1, y + 1
            start_a, start_b = x, y
        elif table[x + 1][y] >= table[x][y + 1]:
            x += 1
        else:
            y += 1
    if start_a < n or start_b < m:
        gaps.append(_gap(a[start_a:], b[start_b:]))
    return gaps, matched


def _gap(a: Sequence[tuple[Token, bool]], b: Sequence[tuple[Token, bool]]) -> _Gap:
    is_subject = any(subject for _, subject in a) and any(subject for _, subject in b)
    return _Gap([token for token, _ in a], [token for token, _ in b], is_subject)


def _few(count: float, most: int = 4) -> float:
    return min(count, most) / most


def _coverage(
    older: Claim, newer: Claim, shared: frozenset[str], rarity: Callable[[str], float]
) -> list[float]:
    weight = {term: 0.15 + rarity(term) for term in older.terms | newer.terms}
    both = sum(weight[term] for term in shared)
    of_a = both / max(0.01, sum(weight[term] for term in older.terms))
    of_b = both / max(0.01, sum(weight[term] for term in newer.terms))
    values_a = {value for _, value, _, _ in older.values} & older.terms
    values_b = {value for _, value, _, _ in newer.values} & newer.terms
    subject_a, subject_b = older.terms - values_a, newer.terms - values_b
    subject = subject_a & subject_b
    quoted = frozenset(newer.quoted.casefold().split()) if newer.quoted else frozenset[str]()
    quoted_share = (
        sum(token.text in quoted for token in older.tokens) / max(1, len(older.tokens))
        if quoted
        else 0.0
    )
    return [
        of_a,
        of_b,
        min(of_a, of_b),
        len(shared) / max(1, len(older.terms | newer.terms)),
        _few(len(shared)),
        float(not shared),
        _few(len(subject)),
        len(subject) / max(1, len(subject_a)),
        len(subject) / max(1, len(subject_b)),
        max((weight[term] for term in subject), default=0.0),
        _few(len(subject_a - subject_b)),
        _few(len(subject_b - subject_a)),
        _few(len(values_a & values_b)),
        quoted_share,
    ]


def _key_features(older: Claim, newer: Claim) -> list[float]:
    a, b = frozenset(older.key), frozenset(newer.key)
    both = a & b
    return [
        float(bool(a) and a == b),
        float(bool(both) and a != b),
        float(bool(a) and bool(b) and not both),
        len(b & older.terms) / len(b) if b and not a else 0.0,
        len(a & newer.terms) / len(a) if a and not b else 0.0,
        float(bool(a)),
        float(bool(b)),
        _few(len(a ^ b)) if both else 0.0,
    ]


def _gap_features(gaps: Sequence[_Gap], matched: int, n: int, m: int) -> list[float]:
    swaps = [gap for gap in gaps if gap.older and gap.newer]
    same_group = [0.0] * len(_GROUP_NAMES)
    subject_words = subject_names = late_words = mixed = 0
    for gap in swaps:
        ours = {_GROUPS[token.kind] for token in gap.older}
        theirs = {_GROUPS[token.kind] for token in gap.newer}
        for group in ours & theirs:
            same_group[group] += 1
        if not ours & theirs:
            mixed += 1
        if gap.is_subject:
            subject_words += 9 in ours and 9 in theirs
            subject_names += bool({4, 5, 6, 7} & ours & theirs)
        else:
            late_words += 9 in ours and 9 in theirs
    first_swap = gaps[0] if gaps and gaps[0].older and gaps[0].newer else None
    return [
        *(_few(count, 2) for count in same_group),
        _few(mixed, 2),
        _few(len(swaps)),
        float(len(swaps) == 1),
        float(not gaps),
        _few(sum(1 for gap in gaps if gap.older and not gap.newer)),
        _few(sum(1 for gap in gaps if gap.newer and not gap.older)),
        _few(subject_words, 2),
        _few(subject_names, 2),
        _few(late_words, 2),
        max((_few(len(gap.older), 6) for gap in swaps), default=0.0),
        max((_few(len(gap.newer), 6) for gap in swaps), default=0.0),
        matched / max(1, n),
        matched / max(1, m),
        float(first_swap is not None and first_swap.is_subject),
        # the last token is the value, and nothing else differs
        float(len(swaps) == 1 and len(gaps) == 1 and gaps[0] is swaps[0] and matched >= 1),
    ]


def _value_features(older: Claim, newer: Claim) -> list[float]:
    """Return the features of both claims' values: the same word beside another value."""
    before = after = same_slot = 0
    groups_a = {(_GROUPS[kind], value) for kind, value, _, _ in older.values}
    groups_b = {(_GROUPS[kind], value) for kind, value, _, _ in newer.values}
    only_a, only_b = groups_a - groups_b, groups_b - groups_a
    for kind, value, left, right in newer.values:
        if (_GROUPS[kind], value) not in only_b:
            continue
        for kind_a, value_a, left_a, right_a in older.values:
            if _GROUPS[kind_a] != _GROUPS[kind] or (_GROUPS[kind_a], value_a) not in only_a:
                continue
            is_left, is_right = bool(left) and left == left_a, bool(right) and right == right_a
            before += is_left
            after += is_right
            same_slot += is_left and right == right_a
    kinds_a, kinds_b = {group for group, _ in only_a}, {group for group, _ in only_b}
    differ = kinds_a & kinds_b
    ids_a = {value for group, value in groups_a if group in (4, 5, 6)}
    ids_b = {value for group, value in groups_b if group in (4, 5, 6)}
    names_a = {value for group, value in groups_a if group == 7}
    names_b = {value for group, value in groups_b if group == 7}
    return [
        _few(before, 2),
        _few(after, 2),
        _few(same_slot, 2),
        *(float(group in differ) for group in range(len(_GROUP_NAMES) - 1)),
        float(bool(differ)),
        float(bool(ids_a & ids_b)),
        float(bool(ids_a) and bool(ids_b) and not ids_a & ids_b),
        float(bool(names_a & names_b)),
        float(bool(names_a) and bool(names_b) and not names_a & names_b),
        float(bool(names_a - names_b) and bool(names_b - names_a)),
        float(not groups_a),
        float(not groups_b),
        _few(len(groups_a & groups_b)),
    ]


def _cue_features(older: Claim, newer: Claim) -> list[float]:
    bits = [float(newer.cues >> place & 1) for place in range(len(CUES))]
    mine = [float(older.has(cue)) for cue in _OLDER_CUES]
    denies, denied = newer.has("than"), older.has("than")
    changes = any(newer.has(cue) for cue in ("recant", "instead", "moved", "no_longer", "back"))
    return [
        *bits,
        *mine,
        float(denies != denied),
        float(denies and denied),
        float(older.has("must") and newer.has("may")),
        float(denied and newer.has("may")),
        float(changes),
        float(changes or any(newer.has(cue) for cue in ("label", "now", "ends", "falsified"))),
        float(is_settled(older, newer)),
        float(is_outranked(older, newer)),
        float(is_outranked(newer, older)),
        float(older.rank != NO_RANK and older.rank == newer.rank),
        float(older.rank == NO_RANK and newer.rank >= _HIGH),
        float(has_same_body(older, newer)),
    ]


def is_settled(older: Claim, newer: Claim) -> bool:
    """Return True if the later claim decides and the earlier one only considered."""
    return older.has("tentative") and newer.has("firm") and not newer.has("tentative")


def is_outranked(older: Claim, newer: Claim) -> bool:
    """Return True if the later claim was decided above the earlier one."""
    return NO_RANK < older.rank < newer.rank


def has_same_body(older: Claim, newer: Claim) -> bool:
    """Return True if claims say the same, one of them under a key or by its source."""
    is_one_slot = not older.key or not newer.key or older.key == newer.key
    return is_one_slot and older.body == newer.body and len(older.body.split()) >= _BODY


def _shape_features(
    older: Claim,
    newer: Claim,
    a: Sequence[tuple[Token, bool]],
    b: Sequence[tuple[Token, bool]],
) -> list[float]:
    return [
        _few(len(a), 12),
        _few(len(b), 12),
        _few(newer.words, 20),
        _few(older.words, 20),
        float(len(b) <= 2),
        float(len(b) <= 4),
        float(newer.words <= 6),
        float(any(token.text in _POINTING for token in newer.tokens[:5])),
        float(len(a) <= 2),
    ]


def _offers(older: Claim, newer: Claim) -> bool:
    """Return True if the later claim has a value of a kind that the earlier one has, too."""
    kinds = {_GROUPS[kind] for kind, _, _, _ in newer.values}
    return any(_GROUPS[kind] in kinds for kind, _, _, _ in older.values)


def _around_features(newer: Claim, around: Around, *, has_offer: bool) -> list[float]:
    near = 0.0 if around.turns < 0 else 1.0 / (1 + around.turns)
    is_short = len(newer.terms) <= 4
    is_free = around.nearer == 0
    return [
        near,
        float(around.turns >= 0),
        float(0 <= around.turns <= 1),
        float(around.is_one_text),
        float(has_offer),
        float(has_offer and is_short),
        float(has_offer and is_free),
        float(has_offer and is_free and is_short) * near,
        _few(around.nearer, 3),
        float(is_short) * near,
        float(around.is_note),
    ]


def _succession_features(older: Claim, newer: Claim) -> list[float]:
    """Return the features of a later day's successor: another choice of a kind, another value of
    the same look or unit, an old value named where a change is announced.
    """
    chosen, chooses = choices(older), choices(newer)
    is_other = _names_another(chosen, chooses)
    values = [
        [value for kind, value, *_ in claim.values if kind in _NAMES] for claim in (older, newer)
    ]
    looks = max((_likeness(a, b) for a in values[0] for b in values[1] if a != b), default=0.0)
    measured = {(value, unit) for kind, value, _, unit in older.values if unit and kind == NUMBER}
    has_unit = any(
        unit == was_unit and value != was
        for kind, value, _, unit in newer.values
        for was, was_unit in measured
        if kind == NUMBER
    )
    shared = older.terms & newer.terms
    beside = 0
    for place, token in enumerate(newer.tokens):
        if parse(token.text).cues & _CHANGES:
            around = newer.tokens[max(0, place - _NEAR_CUE) : place + _NEAR_CUE + 1]
            beside = max(beside, sum(other.term in shared for other in around if other.term))
    old = {value for _, value, *_ in older.values}.union(*chosen.values())
    names_old = any(token.text in old for token in newer.tokens)
    changes = bool(newer.cues & _CHANGES)
    return [
        float(bool(chosen.keys() & chooses.keys())),
        float(is_other),
        float(is_other and changes),
        looks,
        float(bool(set(values[0]) & set(values[1]))),
        float(has_unit),
        _few(beside, 3),
        float(names_old),
        float(names_old and changes),
        float(_is_request(newer)),
        float(_is_request(older)),
        float(changes and not _is_request(newer)),
    ]


def _manner_features(claim: Claim) -> list[float]:
    """Return the features of how a claim is made: asked for, reported, stated, printed."""
    return [
        float(_ASKS.match(claim.text) is not None),
        float(claim.has("fault")),
        float(any(map(is_copula, claim.tokens))),
        1.0 - sum(map(_is_plain, claim.text)) / len(claim.text),
        float(claim.text[:1] in _SIGNS),
        float(any(token.text in _PERSONAL for token in claim.tokens)),
    ]


def _is_plain(letter: str) -> bool:
    return letter.isalpha() or letter == " "


def choices(claim: Claim) -> dict[str, set[str]]:
    """Return the tools and the like that a claim names, by their kind."""
    by_kind: dict[str, set[str]] = {}
    for token in claim.tokens:
        if (kind := CHOICES.get(token.text)) is not None:
            by_kind.setdefault(kind, set()).add(token.text)
    return by_kind


def _is_request(claim: Claim) -> bool:
    if claim.has("recant") or claim.has("label"):  # "change of plans, ..."
        return False
    return bool(claim.tokens) and claim.tokens[0].text in REQUESTS


def _likeness(a: str, b: str) -> float:
    """Return the likeness of two values: the share of letters that both begin and end with."""
    shorter = min(len(a), len(b))
    start = next((n for n in range(shorter) if a[n] != b[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if a[-1 - n] != b[-1 - n]), rest)
    return (start + end) / max(len(a), len(b))


Probabilities = npt.NDArray[np.float32]


def relations(pairs: Sequence[Sequence[float]]) -> Probabilities:
    """Return the probabilities of RELATIONS for the features of some pairs, [pairs, relations]."""
    x = np.asarray(pairs, np.float32).reshape(len(pairs), -1)
    mean: Probabilities = judge(_networks(), x).mean(0)
    return mean


def judge(model: "Model", x: npt.NDArray[np.float32]) -> Probabilities:
    """Return the probabilities of RELATIONS for rows of features, by a network or by several of
    them, [networks, pairs, relations].
    """
    # features that are rare in the fitted pairs must not decide alone
    x = np.clip((x - model.mean) / model.scale, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    hidden = np.tanh(x @ model.first + model.first_bias)
    scores = hidden @ model.second + model.second_bias + x @ model.direct
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    shares: Probabilities = (exponents / exponents.sum(-1, keepdims=True)).astype(np.float32)
    return shares


def likelihood(older: Claim, newer: Claim, around: Around, chance: float) -> float:
    """Return the probability of a change, given the `chance` by the features.

    A decision, or a higher rank, makes a likely change sure; a higher rank alone makes one
    possible. On another day, a likely change is sure if the claim repeats with another value, and a
    possible one if it names another choice of a kind. Under one key, of two values of a kind of
    which one is called a change, the later is surely the valid one.
    """
    is_near = 0 <= around.turns <= _APART
    if not is_near and (
        (chance >= _POSSIBLE and is_succeeded(older, newer))
        or (chance >= UNSURE and is_said_anew(older, newer))
    ):
        chance = max(chance, SURE)
    if is_near and chance < UNSURE and is_outranked(older, newer) and around.is_beside:
        chance = UNSURE
    elif is_near and chance >= UNSURE and older.terms & newer.terms:
        if is_settled(older, newer) or is_outranked(older, newer):
            chance = max(chance, SURE)
    is_one_slot = bool(older.key) and older.key == newer.key
    if is_one_slot and (_is_labelled(older) or _is_labelled(newer)):
        if chance >= UNSURE or _offers(older, newer):
            chance = max(chance, SURE)
    return min(chance, most_likely(older, newer, around))


def _is_labelled(claim: Claim) -> bool:
    """Return True if a claim is called a change before its colon: "Update, deadline v2: ..."."""
    return has_any_cue(claim.text.partition(":")[0], ("label",))


def restates(older: Claim, newer: Claim) -> bool:
    """Return True if claims give the same value, one of them under a key: "vendor: Acme Ltd", "we
    go with Acme Ltd".
    """
    if any(newer.cues & ~older.cues & 1 << CUES.index(cue) for cue in _DIFFERENT):
        return False
    for keyed, other in ((older, newer), (newer, older)):
        value = keyed.terms.difference(keyed.key)
        is_telling = len(value) >= _VALUE or any(kind == NAME for kind, *_ in keyed.values)
        if keyed.key and not other.key and is_telling and value and value <= other.terms:
            return True
    return False


def may_repeat(older: Claim, newer: Claim) -> bool:
    """Return True if claims share so many words that the later one may only say it again."""
    return len(older.terms & newer.terms) >= _ALIKE * len(older.terms | newer.terms)


def may_be_over(older: Claim, newer: Claim) -> bool:
    """Return True if a later claim may end an earlier one: a claim about the past, or a mere
    repetition, ends nothing, and one that calls something wrong must mean the earlier one.
    """
    if newer.has("past") and not any(newer.has(cue) for cue in ("now", "instead", "moved")):
        return False
    if newer.has("falsified") and len(older.terms & newer.terms) < _CALLED_WRONG * len(older.terms):
        return False
    if newer.has("label") and older.key and older.key == newer.key:
        return True
    values_before = {(kind, value) for kind, value, *_ in older.values}
    adds = any((kind, value) not in values_before for kind, value, *_ in newer.values)
    # "cancel that" ends no record that it was cancelled
    if older.has("ends") and (newer.has("ends") or newer.has("back")) and not adds:
        return False
    # "do not touch the seeds" repeats "skip the seeds, do NOT run them"
    turns = ("no_longer", "instead", "back", "recant", "label", "falsified")
    if older.has("than") and newer.has("than") and not adds and not any(map(newer.has, turns)):
        return False
    denies = any(newer.has(cue) for cue in ("ends", "no_longer", "falsified", "instead", "than"))
    if denies:
        return True
    was, is_now = (
        {value for kind, value, *_ in claim.values if kind in _MEASURES} for claim in (older, newer)
    )
    names, others = (
        {value for kind, value, *_ in claim.values if kind not in _MEASURES}
        for claim in (older, newer)
    )
    is_other = not was or was != is_now or bool(names - others and others - names)
    return not older.terms <= newer.terms and is_other


def most_likely(older: Claim, newer: Claim, around: Around) -> float:
    """Return the highest probability of a change, for any features: 0 if the claims share nothing
    and the later one does not point at one just before it, or if they are of different sessions and
    share too little, or one reports a fault or asks for something; UNSURE if the change is
    doubtful.
    """
    shared = {term for term in older.terms & newer.terms if not term[:1].isdigit()}
    announced = newer.cues & ~older.cues & _CHANGES
    is_far = around.turns < 0 or around.turns > _APART
    if is_far and (is_succeeded(older, newer) or is_said_anew(older, newer)):
        return 1.0
    if not shared:
        is_beside = 0 <= around.turns <= _BESIDE and len(newer.terms) <= _SHORT
        if not is_beside or not (announced or newer.has("firm")) or not _points(newer):
            return 0.0
        if len(older.terms) < _SAID and not older.values:  # "lint it", "looks good"
            return 0.0
    elif is_far:
        if not around.is_note and _is_of_its_day(older, newer):
            return 0.0
        is_same_key = bool(older.key) and older.key == newer.key
        if not announced and not around.is_note and not is_same_key:
            return 0.0
        ended = _ended_terms(newer) if newer.has("ends") else frozenset[str]()
        is_named = bool(ended) and ended <= older.terms
        if len(shared) < 2 and not is_named and not _has_same_slot(older, newer):
            return 0.0
        if len(shared) < _SHARED * min(len(older.terms), len(newer.terms)):
            return 0.0
    is_little = len(older.terms) >= _LONG and len(shared) < _HALF * len(newer.terms)
    return UNSURE if is_little or is_doubtful(older, newer) else 1.0


def is_succeeded(older: Claim, newer: Claim) -> bool:
    """Return True if the later claim announces another choice of the kind that the earlier names,
    and is about nothing else: after "we use npm" "we moved to pnpm", not "the docs moved to pnpm".
    """
    if not newer.cues & _CHANGES or any(newer.has(cue) for cue in ("tentative", "fault", "past")):
        return False
    chooses = choices(newer)
    if older.has("fault") or not _names_another(choices(older), chooses):
        return False
    return _is_about_nothing_else(older, newer, set[str]().union(*chooses.values()))


def is_said_anew(older: Claim, newer: Claim) -> bool:
    """Return True if the later claim says all that the earlier one does, with another value, or
    that it is so no longer.
    """
    if any(newer.has(cue) for cue in ("tentative", "fault", "past", "if")):
        return False
    values = {value for _, value, _, _ in older.values}
    words = (token for token in older.tokens if token.term and token.text not in values)
    statement_terms = {token.term for token in words if not parse(token.text).cues}
    if len(statement_terms) < _SAID or not statement_terms <= newer.terms:
        return False
    others = _other_values(older, newer)
    is_so = bool(others) or newer.has("no_longer")
    return is_so and _is_about_nothing_else(older, newer, others)


def _other_values(older: Claim, newer: Claim) -> set[str]:
    """Return the later claim's values that differ from an earlier one of their kind and unit, if it
    does not repeat that one.
    """
    new_values = {value for _, value, _, _ in newer.values}
    return {
        new
        for kind, value, _, unit in older.values
        for other, new, _, other_unit in newer.values
        if kind == other
        and value != new
        and unit == other_unit
        and value not in new_values
        and kind not in (STATUS, NAME)
    }


def _is_about_nothing_else(older: Claim, newer: Claim, but: Collection[str]) -> bool:
    """Return True if the later claim names nothing beyond the earlier one `but` some words, days
    and announcements of a change: "the limit for avatars" is not "the limit".
    """
    return all(
        token.term in older.terms or token.text in but or parse(token.text).cues
        for token in newer.tokens
        if token.term and token.kind != DATE
    )


def _names_another(chosen: Mapping[str, set[str]], chooses: Mapping[str, set[str]]) -> bool:
    return any(chooses.get(kind, names) - names for kind, names in chosen.items())


def _is_of_its_day(older: Claim, newer: Claim) -> bool:
    """Return True if one of two claims reports a fault or asks for something, as is done every day
    in like words, and gives no other value.
    """
    if older.has("fault") or newer.has("fault"):
        return True
    if newer.has("recant") or newer.has("label"):
        return False
    if _offers(older, newer) or _names_another(choices(older), choices(newer)):
        return False
    return any(_is_request(claim) or _ASKS.match(claim.text) for claim in (older, newer))


def _points(claim: Claim) -> bool:
    """Return True if a claim is about an earlier statement: it points at it, or only gives a value
    or a choice.
    """
    if claim.values or any(claim.has(cue) for cue in ("instead", "back", "firm")):
        return True
    return any(token.text in _POINTING for token in claim.tokens)


def _has_same_slot(older: Claim, newer: Claim) -> bool:
    """Return True if the same word stands before other values of a kind."""
    was = {(_GROUPS[kind], left): value for kind, value, left, _ in older.values if left}
    return any(
        was.get((_GROUPS[kind], left), value) != value for kind, value, left, _ in newer.values
    )


def is_doubtful(older: Claim, newer: Claim) -> bool:
    """Return True if a change is at most likely, for any features: the later claim announces
    nothing and differs in two places, is filed under another key, or ends something else.
    """
    a, b = frozenset(older.key), frozenset(newer.key)
    if a - b and b - a:
        return True
    if a and a == b and newer.has("label"):  # "Update, deadline v3: ..." after v2
        return False
    announced = newer.cues & ~older.cues & _CHANGES
    shared = older.terms & newer.terms
    if not announced:
        gaps, _ = _align(_content(older), _content(newer))
        swaps = [gap for gap in gaps if gap.older and gap.newer]
        if shared and (is_settled(older, newer) or is_outranked(older, newer)):
            # "the 2024 report is a draft", "the 2025 report is final"
            return any(gap.is_subject and _has_values(gap) for gap in swaps)
        if not shared or len(swaps) > 1 or any(map(_is_mixed, swaps)):
            return True
        # "the typo in a.py", "the typo in b.py": no place of anything
        kinds = {token.kind for gap in swaps for token in (*gap.older, *gap.newer)}
        is_said = bool(a) or any(token.text in _SAYS for token in newer.tokens)
        return bool(kinds) and kinds <= {PATH, IDENT, HOST} and not is_said
    if shared and newer.has("ends") and not newer.has("falsified"):
        ended = _ended_terms(newer)
        return len(ended & older.terms) < _ENDED * len(ended)
    return False


def _has_values(gap: _Gap) -> bool:
    return all(any(token.kind != WORD for token in side) for side in (gap.older, gap.newer))


def _is_mixed(gap: _Gap) -> bool:
    """Return True if more than a value differs at a place: words and values on both sides."""
    return all(
        len(side) > 2 and {WORD} < {token.kind for token in side} for side in (gap.older, gap.newer)
    )


def _ended_terms(claim: Claim) -> frozenset[str]:
    """Return the terms that a claim ends: its words without the ending cue and the reason."""
    ended: list[str] = []
    for token in claim.tokens:
        if token.text in _REASONS and ended:
            break
        if token.term and token.kind != DATE and not parse(token.text).has("ends"):
            ended.append(token.term)
    return frozenset(ended)


class Model(NamedTuple):
    """The weights of a network: [features, hidden], [hidden], [hidden, relations], ...; of several
    ones with an axis for them in front, and vectors as rows.
    """

    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    first: npt.NDArray[np.float32]
    first_bias: npt.NDArray[np.float32]
    second: npt.NDArray[np.float32]
    second_bias: npt.NDArray[np.float32]
    direct: npt.NDArray[np.float32]


@cache
def _networks() -> Model:
    """Return the networks, whose judgments are averaged."""
    with np.load(WEIGHTS) as arrays:
        parts = [arrays[name].astype(np.float32) for name in Model._fields]
    return Model(*(part[:, None] if part.ndim == 2 else part for part in parts))


def rarity_of(count: int, claims: int) -> float:
    """Return the rarity of a term found in `count` of some claims: 1 for a new one."""
    return 1.0 - math.log1p(count) / math.log1p(claims + 2)

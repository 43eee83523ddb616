"""
Lists without an order: "ruff, mypy and pytest" says what "pytest, ruff and mypy" says.

Most enumerations have an order that matters: steps, priorities, what is done one after the other.
So a list is put in order only where it ends its sentence, follows a word that gathers things, and
no word near it speaks of an order; points of a markdown list where no word of the text does.
"""

from collections.abc import Iterator, Sequence

from store.sameness.words import BULLET, COLON, COMMA, STOP, is_mark

_ANDS = frozenset("and und et y e и".split())
_ORS = frozenset("or oder ou o или".split())
_GATHERS = frozenset(
    """
    use uses using with support supports include includes including contain contains require
    requires need needs like are of in on for
    mit verwendet verwenden benutzt benutzen unterstützt braucht brauchen sind
    """.split()
)
JOINTS = _ANDS | _ORS | {BULLET}  # a text without one has no list
_ORDERED = frozenset(
    """
    then first second third next last finally before after order ordered ordering sequence step
    steps stage stages phase phases pipeline workflow process chain precedence priority priorities
    prefer prefers preferred hierarchy rank ranked sort sorts sorted respectively each from to
    ratio difference quotient minus divide divided subtract concatenate concatenation compare
    compared versus vs join joins map maps mapping convert converts
    between replace replaces swap run runs primary fallback
    not no never nor neither without except instead than but only
    erst zuerst dann danach zuletzt schritt schritte reihenfolge vor nach nicht nie niemals kein
    keine ohne statt nur jeweils
    puis ensuite avant après d'abord étapes ordre pas jamais sans
    luego después antes primero pasos orden nunca sin
    сначала затем потом после перед шаги порядок не без
    """.split()
)
_LONGEST = 4  # words of one thing in a list


def settled(tokens: Sequence[str]) -> list[str]:
    """Return tokens with the things of each list without an order sorted; without separators."""
    found: list[str] = []
    points: list[tuple[str, ...]] = []
    is_free = _ORDERED.isdisjoint(tokens)
    for sentence, is_point in _sentences(tokens):
        one = tuple(_sorted(sentence))
        if is_point and is_free:
            points.append(one)
            continue
        found += _flat(sorted(points))
        points.clear()
        found += one
    return found + _flat(sorted(points))


def _flat(parts: Sequence[Sequence[str]]) -> list[str]:
    return [token for part in parts for token in part]


def _sentences(tokens: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield the sentences, and of each whether it is the whole of a point of a list."""
    lines: list[str] = []
    is_point = False
    for token in tokens:
        if token == BULLET:
            is_point = True
        elif token == STOP:
            if lines:
                yield lines, is_point
                lines, is_point = [], False
        else:
            lines.append(token)
    if lines:
        yield lines, is_point


def _sorted(sentence: Sequence[str]) -> list[str]:
    """Return a sentence without commas and colons, the list that ends it in order."""
    plain = [token for token in sentence if token not in (COMMA, COLON)]
    if _ANDS.isdisjoint(sentence) and _ORS.isdisjoint(sentence):
        return plain  # what commas alone part may be anything
    if not _ORDERED.isdisjoint(sentence):
        return plain
    joints = [place for place, token in enumerate(sentence) if _is_joint(token)]
    head = next((at for at in range(joints[0] - 1, -1, -1) if _gathers(sentence, at)), None)
    if head is None:
        return plain
    things = _things(sentence[head + 1 :])
    is_or = not _ORS.isdisjoint(sentence)
    if is_or and not _ANDS.isdisjoint(sentence):
        return plain
    if not all(1 <= len(thing) <= _LONGEST for thing in things) or not _are_free(things):
        return plain
    before = [token for token in sentence[: head + 1] if token not in (COMMA, COLON)]
    return [*before, "or" if is_or else "and", *_flat(sorted(things))]


def _is_joint(token: str) -> bool:
    return token == COMMA or token in _ANDS or token in _ORS


def _gathers(sentence: Sequence[str], at: int) -> bool:
    """Return whether what follows a place are things: "with ..." or "languages: ..."."""
    token = sentence[at]
    if token == COLON:
        return at > 0 and not is_mark(sentence[at - 1]) and sentence[at - 1].endswith("s")
    return token in _GATHERS


def _things(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what stands between the joints; a comma before an "and" is one joint with it."""
    found: list[list[str]] = [[]]
    for token in tokens:
        if not _is_joint(token):
            found[-1].append(token)
        elif found[-1]:
            found.append([])
    return [tuple(one) for one in found]


def _are_free(things: Sequence[tuple[str, ...]]) -> bool:
    """Return whether things may stand in any order: two numbers may be a point or a range."""
    if any(COLON in thing or thing[0].endswith("ing") for thing in things):
        return False
    has_number = any(map(str.isdigit, "".join(token for thing in things for token in thing)))
    return len(things) > 2 or not has_number

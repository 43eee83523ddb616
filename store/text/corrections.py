"""
Corrections: "The port is 5433" after "The port is 5432", and mere look-alikes.

Two texts that differ in one value may be a correction, or two facts of a kind: test 12 and test 13,
the build of Monday and that of Tuesday. It is taken for a correction only if the value is the
sentence's predicate on a named subject: it ends the clause, follows "is", "to", "listens on port",
and the rest of the text is the same to the letter. The caller decides if the newer may replace the
older (same speaker, project, kind).
"""

import re
from itertools import pairwise

from store.text.strict_duplicates import (
    FUNCTION,
    MARK,
    NOW,
    RELATIVE,
    STOP,
    Statement,
    differences,
    is_mark,
    timeless,
)

_SAYS = frozenset({"is", "are", "=", MARK + "=", "equals", "ist", "sind", "est", "sont", "es"})
_AT = frozenset({"to", "on", "at", "from", "after", "every", "within", "in", "for"})
_MOST = frozenset({"most", "least"})
_VALUES = frozenset({"port", "version", "python", "node", "line", "level"})
_USES = frozenset({"uses", "requires", "needs"})
_UNITS = frozenset(
    """
    bytes characters days seconds minutes hours weeks months years times percent rows lines items
    retries attempts workers threads connections requests replicas cores tokens points pixels
    gb mb kb ms
    """.split()
)
_REASONS = frozenset({"because", "so", "since", "as", "until", "weil", "damit"})
# a sentence about one of many, or about nothing named
_UNNAMED = frozenset("a an this that these those it one another some other each any he she".split())
_HAPPENED = frozenset(
    """
    was were ran took went came got had did made found saw lost gave began broke grew fell rose
    cost left met won wrote sent
    """.split()
)
_VERBS = frozenset(
    """
    accept allow answer belong bind build cache cap come connect default deploy end expire fire
    fit happen hold keep last limit list listen live log need open point poll publish read refresh
    renew require resolve restart retrie retry return rotate run save send serve show sit sleep
    start stay stop store sync time trigger use wait watch write
    """.split()
)
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_KINDS = (
    ("date", _DATE),
    ("time", re.compile(r"\d{1,2}:\d{2}(:\d{2})?")),
    ("url", re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)),
    ("number", re.compile(r"[-+~<>=$€£¥]*\d[\d.,_]*(%|[^\W\d_]{1,3})?")),
    ("version", re.compile(r"[vV]?\d+(\.\w+)+([-+][\w.]+)?")),
    ("path", re.compile(r"[~.]?[\w.-]*([/\\][\w.@-]*)+")),
    ("name", re.compile(r"[\w.:@-]+")),
)


def correction(older: Statement, newer: Statement) -> tuple[str, str] | None:
    """Return the older value and the newer, if the newer statement corrects the older by one.

    None if they are equal, or may be two facts.
    """
    places = differences(older, newer)
    if len(places) != 1 or (older.is_relative and not _is_by_now(older)):
        return None
    if newer.is_relative and not _is_by_now(newer):
        return None
    place, was, is_now = places[0]
    kind = _kind(was)
    if kind is None or kind != _kind(is_now):
        return None
    return (was, is_now) if _is_said_of_it(timeless(older), place, kind) else None


def _is_by_now(statement: Statement) -> bool:
    """Return True if only "now" dates a statement: it then gives the present state."""
    return NOW.issuperset(RELATIVE.intersection(statement.said))


def _kind(value: str) -> str | None:
    return next((name for name, form in _KINDS if form.fullmatch(value)), None)


def _is_said_of_it(tokens: list[str], place: int, kind: str) -> bool:
    """Return True if the value at a place is the one that its sentence gives to its subject."""
    start = max((at for at in range(place) if tokens[at] == STOP), default=-1) + 1
    subject = tokens[start:place]
    if not _ends_clause(tokens, place) or not _UNNAMED.isdisjoint(subject):
        return False
    if all(token in FUNCTION or is_mark(token) or token in _UNITS for token in subject):
        return False
    before = subject[-1]
    if before in _VALUES and len(subject) > 1:
        before = subject[-2]
        if before not in _SAYS | _AT | _USES:
            return False
    if before in _SAYS:
        return True
    if kind in ("date", "time") or not _tells_state(subject):
        return False
    return before in _AT or before in _MOST or before in _USES


def _ends_clause(tokens: list[str], place: int) -> bool:
    after = tokens[place + 1]
    if after in _UNITS or is_mark(after):
        if after == MARK + "?":
            return False
        after = tokens[place + 2] if place + 2 < len(tokens) else STOP
    return after == STOP or after in _REASONS


def _tells_state(subject: list[str]) -> bool:
    """Return True if a sentence states a present fact, not a past event or nothing."""
    words = set(subject)
    if not words.isdisjoint(_HAPPENED):
        return False
    if "is" in words or "are" in words:
        return True
    # the server listens, servers listen; "listen on 80" alone asks for it
    return any(
        word.removesuffix("s") in _VERBS and word.endswith("s") != before.endswith("s")
        for before, word in pairwise(subject)
    )

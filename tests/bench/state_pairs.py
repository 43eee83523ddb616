"""
Labelled pairs of claims, older and newer, for `make fit`, from slots and ways to say them.

A slot has one value at a time ("the port of the billing service": tests/data/state/slots.tsv); a
family is a way in which a later claim stands to an earlier one (corrects it in passing, cancels it,
is about another service, ...), its words in templates.tsv. Every pair is drawn with a fixed seed.
What no template gives is written by hand, in pairs.tsv; chores.tsv are prompts that change nothing.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from store.text.claim_pairs import Around, Relation
from store.text.claims import parse

FOLDER = Path(__file__).parents[1] / "data" / "state"
SOURCES = ("slots.tsv", "templates.tsv", "pairs.tsv", "chores.tsv")
SEED = 7


@dataclass(frozen=True)
class Pair:
    """`domain` is its slot, `template` that of the newer claim: what folds are made by."""

    family: str
    older: str
    newer: str
    relation: Relation
    around: Around
    domain: str = ""
    template: str = ""


@dataclass(frozen=True)
class Slot:
    """`says` are sentences with {s}, which has the value, and {v}; `name` is that of the value."""

    language: str
    name: str
    subjects: Sequence[str]
    values: Sequence[str]
    says: Sequence[str]


def _rows(name: str) -> Iterator[list[str]]:
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


class Draw:
    """Draws pairs of every family; `words` are templates by what they say, then by language."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.slots = [
            Slot(language, name, *(tuple(part.split("|")) for part in parts))
            for language, name, *parts in _rows("slots.tsv")
        ]
        self.words: dict[tuple[str, str], list[str]] = {
            (name, language): some.split("|") for name, language, some in _rows("templates.tsv")
        }
        self.template = ""  # that was filled last

    def pick(self, some: Sequence[str]) -> str:
        return self.random.choice(some)

    def word(self, name: str, language: str = "en") -> str:
        return self.pick(self.words[name, language])

    def fill(
        self, template: str, slot: Slot, subject: str, value: str, old: str = "", said: str = ""
    ) -> str:
        """Return a template with the words of a slot, as people type it."""
        x = said or self.say(slot, subject, value)
        self.template, why, text = template, self.word("why"), template
        words = {"x": x, "s": subject, "v": value, "o": old, "n": slot.name, "why": why}
        words |= {name: self.word(name) for name in ("boss", "extra")} | {"p": self.word("person")}
        words["m"] = self.random.choice(self.slots).name
        for name in ("x", "s", "why"):
            words[name.capitalize()] = words[name][:1].upper() + words[name][1:]
        for name, said_so in words.items():
            text = text.replace("{" + name + "}", said_so)
        return self.style(text.replace(" for  ", " "))

    def use(
        self, name: str, slot: Slot, subject: str, value: str, old: str = "", said: str = ""
    ) -> str:
        return self.fill(self.word(name, slot.language), slot, subject, value, old, said)

    def say(self, slot: Slot, subject: str, value: str, template: str = "") -> str:
        self.template = template or self.pick(slot.says)
        text = self.template.replace("{s}", subject).replace("{v}", value)
        return " ".join(text.replace(" for  ", " ").strip(" :").split())

    def style(self, text: str) -> str:
        """Return a text with or without capitals and a stop."""
        drawn, text = self.random.random(), " ".join(text.split())
        if drawn < 0.45:
            text = text[:1].upper() + text[1:]
        if drawn < 0.3 and text[-1:] not in ".!?":
            text += "."
        return text.lower() if drawn > 0.93 else text

    def keyed(self, slot: Slot, subject: str, value: str) -> str:
        """Return a value as a line of key and value."""
        name, form = f"{subject.removeprefix('the ')} {slot.name}".strip(), self.random.randrange(4)
        if form == 0:
            name = name.replace(" ", "_").lower()
        is_bare = form < 2 or self.random.random() < 0.5
        return f"{name}: {value if is_bare else self.say(slot, subject, value)}"

    def two(self, slot: Slot) -> tuple[str, str, str]:
        """Return a subject and two values of a slot."""
        return (self.pick(slot.subjects), *self.random.sample(list(slot.values), 2))

    def said_by(self, role: str, text: str) -> str:
        """Return a text as one of a role says it."""
        form = self.word("said by")
        for mark, words in (
            ("{r}", role),
            ("{R}", role.upper()),
            ("{n}", self.word("person")),
            ("{t}", text),
        ):
            form = form.replace(mark, words)
        return form

    def other(self, slot: Slot) -> tuple[Slot, str, str]:
        """Return another slot with a subject and a value."""
        others = [
            one for one in self.slots if one.name != slot.name and one.language == slot.language
        ]
        found: Slot = self.random.choice(others or self.slots)
        return found, self.pick(found.subjects), self.pick(found.values)

    def around(self, near: bool | None = None) -> Around:
        is_near = self.random.random() < 0.55 if near is None else near
        turns = self.random.choice((0, 1, 1, 2, 3, 5) if is_near else (-1, -1, -1, 12, 25))
        nearer = 0 if self.random.random() < 0.7 else self.random.choice((1, 2, 3))
        return Around(turns, turns == 0, nearer, self.random.random() < 0.3)

    def older(self, slot: Slot, subject: str, value: str) -> str:
        drawn = self.random.random()
        if drawn < 0.2:
            return self.style(self.keyed(slot, subject, value))
        said = self.say(slot, subject, value)
        if drawn < 0.3:
            return self.use("cue", slot, subject, value, self.pick(slot.values), said)
        if drawn < 0.4:
            return self.style(f"{said}, {self.word('extra')}")
        if drawn < 0.52:
            return self.style(f"{'Note' if drawn < 0.47 else 'So'}: {said}")
        return self.style(said)


Made = Iterator[tuple[str, str, str, Around]]  # family, older, newer, where they stand


def _replaces(draw: Draw, slot: Slot) -> Made:
    s, o, v = draw.two(slot)
    older, plain = draw.older(slot, s, o), draw.pick(slot.says)
    yield "restated with a cue", older, draw.use("cue", slot, s, v, o), draw.around()
    yield "moved", older, draw.use("moved", slot, s, v, o), draw.around()
    if s:
        same = draw.style(draw.say(slot, s, o, plain)), draw.style(draw.say(slot, s, v, plain))
        yield "restated plainly", *same, draw.around()
        yield "restated in other words", older, draw.older(slot, s, v), draw.around()
    key, suffix = draw.word("key"), draw.word("key suffix")
    first, (head, _, rest) = draw.keyed(slot, s, o), draw.keyed(slot, s, v).partition(": ")
    newer = key.replace("{k}", f"{head}{suffix}: {rest}")
    yield "key and value", draw.style(first), newer, draw.around()
    yield "key for a sentence", older, newer, draw.around()
    for _ in range(2 if s else 8):
        turns = draw.random.choice((1, 1, 1, 2, 3))
        said = draw.say(slot, s, o) if draw.random.random() < 0.5 else older
        yield "short", said, draw.use("short", slot, s, v, o), Around(turns)
    if slot.language != "en":
        return
    if draw.random.random() < 0.3:
        yield "negated", older, draw.use("negated", slot, s, v, o), draw.around()
    if draw.random.random() < 0.3:
        yield "new value with its story", older, draw.use("story", slot, s, v, o), draw.around()
    if s:
        low, high = draw.word("lower"), draw.word("higher")
        said_by = draw.said_by(low, draw.say(slot, s, o)), draw.said_by(high, draw.say(slot, s, v))
        yield "decided above", *said_by, draw.around(True)
        tentative = draw.use("tentative", slot, s, o)
        for _ in range(2):
            turns = draw.random.choice((1, 1, 2))
            yield "tentative before", tentative, draw.use("firm", slot, s, v), Around(turns)
        keyed, turns = draw.keyed(slot, s, o), draw.random.choice((1, 1, 2, 3))
        yield "slot set", keyed, draw.use("slot set", slot, s, v, o), Around(turns)
        if draw.random.random() < 0.4:
            chosen = draw.use("chosen", slot, s, o)
            yield "chosen again", chosen, draw.use("chosen", slot, s, v, o), draw.around(True)
        here, _ = draw.word("scope").split(">")
        was, is_now = (f"{draw.say(slot, s, value)} {here}" for value in (o, v))
        newer = draw.use("cue", slot, s, v, o, is_now)
        yield "same scope", draw.style(was), newer, draw.around()


def _ends(draw: Draw, slot: Slot) -> Made:
    s, o, v = draw.two(slot)
    template = draw.word("ended", slot.language)
    if not s and "{s}" in template:
        template = "we don't do {o} any more"
    older = draw.older(slot, s, o)
    around = draw.around(True) if template.startswith("Cancel that") else draw.around()
    yield "ended", older, draw.fill(template, slot, s, v, o), around
    if slot.language == "en":
        said = draw.word("wrong").replace("{q}", older.rstrip("."))
        yield "called wrong", older, draw.fill(said, slot, s, v, o), draw.around()


def _refines(draw: Draw, slot: Slot) -> Made:
    s, o, v = draw.two(slot)
    if not s:
        return
    older, said = draw.older(slot, s, o), draw.say(slot, s, o)
    yield "refined", older, draw.use("refined", slot, s, o, o, said), draw.around()
    if others := [one for one in slot.subjects if one != s]:
        both = f"{draw.say(slot, s, o)} and {draw.say(slot, draw.random.choice(others), v)}"
        yield "both said", older, draw.style(both), draw.around()


def _repeats(draw: Draw, slot: Slot) -> Made:
    s, o, _ = draw.two(slot)
    said = draw.say(slot, s, o)
    older = draw.style(said) if draw.random.random() < 0.5 else draw.older(slot, s, o)
    yield "repeated", older, draw.use("repeated", slot, s, o, o, said), draw.around()
    if s:
        yield "repeated in other words", older, draw.older(slot, s, o), draw.around()
        yield "repeated as a key", older, draw.style(draw.keyed(slot, s, o)), draw.around()


def _changes_nothing(draw: Draw, slot: Slot) -> Made:
    s, o, v = draw.two(slot)
    older = draw.older(slot, s, o)
    if others := [one for one in slot.subjects if one != s]:
        t, plain = draw.random.choice(others), draw.pick(slot.says)
        same = draw.style(draw.say(slot, s, o, plain)), draw.style(draw.say(slot, t, v, plain))
        yield "another subject", *same, draw.around()
        if slot.language == "en":
            chosen = draw.use("chosen", slot, s, o), draw.use("chosen", slot, t, v)
            yield "another chosen", *chosen, draw.around(True)
        yield "another subject in other words", older, draw.older(slot, t, v), draw.around()
        for name, family in (("moved", "changed"), ("cue", "with a cue")):
            newer = draw.use(name, slot, t, v, draw.pick(slot.values))
            yield f"another subject {family}", older, newer, draw.around()
        keys = draw.style(draw.keyed(slot, s, o)), draw.style(draw.keyed(slot, t, v))
        yield "another key", *keys, draw.around()
        ended = draw.word("ended", slot.language)
        if "{o}" not in ended and not ended.startswith("Cancel that"):
            yield "another ended", older, draw.fill(ended, slot, t, v, o), draw.around()
    kin = [
        one
        for one in draw.slots
        if one.name != slot.name and s in one.subjects and one.language == slot.language
    ]
    if kin and s:
        near = draw.random.choice(kin)
        value, old = draw.pick(near.values), draw.pick(near.values)
        yield "another slot", older, draw.older(near, s, value), draw.around()
        yield "another slot with a cue", older, draw.use("cue", near, s, value, old), draw.around()
        yield "another slot changed", older, draw.use("moved", near, s, value, old), draw.around()
    far, s2, v2 = draw.other(slot)
    yield "another matter", older, draw.older(far, s2, v2), draw.around()
    yield "another matter changed", older, draw.use("moved", far, s2, v2, "that"), draw.around()
    if _kinds(o) != _kinds(v2):
        turns, nearer = draw.random.choice((0, 1, 2, 3)), draw.random.choice((0, 1, 2))
        around = Around(turns, turns == 0, nearer)
        yield "short about another kind", older, draw.use("short", far, s2, v2, "that"), around
    around = Around(draw.random.choice((-1, 4, 8, 15, 30)), False, draw.random.choice((1, 2, 3)))
    yield "short from afar", older, draw.use("short", slot, s, v, ""), around
    if slot.language != "en":
        return
    t = s or "the app"
    for name in ("maybe", "past", "task"):
        yield f"only {name}", older, draw.use(name, slot, t, v, o), draw.around()
    yield "a task before", draw.use("task", slot, t, v, o), draw.older(slot, s, v), draw.around()
    yield "chatter", older, draw.style(draw.word("chatter")), draw.around(True)
    newer = draw.use("moved", slot, s, v, o)
    yield "chatter before", draw.style(draw.word("chatter")), newer, draw.around(True)
    quoted = draw.word("wrong").replace("{q}", draw.say(far, s2, v2))
    yield "another called wrong", older, draw.fill(quoted, slot, s, v, o), draw.around()
    if not s:
        return
    here, there = draw.word("scope").split(">")
    was, is_now = f"{draw.say(slot, s, o)} {here}", draw.say(slot, s, v)
    yield "another scope", draw.style(was), draw.style(f"{is_now} {there}"), draw.around()
    yield "another scope first", draw.style(was), draw.style(f"{there} {is_now}"), draw.around()
    low, high = draw.word("lower"), draw.word("higher")
    said_by = draw.said_by(low, draw.say(slot, s, o)), draw.said_by(high, draw.say(far, s2, v2))
    yield "another decided above", *said_by, draw.around(True)
    said_by = draw.said_by(high, draw.say(slot, s, o)), draw.said_by(low, draw.say(slot, s, v))
    yield "decided below", *said_by, draw.around(True)
    if kin:
        value, keyed = draw.pick(near.values), draw.keyed(slot, s, o)
        yield "another slot set", keyed, draw.use("slot set", near, s, value, o), draw.around(True)
    tentative = draw.use("tentative", slot, s, o)
    yield "another after a tentative", tentative, draw.use("firm", far, s2, v2), draw.around()


def _kinds(value: str) -> frozenset[int]:
    return frozenset(kind for kind, *_ in parse(f"it is {value}").values)


FAMILIES: tuple[tuple[Relation, Callable[[Draw, Slot], Made], int], ...] = (
    ("replaces", _replaces, 5),
    ("ends", _ends, 5),
    ("refines", _refines, 4),
    ("repeats", _repeats, 4),
    ("none", _changes_nothing, 4),
)
SERIES = 12  # times that each look-alike of a series is drawn


def pairs() -> list[Pair]:
    """Return all labelled pairs, each different one once, in a fixed order."""
    draw = Draw(SEED)
    found: dict[tuple[str, str], Pair] = {}
    for slot in draw.slots:
        for relation, make, times in FAMILIES:
            for _ in range(times):
                for family, older, newer, around in make(draw, slot):
                    pair = Pair(family, older, newer, relation, around, slot.name, draw.template)
                    found.setdefault((older, newer), pair)
    for template in SERIES * draw.words["series", "en"]:
        first, second = template.split(">")
        n, m = draw.random.sample(range(2, 400), 2)
        older, newer = first.replace("{n}", str(n)), second.replace("{m}", str(m))
        pair = Pair("a series", older, newer, "none", draw.around(), "series", second)
        found.setdefault((older, newer), pair)
    for family, relation, turns, older, newer in _rows("pairs.tsv"):
        around = Around(int(turns))
        pair = Pair(f"hand: {family}", older, newer, "none", around, "hand", newer)
        found[older, newer] = replace(pair, relation=relation)  # type: ignore[arg-type]
    for turns, older, newer in _rows("chores.tsv"):
        around = Around(int(turns), False, draw.random.choice((0, 0, 1, 2)) if turns != "-1" else 0)
        found[older, newer] = Pair("chores", older, newer, "none", around, "chores", newer)
    is_other = (one for one in found.values() if one.older.casefold() != one.newer.casefold())
    return list(is_other)

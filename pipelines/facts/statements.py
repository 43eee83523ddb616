"""
Statements: what an asserted sentence says of which entity, by patterns (`rules`) that match all of
it.

So a statement under a condition, in one place or for one case ("in staging", "for EU customers") is
none. A list of versions states each of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.facts import phrases
from pipelines.facts.forms import PRODUCTS, VERSION, compiled
from pipelines.facts.rules import RULES, USE

LEAST_CONFIDENCE = 0.75


@dataclass(frozen=True, slots=True)
class Statement:
    """`when` are the words that say since when, empty where none do."""

    entity: str
    relation: str
    value: str
    is_singleton: bool
    confidence: float
    when: str = ""


_LISTS = compiled(rf"(?:{USE}|(?i:I've set up|I set up) (?i:my|our) \w+ (?i:with)) ")
_LISTED = compiled(rf"{PRODUCTS} (?:(?i:version) )?{VERSION}")
_NEXT = compiled(r"(?:~,~and|~,| and| with) ")
_AFTER_LIST = compiled(
    r"~[.!]*$| (?i:for) |,? (?i:and|because) (?i:I|I've|we|we've|the|my|our|it)\b"
)


def _versions(said: str) -> list[Statement]:
    """Return the versions that "we use Flask 2.3 and Redis 7.0" lists; none of part of a list."""
    start = _LISTS.match(said)
    at, found = (start.end() if start else 0), list[Statement]()
    while start and (match := _LISTED.match(said, at)):
        found.append(Statement(match["entity"], "version", match["value"], True, 0.9))
        if _AFTER_LIST.match(said, match.end()):
            return found
        between = _NEXT.match(said, match.end())
        if between is None:
            return []
        at = between.end()
    return []


def statements(sentence: str) -> Iterator[Statement]:
    """Yield what an asserted sentence states, by the first pattern that fits."""
    when, said = phrases.led_in(sentence)
    if listed := _versions(said):
        yield from listed
        return
    for rule in RULES:
        match = rule.pattern.match(said)
        if match is None:
            continue
        ends = phrases.tail(said[match.end() :])
        entity = phrases.entity(match, rule.entity)
        if ends is None or entity is None or (ends and when):
            continue
        relation = match["slot"].lower() if rule.relation == "slot" else rule.relation
        value = phrases.value(match["value"])
        confidence = rule.strength - phrases.vagueness(entity, said)
        if value is None or confidence < LEAST_CONFIDENCE:
            continue
        yield Statement(
            entity, relation, value, rule.is_singleton, round(confidence, 2), when or ends
        )
        return

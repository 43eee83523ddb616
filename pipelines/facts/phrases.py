"""
Phrases: what of a matched sentence is an entity, a value and a time, and what makes it none.
"""

import re

from pipelines.facts.forms import WHEN, compiled, one_of

_WHEN = compiled(WHEN)
_LED_IN = compiled(rf"(?P<when>{WHEN})~,?~(?=\S)")
_ADVERBS = one_of("now only again currently already")
_FILLER = compiled(rf"(?: (?:{_ADVERBS}|(?i:at the moment|by default)))+")
# beside the statement, and no case that it is of
_ASIDE = compiled(r"~\((?!(?i:in|on|for|only|at|by|from|to|of|with)\b|\w+\))[^()]*\)$")
_GOALS = one_of("keep avoid match be reduce save meet get")
_REASON = compiled(
    r"(?<!\s)(?:~[,(–—-]+~| )(?:(?i:because|so that|so|as|since|due to|thanks to|which)"
    rf"|(?i:to) {_GOALS}|(?i:and) {one_of('we it they I that the our')})(?=\s)"
)


def led_in(sentence: str) -> tuple[str, str]:
    """Return the time a sentence begins with, empty for none, and the sentence without it."""
    match = _LED_IN.match(sentence)
    return (match["when"], sentence[match.end() :]) if match else ("", sentence)


def tail(rest: str) -> str | None:
    """Return the time in what follows a value, empty for none; None where more follows than a
    reason and a time: the statement is then of a case, or of several values.
    """
    rest = _ASIDE.sub("", rest.rstrip(" \t.!"))
    if rest and (reason := _REASON.search(rest)):
        before = rest[: reason.start()]
        is_time = reason[0].strip(" ,(–—-").lower() == "since" and _WHEN.match(
            rest[reason.start() :].strip(" ,(–—-")
        )
        rest = rest if is_time else before
    filler = _FILLER.match(rest)
    rest = (rest[filler.end() :] if filler else rest).strip(" ,(")
    if not rest:
        return ""
    return rest if _WHEN.fullmatch(rest) else None


def entity(match: re.Match[str], named: str) -> str | None:
    """Return the entity of a match, as it is written; None where it is no name of one thing."""
    if named:
        return named
    found = match.groupdict()
    if (found.get("det") or "").lower().strip() not in ("", "the", "our"):
        return None
    words = match["entity"].split()
    if any(word.lower() in _NO_NAME | _ARTICLES for word in words) or not any(
        map(str.isalpha, match["entity"])
    ):
        return None
    return None if words[0].lower() in _NO_HEAD else " ".join(words)


def value(written: str) -> str | None:
    """Return a value without what belongs to the sentence; None where it names nothing."""
    found = written.strip(" .,;:!")
    first = found.split()[0] if found else "it"
    return None if first in _NO_NAME or first == "I" else found  # Go is a name, "go" is none


def vagueness(entity: str, sentence: str) -> float:
    """Return by how much less sure a statement is: of a common thing, in a long sentence."""
    is_vague = entity.lower() in _VAGUE
    return 0.1 * is_vague + 0.1 * (len(sentence.split()) > 20)


_ARTICLES = frozenset("the our a an".split())
_NO_NAME = frozenset(
    """it this that these those they them he she him her we us you i me who what which where when
    how why there here everything something anything nothing everyone someone anyone nobody one ones
    thing things stuff other others another each every both few many several some any all none more
    most less same such and or but so because as of if then than too very just only also now still
    is are was were be been being am has have had do does did runs run uses use lives live listens
    owns own moved switched renamed works work goes go using running with without to from by for
    in on at into onto over under please thanks yes no not ours yours mine theirs its their his my
    your upgraded updated bumped downgraded pinned migrated set raised lowered increased reduced
    changed cut deploy deployed host hosted""".split()
)
_NO_HEAD = frozenset("set make run use let get put keep move start stop add fix change".split())
_VAGUE = frozenset(
    """app application backend code database db frontend function module project script server
    service system test tests tool worker""".split()
)

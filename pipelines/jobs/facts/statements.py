"""
From a memory's text to its facts: assertions, their statements, owners and start times.

A sentence is a statement if a pattern of `rules` matches all of it. So a sentence with a condition,
a place or a case ("in staging", "for EU customers") is not. A list of versions states each of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.jobs.facts.rules import (
    PRODUCTS,
    PROJECT,
    RULES,
    SPEAKER,
    USE,
    VERSION,
    WHEN,
    compile_form,
    one_of,
)
from store.derived.facts import entity_name
from store.log.event_kinds import Made
from store.memories.memory import Memory
from store.text.dates import interval
from store.text.mentions import speaker_name

LEAST_CONFIDENCE = 0.75


@dataclass(frozen=True, slots=True)
class Statement:
    """A matched sentence; `when` has the words that give its start time, empty without any."""

    entity: str
    relation: str
    value: str
    is_singleton: bool
    confidence: float
    when: str = ""


_LISTS = compile_form(rf"(?:{USE}|(?i:I've set up|I set up) (?i:my|our) \w+ (?i:with)) ")
_LISTED = compile_form(rf"{PRODUCTS} (?:(?i:version) )?{VERSION}")
_NEXT = compile_form(r"(?:~,~and|~,| and| with) ")
_AFTER_LIST = compile_form(
    r"~[.!]*$| (?i:for) |,? (?i:and|because) (?i:I|I've|we|we've|the|my|our|it)\b"
)


def _versions(text: str) -> list[Statement]:
    """Return the versions in a list like "we use Flask 2.3 and Redis 7.0"; all of them or none."""
    start = _LISTS.match(text)
    at, versions = (start.end() if start else 0), list[Statement]()
    while start and (match := _LISTED.match(text, at)):
        versions.append(Statement(match["entity"], "version", match["value"], True, 0.9))
        if _AFTER_LIST.match(text, match.end()):
            return versions
        between = _NEXT.match(text, match.end())
        if between is None:
            return []
        at = between.end()
    return []


def statements(sentence: str) -> Iterator[Statement]:
    """Yield the statements in an asserted sentence, by the first pattern that fits."""
    when, text = split_time_prefix(sentence)
    if listed := _versions(text):
        yield from listed
        return
    for rule in RULES:
        match = rule.pattern.match(text)
        if match is None:
            continue
        ends = time_suffix(text[match.end() :])
        entity = entity_of(match, rule.entity)
        if ends is None or entity is None or (ends and when):
            continue
        relation = match["slot"].lower() if rule.relation == "slot" else rule.relation
        value = value_of(match["value"])
        confidence = rule.strength - vagueness(entity, text)
        if value is None or confidence < LEAST_CONFIDENCE:
            continue
        yield Statement(
            entity, relation, value, rule.is_singleton, round(confidence, 2), when or ends
        )
        return


# Assertions: sentences that are not questions, suppositions, denials, quotes or wishes.
#
# Word lists and no model. A sentence left out costs little, since its turn is kept anyway; one
# read too broadly would be a wrong fact. So a doubtful sentence is left out.

MAX_TEXT = 6_000  # characters; a longer text is pasted, so it is not the writer's own statement
MAX_SENTENCE = 300
MIN_WORDS, MAX_WORDS = 3, 40

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NO_PROSE = re.compile(r"\s*(?:>|\||\+|#|\$ |--|@@|//|/\*|\{|\}|<)|(?: {4}|\t)(?!\s*[-*\d])")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(?:\[[ xX]?\]\s+)?")
_ENDS = re.compile(r"[.!?:;]\W*$")
_WIDE = 60  # characters of the shortest line that may be wrapped
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|(?<=[.!?])\s+(?=we\b|i\b)|(?<!\s)\s*;\s+")
_LEAD_IN = re.compile(
    r"^(?:(?:please )?(?:note|remember|keep in mind|mind)(?: that\b|\s*[:,])"
    r"|(?:fyi|btw|by the way|for the record|for reference|update|correction|decision|decided|done"
    r"|also|and|so|ok|okay|yes|yep|yeah|right|well|actually|no|nope|sorry|(?:hi|hey|hello)(?: \w+)?"
    r"|quick note|heads up|news|status|in fact|of course|turns out(?: that)?)"
    r"(?:\s*[:,–—-]+\s+|(?<=and)\s+|(?<=also)\s+|(?<=so)\s+|(?<=actually)\s+|(?<=that)\s+)"
    r"|it turns out that\s+)\s*",
    re.IGNORECASE,
)
# a line ending with a colon introduces something else: an example, a file to write
_OPENS = re.compile(r":\s*$")
_OPENS_FACTS = re.compile(
    r"^\W*(?:(?:some |my |our |the )?(?:facts?|notes?)|set-?up|current (?:state|set-?up)"
    r"|status|decisions?|decided|summary|done|for the record|fyi|changes|today"
    r"|remember|infrastructure|environment|services|ports)\W*$",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:who|whom|whose|what|which|where|when|why|how|is|are|am|was|were|do|does|did|have|has|had"
    r"|can|could|should|would|will|shall|may|might|must|isn't|aren't|doesn't|don't|didn't|won't)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:"
    # denied
    r"not|never|no|none|nothing|nobody|neither|nor|cannot|without|longer|anymore|except|unlike"
    r"|instead|rather|wrong|wrongly|incorrect|incorrectly|false|falsely|mistaken|mistakenly|myth"
    r"|outdated|obsolete|stale|bug|broken|fails?|failed|failing"
    # supposed
    r"|if|unless|whether|either|or|maybe|perhaps|probably|possibly|likely|unlikely|apparently"
    r"|presumably|supposed|supposedly|allegedly|might|(?<!\d )may(?!\s+\d)|could"
    r"|should|would|can|must|shall|ought|seems?|seemed"
    r"|appears?|looks like|think|thinks|thought|believe|believes|guess|guessing|suppose|assume"
    r"|assumes|assuming|imagine|pretend|hypothetically|hypothetical|theoretically|ideally|unsure"
    r"|uncertain|sure|doubt|guessed|suspect|possible|almost|nearly|roughly|approximately|about"
    r"|around|circa"
    # wishes and plans
    r"|will|won't|shall|gonna|going to|plan|plans|planned|planning|intend|intends|want|wants|wanted"
    r"|wish|wishes|hope|hopes|hopefully|hoping|expect|expects|expected|expecting|propose|proposes"
    r"|proposed|suggest|suggests|suggested|recommend|recommends|recommended|consider|considering"
    r"|try|trying|tried|let's|lets|need|needs|needed|todo|fixme|soon|later|eventually|someday"
    r"|tomorrow|upcoming|next|make sure|ensure|check|verify|please|about to|once|when|whenever"
    # no longer true
    r"|until|till|used to|previously|formerly|originally|initially|before|back then|once upon"
    r"|temporarily|sometimes|usually|often|typically|normally|generally|mostly|occasionally"
    r"|for now|for the moment|today only"
    # someone else's word
    r"|said|says|saying|say|told|tells|claims?|claimed|according|reported|reportedly|heard|rumou?r"
    r"|rumou?rs|asks|asked|asking|wonder|wonders|wondering|mentions|mentioned|wrote|writes"
    r"|quoted?|joke|joking|kidding|pretends?|lied|lies"
    # an example
    r"|examples?|e\.g|i\.e|for instance|such as|imaginary|fictional|story|novel|movie|game|quiz"
    r"|but|however|although|though|yet|while|whereas|still|else|lorem"
    r")\b|n't\b|'ll\b|'d\b|\?|\.\.\.|…",
    re.IGNORECASE,
)
# a retraction may apply to any part of the text
_TAKEN_BACK = re.compile(
    r"\b(?:no,? wait|wait,? no|scratch that|never ?mind|my (?:mistake|bad)|i was wrong|oops"
    r"|strike that|that(?:'s| is| was) (?:wrong|not right|incorrect))\b",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:because|so that|due to)\b.*", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]*)[\"“”«»]|(?<!\w)'([^']{2,}?)'(?!\w)")
_TICKED = re.compile(r"`([^`\s]+)`")
_STARS = re.compile(r"\*\*([^*]+)\*\*|(?<!\w)_([^_\s][^_]*)_(?!\w)")


def assertions(text: str) -> Iterator[str]:
    """Yield the sentences of a text that assert something, in order, without lead-in words."""
    if len(text) > MAX_TEXT or _TAKEN_BACK.search(text):
        return
    is_other = False
    for line in _unwrap_lines(_FENCE.sub("\n\n", text.replace("\u2019", "'"))):
        if not line.strip():
            is_other = False
            continue
        *sentences, last = _SENTENCE.split(_BULLET.sub("", line))
        opens = bool(_OPENS.search(last))
        if not is_other and not _NO_PROSE.match(line):
            for sentence in sentences if opens else (*sentences, last):
                if bare := bare_assertion(sentence):
                    yield bare
        if opens:
            is_other = not _OPENS_FACTS.match(last)


def _unwrap_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, with wrapped lines joined: half a sentence may assert something
    else than the whole.
    """
    whole = ""
    for line in text.splitlines():
        is_new = not whole.strip() or not line.strip() or _BULLET.match(line) or _ENDS.search(whole)
        goes_on = len(whole) >= _WIDE or line.lstrip()[:1].islower()
        if is_new or _NO_PROSE.match(line) or not goes_on:
            yield whole
            whole = line
        else:
            whole = f"{whole} {line.strip()}"
    yield whole


def bare_assertion(sentence: str) -> str | None:
    """Return a sentence without its lead-in and marks; None where it may assert nothing."""
    bare = _STARS.sub(r"\1\2", sentence.strip())
    if len(bare) > MAX_SENTENCE or not MIN_WORDS <= len(bare.split()) <= MAX_WORDS:
        return None
    while (led := _LEAD_IN.sub("", bare)) != bare:
        bare = led.strip()
    if any(len((match[1] or match[2] or "").split()) != 1 for match in _QUOTED.finditer(bare)):
        return None
    bare = _TICKED.sub(r"\1", _QUOTED.sub(r"\1\2", bare))
    if any(sign in bare for sign in '"“”«»`?') or _ASKS.match(bare):
        return None
    # a reason may name something forbidden or possible
    return None if _DOUBT.search(_REASON.sub("", bare)) else bare


# Phrases: the entity, value and time of a matched sentence, and the exclusions of each.

_WHEN = compile_form(WHEN)
_LED_IN = compile_form(rf"(?P<when>{WHEN})~,?~(?=\S)")
_ADVERBS = one_of("now only again currently already")
_FILLER = compile_form(rf"(?: (?:{_ADVERBS}|(?i:at the moment|by default)))+")
# additions to a statement that do not limit it to a case
_ASIDE = compile_form(r"~\((?!(?i:in|on|for|only|at|by|from|to|of|with)\b|\w+\))[^()]*\)$")
_GOALS = one_of("keep avoid match be reduce save meet get")
_REASON_CLAUSE = compile_form(
    r"(?<!\s)(?:~[,(–—-]+~| )(?:(?i:because|so that|so|as|since|due to|thanks to|which)"
    rf"|(?i:to) {_GOALS}|(?i:and) {one_of('we it they I that the our')})(?=\s)"
)


def split_time_prefix(sentence: str) -> tuple[str, str]:
    """Return the time a sentence begins with, empty for none, and the sentence without it."""
    match = _LED_IN.match(sentence)
    return (match["when"], sentence[match.end() :]) if match else ("", sentence)


def time_suffix(rest: str) -> str | None:
    """Return the time in the text after a value, empty for none; None where it has more than a
    reason and a time: the statement is then of a case, or of several values.
    """
    rest = _ASIDE.sub("", rest.rstrip(" \t.!"))
    if rest and (reason := _REASON_CLAUSE.search(rest)):
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


def entity_of(match: re.Match[str], named: str) -> str | None:
    """Return the entity of a match, as written; None where it does not name a single thing."""
    if named:
        return named
    if (match.groupdict().get("det") or "").lower().strip() not in ("", "the", "our"):
        return None
    words = match["entity"].split()
    if any(word.lower() in _NO_NAME | _ARTICLES for word in words) or not any(
        map(str.isalpha, match["entity"])
    ):
        return None
    return None if words[0].lower() in _NO_HEAD else " ".join(words)


def value_of(written: str) -> str | None:
    """Return a value without the sentence's punctuation; None where it names nothing."""
    value = written.strip(" .,;:!")
    first = value.split()[0] if value else "it"
    return None if first in _NO_NAME or first == "I" else value  # Go is a name, "go" is not


def vagueness(entity: str, sentence: str) -> float:
    """Return the confidence that a statement of a common thing, or a long one, loses."""
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


# Facts: statements with their owner, start time and sentence.


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as a memory states it: `entity` and `relation` by their canonical names.

    `since` is microseconds UTC, the memory's time if the text gives none; `said` is the sentence.
    """

    entity: str
    relation: str
    value: str
    is_singleton: bool
    confidence: float
    since: int
    said: str

    @property
    def key(self) -> str:
        return f"{self.entity}.{self.relation}"


@dataclass(frozen=True, slots=True)
class FactSource:
    """A fact, the memory that states it and its origin."""

    memory: Memory
    fact: Fact
    made: Made


def facts_in(memory: Memory) -> list[Fact]:
    """Return the facts that a memory's content states, in order.

    Two values of a singleton relation cancel out: choosing between them would be a guess.
    """
    facts: list[Fact] = []
    for sentence in assertions(memory.content):
        for statement in statements(sentence):
            if (fact := anchor(memory, statement, sentence)) is not None and fact not in facts:
                facts.append(fact)
    return [fact for fact in facts if not any(_disagree(fact, other) for other in facts)]


def anchor(memory: Memory, statement: Statement, sentence: str) -> Fact | None:
    """Return the fact of a statement, with its entity and its time; None where the memory names
    neither, or a time in its future.
    """
    entity = _whom(memory) if statement.entity == SPEAKER else statement.entity
    if entity is not None and statement.entity == PROJECT:
        entity = "project" if memory.project is not None else _whom(memory)
    since = memory.created_at
    if statement.when:
        spoken = interval(statement.when, memory.created_at)
        if spoken is None or spoken.since > memory.created_at:
            return None
        since = spoken.since
    if entity is None:
        return None
    return Fact(
        entity_name(entity),
        entity_name(statement.relation),
        statement.value,
        statement.is_singleton,
        statement.confidence,
        since,
        sentence,
    )


def _whom(memory: Memory) -> str | None:
    """Return the "I" of a memory: its author by name, else the user; None for an agent."""
    author = speaker_name(memory.created_by) if memory.created_by else None
    return author or ("user" if memory.trust == "user" else None)


def _disagree(fact: Fact, other: Fact) -> bool:
    is_same = fact.key == other.key and (fact.is_singleton or other.is_singleton)
    return is_same and fact.value.casefold() != other.value.casefold()

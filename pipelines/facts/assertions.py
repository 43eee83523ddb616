"""
Assertions: the sentences of a text that say how things are, and are not asked, supposed, denied,
quoted or wished for.

Word lists and no model. A sentence that is left out costs little, for the turn it stands in is kept
anyway; one that is taken for more than it says would be a wrong fact. So what is in doubt is none.
"""

import re
from collections.abc import Iterator

MAX_TEXT = 6_000  # characters; a longer one is pasted, and what it says is not its writer's word
MAX_SENTENCE = 300
MIN_WORDS, MAX_WORDS = 3, 40

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NO_PROSE = re.compile(r"\s*(?:>|\||\+|#|\$ |--|@@|//|/\*|\{|\}|<)|(?: {4}|\t)(?!\s*[-*\d])")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(?:\[[ xX]?\]\s+)?")
_ENDS = re.compile(r"[.!?:;]\W*$")
_WIDE = 60  # characters from which on a line may be broken for its width
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
# a line that ends with a colon says what follows is something else: an example, a file to write
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
    # wished for, to come
    r"|will|won't|shall|gonna|going to|plan|plans|planned|planning|intend|intends|want|wants|wanted"
    r"|wish|wishes|hope|hopes|hopefully|hoping|expect|expects|expected|expecting|propose|proposes"
    r"|proposed|suggest|suggests|suggested|recommend|recommends|recommended|consider|considering"
    r"|try|trying|tried|let's|lets|need|needs|needed|todo|fixme|soon|later|eventually|someday"
    r"|tomorrow|upcoming|next|make sure|ensure|check|verify|please|about to|once|when|whenever"
    # no more
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
# who takes back a part of what he says may mean any of it
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
    """Yield the sentences of a text that assert something, in order, bare of what leads in."""
    if len(text) > MAX_TEXT or _TAKEN_BACK.search(text):
        return
    is_other = False
    for line in _unwrapped(_FENCE.sub("\n\n", text.replace("\u2019", "'"))):
        if not line.strip():
            is_other = False
            continue
        *sentences, last = _SENTENCE.split(_BULLET.sub("", line))
        opens = bool(_OPENS.search(last))
        if not is_other and not _NO_PROSE.match(line):
            for sentence in sentences if opens else (*sentences, last):
                if bare := asserted(sentence):
                    yield bare
        if opens:
            is_other = not _OPENS_FACTS.match(last)


def _unwrapped(text: str) -> Iterator[str]:
    """Yield the lines of a text, those that only its width broke as one: half a sentence may say
    what the whole does not.
    """
    whole = ""
    for line in text.splitlines():
        is_new = not whole.strip() or not line.strip() or _BULLET.match(line) or _ENDS.search(whole)
        if is_new or _NO_PROSE.match(line) or not _is_broken(whole, line):
            yield whole
            whole = line
        else:
            whole = f"{whole} {line.strip()}"
    yield whole


def _is_broken(line: str, following: str) -> bool:
    return len(line) >= _WIDE or following.lstrip()[:1].islower()


def asserted(sentence: str) -> str | None:
    """Return a sentence as it asserts something; None where it may not."""
    bare = _STARS.sub(r"\1\2", sentence.strip())
    if len(bare) > MAX_SENTENCE or not MIN_WORDS <= len(bare.split()) <= MAX_WORDS:
        return None
    while (led := _LEAD_IN.sub("", bare)) != bare:
        bare = led.strip()
    if any(len((one[1] or one[2] or "").split()) != 1 for one in _QUOTED.finditer(bare)):
        return None
    bare = _TICKED.sub(r"\1", _QUOTED.sub(r"\1\2", bare))
    if any(sign in bare for sign in '"“”«»`?') or _ASKS.match(bare):
        return None
    # the reason of a thing may be what must not be, or could
    return None if _DOUBT.search(_REASON.sub("", bare)) else bare

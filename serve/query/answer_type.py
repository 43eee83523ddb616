"""
What sort of answer a question wants: a time, a person, a number, a reason, all there is of a thing.

Read from its question words, in English, German, French and Spanish. The sorts are the coarse
classes of Li and Roth 2002 (https://aclanthology.org/C02-1150), less what no word tells apart.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

AnswerType = Literal[
    "when", "how_long", "who", "where", "how_many", "why", "how", "what", "yes_no", "list", "code"
]

# by language: each answer type, then the words that ask for it
_ASKING: Mapping[str, Mapping[AnswerType, str]] = {
    "en": {
        "when": "when",
        "who": "who whom whose",
        "where": "where",
        "why": "why",
        "how": "how",
        "what": "what which",
    },
    "de": {
        "when": "wann",
        "who": "wer wem wen wessen",
        "where": "wo wohin woher",
        "why": "warum wieso weshalb",
        "how": "wie",
        "how_many": "wieviel wieviele",
        "what": "was welche welcher welches welchen welchem",
    },
    "fr": {
        "when": "quand",
        "who": "qui",
        "where": "où",
        "why": "pourquoi",
        "how": "comment",
        "how_many": "combien",
        "what": "que quoi quel quelle quels quelles",
    },
    "es": {
        "when": "cuándo",
        "who": "quién quiénes",
        "where": "dónde adónde",
        "why": "porqué",
        "how": "cómo",
        "how_many": "cuántos cuántas cuánto cuánta",
        "what": "qué cuál cuáles",
    },
}
_QUESTION_WORDS = {
    language: {word: kind for kind, words in asking.items() for word in words.split()}
    for language, asking in _ASKING.items()
}
# what a question word becomes by the word after it; "what build command" has one between
_AMOUNTS = frozenset("many much often old far big large viele viel oft groß alt hoch".split())
_TIMES = frozenset("date day time year month week tag datum jahr monat jour date année año".split())
_CODE = frozenset(
    """command commands function functions method methods class classes file files path paths flag
    flags option options setting settings variable variables endpoint endpoints url port version
    branch commit error exception package packages library libraries module modules query regex
    script key befehl datei funktion klasse commande fichier fonction classe comando archivo
    función clase""".split()
)
_AUXILIARIES = frozenset(
    """is are was were am do does did has have had can could should would will must may isn't aren't
    wasn't weren't don't doesn't didn't hasn't haven't can't couldn't shouldn't won't wouldn't ist
    sind war hat habe haben hast kann können wird est-ce""".split()
)
_ASKS_FOR_MORE = frozenset("tell show explain remind list know remember give describe".split())
_LIST = re.compile(
    r"^(?:please )?(?:list|enumerate)\b|\b(?:show|give|tell|name)(?: me| us)? (?:all|every)\b"
    r"|\b(?:what|which) (?:are )?(?:all|every)\b|^(?:nenne?|zeige?)(?: mir| uns)? alle\b|^liste\b"
    r"|\btou(?:s|tes) les\b|\btod[oa]s l[oa]s\b"
)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-](?!s\b)[^\W\d_]+)*")  # without a possessive's s


def answer_type(text: str, language: str | None = "en") -> AnswerType | None:
    """Return what a question wants; None for a text that asks nothing.

    Words of a language that has no table here are read as English.
    """
    folded = text.casefold().strip()
    words = _WORD.findall(folded.replace("por qué", "porqué"))
    if _LIST.search(folded):
        return "list"
    table = _QUESTION_WORDS.get(language or "en", _QUESTION_WORDS["en"])
    if _is_yes_or_no(words) and words[0] not in table:  # German "was" is no verb
        return "yes_no"
    asking = [place for place, word in enumerate(words) if word in table]
    if not asking:
        return None
    # "When I run it, where does it fail?": a question word before a verb asks, another relates
    place = next((one for one in asking if _is_verb(words[one + 1 : one + 2])), asking[0])
    return _refined(table[words[place]], words[place + 1 : place + 3])


def _is_yes_or_no(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in _AUXILIARIES and _ASKS_FOR_MORE.isdisjoint(words[1:3])


def _is_verb(following: Sequence[str]) -> bool:
    return not _AUXILIARIES.isdisjoint(following)


def _refined(kind: AnswerType, following: Sequence[str]) -> AnswerType:
    first = following[0] if following else ""
    if kind == "how" and first in _AMOUNTS:
        return "how_many"
    if kind == "how" and first in ("long", "lange"):
        return "how_long"
    if kind == "what" and first in _TIMES:
        return "when"
    if kind == "what" and not _CODE.isdisjoint(following):
        return "code"
    return "why" if kind == "how" and first == "come" else kind

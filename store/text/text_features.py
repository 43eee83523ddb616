"""
Features of a text, by its words alone: a question, a time, the first person, a standing rule.

Weak signs, each measured (docs/recall.md): an answer is seldom a question itself, "when" is
answered by a text with a time in it, and people describe themselves in the first person. The lists
cover a few languages; a text in another one has no features, and loses only those.
"""

import re
from typing import NamedTuple

_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = {code: " " for code in range(128) if not chr(code).isalpha()}
_YEAR = re.compile(r"[12](?<!\d\d)\d{3}(?!\d)")  # lookbehind last: twice as fast
_QUESTION_MARKS = ("?", "？", "؟")

_TIMES = frozenset(
    """
    yesterday today tonight tomorrow last next ago since recently just morning evening night nights
    day days week weeks weekend weekends month months year years monday tuesday wednesday thursday
    friday saturday sunday january february march april june july august september october november
    december
    gestern heute morgen letzte letzten letzter letztes nächste nächsten seit woche wochen monat
    monate jahr jahre jahren tag tage tagen montag dienstag mittwoch donnerstag freitag samstag
    sonntag januar februar märz mai juni juli oktober dezember
    hier aujourd demain dernier dernière prochain prochaine semaine mois année lundi mardi mercredi
    jeudi vendredi samedi dimanche janvier février mars avril juin juillet août septembre octobre
    novembre décembre
    ayer hoy mañana pasado pasada próximo próxima semana mes año años lunes martes miércoles jueves
    viernes sábado domingo enero febrero marzo abril mayo junio julio septiembre octubre noviembre
    diciembre
    вчера сегодня завтра назад неделю неделе месяц году год утром вечером
    """.split()
)
_SELF = frozenset(
    """
    i my me mine we our ours ich mein meine meinen mir mich wir unser unsere je moi mon nous notre
    yo mi nosotros nuestro nuestra я мне мой моя мы наш
    """.split()
)
_RULES = frozenset(
    """
    always never prefer prefers preferred preference whenever immer nie niemals bevorzuge toujours
    jamais désormais siempre nunca prefiero всегда никогда
    """.split()
)
_RULE_PHRASES = ("from now on", "every time", "make sure", "ab jetzt")
# scripts written without spaces: searched anywhere in the text
_TIMES_WITHIN = re.compile("昨|今[天日年]|明[天日年]|去年|[0-9]\\s*[年月日]|어제|오늘|내일")
_SELF_WITHIN = re.compile("我|私|僕|俺|나는|저는|제가")
_RULES_WITHIN = re.compile("总是|總是|永远|永遠|务必|務必|不要|必ず|常に|항상|절대")


# a memory recorded as a rule is one, in any words
RULE_KINDS = frozenset({"lesson", "preference", "antipattern"})
# the user's own words bind, and accepted ones, which are recorded as the user's
BINDING = "user"
# trust of possible rules: a tool's output or a web page gives no orders and no advice
MAY_RULE = frozenset({"user", "agent"})


class Traits(NamedTuple):
    """The features of a text."""

    asks: bool  # its last sentence is a question
    dated: bool  # it names a time
    personal: bool  # its author speaks in the first person
    rule: bool  # it states a standing rule


def traits(text: str) -> Traits:
    """Return the features of a text."""
    folded = text.casefold()
    within = not text.isascii()
    # the same words, three times as fast where it suffices
    words = frozenset(_WORD.findall(folded) if within else folded.translate(_LETTERS).split())
    return Traits(
        asks=text.rstrip().endswith(_QUESTION_MARKS),
        dated=not words.isdisjoint(_TIMES)
        or _YEAR.search(folded) is not None
        or (within and _TIMES_WITHIN.search(folded) is not None),
        personal=not words.isdisjoint(_SELF)
        or (within and _SELF_WITHIN.search(folded) is not None),
        rule=not words.isdisjoint(_RULES)
        or any(phrase in folded for phrase in _RULE_PHRASES)
        or (within and _RULES_WITHIN.search(folded) is not None),
    )


def of_memory(text: str, kind: str, trust: str) -> Traits:
    """Return the features of a memory's text, given its kind and trust."""
    signs = traits(text)
    return signs._replace(rule=trust in MAY_RULE and (signs.rule or kind in RULE_KINDS))

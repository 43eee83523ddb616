"""
The words of time in English, German, French and Spanish as one vocabulary: English, singular.

"vor zwei Wochen" and "hace dos semanas" both become "ago two week"; the order stays the language's.
"""

import re

MONTHS = tuple(
    """january february march april may june july august september october november
    december""".split()
)
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
UNITS = ("day", "week", "month", "year")
COUNTED = tuple("one two three four five six seven eight nine ten eleven twelve".split())

# an entry: the word of the vocabulary, then those that mean it
_ENTRIES = {
    "en": """day days | week weeks | month months | year years | until till | to and |
        last previous past | one a an | to through""",
    "de": """today heute | yesterday gestern | ereyesterday vorgestern | ago vor | since seit |
        last letzte letzten letzter letztem letztes vergangene vergangenen vorige vorigen voriger |
        this diese dieser diesen diesem dieses | until bis | after nach | between zwischen |
        to und | from von vom | on am | in im | the der die das dem den | day tag tage tagen |
        week woche wochen | month monat monate monaten monats |
        year jahr jahre jahren jahres | one ein eine einem einer einen""",
    "fr": """today aujourd'hui | yesterday hier | ereyesterday avant-hier | ago il-y-a |
        last dernier dernière derniers dernières passé passée | this ce cette cet | since depuis |
        until jusqu'à jusqu'en | after après | before avant | between entre | to et à au |
        in en | of de d' | the le la les du | day jour jours |
        week semaine semaines | month mois | year an ans année années | one un une""",
    "es": """today hoy | yesterday ayer | ereyesterday anteayer | ago hace | since desde |
        last último última últimos últimas pasado pasada | this este esta | until hasta |
        after después | before antes | between entre | to y a al | in en | of de del |
        the el la los las | day día días | week semana semanas |
        month mes meses | year año años | one un una""",
}
# months, weekdays, and numbers from two on, in their order
_ORDERED = {
    "en": ("jan feb mar apr may jun jul aug sep oct nov dec", "mon tue wed thu fri sat sun", ""),
    "de": (
        "januar februar märz april mai juni juli august september oktober november dezember",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "zwei drei vier fünf sechs sieben acht neun zehn",
    ),
    "fr": (
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "deux trois quatre cinq six sept huit neuf dix",
    ),
    "es": (
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "lunes martes miércoles jueves viernes sábado domingo",
        "dos tres cuatro cinco seis siete ocho nueve diez",
    ),
}
_TOKEN = re.compile(
    r"[0-9]{4}[-/][0-9]{1,2}(?:[-/][0-9]{1,2})?(?![\w/-])"  # 2023-05-07, 2023-05
    r"|[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}(?!\w)"  # 7.5.2023
    r"|[0-9]+(?:st|nd|rd|th|er|º)?(?![\w%]|\.\w)|[0-9][\w.%]*"  # 7, 7th; 1.2.3 and 7kb whole
    r"|il y a\b|avant-hier|aujourd'hui|jusqu'(?:à|en)|d'"
    r"|[^\W_]\w*(?:-\w+)*|[^\w\s]"
)
_DAY = re.compile(r"[0-9]{1,2}")
_ORDINAL = re.compile(r"[0-9]{1,2}(?:st|nd|rd|th)")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")


def _table(language: str) -> dict[str, str]:
    table: dict[str, str] = {}
    for entry in _ENTRIES[language].split("|"):
        token, *words = entry.split()
        table |= dict.fromkeys(words, token)
    for names, some in zip((MONTHS, WEEKDAYS, COUNTED[1:]), _ORDERED[language], strict=True):
        table |= dict(zip(some.split(), names, strict=False))
    return table


_TABLES = {language: _table(language) for language in _ENTRIES}


def tokens(text: str, language: str | None = "en") -> list[str]:
    """Return the words and signs of a text, those of time in the vocabulary, the others folded.

    A language without a table is read as English. "may" in lower case is left out where no number
    beside it makes it a month.
    """
    table = _TABLES.get(language or "en", _TABLES["en"])
    words = _TOKEN.findall(text.replace("\u2019", "'"))
    found: list[str] = []
    for place, word in enumerate(words):
        folded = word.casefold().replace("il y a", "il-y-a")
        is_verb = word == "may" and not _is_month(words, place)
        found.append("~" if is_verb else table.get(folded, folded))
    return found


def _is_month(words: list[str], place: int) -> bool:
    """Return whether a "may" at a place is a month: "7th may", "may 7?", "may 2023"."""
    before = words[place - 1] if place else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    last = words[place + 2] if place + 2 < len(words) else ""
    if _YEAR.fullmatch(after) or _ORDINAL.fullmatch(after) or _ORDINAL.fullmatch(before):
        return True
    # "may 7 users" and "version 3 may break" go on with a word
    return bool(
        (_DAY.fullmatch(after) and not last[:1].isalpha())
        or (_DAY.fullmatch(before) and not after[:1].isalpha())
    )

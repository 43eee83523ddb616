"""
The time in a question: "last week", "since Monday", "in May 2023", "vor zwei Tagen".

Times are resolved against the moment of the question, in whole days of UTC; "last week" is the
calendar's, from Monday on. In doubt there is no interval: a month or a year needs a number or a
preposition.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

import msgspec

# The words of time in English, German, French and Spanish as one vocabulary: English, singular.
#
# "vor zwei Wochen" and "hace dos semanas" both become "ago two week"; the order stays the
# language's.

MONTHS = tuple(
    """january february march april may june july august september october november
    december""".split()
)
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
UNITS = ("day", "week", "month", "year")
COUNTED = tuple("one two three four five six seven eight nine ten eleven twelve".split())

# an entry: the word of the vocabulary, then those that mean it
_ENTRIES = {
    "en": """day days | weekend weekends | week weeks | month months | year years | until till |
        to and | last previous past | one a an | to through""",
    "de": """today heute | yesterday gestern | ereyesterday vorgestern | ago vor | since seit |
        last letzte letzten letzter letztem letztes vergangene vergangenen vorige vorigen voriger |
        this diese dieser diesen diesem dieses | until bis | after nach | between zwischen |
        to und | from von vom | on am | in im | the der die das dem den | day tag tage tagen |
        weekend wochenende |
        week woche wochen | month monat monate monaten monats |
        year jahr jahre jahren jahres | one ein eine einem einer einen""",
    "fr": """today aujourd'hui | yesterday hier | ereyesterday avant-hier | ago il-y-a |
        last dernier dernière derniers dernières passé passée | this ce cette cet | since depuis |
        until jusqu'à jusqu'en | after après | before avant | between entre | to et à au |
        in en | of de d' | weekend week-end | the le la les du | day jour jours |
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
_DAY_NUMBER = re.compile(r"[0-9]{1,2}")
_ORDINAL = re.compile(r"[0-9]{1,2}(?:st|nd|rd|th)")
_YEAR_NUMBER = re.compile(r"(?:19|20)[0-9]{2}")


def _table(language: str) -> dict[str, str]:
    table: dict[str, str] = {}
    for entry in _ENTRIES[language].split("|"):
        token, *words = entry.split()
        table |= dict.fromkeys(words, token)
    for names, words_in_order in zip(
        (MONTHS, WEEKDAYS, COUNTED[1:]), _ORDERED[language], strict=True
    ):
        table |= dict(zip(words_in_order.split(), names, strict=False))
    return table


_TABLES = {language: _table(language) for language in _ENTRIES}


def _in_vocabulary(words: list[str], language: str) -> list[str]:
    """Return words and signs, words of time in the vocabulary, the others folded.

    A language without a table is read as English. "may" in lower case is left out if no number
    beside it makes it a month.
    """
    table = _TABLES.get(language, _TABLES["en"])
    translated: list[str] = []
    for place, word in enumerate(words):
        folded = word.casefold().replace("il y a", "il-y-a")
        is_verb = word == "may" and not _is_month(words, place)
        translated.append("~" if is_verb else table.get(folded, folded))
    return translated


def _is_month(words: list[str], place: int) -> bool:
    """Return True if a "may" at a place is a month: "7th may", "may 7?", "may 2023"."""
    before = words[place - 1] if place else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    last = words[place + 2] if place + 2 < len(words) else ""
    if _YEAR_NUMBER.fullmatch(after) or _ORDINAL.fullmatch(after) or _ORDINAL.fullmatch(before):
        return True
    # "may 7 users" and "version 3 may break" go on with a word
    return bool(
        (_DAY_NUMBER.fullmatch(after) and not last[:1].isalpha())
        or (_DAY_NUMBER.fullmatch(before) and not after[:1].isalpha())
    )


_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_DAY = timedelta(days=1)

Days = tuple[date, date]  # from the first until, not with, the second
Read = Callable[[re.Match[str], date], Days]


class Interval(msgspec.Struct, frozen=True):
    """From `since` until, not with, `until`, in microseconds UTC.

    `words` are those of the text that name it: its characters from `start` until `end`.
    """

    since: int
    until: int
    words: str
    start: int
    end: int
    has_name: bool

    @property
    def is_date(self) -> bool:
        """True if it names a date or a weekday, as memories do too: "no deploys on Friday"."""
        return self.has_name or any(letter.isdigit() for letter in self.words)

    def cut(self, text: str) -> str:
        """Return the text it was read from without its words."""
        return f"{text[: self.start]} {text[self.end :]}"

    def describe(self) -> str:
        """Return its days in words: "on 2026-11-10", "between 2026-11-09 and 2026-11-15"."""
        first, last = (_EPOCH + at // _DAY_US * _DAY for at in (self.since, self.until - 1))
        if first == _EPOCH:
            return f"until {last}"
        return f"on {first}" if first == last else f"between {first} and {last}"


def interval(text: str, at: int, language: str | None = "en") -> Interval | None:
    """Return the time in a text, as asked at `at` (microseconds UTC); None for none.

    The first time named counts, or the span that "to" or "and" makes of it and the next. A language
    without a table is read as English; of an unknown one (None) the first table that reads a time
    counts.
    """
    plain = text.replace("\u2019", "'")
    tokens = list(_TOKEN.finditer(plain))
    words = [token[0] for token in tokens]
    spans = [token.span() for token in tokens]
    has_number = any(map(plain.__contains__, ("19", "20", ".")))  # else no year and no date
    today = datetime.fromtimestamp(at / 1e6, UTC).date()
    for name in (language,) if language else _TABLES:
        read = _in_vocabulary(words, name)
        if has_number or not _TELLING.isdisjoint(read):
            if (time := _read_interval(text, read, spans, today)) is not None:
                return time
    return None


def _read_interval(
    text: str, words: list[str], spans: list[tuple[int, int]], today: date
) -> Interval | None:
    """Return the time that the words give, at their spans of a text."""
    # a stop by itself is no date
    if not any(word in _TELLING or word[:2] in ("19", "20") or "." in word[1:] for word in words):
        return None
    read = " ".join(words)
    times = _find_times(read, today)
    if not times:
        return None
    start, end, (since, until) = times[0]
    side = _side(read, start)
    if len(times) > 1 and _JOINED.match(read[end : times[1][1]]) and times[1][2][1] > since:
        _, end, (_, until) = times[1]
    elif side:
        since, until = _SIDES[side](since, until, today)
    begins, ends = _us(since), _us(until)
    if begins >= ends:
        return None
    first, last = read[:start].count(" "), read[:end].count(" ")
    while first and words[first - 1] in _LEADING:
        first -= 1
    begin, stop = spans[first][0], spans[last][1]
    has_name = not _NAMES.isdisjoint(words[first : last + 1])
    return Interval(begins, ends, text[begin:stop], begin, stop, has_name)


def _find_times(read: str, today: date) -> list[tuple[int, int, Days]]:
    """Return the spans that name times, and their days, in order; the earlier rule wins a place."""
    times: list[tuple[int, int, Days]] = []
    for pattern, days in _RULES:
        for match in pattern.finditer(read):
            start, end = match.span()
            if any(start < other_end and other < end for other, other_end, _ in times):
                continue
            try:
                times.append((start, end, days(match, today)))
            except (ValueError, OverflowError):
                continue  # the 31st of February; a thousand years ago
    return sorted(times)


def _side(read: str, start: int) -> str | None:
    """Return the word before a time, or its first one, that gives the side of it."""
    before = [word for word in read[:start].split() if word not in ("the", "on")]
    if before and before[-1] in _SIDES:
        return before[-1]
    own = read[start:].partition(" ")[0]
    return own if own in _SIDES and own != "ago" else None


def _us(day: date) -> int:
    return max(0, (day - _EPOCH).days) * _DAY_US


def _number(written: str) -> int:
    return int(written) if written.isdigit() else COUNTED.index(written) + 1


def _period(unit: str, back: int, today: date) -> Days:
    """Return the calendar's day, week, month or year that was `back` of them before today's."""
    if unit == "day":
        start = today - back * _DAY
        return start, start + _DAY
    if unit == "week":
        start = today - (today.weekday() + 7 * back) * _DAY
        return start, start + 7 * _DAY
    if unit == "month":
        return _month(*divmod(today.year * 12 + today.month - 1 - back, 12))
    return date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1)


def _month(year: int, month: int) -> Days:
    """Return the days of a month, counted from 0."""
    return date(year, month + 1, 1), date(year + (month + 1) // 12, (month + 1) % 12 + 1, 1)


def _last(match: re.Match[str], today: date) -> Days:
    """Return the last days, weeks ... up to and with today; without a number the last one."""
    unit, count = match["unit"], _number(match.groupdict().get("count") or "one")
    if unit in ("month", "year"):
        back = count * (12 if unit == "year" else 1)
        start = _period("month", back, today)[0].replace(day=min(today.day, 28))
    else:
        start = today - count * (7 if unit == "week" else 1) * _DAY
    return start, today + _DAY


def _calendar(match: re.Match[str], today: date) -> Days:
    return _period(match["unit"], int(match["which"] == "last"), today)


def _named_day(match: re.Match[str], today: date) -> Days:
    return _period("day", _NAMED[match["named"]], today)


def _in_year(match: re.Match[str], today: date) -> Days:
    year = int(match["year"])
    return date(year, 1, 1), date(year + 1, 1, 1)


def _day_of_month(match: re.Match[str], today: date) -> Days:
    """Return a day of a month; without a year the newest one not after today."""
    month, day = MONTHS.index(match["month"]) + 1, int(re.sub(r"\D", "", match["day"]))
    start = date(int(match["year"] or today.year), month, day)
    if not match["year"] and start > today:
        start = start.replace(year=today.year - 1)
    return start, start + _DAY


def _in_month(match: re.Match[str], today: date) -> Days:
    month = MONTHS.index(match["month"])
    year = match.groupdict().get("year")
    return _month(int(year) if year else today.year - (month + 1 > today.month), month)


def _iso(match: re.Match[str], today: date) -> Days:
    year, month, day = int(match["year"]), int(match["month"]), match["day"]
    if day is None:
        return _month(year, month - 1)
    start = date(year, month, int(day))
    return start, start + _DAY


def _weekday(match: re.Match[str], today: date) -> Days:
    """Return the newest such day, today only without a "last"."""
    back = (today.weekday() - WEEKDAYS.index(match["weekday"])) % 7
    if back == 0 and "last" in match[0]:
        back = 7
    return _period("day", back, today)


def _day_part(match: re.Match[str], today: date) -> Days:
    """Return the day of "this morning" or "last night"."""
    return _period("day", int("last" in match[0]), today)


def _weekend(match: re.Match[str], today: date) -> Days:
    """Return the Saturday and Sunday of this week, or of the last one if these are to come."""
    back = "last" in match[0] or today.weekday() < WEEKDAYS.index("saturday")
    monday, end = _period("week", int(back), today)
    return monday + 5 * _DAY, end


def _ago(match: re.Match[str], today: date) -> Days:
    return _period(match["unit"], _number(match["count"]), today)


_SIDES: Mapping[str, Callable[[date, date, date], Days]] = {
    "since": lambda since, until, today: (since, today + _DAY),
    "after": lambda since, until, today: (until, today + _DAY),
    "before": lambda since, until, today: (_EPOCH, since),
    # "vor dem 5. Mai": before; "vor zwei Tagen" has it inside
    "ago": lambda since, until, today: (_EPOCH, since),
    "until": lambda since, until, today: (_EPOCH, until),
}
_MONTH = rf"(?P<month>{'|'.join(MONTHS)})"
_UNIT = rf"(?P<unit>{'|'.join(UNITS)})"
_COUNT = rf"(?P<count>[0-9]{{1,3}}|{'|'.join(COUNTED)})"
_YEAR = "(?P<year>(?:19|20)[0-9]{2})"
_NTH = r"(?P<day>[0-9]{1,2}(?:st|nd|rd|th|er|º| \.)?)"
_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
_BESIDE = "in|during|of|since|last|this|until|before|after|from|between|early|mid|late|to|ago"
_JOINED = re.compile(r"\s{0,4}(?:to|until|-|\u2013)\s")
_NAMED = {"today": 0, "yesterday": 1, "ereyesterday": 2, "day before yesterday": 2}
_NAMES = frozenset((*MONTHS, *WEEKDAYS))
_PARTS = "morning|afternoon|evening|night"  # of a day
_TELLING = frozenset(
    (*MONTHS, *WEEKDAYS, *UNITS, *_NAMED, *_PARTS.split("|"), "weekend", "tonight")
)
_LEADING = frozenset((*_SIDES, *_BESIDE.split("|"), "on", "the", "over", "within"))

# of rules that match the same words the earlier wins
_WRITTEN: tuple[tuple[str, Read], ...] = (
    (r"(?P<year>[0-9]{4})[-/](?P<month>[0-9]{1,2})(?:[-/](?P<day>[0-9]{1,2}))?", _iso),
    (r"(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>[0-9]{4})", _iso),
    (rf"{_NTH} (?:of )?{_MONTH}(?: (?:, |of )?{_YEAR})?", _day_of_month),
    (rf"{_MONTH} {_NTH}(?: (?:, )?{_YEAR})?", _day_of_month),
    (rf"{_MONTH} (?:, |of )?{_YEAR}", _in_month),
    (rf"(?:{_BESIDE}) {_MONTH}", _in_month),
    (rf"{_MONTH} last", _in_month),
    (rf"(?:in|during|of|since|until|before|after|from|to) (?:the )?(?:year )?{_YEAR}", _in_year),
    (r"(?P<named>today|yesterday|ereyesterday|day before yesterday)", _named_day),
    (rf"last {_COUNT} {_UNIT}", _last),
    (rf"{_COUNT} last {_UNIT}", _last),
    (rf"(?:in|over|within|during) the last {_UNIT}", _last),
    (rf"(?:this (?:{_PARTS})|last night|tonight)", _day_part),
    (r"(?:last|this|(?:on|at|over|during) the(?: last)?) weekend|weekend last", _weekend),
    (rf"(?P<which>last|this) {_UNIT}", _calendar),
    (rf"{_UNIT} (?P<which>last)", _calendar),
    (rf"{_COUNT} {_UNIT} ago", _ago),
    (rf"ago {_COUNT} {_UNIT}", _ago),
    (
        rf"(?:on|last|this|since|until|before|after) (?:the )?(?:last )?{_WEEKDAY}(?: last)?",
        _weekday,
    ),
    (rf"{_WEEKDAY} last", _weekday),
)
_RULES = tuple((re.compile(rf"(?<!\S)(?:{rule})(?!\S)"), days) for rule, days in _WRITTEN)

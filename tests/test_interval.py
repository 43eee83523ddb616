"""The time that a question refers to, asked on Friday, 17 November 2023."""

from datetime import UTC, datetime

import pytest

from store.text.dates import interval

DAY = 86_400_000_000
FRIDAY = datetime(2023, 11, 17, 15, 30, tzinfo=UTC)


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def days(text: str, language: str | None = "en") -> str | None:
    """Return the first and the last day as text."""
    span = interval(text, us(FRIDAY), language)
    if span is None:
        return None
    ends = (span.since, span.until - DAY)
    first, last = (datetime.fromtimestamp(at // 1_000_000, UTC).date() for at in ends)
    return f"{first} {last}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what did we change today?", "2023-11-17 2023-11-17"),
        ("what broke yesterday", "2023-11-16 2023-11-16"),
        ("and the day before yesterday?", "2023-11-15 2023-11-15"),
        ("What did we do last week?", "2023-11-06 2023-11-12"),
        ("bugs of this week", "2023-11-13 2023-11-19"),
        ("last month's release", "2023-10-01 2023-10-31"),
        ("who joined last year", "2022-01-01 2022-12-31"),
        ("over the past month", "2023-10-17 2023-11-17"),
        ("in the last 3 days", "2023-11-14 2023-11-17"),
        ("what failed two days ago", "2023-11-15 2023-11-15"),
        ("a week ago", "2023-11-06 2023-11-12"),
        ("three years ago", "2020-01-01 2020-12-31"),
        ("what changed since Monday?", "2023-11-13 2023-11-17"),
        ("on Friday", "2023-11-17 2023-11-17"),
        ("last Friday", "2023-11-10 2023-11-10"),
        ("Who joined in May 2023?", "2023-05-01 2023-05-31"),
        ("in December", "2022-12-01 2022-12-31"),
        ("on May 7th, 2022", "2022-05-07 2022-05-07"),
        ("the 7th of May", "2023-05-07 2023-05-07"),
        ("on 24 December", "2022-12-24 2022-12-24"),
        ("the outage of 2023-05-07", "2023-05-07 2023-05-07"),
        ("the outage of 2023-02", "2023-02-01 2023-02-28"),
        ("am 5.6.2023", "2023-06-05 2023-06-05"),
        ("what did we decide in 2021", "2021-01-01 2021-12-31"),
        ("before 2022", "1970-01-01 2021-12-31"),
        ("after May 7", "2023-05-08 2023-11-17"),
        ("until yesterday", "1970-01-01 2023-11-16"),
        ("between May and July 2023", "2023-05-01 2023-07-31"),
        ("from 2023-05-01 to 2023-05-08", "2023-05-01 2023-05-08"),
        ("what did we try this morning", "2023-11-17 2023-11-17"),
        ("who was paged last night", "2023-11-16 2023-11-16"),
        ("deploys over the weekend", "2023-11-11 2023-11-12"),
    ],
)
def test_english_times(text: str, expected: str):
    assert days(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "was haben wir letzte Woche gemacht?", "2023-11-06 2023-11-12"),
        ("de", "was war vor zwei Wochen", "2023-10-30 2023-11-05"),
        ("de", "seit Montag", "2023-11-13 2023-11-17"),
        ("de", "am 7. Mai 2023", "2023-05-07 2023-05-07"),
        ("de", "vor dem 5. Mai", "1970-01-01 2023-05-04"),
        ("de", "zwischen Mai und Juli", "2023-05-01 2023-07-31"),
        ("fr", "qu\u2019avons-nous fait la semaine dernière ?", "2023-11-06 2023-11-12"),
        ("fr", "il y a trois jours", "2023-11-14 2023-11-14"),
        ("fr", "les 3 derniers jours", "2023-11-14 2023-11-17"),
        ("fr", "en mai dernier", "2023-05-01 2023-05-31"),
        ("fr", "mai dernier", "2023-05-01 2023-05-31"),
        ("fr", "aujourd\u2019hui", "2023-11-17 2023-11-17"),
        ("es", "¿qué hicimos la semana pasada?", "2023-11-06 2023-11-12"),
        ("es", "hace dos meses", "2023-09-01 2023-09-30"),
        ("es", "el 7 de mayo de 2023", "2023-05-07 2023-05-07"),
        ("es", "el lunes pasado", "2023-11-13 2023-11-13"),
    ],
)
def test_times_of_other_languages(language: str, text: str, expected: str):
    assert days(text, language) == expected


@pytest.mark.parametrize(
    "text",
    [
        "may I ask something",
        "May I ask something",
        "it may break in 2 places",
        "may 7 users share a session?",
        "version 3 may break it",
        "we march on",
        "port 2019",
        "version 2021 of the tool",
        "release 1.2.3",
        "February 31, 2023",
        "999 years ago",
        "the second try",
        "",
    ],
)
def test_text_without_a_time_gives_no_interval(text: str):
    assert days(text) is None


@pytest.mark.parametrize("text", ["on 7th may", "on may 7?", "may 2022", "7 may 2022"])
def test_may_in_lower_case_needs_its_number(text: str):
    assert "-05-" in str(days(text))


def test_intervals_are_relative_to_the_time_of_the_question():
    monday = us(datetime(2023, 11, 20, 0, 0, tzinfo=UTC))
    span = interval("yesterday", monday, "en")
    assert span is not None
    assert (span.since, span.until) == (monday - DAY, monday)


def test_the_words_are_shown():
    span = interval("what did Ana say two days ago?", us(FRIDAY), None)
    assert span is not None
    assert span.words == "two days ago"


@pytest.mark.parametrize(
    ("language", "text", "rest"),
    [
        ("en", "what did we decide last week about Redis?", "what did we decide about Redis?"),
        ("en", "what did I work on on 10 November", "what did I work"),
        ("en", "since Monday, what broke?", ", what broke?"),
        (
            "de",
            "was haben wir vor zwei Wochen zu Redis entschieden",
            "was haben wir zu Redis entschieden",
        ),
        ("fr", "qu\u2019avons-nous décidé il y a trois jours ?", "qu\u2019avons-nous décidé ?"),
        ("es", "qué pasó el 7 de mayo de 2023 con Redis", "qué pasó con Redis"),
    ],
)
def test_time_words_are_removed_from_the_question(language: str, text: str, rest: str):
    span = interval(text, us(FRIDAY), language)
    assert span is not None
    assert " ".join(span.cut(text).split()) == rest


def test_a_time_is_read_in_whichever_known_language_where_none_is_named():
    assert days("letzte Woche", None) == "2023-11-06 2023-11-12"
    assert days("la semaine dernière", None) == "2023-11-06 2023-11-12"

"""
Formatting of numbers, times, sizes and memories' text for people, and parsing of typed times.

The text of memories is untrusted: an escape sequence must not set a terminal's title, and invisible
letters must not make two texts look alike on a page (`sanitize`).
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from store.home.errors import InvalidInput
from store.home.instants import moment
from store.log.event_kinds import EPISODE
from store.text.excerpt import Score, fitting, passage, reports, sentences, without_listings

Written = Callable[[float], str]

_SHORT = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float) -> str:
    """Return 12345 as "12,345"; a fraction is rounded to two digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def short_number(value: float) -> str:
    """Return 12345 as "12.3k": as short as an axis needs it."""
    for size, unit in _SHORT:
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def milliseconds(value: float) -> str:
    """Return "0.4 ms", "12 ms" or "1.2 s"."""
    if value >= 1_000:
        return f"{value / 1_000:.3g} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def dollars(value: float) -> str:
    """Return "$0.0021", "$0.01" or "$12.30": a call costs a fraction of a cent."""
    if value >= 1:
        return f"${value:,.2f}"
    cents, rest = f"{value:.4f}"[:4], f"{value:.4f}"[4:].rstrip("0")
    return f"${cents}{rest}"


def size(value: float) -> str:
    """Return bytes in readable units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def passages(hit: Mapping[str, Any], limit: int, score: Score) -> list[tuple[str, str]]:
    """Return the best passages of a hit, each on one line of at most `limit` characters, with its
    speaker: for a turn the prompt ("asked"), the commands and their outcome ("ran") and the answer
    ("agent"); for any other memory one passage, of "".
    """
    text = " ".join(sanitize(hit["text"]).split())
    if hit["kind"] != EPISODE:
        return [("", passage(text, limit, score))]
    answer = hit.get("result", "")
    told = reports(answer) or sentences(" ".join(without_listings(answer).split()))
    ran = sanitize(hit.get("action", "")).splitlines()
    parts = {
        "asked": passage(text, limit, score),
        "ran": "; ".join(fitting(ran, limit, score)),
        "agent": " ".join(fitting(list(map(sanitize, told)), limit, score)),
    }
    return [(who, words) for who, words in parts.items() if words]


def day(at: float) -> str:
    """Return microseconds UTC as "2026-11-20"."""
    return moment(int(at)).strftime("%Y-%m-%d")


def day_of_year(at: float) -> str:
    """Return microseconds UTC as "20 Nov"."""
    return moment(int(at)).strftime("%d %b").lstrip("0")


_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,9})([smhdw])")
_POSITION = re.compile(r"@([1-9][0-9]{0,17})", re.ASCII)


def parse_span(text: str) -> int:
    """Return the seconds of "90s", "15m", "6h", "30d", "2w"; raise InvalidInput otherwise."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidInput(f"{text!r} is not a duration: write 90s, 15m, 6h, 30d or 2w")
    return int(match[1]) * _SECONDS[match[2]]


def parse_time(text: str, now: int) -> datetime:
    """Return a moment given as an ISO date or as a span before `now` (microseconds UTC).

    "today" and "yesterday" are the start of that day. A date or time without a zone is UTC.
    Raise InvalidInput for anything else.
    """
    days = {"today": 0, "yesterday": 1}.get(text.strip().lower())
    if days is not None:
        began = datetime.fromtimestamp(now / 1e6, UTC).replace(hour=0, minute=0, second=0)
        return began.replace(microsecond=0) - timedelta(days=days)
    try:
        if _SPAN.fullmatch(text.strip().lower()):
            return datetime.fromtimestamp(now / 1e6, UTC) - timedelta(seconds=parse_span(text))
        time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{text!r} is not a date: write 2026-11-20, or 7d for a week ago"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_time_point(text: str, now: int) -> datetime | int:
    """Return a moment as `parse_time` does, or the position in the log that "@1234" names."""
    if match := _POSITION.fullmatch(text.strip()):
        return int(match[1])
    try:
        return parse_time(text, now)
    except InvalidInput as error:
        raise InvalidInput(
            f"{text!r} is no moment: write 2026-11-20, 7d for a week ago, or @1234 for a place in "
            "the log"
        ) from error


def parse_optional_time(text: str | None, now: int) -> datetime | None:
    """Return the moment of a text as `parse_time` does; None without a text."""
    return parse_time(text, now) if text else None


def ago(passed: int) -> str:
    """Return passed seconds in words: "3 h ago"."""
    for unit in "wdhm":
        if passed >= 2 * _SECONDS[unit]:
            return f"{passed // _SECONDS[unit]} {unit} ago"
    return f"{passed} s ago"


_BAD = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def sanitize(text: str) -> str:
    """Return text without control, bidi and invisible characters; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return "".join(
        letter for letter in text if letter in "\n\t" or unicodedata.category(letter) not in _BAD
    )


# Labels of the kinds of evidence and of answers. They are here because a command that a server
# answers does not load the recall modules.
EVIDENCE_LABELS = {
    "lexical": "words",
    "question": "question before",
    "before": "turn before",
    "after": "turn after",
    "session_vector": "session's vectors",
    "dated": "names a time",
    "time": "recorded then",
    "removal": "says it was removed",
    "personal": "first person",
    "bridge": "second hop",
}
# the reasons a candidate of a recall did not come back
DROPPED_LABELS = {
    "below_bar": "below the confidence asked for",
    "below_score": "below the score asked for",
    "over_top_k": "more than were asked for",
    "folded": "same as a better hit",
    "gave_way": "insights shown by their sources instead",
    "unsure": "too unsure to use",
    "unsaid": "not injected: too unsure, said before, or over the limit",
    "near": "not injected, though nearly sure enough",
}
ANSWER_LABELS = {
    "when": "a time",
    "how_long": "how long",
    "who": "a person",
    "where": "a place",
    "how_many": "a number",
    "why": "a reason",
    "how": "a way",
    "what": "a thing",
    "yes_no": "a yes or no",
    "list": "all there is",
    "code": "code",
}


def hit_reason(why: Mapping[str, Any]) -> str:
    """Return one hit's evidence as a line: its ranks, its score's terms and its confidence."""
    parts = [", ".join(f"{name} #{channel['rank']}" for name, channel in why["channels"].items())]
    adds = sorted(why["adds"].items(), key=lambda item: -item[1])
    parts.append(
        " + ".join(f"{EVIDENCE_LABELS.get(name, name)} {value:.2f}" for name, value in adds)
    )
    parts.append(
        ", ".join(
            f"{name} {value:.2f}{_fade_note(why, name)}"
            for name, value in why["signals"].items()
            if value
        )
    )
    words = f" ({', '.join(map(sanitize, why['words']))})" if why["words"] else ""
    parts.append(f"covers {why['coverage']:.0%} of the words{words}")
    if context := [word for word in why["question_words"] if word not in why["words"]]:
        parts.append("words of the question before it " + ", ".join(map(sanitize, context)))
    parts.append(f"nearness {why['nearness']:.2f}")
    if why["fresh"]:
        parts.append("not built yet")
    return "; ".join(part for part in parts if part)


def _fade_note(why: Mapping[str, Any], signal: str) -> str:
    """Return a note with an importance's value before decay, if it decayed."""
    before = why["importance_told"]
    is_faded = signal == "importance" and round(before, 2) > round(why["signals"][signal], 2)
    return f" (of {before:.2f}, faded)" if is_faded else ""

"""
An excerpt: the beginning of a long text, cut where a reader would stop.
"""

import re

MORE = " ..."
_STOP = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])(?=.)")
_SOONEST = 20  # characters of a sentence
_SENTENCE_END = re.compile(r"[.!?:;][)\"'`]*\s|[\u3002\uff01\uff1f]")


def excerpt(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, and ` ...` where something was left out.

    The cut falls after a paragraph, else a sentence, else a word, never in the first half.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    head = text[:limit]
    half = limit // 2
    ends = [match.end() for match in _SENTENCE_END.finditer(head, half)]
    for cut in (head.rfind("\n\n"), ends[-1] if ends else -1, head.rfind(" ")):
        if cut >= half:
            return head[:cut].rstrip() + MORE
    return head + MORE


def one_line(text: str, limit: int) -> str:
    """Return an excerpt of a text with every run of white space made one space."""
    return excerpt(" ".join(text.split()), limit)


def first_sentence(text: str, limit: int) -> str:
    """Return the first sentence of a text on one line, and ` ...` where something was left out.

    One that is over so soon that it may be an abbreviation takes the next with it.
    """
    line = " ".join(text.split())
    end = next((one.start() for one in _STOP.finditer(line, _SOONEST)), len(line))
    return (
        line
        if len(line) <= min(end, limit)
        else excerpt(line[:end], limit).removesuffix(MORE) + MORE
    )


def label(text: str, limit: int = 100) -> str | None:
    """Return a text as a tag or name: one line, no longer than `limit`; None where it is empty."""
    return " ".join(text.split())[:limit].strip() or None

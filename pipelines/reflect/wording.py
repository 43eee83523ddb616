"""
Wording: an insight's text, made of its sources' own sentences, each with its date.
"""

from pipelines.reflect import words
from pipelines.reflect.finding import Finding, date

QUOTED = 4  # sentences
_OF_CHAIN = 8


def headline(finding: Finding) -> str:
    """Return what an insight is about and what was seen: "deadlock, orders: 4 notes, ...\""""
    return f"{', '.join(finding.topic)}: {finding.says}"


def extractive(finding: Finding) -> str:
    """Return the text of an insight without a model: its headline, then the telling sentences."""
    wanted = dict.fromkeys(words.terms(" ".join(finding.topic)), 1.0)
    quoted = ((one, words.telling(one, wanted)) for one in finding.sources)
    most = _OF_CHAIN if finding.is_in_order else QUOTED
    chosen = words.distinct(quoted, most)
    lines = [f"- {sentence} ({date(memory)})" for memory, sentence in chosen]
    return "\n".join([headline(finding), *lines])

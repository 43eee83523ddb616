"""
What a prompt asks to be done, as far as a rule may speak of it: programs, files, efforts.
"""

from serve.lessons import naming, words
from store.text.mention_rules import LONE_TOOLS, SUBCOMMANDS

MAX_CHARS = 4_000
_TOOLS = (SUBCOMMANDS.keys() | LONE_TOOLS | words.MORE_TOOLS) - words.WORD_TOOLS
# an imperative at the beginning of a clause: "deploy it", "please commit"
_IMPERATIVES = frozenset({"deploy", "release", "publish", "ship", "commit", "install", "push"})
_LEADS = frozenset("please now then and can could you run also bitte let's lets to".split())


def asked_for(prompt: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the programs and files that a prompt names, and the efforts it asks for."""
    named: dict[str, None] = {}
    efforts: set[str] = set()
    is_lead = True  # only politeness stood in this clause before
    for token in naming.tokens(prompt[:MAX_CHARS]):
        if token.is_stop:
            is_lead = True
            continue
        word = token.written
        if token.is_code:
            named[word.split(" ")[0]] = None
        elif word in _TOOLS or naming.file_named(word):
            named[word] = None
        elif is_lead and token.text in _IMPERATIVES:
            efforts |= {effort for start, effort in words.OCCASIONS if token.text.startswith(start)}
        is_lead = is_lead and token.text in _LEADS
    return tuple(named), frozenset(efforts)

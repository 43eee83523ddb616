"""
Scripts: the writing systems a model knows, by the pieces of its vocabulary.

A vocabulary learned from a script's texts has hundreds of pieces of several of its letters; of a
script that its model never read, it has single letters at most: MiniLM has 14,000 of Latin, 8 of
Cyrillic and none of Han. Vectors of such a text are meaningless. Chinese vocabularies may contain
every character alone, so many single ones count as well. A script is the first word of its letters'
Unicode names. Languages of one script cannot be distinguished this way.
"""

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

_PIECES = 256  # of several letters, from which on a script is known
_CHARACTERS = 2_048  # or so many single ones
_SAMPLE = 256  # characters of a text that are looked at
_ALWAYS = "LATIN"  # every vocabulary has ASCII words


class _ScriptOf(dict[str, str]):
    """The script of a character; empty if it is no letter."""

    def __missing__(self, character: str) -> str:
        name = unicodedata.name(character, "") if character.isalpha() else ""
        self[character] = script = name.partition(" ")[0]
        return script


_script_of = _ScriptOf()  # 30 bytes a character that was met


def known_scripts(pieces: Iterable[str]) -> frozenset[str]:
    """Return the scripts a vocabulary knows; signs before or after a piece's letters do no harm."""
    several: Counter[str] = Counter()
    single: Counter[str] = Counter()
    for piece in pieces:
        if not piece.isascii() and (letters := piece.strip("▁#")):
            (several if len(letters) > 1 else single)[_script_of[letters[0]]] += 1
    scripts = {script for script, count in several.items() if count >= _PIECES}
    scripts |= {script for script, count in single.items() if count >= _CHARACTERS}
    return frozenset(scripts - {""} | {_ALWAYS})


def is_known(text: str, scripts: Collection[str]) -> bool:
    """Return True if most of the text's first letters are of the scripts, or it has no letters."""
    if text.isascii():
        return _ALWAYS in scripts
    of_text = [script for letter in text[:_SAMPLE] if (script := _script_of[letter])]
    return 2 * sum(script in scripts for script in of_text) >= len(of_text)

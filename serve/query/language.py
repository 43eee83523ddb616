"""
Which language a question is in, by its script and its commonest words; no model, no download.

A word of several languages counts for each by its share. One that no list knows, or that two
languages claim as much, leaves the question without a language. Identifiers say nothing. The idea:
Grefenstette, Comparing two language identification schemes, JADT 1995.
"""

import re

LEAST_LEAD = 0.3  # of a word, over the second language
SENTENCE = 2.0  # words: with them a name in another script does not change the language

# Words a question has: articles, pronouns, prepositions, question words, today and yesterday.
_COMMON = {
    "en": """the a an of to and in is are was were be what which who when where why how did do does
        we you my our it this that for with on at from by have has had not can should would could
        i as or last week yesterday today there me your any if about they he she his her""",
    "de": """der die das den dem des ein eine einen einer und in ist sind war waren was wer wann wo
        warum wie welche welcher welches haben hat hatte wir ich sie es mit auf für von zu nicht im
        am bei aus wird werden kann letzte letzten letzter woche gestern heute über seit vor noch
        uns unser unsere mein meine gibt man auch""",
    "nl": """de het een en in is zijn was waren wat wie wanneer waar waarom hoe welke hebben heeft
        we wij ik je met op voor van naar niet bij uit wordt gisteren vandaag over ook ons onze dat
        dit er aan""",
    "fr": """le la les un une des du de et en est sont était qui que quoi quand où pourquoi comment
        quel quelle quels quelles avons avez nous vous je il elle on avec sur pour par pas dans au
        aux ce cette notre nos dernière dernier semaine hier aujourd combien fait été qu il
        jours mois trois passé""",
    "es": """el la los las un una de del y en es son fue era qué que quién cuándo dónde por cómo
        cuál cuáles cuántos hemos nosotros yo con para no se lo su nuestro nuestra pasada pasado
        semana ayer hoy está hay cuando como donde hace días meses""",
    "pt": """o a os as um uma de do da dos das e em no na é são foi era que quem quando onde por
        como qual quais quantos nós eu com para não se seu nosso nossa semana ontem hoje está há ao
        você""",
    "it": """il lo la i gli le un una di del della dei e in è sono era che chi cosa quando dove
        perché come quale quali quanti abbiamo noi io con per non si nostro nostra settimana ieri
        oggi nel nella al da""",
    "sv": """den det de en ett och i är var vad vem när där varför hur vilken vilka har hade vi jag
        du med på för av till inte om från som igår idag vår vårt""",
    "pl": """i w na z do nie się jest są był była było co kto kiedy gdzie dlaczego jak który która
        które mamy my ja to od po przez dla wczoraj dziś nasz czy""",
    "tr": """ve bir bu şu ne kim zaman nerede neden niçin nasıl hangi mi mı mu mü var yok için ile
        biz ben dün bugün geçen hafta değil olarak daha kaç""",
}
# Letters that only some of these languages write; one is worth a word.
_LETTERS = {"ß": "de", "ñ": "es", "¿": "es", "¡": "es", "ã": "pt", "õ": "pt", "ł": "pl", "ę": "pl"}
_LETTERS |= {"ą": "pl", "ś": "pl", "ż": "pl", "ğ": "tr", "ş": "tr", "ı": "tr", "å": "sv", "œ": "fr"}

# The first that the text has a letter of. Kana before Han: Japanese mixes them.
_SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",
    "ko": r"[\uac00-\ud7a3\u1100-\u11ff]",
    "zh": r"[\u3400-\u4dbf\u4e00-\u9fff]",
    "uk": r"[іїєґІЇЄҐ]",
    "ru": r"[\u0400-\u04ff]",
    "fa": r"[پچژگ]",
    "ar": r"[\u0600-\u06ff]",
    "he": r"[\u05d0-\u05ea]",
    "hi": r"[\u0900-\u097f]",
    "th": r"[\u0e00-\u0e7f]",
    "el": r"[\u0370-\u03ff]",
}
_SCRIPT = {language: re.compile(letters) for language, letters in _SCRIPTS.items()}
_WORD = re.compile(r"(?<![\w./\\@-])[^\W\d_]+(?![\w/\\@-]|\.\w|\()")
_BY_WORD: dict[str, tuple[str, ...]] = {}
for _language, _words in _COMMON.items():
    for _word in dict.fromkeys(_words.split()):
        _BY_WORD[_word] = (*_BY_WORD.get(_word, ()), _language)


def language(text: str) -> str | None:
    """Return the ISO 639-1 code of the text's language, or None where that is not plain."""
    lower = text.lower()
    claims: dict[str, float] = {}
    for word in _WORD.findall(lower):
        for code in (known := _BY_WORD.get(word, ())):
            claims[code] = claims.get(code, 0.0) + 1 / len(known)
    for letter in set(lower) & _LETTERS.keys():
        claims[_LETTERS[letter]] = claims.get(_LETTERS[letter], 0.0) + 1.0
    ranked = sorted((claim, code) for code, claim in claims.items())
    (second, _), (most, best) = [(0.0, ""), (0.0, ""), *ranked][-2:]
    if most < SENTENCE and not text.isascii():
        for code, letters in _SCRIPT.items():
            if letters.search(text):
                return code
    return best if most - second >= LEAST_LEAD else None

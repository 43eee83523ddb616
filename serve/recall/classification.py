"""
Classification of a question by its words: its language, the type of its answer, the caller's task.

The language follows from the script and the commonest words, each counting for a language by its
share (Grefenstette, Comparing two language identification schemes, JADT 1995); a tie gives none.
The answer type follows from the question words of English, German, French and Spanish, in the
coarse classes of Li and Roth 2002 (https://aclanthology.org/C02-1150), without those that words
cannot distinguish. A task mode (debugging, planning ...) is set only if its words outweigh those of
every other; most questions have none. No model, no download.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from store.text.claims import has_any_cue
from store.text.tokenizer import terms

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
_PLAIN_WORD = re.compile(r"(?<![\w./\\@-])[^\W\d_]+(?![\w/\\@-]|\.\w|\()")
_BY_WORD: dict[str, tuple[str, ...]] = {}
for _language, _words in _COMMON.items():
    for _word in dict.fromkeys(_words.split()):
        _BY_WORD[_word] = (*_BY_WORD.get(_word, ()), _language)


def language(text: str) -> str | None:
    """Return the ISO 639-1 code of the text's language, or None if that is not plain."""
    lower = text.lower()
    claims: dict[str, float] = {}
    for word in _PLAIN_WORD.findall(lower):
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


AnswerType = Literal[
    "when", "how_long", "who", "where", "how_many", "why", "how", "what", "yes_no", "list", "code"
]

# by language: each answer type, then the words that ask for it
_ASKING: Mapping[str, Mapping[AnswerType, str]] = {
    "en": {
        "when": "when",
        "who": "who whom whose",
        "where": "where",
        "why": "why",
        "how": "how",
        "what": "what which",
    },
    "de": {
        "when": "wann",
        "who": "wer wem wen wessen",
        "where": "wo wohin woher",
        "why": "warum wieso weshalb",
        "how": "wie",
        "how_many": "wieviel wieviele",
        "what": "was welche welcher welches welchen welchem",
    },
    "fr": {
        "when": "quand",
        "who": "qui",
        "where": "où",
        "why": "pourquoi",
        "how": "comment",
        "how_many": "combien",
        "what": "que quoi quel quelle quels quelles",
    },
    "es": {
        "when": "cuándo",
        "who": "quién quiénes",
        "where": "dónde adónde",
        "why": "porqué",
        "how": "cómo",
        "how_many": "cuántos cuántas cuánto cuánta",
        "what": "qué cuál cuáles",
    },
}
_QUESTION_WORDS = {
    language: {word: kind for kind, words in asking.items() for word in words.split()}
    for language, asking in _ASKING.items()
}
# The question words of a language: a memory answers a question without repeating it. English
# question words are stop words of all texts.
_ASKS = {
    "ar": "أي أية أين كم كيف لماذا ما ماذا متى من هل",
    "de": "wieso weshalb wodurch womit worin",
    "el": "γιατί πόσα πόσο πόσοι πότε πού ποια ποιες ποιο ποιοι ποιος πώς τι",
    "es": "cuál cuáles cuándo cuánto cómo",
    "fa": "آیا چرا چند چه چگونه چیست کجا کدام کی کیست",
    "fr": "laquelle lequel lesquelles lesquels",
    "he": "איזה איזו איך אילו איפה כמה למה מדוע מה מי מתי האם",
    "hi": "कब कहाँ कहां कितना कितनी कितने किन किस किसका किसकी किसके किसने किसे कैसे कौन क्या क्यों",
    "it": "che chi come cosa dove perché quale quali quando quanta quante quanti quanto",
    "ja": "いくつ いつ だれ どう どこ どの どれ どんな なぜ 何",
    "ko": "누가 누구 무슨 무엇 어느 어디 어떤 어떻게 언제 얼마나 왜",
    "nl": "hoe hoeveel waar waarin waarmee waarom wanneer wat welk welke wie",
    "pl": """co czego czemu czyj czym dlaczego gdzie ile jak jaka jaki jakie kiedy kogo komu kto
        która które który""",
    "pt": "como onde porquê quais qual quando quanta quantas quanto quantos que quem",
    "ru": """где зачем как какая какие каким каких какого какое какой какую когда кого кому кто куда
        откуда почему сколько чего чей чем что""",
    "sv": "hur när vad var varför vem vems vilka vilken vilket",
    "th": "กี่ ทำไม ที่ไหน เท่าไร เท่าไหร่ เมื่อไร เมื่อไหร่ ใคร ไหน อย่างไร อะไร",
    "tr": """hangi kaç kaçıncı kim kime kimin kimler mi mı mu mü nasıl nasıldır ne neden nedir neler
        nelerdir nerede nereden nerededir nereye neyi niçin niye""",
    "uk": """де звідки коли кого кому куди навіщо скільки хто чого чий чим чому що як яка яке який
        які""",
    "zh": "什么 何时 如何 哪个 哪些 哪里 多少 怎么 为什么 甚麼 哪裡 為什麼",
}


@lru_cache
def asking_terms(language: str | None) -> frozenset[str]:
    """Return the terms of the words that ask in a language; none of English."""
    words = [_ASKS.get(language or "", ""), *_ASKING.get(language or "", {}).values()]
    return frozenset(terms(" ".join(words))) if language != "en" else frozenset()


# answer types of a question word with the next word; "what build command" has one between
_AMOUNTS = frozenset("many much often old far big large viele viel oft groß alt hoch".split())
_TIMES = frozenset("date day time year month week tag datum jahr monat jour date année año".split())
_CODE = frozenset(
    """command commands function functions method methods class classes file files path paths flag
    flags option options setting settings variable variables endpoint endpoints url port version
    branch commit error exception package packages library libraries module modules query regex
    script key befehl datei funktion klasse commande fichier fonction classe comando archivo
    función clase""".split()
)
_AUXILIARIES = frozenset(
    """is are was were am do does did has have had can could should would will must may isn't aren't
    wasn't weren't don't doesn't didn't hasn't haven't can't couldn't shouldn't won't wouldn't ist
    sind war hat habe haben hast kann können wird est-ce""".split()
)
_ASKS_FOR_MORE = frozenset("tell show explain remind list know remember give describe".split())
_LIST = re.compile(
    r"^(?:please )?(?:list|enumerate)\b|\b(?:show|give|tell|name)(?: me| us)? (?:all|every)\b"
    r"|\b(?:what|which) (?:are )?(?:all|every)\b|^(?:nenne?|zeige?)(?: mir| uns)? alle\b|^liste\b"
    r"|\btou(?:s|tes) les\b|\btod[oa]s l[oa]s\b"
)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-](?!s\b)[^\W\d_]+)*")  # without a possessive's s


def answer_type(text: str, language: str | None = "en") -> AnswerType | None:
    """Return the type of answer that a question asks for; None for a text without a question.

    Words of a language without a table here are read as English.
    """
    folded = text.casefold().strip()
    words = _WORD.findall(folded.replace("por qué", "porqué"))
    if _LIST.search(folded):
        return "list"
    table = _QUESTION_WORDS.get(language or "en", _QUESTION_WORDS["en"])
    if _is_yes_or_no(words) and words[0] not in table:  # German "was" is no verb
        return "yes_no"
    asking = [place for place, word in enumerate(words) if word in table]
    if not asking:
        return None
    # "When I run it, where does it fail?": a question word before a verb asks, another relates
    place = next((one for one in asking if _is_verb(words[one + 1 : one + 2])), asking[0])
    return _refine(table[words[place]], words[place + 1 : place + 3])


def _is_yes_or_no(words: Sequence[str]) -> bool:
    return bool(words) and words[0] in _AUXILIARIES and _ASKS_FOR_MORE.isdisjoint(words[1:3])


def _is_verb(following: Sequence[str]) -> bool:
    return not _AUXILIARIES.isdisjoint(following)


def _refine(kind: AnswerType, following: Sequence[str]) -> AnswerType:
    first = following[0] if following else ""
    if kind == "how" and first in _AMOUNTS:
        return "how_many"
    if kind == "how" and first in ("long", "lange"):
        return "how_long"
    if kind == "what" and first in _TIMES:
        return "when"
    if kind == "what" and not _CODE.isdisjoint(following):
        return "code"
    return "why" if kind == "how" and first == "come" else kind


TaskMode = Literal["debug", "architecture", "coding", "review", "plan", "routine"]

SURE = 2  # one telling word, or two that hint

# How well a kind of memory fits a mode, in [0, 1]; kinds not listed do not fit.
KINDS: Mapping[TaskMode, Mapping[str, float]] = {
    "debug": {
        "bugfix": 1.0,
        "lesson": 0.8,
        "antipattern": 0.8,
        "observation": 0.6,
        "insight": 0.5,
        "fact": 0.3,
    },
    "architecture": {
        "decision": 1.0,
        "pattern": 0.9,
        "antipattern": 0.7,
        "insight": 0.6,
        "context": 0.6,
        "lesson": 0.5,
        "preference": 0.4,
        "fact": 0.3,
    },
    "coding": {
        "pattern": 1.0,
        "preference": 0.9,
        "lesson": 0.8,
        "antipattern": 0.8,
        "decision": 0.7,
        "bugfix": 0.5,
        "fact": 0.4,
    },
    "review": {
        "antipattern": 1.0,
        "preference": 0.9,
        "pattern": 0.9,
        "decision": 0.7,
        "lesson": 0.7,
        "bugfix": 0.5,
    },
    "plan": {
        "goal": 1.0,
        "milestone": 1.0,
        "decision": 0.7,
        "activity": 0.5,
        "summary": 0.5,
        "context": 0.4,
        "insight": 0.3,
    },
    "routine": {
        "preference": 1.0,
        "fact": 0.8,
        "lesson": 0.7,
        "pattern": 0.6,
        "activity": 0.4,
        "context": 0.4,
    },
}

# telling words | words that only hint
_WORDS: Mapping[TaskMode, tuple[str, str]] = {
    "debug": (
        """bug bugs debug crash crashes error errors exception traceback stacktrace segfault flaky
        fail fails failed failing failure hang hangs deadlock broken regression reproduce leak
        panics fehler absturz erreur plantage fallo ошибка 错误 エラー""",
        "fix trace stack timeout wrong slow issue cause undefined null works unexpected warning",
    ),
    "architecture": (
        """architecture architect tradeoff tradeoffs microservice microservices monolith scalability
        coupling abstraction architektur entwurf arquitectura архитектура 架构""",
        """design structure component layer boundary interface schema choose chose decide decided
        decision alternative approach pattern instead rationale scale service""",
    ),
    "coding": (
        "implement implementation refactor refactoring implementieren implementar 实现",
        """write code function class method endpoint snippet helper add create signature type
        parameter handler component library""",
    ),
    "review": (
        "review reviews reviewer reviewing pr prs nitpick codereview ревью",
        "pull request diff approve convention style guideline audit comment merge standard",
    ),
    "plan": (
        """plan plans planning planned roadmap milestone milestones backlog sprint deadline todo
        geplant planifier 计划""",
        "next step schedule prioritize priority estimate goal task tasks quarter remaining open",
    ),
    "routine": (
        """deploy deploys deploying deployment release releasing rollout rollback publish install
        installation desplegar déployer ausrollen""",
        """run build command setup configure start restart upgrade bump update backup environment
        credentials script port version tag""",
    ),
}
_WEIGHTS: dict[str, list[tuple[TaskMode, int]]] = {}
for _mode, _lists in _WORDS.items():
    for _weight, _list in zip((SURE, 1), _lists, strict=True):
        for _term in dict.fromkeys(terms(_list)):
            _WEIGHTS.setdefault(_term, []).append((_mode, _weight))


def task_mode(topic: Sequence[str], *, names_error: bool = False) -> TaskMode | None:
    """Return the mode indicated by a question's terms; None if they are few, or two modes tie.

    `names_error`: the question contains an error's name or code, which indicates debugging.
    """
    sums: Counter[TaskMode] = Counter()
    if names_error:
        sums["debug"] += SURE
    for term in dict.fromkeys(topic):
        for mode, weight in _WEIGHTS.get(term, ()):
            sums[mode] += weight
    (best, most), (_, second) = [*sums.most_common(2), (None, 0), (None, 0)][:2]
    return best if most >= SURE and most > second else None


# Words that say little about a question's topic, and yet are no stop words: a memory may depend on
# them ("keep the branch"), but their presence does not indicate its topic. English only; in other
# languages every word counts in full
COMMON_TERMS = frozenset(
    terms(
        """
        ask asked become bring brought call called change changed come came do done end find found
        finish get got gotten give gave given go went gone going good happen happened help keep kept
        kind know knew known lead left like look made make mean means meant mention need new old put
        receive run saw see seen set share show shown sort start stop suggest take took taken talk
        tell told thing think thought time tried try turn type use used want way work write wrote
        """
    )
)
# the same for questions in other languages: "what happened", "what was done"
_ASKS_FOR_ALL = COMMON_TERMS | frozenset(
    terms(
        """
        activity everything news notes overview progress recap record recorded summarize summary
        update updates worked
        habe haben hab avons ai est s
        passiert geschehen geschah gemacht getan gearbeitet arbeiten woran erledigt los neu neues
        passé fait faite faites travaillé nouveau
        pasó pasado hicimos hice hecho trabajé trabajamos trabajado nuevo
        """
    )
)
# words for making a memory of a kind
_KIND_WORDS: Mapping[str, str] = {
    "decision": """decide decided decision decisions agree agreed entschieden entscheidung
        entscheidungen beschlossen décidé décidée décision décisions decidimos decidido decisión
        decisiones""",
    "lesson": "learn learned learnt lesson lessons gelernt appris aprendimos aprendido",
    "bugfix": "bug bugs fix fixed fixes behoben corrigé corrigés corregimos corregido arreglamos",
    "milestone": "milestone milestones release released releases ship shipped",
    "goal": "goal goals",
    "preference": "preference preferences prefer",
}
# words of reports about removed things, for any question about a removal
REMOVAL_TERMS = frozenset(
    terms(
        """
        abandon abandoned delete deleted deletion deprecate deprecated deprecation discontinued drop
        dropped obsolete phased remove removed removal removing replace replaced retire retired
        revert reverted
        entfernt entfernen abgeschafft gelöscht ersetzt supprimé retiré remplacé abandonné
        eliminado eliminamos quitado quitamos reemplazado retirado
        """
    )
)
_GOES_AWAY = re.compile(
    r"\b(?:go(?:es|ne)?|went|going) away\b|\b(?:get|got|getting) rid of\b|\bno longer\b"
    r"|\bdisappear(?:s|ed)?\b|\bkill(?:ed)? off\b"
    r"|\b(?:stop(?:s|ped)?|end(?:s|ed)?) (?:(?:support|ship|maintain)(?:ing)?|us(?:e|ing))\b"
    r"|\b(?:take[ns]?|took|roll(?:s|ed)?) back\b"
)
# the same for short questions; elsewhere these words mean less: "is X still around"
_IS_OVER = re.compile(
    r"\bstill\b(?:\W+(?:around|there|exists?|alive|on|in (?:use|place|force)|use[ds]?|using|a"
    r"|need(?:s|ed)?|have|has|appl(?:y|ies)|running|runs?|valid|get))?|\bany ?more\b|\bgone\b"
    r"|\b(?:go|closed?|over|lifted|left|end(?:ed)?|(?:switched|turned) off|shut down)\b(?=\W*$)"
    r"|\bwhat(?:ever)? (?:has |have )?(?:happened|bec[oa]mes?)(?: (?:to|of|with))?\b"
    r"|\bnoch\b(?: (?:in gebrauch|da|aktiv|gültig))?|\bnicht mehr\b|\bwas ist aus\b"
    r"|\bencore\b|\bqu'est devenue?\b|\bdisparu\b|\btodavía\b|\baún\b|\bqué pasó con\b"
)
_ASKED = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|have|has|can|may|will|when|where|why|what|whatever|who|which|how|since"
    r"|ist|sind|gibt|haben|wann|wo|was|wer|warum|est-ce|quand|qui|où|hay|cuándo|quién|dónde)\b"
)
_LONGEST_ASKED = 120  # characters
_BEGAN = re.compile(
    r"\bwhen\b.{0,100}?\b(?:introduc|add(?:ed)?\b|start|began\b|begin\b|come in\b|came in\b"
    r"|first\b|creat|g[eo]t\b|arriv|launch|adopt|set up\b)|\bsince when do"
    r"|\bseit wann\b|\bdepuis quand\b|\bdesde cuándo\b"
)
_HOW_TO = re.compile(r"\W*how (?:do|to|can|should)\b")
_CHANGED = ("ends", "no_longer", "instead", "moved", "now")


GOING_TERMS = REMOVAL_TERMS | frozenset(terms("away rid disappear disappeared killed"))


def removal_asked(topic: Sequence[str], text: str) -> frozenset[str]:
    """Return the terms by which a question asks about a removal: "when did X go away".

    There are none if it asks for something else.
    """
    plain = text.casefold()
    ways = [match[0] for match in _GOES_AWAY.finditer(plain)]
    if _is_short_question(plain):
        ways += [match[0] for match in _IS_OVER.finditer(plain)]
    if not ways and REMOVAL_TERMS.isdisjoint(topic):
        return frozenset()
    return GOING_TERMS.union(terms(" ".join(ways)))


Account = Literal["change", "beginning"]


def account_asked(text: str, *, of_removal: bool) -> Account | None:
    """Return the part of a thing's history that a short question asks for: change or beginning."""
    plain = text.casefold()
    if not _is_short_question(plain):
        return None
    if _BEGAN.search(plain) and not of_removal:
        return "beginning"
    is_change = of_removal or has_any_cue(plain, _CHANGED)
    return "change" if is_change and not _HOW_TO.match(plain) else None


def _is_short_question(plain: str) -> bool:
    return len(plain) <= _LONGEST_ASKED and _ASKED.match(plain) is not None


_PART = re.compile(r"[^\W_]+")  # of "s'est" both
_KIND_OF = {term: kind for kind, words in _KIND_WORDS.items() for term in terms(words)}


def asks_for_all(text: str, spoken: str | None) -> bool:
    """Return True if a question has no topic: "what did we do", "what did we decide".

    `spoken` is its language, whose commonest words are no topic.
    """
    function = _COMMON.get(spoken or "", "").split()
    words = (word for word in _PART.findall(text.casefold()) if word not in function)
    others = {term for word in words for term in terms(word)} - _ASKS_FOR_ALL
    return others <= _KIND_OF.keys() and answer_type(text, spoken) not in ("how", "why")


def kinds_named(topic: Sequence[str]) -> frozenset[str]:
    """Return the kinds of memories that the words of a question name."""
    return frozenset(_KIND_OF[term] for term in topic if term in _KIND_OF)

"""
Whether a prompt only talks to the agent: thanks, a greeting, "continue", "run the tests".

Such a prompt names nothing a memory could be about, whatever words it shares with one. It is known
by its closed vocabulary: every word is one of courtesy, or the whole is an order, a verb of the
craft first, about what only this conversation can tell ("the tests", "it", "that file"). One word
from outside (a name, a path, a topic) or a question about the things makes it a question for the
memory. Verbs after which a remembered rule may matter most (deploy, release, migrate, delete) are
not in the lists. What they miss is still held to the bar.
"""

import re
import unicodedata

MAX_WORDS = 9  # a longer prompt says something


def _folded(text: str) -> str:
    """Return `text` in folded case, without accents and apostrophes."""
    if text.isascii():
        return text.lower().replace("'", "")
    kept = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in kept if unicodedata.category(c) != "Mn" and c not in "'\u2019")


def _words(*texts: str) -> frozenset[str]:
    return frozenset(_folded(" ".join(texts)).split())


_COURTESY = _words(
    # English, and what is typed for it
    """ok okay k kk yes yep yeah yup ya no nope nah sure thanks thank thx ty cheers please pls hi
    hello hey hiya yo morning afternoon evening night bye goodbye welcome sorry great good nice cool
    fine perfect excellent awesome amazing wonderful brilliant lovely super neat sweet wow right
    correct exactly indeed agreed understood noted done well works worked lgtm looks look sounds
    seems better hmm hm mhm uh um oh ah ahh haha lol alright anyway go ahead continue proceed carry
    keep going stop wait pause cancel abort retry undo again next enough nevermind mind never
    worries problem job work ready brb afk back soon later moment second sec minute minutes hour
    today now two five ten one much lot appreciate appreciated love n gotcha option
    1 2 3 4 5 6 7 8 9 makes sense got""",
    # German, Dutch, Swedish
    """danke dankeschon vielen dank bitte hallo moin servus tschuss guten gut tag abend ja nein
    genau klar alles das ist passt prima perfekt stimmt weiter mach weitermachen los richtig toll
    fertig guten morgen nacht dir euch gerne wars war so wie gehts noch einmal nochmal super bedankt
    dank hoi nee goed ga graag verder goedemorgen tack hej nej bra fortsatt""",
    # French, Italian
    """merci beaucoup bonjour bonsoir salut oui non daccord accord parfait tres bien ca marche vas-y
    vas y genial cest sil te vous plait de rien au revoir grazie mille ciao si va bene cosi perfetto
    ottimo continua avanti buongiorno buonasera prego""",
    # Spanish, Portuguese
    """gracias muchas hola buenos buenas dias tardes noches vale bien muy bueno claro genial
    perfecto listo sigue continua adelante adios obrigado obrigada ola oi sim nao certo perfeito
    otimo valeu muito continue tudo bem de acuerdo que tal por favor funciona pode continuar bom
    boa dia tarde noite""",
    # Polish, Turkish
    """dzieki dziekuje czesc dobrze dalej swietnie kontynuuj tak prosze nie dzien dobry tesekkurler
    tesekkur ederim merhaba evet hayir tamam devam et günaydın lütfen""",
    # Russian, Ukrainian
    """спасибо большое привет здравствуйте да нет хорошо ок ладно понятно отлично супер продолжай
    давай дальше пожалуйста готово пока доброе утро все работает сделай это дякую добре так
    привіт""",
    # Arabic, Hindi
    "شكرا جزيلا مرحبا نعم لا حسنا تمام استمر أكمل من فضلك صباح الخير",
    "धन्यवाद शुक्रिया नमस्ते हाँ नहीं ठीक है जारी रखें कृपया",
)
_FILLERS = _words(
    """a an the this that these those it its thats here there i im ill id me my we us our lets you
    your u can could would will should do does did doing dont didnt is isnt are was were be been
    being have has had what whats why how who which when where and or but so then just still also
    too very really to of in on at for from with by up out off as if not any some all everything
    something nothing anything more less so"""
)
_LEAD_INS = _COURTESY | _words("can could would will you please and so then just lets we i im")
_VERBS = _words(
    """run rerun execute start restart launch open close show print list display read reread view
    make add apply write rewrite create update change edit rename move remove fix refactor clean
    simplify shorten extend commit amend push pull fetch rebase merge squash stage stash revert
    rollback checkout diff bump build rebuild compile lint format test retest debug check recheck
    verify explain describe summarize summarise translate repeat tell say give help try do finish
    complete implement save copy paste fail failed failing break broke crash crashed git""",
    # German, Dutch, French, Italian, Spanish, Portuguese, Polish, Russian: run, show, explain
    """fuhr fuhre starte zeig zeige erklar erklare voer draai toon lance relance montre explique
    esegui lancia mostra spiega ejecuta corre muestra explica executa roda explique uruchom pokaz
    wyjasnij запусти покажи объясни""",
)
_VERBS_LAST = _words("çalıştır göster açıkla")  # Turkish has the verb at the end
_THINGS = _words(
    """test tests suite spec specs check checks build lint linter formatter type types file files
    folder directory dir repo repository branch branches commit commits patch diff change changes
    pr code function functions class method line lines comment comments docstring docstrings
    test-suite import imports version changelog server dev app script scripts command commands
    terminal output log logs stack trace traceback stacktrace error errors warning warnings failure
    failures failing failed broken result results status plan steps step todo list summary
    example examples version first last previous other rest same shorter longer simpler faster
    smaller bigger shorter joke story question answer above below terms words""",
    """aus uit die den le la les il i los las el os o alle todos todas tutti wszystkie все pruebas
    testes testy testleri тесты""",
)
_WITHOUT_SPACES = re.compile(
    "谢谢|謝謝|多谢|感谢|好的|好吧|好|是的|是|对|對|不用|不是|继续|繼續|你好|您好|嗨|早上好|可以|没问题|了|你|您|啊|吧|"
    "どうも|ありがとう|ございます|ございました|こんにちは|おはよう|はい|いいえ|続けて|ください|お願いします|了解|です|"
    "감사합니다|고마워요|고마워|안녕하세요|안녕|네|예|아니요|계속|해 ?줘|해 ?주세요|좋아요|좋아|"
    # run the tests
    "(?:请)?(?:运行|执行|跑一?下?)(?:所有)?测试|テスト(?:を)?実行(?:して)?|테스트(?:를)? 실행"
)
_LETTER = r"(?:[^\W_]|[\u0900-\u0dff])"  # the vowel signs of Indic scripts are no \w
_WORD = re.compile(rf"{_LETTER}+(?:-{_LETTER}+)*")
_NAMES_SOMETHING = re.compile(r"[\w][./\\_:@#=][\w]|[`\"<>{}$]|\w\(|[a-z][A-Z]")


def is_smalltalk(prompt: str) -> bool:
    """Return whether a prompt asks for no memory; False for one without a word."""
    if len(prompt) > 200 or _NAMES_SOMETHING.search(prompt):
        return False
    text = _folded(prompt)
    is_ascii = text.isascii()  # scripts without spaces are not
    words = _WORD.findall(text if is_ascii else _FOLDED_WITHOUT_SPACES.sub(" ", text))
    if not words:
        return not is_ascii and _FOLDED_WITHOUT_SPACES.search(text) is not None
    if len(words) > MAX_WORDS or any(word not in _KNOWN for word in words):
        return False
    if all(word in _COURTESY or word in _FILLERS for word in words):
        return True
    ordered = next((word for word in words if word not in _LEAD_INS), "")
    is_order = len(words) > 1 and (ordered in _VERBS or words[-1] in _VERBS_LAST)
    return is_order or (len(words) > 1 and not any(word in _THINGS for word in words))


def is_order(smalltalk: str) -> bool:
    """Return whether small talk tells the agent to do something, beyond courtesy."""
    words = _WORD.findall(_folded(smalltalk))
    return any(word in _VERBS or word in _VERBS_LAST for word in words)


_KNOWN = _COURTESY | _FILLERS | _VERBS | _VERBS_LAST | _THINGS
_FOLDED_WITHOUT_SPACES = re.compile(_folded(_WITHOUT_SPACES.pattern))

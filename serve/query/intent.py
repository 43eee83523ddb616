"""
What a prompt wants: nothing of the memory, an answer, work done, or what went wrong put right.

Told by its first words, in a few languages, and never by a model. A prompt no list knows is work:
the memory is asked, and the bar decides whether it has anything to say.
"""

import re

from serve.query.smalltalk import is_order, is_smalltalk
from store.agent_events import Intent
from store.importers.rules import Rule, only_blames, rules

LOOKED_AT = 2_000  # characters, from the beginning

# "/review", "/mcp__x", "!ls": said to the host, not to the agent; a path has a second slash
_COMMAND = re.compile(r"\s*(?:/[\w:.-]+(?=\s|\Z)|[!#])\s*(?P<rest>.*)", re.DOTALL)
_OWN_WORDS = 3  # from so many on, a slash command says what it is about

_CORRECTIONS = re.compile(
    r"\s*(?:"
    # no, ... / wrong: ... / not that, ...
    r"(?:no|nope|nah|wrong|not quite|stop(?: it| that)?|wait no|nein|falsch|stopp|non|faux|"
    r"arr[êe]te|nee|fout|não|errado|incorrecto|sbagliato|fermo|нет|неверно|неправильно|стоп|nie|źle)\s*[,:;.!–—-]+\s*\w"
    r"|(?:not|nicht|pas|niet)\s+(?:like )?(?:that|this|so|das|dies|ça|cela|zo)\b"
    # that is wrong
    r"|(?:that|this|it|which)(?:'s| is| was)\s+(?:still )?(?:(?:the )?wrong|incorrect|"
    r"not (?:right|correct|what|how|true|it)\b)|wrong \w+\s*[.!]*\s*\Z"
    r"|das (?:ist|war|stimmt) (?:so )?(?:falsch|nicht)|c'est (?:faux|pas)|est[áo] mal|eso no es|"
    r"è sbagliato|está errado|это (?:не так|неправильно|неверно)"
    # you did what you should not
    r"|you (?:forgot|missed|broke|misread|misunderstood|should(?:n't| not)? have|were not|weren't"
    r"|were supposed|keep|did(?:n't| not)|again)\b"
    r"|du (?:hast|solltest)\b.*\b(?:vergessen|nicht)\b|tu as oublié|has olvidado"
    # what was said before
    r"|(?:as )?(?:i|we) (?:(?:already|just) )?(?:said|told you|asked (?:you )?(?:for|to))\b"
    r"|i meant\b|i didn't (?:ask|say|mean|want)\b|(?:actually|rather),? (?:use|don't|do not|it)\b"
    r"|(?:don't|do not) (?:use|do) \S+(?: \S+){0,3}[,;] "
    r"|不对|不對|不是这|不是這|错了|錯了|你搞错|应该是|应该用|違う|違います|ちがう"
    r"|아니[,요 ]|틀렸)",
    re.IGNORECASE,
)
_NO_CORRECTION = re.compile(
    r"\s*(?:no|nope|nah|nein|non|nee|não|нет)[\s,:;.!–—-]+(?:problem|worries|thanks|thank|need|idea"
    r"|merci|danke|gracias|obrigado|grazie|спасибо)\b",
    re.IGNORECASE,
)
_QUESTIONS = re.compile(
    r"\s*(?:(?:and|so|but|ok|okay|hey|hi|also|und|et|y|e|а|и)[, ]+)*(?:"
    r"(?:what|who|whom|whose|where|when|why|how|which|is|are|was|were|do|does|did|has|have|had|am"
    r"|should|will|would it|could it|can (?:i|we|it|one)|may)(?:'s|'re|n't)?\b"
    r"|(?:can|could|would) you (?:please )?(?:tell|explain|remind|say|recall|describe)\b"
    r"|(?:tell me|remind me|explain|do you (?:know|remember))\b"
    r"|(?:was|wer|wen|wem|wo|wann|warum|wieso|weshalb|wie|welche[rsnm]?|ist|sind|hat|haben)\b"
    r"|(?:que|quoi|qui|où|quand|pourquoi|comment|quel(?:le)?s?|combien|est-ce)\b"
    r"|(?:qué|quién|dónde|cuándo|por qué|cómo|cuál(?:es)?|cuánt[oa]s?)\b"
    r"|(?:o que|quem|onde|quando|por que|como|qual|quais|che cosa|cosa|chi|dove|perché|quale)\b"
    r"|(?:что|кто|где|когда|почему|зачем|как|какой|какая|какие|сколько)\b"
    r")",
    re.IGNORECASE,
)
_QUESTION_MARKS = ("?", "？", "؟")
_ASKS_WITHIN = re.compile(
    "什么|什麼|为什么|怎么|怎麼|哪[里个]|吗|嗎|なぜ|どう|何|いつ|どこ|왜|무엇|어디|언제|어떻게"
)
# a request put as a question
_POLITE = re.compile(
    r"\s*(?:(?:hey|hi|ok|so|and)[, ]+)*(?:can|could|would|will) you\b"
    r"|\s*(?:kannst|könntest|würdest) du\b|\s*(?:peux|pourrais)-tu\b|\s*¿?(?:puedes|podrías)\b",
    re.IGNORECASE,
)
_TOLD = re.compile(r"you (?:please )?(?:tell|explain|remind|say|recall|describe)\b", re.I)

_END = r"\s*[?？.!]*\s*\Z"
_OPEN = re.compile(
    # what is left, what's next, what should we do next
    r"\bwhat(?:'s|'re| is| are| was| were)? (?:we |i |still |there |the |my |our )*(?:left|open"
    r"|pending|remaining|next|todo|doing|working on|up to|goals?)(?: to (?:do|be done|finish))?"
    rf"(?: (?:here|now|for (?:us|me|this project)|on this project|in this project|last))?{_END}"
    r"|\bwhat (?:should|shall|can|do|must) (?:we|i|you) (?:do|tackle|work on) (?:next|now)\b"
    # where were we, pick up where we left off
    rf"|\bwhere (?:were|was|are) (?:we|i)(?: at| now| again| yesterday| last time)?{_END}"
    r"|\bwhere (?:did )?(?:we|i) (?:leave|left) off|\bpick(?:ing)? up where"
    # the next steps, our goals
    r"|\b(?:next|remaining|open) (?:steps|tasks|goals|todos|items|milestones)\b"
    r"|\b(?:our|my) (?:open |current )?(?:goals|milestones)\b"
    r"|\bwas (?:ist|sind|bleibt|steht) (?:noch |als nächstes )?(?:offen|übrig|zu tun|an|dran)\b"
    r"|nächste schritte|wo waren wir|offene (?:ziele|aufgaben)"
    r"|prochaines étapes|où en (?:étions|sommes)|que reste-t-il"
    r"|qué (?:queda|falta)|próximos pas(?:os|sos)|dónde (?:íbamos|nos quedamos|quedamos)"
    r"|что (?:осталось|дальше)|следующие шаги|на чём мы остановились"
    r"|下一步|还剩什么|還剩什麼|做到哪|次は何|次のステップ|다음 단계",
    re.IGNORECASE,
)
_LONGEST_OPEN = 200  # a longer prompt asks about more than what is open


def intent(prompt: str) -> Intent:
    """Return what a prompt wants; one without a word is small talk."""
    text = prompt[:LOOKED_AT].strip().replace("\u2019", "'")
    if command := _COMMAND.match(text):
        text = command["rest"].strip()
        if len(text.split()) < _OWN_WORDS or prompt.lstrip().startswith("!"):
            return "command"
    if not any(character.isalnum() for character in text):
        return "small_talk"
    if is_smalltalk(text):
        return "command" if is_order(text) else "small_talk"
    if is_correction(text):
        return "correction"
    return "question" if _asks(text) else "work"


def is_correction(prompt: str) -> bool:
    """Return whether a prompt says that what the agent did, or is about to do, is wrong."""
    text = prompt[:LOOKED_AT].replace("\u2019", "'")
    return _CORRECTIONS.match(text) is not None and _NO_CORRECTION.match(text) is None


def corrections(prompt: str) -> list[Rule]:
    """Return the sentences of a correction that hold beyond it, as the rules they may become.

    "no, use pnpm" is one; "that's wrong" alone tells nobody what to do and is none.
    """
    if not is_correction(prompt):
        return []
    return [
        rule
        for rule in rules(prompt)
        if rule.kind == "preference" or (rule.kind == "lesson" and not only_blames(rule.text))
    ]


def asks_for_open(prompt: str) -> bool:
    """Return whether a prompt asks what is left to do, or where work stopped."""
    return len(prompt) <= _LONGEST_OPEN and _OPEN.search(prompt.replace("\u2019", "'")) is not None


def _asks(text: str) -> bool:
    if _POLITE.match(text):
        return _TOLD.search(text) is not None
    ends = text.endswith(_QUESTION_MARKS)
    return ends or _QUESTIONS.match(text) is not None or _ASKS_WITHIN.search(text) is not None

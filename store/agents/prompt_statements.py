"""
Statements: the lasting sentences of a prompt, whole and in the user's own words.

A statement is a quote and no rule: it is recalled as the user's own words, with date and session,
until it is accepted (`mnemolog lessons accept`), a later one gives another value or the contrary,
or the user takes it back ("forget that"). Only the parts that the user typed are read
(`store.agents.authorship`): advice in a mail, a log or an issue is somebody else's, and an
unattended run yields no statements. Prompts are read alike whether a hook reports them as they are
typed, or a transcript long after: then later statements count, too.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

import msgspec
from msgspec.structs import replace
from msgspec.structs import replace as with_fields

from store.agents.authorship import mask, read_authors
from store.agents.prompt_classifier import Lasting, Said, Sentence, read
from store.home.config import RECORD_KINDS, RecordKind
from store.home.errors import InvalidInput
from store.home.instants import derived_id
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import (
    Acted,
    Body,
    Followed,
    Forgotten,
    Outcome,
    Prompted,
    Recalled,
    Recorded,
    SessionTold,
    Superseded,
    Surfaced,
)
from store.log.events import Event
from store.memories.memory import ACTIVE, Memory
from store.text import frame, tokenizer
from store.text.corrections import correction
from store.text.excerpt import excerpt
from store.text.strict_duplicates import statement

_SHARED = 0.7  # of the words of two statements, where one denies the other
_NEGATIONS = frozenset(
    """no not never none without don't dont doesn't can't cannot won't isn't stop avoid nicht nie
    kein keine keinen ohne pas jamais aucun sans nunca jamás sin não nunca sem не нет никогда без
    不 不要 别 没 ない しない""".split()
)
# "forget that", "scratch what I said about the naming"
_TAKES_BACK = re.compile(
    r"\s*(?:(?:please|ok|okay|hm+|actually|you (?:can|may)|bitte|por favor)[,\s]+)*"
    r"(?:forget|scratch|disregard|ignore|vergiss|oublie|olvida|esquece|забудь)\s+"
    r"(?:it|that|this|das|es|ça|cela|eso|isso|это|(?:about )?what i (?:just )?said"
    r"|was ich (?:gerade )?gesagt habe|ce que j'ai dit|lo que dije|o que eu disse)"
    r"(?:\s+(?:about|on|regarding|zu[mr]?|über|sur|sobre)\s+(?P<topic>[^.,;!?]{2,80}))?"
    r"\s*(?:[.,;!].*)?",
    re.IGNORECASE | re.DOTALL,
)
_LOOKED_AT = 2_000  # characters
MOST = 3  # of one prompt
LONGEST = 600  # characters
SHORT = 6  # words: an answer of so few means nothing without its question
ASKED = 240  # characters of the question
ANSWER = "Asked \u201c"  # a statement that begins so is an answer, with its question
SURE, ALSO = 0.45, 0.15  # the least probability that a kept sentence lasts; that of one beside it


class PromptStatement(msgspec.Struct, frozen=True):
    text: str
    kind: Lasting


@lru_cache(maxsize=64)  # "go on" is said a hundred times
def find_statements(prompt: str, before: str = "") -> tuple[PromptStatement, ...]:
    """Return the lasting statements of a prompt, in order; `before` is the agent's last message.

    Consecutive sentences make one statement. A short answer is kept with its question.
    """
    prompt = frame.strip(prompt)
    authorship = read_authors(prompt)
    if authorship.author != "typed":
        return ()
    typed = mask(prompt, authorship)
    question = " ".join(before.split())
    is_answer = question.endswith(("?", "\uff1f"))
    if len(question) > ASKED:
        question = question[-ASKED:].partition(" ")[2]
    statements: list[PromptStatement] = []
    for run in islice(_runs(prompt, read(typed, before)), MOST):
        words = quote(typed, run)
        if is_answer and len(words.split()) <= SHORT:
            words = f"{ANSWER}{question}\u201d: {words}"
        likeliest = max(run, key=lambda sentence: sentence.lasts)
        statements.append(PromptStatement(words, likeliest.kind))
    return tuple(statements)


def quote(typed: str, run: Sequence[Said | Sentence]) -> str:
    """Return the words of consecutive sentences, LONGEST characters at most."""
    words = " ".join(typed[run[0].start : run[-1].end].split())
    return excerpt(re.sub("\u2026+", "\u2026", words), LONGEST)


def is_interrupted(prompt: str, before: Said | Sentence, after: Said | Sentence) -> bool:
    """Return True if there is a paste between two sentences."""
    return bool(prompt[before.end : after.start].strip(" \t\r\n\"')]"))


def _runs(prompt: str, sentences: Sequence[Said]) -> Iterator[list[Said]]:
    """Yield the runs of sentences in which one surely lasts and the others are likely to.

    A paste between two sentences ends a run.
    """
    run: list[Said] = []
    for sentence in sentences:
        if run and is_interrupted(prompt, run[-1], sentence):
            yield from _if_sure(run)
            run = []
        if sentence.lasts >= ALSO:
            run.append(sentence)
        else:
            yield from _if_sure(run)
            run = []
    yield from _if_sure(run)


def _if_sure(run: list[Said]) -> Iterator[list[Said]]:
    if any(sentence.lasts >= SURE for sentence in run):
        yield run


def statement_events(
    prompt: str, before: str, prompted: Event, there: Callable[[], Iterable[Memory]]
) -> list[Event]:
    """Return the events that record a prompt's lasting statements and end those it contradicts.

    `there` gives the statements of the prompt's project, or of none, that hold or ended after it;
    it is called only if the prompt makes or takes back a statement. A statement already recorded in
    the same words is not recorded again. One that a later statement contradicts is recorded as
    replaced by it.
    """
    if prompted.author not in (None, "typed"):
        return []
    statements = find_statements(prompt, before)
    taken_back = _TAKES_BACK.fullmatch(prompt[:_LOOKED_AT])
    if not statements and taken_back is None:
        return []
    others = list(there())
    if taken_back is not None:
        return list(_forget_statement(prompted, others, taken_back["topic"]))
    return [
        event
        for prompt_statement in statements
        for event in _new_statement_events(prompted, prompt_statement, others)
    ]


def draft_of(prompted: Event, prompt_statement: PromptStatement) -> Draft:
    """Return the memory of a prompt's statement, with the same id whoever finds it."""
    return Draft(
        id=derived_id(prompted.at, "statement", prompted.id, prompt_statement.text),
        content=prompt_statement.text,
        kind="statement",
        insight_type=prompt_statement.kind,
        source=FROM_PROMPT,
        source_ids=(prompted.id,),
        project=prompted.project,
        session=prompted.session,
        agent=prompted.agent,
        author="typed",
    )


def _new_statement_events(
    prompted: Event, prompt_statement: PromptStatement, there: Sequence[Memory]
) -> Iterator[Event]:
    says = statement(prompt_statement.text).says
    if any(statement(old.content).says == says for old in there):
        return
    try:
        event = commands.memory_event(draft_of(prompted, prompt_statement), prompted.at)
    except InvalidInput:  # its words make no memory
        return
    yield event
    for other in there:
        if other.state != ACTIVE or not contradicts(other.content, prompt_statement.text):
            continue
        older, newer = (event.id, other.id) if other.created_at > event.at else (other.id, event.id)
        body = Superseded(by=newer, reason=SAID_OTHERWISE)
        yield _change(body, older, prompted, max(event.at, other.created_at))
        if older == event.id:
            return


def _change(body: Superseded | Forgotten, subject: str, prompted: Event, at: int) -> Event:
    id_ = derived_id(at, type(body).__name__, prompted.id, subject)
    whose = (prompted.project, prompted.session, prompted.agent)
    return Event(id_, at, body, subject, *whose, "user")


def contradicts(older: str, newer: str) -> bool:
    """Return True if a text gives another value than an older one, or says the contrary in its
    words.
    """
    if correction(statement(older), statement(newer)) is not None:
        return True
    a, b = _words(older), _words(newer)
    if not a or not b or bool(a & _NEGATIONS) == bool(b & _NEGATIONS):
        return False
    a, b = a - _NEGATIONS, b - _NEGATIONS
    return len(a & b) >= max(2, _SHARED * len(a | b))


def _words(text: str) -> set[str]:
    words = {word.strip(".,;:!?\"'()") for word in text.casefold().split()}
    return {word for word in words if word in _NEGATIONS} | set(tokenizer.terms(text))


def _forget_statement(
    prompted: Event, there: Iterable[Memory], topic: str | None
) -> Iterator[Event]:
    """Yield the event that forgets a statement: the newest of this session, or of a topic."""
    memories = [
        memory for memory in there if memory.state == ACTIVE and memory.created_at <= prompted.at
    ]
    if topic:
        wanted = set(tokenizer.terms(topic))
        meant = [memory for memory in memories if wanted & set(tokenizer.terms(memory.content))]
    else:
        meant = [memory for memory in memories if memory.session == prompted.session]
    if meant:
        last = max(meant, key=lambda memory: (memory.created_at, memory.seq))
        yield _change(Forgotten(reason="the user took it back"), last.id, prompted, prompted.at)


# The events of a session that reach the log, by the kinds that the setting `record` names.
#
# prompts: the user's words, also in questions to the memory, and the statements kept from them.
# commands: the tools used, with command lines, files and the names an edit defines. outputs: the
# output of those tools; needs `commands`, whose events carry it. words: the agent's last words in a
# turn, and a host's summary of a compacted session. Kinds that are off are left out here, before
# anything is written.

FROM_PROMPT = "prompt"  # the source of a memory that quotes a statement
SAID_OTHERWISE = "the user said otherwise"  # the reason for replacing a statement
_ALL = frozenset(RECORD_KINDS)


def recordable(events: Iterable[Event], kinds: Collection[RecordKind]) -> list[Event]:
    """Return the events that may be written, in order; none if no kind is on."""
    if not kinds:
        return []
    if _ALL.issubset(kinds):
        return list(events)
    bodies = ((event, _recordable_body(event.body, kinds)) for event in events)
    return [with_fields(event, body=body) for event, body in bodies if body is not None]


def _recordable_body(body: Body, kinds: Collection[RecordKind]) -> Body | None:
    match body:
        case Prompted() if "prompts" not in kinds:  # a turn begins all the same
            return replace(body, prompt="", intent=None)
        case Recalled() if "prompts" not in kinds:
            return replace(body, query="")
        case Recorded(source=source) if source == FROM_PROMPT and "prompts" not in kinds:
            return None
        case Acted() | Outcome() if "commands" not in kinds:
            return None
        case Acted() if "outputs" not in kinds:
            return replace(body, output=None, error=None, diff=None)
        case SessionTold() if "words" not in kinds:
            return replace(body, said=None)
        case Surfaced() if "commands" not in kinds:
            return replace(body, about=None)
        case Followed() if "commands" not in kinds:
            return replace(body, evidence=None)
        case _:
            return body

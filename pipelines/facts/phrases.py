"""
Phrases: what entities, values and times look like in a sentence.

Names are told from words by their form: a capital letter, a digit, a sign inside, or a tool that
everybody writes small. "our database is slow" names none.
"""

import re

from store.mention_commands import CODE_TOOLS, LONE_TOOLS, SUBCOMMANDS

_TOKEN = r"@?[^\W_][\w.@/#&+-]*(?<![.,])"
NP = rf"(?P<det>(?i:the|our|my|your|his|her|their|this|that|these|those|an?|each|every|any|some|all|no|another|most) )?(?P<entity>{_TOKEN}(?: {_TOKEN}){{0,3}}?)"
_LAST = rf"(?!(?i:because|since|so|as|now|in|on|at|for|from|to|and|of|yesterday|today|last)\b){_TOKEN}"
# at the end of a pattern: as much as may be the name
NP_LAST = rf"(?P<det>(?i:the|our|my|your|his|her|their|this|that|these|those|an?|each|every|any|some|all|no|another|most) )?(?P<entity>{_TOKEN}(?: {_LAST}){{0,3}})"
_CAPITAL = r"[A-ZÀ-ÖØ-ÞА-ЯЁ]"
_NAME = rf"{_CAPITAL}[\w.+#'&/-]*(?<![.,'/])"
PORT = r"(?P<value>[1-9]\d{1,4})(?![\w.]*\w)"
_REGION = r"(?:[a-z]{2}(?:-[a-z]+){1,2}-\d[a-z]?|[a-z]+-[a-z]+\d(?:-[a-z])?)"
REGION = rf"(?P<value>{_REGION})(?![\w-])"
_KNOWN = sorted(
    frozenset(SUBCOMMANDS)
    | CODE_TOOLS
    | LONE_TOOLS
    | frozenset(
        """ansible argocd bash celery chrome dbt django docker duckdb elasticsearch emacs fastapi
        fish flask grafana grpc kafka kubernetes lodash main master develop trunk memcached minio
        mongo mongodb mysql nats neovim nginx nomad numpy nvim opensearch pandas pino polars postgres
        postgresql prettier prometheus pulumi pydantic rabbitmq react redis rspec s3 sentry
        sqlalchemy sqlite sqs tailwind tmux valkey vim vscode yarn zsh zod""".split()
    ),
    key=len,
    reverse=True,
)
_TECH = rf"(?:{_NAME}(?: {_NAME}){{0,2}}(?: v?\d[\w.]*)?|(?:{'|'.join(map(re.escape, _KNOWN))})(?: v?\d[\w.]*)?|[a-z]\w*[-_/@.]\w[\w/.@-]*|[a-z]+[A-Z]\w*)"
TECH = rf"(?P<value>{_TECH})(?![\w-])"
TARGET = rf"(?P<value>{_NAME}(?: {_NAME}){{0,2}}|kubernetes|nomad|vercel|heroku)(?![\w-])"
OWNER = rf"(?P<value>@[a-z][\w-]+(?:/[\w-]+)?|(?i:the) [\w-]+(?: [\w-]+)? (?i:team|guild|squad)|{_NAME}(?: {_NAME}){{0,2}}(?: (?i:team))?)(?![\w-])"
VERSION = r"(?P<value>v?\d+(?:\.\d+){0,3}(?:[-.+]?(?:rc|beta|alpha|post|dev|a|b)[-.]?\d*)?(?: LTS)?)(?![\w%])(?!\.\d)"
PRODUCT = rf"(?P<entity>{_NAME}|{'|'.join(map(re.escape, _KNOWN))})"
AMOUNT = r"\$?\d[\d,_.]*(?<![.,])~(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|weeks?|months?|years?|%|percent|kb|mb|gb|tb|kib|mib|gib|requests?(?: per \w+)?|rps|retries|replicas|rows|items|tokens|characters|bytes|workers)?"
QUANTITY = rf"(?P<value>(?i:{AMOUNT}))(?![\w-])(?!\.\d)"
CONSTANT = r"(?P<entity>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
URL = r"(?P<value>https?://[^\s<>\"'`{}|\\^)]+(?<![.,;:!]))"
PATH = r"(?P<value>(?:[\w.@-]+/)+[\w.@*-]*\w|/(?:[\w.@-]+/)*[\w.@-]*\w/?|(?:[\w.@-]+/)+|[\w-]+\.(?:py|ts|tsx|js|go|rs|rb|java|c|h|md|toml|yaml|yml|json|sql|cfg|ini|sh|lock))(?![\w-])"
IDENTIFIER = r"(?P<value>[A-Za-z_][\w./@-]*\w)(?![\w-])"
NAME = rf"(?P<value>{_CAPITAL}[\w'-]+(?: {_CAPITAL}[\w'-]+){{0,2}})(?![\w-])"
PERSON = rf"(?P<entity>{_CAPITAL}[a-zà-öø-ÿ'-]+(?: {_CAPITAL}[a-zà-öø-ÿ'-]+)?)"
PLACE = rf"(?P<value>{_NAME}(?: {_NAME}){{0,2}}(?:, {_NAME})?)(?![\w-])"
VERSIONS = rf"{_NAME}(?: {_NAME})?|{'|'.join(map(re.escape, _KNOWN))}"
PURPOSE = rf"(?P<entity>[a-z][\w-]*(?: [a-z][\w-]*)?)"
_MONTH = r"(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
_YEAR = r"(?:19|20)\d\d"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = rf"(?:{_YEAR}-\d\d-\d\d|{_DAY} (?:(?i:of) )?{_MONTH}(?:,? {_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?)"
DATE = rf"(?P<value>{_DATE})(?![\w-])"
_WEEKDAY = r"(?i:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_COUNT = r"(?i:\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_TIME = (
    rf"(?:(?i:yesterday|today|this (?:week|month|year)|last (?:week|month|year)|(?:last )?{_WEEKDAY})"
    rf"|{_COUNT} (?i:days?|weeks?|months?|years?) (?i:ago)|{_DATE}|{_MONTH} {_YEAR}|{_YEAR})"
)
_SIDE = r"(?i:since|as of|starting|from|on|in|effective)"
_WHEN = re.compile(rf"(?:{_SIDE} )?{_TIME}".replace(" ", r"\s+"))
_LED_IN = re.compile(rf"(?P<when>(?:{_SIDE} )?{_TIME})~,?~(?=\S)".replace(" ", r"\s+").replace("~", r"\s*"))
_FILLER = re.compile(r"(?:\s+(?i:now|only|again|currently|already|at the moment|these days))+")
_REASON = re.compile(
    r"(?:\s*[,(–—-]+\s*|\s+)(?i:because|so that|so|as|since|due to|thanks to|to (?:keep|avoid|match|be|reduce"
    r"|save|meet|get)|which|and (?:we|it|they|I|that)\b|,? and (?:the|our)\b)(?=\s)"
)


def led_in(sentence: str) -> tuple[str, str]:
    """Return the time a sentence begins with, empty for none, and the sentence without it."""
    match = _LED_IN.match(sentence)
    return (match["when"], sentence[match.end() :]) if match else ("", sentence)


def tail(rest: str) -> str | None:
    """Return the time in what follows a value, empty for none; None where more follows than a
    reason and a time: the statement is then of a case, or of several values.
    """
    rest = rest.rstrip(" \t.!")
    if rest and (reason := _REASON.search(rest)):
        before = rest[: reason.start()]
        is_time = reason[0].strip(" ,(–—-").lower() == "since" and _WHEN.match(
            rest[reason.start() :].strip(" ,(–—-")
        )
        rest = rest if is_time else before
    filler = _FILLER.match(rest)
    rest = (rest[filler.end() :] if filler else rest).strip(" ,(")
    if not rest:
        return ""
    return rest if _WHEN.fullmatch(rest) else None


def entity(match: re.Match[str], named: str) -> str | None:
    """Return the entity of a match, as it is written; None where it is no name of one thing."""
    if named:
        return named
    found = match.groupdict()
    if (found.get("det") or "").lower().strip() not in ("", "the", "our"):
        return None
    words = match["entity"].split()
    if any(word.lower() in _NO_NAME | _ARTICLES for word in words) or not any(map(str.isalpha, match["entity"])):
        return None
    return None if words[0].lower() in _NO_HEAD else " ".join(words)


def value(written: str) -> str | None:
    """Return a value without what belongs to the sentence; None where it names nothing."""
    found = written.strip(" .,;:!")
    first = found.split()[0].lower() if found else ""
    return None if not found or first in _NO_NAME else found


def vagueness(entity: str, sentence: str) -> float:
    """Return by how much less sure a statement is: of a common thing, in a long sentence."""
    is_vague = entity.lower() in _VAGUE
    return 0.1 * is_vague + 0.1 * (len(sentence.split()) > 20)


_ARTICLES = frozenset("the our a an".split())
_NO_NAME = frozenset(
    """it this that these those they them he she him her we us you i me who what which where when
    how why there here everything something anything nothing everyone someone anyone nobody one ones
    thing things stuff other others another each every both few many several some any all none more
    most less same such and or but so because as of if then than too very just only also now still
    is are was were be been being am has have had do does did runs run uses use lives live listens
    owns own moved switched renamed works work goes go using running with without to from by for
    in on at into onto over under please thanks yes no not ours yours mine theirs its their his my
    your upgraded updated bumped downgraded pinned migrated set raised lowered increased reduced
    changed cut deploy deployed host hosted""".split()
)
_NO_HEAD = frozenset("set make run use let get put keep move start stop add fix change".split())
_VAGUE = frozenset(
    """app application backend code database db frontend function module project script server
    service system test tests tool worker""".split()
)

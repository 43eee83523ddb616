"""
Forms: what names, values and times look like, as parts of regular expressions.

Names are told from words by their form: a capital letter, a digit, a sign inside, or a tool that
everybody writes small. "our database is slow" names none. A space stands for any run of white
space, `~` for none or some (`compiled`). Groups are `entity`, `value` and `slot`.
"""

import re

from store.text.mention_rules import CODE_TOOLS, LONE_TOOLS, SUBCOMMANDS


def compiled(written: str) -> re.Pattern[str]:
    """Return an expression made of these parts, ready to match."""
    return re.compile(written.replace(" ", r"\s+").replace("~", r"\s*"))


def any_case(words: str) -> str:
    """Return what matches words in capitals too."""
    return f"(?i:{words})"


def one_of(words: str) -> str:
    """Return what matches any of some words, in capitals too; the longer one wins."""
    return any_case("|".join(sorted(words.split(), key=len, reverse=True)))


_END = r"(?![\w-])"  # of a value: no word goes on there

_TOKEN = r"@?[^\W_][\w.@/#&+-]*(?<![.,])"
_DETERMINER = one_of(
    """the our my your his her their this that these those a an each every any some all no another
    most"""
)
_NO_MORE = one_of("because since so as now in on at for from to and of yesterday today last")
NP = rf"(?:(?P<det>{_DETERMINER}) )?(?P<entity>{_TOKEN}(?: {_TOKEN}){{0,3}}?)"
# at the end of an expression: as much as may be the name
NP_LAST = rf"(?:(?P<det>{_DETERMINER}) )?(?P<entity>{_TOKEN}(?: (?!{_NO_MORE}\b){_TOKEN}){{0,3}})"

_CAPITAL = r"[A-ZÀ-ÖØ-ÞА-ЯЁ]"
_NAME = rf"{_CAPITAL}[\w.+#'&/-]*(?<![.,'/])"
_NAMES = rf"{_NAME}(?: {_NAME}){{0,2}}"
_WRITTEN_SMALL = frozenset(
    """ansible argocd bash celery chrome dbt django docker duckdb elasticsearch emacs fastapi
    fish flask grafana grpc kafka kubernetes lodash main master develop trunk memcached minio
    mongo mongodb mysql nats neovim nginx nomad numpy nvim opensearch pandas pino polars postgres
    postgresql prettier prometheus pulumi pydantic rabbitmq react redis rspec s3 sentry
    sqlalchemy sqlite sqs tailwind tmux valkey vim vscode yarn zsh zod""".split()
)
_TOOLS = {*SUBCOMMANDS, *CODE_TOOLS, *LONE_TOOLS, *_WRITTEN_SMALL}
_TOOL = f"(?:{'|'.join(map(re.escape, sorted(_TOOLS, key=len, reverse=True)))})"
_IDENTIFIER = r"[a-z]\w*[-_/@.]\w[\w/.@-]*|[a-z]+[A-Z]\w*"
TECH = rf"(?P<value>(?:{_NAMES}|{_TOOL})(?: v?\d[\w.]*)?|{_IDENTIFIER}){_END}"
PRODUCT = rf"(?P<entity>{_NAME}|{_TOOL})"
PRODUCTS = rf"(?P<entity>{_NAME}(?: {_NAME})?|{_TOOL})"
IDENTIFIER = rf"(?P<value>[A-Za-z_][\w./@-]*\w){_END}"
CONSTANT = r"(?P<entity>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
PURPOSE = r"(?P<entity>[a-z][\w-]*(?: [a-z][\w-]*)?)"

PERSON = rf"(?P<entity>{_CAPITAL}[a-zà-öø-ÿ'-]+(?: {_CAPITAL}[a-zà-öø-ÿ'-]+)?)"
NAME = rf"(?P<value>{_CAPITAL}[\w'-]+(?: {_CAPITAL}[\w'-]+){{0,2}}){_END}"
PLACE = rf"(?P<value>{_NAMES}(?:, {_NAME})?){_END}"
_TEAM = rf"{any_case('the')} [\w-]+(?: [\w-]+)? {one_of('team guild squad')}"
_HANDLE = r"@[a-z][\w-]+(?:/[\w-]+)?"
OWNER = rf"(?P<value>{_HANDLE}|{_TEAM}|{_NAMES}(?: {any_case('team')})?){_END}"

HOST = r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[?::1\]?|[a-z][\w-]*(?:\.[a-z][\w-]*)+)"
PORT = r"(?P<value>[1-9]\d{1,4})(?![\w.]*\w)"
_REGION = r"[a-z]{2}(?:-[a-z]+){1,2}-\d[a-z]?|[a-z]+-[a-z]+\d(?:-[a-z])?"
REGION = rf"(?P<value>{_REGION}){_END}"
TARGET = rf"(?P<value>{_NAMES}|kubernetes|nomad|vercel|heroku){_END}"
_PRERELEASE = r"[-.+]?(?:rc|beta|alpha|post|dev|a|b)[-.]?\d*"
VERSION = rf"(?P<value>v?\d+(?:\.\d+){{0,3}}(?:{_PRERELEASE})?(?: LTS)?)(?![\w%])(?!\.\d)"
_UNIT = one_of(
    """ms milliseconds? s secs? seconds? m mins? minutes? h hours? d days? weeks? months? years? %
    percent kb mb gb tb kib mib gib requests?(?:~per~\\w+)? rps retries replicas rows items tokens
    characters bytes workers"""
)
AMOUNT = rf"\$?\d[\d,_.]*(?<![.,])(?:~{_UNIT})?"
QUANTITY = rf"(?P<value>{AMOUNT}){_END}(?!\.\d)"
URL = r"(?P<value>https?://[^\s<>\"'`{}|\\^)]+(?<![.,;:!]))"
_EXTENSION = one_of("py ts tsx js go rs rb java c h md toml yaml yml json sql cfg ini sh lock")
_PATHS = (
    r"(?:[\w.@-]+/)+[\w.@*-]*\w",
    r"/(?:[\w.@-]+/)*[\w.@-]*\w/?",
    r"(?:[\w.@-]+/)+",
    rf"[\w-]+\.{_EXTENSION}",
)
PATH = rf"(?P<value>{'|'.join(_PATHS)}){_END}"

_MONTH = one_of(
    """jan january feb february mar march apr april may jun june jul july aug august sep sept
    september oct october nov november dec december"""
)
_YEAR = r"(?:19|20)\d\d"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATES = (
    rf"{_YEAR}-\d\d-\d\d",
    rf"{_DAY} (?:(?i:of) )?{_MONTH}(?:,? {_YEAR})?",
    rf"{_MONTH} {_DAY}(?:,? {_YEAR})?",
)
_DATE = f"(?:{'|'.join(_DATES)})"
DATE = rf"(?P<value>{_DATE}){_END}"
_WEEKDAY = one_of("monday tuesday wednesday thursday friday saturday sunday")
_COUNT = r"(?i:\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_TIMES = (
    one_of("yesterday today"),
    rf"(?i:this|last) {one_of('week month year')}",
    rf"(?:(?i:last) )?{_WEEKDAY}",
    rf"{_COUNT} {one_of('days? weeks? months? years?')} (?i:ago)",
    _DATE,
    rf"{_MONTH} {_YEAR}",
    _YEAR,
)
WHEN = rf"(?:(?i:since|as of|starting|from|on|in|effective) )?(?:{'|'.join(_TIMES)})"

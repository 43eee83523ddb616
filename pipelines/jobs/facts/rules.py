"""
Rules: the patterns of statements, each with its relation and confidence.

A pattern begins where the sentence does and ends with the value or the entity; a reason or a time
may follow. A relation that has one value at a time is a singleton.
"""

import re
from dataclasses import dataclass

from store.text.mention_rules import CODE_TOOLS, LONE_TOOLS, SUBCOMMANDS

# Forms: names, values and times as parts of regular expressions.
#
# A name differs from a word by its form: a capital letter, a digit, a sign inside, or a tool that
# is commonly written small. "our database is slow" contains no name. A space matches white space,
# `~` optional white space (`compile_form`). Groups are `entity`, `value` and `slot`.


def compile_form(written: str) -> re.Pattern[str]:
    """Return an expression made of these parts, ready to match."""
    return re.compile(written.replace(" ", r"\s+").replace("~", r"\s*"))


def any_case(words: str) -> str:
    """Return a pattern that ignores case."""
    return f"(?i:{words})"


def one_of(words: str) -> str:
    """Return a pattern for any of some words, ignoring case; the longer one wins."""
    return any_case("|".join(sorted(words.split(), key=len, reverse=True)))


_END = r"(?![\w-])"  # of a value: no word character or hyphen follows

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


SPEAKER, PROJECT = "\x01", "\x02"  # placeholders for the speaker and for the memory's project


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and its relation; `entity` and `relation` name a group of it or are literal."""

    pattern: re.Pattern[str]
    relation: str
    strength: float
    is_singleton: bool = True
    entity: str = ""


def _rule(
    written: str,
    relation: str,
    strength: float = 0.9,
    *,
    entity: str = "",
    is_singleton: bool = True,
) -> Rule:
    return Rule(compile_form(written), relation, strength, is_singleton, entity)


_NOW = r"(?: (?i:now|currently|already|today))?"
_IS = rf"(?i:is|are){_NOW}"
_WE = r"(?i:we|we've|we have|I|I've|I have)"
_JUST = r"(?: (?i:just|now|finally|already))?"
_TO_FROM = r"(?: (?i:from) \S+)?"
USE = rf"(?i:(?:we|I){_NOW} use|(?:we're|we are|I'm|I am){_NOW} using)"
_SLOT = (
    r"(?P<slot>(?i:(?:main |default |primary |production |prod |staging |test )?(?:database|db|"
    r"message queue|message broker|queue|cache|package manager|ci|ci system|ci provider|cloud|"
    r"cloud provider|hosting provider|license|licence|language|programming language|web framework|"
    r"framework|orm|test runner|test framework|build tool|bundler|linter|formatter|issue tracker|"
    r"search engine|branch|timezone|time zone|error tracker|auth provider|identity provider|"
    r"payment provider|email provider|container registry|registry|base image|domain|tech lead|"
    r"product manager|designer|currency|region|deploy region|python version|node version)))"
)
_MINE = (
    r"(?P<slot>(?i:editor|ide|timezone|time zone|shell|terminal|role|team|job|job title|"
    r"employer|pronouns|github handle|github username|operating system|os|"
    r"keyboard layout|manager|hometown|native language|favou?rite \w+))"
)
_LIMIT = (
    r"(?P<slot>(?i:(?:request |read |write |connect |connection |idle |session |query |lock |job )?"
    r"timeout|ttl|rate limit|page size|batch size|pool size|retry count|retry limit|max retries|"
    r"replica count|memory limit|heap size|poll interval|polling interval|retention|"
    r"retention period|size limit|upload limit|concurrency|worker count|heartbeat interval))"
)
_VERSIONED = r"(?i:upgraded|updated|bumped|downgraded|pinned|moved|migrated)"

RULES: tuple[Rule, ...] = (
    # ports
    _rule(
        rf"{NP}{_NOW} (?i:runs|listens|is running|is listening|is served|is exposed|is reachable|is"
        rf"|is now|are|lives|serves)(?: (?i:now))? (?i:on|at) (?:{HOST},? )?(?:(?i:tcp|udp) )?"
        rf"(?i:port) {PORT}",
        "port",
        0.95,
    ),
    _rule(rf"{NP}{_NOW} (?i:runs|listens|is served) (?i:on|at) {HOST}:{PORT}", "port"),
    _rule(rf"{NP}{_NOW} (?i:uses) (?i:port) {PORT}", "port"),
    _rule(
        rf"(?:{_WE}{_JUST} )?(?:(?i:moved|switched) )?{NP}(?: (?i:has|was|has been))?"
        rf"(?: (?i:moved|switched))?(?: (?i:from port) \d+)? (?i:to port) {PORT}",
        "port",
        0.85,
    ),
    _rule(rf"{NP}(?:'s|s')? (?i:port) {_IS}(?: (?i:set to))? {PORT}", "port", 0.95),
    _rule(rf"(?i:the port) (?i:of|for) {NP} {_IS} {PORT}", "port", 0.95),
    _rule(rf"(?i:we) (?i:run|serve|expose) {NP} (?i:on port) {PORT}", "port"),
    # hosts
    _rule(
        rf"(?i:we){_NOW}(?: (?i:only|always))? (?i:deploy){_NOW}(?: (?i:only))? (?i:to|on) "
        rf"{REGION}",
        "region",
        0.95,
        entity="deploy",
    ),
    _rule(rf"(?i:we){_NOW} (?i:deploy){_NOW} (?i:to|on) {TARGET}", "target", 0.9, entity="deploy"),
    _rule(
        r"(?i:deploys|deployments|releases) (?i:go|go out) (?i:to|from)(?: (?i:only))? " + REGION,
        "region",
        entity="deploy",
    ),
    _rule(rf"(?i:we) (?i:deploy|host|run) {NP} (?i:to|on|in) {REGION}", "region"),
    _rule(rf"{NP} {_IS} (?i:deployed|hosted|running|located) (?i:to|in|on|at) {REGION}", "region"),
    _rule(rf"{NP} (?i:runs|lives){_NOW} (?i:in) {REGION}", "region"),
    _rule(
        rf"(?i:we){_JUST} (?i:moved|migrated|switched) {NP}{_TO_FROM} (?i:to) {REGION}", "region"
    ),
    _rule(rf"{NP} {_IS} (?i:deployed|hosted) (?i:to|on|by|at|with) {TARGET}", "host"),
    _rule(rf"(?i:we) (?i:host|deploy) {NP} (?i:on|to|with) {TARGET}", "host"),
    # owners
    _rule(rf"{NP} {_IS} (?i:owned by) {OWNER}", "owner", 0.95),
    _rule(rf"{OWNER}{_NOW} (?i:owns) {NP_LAST}", "owner"),
    _rule(rf"{OWNER} {_IS} (?i:the (?:code )?owner of) {NP_LAST}", "owner"),
    _rule(rf"(?i:the owner of) {NP} {_IS} {OWNER}", "owner"),
    _rule(rf"{NP}(?:'s)? (?i:owner) {_IS} {OWNER}", "owner"),
    _rule(rf"{NP} {_IS} (?i:maintained by) {OWNER}", "maintainer", is_singleton=False),
    _rule(rf"{OWNER}{_NOW} (?i:maintains) {NP_LAST}", "maintainer", is_singleton=False),
    _rule(rf"{OWNER} {_IS} (?i:the (?:tech )?lead (?:of|for|on)) {NP_LAST}", "lead"),
    _rule(rf"(?i:the (?:tech )?lead (?:of|for|on)) {NP} {_IS} {OWNER}", "lead"),
    # versions
    _rule(
        rf"(?:{_WE}{_JUST} )?{_VERSIONED} {NP}{_TO_FROM} (?i:to|at)(?: (?i:version))? {VERSION}",
        "version",
        0.95,
    ),
    _rule(
        rf"{NP} (?i:is|was|has been|got){_NOW} {_VERSIONED}{_TO_FROM} (?i:to|at)"
        rf"(?: (?i:version))? {VERSION}",
        "version",
        0.95,
    ),
    _rule(rf"{NP} {_IS} (?i:on|at) (?i:version) {VERSION}", "version"),
    _rule(rf"{NP}(?:'s)? (?i:version) {_IS} {VERSION}", "version"),
    _rule(rf"(?i:the version of) {NP} {_IS} {VERSION}", "version"),
    _rule(
        rf"(?i:we|the project|this project|the repo|this repo|our code){_NOW} "
        rf"(?i:use|uses|run|runs|runs on|run on|are on|is on|target|targets) "
        rf"{PRODUCT}(?: (?i:version))? {VERSION}",
        "version",
        0.9,
    ),
    # limits
    _rule(rf"{NP}(?:'s)? {_LIMIT} {_IS}(?: (?i:set to))? {QUANTITY}", "slot", 0.9),
    _rule(rf"(?i:the) {_LIMIT} (?i:of|for|on) {NP} {_IS}(?: (?i:set to))? {QUANTITY}", "slot"),
    _rule(
        rf"{_WE}{_JUST} (?i:set|raised|lowered|increased|reduced|changed|cut) {NP}(?:'s)? {_LIMIT}"
        rf"(?: (?i:from) {AMOUNT})? (?i:to) {QUANTITY}",
        "slot",
    ),
    _rule(rf"{CONSTANT} {_IS}(?: (?i:set to))? {QUANTITY}", "value"),
    _rule(rf"{_WE}{_JUST} (?i:set) {CONSTANT} (?i:to) {QUANTITY}", "value"),
    # locations
    _rule(
        rf"{NP} {_IS}(?: (?i:available|hosted|served|reachable|deployed|live))? (?i:at) {URL}",
        "url",
    ),
    _rule(rf"{NP} (?i:lives){_NOW} (?i:at) {URL}", "url"),
    _rule(rf"{NP}(?:'s)? (?i:url|address|endpoint) {_IS} {URL}", "url"),
    _rule(rf"(?i:the (?:url|address|endpoint) (?:of|for)) {NP} {_IS} {URL}", "url"),
    _rule(
        rf"{NP} (?:(?i:live|lives)|{_IS}(?: (?i:stored|kept|defined|located))?){_NOW} "
        rf"(?i:in|under|at) {PATH}",
        "path",
        0.85,
        is_singleton=False,
    ),
    # names
    _rule(
        rf"{NP} (?i:is|was|has been|got) (?i:renamed)(?: (?i:to))? {IDENTIFIER}",
        "renamed to",
        is_singleton=False,
    ),
    _rule(
        rf"(?i:we){_JUST} (?i:renamed) {NP} (?i:to) {IDENTIFIER}", "renamed to", is_singleton=False
    ),
    # the project's tools
    _rule(rf"(?i:our) {_SLOT} {_IS} {TECH}", "slot", entity=PROJECT),
    _rule(
        rf"(?i:the (?P<slot>(?:default|main) branch)) {_IS} {IDENTIFIER}", "slot", entity=PROJECT
    ),
    _rule(rf"{USE} {TECH} (?i:as (?:our|the|my)) {_SLOT}", "slot", entity=PROJECT),
    _rule(
        rf"{USE} {TECH} (?i:for) (?:(?i:the|our|my|all) )?{PURPOSE}",
        "uses",
        0.85,
        is_singleton=False,
    ),
    _rule(rf"{USE} {TECH}", "uses", 0.8, entity=PROJECT, is_singleton=False),
    _rule(
        rf"{NP} (?:(?i:uses|relies on)|{_IS} (?i:built (?:on|with)|backed by)) {TECH}",
        "uses",
        0.85,
        is_singleton=False,
    ),
    _rule(rf"{NP} {_IS} (?i:written in) {TECH}", "language", is_singleton=False),
    _rule(rf"{NP} (?i:depends? on) {TECH}", "depends on", 0.85, is_singleton=False),
    _rule(rf"{NP} {_IS} (?i:due)(?: (?i:on|by))? {DATE}", "deadline"),
    _rule(rf"(?i:the deadline (?:for|of)) {NP} {_IS} {DATE}", "deadline"),
    _rule(rf"{NP}(?:'s)? (?i:deadline) {_IS} {DATE}", "deadline"),
    # the speaker
    _rule(rf"(?i:my name is) {NAME}", "name", 0.95, entity=SPEAKER),
    _rule(rf"(?i:my) {_MINE} {_IS}(?: (?i:an?|the))? {TECH}", "slot", entity=SPEAKER),
    _rule(rf"(?i:I live|I'm based|I am based){_NOW} (?i:in) {PLACE}", "residence", entity=SPEAKER),
    _rule(rf"(?i:I)(?: (?i:just))? (?i:moved to) {PLACE}", "residence", 0.8, entity=SPEAKER),
    _rule(rf"(?i:I)(?: (?i:now))? (?i:work (?:at|for)) {PLACE}", "employer", entity=SPEAKER),
    _rule(rf"{PERSON} (?i:lives){_NOW} (?i:in) {PLACE}", "residence", 0.85),
    _rule(rf"{PERSON}{_NOW} (?i:works (?:at|for)) {PLACE}", "employer", 0.85),
)


SINGLETONS = frozenset(
    """port region target host owner lead version value url deadline name residence employer
    timeout ttl license""".split()
)

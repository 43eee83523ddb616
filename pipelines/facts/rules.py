"""
Rules: the patterns of statements, each with the relation it states and how sure it is.

Each begins where the sentence does and ends with the value or the entity; what may follow is a
reason or a time. A relation that has one value at a time is a singleton.
"""

import re
from dataclasses import dataclass

from pipelines.facts.forms import (
    AMOUNT,
    CONSTANT,
    DATE,
    HOST,
    IDENTIFIER,
    NAME,
    NP,
    NP_LAST,
    OWNER,
    PATH,
    PERSON,
    PLACE,
    PORT,
    PRODUCT,
    PURPOSE,
    QUANTITY,
    REGION,
    TARGET,
    TECH,
    URL,
    VERSION,
    compiled,
)

SPEAKER, PROJECT = "\x01", "\x02"  # stand for who says it, and for whose memory it is


@dataclass(frozen=True, slots=True)
class Rule:
    """`entity` and `relation` name a group of the pattern, or are what they say."""

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
    return Rule(compiled(written), relation, strength, is_singleton, entity)


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
    # where it is deployed
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
    # who owns it
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
    # where it lies
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
    # what the project is made with
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
    # who says it
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

"""
A commit's message, without the additions of machines and habits.

Subject, the reason in the body, and the type and scope of the conventional-commit prefix
(https://www.conventionalcommits.org/en/v1.0.0/). The rules for noise are the tables at the top: a
commit they match makes no memory, because no query will ever need it.
"""

import re

import msgspec

from store.log.event_kinds import RecordedKind
from store.text.excerpt import excerpt

MAX_WHY = 1_200  # characters of the body that are kept
MAX_SUBJECT = 300

# Commits not written for a reader, with any body.
NOISE = re.compile(
    r"^(?:fixup|squash|amend)!"
    r"|^bump \S+ from \S+ to\b"
    r"|^update (?:dependency|dependencies|lock ?files?)\b"
    r"|^lock file maintenance\b"
    r"|^\[pre-commit\.ci\]"
    r"|^(?:auto-?)?(?:generated|update) (?:changelog|translations|snapshots|contributors)\b",
    re.IGNORECASE,
)
NOISE_AUTHORS = re.compile(
    r"\[bot\]$|^(?:dependabot|renovate|greenkeeper|github-actions?|pre-commit-ci|snyk-bot)\b",
    re.IGNORECASE,
)
# Subjects that are empty by themselves: kept only with a reason in the body.
NOISE_WITHOUT_WHY = re.compile(
    r"^(?:wip|typos?|oops|nits?|initial commit)\b"
    r"|^(?:fmt|format(?:ting)?|lint(?:ing)?|ruff|black|prettier|isort|tmp|misc|minor|whitespace"
    r"|clean(?:ing)? ?ups?)(?: \S+){0,2}$"
    r"|\b(?:fix|fixed|fixes|correct) (?:a |some |the |more )?"
    r"(?:typos?|lint(?:er|ing)?|format(?:ting)?|whitespace|indent(?:ation)?|style|flake8|tests?|ci"
    r"|build)\b[\w ,]{0,20}$"
    r"|^(?:more|small|minor|some|various|final|last|another)\b.{0,12}"
    r"\b(?:fix(?:es)?|changes?|tweaks?|updates?|improvements?)$"
    r"|^(?:address|apply|respond to|incorporate)\b.{0,20}"
    r"\b(?:review|comments?|feedback|suggestions?)\b"
    r"|^(?:bump|update|set|increase|prepare)(?: the)? (?:version|release)\b"
    r"|^(?:release|version|prepare|tag|cut)?[ :-]*v?\d+\.\d+[\w.+-]*(?: release)?$"
    r"|^(?:preparing|prepare) (?:for )?(?:the )?(?:next )?release\b"
    r"|^release (?:of|notes|candidate)\b"
    r"|^(?:update|edit|change)s? (?:the )?\S+\.(?:md|rst|txt|ya?ml|toml|json)$"
    r"|^(?:run|apply) (?:ruff|black|prettier|gofmt|rustfmt|isort|formatter)\b"
    r"|^merge\b|\[(?:skip ci|ci skip|no ci)\]",
    re.IGNORECASE,
)
NOISE_TYPES = frozenset({"style", "ci", "chore"})  # need a reason, or to begin with one of these
_CHANGE = re.compile(
    r"^(?:add|disable|downgrade|drop|enable|introduce|migrate|move|raise|remove|rename|replace"
    r"|require|restore|revert|switch)(?:d|e?s|ed)?\b",
    re.IGNORECASE,
)

BUGFIX = re.compile(
    r"\b(?:fix(?:e[sd]|ing)?|hotfix|bug(?:fix)?s?|regress(?:ion|ed|es)?|crash(?:es|ed|ing)?"
    r"|revert(?:s|ed)?|deadlocks?|race condition|leak(?:s|ed|ing)?|corrupt(?:s|ed|ion)?)\b",
    re.IGNORECASE,
)
DECISION = re.compile(
    r"\bBREAKING\b|\binstead of\b|\bin favou?r of\b|\brather than\b"
    r"|\bswitch(?:ed|es)? (?:\w+ )?to\b"
    r"|\bdecid(?:e|es|ed)\b|\bdecision\b|\bbecause\b|\bdeprecates?\b|(?<=is )deprecated\b"
    r"|\bdrop(?:s|ped)? support\b"
    r"|\bmigrat(?:e|es|ed|ion)\b|\bno longer\b|\breplac(?:e|es|ed) .{1,60}\b(?:with|by)\b",
    re.IGNORECASE,
)

_ROBOT = re.compile(r"\b(?:ro)?bot\b|-bot$", re.IGNORECASE)
_CONVENTIONAL = re.compile(r"^(\w+)(?:\(([^)]{1,60})\))?(!)?:\s+(\S.*)$")
_TYPES = frozenset("feat fix docs style refactor perf test tests build ci chore revert".split())
_MERGE = re.compile(r"^Merge (?:pull request|branch|branches|remote-tracking|tag|commit)\b")
# Lines written by tools or for bookkeeping; `Fixes #12` and `BREAKING CHANGE:` are for readers.
_STRIPPED = re.compile(
    r"^(?:[A-Za-z]+(?:-[A-Za-z]+)*-by|Change-Id|Cc|Reviewed-on|git-svn-id|PiperOrigin-RevId"
    r"|Differential Revision|Auto-Submit|Commit-Queue|Bot-Commit|Cr-[A-Za-z-]+"
    r"|Claude-Session): "
    r"|^>|^#(?:\s|$)|^Conflicts:$|^\s+\S.*\|\s+(?:\d+ [+-]*|Bin\b.*)$|^\s*\d+ files? changed\b"
    r"|^\(cherry picked from|^\S* ?Generated (?:with|by) |^-{3,}$|^\* Merge (?:branch|pull)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*[*-] +(.*)$")


class Message(msgspec.Struct, frozen=True):
    """A commit's message: `topic` is the subject without its conventional prefix."""

    subject: str
    topic: str
    why: str
    type: str | None = None
    scope: str | None = None
    is_breaking: bool = False

    @property
    def is_revert(self) -> bool:
        return self.type == "revert" or self.topic.lower().startswith("revert ")


def parse_message(raw: str, *, is_merge: bool = False) -> Message:
    """Return the parts of a raw message; a merge without words of its own has an empty subject."""
    subject, _, body = raw.strip().partition("\n")
    if is_merge:
        subject, body = split_merge(subject, body.strip())
    subject = excerpt(" ".join(subject.split()), MAX_SUBJECT)
    why = excerpt(_why(body), MAX_WHY)
    match = _CONVENTIONAL.match(subject)
    if match is None or match[1].lower() not in _TYPES:
        return Message(subject, subject, why, is_breaking="BREAKING" in why)
    is_breaking = bool(match[3]) or "BREAKING" in why
    return Message(subject, match[4], why, match[1].lower(), match[2], is_breaking)


def is_automatic(author: str) -> bool:
    """Return True if an author is a program: no question asks for a bot's name."""
    return bool(NOISE_AUTHORS.search(author) or _ROBOT.search(author))


def is_noise(message: Message, author: str) -> bool:
    """Return True if a commit is worth no memory: by the tables above, or a subject of one word."""
    if not message.subject or NOISE.search(message.topic) or NOISE_AUTHORS.search(author):
        return True
    if message.why:
        return False
    has_one_word = message.topic.isascii() and len(message.topic.split()) < 2
    is_quiet = message.type in NOISE_TYPES and not (
        _CHANGE.match(message.topic) or DECISION.search(message.topic)
    )
    return has_one_word or is_quiet or bool(NOISE_WITHOUT_WHY.search(message.topic))


def kind_of_message(message: Message) -> RecordedKind:
    """Return bugfix, decision, context (it has a reason) or activity, the first that fits."""
    if message.type == "fix" or message.is_revert:
        return "bugfix"
    if message.type is None and BUGFIX.search(message.topic):
        return "bugfix"
    if message.is_breaking or DECISION.search(f"{message.topic}\n{message.why}"):
        return "decision"
    return "context" if message.why else "activity"


def split_merge(subject: str, body: str) -> tuple[str, str]:
    """Return subject and body of a merge; a pull request's title is its body's first line."""
    if not _why(body):
        return "", ""
    if not _MERGE.match(subject):
        return subject, body
    title, _, rest = body.partition("\n")
    return title, rest


def _why(body: str) -> str:
    """Return the body's own words: no trailers, quotes, statistics, or bullets that are noise."""
    own: list[str] = []
    for line in map(str.rstrip, body.splitlines()):
        bullet = _BULLET.match(line)
        is_noise = bullet and (NOISE.search(bullet[1]) or NOISE_WITHOUT_WHY.search(bullet[1]))
        if not is_noise and not _STRIPPED.search(line):
            own.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(own)).strip()

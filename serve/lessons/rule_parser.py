"""
Parser of rules: the commands a rule forbids, those it wants, and when it matters.

"Use pnpm, never npm" forbids `npm` and wants `pnpm`; "always run ruff before committing" wants
`ruff` on the occasion of a commit; "don't edit generated/*.py" forbids to touch files. Clause by
clause, cues ("never", "instead of", "before") give the names after them their role; names after a
reason ("because ...") have none. If in doubt a rule names nothing: it is recalled all the same.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import msgspec

from serve.lessons import rule_tokens
from serve.lessons.patterns import Command, Occasion, command
from serve.lessons.rule_tokens import Name, Token
from store.log.event_kinds import Effort

_MIN_STEM = 6
_PARENTHESIS = 40  # tokens; a longer one is read like the rest

Mode = Literal["forbid", "want", "occasion", "off"]


@dataclass
class ClauseReader:
    """A reader of a rule's text: its position, and the names so far.

    `untouched` and `files` are globs.
    """

    tokens: list[Token]
    at: int = 0
    mode: Mode | None = None
    verb: str | None = None  # run or edit
    is_start: bool = True  # of a clause
    forbidden: list[Command] = field(default_factory=list)
    wanted: list[Command] = field(default_factory=list)
    occasions: list[Occasion] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    since: int = 0  # the number of forbidden commands before this sentence
    topics: list[Occasion] = field(default_factory=list)  # "run MIGRATIONS with ..."
    efforts: list[Effort] = field(default_factory=list)
    deed: Occasion | None = None  # "never COMMIT without ..."
    gathered: int = 0  # the number of occasions when the mode began

    def step(self) -> None:
        """Read the next token and the tokens that belong to it."""
        token = self.tokens[self.at]
        if token.is_stop:
            self.at += 1
            self._stop(token.text)
            return
        was_start, self.is_start = self.is_start, False
        if self.mode != "off" and self._cue(token.text, was_start):
            return
        named = rule_tokens.name_at(self.tokens, self.at, is_run=self.verb == "run")
        if named is None:
            self._word(token.text)
            self.at += 1
        else:
            self.at += named.tokens
            self._take(named, was_start)

    def _stop(self, mark: str) -> None:
        self.is_start = True
        if mark == ",":
            if self.mode in ("occasion", "off"):
                self.mode = None
            elif (name := self._name_at(self.at)) is not None:
                # the name begins a new clause: "no npm, pnpm only"
                if self._word_at(self.at + name.tokens) in rule_tokens.FOR_ITSELF:
                    self.mode = None
            return
        if mark == "(":
            for place in range(self.at, min(self.at + _PARENTHESIS, len(self.tokens))):
                if self.tokens[place].is_stop and self.tokens[place].text == ")":
                    self.at = place + 1
                    self.is_start = False
                    return
            return
        if mark == ":" and (self.forbidden[self.since :] or self.wanted):
            self.mode = "off"  # the reason follows
            return
        self.mode, self.verb, self.deed = None, None, None
        self.settle()
        if mark in ".!?":
            self.since = len(self.forbidden)

    def settle(self) -> None:
        """Treat the efforts among topics without a continuation as wanted."""
        self.efforts += [occasion.effort for occasion in self.topics if occasion.effort is not None]
        self.topics.clear()

    def _cue(self, word: str, is_start: bool) -> bool:
        """Read a cue, which changes the role of the names after it; return True if it is one."""
        after = self._word_at(self.at + 1)
        pair = (word, after)
        if word in rule_tokens.FORBIDS or pair in rule_tokens.FORBIDS_IN_TWO:
            return self._read_ban(2 if pair in rule_tokens.FORBIDS_IN_TWO else 1, word)
        if pair in rule_tokens.RATHER or word in rule_tokens.RATHER_ALONE:
            return self._names_next(2 if pair in rule_tokens.RATHER else 1, "forbid")
        if pair in rule_tokens.ENSURES or word == "ensure":
            self.mode, self.verb = "want", "run"
            self.at += word != "ensure"
        elif word == "from" and self._word_at(self.at - 1) in rule_tokens.FROM:
            self.mode, self.verb = "forbid", "run"
        elif word == "to" and self.mode == "forbid" and self._name_at(self.at + 1):
            self.mode = "want"
        elif word in rule_tokens.WITHOUT:
            self._turn_into_occasions()
        elif word in rule_tokens.BEFORE:
            if self.mode == "forbid" and (self.forbidden[self.since :] or self.deed):
                self._turn_into_occasions()
            else:
                self.mode, self.gathered = "occasion", len(self.occasions)
        elif word in rule_tokens.WHEN:
            is_bound = self.mode == "forbid" and bool(self.forbidden[self.since :])
            self.mode, self.gathered = "off" if is_bound else "occasion", len(self.occasions)
        elif word in rule_tokens.EXCEPT:
            if self.deed is not None:
                self._turn_into_occasions()
            self.mode, self.verb = "want", "run"
        elif word in rule_tokens.EXPLAINS and not is_start:
            self.mode = "off"
        elif word in rule_tokens.WITH:
            return self._read_with()
        elif word in rule_tokens.WANTS and self._word_at(self.at - 1) not in ("the", "to", "can"):
            if after in ("of", "to"):
                return False
            self.mode = "want"
            self.verb = "run"
        elif word == "but":
            self.mode = None
        else:
            return False
        self.at += 1
        return True

    def _read_ban(self, length: int, word: str) -> bool:
        """Read "never", "don't", "not" with the verb after it."""
        place = self._past_fillers(self.at + length)
        verb = self._word_at(place)
        if verb in rule_tokens.REVERSES:  # don't forget to ...
            self.mode, self.verb, self.at = "want", "run", place + 1
            return True
        if verb in rule_tokens.GIT_VERBS and self._read_git(verb, place):
            return True
        if verb in rule_tokens.DEEDS:
            thing = self._word_at(self._past_fillers(place + 1))
            self.deed = _occasion(thing if verb in ("add", "adding") else verb)
            if verb in rule_tokens.DEPLOYS and self.deed is not None:
                self.occasions.append(self.deed)  # "never deploy on Fridays" is enough
        if verb in rule_tokens.GIT_VERBS or self.deed is not None:
            self.mode, self.verb, self.at = "forbid", "run", place + 1
        elif verb in rule_tokens.RUN_VERBS and self._name_at(place) is None:
            self.mode, self.verb, self.at = "forbid", "run", place + 1
        elif verb in rule_tokens.EDIT_VERBS:
            self.mode, self.verb, self.at = "forbid", "edit", place + 1
        elif self._name_at(place) is not None and (word != "not" or self.mode != "occasion"):
            self.mode, self.at = "forbid", place
            self.verb = self.verb or "run"
        else:
            # a statement of fact is no order: "npm never finishes with pnpm"
            self.mode, self.at = "off", self.at + length
        return True

    def _read_git(self, verb: str, place: int) -> bool:
        """Read "never push to main"; return True if it names a command precisely enough."""
        line = rule_tokens.GIT_VERBS[verb]
        where, length = rule_tokens.branch_at(self.tokens, place + 1)
        is_all = place + 1 >= len(self.tokens) or self.tokens[place + 1].is_stop
        if where is None and len(line) < 3 and not is_all:
            return False
        self.forbidden.append(command(line, where))
        self.mode, self.verb, self.at = "forbid", "run", place + 1 + length
        return True

    def _names_next(self, length: int, mode: Mode) -> bool:
        """Read "instead of" and the like, if a name follows."""
        place = self._past_fillers(self.at + length)
        if self._word_at(place) in rule_tokens.RUN_VERBS:
            place = self._past_fillers(place + 1)
        if self._name_at(place) is None:
            return False
        self.mode, self.verb, self.at = mode, "run", place
        return True

    def _read_with(self) -> bool:
        if self.mode == "forbid":
            return self._names_next(1, "forbid")
        if not self._names_next(1, "want"):
            return False
        self.occasions += self.topics
        self.topics.clear()
        return True

    def _turn_into_occasions(self) -> None:
        """Turn bans into occasions: "never commit without running ruff" wants ruff at a commit."""
        self.occasions += [Occasion(command=named) for named in self.forbidden[self.since :]]
        del self.forbidden[self.since :]
        self.occasions += [self.deed] if self.deed is not None else []
        self.mode, self.verb = "want", "run"

    def _word(self, word: str) -> None:
        occasion = _occasion(word)
        after = self._word_at(self.at + 1)
        if self.mode == "occasion":
            if word in rule_tokens.EDIT_VERBS:
                self.verb = "edit"
            if occasion is not None and after not in rule_tokens.STATES:
                self.occasions.append(occasion)
        elif self.mode == "want" or (self.mode is None and occasion is not None):
            if occasion is not None:
                self.topics.append(occasion)
            elif self.mode == "want" and len(word) > _MIN_STEM and word.isalpha():
                self.topics.append(Occasion(stem=word[:_MIN_STEM]))

    def _take(self, named: Name, was_start: bool) -> None:
        if was_start and rule_tokens.phrase_at(self.tokens, self.at).startswith(rule_tokens.BANNED):
            if named.file is not None:
                self.untouched.append(named.file)
            elif named.command is not None:
                self.forbidden.append(named.command)
        elif named.file is not None:
            self._take_file(named, was_start)
        elif named.command is not None:
            self._take_command(named.command, was_start)

    def _take_file(self, named: Name, was_start: bool) -> None:
        assert named.file is not None
        if self.mode == "forbid" and self.verb == "edit":
            self.untouched.append(named.file)
        elif self.mode in ("forbid", "want") and self.verb == "run":
            if named.command is not None:
                (self.forbidden if self.mode == "forbid" else self.wanted).append(named.command)
        elif self.mode == "occasion" or was_start:
            self.files.append(named.file)
        elif self.mode != "off" and self._word_at(self.at - 2) in ("in", "to") and not self.files:
            self.files.append(named.file)

    def _take_command(self, named: Command, was_start: bool) -> None:
        if self.mode == "forbid":
            where, length = rule_tokens.branch_at(self.tokens, self.at)
            self.at += length
            if not named.words and self.forbidden[self.since :]:  # "git push with --force"
                last = self.forbidden.pop()
                named = Command(last.words, last.flags | named.flags, last.where)
            self.forbidden.append(Command(named.words, named.flags, where or named.where))
        elif self.mode == "want" or self._has_occasion():
            self.wanted.append(named)
        elif self.mode == "occasion" and self._word_at(self.at) in rule_tokens.STATES:
            pass  # "if pnpm is missing": no deed
        elif self.mode == "occasion" or (
            was_start and len(named.words) > 1 and self._word_at(self.at) in rule_tokens.ABOUT
        ):
            self.occasions.append(Occasion(command=named))

    def _has_occasion(self) -> bool:
        """Return True if a name after "before every commit" is the wanted command."""
        before = self._word_at(self.at - 2)
        has_one = self.mode == "occasion" and len(self.occasions) > self.gathered
        return has_one and before not in ("and", "or", "und", "oder", "")

    def _past_fillers(self, place: int) -> int:
        while self._word_at(place) in rule_tokens.FILLERS and self._name_at(place) is None:
            place += 1
        return place

    def _name_at(self, place: int) -> Name | None:
        if place >= len(self.tokens) or self.tokens[place].is_stop:
            return None
        return rule_tokens.name_at(self.tokens, place, is_run=True)

    def _word_at(self, place: int) -> str:
        if not 0 <= place < len(self.tokens) or self.tokens[place].is_stop:
            return ""
        return "" if self.tokens[place].is_code else self.tokens[place].text


def _occasion(word: str) -> Occasion | None:
    for start, line in rule_tokens.GIT_OCCASIONS:
        if word.startswith(start):
            return Occasion(command=command(line))
    for start, effort in rule_tokens.OCCASIONS:
        if word.startswith(start):
            return Occasion(effort=effort)
    return None


MAX_CHARS = 2_000


class Wording(msgspec.Struct, frozen=True):
    """The commands and files that a rule names. Files are globs: `untouched` must not be edited;
    the rule applies to edits of `files`.
    """

    forbidden: tuple[Command, ...] = ()
    wanted: tuple[Command, ...] = ()
    efforts: tuple[Effort, ...] = ()  # wanted too: "run the tests before committing"
    occasions: tuple[Occasion, ...] = ()
    untouched: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def names_anything(self) -> bool:
        return bool(self.forbidden or self.occasions or self.untouched or self.files)


@lru_cache(maxsize=8_192)  # the same rules are read from every snapshot and tail
def parse_wording(text: str) -> Wording:
    """Return the names in a rule's text; empty where none is sure."""
    reader = ClauseReader(rule_tokens.tokenize_rule(text[:MAX_CHARS]))
    while reader.at < len(reader.tokens):
        reader.step()
    reader.settle()
    wanted = frozenset(reader.wanted)
    occasions = [
        occasion for occasion in dict.fromkeys(reader.occasions) if occasion.command not in wanted
    ]
    efforts = dict.fromkeys(reader.efforts) if occasions else {}
    matters = {occasion.effort for occasion in occasions}
    return Wording(
        tuple(named for named in dict.fromkeys(reader.forbidden) if named not in wanted),
        tuple(dict.fromkeys(reader.wanted)),
        tuple(effort for effort in efforts if effort not in matters),
        tuple(occasions),
        tuple(dict.fromkeys(reader.untouched)),
        tuple(dict.fromkeys(reader.files)),
    )

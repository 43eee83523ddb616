"""
Patterns: the commands and files a rule may name, matched against calls and paths.
"""

import fnmatch
import re
from functools import lru_cache

import msgspec

from store.agents.efforts import efforts
from store.agents.shell import Call, Words, program
from store.log.event_kinds import Effort

# options before the subcommand that take a value
_WITH_VALUE = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree"}),
    "make": frozenset({"-C", "-f", "-j"}),
    "npm": frozenset({"--prefix", "-C", "-w", "--workspace"}),
    "pnpm": frozenset({"--dir", "-C", "--filter", "-F"}),
    "yarn": frozenset({"--cwd"}),
    "docker": frozenset({"-H", "--context", "-f", "--file", "-p"}),
    "kubectl": frozenset({"-n", "--namespace", "--context"}),
    "cargo": frozenset({"--manifest-path", "-p"}),
    "terraform": frozenset({"-chdir"}),
}
_SAME_WORD = {"i": "install", "t": "test", "rm": "remove"}  # of a package manager
_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_SHORT = {  # the long form of a short option
    ("git", "push", "-f"): "--force",
    ("git", "commit", "-n"): "--no-verify",
    ("git", "branch", "-D"): "--force",
    ("rm", "", "-R"): "-r",
}


class Command(msgspec.Struct, frozen=True):
    """A command as a rule names it: `words` are a program and its subcommands, `flags` must all be
    present, `where` is its branch. Without words it matches any program with these flags.
    """

    words: Words
    flags: frozenset[str] = frozenset()
    where: str | None = None

    def is_called_by(self, call: Call) -> bool:
        return any(self._matches(form) for form in call.forms)

    @property
    def without_flags(self) -> "Command":
        """The same command with any options: `pytest -q` as well as `pytest`."""
        return Command(self.words, frozenset(), self.where) if self.words else self

    def _matches(self, form: Words) -> bool:
        named, flags, rest = _parts(form)
        if not self.words:
            return self.flags <= flags
        if not _is_program(self.words[0], form[0]) or not self.flags <= flags:
            return False
        wanted = self.words[1:]
        if named[: len(wanted)] != wanted:
            return False
        if self.where is None or self.where in rest:
            return True
        # no branch is named: then a rule about force applies
        return bool(self.flags) and len(rest) < 2


class Occasion(msgspec.Struct, frozen=True):
    """The occasion of a rule: a called command, an effort, or the prefix of a subcommand."""

    command: Command | None = None
    effort: Effort | None = None
    stem: str | None = None

    def is_met_by(self, call: Call) -> bool:
        if self.command is not None:
            return self.command.is_called_by(call)
        if self.effort is not None:
            return self.effort in efforts(call)
        return self.stem is not None and any(
            word.lower().startswith(self.stem)
            for form in call.forms
            for word in _parts(form)[0][:2]
        )


@lru_cache(maxsize=512)
def _parts(form: Words) -> tuple[Words, frozenset[str], Words]:
    """Return a form's words without options, its options, and the words after its subcommand."""
    name = program(form[0])
    words: list[str] = []
    flags: set[str] = set()
    with_value = _WITH_VALUE.get(name, frozenset())
    skipped = False
    for word in form[1:]:
        if skipped:
            skipped = False
        elif word in with_value:
            skipped = not words  # after the subcommand an option may mean something else
        elif word.startswith("-") and len(word) > 1:
            flags |= _flags(name, words[0] if words else "", word)
        else:
            words.append(word)
    named = tuple(words)
    if name in _MANAGERS and named:
        named = (_SAME_WORD.get(named[0], named[0]), *named[1:])
    return named, frozenset(flags), named[1:]


def _flags(name: str, subcommand: str, word: str) -> set[str]:
    """Return the options of one word: `-rf` are two, `--depth=1` is `--depth`."""
    if word.startswith("--"):
        return {word.partition("=")[0]}
    letters = {f"-{letter}" for letter in word[1:] if letter.isalpha()}
    in_full = {
        _SHORT.get((name, subcommand, flag), _SHORT.get((name, "", flag), flag)) for flag in letters
    }
    return in_full | {word}


def command(words: Words, where: str | None = None) -> Command:
    """Return the pattern of a command line's words."""
    named, flags, _ = _parts(words)
    name = program(words[0]) if "/" not in words[0] else _path(words[0])
    own = frozenset(flag for flag in flags if flag.startswith("--") or len(flag) == 2)
    return Command((name, *named), own, where)


def _is_program(wanted: str, called: str) -> bool:
    if "/" in wanted:
        path = _path(called)
        return path == wanted or path.endswith("/" + wanted)
    return program(called) == wanted


def _path(word: str) -> str:
    return word.replace("\\", "/").removeprefix("./")


def is_matched(written: str, path: str) -> bool:
    """Return True if a glob matches a path with forward slashes: `generated/*.py` matches at any
    depth, `migrations/` all in such a folder, `**` any number of folders.
    """
    parts = path.split("/")
    places = {0}  # counts of matched parts; a step at a time, so no path is expensive
    for segment in _segments(written):
        if segment is None:
            places = set(range(min(places), len(parts) + 1)) if places else places
        else:
            places = {
                place + 1 for place in places if place < len(parts) and segment.match(parts[place])
            }
    return len(parts) in places


@lru_cache(maxsize=4_096)
def _segments(written: str) -> tuple[re.Pattern[str] | None, ...]:
    """Return a pattern for each folder and the file of a glob; None is any number of folders."""
    names = _path(written).lstrip("/").split("/")
    names = [*names[:-1], "**"] if not names[-1] else names
    # [id].tsx is a file's name
    globs = [
        None if name == "**" else fnmatch.translate(name.replace("[", "[[]")) for name in names
    ]
    return None, *(None if glob is None else re.compile(glob) for glob in globs)

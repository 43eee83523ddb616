"""
Tokens of a rule: its cue words, and which of its names are commands, options or files.

The cues are English and the commonest of German, French and Spanish; a rule in other words names no
commands, and is recalled all the same.
"""

import re

import msgspec

from serve.lessons.patterns import Command, command
from store.agents.shell import calls
from store.log.event_kinds import Effort
from store.text import mention_rules
from store.text.mention_rules import LONE_TOOLS, STOP, SUBCOMMANDS

FORBIDS = frozenset(
    """never don't dont avoid mustn't shouldn't stop not no nie niemals nicht kein keine keinen
    jamais nunca""".split()
)
# of two words; the first alone is no cue
FORBIDS_IN_TWO = frozenset({("do", "not"), ("must", "not"), ("should", "not"), ("may", "not")})
RATHER = frozenset({("instead", "of"), ("rather", "than"), ("anstelle", "von"), ("au", "lieu")})
RATHER_ALONE = frozenset({"over", "statt", "anstatt", "than"})
WANTS = frozenset(
    """use run prefer always call execute invoke stick switch verwende verwenden nutze nutzen
    benutze benutzen nimm immer utilise utilisez toujours usa usar siempre""".split()
)
ENSURES = frozenset({("make", "sure"), ("be", "sure"), ("stelle", "sicher")})
FROM = frozenset("switch switched switching migrate migrated move moved change changed".split())
WITH = frozenset("with via using through by mit avec con".split())
WITHOUT = frozenset({"without", "ohne", "sans", "sin"})
EXCEPT = frozenset("unless except außer sauf salvo".split())
BEFORE = frozenset("before prior vor bevor avant antes".split())
WHEN = frozenset(
    "after when whenever while once if nach nachdem wenn sobald beim après quand cuando".split()
)
EXPLAINS = frozenset(
    "because since as so which that whose weil denn da parce car porque why and-so".split()
)
# words between a cue and its object
FILLERS = frozenset(
    """ever again directly please just manually simply only plain raw bare straight the a an any
    our your every each de del la le les den die das dem der einen ein eine jemals again up to
    out first""".split()
)
RUN_VERBS = frozenset(
    """use using run running call calling execute executing invoke invoking type prefer deploy build
    test install format lint verwende verwenden nutze nutzen benutze benutzen utilise utiliser
    utilisez usa usar uses""".split()
)
EDIT_VERBS = frozenset(
    """edit editing touch touching modify modifying change changing write delete deleting remove
    removing rename renaming move moving overwrite overwriting hand-edit alter update updating
    bearbeite bearbeiten ändere ändern editiere editieren anfassen fasse lösche löschen""".split()
)
REVERSES = frozenset("forget skip omit miss fail vergiss vergessen".split())
# git's own verbs, used as names of its commands
GIT_VERBS = {
    "push": ("git", "push"),
    "pushing": ("git", "push"),
    "force-push": ("git", "push", "--force"),
    "force-pushing": ("git", "push", "--force"),
    "commit": ("git", "commit"),
    "committing": ("git", "commit"),
    "merge": ("git", "merge"),
    "merging": ("git", "merge"),
    "rebase": ("git", "rebase"),
    "rebasing": ("git", "rebase"),
}
# and remotes, which rules name alike
BRANCHES = frozenset("main master develop production prod trunk staging release upstream".split())
ONTO = frozenset({"on", "to", "into", "onto", "auf", "in"})

# deeds in "never DEED without X": the occasions on which X is wanted
DEEDS = GIT_VERBS.keys() | frozenset(
    """deploy deploying release releasing publish publishing ship install installing add adding
    build building test testing""".split()
)
DEPLOYS = frozenset("deploy deploying release releasing publish publishing ship".split())

# occasions, by the prefix of their words
OCCASIONS: tuple[tuple[str, Effort], ...] = (
    ("commit", "commit"),
    ("deploy", "deploy"),
    ("releas", "deploy"),
    ("publish", "deploy"),
    ("ship", "deploy"),
    ("install", "install"),
    ("dependenc", "install"),
    ("lint", "lint"),
    ("format", "lint"),
    ("build", "build"),
    ("test", "test"),
)
GIT_OCCASIONS = (
    ("push", ("git", "push")),
    ("merg", ("git", "merge")),
    ("rebas", ("git", "rebase")),
)
# after an occasion's word these mark a state, not a deed
STATES = frozenset(
    """fail fails failing failed break breaks broken pass passes passed is are was were hang hangs
    take takes timeout times server servers user users data suite file files folder database
    message messages""".split()
)
BANNED = (
    "is forbidden", "is banned", "is not allowed", "is never used", "is deprecated here",
    "must not be", "must never be", "should not be", "should never be", "may not be",
    "ist verboten", "is off limits", "are generated", "is generated", "are read-only",
    "is read-only",
)  # fmt: skip
# a sentence that begins with a command is about running it
ABOUT = frozenset(
    """needs need requires require must takes take fails fail only is are has have does do will
    should breaks break can may wants expects deletes drops overwrites hangs braucht muss""".split()
)

# programs with unambiguous names, beside those of `store.mention_commands`
MORE_TOOLS = frozenset(
    """bash bunx curl deno gcloud gradlew ipython jq kubectl npx pipenv pipx pnpx python python2
    python3 rsync rustup scp sed sqlite3 ssh sudo uvx vercel wget wrangler zsh rm podman
    docker-compose grep awk chmod chown perl ruby rg fd unittest virtualenv venv nvm conda mamba
    hatch pdm lerna bazel mvn gradle
    """.split()
)
# programs with ordinary words as names: only after a verb like "run"
WORD_TOOLS = frozenset(
    """make just go task mix nix rake flask node cargo black tox find cat ls kill cp mv sort head
    tail""".split()
)
# words right after the name of a program, and of nothing else
DIRECTLY = frozenset("directly manually here locally yourself anymore".split())
# things that are run but are no programs
NO_PROGRAMS = frozenset(
    """it them this that these those tests test migrations commands scripts code everything anything
    things builds jobs benchmarks install time find""".split()
)
GO_WORDS = frozenset("build fmt generate get install mod run test vet work".split())

# after the name of a tool the rule is about these
THINGS_OF_A_TOOL = frozenset(
    """script scripts package packages registry module modules lockfile lock token tokens version
    versions docs cache config output error errors warning warnings repo repository""".split()
)
# after a comma and a name: it is named for its own sake, "no npm, pnpm only"
FOR_ITSELF = frozenset("only instead is are works please bitte".split())


_TOKEN = re.compile(
    r"`([^`\n]{1,300})`|([,;:()!?\n]|\.(?=\s|\Z)|\s[-\u2013\u2014]+(?=\s))|([^\s`,;:()!?]+)"
)
_POSSESSIVE = re.compile(r"(?:'s|s')$")
_PROGRAM = re.compile(r"(?:\./)?[a-z0-9][\w.+/-]{0,60}")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]{0,40}")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=\S+)?")
_FOLDER = re.compile(r"\.?[\w.-]+(?:/[\w.*-]+)*/")
_GLOB = re.compile(r"[\w./-]*\*[\w.*/-]*\.[A-Za-z0-9]{1,8}|[\w.-]+/[\w./-]*\*+[\w./*-]*")
_CUES = (
    FORBIDS | WANTS | WITH | WITHOUT | EXCEPT | BEFORE
    | WHEN | EXPLAINS | RATHER_ALONE | frozenset({"rather", "instead"})
)  # fmt: skip
_SCRIPTS = frozenset("bash bat cmd fish js mjs pl ps1 py rb sh ts zsh".split())
_MOST_TOOLS = 6
PLAIN_TOOLS = (SUBCOMMANDS.keys() | LONE_TOOLS | MORE_TOOLS) - WORD_TOOLS


class Token(msgspec.Struct, frozen=True):
    """A word in folded case, code between backticks as it is, or a mark that ends a clause."""

    text: str
    is_code: bool = False
    is_stop: bool = False
    written: str = ""


class Name(msgspec.Struct, frozen=True):
    """A name and its number of tokens; a file may be run as a command too."""

    tokens: int
    command: Command | None = None
    file: str | None = None


def tokenize_rule(text: str) -> list[Token]:
    """Return the tokens of a text in order."""
    tokens = []
    for match in _TOKEN.finditer(text.replace("\u2019", "'")):
        if match[1]:
            tokens.append(Token(match[1].strip(), is_code=True, written=match[1].strip()))
        elif match[2]:
            mark = match[2].strip() or "."
            tokens.append(Token(";" if mark[0] in "-\u2013\u2014" else mark, is_stop=True))
        else:
            tokens += _word_tokens(match[3])
    return tokens


def _word_tokens(written: str) -> list[Token]:
    if "/" in written and len(tools := written.strip("\"'*_.").split("/")) < _MOST_TOOLS:
        if all(tool in PLAIN_TOOLS for tool in tools):  # "npm/yarn/pnpm"
            words = " or ".join(tools).split()
            return [*(Token(word, written=word) for word in words), *_end_of(written)]
    bare = written.strip("\"'*_\u201c\u201d\u201e") if not _GLOB.fullmatch(written) else written
    end = _end_of(bare)
    bare = bare.rstrip(".") if end else bare
    return [*([Token(bare.casefold(), written=bare)] if bare else []), *end]


def _end_of(written: str) -> list[Token]:
    return [Token(".", is_stop=True)] if written.rstrip("*_").endswith(".") else []


def phrase_at(of: list[Token], place: int) -> str:
    """Return the next words of a clause, in folded case."""
    words = []
    for token in of[place : place + 4]:
        if token.is_stop:
            break
        words.append(token.text)
    return " ".join(words)


def branch_at(of: list[Token], place: int) -> tuple[str | None, int]:
    """Return the branch named at a place ("on main") and its number of tokens."""
    words = [token.text for token in of[place : place + 3] if not token.is_stop]
    if words and words[0] in ONTO:
        length = 3 if words[1:2] == ["the"] else 2
        if len(words) >= length and words[length - 1] in BRANCHES:
            return words[length - 1], length
    return None, 0


def name_at(of: list[Token], place: int, *, is_run: bool) -> Name | None:
    """Return the name that begins at a token; `is_run`: after a verb like "run" or "use"."""
    token = of[place]
    if token.is_code:
        return _code(token.text)
    if _POSSESSIVE.search(token.text):
        return None
    if _OPTION.fullmatch(token.written) and token.text.startswith("--"):
        return Name(1, Command((), frozenset({token.written})))
    if file := file_pattern(token.written):
        return Name(1, _run(file), file)
    return _prose(of, place, is_run=is_run)


def _code(text: str) -> Name | None:
    if _OPTION.fullmatch(text):
        return Name(1, Command((), frozenset({text}))) if text.startswith("--") else None
    if file := file_pattern(text):
        return Name(1, _run(file), file)
    called = calls(text)
    if len(called) != 1 or not called[0].forms[0]:
        return None
    line = called[0].forms[0]
    if not _PROGRAM.fullmatch(line[0]) or line[0].isdigit():
        return None
    if any(word in ("", "=", "==", "->") for word in line):  # no command, or one with gaps
        return None
    return Name(1, command(line))


def _run(file: str) -> Command | None:
    """Return the command that runs a file; a folder, several files or data are not run."""
    extension = file.rpartition("/")[2].rpartition(".")[2]
    is_script = extension in _SCRIPTS or ("/" in file and "." not in file.rpartition("/")[2])
    return command((file,)) if is_script and "*" not in file and file[-1] != "/" else None


def file_pattern(written: str) -> str | None:
    """Return a path, folder or glob with forward slashes; None where a word is none of these."""
    path = written.replace("\\", "/")
    if _GLOB.fullmatch(path) or (_FOLDER.fullmatch(path) and "//" not in path):
        return path
    mention = mention_rules.classify(written)
    return mention[1] if mention is not None and mention[0] == "file" and mention[1] else None


def _prose(of: list[Token], place: int, *, is_run: bool) -> Name | None:
    tool = of[place].written
    if is_run and _is_unknown_program(of, place):
        return Name(1, command((tool,)))
    if tool not in PLAIN_TOOLS and not (is_run and tool in WORD_TOOLS):
        return None
    line = [tool]
    for token in of[place + 1 : place + 6]:
        word = token.written
        if token.is_stop or token.is_code or token.text in _CUES:
            break
        is_more = len(line) == 1 and _is_subcommand(tool, word)
        if len(line) == 2 and line[1] in ("run", "exec", "compose", "tool", "pip"):
            is_more = bool(_SUBCOMMAND.fullmatch(word)) and word not in STOP
        if not is_more and _OPTION.fullmatch(word) is None:
            break
        line.append(word)
    if tool in WORD_TOOLS and len(line) == 1 and not _is_clause_end(of, place + 1):
        return None  # "make sure", "go on"
    if len(line) == 1 and phrase_at(of, place + 1).partition(" ")[0] in THINGS_OF_A_TOOL:
        return None
    return Name(len(line), command(tuple(line)))


def _is_unknown_program(of: list[Token], place: int) -> bool:
    """Return True if the context of an unknown word makes it a program: "run goctl directly"."""
    if place == 0 or place + 1 >= len(of) or of[place + 1].text not in DIRECTLY:
        return False
    word = of[place].written
    is_run = of[place - 1].text in ("run", "execute", "invoke", "call")
    return is_run and _PROGRAM.fullmatch(word) is not None and word not in NO_PROGRAMS


def _is_subcommand(tool: str, word: str) -> bool:
    if tool == "go":
        return word in GO_WORDS
    if tool in SUBCOMMANDS:
        return word in SUBCOMMANDS[tool]
    is_word = _SUBCOMMAND.fullmatch(word) is not None and word not in STOP
    return tool in ("make", "just", "task", "rake", "mix") and is_word and word not in _NOT_TARGETS


_NOT_TARGETS = frozenset(
    "sure it them changes commits use sense up in on to here there every each your our".split()
)


def _is_clause_end(of: list[Token], place: int) -> bool:
    """Return True if a clause ends at a place, or goes on with a word that begins no object."""
    if place >= len(of) or of[place].is_stop:
        return True
    return of[place].text in ("for", "here", "instead", "not", "and", "or", "to", "in", "when")

"""
The words by which a rule is read: what forbids, what wants, what says when.

English and the commonest of German, French and Spanish; a rule in other words names its commands
to nobody, and is recalled as ever.
"""

from store.log.event_kinds import Effort

FORBIDS = frozenset(
    """never don't dont avoid mustn't shouldn't stop not no nie niemals nicht kein keine keinen
    jamais nunca""".split()
)
# of two words; the first alone says nothing
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
# between a cue and what it is about
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
# git's own verbs, by which people name its commands
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
# and remotes, of which the same is said
BRANCHES = frozenset("main master develop production prod trunk staging release upstream".split())
ONTO = frozenset({"on", "to", "into", "onto", "auf", "in"})

# what is never to be done without something: when that something is wanted
DEEDS = GIT_VERBS.keys() | frozenset(
    """deploy deploying release releasing publish publishing ship install installing add adding
    build building test testing""".split()
)
DEPLOYS = frozenset("deploy deploying release releasing publish publishing ship".split())

# occasions, by how their words begin
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
# after an occasion's word these say that a state is spoken of, not a deed
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

# programs whose names are no words of a language beside those of `store.mention_commands`
MORE_TOOLS = frozenset(
    """bash bunx curl deno gcloud gradlew ipython jq kubectl npx pipenv pipx pnpx python python2
    python3 rsync rustup scp sed sqlite3 ssh sudo uvx vercel wget wrangler zsh rm podman
    docker-compose grep awk chmod chown perl ruby rg fd unittest virtualenv venv nvm conda mamba
    hatch pdm lerna bazel mvn gradle
    """.split()
)
# programs whose names are words: only where something is said to be run
WORD_TOOLS = frozenset(
    """make just go task mix nix rake flask node cargo black tox find cat ls kill cp mv sort head
    tail""".split()
)
# what is said of a program, and of nothing else, right after its name
DIRECTLY = frozenset("directly manually here locally yourself anymore".split())
# what is run and is no program
NO_PROGRAMS = frozenset(
    """it them this that these those tests test migrations commands scripts code everything anything
    things builds jobs benchmarks install time find""".split()
)
GO_WORDS = frozenset("build fmt generate get install mod run test vet work".split())

# after the name of a tool: it is these that are spoken of
THINGS_OF_A_TOOL = frozenset(
    """script scripts package packages registry module modules lockfile lock token tokens version
    versions docs cache config output error errors warning warnings repo repository""".split()
)
# after a comma and a name: it is named for its own sake, "no npm, pnpm only"
FOR_ITSELF = frozenset("only instead is are works please bitte".split())

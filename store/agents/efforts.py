"""
A command's purpose: tests, a build, a lint, a deployment, a commit, an installation; and its
outcome.

It is read from the words of its first few names (`./run_tests.sh`, `just e2e`, `mvnw verify`),
behind any wrapper, and from the summary in its output; without either a command has no purpose.
Programs are listed if their own name does not show their purpose.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import product, takewhile

from store.agents.shell import Call, Words, calls, program
from store.log.event_kinds import Effort

# in order: of several in one line the first of these counts
_FIRST: tuple[Effort, ...] = ("deploy", "test", "build", "lint", "commit", "install")
_NAMED = 3  # words of a call that may name its purpose

_ALONE: dict[str, Effort] = {
    **dict.fromkeys("tox nox jest mocha cypress ctest Invoke-Pester".split(), "test"),
    **dict.fromkeys(
        "ruff mypy pyright flake8 black isort prettier rubocop biome clippy vet".split(), "lint"
    ),
    **dict.fromkeys("tsc webpack rollup esbuild cmake ninja".split(), "build"),
    **dict.fromkeys("ansible-playbook cap atlantis fastlane".split(), "deploy"),
}
# the words of a name that show its purpose, by their beginnings
_WORDS: tuple[tuple[re.Pattern[str], Effort], ...] = (
    (re.compile(r"deploy|publish|ship$|rollout|promote|upload$|push$|apply$"), "deploy"),
    (
        re.compile(
            r"(?!(?:lat|great|cont|prot|att)est)\w{0,30}test(?:s|ing|sum|runner)?$|\w{0,30}specs?$"
            r"|e2e|\w{0,30}unit$|verify$|coverage"
        ),
        "test",
    ),
    (re.compile(r"build|compile|assemble|package$|dist$|image$"), "build"),
    (re.compile(r"\w{0,30}lint|format|fmt$|typecheck|types$|style|check$|shellcheck"), "lint"),
    (re.compile(r"release$"), "deploy"),
    (re.compile(r"deps$|dependencies$|tidy$"), "install"),
)
# these only as whole words: `add_order` adds nothing
_WHOLE: dict[str, Effort] = {
    **dict.fromkeys("install add sync require restore".split(), "install"),
    "commit": "commit",
    "all": "build",
}
# programs whose words are no names of tasks: files, texts, hosts, and their readers
_ARGUMENTS = frozenset(
    """rm rmdir del mv move ren cp copy xcopy robocopy mkdir touch chmod chown ln sed awk tar
    zip unzip curl wget vim vi nano code open kill pkill source export set unset alias man history
    tee xargs dd rsync scp sqlite3 psql mysql redis-cli python node ruby perl php java bash sh zsh
    ssh gh glab aws gcloud az kubectl oc docker podman terraform adb openssl base64 http watch
    hyperfine bundle prisma drizzle-kit""".split()
)
# programs whose verb decides, regardless of their other words
_VERBS: dict[str, dict[str, Effort]] = {
    "git": {"commit": "commit"},
    # others name a project, which may be one of tests: `dotnet clean App.Tests`
    "dotnet": {
        **dict.fromkeys("test vstest".split(), "test"),
        **dict.fromkeys("build msbuild pack".split(), "build"),
        **dict.fromkeys("add restore".split(), "install"),
        "publish": "deploy",
        "format": "lint",
    },
    "docker": {"build": "build", "push": "deploy", "buildx": "build"},
    "podman": {"build": "build", "push": "deploy"},
    "kubectl": {"apply": "deploy", "rollout": "deploy"},
    "terraform": {"apply": "deploy"},
    "helm": {"install": "deploy", "upgrade": "deploy"},
    "vercel": {"": "deploy", "deploy": "deploy"},  # `vercel ls` only looks
    "make": {"": "build"},
    "yarn": {"": "install"},
    "npm": {"t": "test", "i": "install", "ci": "install"},
    "go": {"get": "install"},
    "bundle": {"": "install", "install": "install"},
}
# words of a task behind which a name follows, as of a migration
_MAKES = frozenset("gen generate scaffold create migration migrations".split())
# and programs of which a flag decides
_FLAGS: dict[tuple[str, str], Effort] = {
    ("tsc", "--noEmit"): "lint",
    ("vue-tsc", "--noEmit"): "lint",
    ("vercel", "--prod"): "deploy",
}
_PARTS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
# programs that only look: their use is not worth recording
_LOOKS = frozenset(
    """ls cat head tail less more grep rg find fd pwd echo printf which whereis type wc stat file du
    df tree sort uniq cut nl diff cmp ps env date whoami id uname true false cd test [ sleep jq
    dir findstr where cls""".split()
)
# PowerShell's own commands: their verbs and the files they name are no tasks
_CMDLET = re.compile(r"[A-Z][A-Za-z]+-[A-Z]\w+")
_CMDLET_LOOKS = re.compile(
    r"(?:Get|Test|Select|Measure|Write|Where|Format|Sort|Compare|Resolve|Split|Join|Group|ForEach"
    r"|ConvertTo|ConvertFrom)-|Out-(?!File)|(?:Set|Push|Pop)-Location|Start-Sleep"
)
_GIT_LOOKS = frozenset("status log diff show branch remote blame rev-parse ls-files".split())
_FAILED = {
    "test": re.compile(
        r"\b[1-9]\d* (?:failed|failing|failures?|errors?)\b|^FAILED\b|^FAIL\b|test result: FAILED"
        r"|\bfailures=[1-9]|^# fail [1-9]|^ *[1-9]\d* fail$",
        re.MULTILINE,
    ),
    "lint": re.compile(r"^Found [1-9]\d* errors?\b|✖ [1-9]\d* problems? \([1-9]", re.MULTILINE),
}

_PASSED = {
    "test": re.compile(
        r"\b[1-9]\d* (?:passed|passing)\b|test result: ok|^ok\s|^OK\b|^PASS\b|^# pass [1-9]"
        r"|^ *[1-9]\d* pass$",
        re.MULTILINE,
    ),
    "lint": re.compile(r"^All checks passed|^Success: no issues found", re.MULTILINE),
    "build": re.compile(
        r"^BUILD SUCCESS|^[ \t]*Finished |\bcompiled successfully\b|\bbuilt in [\d.]+ ?m?s",
        re.MULTILINE | re.IGNORECASE,
    ),
    "commit": re.compile(r"^\[\S+ (?:\(root-commit\) )?[0-9a-f]{7,40}\] ", re.MULTILINE),
    "install": re.compile(r"^Successfully installed \S|^added \d+ packages?\b", re.MULTILINE),
}
# printed only by the shell, or by a program that gave up: anywhere in the output
_BROKE = re.compile(
    r"^(?:/bin/)?(?:ba|z|da)?sh: .*(?:not found|No such file or directory)"
    r"|^(?:bash|zsh|fish): .*|is not recognized as (?:an internal|the name of)"
    r"|^BUILD FAILED|^Failed to compile|^(?:> )?Build failed\b|^error during build"
    r"|\+ FullyQualifiedErrorId +:|^npm (?:ERR!|error) |\berror TS\d+: |^fatal: "
    r"|^error(?:\[E\d+\])?: (?:could not compile|aborting|Your local changes)",
    re.MULTILINE,
)
# and printed as the last words; "error: 0.05" is the result of fitting a model
_LAST_WORDS = re.compile(
    r"(?:(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)"
    r"|(?:[\w./-]+: )?(?:error|fatal|Error|ERROR|FATAL)(?: \w+ing \w+)?): (?!-?[\d.,]+\s*%?$)\S"
    r"|[\w./-]+: .*(?:No such file or directory|[Pp]ermission denied|command not found)$"
)
_LAST = 3  # lines
_SHELL_PROMPT = re.compile(r"\S+@\S+ .*[%$#]|PS [A-Z]:\\|\S*[%$#>] ?$")
# summaries that only a test run prints
_RAN_TESTS = re.compile(
    r"\b\d+ (?:tests? )?(?:passed|passing|failing|failed)\b|^Tests?:? +(?:run: )?\d+|^test result:"
    r"|\b\d+ (?:examples?|assertions?|specs?)\b|^Ran \d+ tests?\b|^OK \(\d+|^--- (?:FAIL|PASS)"
    r"|^# (?:pass|fail) \d+$",
    re.MULTILINE | re.IGNORECASE,
)
# and summaries of one purpose only, with any command; of several the first counts
_OUTPUTS: tuple[tuple[re.Pattern[str], Effort], ...] = (
    (
        re.compile(
            r"\b(?:deployed|released) (?:to|v\d)|\bdeploy(?:ment)? (?:is )?(?:live|done|complete"
            r"|succe|failed)|successfully rolled out|\bpublished \S+@\d",
            re.IGNORECASE,
        ),
        "deploy",
    ),
    (
        re.compile(
            r"^BUILD (?:SUCCESS|FAIL)|\bsuccessfully built\b|\bcompiled successfully"
            r"|\bfailed to compile\b|\bbuild (?:succeeded|failed|completed)\b"
            r"|\bbuilt in [\d.]+ ?m?s",
            re.IGNORECASE | re.MULTILINE,
        ),
        "build",
    ),
    (
        re.compile(
            r"^All checks passed|^Success: no issues found|^Found \d+ errors? in|✖ \d+ problems?"
            r"|\bwould (?:be )?reformat",
            re.MULTILINE,
        ),
        "lint",
    ),
    (
        re.compile(
            r"^Successfully installed \S|^added \d+ packages?\b|^Installed \d+ packages?\b"
            r"|^Setting up \S+ \(",
            re.MULTILINE,
        ),
        "install",
    ),
)


def command_effort(line: str, output: str) -> Effort | None:
    """Return the purpose of a command, by its own words or else by its output."""
    named = effort(line)
    if named not in (None, "lint") or not line or not output or only_looks(line):
        return named
    if _RAN_TESTS.search(output):  # `make check`
        return "test"
    return named or next((purpose for pattern, purpose in _OUTPUTS if pattern.search(output)), None)


@lru_cache(maxsize=512)
def effort(line: str) -> Effort | None:
    """Return the purpose of a command line; of several the most telling."""
    purposes = {purpose for call in calls(line) for purpose in efforts(call)}
    return next((purpose for purpose in _FIRST if purpose in purposes), None)


def efforts(call: Call) -> frozenset[Effort]:
    """Return the purposes of one call."""
    return frozenset(purpose for form in call.forms if (purpose := _form_effort(form)) is not None)


def command_outcome(line: str, passed: bool | None, output: str) -> bool | None:
    """Return True if a command passed, None if unknown; `passed` is the host's answer.

    A pipe hides the failure of a test run, and some hosts report nothing: then the output counts.
    """
    purpose = command_effort(line, output) or ""
    if passed is False or (purpose in _FAILED and _FAILED[purpose].search(output)):
        return False
    if passed is not None:
        return passed
    has_passed = purpose in _PASSED and _PASSED[purpose].search(output) is not None
    if has_passed and purpose == "test":  # the tested program may print anything
        return True
    return False if _broke(line, output) else has_passed or None


def _broke(line: str, output: str) -> bool:
    """Return True if a command's output is one that only a failed command writes."""
    if not output or only_looks(line):
        return False
    if _BROKE.search(output):
        return True
    stripped = (line.strip() for line in output.splitlines())
    lines = [line for line in stripped if line and not _SHELL_PROMPT.match(line)]
    return any(map(_LAST_WORDS.match, lines[-_LAST:]))


def assigns(words: Sequence[str]) -> bool:
    """Return True if a command assigns to a variable, as PowerShell does."""
    return words[0].startswith("$") and "=" in "".join(words[:2])


def only_looks(line: str) -> bool:
    """Return True if a command line changes and tries nothing, judged by its programs."""
    return all(_looks(call.forms[-1]) for call in calls(line))


def _looks(form: Words) -> bool:
    name = program(form[0])
    if _CMDLET.fullmatch(form[0]):
        return _CMDLET_LOOKS.match(name) is not None
    return name in _LOOKS or (name == "git" and len(form) > 1 and form[1] in _GIT_LOOKS)


def _form_effort(form: Words) -> Effort | None:
    name = program(form[0])
    words = [word for word in form[1:] if not word.startswith("-")]
    flags = (pair for pair in product((name, *form[1:2]), form[1:]) if pair in _FLAGS)
    if (flag := next(flags, None)) is not None:
        return _FLAGS[flag]
    if name in _ALONE:
        return _ALONE[name]
    first = words[0] if words else ""
    if (purpose := _VERBS.get(name, {}).get(first)) is not None:
        return purpose
    if _looks(form) or name in ("git", "dotnet") or _CMDLET.fullmatch(form[0]) or assigns(form):
        return None
    if "compose" in words[:1] and "build" in words:
        return "build"
    if name in _ARGUMENTS or "py_compile" in form:
        return None
    if name == "yarn" and first == "workspace":
        words = words[2:]
    # a path among the words is a task's object, not a task; Bazel's are //app:test
    tasks = [word for word in words[: _NAMED - 1] if "/" not in word or word.startswith("//")]
    named = [
        *takewhile(lambda task: task != "new" and _MAKES.isdisjoint(_parts(task)), (name, *tasks))
    ]
    for task in named[1:]:
        if (purpose := _ALONE.get(task) or _WHOLE.get(task)) is not None:
            return purpose
    parts = [part for task in named for part in _parts(task)]
    for pattern, purpose in _WORDS:
        if any(pattern.match(part) for part in parts):
            return purpose
    return None


def _parts(task: str) -> list[str]:
    """Return the words of a task's name: `check-db.py` looks something up, `type-check` checks."""
    parts = [part.lower() for part in _PARTS.split(task) if part]
    return parts[1:] if parts[:1] == ["check"] and len(parts) > 1 + ("." in task) else parts

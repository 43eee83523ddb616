"""
What a command is for: tests, a build, a lint, a deployment, a commit, an installation.

By its program and first words alone; what is not known here is for nothing in particular.
"""

import re
from functools import lru_cache

from store.agent_events import Effort
from store.deeds.shell import Call, Words, calls, program

# of several in one line the first of these tells most
_FIRST: tuple[Effort, ...] = ("deploy", "test", "build", "lint", "commit", "install")

_ALONE: dict[str, Effort] = {
    **dict.fromkeys(
        "pytest tox nox jest vitest rspec phpunit ctest cypress unittest".split(), "test"
    ),
    **dict.fromkeys(
        "ruff mypy pyright pylint flake8 black isort eslint prettier stylelint shellcheck "
        "golangci-lint rubocop biome gofmt rustfmt".split(),
        "lint",
    ),
    **dict.fromkeys("tsc webpack rollup esbuild cmake ninja".split(), "build"),
    **dict.fromkeys("vercel ansible-playbook cap".split(), "deploy"),
}
_NAMES: dict[Effort, str] = {
    "test": """go:test cargo:test cargo:nextest mvn:test gradle:test gradlew:test deno:test
            mix:test swift:test dotnet:test rails:test bazel:test playwright:test flutter:test""",
    "build": """cargo:build go:build docker:build vite:build next:build mvn:package mvn:compile
            gradle:build gradlew:build gradle:assemble uv:build poetry:build dotnet:build
            bazel:build swift:build hatch:build
            make: make:all""",
    "lint": "cargo:clippy cargo:fmt cargo:check go:vet deno:lint deno:fmt",
    "deploy": """npm:publish pnpm:publish yarn:publish cargo:publish twine:upload uv:publish
            poetry:publish kubectl:apply kubectl:rollout helm:install helm:upgrade terraform:apply
            fly:deploy flyctl:deploy wrangler:deploy wrangler:publish serverless:deploy cdk:deploy
            docker:push eb:deploy firebase:deploy netlify:deploy""",
    "commit": "git:commit",
    "install": """npm:install npm:add npm:ci pnpm:install pnpm:add yarn:install yarn:add
            yarn: bun:install bun:add pip:install uv:add uv:sync poetry:add poetry:install cargo:add
            apt:install apt-get:install brew:install gem:install go:get composer:require
            composer:install bundle:install conda:install""",
}
_TWO: dict[tuple[str, str], Effort] = {
    (tool, word): effort
    for effort, names in _NAMES.items()
    for tool, _, word in (name.partition(":") for name in names.split())
}
_RUNNERS = frozenset("npm pnpm yarn bun make just task rake invoke nox".split())
_SCRIPTS: tuple[tuple[re.Pattern[str], Effort], ...] = (
    (re.compile(r"(?:pre-?)?(?:deploy|release|publish|ship)\b"), "deploy"),
    (re.compile(r"(?:unit-?|e2e-?|integration-?)?tests?\b|check$"), "test"),
    (re.compile(r"build|compile|dist$|bundle$"), "build"),
    (re.compile(r"lint|format|fmt$|typecheck|types$"), "lint"),
)
# programs that only look: what they did is nothing to tell of
_LOOKS = frozenset(
    """ls cat head tail less more grep rg find fd pwd echo printf which whereis type wc stat file du
    df tree sort uniq cut nl diff cmp ps env date whoami id uname true false cd test [ sleep jq
    """.split()
)
_GIT_LOOKS = frozenset("status log diff show branch remote blame rev-parse ls-files".split())
_FAILED = {
    "test": re.compile(
        r"\b[1-9]\d* (?:failed|failing|failures?|errors?)\b|^FAILED\b|^FAIL\b|test result: FAILED"
        r"|\bfailures=[1-9]",
        re.MULTILINE,
    ),
    "lint": re.compile(r"^Found [1-9]\d* errors?\b|✖ [1-9]\d* problems? \([1-9]", re.MULTILINE),
}

_PASSED = {
    "test": re.compile(
        r"\b[1-9]\d* (?:passed|passing)\b|test result: ok|^ok\s|^OK\b|^PASS\b", re.MULTILINE
    ),
    "lint": re.compile(r"^All checks passed|^Success: no issues found", re.MULTILINE),
    "build": re.compile(r"^BUILD SUCCESS|^[ \t]*Finished ", re.MULTILINE),
}


@lru_cache(maxsize=512)
def effort(line: str) -> Effort | None:
    """Return what a command line is for; of several things the one that tells most."""
    found = {one for call in calls(line) for one in efforts(call)}
    return next((one for one in _FIRST if one in found), None)


def efforts(call: Call) -> frozenset[Effort]:
    """Return what one call is for."""
    return frozenset(one for form in call.forms if (one := _of(form)) is not None)


def passed(line: str, told: bool | None, output: str) -> bool | None:
    """Return whether a command passed, as its host told.

    A pipe hides the failure of a test run, and some hosts tell nothing: then its own last words
    count.
    """
    known = effort(line) or ""
    if told is False or known not in _FAILED | _PASSED:
        return told
    if known in _FAILED and _FAILED[known].search(output):
        return False
    return True if told is None and _PASSED[known].search(output) else told


def only_looks(line: str) -> bool:
    """Return whether a command line changes and tries nothing, as far as its programs tell."""
    return all(_looks(call.forms[-1]) for call in calls(line))


def _looks(form: Words) -> bool:
    name = program(form[0])
    return name in _LOOKS or (name == "git" and len(form) > 1 and form[1] in _GIT_LOOKS)


def _of(form: Words) -> Effort | None:
    name = program(form[0])
    words = [word for word in form[1:] if not word.startswith("-")]
    if name in _ALONE:
        return _ALONE[name]
    first = words[0] if words else ""
    if name == "npm" and first in ("i", "t"):
        first = {"i": "install", "t": "test"}[first]
    if (known := _TWO.get((name, first))) is not None:
        return known
    if name == "docker" and first in ("compose", "buildx") and "build" in words:
        return "build"
    if name not in _RUNNERS:
        return None
    script = words[1] if first == "run" and len(words) > 1 else first
    return next((one for pattern, one in _SCRIPTS if pattern.match(script)), None)

"""The programs that a command line calls, in any notation, and the purpose of a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.agents.efforts import command_outcome, effort, only_looks
from store.agents.shell import calls

COMMIT = "git commit -m \"$(cat <<'EOF'\nnpm's (bad) \"thing\n; npm install\nEOF\n)\" && git push"


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("npm install lodash", ["npm install lodash"]),
        ("cd web && npm i; ls | tail", ["cd web", "npm i", "ls", "tail"]),
        ("FOO=1 sudo -u me env A=b npm ci 2>&1 | tee log", ["npm ci", "tee log"]),
        ("bash -lc 'cd a; npm i'", ["cd a", "npm i"]),
        ("(cd a && npm i) & x=$(npm root)", ["cd a", "npm i", "npm root"]),
        ('echo "$(npm root)" `npm prefix`', ["npm root", "npm prefix", "echo  "]),
        ("if true; then npm i; fi", ["true", "npm i"]),
        ("for x in a; do npm i $x; done", ["npm i $x"]),
        ("timeout 60 nice -n 5 npm t", ["npm t"]),
        ("find . | xargs -n 1 npm view", ["find .", "npm view"]),
        ("cmd /c npm i", ["npm i"]),
        ("powershell -Command npm i", ["npm i"]),
        ("diff <(npm ls) <(pnpm ls)", ["diff", "npm ls", "pnpm ls"]),
    ],
)
def test_a_program_is_found_wherever_it_is_called(line: str, called: list[str]):
    assert [" ".join(call.forms[0]) for call in calls(line)] == called


@pytest.mark.parametrize(
    "line",
    [
        "echo npm",
        "cat packages/npm/index.js",
        'git commit -m "use npm"',
        COMMIT,
        "cat <<EOF > x\nnpm install\nEOF",
        "cat <<-'END'\n\tnpm install\n\tEND",
        "grep -r 'npm install' . # npm install",
        "echo 'an open quote npm",
        "./npm-check --all",
        "cat <<< npm",
    ],
)
def test_what_is_only_named_is_not_called(line: str):
    assert "npm" not in {form[0] for call in calls(line) for form in call.forms}


def test_what_follows_a_heredoc_in_a_message_is_called():
    assert ("git", "push") in [call.forms[0] for call in calls(COMMIT)]


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("uv run python -m pytest -q", ("pytest", "-q")),
        ("npx -y tsc --noEmit", ("tsc", "--noEmit")),
        ("pnpm exec eslint .", ("eslint", ".")),
        ("bash scripts/deploy.sh prod", ("scripts/deploy.sh", "prod")),
        ("python3 scripts/x.py", ("scripts/x.py",)),
    ],
)
def test_a_runner_calls_what_it_runs_too(line: str, inner: tuple[str, ...]):
    assert calls(line)[0].forms[-1] == inner


@given(st.text(alphabet="npm i'\"\\`$(){};&|<>\n#=-EOF/", max_size=80) | st.text(max_size=80))
def test_no_line_is_too_strange_to_be_read(line: str):
    calls(line)
    effort(line)


def test_a_deeply_nested_line_is_read_as_far_as_it_goes():
    calls("$(" * 5_000 + "npm" + ")" * 5_000)
    calls("bash -c '" * 200)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pytest -q tests/test_x.py", "test"),
        ("cd web && npm run test:unit -- --watch=false", "test"),
        ("python -m unittest discover", "test"),
        ("uv run pytest | tail -5", "test"),
        ("make", "build"),
        ("npm run build", "build"),
        ("docker compose build web", "build"),
        ("ruff check . && mypy", "lint"),
        ("make deploy", "deploy"),
        ("pytest && git commit -m x", "test"),
        ("git commit -m 'fix the deploy'", "commit"),
        ("npm i lodash", "install"),
        ("pip3 install -r requirements.txt", "install"),
        ("ls tests", None),
        ("echo deploy", None),
        ("cat build/x", None),
    ],
)
def test_a_command_is_known_by_what_it_is_for(line: str, wanted: str | None):
    assert effort(line) == wanted


def test_a_failure_behind_a_pipe_is_one():
    assert command_outcome("pytest | tail -3", True, "2 failed, 8 passed in 0.1s") is False
    assert command_outcome("pytest | tail -3", True, "8 passed, 0 failed") is True
    assert command_outcome("cat log", True, "2 failed") is True


@pytest.mark.parametrize(
    ("line", "output", "came"),
    [
        ("pytest", "3 passed, 1 warning in 0.2s", True),
        ("pytest", "1 failed, 3 passed", False),
        ("cargo test", "test result: ok. 3 passed; 0 failed", True),
        ("go test ./...", "ok  \tgithub.com/a/b\t0.1s", True),
        ("ruff check .", "All checks passed!", True),
        ("mypy", "Found 2 errors in 1 file", False),
        ("pytest", "collected nothing", None),
        ("ls", "3 passed", None),
        ("bun test", " 12 pass\n 0 fail\nRan 12 tests", True),
        ("bun test", " 11 pass\n 1 fail\nRan 12 tests", False),
        ("git commit -m x", "[main 1308c8d] x\n 1 file changed", True),
        ("git commit -m x && git push", "[main 1308c8d] x\nfatal: no upstream branch", False),
        ("npm install zod", "added 3 packages in 2s", True),
        ("npm install zod", "npm ERR! code EACCES\nnpm ERR! a log is in /x", False),
        ("npm run build", "> next build\n> Build failed because of webpack errors\n$ ", False),
        ("npm run build", "webpack compiled successfully in 3 s", True),
    ],
)
def test_where_the_host_does_not_tell_the_last_words_do(line: str, output: str, came: object):
    assert command_outcome(line, None, output) is came


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("python load.py", "Traceback (most recent call last):\n  File ...\nKeyError: 'id'"),
        ("python load.py", "3 rows\nsqlite3.OperationalError: no such table: fares"),
        ("shopctl sync --now", "error: unknown option '--now'\nann@mac shop % "),
        ("shopctl sync", "Error starting session: it is already there"),
        ("pnpm i", "zsh: command not found: pnpm"),
        ("uv sync", "/bin/sh: 1: uv: not found"),
        ("uvx ruff", "'uvx' is not recognized as an internal or external command"),
        ("tsc --noEmit", "src/a.ts:1:59 - error TS2307: Cannot find module\n" + "x\n" * 9),
        ("mv a b", "mv: rename a to b: No such file or directory"),
        (
            "Move-Item a b",
            "Move-Item : no\n    + FullyQualifiedErrorId : MoveItemIOError\nPS C:\\> ",
        ),
        ("npm run build", "> next build\nFailed to compile.\n" + "x\n" * 9),
        ("git checkout x", "error: Your local changes would be lost\n\ta.py\n" + "x\n" * 9),
    ],
)
def test_what_only_a_failure_says_tells_one_where_the_host_does_not(line: str, output: str):
    assert command_outcome(line, None, output) is False
    assert command_outcome(line, True, output) is True


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("cat server.log", "fatal: not a git repository\nerror: it broke"),
        ("grep -rn Error src", "ValueError: too few"),
        ("python serve.py", "error: first try\nthen it\nwas\nready\non port 8000"),
        ("python report.py", "0 errors: all rows were read"),
        ("python fit.py", "epoch 9\nError: 0.0532"),
        ("python fit.py", "MeanSquaredError: 12.5 %"),
        ("shopctl explain", "The errors are ValueError and KeyError."),
    ],
)
def test_what_is_read_or_left_behind_is_no_failure(line: str, output: str):
    assert command_outcome(line, None, output) is None


def test_a_line_only_looks_if_all_of_it_does():
    assert only_looks("cd web && git status | head -3")
    assert not only_looks("ls; rm x") and not only_looks("git commit -m x")

"""The acts that a rule's words forbid or demand, and the occasions for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.lessons.matching import Rules
from serve.lessons.rule_parser import parse_wording
from store.log.event_kinds import Recorded
from store.log.events import Event
from store.memories.fold import Fold
from store.memories.memory import Memory

NOW = 1_790_000_000_000_000


def rule(text: str) -> Memory:
    fold = Fold()
    fold.apply(Event("r", NOW, Recorded(content=text, kind="lesson"), "r", seq=1))
    return fold.rows["r"]


def fires(text: str, line: str) -> bool:
    return bool(Rules([rule(text)]).of_command(line))


def touches(text: str, path: str) -> bool:
    return bool(Rules([rule(text)]).of_file(path))


FIRES = [
    ("Use pnpm, never npm", "npm install lodash"),
    ("Use pnpm, never npm", "cd web && CI=1 npm ci"),
    ("Use pnpm, never npm", "bash -c 'npm install'"),
    ("use pnpm instead of npm", "npm run build"),
    ("We use pnpm, not npm or yarn", "yarn add x"),
    ("Prefer pnpm over npm", "npm i"),
    ("No npm in this repo, pnpm only", "npm i"),
    ("Stop using yarn", "yarn"),
    ("npm is forbidden here", "npm ci"),
    ("We moved from npm to pnpm", "npm ci"),
    ("Don't use npm, pnpm is what we use", "npm ci"),
    ("Use pnpm here, never npm: the lock file is pnpm's", "npm ci"),
    ("Use uv, not pip", "python -m pip install x"),
    ("Use uv, not pip", "pip3 install x"),
    ("You must not use pip install; add packages with uv add", "pip install x"),
    ("never run `git push --force` on main", "git push --force origin main"),
    ("never run `git push --force` on main", "git push -f"),
    ("never push to main", "git -C web push origin main"),
    ("never force-push", "git push --force origin topic"),
    ("Never use `rm -rf`; use trash instead", "rm -r -f build"),
    ("Never use --no-verify", "git commit -n --no-verify -m x"),
    ("use docker compose rather than docker-compose", "docker-compose up"),
    ("never run scripts/deploy.sh directly, use make deploy", "bash scripts/deploy.sh"),
    ("never run scripts/deploy.sh directly, use make deploy", "./scripts/deploy.sh prod"),
    ("Use `uv run pytest`, never plain pytest", "pytest -q"),
    ("always run ruff before committing", "git commit -m x"),
    ("Don't commit without running the tests", "git commit -m x"),
    ("Before committing, run `ruff check` and `mypy`", "git commit -am x"),
    ("Make sure the tests pass before pushing", "git push"),
    ("run migrations with make migrate", "python manage.py migrate"),
    ("Run the tests with `make test`", "pytest"),
    ("When deploying, first ask in #ops", "make deploy"),
    ("`make deploy` needs the VPN", "make deploy"),
    ("Never deploy on Fridays", "kubectl apply -f x.yaml"),
    ("**bun only** - never use npm/yarn/pnpm.", "yarn"),
    ("**Never run gencode directly** - always use `make gen`", "./tools/gencode --all"),
    ("Do not run `git reset`, `git checkout`, or `rm`.", "git checkout -- x.py"),
    ("Never `git add -A` or `git commit -a`; stage by path.", "git commit -am x"),
    ("Do not push. A person does that.", "git push"),
    ("Never push to upstream.", "git push upstream main"),
    ("Never push without asking", "git push origin topic"),
    ("Do not run `tsc` without `-b`", "tsc src/a.ts"),
    ("Use rg, not grep", "grep -r x ."),
    ("Nutze pnpm statt npm", "npm ci"),
    ("Verwende niemals npm, immer pnpm", "npm ci"),
    ("N'utilise jamais npm, utilise pnpm", "npm ci"),
    ("Nunca uses npm; usa pnpm", "npm ci"),
]
SILENT = [
    ("Use pnpm, never npm", "pnpm add lodash"),
    ("Use pnpm, never npm", "echo npm"),
    ("Use pnpm, never npm", "cat packages/npm/README.md"),
    ("Use pnpm, never npm", "git commit -m 'drop npm'"),
    ("Use pnpm, never npm", "cat <<EOF\nnpm install\nEOF"),
    ("No npm in this repo, pnpm only", "pnpm i"),
    ("Don't use npm, pnpm is what we use", "pnpm i"),
    ("Don't use npm when pnpm is available", "pnpm i"),
    ("Use uv, not pip", "uv pip install x"),
    ("never run `git push --force` on main", "git push --force origin topic"),
    ("never run `git push --force` on main", "git push origin main"),
    (
        "Never call git push --force on main; use --force-with-lease on your own branch.",
        "git push --force-with-lease origin main",
    ),
    ("never push to main", "git push origin topic"),
    ("never push to main", "git push"),
    ("Never use `rm -rf`; use trash instead", "rm build.log"),
    ("use docker compose rather than docker-compose", "docker compose up"),
    ("Use `uv run pytest`, never plain pytest", "uv run pytest -q"),
    ("Use pnpm because npm breaks the lock file", "npm ci"),
    ("npm install never finishes with pnpm installed", "pnpm i"),
    ("always run ruff before committing", "ruff check ."),
    ("always run ruff before committing", "ruff check . && git commit -m x"),
    ("Don't commit without running the tests", "pytest && git commit -m x"),
    ("Don't forget to run ruff before you commit", "ruff format"),
    ("run migrations with make migrate", "make migrate"),
    ("Run the tests with pytest -q, not unittest", "pytest tests/test_x.py"),
    ("when tests fail, look at the log first", "pytest"),
    ("Don't use the npm registry directly", "npm ci"),
    ("Make sure to add a test", "make"),
    ("Never commit secrets", "git commit -m x"),
    ("Please use conventional commits", "git commit -m x"),
    ("I like short functions", "python x.py"),
    ("Never run `next build` while `next dev` is running.", "next dev"),
    ("Never push to upstream.", "git push origin main"),
    ("Use rg, not grep", "git grep x"),
    ("Do not use `expect()` outside tests.", "pytest"),
    ("Use `type` over `interface` for shapes.", "tsc"),
    ("Package manager is **pnpm** (never npm).", "pnpm i"),
    ("Never run migrations directly", "make migrations"),
    ("Always run `git fetch` before classifying.", "git pull"),
    ("If pnpm is missing, install it with corepack, not npm", "pnpm i"),
    ("Database migrations live in db/migrations and are applied by make migrate.", "make migrate"),
    ("", "npm ci"),
]


@pytest.mark.parametrize(("text", "line"), FIRES)
def test_a_command_that_a_rule_names_is_known(text: str, line: str):
    assert fires(text, line)


@pytest.mark.parametrize(("text", "line"), SILENT)
def test_a_rule_is_not_held_against_what_it_does_not_name(text: str, line: str):
    assert not fires(text, line)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("don't edit generated/*.py", "api/generated/models.py"),
        ("Do not touch migrations/ by hand", "db/migrations/0001/up.sql"),
        ("Never edit `package-lock.json` by hand", "web/package-lock.json"),
        ("generated/api.ts is generated: do not edit it", "generated/api.ts"),
        ("billing/invoice.py: check the tenant id for null", "billing/invoice.py"),
        ("After changing schema.sql run `make gen`", "store/schema.sql"),
        ("Never modify `**/vendor/*.c`", "lib/vendor/x.c"),
        ("Never edit `app/**/[id].tsx`", "web/app/shop/cart/[id].tsx"),
    ],
)
def test_a_file_that_a_rule_names_is_known(text: str, path: str):
    assert touches(text, path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("don't edit generated/*.py", "generated/deep/models.py"),
        ("don't edit generated/*.py", "src/models.py"),
        ("Never edit `app/**/[id].tsx`", "app/shop/i.tsx"),
        ("don't edit generated/*.py", "notgenerated/x.py"),
        ("never import apsw outside store/log.py", "store/log.py"),
        ("put helpers somewhere other than utils.py", "utils.py"),
        ("Use pnpm, never npm", "npm/index.js"),
    ],
)
def test_a_file_that_a_rule_does_not_forbid_is_left_alone(text: str, path: str):
    assert not touches(text, path)


def test_what_was_done_before_need_not_be_said_again():
    rules = Rules([rule("Always run the tests before committing")])
    assert rules.of_command("git commit -m x")
    assert not rules.of_command("git commit -m x", before=["uv run pytest -q"])


@given(st.text(max_size=120) | st.lists(st.sampled_from(
    "never use not `npm i` before after , : ( ) make --force git push on main x/*.py without . "
    "instead of with don't run".split()
)).map(" ".join))  # fmt: skip
def test_no_text_is_too_strange_to_be_read(text: str):
    parse_wording(text)

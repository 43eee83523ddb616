"""A repository of over five thousand commits, imported, built and queried with ten questions."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.reader.reader import Reader
from serve.recall.request import RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.config import Choices
from store.importers import git
from store.log.commands import import_drafts
from store.log.event_log import EventLog
from store.maintenance import build

NOW = 1_790_000_000_000_000
COMMITS = 5_200

# questions that somebody will ask one day, and the commit that answers each
WORTH_ASKING = {
    "why did we drop Redis for sessions?": (
        "Keep sessions in PostgreSQL instead of Redis",
        "Redis lost every session when the node was evicted, and nobody backed it up. One store\n"
        "less to run, and a session read costs 0.4 ms more, which no page notices.",
        "app/sessions/store.py",
    ),
    "how was the flaky checkout test fixed?": (
        "Fix flaky checkout test",
        "It compared timestamps taken before and after midnight UTC. The clock is now injected.",
        "tests/test_checkout.py",
    ),
    "which JSON library do we use and why": (
        "Switch from ujson to orjson",
        "ujson silently rounded 64-bit order ids. orjson refuses what it cannot represent.",
        "app/encoding/json.py",
    ),
    "what caused the memory leak in the thumbnail worker": (
        "Stop leaking file handles in the thumbnail worker",
        "Pillow keeps the source open until load() was called; images over the limit never were.",
        "workers/thumbnails.py",
    ),
    "ERR_TOO_MANY_REDIRECTS after login": (
        "Fix redirect loop after login behind the proxy",
        "Browsers showed ERR_TOO_MANY_REDIRECTS because X-Forwarded-Proto was ignored and every\n"
        "request was sent to https again.",
        "app/middleware/proxy.py",
    ),
    "why is the invoice total rounded per line": (
        "Round invoices per line, not per total",
        "The Swiss tax office wants each line rounded half up; the sum may differ by a rappen.",
        "billing/invoice.py",
    ),
    "can I use parseDuration for ISO 8601?": (
        "Let parseDuration read ISO 8601",
        "It took only '5m' and '1h30m'. PT1H30M comes from the calendar importer.",
        "web/src/time/parseDuration.ts",
    ),
    "why are migrations not run at start-up": (
        "Do not run migrations when the app starts",
        "Two pods raced and one migration was applied twice. A job runs them before the roll-out.",
        "deploy/migrate.yaml",
    ),
    "what is the retry policy of the payment webhook": (
        "Retry payment webhooks five times with jitter",
        "Backoff 2, 8, 30, 120, 600 seconds, then a dead letter; the provider bans harder clients.",
        "payments/webhooks.py",
    ),
    "deadlock between orders and stock": (
        "Lock stock rows in the order of their id",
        "Two orders with the same two articles took the rows crosswise: SQLSTATE 40P01, a\n"
        "deadlock every Monday at nine.",
        "orders/reserve.py",
    ),
}

VERBS = (
    "Add",
    "Remove",
    "Rename",
    "Test",
    "Document",
    "Speed up",
    "Tidy",
    "Move",
    "Split",
    "Cache",
)
THINGS = ("search page", "order export", "address form", "mail queue", "price list", "cart", "menu",
          "login form", "report job", "stock count", "invoice view", "image upload")  # fmt: skip
REASONS = (
    "The old way read the table twice for each row.",
    "Support asked for it last week, see the ticket.",
    "It was the only caller of the helper that goes away next.",
    "Needed before the spring release.",
    "Customers could not use it with a keyboard alone.",
    "The library does this by itself since its last version, so our own code can go.",
    "Nobody could say why it was there, and no policy asks for it.",
    "",
)
NOISE = ("wip", "fix typo", "Bump version to 2.{n}.0", "Merge branch 'main'", "lint", "fixup! cart")


def stream() -> Iterator[str]:
    """Yield the history as `git fast-import` reads it."""
    chosen = random.Random(3)
    special = dict(zip(range(200, COMMITS, COMMITS // 11), WORTH_ASKING.values(), strict=False))
    for number in range(COMMITS):
        if number in special:
            subject, why, path = special[number]
        elif number % 4 == 0:
            subject, why, path = chosen.choice(NOISE).format(n=number), "", "app/cart.py"
        else:
            thing = chosen.choice(THINGS)
            subject = f"{chosen.choice(VERBS)} {thing} {chosen.randrange(900)}"
            why, path = chosen.choice(REASONS), f"app/{thing.replace(' ', '_')}.py"
        message = f"{subject}\n\n{why}\n"
        content = f"revision {number}\n"
        who = (
            f"Dev {number % 7} <dev{number % 7}@example.org> {1_600_000_000 + number * 9_000} +0000"
        )
        yield (
            f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n"
            f"data {len(message.encode())}\n{message}\n"
            f"M 100644 inline {path}\ndata {len(content)}\n{content}\n"
        )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("large")
    repository = folder / "shop"
    subprocess.run(["git", "init", "--quiet", "-b", "main", repository], check=True)
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=repository,
        input="".join(stream()).encode(),
        check=True,
    )
    tenant = tenants.tenant(folder / "home")
    embedder = LexicalEmbedder()
    with EventLog(tenant.log, create=True) as log:
        counts = import_drafts(log, git.drafts(repository, project="shop"), NOW)
        assert counts.added > 3_000
        again = import_drafts(log, git.drafts(Path(repository), project="shop"), NOW)
        assert again.added == 0
        build.rebuild(tenant, log, embedder, NOW)
        yield Reader(tenant, log, embedder)


@pytest.mark.parametrize("question", WORTH_ASKING)
def test_a_question_about_the_past_finds_the_commit_that_answers_it(
    reader: Reader, question: str
) -> None:
    payload, _ = answer(reader, RecallRequest(query=question), Choices(), NOW)
    subjects = [hit["text"].splitlines()[0] for hit in payload["hits"][:3]]
    assert WORTH_ASKING[question][0] in subjects


def test_noise_commits_are_skipped(reader: Reader) -> None:
    with reader.view() as view:
        rows = view.snapshots.rows
        texts = [memory.content for memory in rows.take(range(len(rows)))]
    assert not [
        text for text in texts if text.startswith(("wip", "Bump", "Merge", "lint", "fixup"))
    ]

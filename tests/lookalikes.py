"""
309 facts that look alike but state 309 things, and pairs of texts that state one thing twice.

They are made of templates, so that none was chosen to suit a rule: each fact differs from its
siblings in one of the features that distinguish facts.
"""

from collections.abc import Iterator

_NAMES = "Anna Berta Carla Dmitri Elif Farid Goran Hana Ivo Jun Kira Lars Mona Nils Olga".split()
_PARTS = "parser scheduler indexer gateway billing search mailer importer exporter cache".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday".split()
_MONTHS = "January March May July September November".split()
_TOOLS = "ruff mypy pytest tox nox pip uv poetry hatch pdm".split()
_ENVIRONMENTS = "staging production demo sandbox preview".split()


def facts() -> list[str]:
    """Return 309 texts, all of different content, where none corrects another."""
    found = list(dict.fromkeys(_facts()))
    assert len(found) >= 309
    return found[:309]


def _facts() -> Iterator[str]:
    yield from _negations()
    yield from _quantities()
    yield from _in_languages()
    yield from _orders()
    for name, part in zip(_NAMES, _PARTS * 2, strict=False):
        yield f"{name} owns the {part} and reviews its changes"
        yield f"{name} reviews the {part} and owns its changes"
    for part in _PARTS:
        yield f"The {part} runs in one process"
        yield f"The {part} ran in one process"
        yield f"The {part} may run in one process"
        yield f"Never restart the {part} while a backup is running"
        yield f"Restart the {part} while a backup is running"
        yield f"Restart the {part} before a backup is running"
        yield f"Restart the {part} after a backup is running"
    for number in range(12, 42):
        yield f"Test {number} fails when the clock is mocked"
    for number in range(20):
        yield f"Issue #{4100 + number} is closed"
    for version in range(9, 20):
        yield f"We upgraded the workers to Python 3.{version}"
        yield f"Release 1.{version} added dark mode to the settings page"
    for day in _DAYS:
        yield f"The deploy of {day} took twelve minutes"
    for month in _MONTHS:
        yield f"In {month} the bill was 410 euros"
        yield f"The audit of 12 {month} 2026 found nothing"
    for day in range(1, 20):
        yield f"The nightly build of 2026-03-{day:02} was green"
    for place in _ENVIRONMENTS:
        yield f"The database of {place} listens on port 5432"
        yield f"The limit of {place} is 20 MB a request"
        yield f"The limit of {place} is 20 Mb a request"
    for tool in _TOOLS:
        yield f"Use {tool} for this repository"
        yield f"Use {tool} for every repository"
        yield f"Do not use {tool} for this repository"
    for one in _TOOLS[:5]:
        yield f"Run `{one} --check` in CI"
        yield f"Run `{one} --fix` in CI"
    for number in range(5):
        yield f"store/part_{number}.py is the only module that opens a socket"
        yield f"Worker {number + 1} has 4 threads and 8 GB of memory"


def _negations() -> Iterator[str]:
    yield "The importer supports CRLF line ends"
    yield "The importer does not support CRLF line ends"
    yield "The importer no longer supports CRLF line ends"
    yield "Nobody but the owner may force a push"
    yield "Everybody but the owner may force a push"
    yield "The name C stands for the limit"
    yield "The name c stands for the limit"
    yield "userId is a string in the API"
    yield "userid is a string in the API"
    yield "Is the importer ready for CRLF line ends?"
    yield "The importer is ready for CRLF line ends"
    yield "The build deploys to US customers first"
    yield "The build deploys to us customers first"


def _quantities() -> Iterator[str]:
    for word in ("all", "some", "most", "no", "few", "both", "only", "at least two", "at most two"):
        yield f"After a crash {word} replicas keep their data"
    for amount in ("10 ms", "10 s", "10 min", "-10 s", "10.5 s", "1,000 s", "10 %", "$10"):
        yield f"A retry costs {amount} in the worst case"


def _in_languages() -> Iterator[str]:
    for name in ("Berlin", "Wien", "Zürich", "Zurich"):
        yield f"Die Server stehen in {name}, nicht in der Cloud"
    yield "Die Server stehen nicht in Berlin, in der Cloud"
    yield "Le serveur de test est à Lyon depuis mars"
    yield "Le serveur de test est à Lyon depuis mai"
    yield "El servidor no acepta conexiones externas"
    yield "El servidor acepta conexiones externas"
    yield "Сервер не принимает внешние соединения"
    yield "Сервер принимает внешние соединения"
    yield "テストは本物のファイルを使う"
    yield "テストは本物のファイルを使わない"
    yield "デプロイは毎週火曜日に行う"
    yield "デプロイは毎週木曜日に行う"


def _orders() -> Iterator[str]:
    yield "The release does build, test and upload"
    yield "The release does test, build and upload"
    yield "Anna reports to Berta"
    yield "Berta reports to Anna"
    yield "Prefer uv, pip and conda"
    yield "Prefer pip, uv and conda"
    yield "Sort by name and date"
    yield "Sort by date and name"
    yield "The point lies at (3, 4) of the map"
    yield "The point lies at (4, 3) of the map"
    yield "1. lint\n2. test\n3. deploy"
    yield "1. test\n2. lint\n3. deploy"
    yield "- [x] write the docs"
    yield "- [ ] write the docs"
    yield "The ratio of hits and misses"
    yield "The ratio of misses and hits"
    yield "Call it with foo(a, b) and wait"
    yield "Call it with foo(b, a) and wait"
    yield "Run git add . before a commit"
    yield "Run git add before a commit"
    for empty in ("[]", "{}", "()", '""', "''", "*", "..", "5", "-5", "5.0"):
        yield f"An unset list reads as {empty} in the template"
    yield "Minimum and maximum are 3 and 5"
    yield "Maximum and minimum are 3 and 5"


SAME = (
    ("Use pnpm here, never npm", "use pnpm here, never npm"),
    ("Use pnpm here, never npm", "USE PNPM HERE, NEVER NPM"),
    ("Use pnpm here, never npm.", "Use pnpm here - never npm!"),
    ("We chose SQLite in WAL mode", "We  chose SQLite\nin WAL mode"),
    ("We chose SQLite in WAL mode", "We chose **SQLite** in `WAL` mode."),
    ("We chose SQLite in WAL mode", "- We chose SQLite in WAL mode"),
    ("We chose SQLite in WAL mode", "> We chose _SQLite_ in WAL mode"),
    ("Decision: ship offline fonts", "## Decision: ship offline fonts"),
    ("Decision: ship offline fonts", "decision - ship offline fonts"),
    ("Don't mock the database in tests", "Do not mock the database in tests"),
    ("Don't mock the database in tests", "Don\u2019t mock the database in tests."),
    ("The parser can't read tabs", "The parser cannot read tabs"),
    ("It's the owner's call", "It is the owner's call"),
    ("The port is 5432", "The port: 5432"),
    ("The port of the database is 5432", "The port of database is 5432."),
    ("Make sure that the tests pass", "Make sure the tests pass"),
    ("Please never push to main", "Never push to main"),
    ("We lint with ruff, mypy and vulture", "We lint with vulture, ruff and mypy"),
    ("We lint with ruff, mypy, and vulture", "We lint with mypy, vulture & ruff"),
    ("We support Linux and macOS", "We support macOS and Linux."),
    ("Supported formats: CSV, JSON or XML", "Supported formats: XML, CSV or JSON"),
    ("- alpha\n- beta\n- gamma", "* gamma\n* alpha\n* beta"),
    ("- owners: Anna\n- tools: uv", "- tools: uv\n- owners: Anna"),
    ('The field is called "message"', "The field is called message"),
    ("The field is called \u201cmessage\u201d", 'The field is called "message"'),
    ("Read [the docs](https://x.org/d) first", "Read the docs https://x.org/d first"),
    ("Retry at most five times; then raise", "Retry at most five times, then raise."),
    ("Log lines are JSON (one a line)", "Log lines are JSON, one a line"),
    ("Keep the read-only replica", "Keep the read only replica"),
    ("Cache keys carry the schema version", "Cache keys carry a schema version"),
    ("Die Tests laufen nachts.", "die Tests laufen nachts"),
    ("Тесты идут ночью", "тесты идут ночью!"),
    ("テストは速い。", "テストは速い"),
    ("Set `max_size` to 40 MB", "Set max_size to 40 MB."),
    ("Wait\u00a030 seconds \u2014 not more", "Wait 30 seconds - not more"),
    ("Anna & Berta review it", "Anna and Berta review it"),
    ("The queue fits into Postgres...", "The queue fits into Postgres"),
    ("Note:\n\nthe queue is FIFO", "Note: the queue is FIFO"),
    ("***Never*** rebase main", "Never rebase main"),
    ("Rotate keys every quarter !", "Rotate keys every quarter"),
)

# the older text, the newer with a gap for its value, the older value and the newer
_CORRECTIONS = (
    ("The port is 5432", "The port is {}", "5432", "5433"),
    ("The port of the database is 5432.", "The port of the database is now {}", "5432", "5433"),
    ("The server listens on port 8080", "The server listens on port {}", "8080", "9090"),
    ("Sessions expire after 30 minutes", "Sessions expire after {} minutes", "30", "15"),
    ("Caches live in /var/cache/app", "Caches live in {}", "/var/cache/app", "/srv/cache/app"),
    ("The deadline is 2026-02-01", "The deadline is {}", "2026-02-01", "2026-03-01"),
    ("Retries are limited to 3 attempts", "Retries are limited to {} attempts", "3", "5"),
    (
        "The image is built from python:3.11",
        "The image is built from {}",
        "python:3.11",
        "python:3.12",
    ),
)
CORRECTIONS = tuple(
    (older, newer.format(is_now), was, is_now) for older, newer, was, is_now in _CORRECTIONS
)

# alike except for a value, and yet two facts, or undecidable
NO_CORRECTIONS = (
    ("Test 12 fails on CI", "Test 13 fails on CI"),
    ("Issue #41 is closed", "Issue #42 is closed"),
    ("The build of 2026-03-01 took 40 s", "The build of 2026-03-02 took 40 s"),
    ("We upgraded to Python 3.11", "We upgraded to Python 3.12"),
    ("Bump ruff to 0.4.1", "Bump ruff to 0.5.0"),
    ("It is 5432", "It is 5433"),
    ("This port is 5432", "This port is 5433"),
    ("A shard is at 10.0.0.1", "A shard is at 10.0.0.2"),
    ("Yesterday the limit was 10", "Yesterday the limit was 12"),
    ("Today the limit is 10", "Today the limit is 12"),
    ("Worker 1 has 4 threads", "Worker 2 has 4 threads"),
    ("The limit of 10.0.0.1 is 5", "The limit of 10.0.0.2 is 5"),
    ("The port is 5432", "The port is 5432 or 5433"),
    ("Is the port 5432?", "Is the port 5433?"),
    ("The limit is 10 MB", "The limit is 10 GB"),
    (
        "The credentials of the database in eu-west-1",
        "The credentials of the database in eu-west-2",
    ),
    ("The port is 5432", "The port is not 5433"),
)

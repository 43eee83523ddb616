"""The memories that a question recalls from a project, and those that it must not."""

from pathlib import Path

import pytest
from linear_time import assert_linear
from msgspec.structs import replace

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.reader.view import View
from serve.recall.recall import Answer, Question, recall
from store.embedders.lexical import LexicalEmbedder
from store.home.tenant import tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

NOW = 1_800_000_000_000_000
EMBEDDER = LexicalEmbedder()
MODES = ("auto", "lexical", "vector", "entity")

# A web shop's memory, as an agent would have recorded it over some weeks.
NOTES = {
    "login": "loginHandler in src/auth/login.py rejects expired sessions with a 401",
    "cookie": "Session cookies are SameSite=Lax because the payment page comes back by POST",
    "jwt": "We chose opaque session tokens over JWT: revoking has to work at once",
    "argon": "Passwords are hashed with argon2id, 64 MiB, three passes",
    "pool": "Set pool_size to 20 in settings.py; with 5 the checkout timed out under load",
    "deadlock": "Deadlock 40P01 came from locking orders before stock; always lock stock first",
    "index": "The partial index on orders(status) cut the admin page from 4 s to 60 ms",
    "migrate": "Never run a migration and a backfill in one deploy: the table stays locked",
    "redis": "Redis is only a cache here; losing it must never lose a basket",
    "queue": "Emails go through the outbox table, not straight to the broker",
    "retry": "Retries of the payment provider need the same idempotency key",
    "webhook": "The provider sends webhooks twice; handle_webhook() drops the second by event id",
    "refund": "A refund over 500 euros needs a second person; see docs/refunds.md",
    "tax": "Tax is rounded per line, not per order: the auditor asked for it in March",
    "currency": "Amounts are integers in cents; floats lost one cent in every 40,000 orders",
    "search": "Product search uses trigram similarity with a bar of 0.3",
    "images": "Images are resized by the CDN; do not store thumbnails",
    "flaky": "test_checkout_total is flaky because it reads the wall clock; freeze the time",
    "ci": "CI caches ~/.cache/uv by the hash of uv.lock",
    "deploy": "Deploys go out Tuesday to Thursday before 15:00, never on a Friday",
    "rollback": "Roll back with `fly deploy --image` and the previous tag, not with git revert",
    "logs": "Logs are JSON; request_id must be in every line",
    "alert": "The p95 alert fires at 800 ms for five minutes",
    "oom": "Worker was killed with exit code 137: pandas read the whole export at once",
    "enoent": "ENOENT for /etc/shop/keys.pem means the secret was not mounted",
    "tls": "openssl s_client against the broker fails with CERT_HAS_EXPIRED each April",
    "style": "Ana prefers small pull requests with the test in the first commit",
    "review": "@marek reviews everything that touches src/billing/invoice.py",
    "naming": "Name boolean columns is_ or has_",
    "feature": "Feature flags live in flags.toml and are removed after two releases",
    "cafe": "Das Café in Zürich bestellt jeden Montag; naïve Rundung störte die Rechnung",
    "tokyo": "东京仓库的库存同步每天凌晨三点运行",
    "osaka": "大阪の在庫同期は毎朝五時に実行される",
    "moscow": "Сервер резервного копирования проверяет снимки каждую ночь",
    "react": "useCartTotal re-rendered on every key press until memoised",
    "mobile": "The iOS app pins API version 2024-06-01",
    "gdpr": "Deletion requests are answered within 30 days by the erase job",
    "docker": "python:3.12-slim lacks libpq; install it before psycopg",
    "stock": "Stock is reserved for 15 minutes while a customer pays",
    "goal": "Goal: move the invoices off the old monolith before summer",
}


def build_view(folder: Path, notes: dict[str, str], *, built: bool) -> View:
    place = tenant(folder)
    with EventLog(place.log, create=True) as log:
        drafts = [Draft(id=id_, content=content) for id_, content in notes.items()]
        commands.record_batch(log, drafts, NOW)
        if built:
            rebuild(place, log, EMBEDDER, NOW)
        with Reader(place, log, EMBEDDER).view() as view:
            return view


@pytest.fixture(scope="module", params=["built", "tail"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> View:
    """The shop's memory, once in a snapshot and once entirely in the tail."""
    home = tmp_path_factory.mktemp("home")
    return build_view(home, NOTES, built=request.param == "built")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> View:
    return build_view(tmp_path_factory.mktemp("home"), NOTES, built=True)


def ask(view: View, text: str, **choices: object) -> Answer:
    question = Question(text, Filter(now=NOW), 8)
    return recall(view, replace(question, **choices))


def ids(answer: Answer) -> list[str]:
    return [hit.memory.id for hit in answer.hits]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("login handler", "login"),
        ("LoginHandler", "login"),
        ("where is src/auth/login.py", "login"),
        ("login.py", "login"),
        ("handle webhook", "webhook"),
        ("use cart total", "react"),
        ("what does 40P01 mean", "deadlock"),
        ("exit code 137", "oom"),
        ("ENOENT keys.pem", "enoent"),
        ("cert_has_expired", "tls"),
        ("test_checkout_total fails sometimes", "flaky"),
        ("pool_size", "pool"),
        ("who reviews invoice.py", "review"),
        ("@marek", "review"),
        ("docs/refunds.md", "refund"),
        ("deploying on friday", "deploy"),
        ("hashing of password", "argon"),
        ("migrations and backfills", "migrate"),
        ("can I round taxes", "tax"),
        ("idempotency keys", "retry"),
        ("cafe zurich", "cafe"),
        ("naive rundung", "cafe"),
        ("ZÜRICH", "cafe"),
        ("库存同步", "tokyo"),
        ("在庫同期", "osaka"),
        ("резервная копия сервера", "moscow"),
        ("python:3.12-slim", "docker"),
        ("SameSite cookie", "cookie"),
    ],
)
def test_the_note_that_answers_comes_first(project: View, query: str, wanted: str):
    assert ids(ask(project, query))[0] == wanted


def test_the_nearest_are_as_many_as_were_asked_for(tmp_path: Path):
    notes = {f"note{number}": f"The importer reads file {number}" for number in range(90)}
    view = build_view(tmp_path, notes, built=True)
    assert len(ids(ask(view, "importer", mode="vector", top_k=80))) == 80


@pytest.mark.parametrize(("typo", "wanted"), [("pasword hashs", "argon"), ("idempotancy", "retry")])
def test_a_misspelt_word_is_found_by_its_letters(project: View, typo: str, wanted: str):
    assert wanted in ids(ask(project, typo))[:3]


@pytest.mark.parametrize("fusion", ["rrf", "weighted"])
def test_either_fusion_puts_the_answer_first(project: View, fusion: str):
    assert ids(ask(project, "deadlock while locking stock", fusion=fusion))[0] == "deadlock"


def test_a_mode_uses_its_own_channel_and_no_other(shop: View):
    query = "what does src/billing/invoice.py need"
    for mode, channels in [
        ("lexical", {"lexical"}),
        ("vector", {"vector"}),
        ("entity", {"entity"}),
        ("auto", {"lexical", "vector"}),
    ]:
        answer = ask(shop, query, mode=mode, explain=True)
        assert answer.why["candidates"].keys() == channels
        assert ids(answer)[0] == "review"


def test_the_entity_channel_finds_only_what_names_the_entity(shop: View):
    assert ids(ask(shop, "invoice.py", mode="entity")) == ["review"]
    assert ids(ask(shop, "the summer weather", mode="entity")) == []


@pytest.mark.parametrize("built", [True, False])
def test_the_entity_mode_finds_a_known_name_in_small_letters(tmp_path: Path, built: bool):
    notes = {"a": "we asked Priya about invoices", "b": "invoices are late"}
    view = build_view(tmp_path, notes, built=built)
    assert ids(ask(view, "what about priya?", mode="entity")) == ["a"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["the and of to", "?!? ... ---", "🙂🚀", " \t\n", "\u200b"])
def test_a_query_without_terms_returns_nothing(project: View, query: str, mode: str):
    answer = ask(project, query, mode=mode)
    assert answer.hits == ()
    assert answer.below_bar == 0


@pytest.mark.parametrize("query", ["quantum chromodynamics", "zebra umbrella"])
def test_unknown_words_stay_below_the_threshold(project: View, query: str):
    assert ask(project, query, min_confidence=0.5).hits == ()


def test_hits_below_the_confidence_threshold_are_counted(project: View):
    everything = ask(project, "deploy stock orders", top_k=200)
    bar = everything.hits[2].confidence
    confident = [hit for hit in everything.hits if hit.confidence >= bar]
    answer = ask(project, "deploy stock orders", top_k=200, min_confidence=bar)
    assert ids(answer) == [hit.memory.id for hit in confident]
    assert (
        answer.below_bar == answer.dropped["below_bar"] == len(everything.hits) - len(confident) > 0
    )


@pytest.mark.parametrize("profile", ["balanced", "match"])
def test_hits_below_the_score_floor_are_dropped_and_counted(project: View, profile: str):
    options = {"top_k": 200, "profile": profile}
    everything = ask(project, "deploy stock orders", **options)
    floor = everything.hits[2].score
    scoring = [hit for hit in everything.hits if hit.score >= floor]
    answer = ask(project, "deploy stock orders", min_score=floor, **options)
    assert ids(answer) == [hit.memory.id for hit in scoring]
    assert answer.dropped["below_score"] == len(everything.hits) - len(scoring) > 0
    assert answer.below_bar == 0


def test_confidence_says_how_much_of_the_question_is_covered(project: View):
    hits = ask(project, NOTES["redis"]).hits
    assert hits[0].memory.id == "redis"
    assert hits[0].confidence > 0.9
    assert all(0.0 <= hit.confidence < 0.9 for hit in hits[1:])


def test_no_more_come_back_than_were_asked_for(project: View):
    answer = ask(project, "stock orders payment deploy", top_k=3)
    assert len(answer.hits) == 3
    assert answer.dropped["over_top_k"] > 0


def test_a_question_with_no_bar_and_room_drops_nothing(project: View):
    assert ask(project, "stock orders", top_k=200).dropped == {}


def test_scores_fall_and_no_memory_comes_twice(project: View):
    answer = ask(project, "payment orders table test deploy", top_k=40)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert len(set(ids(answer))) == len(answer.hits)


def test_the_same_question_gets_the_same_answer(project: View):
    assert ask(project, "payment retries", explain=True) == ask(
        project, "payment retries", explain=True
    )


def test_explain_says_what_every_stage_did(shop: View):
    answer = ask(shop, "loginHandler in src/auth/login.py", explain=True, min_confidence=0.4)
    why, hit = answer.why, answer.hits[0].why
    assert {"loginhandler", "login", "handler"} <= why["words"].keys()
    assert "src/auth/login.py" in why["entities"]
    assert why["memories"] == why["passed_filter"] == len(NOTES)
    assert why["dropped"] == answer.dropped
    assert all(near["confidence"] < 0.4 for near in why["nearest_below_bar"])
    assert hit["channels"]["lexical"]["rank"] == 1
    assert hit["coverage"] == pytest.approx(1.0)
    assert hit["fresh"] is False


def test_without_explain_nothing_is_explained(project: View):
    answer = ask(project, "login")
    assert answer.why is None
    assert answer.hits[0].why is None


def test_a_pasted_log_costs_no_more_than_its_length(project: View):
    line = "ERROR 40P01 deadlock detected in worker_{n} at src/billing/invoice.py:{n} -> retry\n"
    pasted = "".join(line.format(n=n) for n in range(2_000))
    assert_linear(lambda text: ask(project, text), pasted[:12_500], pasted[:100_000], 8)


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("mode", ["auto", "lexical", "vector"])
def test_archived_memories_are_returned_only_on_request(tmp_path: Path, mode: str, built: bool):
    place = tenant(tmp_path)
    with EventLog(place.log, create=True) as log:
        texts = {f"n{bar}": f"the copper boiler runs at {bar} bar" for bar in (10, 20, 30, 40)}
        drafts = [Draft(id=id_, content=content) for id_, content in texts.items()]
        commands.record_batch(log, drafts, NOW)
        commands.forget(log, "n10", NOW)
        commands.archive(log, "n20", NOW)
        commands.supersede(log, "n30", "n40", NOW)
        if built:
            rebuild(place, log, EMBEDDER, NOW)
        with Reader(place, log, EMBEDDER).view() as view:
            assert ids(ask(view, "copper boiler", mode=mode)) == ["n40"]
            every = Filter(now=NOW, active_only=False)
            assert set(ids(ask(view, "copper boiler", mode=mode, filter=every))) == {
                "n20",
                "n30",
                "n40",
            }


@pytest.mark.parametrize("built", [True, False])
def test_the_same_text_is_returned_once_and_the_newest_of_it(tmp_path: Path, built: bool):
    notes = {f"copy{n}": "the copper boiler runs at ten bar" for n in range(5)}
    view = build_view(tmp_path, notes | {"other": "the steel boiler is cold"}, built=built)
    answer = ask(view, "copper boiler")
    assert ids(answer) == ["copy4", "other"]
    assert answer.dropped == {"folded": 4}


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_memory_of_a_few_notes_ranks_sensibly(tmp_path: Path, size: int, built: bool):
    notes = {
        "copper": "the copper boiler runs at ten bar",
        "falcon": "falcons nest on the boiler house",
        "queue": "emails wait in the outbox table",
    }
    some = dict(list(notes.items())[:size])
    view = build_view(tmp_path, some, built=built)
    for id_, content in some.items():
        answer = ask(view, content)
        assert ids(answer)[0] == id_
        assert answer.hits[0].confidence > 0.9
    assert ids(ask(view, "zebra", min_confidence=0.15)) == []


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_an_empty_memory_answers_with_nothing(tmp_path: Path, mode: str, built: bool):
    view = build_view(tmp_path, {}, built=built)
    conditions = Filter(now=NOW, project="shop", kinds=("fact",), tags=("api",), since=1, until=NOW)
    for filter_ in (Filter(now=NOW), conditions):
        answer = ask(view, "where is src/auth/login.py", mode=mode, filter=filter_, explain=True)
        assert answer.hits == ()
        assert not answer.is_degraded


def test_explain_names_nothing_of_another_project(tmp_path: Path):
    place = tenant(tmp_path)
    with EventLog(place.log, create=True) as log:
        secret = Draft(content="`src/merger/acme.py` computes the offer", project="bank")
        ours = Draft(content="`lib/acme.py` draws the logo", project="shop")
        commands.record_batch(log, [secret, ours], NOW)
        rebuild(place, log, EMBEDDER, NOW)
        with Reader(place, log, EMBEDDER).view() as view:
            only = Filter(now=NOW, project="shop")
            answer = ask(view, "acme.py", filter=only, explain=True)
    assert answer.why["entities"] == ["lib/acme.py"]
    assert "merger" not in repr(answer)

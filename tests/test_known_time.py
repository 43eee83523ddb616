"""Known time: recall answers as of a time, an event or a commit."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from api_client import OURS, TOKEN
from click.testing import CliRunner, Result
from hook_session import NOW, Session, opened

from serve.app import create_app
from serve.cli import main
from serve.reader.past import find_place
from serve.reader.reader import Reader
from serve.recall.request import Asker, RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.errors import NotFound
from store.home.instants import moment
from store.log import commands
from store.log.erasing import erase
from store.log.event_kinds import Revised
from store.maintenance.build import rebuild

DAY = 86_400_000_000
EMBEDDER = LexicalEmbedder()
USUAL = Choices()
TOPICS = ("billing worker", "search index", "upload limit", "session store")
FACTS = ("The {} retries a job {} times", "The {} is owned by team {}", "The {} moved to host {}")


@pytest.fixture
def session(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    yield from opened(home)


@dataclass(frozen=True)
class Asked:
    """A past recall: the log's last event, its time, and the sequence number of its receipt."""

    watermark: int
    at: int
    seq: int
    hits: bytes


def ask(session: Session, query: str, choices: Choices = USUAL, **options: Any) -> Asked:
    served = session.tenants.get("default")
    session.at += DAY // 24
    watermark = session.log.head()
    payload, receipt = answer(
        served.reader, RecallRequest(query=query, **options), choices, session.at, Asker(door="mcp")
    )
    assert receipt is not None
    [appended] = session.log.append([receipt])
    hits = msgspec.json.encode(payload["hits"])
    return Asked(watermark, session.at, appended.event.seq, hits)


def build(session: Session) -> None:
    served = session.tenants.get("default")
    rebuild(served.tenant, served.log, EMBEDDER, session.at)
    served.reader.poll()


def run(session: Session, *words: str) -> Result:
    return CliRunner().invoke(main, ["--home", str(session.tenants.settings.home), *words])


def known_output(session: Session, *words: str) -> str:
    result = run(session, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def hits(session: Session, known_at: object) -> bytes:
    words = ("recall", "how often does the billing worker retry a job", "--all-projects")
    payload = msgspec.json.decode(
        known_output(session, *words, "--known-at", str(known_at), "--json")
    )
    return msgspec.json.encode(payload["hits"])


def test_each_week_of_a_month_is_recalled_as_it_was_answered_then(session: Session):
    question, weeks = "how often does the billing worker retry a job", []
    for week in range(4):
        for number, topic in enumerate(TOPICS):
            text = FACTS[week % 3].format(topic, week * 10 + number)
            session.remember(text, id=f"m{week}-{number}")
        if week:
            change = Revised(content=f"The billing worker retries a job {week}00 times")
            commands.revise(session.log, "m0-0", change, session.at)
        if week == 2:
            build(session)
        ask(session, "upload limit", top_k=1, profile="match")  # with its own options
        choices = Choices() if week < 2 else Choices(top_k=3, profile="wal", min_confidence=0.2)
        weeks.append(ask(session, question, choices))
        if week != 2:
            build(session)
        session.remember(f"Week {week} is over", id=f"end-{week}")
        session.at += 6 * DAY
    assert len({other.hits for other in weeks}) == 4
    assert len(msgspec.json.decode(weeks[-1].hits)) == 3
    for one in weeks:
        at = moment(one.at).isoformat()
        assert hits(session, f"@{one.seq}") == one.hits
        assert hits(session, one.watermark) == one.hits
        assert hits(session, at) == one.hits
    before = session.log.head()
    assert hits(session, before) and session.log.head() == before  # it leaves no receipt


def test_every_command_answers_from_what_was_known(session: Session):
    goal = session.remember("Raise the retry limit from 3", kind="goal", id="goal")
    limit = session.remember("The retry limit is 3", kind="decision", key="retry.limit", value="3")
    lesson = session.remember("Run three retries in tests", kind="lesson", id="lesson")
    commands.revise(session.log, limit, Revised(content="The retry limit is 9"), session.at)
    commands.forget(session.log, goal, session.at)
    commands.forget(session.log, lesson, session.at)
    session.remember("The retry limit is 12", kind="decision", key="retry.limit", value="12")
    for words in (
        ("recall", "retry limit"),
        ("why", "retry limit"),
        ("why", "retry limit", limit),
        ("show", limit),
        ("list",),
        ("overview", "retry limit"),
        ("timeline",),
        ("digest",),
        ("brief",),
        ("facts", "list"),
        ("goals",),
        ("lessons", "--json"),
    ):
        then = known_output(session, *words, "--known-at", "@3")
        now = known_output(session, *words)
        assert then != now, words
        assert "is 9" not in then and "is 12" not in then, words
        if words[0] in ("recall", "show", "list", "timeline", "digest", "brief", "overview"):
            assert "The retry limit is 3" in then, words
    assert "Raise the retry limit" in known_output(session, "goals", "--known-at", "3")
    result = run(session, "show", limit, "--known-at", "@1")
    assert (result.exit_code, "no memory" in result.stderr) == (3, True)


def test_what_is_no_place_is_refused_by_what_is_one(session: Session):
    session.remember("The parser is generated")
    for wrong_moment, code, text in (
        ("tuesday", 2, "write 2026-11-20, 7d for a week ago, @1234 for an event of the log, or a"),
        ("@99", 3, "the log has no event 99: its newest is 1"),
        ("2020-01-01", 3, "nothing was known at 2020-01-01: the log begins at 2026-09-21T"),
        ("abcdef0", 3, "no commit abcdef0 was imported, and no repository here has it"),
    ):
        result = run(session, "list", "--known-at", wrong_moment)
        assert result.exit_code == code and text in result.stderr, result.stderr


def test_a_commit_is_its_import_or_its_time_in_the_repository(session: Session, tmp_path: Path):
    def commit(text: str, at: int) -> str:
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{at} +0000")
        git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        words = [*git, "commit", "-q", "--allow-empty", "-m", text]
        subprocess.run(words, check=True, env=dates)
        completed = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True)
        return completed.stdout.decode().strip()

    session.remember("The limit is 3")
    session.remember("Lower the limit", source="git", metadata={"commit": "0123456789ab"})
    session.remember("The limit is 2")
    sha = commit("Not imported", session.at // 1_000_000 - 30)
    now, choices = session.at + DAY, Choices()
    places = [
        find_place(session.log, text, choices, now, tmp_path).seq
        for text in ("0123456", "0123456789abcdef0123456789abcdef01234567", sha, sha[:9])
    ]
    assert places == [2, 2, 2, 2]
    with pytest.raises(NotFound, match="the log begins at"):
        find_place(session.log, commit("Older", NOW // 1_000_000 - 99), choices, now, tmp_path)


def test_what_was_erased_since_is_missing_and_the_answer_says_so(session: Session):
    for id_ in ("m1", "m2"):
        session.remember(f"The port of {id_} is guarded", id=id_)
    build(session)
    erase(session.log, ["m2"], session.at)
    result = run(session, "list", "--known-at", "@2", "--json")
    assert [memory["id"] for memory in msgspec.json.decode(result.stdout)["memories"]] == ["m1"]
    assert "note: 1 memory known then was erased since" in result.stderr


def test_vectors_that_cannot_be_had_are_done_without_and_that_is_said(session: Session):
    session.remember("The parser is generated")
    served = session.tenants.get("default")
    request = RecallRequest(query="parser")
    served = Reader(served.tenant, served.log, Renamed())
    _, receipt = answer(served, request, Choices(), session.at)
    assert receipt is not None
    session.log.append([receipt])
    result = run(session, "recall", "parser", "--known-at", "@2")
    assert "The parser is generated" in result.stdout
    assert "note: vectors were another-1's then, no build that is kept has them" in result.stderr


class Renamed(LexicalEmbedder):
    @property
    def model(self) -> str:
        return "another-1"


def test_rest_answers_from_what_was_known(session: Session):
    limit = session.remember("The retry limit is 3", kind="decision", key="retry.limit")
    session.remember("Raise the retry limit from 3", kind="goal", id="goal")
    first = ask(session, "retry limit")
    session.at += DAY
    commands.revise(session.log, limit, Revised(content="The retry limit is 9"), session.at)
    commands.forget(session.log, "goal", session.at)
    client = create_app(session.tenants, TOKEN, clock=lambda: session.at).test_client()

    def texts(path: str, **query: str) -> str:
        response = client.get(path, query_string=query, headers=OURS)
        assert response.status_code == 200, response.text
        return response.text

    def recall(known_at: object) -> Any:
        body = {"query": "retry limit", "known_at": known_at}
        return client.post("/v1/recall", json=body, headers=OURS)

    then = recall(2).json
    assert (then["known_at"], then["manifest"], "recall" in then) == (2, None, False)
    assert msgspec.json.encode(then["hits"]) == first.hits
    for path in ("/v1/memories", "/v1/facts", "/v1/overview", "/v1/digest"):
        query = {"topic": "retry limit"} if path == "/v1/overview" else {}
        assert "limit is 3" in texts(path, known_at="@2", **query), path
        assert "limit is 3" not in texts(path, **query), path
    assert "limit is 9" not in texts(f"/v1/memories/{limit}", known_at="1")
    assert "Raise the" in texts("/v1/goals", known_at=moment(first.at).isoformat())
    assert "lessons" in texts("/v1/lessons", known_at="1h")
    assert [recall(known_at).status_code for known_at in ("tuesday", 0, "", 99, "abcdef0")] == [
        *(400, 400, 400),
        *(404, 404),
    ]
    assert session.log.head() == 5

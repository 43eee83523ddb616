"""Past recalls repeated: the memory as of then gives the answer of then."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from conftest import ROOT
from hook_session import MINUTE, Session, opened, speaks_where_recall_is_sure
from msgspec.structs import replace

from serve.cli import main
from serve.evaluation.replay import Replayed, replay
from serve.reader.filters import Filter
from serve.reader.past import memory_at
from serve.reader.view import newest
from serve.recall import deciding
from serve.recall.request import Asker, RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.log import commands, receipts
from store.log.erasing import erase
from store.log.event_kinds import Recalled, Revised
from store.log.receipts import Wanted
from store.maintenance.build import rebuild

EMBEDDER = LexicalEmbedder()
CHOICES = Choices()
TOPICS = ("billing worker", "search index", "upload limit", "session store", "mail queue", "parser")
FACTS = (
    "The {} retries a failed job {} times",
    "The {} is owned by team {}",
    "We moved the {} and it runs on host {}",
)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    speaks_where_recall_is_sure(monkeypatch)
    yield from opened(tmp_path)


def live(session: Session, weeks: int = 4) -> None:
    """Write to, build, correct and query a project's memory for some weeks."""
    for week in range(weeks):
        session.name = f"s{week}"
        for number, topic in enumerate(TOPICS):
            session.remember(
                FACTS[week % 3].format(topic, week * 10 + number), id=f"m{week}-{number}"
            )
        if week:
            session.at += MINUTE
            change = Revised(content=f"The billing worker retries a failed job {week}00 times")
            commands.revise(session.log, "m0-0", change, session.at)
        search(session, "who owns the parser", top_k=3)
        session.ask("how often does the billing worker retry a failed job?")
        if week % 2:
            build(session)
        session.ask("on which host does the search index run?")
        search(session, "upload limit", kinds=("context", "fact"))


def build(session: Session) -> None:
    served = session.tenants.get("default")
    rebuild(served.tenant, served.log, EMBEDDER, session.at)
    served.reader.poll()


def search(session: Session, query: str, **options: object) -> None:
    session.at += MINUTE
    served = session.tenants.get("default")
    request = RecallRequest(query=query, **options)
    _, receipt = answer(served.reader, request, CHOICES, session.at, Asker(door="mcp"))
    assert receipt is not None
    served.log.append([receipt])


def replayed(session: Session, **settings: object) -> list[Replayed]:
    events = receipts.page(session.log, Wanted(), 1_000).receipts

    def change(choices: Choices) -> Choices:
        return msgspec.structs.replace(choices, **settings)

    return list(replay(session.log, EMBEDDER, events, CHOICES, change if settings else None))


def test_every_recall_of_a_month_is_answered_as_it_was(session: Session):
    live(session)
    replays = replayed(session)
    assert len(replays) == 16
    assert {replay.receipt.body.door for replay in replays} == {"prompt", "mcp"}
    assert any(replay.before.basis.built for replay in replays)
    assert any(replay.before.hits and replay.before.door == "prompt" for replay in replays)
    assert [replay.before.query for replay in replays if replay.verdict != "same"] == []
    assert all(replay.hits == replay.before.hits for replay in replays)


def test_replay_reports_answers_under_other_settings(session: Session):
    live(session, 2)
    replays = replayed(session, top_k=1)
    changed = [replay for replay in replays if replay.verdict == "changed"]
    assert changed and all(len(replay.hits) <= 1 for replay in changed)


def test_recalls_that_cannot_be_replayed_have_a_reason(session: Session):
    session.remember("The parser is generated")
    search(session, "who owns the parser")
    (event,) = receipts.page(session.log, Wanted(), 1).receipts
    body = event.body
    assert isinstance(body, Recalled)
    missing = {
        "its query was erased": replace(event, body=msgspec.structs.replace(body, query="")),
        "its receipt is of an earlier version": replace(
            event, body=msgspec.structs.replace(body, basis=None)
        ),
        "it was answered with other-1": replace(
            event,
            body=msgspec.structs.replace(
                body, basis=msgspec.structs.replace(body.basis, embedder="other-1")
            ),
        ),
    }
    replays = replay(session.log, EMBEDDER, list(missing.values()), CHOICES)
    assert [(replay.verdict, replay.why) for replay in replays] == [
        ("skipped", why) for why in missing
    ]


def test_changing_a_file_that_decides_answers_changes_the_code_digest(tmp_path: Path):
    for name in ("serve", "store"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    here = deciding.digest_files(tmp_path)
    assert here == deciding.code()
    with (tmp_path / "serve/cli/output.py").open("a") as other:
        other.write("# says the same\n")
    assert deciding.digest_files(tmp_path) == here
    with (tmp_path / "store/agents/weights.npz").open("ab") as weights:
        weights.write(b"-")
    refitted = deciding.digest_files(tmp_path)
    with (tmp_path / "serve/recall/ranking.py").open("a") as ranking:
        ranking.write("# ranks otherwise\n")
    assert len({here, refitted, deciding.digest_files(tmp_path)}) == 3


def test_a_replay_leaves_the_memory_as_it_is(session: Session):
    live(session, 1)
    before = session.log.head()
    replayed(session)
    assert session.log.head() == before


def test_the_command_lists_changed_answers(session: Session):
    live(session, 2)
    command = ("--home", str(session.tenants.settings.home), "replay")
    same = CliRunner().invoke(main, [*command])
    assert (same.exit_code, same.stdout) == (
        0,
        "recalls asked again: 8; as they were: 8; changed: 0\n",
    )
    tried = CliRunner().invoke(main, [*command, "--set", "top_k=1", "--json"])
    payload = msgspec.json.decode(tried.stdout)
    assert tried.exit_code == 0 and payload["changed"]
    assert all(len(change["after"]) <= 1 for change in payload["changed"])
    output = CliRunner().invoke(main, [*command, "--set", "top_k=1"]).stdout
    assert "  - 2. m" in output and "upload limit" in output
    refused = CliRunner().invoke(main, [*command, "--set", "top_n=1"])
    assert refused.exit_code != 0 and "top_k" in refused.stderr


def test_memories_erased_since_are_missing_from_the_past_too(session: Session):
    for id_, text in (("m1", "The port is 5432"), ("m2", "The port is guarded by Bob")):
        session.remember(text, id=id_)
    build(session)
    session.remember("The port is open", id="m3")
    erase(session.log, ["m2", "m3"], session.at)
    with memory_at(session.log, EMBEDDER, 3, 2) as reader:
        request = RecallRequest(query="port", touch=False)
        payload, _ = answer(reader, request, CHOICES, session.at)
        assert [hit["id"] for hit in payload["hits"]] == ["m1"]
        with reader.view() as view:
            assert [memory.id for memory in newest(view, Filter(session.at), 9)] == ["m1"]

"""Bundles: a recall repeated in another home, without a secret or another project's text."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hook_session import MINUTE, Session, opened, speaks_where_recall_is_sure
from msgspec.structs import replace

from serve.cli import main
from serve.evaluation.bundle import Bundle, make_bundle, read_bundle, rerun, write_bundle
from serve.recall.request import Asker, RecallRequest, answer
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.home.errors import Conflict, InvalidInput
from store.home.instants import new_id
from store.log import commands
from store.log.event_kinds import Acted, Body, Prompted, Recalled, Recorded, SessionTold
from store.log.events import Event
from store.maintenance.build import rebuild

EMBEDDER = LexicalEmbedder()
OURS, THEIRS = "acme/shop", "acme/payroll"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
WORDS = ("salary", "bonus", "pension", "Zimmermann", "accountant")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    speaks_where_recall_is_sure(monkeypatch)
    yield from opened(tmp_path)


@pytest.fixture
def lived(session: Session, plant) -> Session:
    """Two projects that grew side by side, were built and queried; ours once held a secret."""
    for number in range(12):
        session.remember(f"The shop's upload worker {number} retries a job {number} times")
        session.remember(f"Our cart page {number} is rendered by team {number}", project=OURS)
        session.remember(f"The {WORDS[number % 5]} upload {number} of Zimmermann", project=THEIRS)
    for project, text in ((THEIRS, "The pension job"), (OURS, "The carts are painted green")):
        commands.forget(session.log, session.remember(text, project=project), session.at)
    text = f"The shop's upload token is {SECRET}"
    plant(session.log, "leak", Recorded(content=text))
    for body in (
        Prompted(prompt="why does the upload of the pension fail?", intent="question"),
        Acted(tool="Bash", doing="run", command="make salary", passed=False, error="no accountant"),
        SessionTold(stage="stopped", said="Zimmermann's bonus was missing"),
    ):
        session.at += MINUTE
        session.log.append([event_of(session, body)])
    served = session.tenants.get("default")
    rebuild(served.tenant, served.log, EMBEDDER, session.at)
    served.reader.poll()
    session.remember("The bonus upload retries for ever", project=THEIRS)
    session.remember("Uploads of the cart are retried at night", project=OURS)
    return session


def event_of(session: Session, body: Body) -> Event:
    id_ = new_id(session.at)
    return Event(id_, session.at, body, id_, THEIRS, "s9", "claude-code")


def recalled(session: Session, query: str, **asked: object) -> Event:
    session.at += MINUTE
    served = session.tenants.get("default")
    request = RecallRequest(query=query, **asked)
    choices = Choices()
    _, receipt = answer(served.reader, request, choices, session.at, Asker(door="mcp"))
    assert receipt is not None
    return served.log.append([receipt])[0].event


def bundled(session: Session, receipt: Event, folder: Path, **how: bool) -> Bundle:
    bundle = make_bundle(session.log, EMBEDDER, "lexical", receipt, **how)
    write_bundle(bundle, folder)
    return bundle


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_a_bundle_reruns_to_the_byte_and_has_no_text_of_other_projects(lived, tmp_path):
    receipt = recalled(lived, "how often does the upload worker retry a job?", project=OURS)
    bundle = bundled(lived, receipt, tmp_path / "bundle")
    replay = rerun(read_bundle(tmp_path / "bundle"), EMBEDDER)
    assert (replay.verdict, replay.said) == ("same", bundle.answer)
    assert bundle.is_same and replay.digest == receipt.body.digest and bundle.stand_ins == 15
    assert [hit.id for hit in replay.hits] == [hit.id for hit in receipt.body.hits] != []
    data = all_bytes(tmp_path / "bundle")
    assert SECRET.encode() not in data and b"painted green" not in data
    assert not [word for word in (*WORDS, THEIRS) if word.lower().encode() in data.lower()]


def test_a_secret_in_the_query_or_a_rating_is_in_no_file(lived, tmp_path, plant):
    receipt = recalled(lived, "upload worker 3", project=OURS)
    commands.rate(lived.log, receipt.id, -1.0, lived.at, "not what I asked of Zimmermann")
    body = msgspec.structs.replace(receipt.body, query=f"upload worker 3 {SECRET}")
    bundled(lived, replace(receipt, body=body), tmp_path / "bundle")
    assert SECRET.encode() not in all_bytes(tmp_path / "bundle")
    later = recalled(lived, "upload worker 4", project=OURS)
    bundled(lived, later, tmp_path / "later")
    assert b"Zimmermann" not in all_bytes(tmp_path / "later")


def test_a_prompt_is_bundled_with_its_block_and_the_acts_of_its_session(lived, tmp_path):
    lived.cwd, lived.name = None, "s1"
    lived.ask("how often does upload worker 3 retry a job?")
    lived.stop()
    block = lived.ask("and how often does the shop's upload worker 7 retry a job?")
    *_, receipt = lived.events(Recalled)
    assert receipt.body.door == "prompt" and block
    bundle = bundled(lived, receipt, tmp_path / "bundle")
    replay = rerun(read_bundle(tmp_path / "bundle"), EMBEDDER)
    assert replay.verdict == "same" and replay.said.decode() == block and bundle.is_same


def test_a_recall_of_all_projects_is_bundled_only_on_request(lived, tmp_path):
    receipt = recalled(lived, "which upload retries for ever?")
    with pytest.raises(InvalidInput, match="--all-projects"):
        make_bundle(lived.log, EMBEDDER, "lexical", receipt)
    bundle = bundled(lived, receipt, tmp_path / "bundle", all_projects=True)
    assert bundle.is_same and bundle.stand_ins == 0


def test_a_bundle_with_another_digest_is_reported_as_different(lived, tmp_path):
    receipt = recalled(lived, "upload worker 3", project=OURS)
    other = msgspec.structs.replace(receipt.body, digest="0" * 16)
    bundle = bundled(lived, replace(receipt, body=other), tmp_path / "bundle")
    assert not bundle.is_same and bundle.stand_ins == 0
    assert "differs" in (tmp_path / "bundle" / "README.md").read_text()
    assert rerun(read_bundle(tmp_path / "bundle"), EMBEDDER).verdict == "same"


def test_unusable_bundles_are_refused_with_a_reason(lived, tmp_path):
    receipt = recalled(lived, "upload worker 3", project=OURS)
    erased = replace(receipt, body=msgspec.structs.replace(receipt.body, query=""))
    with pytest.raises(Conflict, match="its query was erased"):
        make_bundle(lived.log, EMBEDDER, "lexical", erased)
    bundle = bundled(lived, receipt, tmp_path / "bundle")
    with pytest.raises(InvalidInput, match="not empty"):
        write_bundle(bundle, tmp_path / "bundle")
    with pytest.raises(InvalidInput, match="no bundle"):
        read_bundle(tmp_path)
    (tmp_path / "bundle" / "events.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(InvalidInput, match="no bundle"):
        read_bundle(tmp_path / "bundle")


def test_the_commands_list_show_bundle_and_rerun(lived, tmp_path):
    receipt = recalled(lived, "how often does the upload worker retry a job?", project=OURS)
    lived.tenants.get("default").notes.write()

    def run(home: Path, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["--home", str(home), "receipts", *words])
        return result.exit_code, result.output

    home, folder = lived.tenants.settings.home, tmp_path / "bundle"
    assert "how often does the upload" in run(home)[1]
    code, text = run(home, "show", receipt.id[:20])
    assert code == 0 and "lexical" in text and receipt.body.hits[0].id[:8] in text
    code, text = run(home, "bundle", receipt.id, "--out", str(folder))
    assert code == 0 and "to the byte" in text, text
    elsewhere = tmp_path / "elsewhere"
    code, text = run(elsewhere, "rerun", str(folder))
    assert code == 0 and "to the byte" in text, text
    (folder / "answer.txt").write_bytes(b"[]")
    code, text = run(elsewhere, "rerun", str(folder))
    assert code == 1 and "another answer" in text
    assert not elsewhere.exists()

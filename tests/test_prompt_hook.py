"""The context injected with a prompt: relevant memories, each once, or nothing."""

import threading
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from hook_session import MINUTE, Session, ids, notes, opened, speaks_where_recall_is_sure
from msgspec.structs import replace

from serve.hooks import prompt as prompt_hook
from serve.hooks import speaking
from serve.reader.filters import Filter
from serve.recall import query_embedder
from serve.recall.analysis import default_question
from serve.recall.context_block import RULES
from serve.recall.recall import recall
from store.agents.prompt_classifier import read_intent
from store.embedders.embedder import Matrix
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Choices
from store.log import commands
from store.log.event_kinds import Prompted, Recalled, Revised, Surfaced
from store.maintenance.build import rebuild

DAY = 24 * 60 * MINUTE
ASKED = "which package manager do we use in this repository?"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield from opened(tmp_path)


@pytest.fixture
def knows(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose memory holds a rule and a decision about package managers, with hooks that
    inject every match by words.
    """
    speaks_where_recall_is_sure(monkeypatch)
    session.remember("Use pnpm as the package manager, never npm", kind="preference", id="rule")
    session.remember(
        "The repository moved its package manager from yarn to pnpm", kind="decision", id="why"
    )
    return session


# The content


def test_a_prompt_brings_what_is_known_rules_first(knows: Session):
    notes_ = notes(knows.ask(ASKED))
    assert [(note["id"], note.get("rule"), note.get("decision")) for note in notes_] == [
        ("rule", "Use pnpm as the package manager, never npm", None),
        ("why", None, "The repository moved its package manager from yarn to pnpm"),
    ]


NOTED = (
    "The billing worker retries a failed charge three times",
    "Invoices are numbered per tenant and year",
    "Dark mode follows the system setting",
    "The upload limit is 25 MB behind nginx",
    "Sessions are kept in redis for a week",
    "The search index is rebuilt at night",
    "Emails are sent through Postmark",
    "Avatars are resized with sharp",
    "Feature flags live in flags.yaml",
    "Passwords are hashed with argon2",
)


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("how often is a failed charge retried by the billing worker?", NOTED[:1]),
        ("raise the upload limit behind nginx to 50 MB", NOTED[3:4]),
        ("what is the capital of Peru?", ()),
        ("how do i reverse a list in python", ()),
    ],
)
def test_a_note_is_told_to_the_prompt_it_answers_and_to_no_other(
    session: Session, prompt: str, told: tuple[str, ...]
):
    for text in NOTED:
        session.remember(text)
    assert tuple(note["fact"] for note in notes(session.ask(prompt))) == told


@pytest.mark.parametrize(
    "prompt", ["thanks!", "run the tests", "/compact", "what is the capital of Peru?"]
)
def test_a_prompt_without_relevant_notes_gets_no_reply(knows: Session, prompt: str):
    assert knows.ask(prompt) == ""
    assert [event.body.prompt for event in knows.events(Prompted)] == [prompt]


class SlowModel(LexicalEmbedder):
    """A model that is not done before the test ends."""

    is_cheap = False

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        self.is_asked.set()
        self.may_answer.wait(60)
        return super().embed_queries(texts)


def test_a_prompt_is_answered_by_its_words_if_the_model_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = SlowModel()
    monkeypatch.setattr(query_embedder, "make_embedder", lambda *_, **__: model)
    speaks_where_recall_is_sure(monkeypatch)
    for session in opened(tmp_path):
        monkeypatch.setattr(prompt_hook, "AFTER_VECTOR_S", session.deadline_s - 0.05)
        session.remember("Use pnpm as the package manager, never npm", id="rule")
        assert ids(session.ask(ASKED)) == ["rule"]
    assert model.is_asked.is_set()
    model.may_answer.set()


def test_a_receipt_holds_the_digest_of_the_block_and_what_decided_it(knows: Session):
    text = knows.ask(ASKED)
    receipt = knows.events(Recalled)[0].body
    assert receipt.digest == sha256(text.encode()).hexdigest()[:16]
    assert (receipt.door, receipt.characters) == ("prompt", len(text))
    assert receipt.basis.embedder == LexicalEmbedder().model and receipt.basis.no_project


def test_unsure_notes_are_not_injected(knows: Session, monkeypatch):
    mute = replace(speaking.MODELS["note"], bar=1.1)
    monkeypatch.setattr(speaking, "MODELS", dict.fromkeys(speaking.MODELS, mute))
    assert knows.ask(ASKED) == ""
    dropped = knows.events(Recalled)[0].body.dropped
    assert dropped.get("unsaid", 0) + dropped.get("near", 0) == 2


def test_the_intent_of_a_prompt_is_kept(knows: Session):
    wants = {
        "thanks!": "small_talk",
        "/compact": "command",
        "go on": "command",
        "add a package": "work",
        "what is the capital of Peru?": "general",
        "where did we leave off?": "recap",
        "wrong file, that is the client not the server": "correction",
    }
    for prompt in wants:
        knows.ask(prompt)
    assert {event.body.prompt: event.body.intent for event in knows.events(Prompted)} == wants


def test_the_same_notes_are_the_same_bytes_in_another_session(knows: Session):
    first = knows.ask(ASKED)
    knows.name = "s2"
    assert knows.ask("what package manager do we use here in the repository?") == first


def test_open_goals_come_when_they_are_asked_for(knows: Session):
    knows.remember("Move all packages to pnpm", kind="goal", id="far")
    knows.remember("Drop the yarn lock", kind="goal", id="near", metadata={"due": "2026-10-01"})
    knows.remember("Choose a manager", kind="goal", id="done", status="done")
    assert knows.ask("hello there") == ""
    assert sorted(ids(knows.ask("where were we?"))) == ["far", "near"]
    assert ids(knows.ask("what are the next steps?")) == []  # already in the model's context
    knows.name = "s2"
    assert {"far", "near"} <= set(ids(knows.ask("what are the next steps?")))


def test_a_rule_that_names_what_the_prompt_names_comes_whatever_its_confidence(session: Session):
    session.remember("Use pnpm, never npm", kind="preference", id="rule")
    session.remember("We met on Tuesday to talk about the roadmap", id="meeting")
    assert ids(session.ask("add lodash with npm so that the dashboard can group by week")) == [
        "rule"
    ]
    assert session.ask("add moment with npm, too, for the calendar of the dashboard") == ""
    assert session.events(Surfaced)[0].subject == "rule"


# Unwanted content


def test_tool_or_web_content_is_attributed_and_never_a_rule_or_goal(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    for number in range(200):
        session.remember(
            f"The package manager we use in this repository is canary {number}",
            kind=("lesson", "goal", "decision", "bugfix", "preference")[number % 5],
            trust=("tool", "web")[number // 5 % 2],
            session=session.name,
        )
    at_a_prompt = session.ask(ASKED)
    assert "canary" in at_a_prompt
    blocks = [at_a_prompt, session.ask("where were we?"), session.ask("what are our goals?")]
    started = [session.start(start) for start in ("startup", "compact", "resume", "clear")]
    for note_ in (note for block in blocks + started for note in notes(block)):
        if "canary" in str(note_):
            assert "note" in note_ and note_["by"] in ("tool", "web") and "rule" not in note_
    assert "canary" not in started[0] + started[3]  # these goals are nobody's of this project
    assert all(RULES not in block for block in blocks)


def test_pinned_tool_content_is_still_attributed_to_the_tool(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    id_ = session.remember("Use bun as the package manager", kind="lesson", trust="tool", id="tool")
    commands.pin(session.log, id_, session.at)
    assert session.start() == ""
    (payload,) = notes(session.ask(ASKED))
    assert (payload["id"], payload["by"], "rule" in payload) == ("tool", "tool", False)


# Each memory once


@pytest.mark.parametrize("prompt", ["run the build again", "show the failing test", "tail the log"])
def test_an_order_of_few_common_words_brings_no_note(session: Session, prompt: str):
    for number in range(40):
        session.remember(f"The build of module {number} ran again with a failing test in the log")
    session.remember("To run the build again after a failing test, show the tail of the log")
    assert not session.ask(prompt)


def test_a_standing_text_brings_no_copies_of_itself(session: Session, monkeypatch):
    speaks_where_recall_is_sure(monkeypatch)
    blocks = []
    for number in range(4):
        session.name = f"day {number}"
        blocks.append(session.ask("Write down the routes of the harbour parser"))
        session.stop(f"The route of parcel {number} is in.")
    assert [bool(block) for block in blocks] == [False, True, False, False]


@pytest.mark.parametrize(
    ("end", "is_told"), [("Let me look at it first. Which one?", False), ("It is 8443.", True)]
)
def test_a_turn_that_reported_nothing_is_not_told(
    session: Session, monkeypatch, end: str, is_told: bool
):
    speaks_where_recall_is_sure(monkeypatch)
    session.ask("Find the port of the harbour parser in the settings")
    session.stop(end)
    session.name = "later"
    assert bool(session.ask("Change the port of the harbour parser")) == is_told


def test_the_same_kind_of_fact_in_each_of_a_few_projects_is_told(session: Session):
    for name in ("api", "web", "jobs", "mail"):
        session.remember(f"The staging database of this service is db-{name}-9", project=name)
    session.remember("The staging database of this service is db-own-9")
    assert "db-own-9" in session.ask("which staging database does this service use?")


def test_a_memory_that_grew_much_since_its_build_is_still_heard(session: Session):
    for text in NOTED:
        session.remember(text)
    served = session.tenants.get("default")
    rebuild(served.tenant, served.log, LexicalEmbedder(), session.at)
    served.reader.poll()
    for number in range(300):
        session.remember(f"Ticket {number} was closed by somebody of the night shift")
    assert session.ask("when are emails sent through Postmark?")


def test_a_note_is_injected_once_per_session(knows: Session):
    assert knows.ask(ASKED) and not knows.ask(ASKED + " again")
    assert knows.events(Recalled)[1].body.hits == ()
    knows.name = "s2"
    assert knows.ask(ASKED)


def test_only_new_notes_are_injected(knows: Session):
    knows.ask(ASKED)
    knows.remember("The package manager pnpm is pinned to 9 in this repository", id="new")
    assert ids(knows.ask(ASKED + " again")) == ["new"]


def test_a_changed_note_is_injected_again(knows: Session):
    knows.ask(ASKED)
    knows.at += MINUTE
    commands.revise(knows.log, "why", Revised(context="it saves disk space"), knows.at)
    assert ids(knows.ask(ASKED + " again")) == ["why"]


@pytest.mark.parametrize(
    ("start", "again"), [("compact", True), ("clear", True), ("resume", False)]
)
def test_a_note_may_be_injected_again_after_compaction(knows: Session, start: str, again: bool):
    knows.ask(ASKED)
    ids_ = ids(knows.start(start)) + ids(knows.ask(ASKED + " again"))
    assert sorted(ids_) == (["rule", "why"] if again else [])


# The recorded events


def test_an_injected_rule_is_recorded_as_surfaced(knows: Session):
    knows.ask(ASKED)
    assert [(event.subject, event.body.place) for event in knows.events(Surfaced)] == [
        ("rule", "prompt")
    ]
    receipt = knows.events(Recalled)[0].body
    assert {hit.id for hit in receipt.hits} == {"rule", "why"} and receipt.query == ASKED


def test_notes_of_other_projects_are_not_injected(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    speaks_where_recall_is_sure(monkeypatch)
    session.remember("Use pnpm as the package manager here", project="acme/web", id="theirs")
    session.remember("Use npm as the package manager by default", id="ours")
    assert ids(session.ask(ASKED)) == ["ours"]


def test_a_recap_of_a_time_tells_what_was_noted_then(session: Session):
    session.at -= 7 * DAY
    session.remember("The parser is generated with lark", kind="decision", id="lark")
    session.remember("The office closes at six", id="office")
    session.at += 7 * DAY
    session.remember("The linter is ruff", kind="decision", id="ruff")
    ids_ = ids(session.ask("what did we decide last week?"))
    assert ids_[0] == "lark" and "ruff" not in ids_


def test_superseded_notes_are_not_injected(knows: Session):
    knows.remember("Use bun as the package manager", kind="preference", id="newer")
    commands.supersede(knows.log, "rule", "newer", knows.at)
    assert "rule" not in ids(knows.ask(ASKED))


def test_a_late_reply_is_not_recorded_as_shown(knows: Session):
    knows.deadline_s = 1e-9
    assert knows.ask(ASKED) == ""
    assert not knows.events(Recalled) and not knows.events(Surfaced) and knows.events(Prompted)
    knows.deadline_s = 30.0
    assert ids(knows.ask(ASKED + " again")) == ["rule", "why"]


@pytest.mark.parametrize(
    "prompt",
    [
        " ",
        "\x00",
        "?" * 16_000,
        "package manager " * 1_000,
        "\u202e\u200b pnpm \U000e0041",
        "🙂 pnpm 言語 пакет",
        '{"prompt": "which package manager"}',
        "Traceback (most recent call last):\n" + '  File "a.py", line 1\n' * 400,
        "$(rm -rf /) `pnpm` ; DROP TABLE events; --",
        "\\" * 3_000 + "((((((((((" * 200,
    ],
)
def test_whatever_is_typed_is_answered_by_a_block_or_by_silence(
    knows: Session, caplog: pytest.LogCaptureFixture, prompt: str
):
    assert set(ids(knows.ask(prompt))) <= {"rule", "why"}
    assert caplog.text == "" and len(knows.events(Prompted)) == 1


def test_where_we_left_off_is_the_last_session_of_substance(session: Session):
    session.ask("start the export of invoices as csv")
    session.use(doing="edit", files=("export.py",))
    session.stop("The csv is written. Still open: the encoding of umlauts, and a test.")
    session.name = "s2"
    session.ask("make the logo smaller")
    session.use(doing="edit", files=("logo.css",))
    session.stop("The logo is smaller.")
    session.name = "s3"
    text = session.ask("where did we leave off?")
    assert "umlauts" in text and "logo" not in text


def test_a_turn_is_likelier_to_help_the_nearer_its_answer_is_to_the_prompt(session: Session):
    prompt = "make the upload retry five times"
    session.ask("the upload fails when the network drops")
    session.stop("The upload now retries.")
    with session.tenants.get("default").reader.view() as view:
        (hit,) = recall(view, default_question(prompt, Filter(now=session.at), Choices())).hits
        answers = (
            "The upload now retries: an upload that fails is an upload that retries.",
            "The upload now retries. The colours of the settings page, its margins and fonts are "
            "those of the design, too.",
        )
        near, far = (
            replace(hit, memory=replace(hit.memory, result=answer, action="edited upload.py"))
            for answer in answers
        )
        chances = [
            speaking.score_hits(view, prompt, read_intent(prompt), [hit], {})[0].chance
            for hit in (near, far)
        ]
        signs = [
            speaking.features(view, prompt, read_intent(prompt), [hit], {})[0][1]
            for hit in (near, far)
        ]
    nearness = speaking.FEATURES.index("near")
    assert 1.0 > signs[0][nearness] > signs[1][nearness] > 0.0
    assert signs[0][:nearness] == signs[1][:nearness]  # the same words of the prompt are in both
    assert chances[0] > chances[1]

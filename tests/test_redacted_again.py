"""Text recorded by an earlier version is built, answered and shown redacted by today's patterns."""

import json

from click.testing import CliRunner
from msgspec.structs import replace

from serve.cli import main
from serve.reader.reader import Reader
from store.derived import catalog
from store.log.event_kinds import (
    Acted,
    Prompted,
    Proposed,
    Quarantined,
    Recorded,
    Revised,
    SessionTold,
)
from store.log.events import Event
from store.log.rows import redact_event
from store.maintenance import build, export, quarantine
from store.memories.fold import Fold
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.redaction import redact

NOW = 1_790_000_000_000_000
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3  # assembled, so that no scanner takes it for a leak
SAYS = f"the deploy token is {TOKEN}"


def content(built, id_: str) -> str:
    with Reader(built.tenant, built.log, built.embedder).view() as view:
        memory = view.tail.find(id_)
        assert memory is not None and memory.state == "active"
        return memory.content


def test_an_old_home_of_many_secrets_is_built_whole_and_redacted(built, plant):
    for number in range(500):
        plant(built.log, f"old{number}", Recorded(content=f"{SAYS} of service {number}"))
    full = built.rebuild(full=True)
    assert full.watermark == built.log.head() and quarantine.entries(built.log) == []
    assert TOKEN not in content(built, "old499")
    assert "of service 499" in content(built, "old499")
    assert not any(
        TOKEN.encode() in part.read_bytes() for part in built.tenant.snapshots.rglob("*.arrow")
    )


def test_a_build_in_steps_redacts_as_one_anew_does(built, plant):
    plant(built.log, "old", Recorded(content=SAYS, metadata={"by": [TOKEN]}, tags=(TOKEN,)))
    plant(built.log, "said", Revised(content=f"now {TOKEN}"), kind="revised")
    assert built.rebuild().digests == built.rebuild(full=True).digests


def test_the_tail_does_not_show_it_before_a_build(built, plant):
    plant(built.log, "old", Recorded(content=SAYS))
    assert TOKEN not in content(built, "old") and "[redacted:github-token:" in content(built, "old")


def test_what_was_built_with_other_patterns_is_built_anew(built, plant, monkeypatch):
    plant(built.log, "old", Recorded(content=SAYS))
    with monkeypatch.context() as before:
        for name in ("_BLOCK_CUES", "_WORD_CUES", "_NAMED_CUES"):  # a version without patterns
            before.setattr(redact, name, ())
        before.setattr(redact.bare_tokens, "find_bare_tokens", lambda text, starts: ())
        before.setattr(catalog, "MEMORIES_PROJECTION", replace(MEMORIES_PROJECTION, version=""))
        built.rebuild()
        assert TOKEN in content(built, "old")
    assert TOKEN not in content(built, "old")  # the published snapshot is not used
    built.rebuild()
    assert TOKEN not in content(built, "old")


def test_a_secret_that_is_released_from_quarantine_is_built_redacted(built, plant):
    plant(built.log, "old", Recorded(content=SAYS))
    quarantined = Event("q", NOW, Quarantined(check="no_secrets", reason="1 secret"), "old")
    built.log.append([quarantined])
    built.rebuild()
    quarantine.release(built.log, ["old"], NOW)
    built.rebuild()
    assert quarantine.entries(built.log) == [] and TOKEN not in content(built, "old")


def test_a_turn_of_an_agent_and_a_draft_are_redacted_too(built, plant):
    of_session = {"session": "s", "project": "p"}
    fold = Fold()
    bodies = (
        Prompted(prompt=SAYS),
        Acted(tool="Bash", doing="run", command=f"deploy {TOKEN}"),
        SessionTold(stage="stopped", said=SAYS),
    )
    for number, body in enumerate(bodies):
        fold.apply(Event(f"e{number}", NOW, body, f"e{number}", **of_session, seq=number + 1))
    assert TOKEN not in repr(fold.rows)
    plant(
        built.log, "d", Proposed(what="lesson", because=SAYS, draft={"content": SAYS}), "proposed"
    )
    tables = build.digests(built.log, built.embedder, built.log.head())["lessons"]
    (row,) = tables["drafts"].to_pylist()
    assert TOKEN not in repr(row) and "[redacted:" in row["because"]


def test_history_and_exports_show_it_redacted_and_the_log_keeps_it_for_erase(built, plant):
    plant(built.log, "old", Recorded(content=SAYS))
    assert TOKEN not in repr(built.log.events_for("old"))
    assert TOKEN not in b"".join(export.export(built.log, NOW)).decode()
    assert TOKEN in repr([*built.log.read()])
    erased = CliRunner().invoke(main, ["erase", "--text", TOKEN, "--yes"])
    assert erased.exit_code == 0, erased.output
    assert TOKEN not in repr([*built.log.read()])


def test_what_is_recorded_again_is_the_same_event(built, plant):
    plant(built.log, "old", Recorded(content=SAYS))
    (again,) = built.log.append([Event("old", NOW, Recorded(content=SAYS), "old")])
    assert not again.is_new


def test_an_event_without_a_secret_is_itself():
    event = Event("a", 1, Recorded(content="a", tags=("b",), metadata={"c": ["d"]}), "a")
    assert redact_event(event) is event


def test_doctor_says_what_the_log_still_keeps_and_the_cure(built, plant):
    for number in range(4):
        plant(built.log, f"old{number}", Recorded(content=SAYS))
    findings = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)["findings"]
    (problem,) = [finding for finding in findings if "secrets" in finding["what"]]
    assert problem["severity"] == "warn" and "4 events: old0, old1, old2, ...;" in problem["what"]
    assert "`mnemolog erase ID`" in problem["cure"] and TOKEN not in repr(findings)

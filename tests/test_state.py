"""Replaced and ended memories are marked in recall, blocks and briefs, and can be reinstated."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_selection import HOUR, NOW, Memory, memory

from serve.hooks.earlier_turns import without_asides
from serve.recall.context_block import note
from serve.recall.recall import Hit
from store.derived import state
from store.derived.claim_links import NAMES, Claims, is_change
from store.derived.state import claims_of
from store.home.tenant import Tenant
from store.log import commands
from store.log.event_log import EventLog
from store.memories.memory import Memory as Row
from store.text.claim_pairs import SURE, UNSURE, WEIGHTS
from store.text.claims import CUES, claims, parse, tells_of_past

__all__ = ["memory"]  # a fixture

DATA = Path(__file__).parent / "data" / "state"


def links(*prompts: str, sessions: int = 1) -> dict[tuple[int, int], tuple[str, float]]:
    """Return relation and probability by the positions of the older and newer prompt."""
    claims = Claims()
    for place, prompt in enumerate(prompts):
        session = f"s{place % sessions}"
        for statement in claims_of(str(place), "episode", prompt, "p", session, place * HOUR):
            claims.add(statement)
    statements = claims.said
    return {
        (int(statements[link.older].id), int(statements[link.newer].id)): (
            NAMES[link.relation],
            link.probability,
        )
        for link in claims.links
    }


def is_over(found_links: dict[tuple[int, int], tuple[str, float]], older: int, newer: int) -> bool:
    relation, chance = found_links.get((older, newer), ("none", 0.0))
    return relation in ("replaces", "ends", "rests") and chance >= SURE


def test_a_claim_is_a_sentence_that_asks_nothing():
    text = "We use uv. Why? Update: the port is 5433; fine\n```\nx = 1\n```\nthe end"
    assert [claim.text for claim in claims(text)] == [
        "We use uv.",
        "Update: the port is 5433;",
        "fine",
        "the end",
    ]


def test_a_claim_knows_its_key_its_values_and_what_it_announces():
    claim = parse("Update, release date v2: moved to May 3, build 12 is off")
    assert claim.key == ("releas", "date")
    assert {"may", "3", "build 12"} <= {value for _, value, _, _ in claim.values}
    assert claim.has("label") and claim.has("moved") and not claim.has("also")


def test_cues_have_one_bit_each():
    assert len(CUES) == len(set(CUES)) < 32


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("release date: May 3", "Update, release date v2: June 10"),
        ("The retry limit is 5.", "Actually, the retry limit is 8."),
        ("Schedule the demo for next month.", "No wait, change that to this month."),
        ("Put the meeting on Tuesday.", "actually Wednesday"),
    ],
)
def test_a_correction_ends_what_it_corrects(older: str, newer: str):
    assert is_over(links(older, newer), 0, 1)


@pytest.mark.parametrize(
    "line",
    [
        '"startLineNumber": 263,',
        "Restore complete (0.8s)",
        "64 |               <CardTitle>Lista de Clientes</CardTitle>",
        "http://localhost:5173/src/App.tsx?t=1759053869613",
        "@Python: sample_data_routes (11-25)",
    ],
)
def test_a_line_of_a_program_or_an_editor_is_no_claim(line: str):
    assert not claims(line)
    assert claims(f"Put this into the notes: {line} it is what we decided.")


def test_what_repeats_a_claim_is_over_with_it():
    found_links = links(
        "hall seats: 120 seats in the hall",
        "Based on the survey: 120 seats in the hall",
        "Update, hall seats corrected: 95 seats in the hall",
    )
    assert is_over(found_links, 0, 2) and is_over(found_links, 1, 2)


def test_a_conclusion_rests_on_what_is_over():
    found_links = links(
        "hall seats: 120 seats in the hall",
        "So: sell 110 tickets, keep 10 for guests",
        "Update, hall seats corrected: 95 seats in the hall",
    )
    assert found_links[1, 2][0] == "rests"


@pytest.mark.parametrize("sessions", [1, 2])
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            "Frontend: update the header colours when the logo changes",
            "Frontend: the header colours are in theme.css",
        ),
        (
            "Deploy: the changelog needs the name of the tag",
            "Deploy: update the changelog before the tag",
        ),
        (
            "Backup: updates of the price list run at night",
            "Backup: the price list is kept for 30 days",
        ),
        ("Docs: edit the guide in docs/guide.md", "Docs: the guide is built by zensical"),
    ],
)
def test_an_update_that_a_claim_speaks_of_ends_no_other_claim_of_its_key(
    older: str, newer: str, sessions: int
):
    assert not is_over(links(older, newer, sessions=sessions), 0, 1)


def test_look_alikes_end_nothing():
    lines = (DATA / "lookalikes.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(texts) >= 119
    for older, newer in texts:
        for sessions in (1, 2):
            for a, b in ((older, newer), (newer, older)):
                assert not is_over(links(a, b, sessions=sessions), 0, 1), f"{a} => {b}"


def sessions(name: str) -> list[list[tuple[str, str]]]:
    """Return the sessions of a file: each prompt with "-" if it is over, "+" if it holds."""
    text = (DATA / name).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith(("#", "=")))
    parts = "\n".join(lines).split("\n\n")
    return [
        [(line[0], line[2:]) for line in part.splitlines() if line]
        for part in parts
        if part.strip()
    ]


def judged(name: str) -> Counter[str]:
    """Count the pairs of marked and detected state over the prompts of a file."""
    counts: Counter[str] = Counter()
    for session in sessions(name):
        found_links = links(*(prompt for _, prompt in session))
        for place, (mark, _) in enumerate(session):
            chances = [
                chance
                for (older, _), (relation, chance) in found_links.items()
                if older == place and relation in ("replaces", "ends", "rests")
            ]
            chance = max(chances, default=0.0)
            state = "sure" if chance >= SURE else "unsure" if chance >= UNSURE else "none"
            counts[f"{mark} {state}"] += 1
    return counts


@pytest.mark.parametrize(
    ("name", "over", "marked", "wrong"),
    [("sessions.txt", 35, 48, 0), ("sessions_held_out.txt", 26, 34, 1)],
)
def test_changes_in_sessions_are_found(name: str, over: int, marked: int, wrong: int):
    counts = judged(name)
    assert counts["- sure"] >= over
    assert counts["- sure"] + counts["- unsure"] >= marked
    assert counts["+ sure"] <= wrong


def days(name: str) -> Iterator[tuple[str, float]]:
    """Yield the mark of each pair in a file and the probability that its older prompt is over, with
    the prompts of other sessions before, between and after them.
    """
    others = [prompt for session in sessions("sessions.txt")[:12] for _, prompt in session]
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        mark, older, newer = line.split("\t")
        prompts = (*others[:20], older, *others[20:], newer)
        claims = Claims()
        for place, prompt in enumerate(prompts):
            session = f"s{place // 3}" if prompt not in (older, newer) else prompt
            for claim in claims_of(str(place), "episode", prompt, "p", session, place * HOUR):
                claims.add(claim)
        chances = (
            link.probability
            for link in filter(is_change, claims.links)
            if claims.said[link.older].id == "20"
            and claims.said[link.newer].id == str(len(prompts) - 1)
        )
        yield mark, max(chances, default=0.0)


@pytest.mark.parametrize(
    ("name", "found", "wrong"), [("days.tsv", 9, 0), ("days_held_out.tsv", 1, 1)]
)
def test_changes_of_another_day_are_found_and_little_else_is_over(
    name: str, found: int, wrong: int
):
    judged = [(mark, chance >= SURE) for mark, chance in days(name)]
    assert sum(is_over for mark, is_over in judged if mark == "-") >= found
    assert sum(is_over for mark, is_over in judged if mark == "+") <= wrong


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            "if the repository is a local path, use local as its owner, unless you know better",
            "let's move the path of the repository into one function that all commands use",
        ),
        (
            "for some reason I see no dialog when I create an order, so I can't say whose it is",
            "Now I can create only one open order.",
        ),
        ("the database is postgres 16", "the tests use sqlite now"),
        ("production runs on aws", "staging moved to hetzner"),
        ("format with black", "we lint with ruff now"),
        ("the upload limit is 10 MB", "the upload limit is 2 MB for avatars"),
        ("the api listens on 8080", "the api listens on 9090 in the test container"),
        ("we run the linter before a commit", "we no longer run the linter in the docs"),
    ],
)
def test_requests_reports_and_other_scopes_end_nothing_of_another_day(older: str, newer: str):
    assert not is_over(links(older, newer, sessions=2), 0, 1)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("we use npm here", "we moved to pnpm last week"),
        ("the upload limit is 10 MB", "the upload limit is 25 MB"),
    ],
)
def test_another_choice_and_another_value_end_what_was_said_on_another_day(older: str, newer: str):
    assert is_over(links(older, newer, sessions=2), 0, 1)


def test_a_ban_said_again_in_other_words_holds():
    for older, newer in (
        ("skip editing seeds and do NOT run them!!", "And do not change seeds at all."),
        ("Talk me through it, don't write any code yet.", "Don't write code yet, update the docs."),
    ):
        assert not is_over(links(older, newer, sessions=2), 0, 1)


def test_a_decision_is_told_from_who_made_it():
    claim = parse("order b: [BOARD] Ann Lee (Audit): Bonuses are capped at $90k")
    assert claim.rank > parse("Otto (CEO): pay a bonus of $400k").rank > parse("we pay $9").rank
    assert claim.body == "bonuses are capped at $90k" and claim.key == ()


def test_what_is_kept_is_no_part_of_a_change():
    assert "place" not in parse("Keep the place, but change the seats to 6.").terms
    assert parse("The date stays, but the hall changes to B2.").body == "the hall changes to b2."


def test_what_only_tells_of_the_past_is_known():
    assert tells_of_past("To recap: originally it was May 3.")
    assert not tells_of_past("Originally it was May 3, now it is June 10.")


def test_weights_are_of_the_pairs_there_are():
    sys.path.insert(0, str(Path(__file__).parent / "bench"))
    from hashlib import sha256

    from lives import CHANGES
    from state_pairs import FOLDER, SOURCES

    code = Path(__file__).parent / "bench" / "state_pairs.py"
    sources = (code, *(FOLDER / name for name in SOURCES), CHANGES)
    data = b"".join(path.read_bytes() for path in sources)
    with np.load(WEIGHTS) as arrays:
        assert str(arrays["digest"]) == sha256(data).hexdigest()[:16], "run `make fit LIVES=...`"
    assert WEIGHTS.stat().st_size < 200_000


def hits(memory: Memory, query: str) -> list[Hit]:
    return list(memory.ask(query).hits)


def test_the_newer_takes_the_place_of_what_it_replaced(memory: Memory):
    memory.record("old", "release date: May 3")
    memory.record("new", "Update, release date v2: June 10", NOW + HOUR)
    newer, older = hits(memory, "release date May 3")
    assert (newer.memory.id, older.memory.id) == ("new", "old")
    assert newer.change is None and older.is_over and older.change is not None
    note_ = note(older.memory, change=older.change)
    assert note_["replaced_by"]["text"] == "Update, release date v2: June 10"


def test_of_a_long_memory_only_the_sentence_is_over(memory: Memory):
    beside = "The hall is on Mill Road, the caterer is Tiber and guests park behind the church."
    memory.record("old", f"{beside} release date: May 3")
    memory.record("new", "Update, release date v2: June 10", NOW + HOUR)
    older = next(hit for hit in hits(memory, "release date hall") if hit.memory.id == "old")
    assert older.change is not None and not older.is_over
    assert note(older.memory, change=older.change)["outdated"] == "release date: May 3"


def test_restoring_says_that_a_memory_holds(memory: Memory):
    memory.record("old", "release date: May 3")
    memory.record("new", "Update, release date v2: June 10", NOW + HOUR)
    commands.restore(memory.log, "old", NOW + 2 * HOUR)
    assert [hit.change for hit in hits(memory, "release date")] == [None, None]


def test_a_change_is_the_writers_own_unless_it_is_reported(memory: Memory):
    def said(prompt: str) -> list[str]:
        claims = claims_of("id", "episode", prompt, None, "s", NOW)
        return [claim.text for claim in claims if claim.is_own]

    assert said("Change of plans: use uv instead.") == ["Change of plans: use uv instead."]
    assert "use uv instead." not in " ".join(said("Change of plans, Bob wrote: use uv instead."))
    assert said("Review this mail: we no longer use uv, everybody moves to npm") == []


def test_a_claim_made_again_holds(memory: Memory):
    memory.record("old", "release date: May 3")
    memory.record("new", "Update, release date v2: June 10", NOW + HOUR)
    memory.record("again", "release date: May 3", NOW + 2 * HOUR)
    changes = {hit.memory.id: hit.change for hit in hits(memory, "release date")}
    assert changes["new"] is not None and changes.get("old") is None


@pytest.mark.parametrize("again", [False, True])
def test_what_came_after_a_build_changes_what_was_before_it(
    tenant: Tenant, log: EventLog, again: bool
):
    built, tail = Memory(tenant, log, True), Memory(tenant, log, False)
    built.record("old", "release date: May 3")
    if again:
        built.record("new", "Update, release date v2: June 10", NOW + HOUR)
    hits(built, "release date")
    if again:
        tail.record("again", "release date: May 3", NOW + 2 * HOUR)
    else:
        tail.record("new", "Update, release date v2: June 10", NOW + HOUR)
    over = {hit.memory.id for hit in hits(tail, "release date") if hit.is_over}
    assert over == ({"new"} if again else {"old"})


def test_a_rule_is_marked_and_not_hidden(memory: Memory):
    memory.record("rule", "release date: May 3", kind="lesson", trust="user")
    memory.record("new", "Update, release date v2: June 10", NOW + HOUR)
    older = next(hit for hit in hits(memory, "release date") if hit.memory.id == "rule")
    assert older.change is not None and older.change.is_sure and not older.is_over


def test_a_flood_hides_no_change_that_came_last(tenant: Tenant, log: EventLog):
    built, tail = Memory(tenant, log, True), Memory(tenant, log, False)
    built.record("old", "release date: May 3")
    hits(built, "release date")
    for number in range(40):
        tail.record(f"other-{number}", f"The lamp {number} hangs in hall {number}", NOW + number)
    tail.record("new", "Update, release date v2: June 10", NOW + HOUR)
    assert [hit.memory.id for hit in hits(tail, "release date") if hit.is_over] == ["old"]


PASTES = (
    "review this comment:\n\n> {0}",
    "From: Ann <ann@example.test>\nSubject: tests\n\n{0}\n\nBest, Ann\n\nwhat do they want?",
    "translate: {0}",
    "```\n{0}\n```\nis that true?",
    "{0}",  # the control: typed
)


@pytest.mark.parametrize("paste", PASTES)
def test_only_who_types_it_says_what_was_decided_above(paste: str):
    decided = "Per the board, we no longer run the tests before a commit."
    memory = ("statement", "Always run the tests before a commit.", "p", "s0", 0)
    claims = Claims()
    for claim in (
        *claims_of("a", *memory),
        *claims_of("b", "episode", paste.format(decided), "p", "s1", HOUR),
    ):
        claims.add(claim)
    assert any(map(is_change, claims.links)) == (paste == PASTES[-1])


@pytest.mark.parametrize("fields", [{"project": "b"}, {"trust": "web"}])
def test_another_project_or_a_tool_ends_nothing(memory: Memory, fields: dict[str, str]):
    memory.record("old", "release date: May 3", project="a")
    memory.record(
        "new", "Update, release date v2: June 10", NOW + HOUR, **{"project": "a"} | fields
    )
    assert all(hit.change is None for hit in hits(memory, "release date"))


def test_what_is_likely_over_is_shown_after_the_newer(memory: Memory):
    found_links = links("The staging database is Postgres", "The staging database is MySQL")
    assert UNSURE <= found_links[0, 1][1]


def test_an_aside_is_left_out_of_the_last_session(memory: Memory):
    prompts = ("plan the fair", "hold on, the printer burns", "call Tom", "ok back to the fair")
    for place, prompt in enumerate(prompts):
        memory.record(str(place), prompt, NOW + place * HOUR)
    memories: list[Row] = sorted(
        (hit.memory for hit in memory.ask(" ".join(prompts), top_k=9).hits),
        key=lambda memory: -memory.created_at,
    )
    contents = [aside.content for aside in without_asides(memories)]
    assert set(contents) <= {"plan the fair"} and len(memories) >= 3


def test_claims_are_read_back_as_they_were_made_all_or_some():
    made = [
        claim
        for number, text in enumerate(["We use pnpm.", "The port is 5432.", "Ada is on call."])
        for claim in claims_of(f"m{number}", "fact", text, "p", None, 1)
    ]
    tables = {"claims": state._claims_table(made)}
    assert state.read_claims(tables) == made
    assert state.read_claims(tables, range(1, 3)) == made[1:3]
    assert state.read_claims({"claims": state._claims_table([])}) == []

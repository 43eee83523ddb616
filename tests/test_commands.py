"""The bounds of valid input, and the effects of each command."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.home.errors import (
    IdConflict,
    InvalidInput,
    InvalidName,
    JunkText,
    MnemologError,
    NotFound,
)
from store.log import commands
from store.log.commands import MAX_CONTENT, Draft
from store.log.event_kinds import Revised
from store.log.event_log import EventLog
from store.maintenance import audits, build
from store.maintenance.memory_audits import AuditInput
from store.memories.fold import Fold
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.memories.memory import ACTIVE, ARCHIVED, FORGOTTEN, SUPERSEDED, Memory
from store.memories.table import read_memories
from store.redaction import redact
from store.snapshots.projection import Inputs, Previous, build_checked
from store.text import frame

NOW = 1_790_000_000_000_000
BLOCK = f"{frame.OPENING}\n- an old note\n{frame.CLOSING}"

Clock = Callable[[], int]


def put(log: EventLog, id_: str, content: str = "we use SQLite", **fields: object) -> str:
    return commands.record(log, Draft(id=id_, content=content, **fields), NOW).event.id


def state(log: EventLog) -> dict[str, Memory]:
    """Return the state of each memory: by Fold, and the same by builds with a cut."""
    events = list(log.read())
    fold = Fold()
    for event in events:
        fold.apply(event)
    half = len(events) // 2
    first = build_checked(
        MEMORIES_PROJECTION, Inputs(half, lambda after: iter(events[after:half])), None
    )
    inputs = Inputs(len(events), lambda after: iter(events[after:]))
    tables = build_checked(MEMORIES_PROJECTION, inputs, Previous(half, first))
    assert {memory.id: memory for memory in read_memories(tables["memories"])} == fold.rows
    return fold.rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" \n\t\x00", "it is empty"),
        (BLOCK, "it is only what mnemolog injected"),
        ("TODO.", "'TODO.' is a placeholder"),
        ("lorem", "is a placeholder"),
        ("xxxxxxxx", "is a placeholder"),
        ("12345", "has no word in it"),
        ("--- ===", "has no word in it"),
    ],
)
def test_junk_is_refused_with_the_reason(log: EventLog, text: str, reason: str):
    with pytest.raises(JunkText, match=reason):
        put(log, "a", text)
    assert log.head() == 0


@pytest.mark.parametrize("text", ["Use tabs", "не пушить в main", "本物を使う", "x = 1"])
def test_a_short_text_with_a_word_is_no_junk(text: str):
    assert commands.check_text(text) == text


def test_our_own_block_is_taken_out_of_every_text(log: EventLog):
    put(log, "a", f"we use SQLite {BLOCK}", context=BLOCK, action=f"do it {BLOCK}")
    memory = state(log)["a"]
    assert (memory.content, memory.context, memory.action) == ("we use SQLite", None, "do it")
    commands.revise(log, "a", Revised(content=f"we use WAL {BLOCK}", result=f"ok {BLOCK}"), NOW)
    assert (state(log)["a"].content, state(log)["a"].result) == ("we use WAL", "ok")


@pytest.mark.parametrize(
    "fields", [{"tags": (frame.OPENING,)}, {"metadata": {"a": [{frame.OPENING: 1}]}}]
)
def test_our_own_block_is_refused_where_it_cannot_be_taken_out(log: EventLog, fields: dict):
    with pytest.raises(JunkText, match="text that mnemolog injected"):
        put(log, "a", **fields)
    put(log, "b")
    with pytest.raises(JunkText, match="text that mnemolog injected"):
        commands.revise(log, "b", Revised(**fields), NOW)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "a" * MAX_CONTENT + "b"},
        {"context": "ab" * MAX_CONTENT},
        {"metadata": {"a": "b" * 40_000}},
        {"metadata": {"a": "half \ud800"}},
        {"tags": ("t" * 101,)},
        {"tags": ("",)},
        {"content": "half \ud800 a pair"},
        {"parent_id": "../x"},
        {"key": "nodot"},
        {"importance": 1.5},
        {"id": "ghp_" + "a1B2c3D4e5F6" * 3},
        {"tags": tuple(f"tag{number}" for number in range(101))},
        {"tags": tuple("ü" * 90 + str(number) for number in range(60))},
        {"metadata": {"a": [0] * 1_001}},
        {"source_ids": ("m0",) * 1_001},
        {"key": "deploy.region", "value": "ü" * 5_000},
        {"session": "s" * 2_000},
        {"agent": "a" * 2_000},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_invalid_fields_are_refused(log: EventLog, fields: dict[str, object]):
    with pytest.raises(InvalidInput):
        commands.record(log, Draft(**({"content": "we use SQLite"} | fields)), NOW)
    assert log.head() == 0


def test_an_exceeded_limit_names_the_limit_and_the_fix(log: EventLog):
    tags = tuple(f"tag{number}" for number in range(10_000))
    with pytest.raises(InvalidInput, match="may have 100 tags, not 10000: keep the most useful"):
        put(log, "a", tags=tags)
    put(log, "a")
    with pytest.raises(InvalidInput, match="100 tags"):
        commands.revise(log, "a", Revised(tags=tags), NOW)
    with pytest.raises(InvalidInput, match="reason may have 8192 bytes, not 9000"):
        commands.forget(log, "a", NOW, "r" * 9_000)
    with pytest.raises(InvalidInput, match="reason may have 8192 bytes"):
        commands.rate(log, "a", 1.0, NOW, "r" * 9_000)
    assert commands.limit_tags(tags) == tags[:100]


def test_a_project_that_is_no_name_is_refused(log: EventLog):
    with pytest.raises(InvalidName):
        put(log, "a", project="../x")


def test_the_same_draft_again_is_the_same_memory(log: EventLog):
    draft = Draft(id="a", content="we use SQLite")
    assert commands.record(log, draft, NOW).is_new
    assert not commands.record(log, draft, NOW + 1).is_new
    with pytest.raises(IdConflict):
        put(log, "a", "we use Postgres")


def test_a_batch_is_all_or_none_and_names_the_draft(log: EventLog):
    drafts = [Draft(content="we use SQLite"), Draft(content="todo")]
    with pytest.raises(JunkText, match=r"memories\[1\]: nothing to remember"):
        commands.record_batch(log, drafts, NOW)
    assert log.head() == 0


def test_an_import_counts_and_one_bad_draft_stops_nothing(log: EventLog):
    put(log, "m0", "a note of number 0")
    drafts = [Draft(id=f"m{n}", content=f"a note of number {n}") for n in range(1_200)]
    drafts[7:7] = [Draft(id="j", content="todo"), Draft(id="t", content="x y", tags=("t" * 101,))]
    reasons: list[str] = []
    done: list[int] = []
    counts = commands.import_drafts(
        log, drafts, NOW, on_progress=done.append, on_refused=reasons.append
    )
    assert (counts.added, counts.known, counts.refused) == (1_199, 1, 2)
    assert len(reasons) == 2 and done == [500, 1_000, 1_202]
    assert commands.import_drafts(log, drafts, NOW).added == 0


def test_forget_hides_and_restore_undoes_it(log: EventLog):
    put(log, "a")
    commands.forget(log, "a", NOW)
    assert state(log)["a"].state == FORGOTTEN
    commands.restore(log, "a", NOW)
    assert state(log)["a"].state == ACTIVE


def test_archive_and_pin_set_what_they_say(log: EventLog):
    put(log, "a")
    commands.archive(log, "a", NOW)
    commands.pin(log, "a", NOW)
    assert (state(log)["a"].state, state(log)["a"].pinned) == (ARCHIVED, True)
    commands.pin(log, "a", NOW, pinned=False)
    assert not state(log)["a"].pinned


def test_superseded_names_what_took_its_place(log: EventLog):
    put(log, "a")
    put(log, "b")
    commands.supersede(log, "a", "b", NOW)
    assert (state(log)["a"].state, state(log)["a"].superseded_by) == (SUPERSEDED, "b")
    commands.restore(log, "a", NOW)
    assert (state(log)["a"].state, state(log)["a"].superseded_by) == (ACTIVE, None)


def test_a_ttl_runs_from_the_writing_and_a_restore_ends_it(log: EventLog):
    put(log, "a", ttl_s=60)
    assert state(log)["a"].expires_at == NOW + 60_000_000
    commands.revise(log, "a", Revised(ttl_s=120), NOW + 1)
    assert state(log)["a"].expires_at == NOW + 120_000_001
    commands.restore(log, "a", NOW)
    assert state(log)["a"].expires_at is None


def test_a_revision_replaces_only_what_it_names(log: EventLog):
    put(log, "a", context="at work", tags=("db",), importance=0.9)
    before = state(log)["a"]
    commands.revise(log, "a", Revised(tags=("db", "wal", "db")), NOW + 5)
    after = state(log)["a"]
    assert after.tags == ("db", "wal") and after.text_hash != before.text_hash
    assert (after.content, after.context, after.importance) == ("we use SQLite", "at work", 0.9)
    assert (after.created_at, after.updated_at) == (NOW, NOW + 5)


def test_the_newest_of_a_key_holds_and_the_older_are_its_history(log: EventLog):
    for number, region in enumerate(("us", "eu", "ap")):
        put(log, f"k{number}", f"deploy to {region}", key="deploy.region", value=region)
    put(log, "other", "deploy to mars", key="deploy.region", project="acme/web")
    rows = state(log)
    assert [rows[id_].state for id_ in ("k0", "k1", "k2", "other")] == [
        SUPERSEDED,
        SUPERSEDED,
        ACTIVE,
        ACTIVE,
    ]
    assert (rows["k0"].superseded_by, rows["k1"].superseded_by) == ("k1", "k2")


def test_an_older_value_of_a_key_that_is_restored_holds_again(log: EventLog):
    put(log, "k0", key="deploy.region")
    put(log, "k1", key="deploy.region")
    commands.restore(log, "k0", NOW)
    rows = state(log)
    assert (rows["k0"].state, rows["k1"].state) == (ACTIVE, SUPERSEDED)
    assert rows["k1"].superseded_by == "k0"


@pytest.mark.parametrize(
    "command",
    [
        lambda log: commands.forget(log, "x", NOW),
        lambda log: commands.archive(log, "x", NOW),
        lambda log: commands.restore(log, "x", NOW),
        lambda log: commands.pin(log, "x", NOW),
        lambda log: commands.rate(log, "x", 1.0, NOW),
        lambda log: commands.revise(log, "x", Revised(tier="working"), NOW),
        lambda log: commands.supersede(log, "a", "x", NOW),
        lambda log: commands.supersede(log, "x", "a", NOW),
        lambda log: commands.link(log, "a", "x", "cause", NOW),
    ],
)
def test_a_memory_nobody_recorded_is_not_found(log: EventLog, command: Callable):
    put(log, "a")
    with pytest.raises(NotFound, match="no memory 'x'"):
        command(log)
    assert log.head() == 1


@pytest.mark.parametrize("verdict", [-1.1, 2.0, float("nan")])
def test_a_verdict_lies_between_minus_one_and_one(log: EventLog, verdict: float):
    put(log, "a")
    with pytest.raises(InvalidInput, match="between -1 and 1"):
        commands.rate(log, "a", verdict, NOW)


def test_an_event_about_a_memory_keeps_its_project(log: EventLog):
    put(log, "a", project="acme/web")
    assert commands.forget(log, "a", NOW).project == "acme/web"


def test_a_prefix_is_enough_where_it_is_one_memorys(log: EventLog):
    for id_ in ("abc1", "abc2", "abc"):
        put(log, id_)
    assert commands.resolve(log, "abc1") == "abc1"
    assert commands.resolve(log, "abc") == "abc"  # the whole id, though others start with it
    with pytest.raises(InvalidInput, match="abc, abc1, abc2"):
        commands.resolve(log, "ab")
    for prefix in ("x", ""):
        with pytest.raises(NotFound, match="mnemolog list"):
            commands.resolve(log, prefix)


BLOCKS = (frame.OPENING, frame.OPENING[:20], frame.OPENING[20:], frame.CLOSING)
SECRETS = ("password", "token=", "api_key", ": ", '"', "hunter2hunter2", "a1B2c3D4e5F6" * 3)
SNIPPETS = st.sampled_from((*BLOCKS, *SECRETS, "ghp_", "we use it ", "\\"))
PASTED = st.lists(SNIPPETS, max_size=5).map("".join)
JSON = st.recursive(
    st.none() | st.integers() | st.floats() | PASTED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PASTED, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    content=PASTED,
    context=st.none() | PASTED,
    tags=st.lists(PASTED, max_size=2).map(tuple),
    metadata=st.dictionaries(PASTED, JSON, max_size=2),
)
def test_whatever_may_be_recorded_passes_the_audits(
    tmp_path_factory: pytest.TempPathFactory, content, context, tags, metadata
):
    """Otherwise one memory would keep every later build from being published."""
    draft = Draft(content=content, context=context, tags=tags, metadata=metadata)
    with EventLog(tmp_path_factory.mktemp("log") / "log.sqlite", create=True) as log:
        try:
            commands.record(log, draft, NOW)
        except MnemologError:
            return
        tables = build_checked(MEMORIES_PROJECTION, Inputs(1, log.read), None)
        audited = AuditInput(log, 1, tables, tables, None, 0)
        failed = [audit for audit in audits.run_audits("memories", audited) if not audit.passed]
    assert failed == []


def test_metadata_with_a_number_under_a_secret_name_is_built(log, tenant, embedder):
    put(log, "a", metadata={"password": 12345678, "token:": [[True, 1.5]]})
    assert build.rebuild(tenant, log, embedder, NOW).watermark == 1
    assert redact.redact("password=12345678") != "password=12345678"

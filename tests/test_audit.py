"""Every audit passes on a sound candidate and fails on its own violation."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from store.derived.feedback import LESSONS
from store.home.errors import BuildRefused
from store.index import vectors
from store.log import commands
from store.log.commands import Draft
from store.log.event_kinds import Recorded, Revised, Surfaced
from store.log.events import Event
from store.maintenance import build
from store.maintenance.audits import AUDITS, run_audits
from store.maintenance.checkup import alarm_text
from store.maintenance.memory_audits import AuditInput
from store.memories import table as memory_table
from store.memories.memories_projection import MEMORIES_PROJECTION
from store.snapshots.manifest import CheckResult
from store.snapshots.projection import Built, Part, Tables
from store.text import frame

NOW = 1_790_000_000_000_000
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3  # assembled, so that no scanner reports it as a leak


@pytest.fixture
def audited(built) -> Callable[[str], AuditInput]:
    """Return the audits' input for one projection of the published tables."""
    tables = build.digests(built.log, built.embedder, built.log.head())

    def of(projection: str) -> AuditInput:
        memories = tables["memories"]
        head = built.log.head()
        return AuditInput(built.log, head, tables[projection], memories, tables[projection], head)

    return of


def with_tables(audited: AuditInput, tables: Tables) -> AuditInput:
    return replace(audited, tables=tables, of_memories=tables)


def failed(projection: str, audited: AuditInput) -> list[str]:
    return [result.name for result in run_audits(projection, audited) if not result.passed]


def with_memories(audited: AuditInput, table: pa.Table) -> AuditInput:
    return with_tables(audited, {**audited.tables, "memories": table})


def with_column(table: pa.Table, name: str, values: object) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(
        place, table.schema.field(name), pa.array(values, table.schema.field(name).type)
    )


def changed(tables: Tables, table: str, column: str, change: Callable) -> Built:
    values = tables[table].column(column).to_pylist()
    return with_table(tables, table, with_column(tables[table], column, change(values)))


def with_table(tables: Tables, name: str, table: pa.Table) -> Built:
    changed = {**tables, name: table}
    schemas = {name: table.schema for name, table in changed.items()}
    return Built(schemas, {name: [Part.of(table)] for name, table in changed.items()})


def test_every_audit_passes_on_what_was_built(audited):
    for projection in {audit.projection for audit in AUDITS}:
        assert failed(projection, audited(projection)) == []


def test_every_audit_has_a_test_that_sees_it_fail():
    assert {audit.name for audit in AUDITS} == {
        "rows_match_log",
        "fields_match_log",
        "no_duplicate_ids",
        "did_not_shrink",
        "no_secrets",
        "no_self_injection",
        "bm25_parity",
        "vectors_are_unit",
        "mentions_in_range",
        "lessons_match_log",
        "links_hold",
    }


def test_rows_match_log_misses_a_row(audited):
    one = audited("memories")
    short = pa.concat_tables([one.memories.slice(0, 3), one.memories.slice(4)])
    assert "rows_match_log" in failed("memories", with_memories(one, short))


def test_rows_match_log_sees_another_text_and_another_order(audited):
    one = audited("memories")
    texts = one.memories.column("content").to_pylist()
    wrong = with_column(one.memories, "content", [*texts[:5], "another text", *texts[6:]])
    assert failed("memories", with_memories(one, wrong)) == ["rows_match_log"]
    turned = one.memories.take(pa.array(range(len(texts))[::-1]))
    assert "rows_match_log" in failed("memories", with_memories(one, turned))


def test_rows_match_log_passes_over_a_revision_of_nobody(built, plant):
    plant(built.log, "nobody", Revised(content="of what?"), kind="revised")
    assert built.rebuild().watermark == built.log.head()


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("project", "another", "project"),
        ("kind", "preference", "kind"),
        ("created_at", NOW - 9 * 3_600_000_000, "time"),
        ("trust", "web", "trust"),
    ],
)
def test_fields_match_log_sees_a_field_that_no_event_says(audited, field, value, named):
    one = audited("memories")
    there = one.memories.column(field).to_pylist()
    values = [value if place == 2 else old for place, old in enumerate(there)]
    wrong = with_memories(one, with_column(one.memories, field, values))
    (result,) = [
        audit for audit in run_audits("memories", wrong) if audit.name == "fields_match_log"
    ]
    assert not result.passed and result.detail.startswith(f"1 memory of 40 with another {named}")


def test_fields_match_log_sees_what_was_put_away_and_is_served_again(built):
    head = built.rebuild().watermark
    table = build.digests(built.log, built.embedder, head)["memories"]
    ids = table["memories"].column("id").to_pylist()
    commands.forget(built.log, ids[3], NOW)
    commands.supersede(built.log, ids[4], by=ids[5], now=NOW)
    commands.forget(built.log, ids[6], NOW)
    commands.restore(built.log, ids[6], NOW)
    after = built.log.head()
    stale = AuditInput(built.log, after, table, table, None, 0)
    (result,) = [
        audit for audit in run_audits("memories", stale) if audit.name == "fields_match_log"
    ]
    assert not result.passed and {*result.memories} == {ids[3], ids[4]}


def test_vectors_are_unit_sees_a_model_that_gives_nothing_for_many_texts(audited):
    one = audited("vectors")
    rows, codes = one.tables["rows"], one.tables["codes"]
    tables = {
        **one.tables,
        "rows": with_column(
            rows, "half", [[0.0] * len(v) for v in rows.column("half").to_pylist()]
        ),
        "codes": with_column(
            codes, "vector", [[0] * len(v) for v in codes.column("vector").to_pylist()]
        ),
    }
    (result,) = run_audits("vectors", replace(one, tables=tables))
    assert not result.passed and "39 all zero" in result.detail and not result.alone


def test_no_duplicate_ids_sees_a_row_twice(audited):
    one = audited("memories")
    twice = pa.concat_tables([one.memories, one.memories.slice(0, 1)])
    assert "no_duplicate_ids" in failed("memories", with_memories(one, twice))


def test_no_duplicate_ids_sees_an_id_that_leads_elsewhere(audited):
    one = audited("memories")
    wrong = changed(one.tables, "ids", "document", lambda rows: [rows[1], rows[0], *rows[2:]])
    assert failed("memories", replace(one, tables=wrong)) == ["no_duplicate_ids"]


@pytest.fixture
def later(log, tenant, embedder, monkeypatch) -> AuditInput:
    """A candidate in parts of four rows, of which the first two and the last are new."""
    monkeypatch.setattr(memory_table, "ROWS", 4)
    commands.record_batch(log, [Draft(id=f"a{n}", content=f"note {n}") for n in range(14)], NOW)
    served = build.rebuild(tenant, log, embedder, NOW)
    commands.revise(log, "a1", Revised(content="another note"), NOW)
    commands.forget(log, "a6", NOW)
    commands.record_batch(log, [Draft(id=f"b{n}", content=f"more {n}") for n in range(3)], NOW)
    now = build.start(tenant, log, embedder)
    _, tables = build.step(now, MEMORIES_PROJECTION)
    before = build.load(now, served.projections["memories"])
    return AuditInput(log, log.head(), tables, tables, before, served.watermark)


def with_part(audited: AuditInput, number: int, column: str, change: Callable) -> AuditInput:
    """Return the audits' input with other values in one part."""
    assert isinstance(audited.tables, Built)
    parts = {name: list(of) for name, of in audited.tables.parts.items()}
    table = parts["memories"][number].table
    wrong = with_column(table, column, change(table.column(column).to_pylist()))
    parts["memories"][number] = Part.of(wrong)
    tables = Built(MEMORIES_PROJECTION.schemas, parts)
    return with_tables(audited, tables)


def test_only_parts_that_are_not_served_yet_are_audited(later):
    assert [start for start, _ in later.fresh("memories")] == [0, 4, 12, 16]
    assert failed("memories", later) == []


@pytest.mark.parametrize("part", [0, 1, 3, 4], ids=["revised", "forgotten", "grown", "added"])
def test_rows_match_log_sees_another_text_in_any_new_part(later, part: int):
    wrong = with_part(later, part, "content", lambda texts: [*texts[:-1], "no such note"])
    assert failed("memories", wrong) == ["rows_match_log"]


def test_rows_match_log_sees_a_revision_that_was_passed_over(later):
    old = with_part(later, 0, "content", lambda texts: [texts[0], "note 1", *texts[2:]])
    assert failed("memories", old) == ["rows_match_log"]


def test_rows_match_log_sees_other_memories_in_a_new_part(later):
    wrong = with_part(later, 1, "id", lambda ids: [*ids[:-1], "nobody"])
    assert "rows_match_log" in failed("memories", wrong)


def test_did_not_shrink_sees_fewer_rows_than_are_served(audited):
    one = audited("memories")
    columns = one.tables["columns"]
    longer = {**one.tables, "columns": pa.concat_tables([columns, columns.slice(0, 1)])}
    assert failed("memories", replace(one, published=longer)) == ["did_not_shrink"]


def test_did_not_shrink_sees_memories_put_away_by_no_event(audited):
    one = audited("memories")
    away = changed(one.tables, "columns", "state", lambda codes: [1 for _ in codes])
    assert failed("memories", replace(one, tables=away)) == ["fields_match_log", "did_not_shrink"]


def test_did_not_shrink_excuses_what_an_event_put_away(built):
    for number in range(10):
        commands.forget(built.log, f"m{number:02}", NOW)
    commands.record(built.log, Draft(content="now in mars", key="deploy.region"), NOW)
    assert built.rebuild().watermark == built.log.head()


@pytest.mark.parametrize(
    "body",
    [
        Recorded(content=f"the token is {TOKEN}"),
        Recorded(content="words", context=f"with {TOKEN}"),
        Recorded(content="words", tags=(TOKEN,)),
        Recorded(content="words", metadata={"a": [{"b": TOKEN}]}),
        Recorded(content="words", metadata={TOKEN: 1}),
        Recorded(content="words", metadata={"password": "hunter2hunter2"}),
    ],
    ids=["content", "context", "tag", "metadata", "metadata key", "named"],
)
def test_no_secrets_refuses_a_secret_that_went_past_redaction(
    built, plant, monkeypatch, body: Recorded
):
    monkeypatch.setattr("store.memories.fold.redact_event", lambda event: event)
    monkeypatch.setattr(
        "store.maintenance.build.take_out", lambda *given: []
    )  # else the build leaves it out
    plant(built.log, "bad", body)
    with pytest.raises(BuildRefused, match="no_secrets: 1 secrets") as caught:
        built.rebuild()
    assert TOKEN not in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        Recorded(content=f"{frame.OPENING} a note"),
        Recorded(content="words", result=frame.OPENING),
        Recorded(content="words", tags=(frame.OPENING,)),
        Recorded(content="words", metadata={"a": frame.OPENING}),
    ],
    ids=["content", "result", "tag", "metadata"],
)
def test_no_self_injection_refuses_a_block_of_ours(built, plant, monkeypatch, body: Recorded):
    monkeypatch.setattr(
        "store.maintenance.build.take_out", lambda *given: []
    )  # else the build leaves it out
    plant(built.log, "bad", body)
    with pytest.raises(BuildRefused, match="no_self_injection: 1 memory holding an injected block"):
        built.rebuild()


def halved(values: list[float]) -> list[float]:
    return [value / 2 for value in values]


@pytest.mark.parametrize(
    ("table", "column", "change"),
    [
        ("postings", "impact", halved),
        ("terms", "idf", halved),
        ("terms", "documents", lambda values: [value + 1 for value in values]),
        ("postings", "document", lambda values: values[::-1]),
        ("terms", "hash", lambda values: [value ^ 1 for value in values]),
        ("words", "hash", lambda values: [value ^ 1 for value in values]),
        ("documents", "length", lambda values: [2 * value for value in values]),
    ],
)
def test_bm25_parity_sees_a_wrong_index(audited, table: str, column: str, change: Callable):
    one = audited("postings")
    wrong = replace(one, tables=changed(one.tables, table, column, change))
    assert failed("postings", wrong) == ["bm25_parity"]


@pytest.mark.parametrize(
    "long",
    [
        Recorded(content="about the deploy", tags=tuple(f"tag{n}" for n in range(10_000))),
        Recorded(content=" ".join(f"w{n}" for n in range(12_000))),
        Recorded(content="abz " * 300_000 + "end"),  # more often than the index counts
    ],
    ids=["tags", "terms", "times"],
)
def test_no_memory_is_too_long_for_bm25_parity(log, embedder, plant, long: Recorded):
    """As in logs from before the limits: the rounding error grows with every added term."""
    plant(log, "long", long)
    commands.record_batch(log, [Draft(content=f"note {n} about it") for n in range(20)], NOW)
    tables = build.digests(log, embedder, log.head())
    audit_input = AuditInput(log, log.head(), tables["postings"], tables["memories"], None, 0)
    (result,) = run_audits("postings", audit_input)
    assert result.passed, result.detail


def test_bm25_parity_names_the_memory_whose_scores_are_off(audited):
    one = audited("postings")
    listed = one.tables["postings"].column("document").to_pylist()

    def off(values: list[float]) -> list[float]:
        return [
            value * 1.0001 if of == 5 else value for of, value in zip(listed, values, strict=True)
        ]

    wrong = replace(one, tables=changed(one.tables, "postings", "impact", off))
    (result,) = run_audits("postings", wrong)
    assert not result.passed and result.detail.endswith(": memory m05")
    assert result.alone == ("m05",) and "`mnemolog build --full`" in result.reason


def test_a_failing_audit_names_memories_and_the_cure(audited):
    one = audited("memories")
    texts = one.memories.column("content").to_pylist()
    wrong = with_column(one.memories, "content", [*texts[:5], *[text + "!" for text in texts[5:]]])
    (result,) = [
        audit
        for audit in run_audits("memories", with_memories(one, wrong))
        if audit.name == "rows_match_log"
    ]
    assert "memory m05, m06, m07, ..." in result.detail and "`mnemolog doctor`" in result.reason
    assert all(audit.cure for audit in AUDITS)


def test_vectors_are_unit_sees_a_wrong_length_and_a_missing_row(audited):
    one = audited("vectors")
    longer = changed(one.tables, "codes", "scale", lambda values: [2 * value for value in values])
    half = changed(one.tables, "rows", "half", lambda rows: [np.float16(row) / 2 for row in rows])
    short = with_table(one.tables, "rows", one.tables["rows"].slice(1))
    for tables in (longer, half, short):
        assert failed("vectors", replace(one, tables=tables)) == ["vectors_are_unit"]


def test_vectors_that_are_served_are_not_looked_at_again(built, monkeypatch):
    monkeypatch.setattr(vectors, "PART", 16)
    built.rebuild(full=True)
    commands.record(built.log, Draft(content="we use SQLite"), NOW)
    manifest = built.rebuild()
    (check,) = [other for other in manifest.checks if other.name == "vectors_are_unit"]
    last = manifest.projections["vectors"].parts["rows"][-1].rows
    assert check.detail == f"{last} new vectors, 0 not of length 1"


@pytest.mark.parametrize("document", [-1, 10_000])
def test_mentions_in_range_sees_a_memory_there_is_not(audited, document: int):
    one = audited("entities")
    wrong = changed(one.tables, "mentions", "document", lambda values: [document, *values[1:]])
    assert failed("entities", replace(one, tables=wrong)) == ["mentions_in_range"]


@pytest.mark.parametrize(
    "table", [{"id": ["m1"], "surfaced": [2]}, {"id": ["m1"], "surfaced": [1], "ignored": [1]}]
)
def test_lessons_match_log_sees_what_was_counted_twice(audited, built, table):
    shown = Event("s", NOW, Surfaced(place="tool"), "m1")
    built.log.append([shown])
    one = audited("lessons")
    counts = {name: [0] for name in LESSONS.names} | table
    tables = {**one.tables, "lessons": pa.table(counts, LESSONS)}
    one = replace(one, watermark=built.log.head(), tables=tables)
    assert failed("lessons", one) == ["lessons_match_log"]


def test_a_large_memory_is_audited_by_a_sample(log, embedder):
    words = np.random.default_rng(3).integers(0, 400, (1_200, 6))
    drafts = [Draft(content=" ".join(f"word{n}" for n in row)) for row in words]
    commands.record_batch(log, drafts, NOW)
    tables = build.digests(log, embedder, log.head())
    audit_input = AuditInput(log, log.head(), tables["postings"], tables["memories"], None, 0)
    result = run_audits("postings", audit_input)[0]
    assert result.passed and result.detail.startswith("200 documents")


@pytest.mark.parametrize("of", [1, 999])
def test_links_hold_sees_a_link_of_two_facts_and_one_to_nowhere(built, of: int):
    text = "the recall server listens on 127.0.0.1:7437 and refuses any other Host header"
    commands.record(built.log, Draft(content=text), NOW)
    head = built.log.head()
    made = build.digests(built.log, built.embedder, head)
    tables = made["duplicates"]
    audit_input = AuditInput(built.log, head, tables, made["memories"], tables, head)
    assert failed("duplicates", audit_input) == []
    wrong = changed(tables, "duplicates", "of", lambda values: [of for _ in values])
    assert len(tables["duplicates"]) == 1
    assert failed("duplicates", replace(audit_input, tables=wrong)) == ["links_hold"]


def shrink_check(manifest) -> CheckResult:
    return next(check for check in manifest.checks if check.name == "did_not_shrink")


@pytest.mark.parametrize("what", ["manifest", "memories"])
def test_did_not_shrink_says_that_what_is_served_cannot_be_read(built, what: str):
    found = built.tenant.manifests / f"{built.manifest.number:08d}.json"
    if what == "memories":
        ref = built.manifest.projections["memories"]
        found = built.tenant.snapshots / next(iter(ref.files)).path
    found.chmod(0o600)
    found.write_bytes(b"{}")
    commands.record(built.log, Draft(content="we use SQLite"), NOW)
    check = shrink_check(built.rebuild())
    assert not check.passed and check.warns and "compared with nothing" in check.detail
    assert alarm_text(check).startswith("did_not_shrink: ")
    commands.record(built.log, Draft(content="we use WAL mode"), NOW)
    assert shrink_check(built.rebuild()).passed

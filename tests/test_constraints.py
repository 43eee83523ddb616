"""A snapshot with correct hashes but invalid content is neither served nor built upon."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from conftest import NOW, Built
from torture import forged_write
from torture.forged_write import Place

from serve.reader.reader import Reader
from store.derived import catalog, constraints
from store.derived.constraints import RUNS, SAME_ROWS, VALUES
from store.home.errors import SnapshotDamaged
from store.maintenance import build, checkup
from store.snapshots import manifest as manifests
from store.snapshots.projection import column_array


def home_of(built: Built) -> Path:
    return built.tenant.root.parent.parent


def place(built: Built, name: str) -> Place:
    projection, _, table = name.partition(".")
    found = forged_write.places(home_of(built))
    return next(
        column for column in found if (column.projection, column.table) == (projection, table)
    )


def forge(built: Built, name: str, column: str, first: object) -> None:
    """Replace the first value in a column of a table, with matching hashes."""
    at = place(built, name)
    table = forged_write.read(home_of(built), at)
    values = [first, *table.column(column).to_pylist()[1:]]
    number = table.column_names.index(column)
    field = table.schema.field(column)
    forged_write.put(
        home_of(built), at, table.set_column(number, field, pa.array(values, field.type))
    )


def notices(built: Built) -> str:
    with Reader(built.tenant, built.log, built.embedder).view() as view:
        return " ".join(view.notices)


def test_what_is_agreed_names_tables_and_columns_that_there_are(built: Built):
    schemas = {other.name: other.schemas for other in catalog.all_projections(built.embedder)}
    for projection, tables in VALUES.items():
        for table, columns in tables.items():
            assert columns.keys() <= {*schemas[projection][table].names}, table
    named = [*SAME_ROWS, *SAME_ROWS.values(), *RUNS, *(of for _, _, of in RUNS.values())]
    for projection, _, table in (name.partition(".") for name in named):
        assert table in schemas[projection]


def test_what_a_build_writes_is_as_agreed(built: Built):
    manifest = built.rebuild()
    for projection in catalog.all_projections(built.embedder):
        constraints.check(built.tenant.snapshots, manifest, projection)


def test_an_empty_memory_is_as_agreed(tenant, log, embedder):
    manifest = build.rebuild(tenant, log, embedder, NOW)
    for projection in catalog.all_projections(embedder):
        constraints.check(tenant.snapshots, manifest, projection)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("memories.ids", "document", 10_000),
        ("memories.columns", "project", -2),
        ("memories.memories", "content", None),
        ("postings.postings", "document", 10_000),
        ("postings.postings", "impact", float("nan")),
        ("postings.words", "offset", -1),
        ("postings.segments", "postings", None),
        ("entities.entities", "documents", 5_000),
        ("vectors.codes", "scale", float("inf")),
        ("facts.facts", "document", -1),
    ],
)
def test_a_place_that_leads_nowhere_is_set_aside(built: Built, name: str, column: str, value):
    built.rebuild()
    forge(built, name, column, value)
    assert "not as agreed" in notices(built) or "was built as" in notices(built)
    manifest = manifests.current(built.tenant)
    assert any("not as agreed" in one for one in checkup.damage(built.tenant, manifest))


@pytest.mark.parametrize("thorough", [True, False])
def test_a_build_takes_nothing_over_from_what_was_set_aside(built: Built, thorough: bool):
    digests = built.rebuild().digests
    forge(built, "postings.postings", "document", 10_000)
    assert "not as agreed" in notices(built)
    assert built.rebuild(thorough=thorough).digests == digests
    assert notices(built) == ""


def test_a_table_of_too_few_rows_is_set_aside_before_a_file_is_read(built: Built):
    at = place(built, "vectors.codes")
    forged_write.put(home_of(built), at, forged_write.read(home_of(built), at).slice(1))
    assert "not as agreed (" in notices(built)


def test_files_of_another_tenants_folder_are_not_read(built: Built):
    def elsewhere(manifest):
        for ref in manifest["projections"].values():
            for parts in ref["parts"].values():
                for part in parts:
                    part["path"] = f"../../other/snapshots/{part['path']}"

    forged_write.changed(home_of(built), elsewhere)
    with pytest.raises(SnapshotDamaged, match="mnemolog build"):
        manifests.current(built.tenant)


@pytest.mark.parametrize("value", [10**30, -1, 2**63])
def test_a_manifest_of_numbers_that_no_build_writes_is_damaged(built: Built, value: int):
    forged_write.changed(home_of(built), lambda manifest: manifest.update(watermark=value))
    with pytest.raises(SnapshotDamaged):
        manifests.current(built.tenant)


def test_a_manifest_that_is_nested_too_deeply_is_damaged(built: Built):
    number = manifests.current(built.tenant).number
    forged_write.publish_bytes(home_of(built), number, b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(SnapshotDamaged):
        manifests.current(built.tenant)
    assert notices(built) != ""


def test_a_manifest_ahead_of_a_log_that_lost_nothing_is_not_served(built: Built):
    manifest = manifests.current(built.tenant)
    refs = {
        name: msgspec.structs.replace(ref, watermark=10_000)
        for name, ref in manifest.projections.items()
    }
    ahead = msgspec.structs.replace(manifest, watermark=10_000, projections=refs)
    forged_write.publish(home_of(built), ahead)
    assert "the log ends at" in notices(built)
    built.rebuild()
    assert notices(built) == ""


def test_snapshots_of_another_log_are_not_served(built: Built):
    at = place(built, "memories.memories")
    table = forged_write.read(home_of(built), at)
    ids = pa.array([f"{id_}-of-another" for id_ in column_array(table, "id").to_pylist()])
    table = table.set_column(0, table.schema.field("id"), ids)
    forged_write.put(home_of(built), at, table)
    assert "is of another log" in notices(built)

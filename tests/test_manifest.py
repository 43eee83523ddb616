"""A manifest is either current or not; files named by a kept manifest are never dropped."""

import json

import msgspec
import pytest

from store.home.errors import NoManifest, SnapshotDamaged
from store.home.tenant import Tenant
from store.snapshots import manifest as manifests
from store.snapshots.manifest import KEEP, CheckResult, Manifest, Refusal
from store.snapshots.projection import PartFile
from store.snapshots.snapshot import SnapshotRef

NOW = 1_790_000_000_000_000


def candidate(tenant: Tenant, watermark: int, path: str = "") -> Manifest:
    """Return a manifest of one snapshot and write the snapshot's file."""
    path = path or f"memories/memories-{watermark}.arrow"
    (tenant.snapshots / path).parent.mkdir(parents=True, exist_ok=True)
    (tenant.snapshots / path).write_bytes(b"x" * watermark)
    ref = SnapshotRef(
        projection="memories", version="1", watermark=watermark, digest=f"d{watermark}",
        inputs={"log": str(watermark)},
        parts={"memories": (PartFile(path, 1, "d", watermark, "ab"),)},
    )  # fmt: skip
    return Manifest(0, NOW, watermark, "lexical", {"memories": ref})


def snapshots(tenant: Tenant) -> list[str]:
    return sorted(str(path.relative_to(tenant.snapshots)) for path in tenant.snapshots.glob("*/*"))


def test_there_is_no_manifest_before_the_first_build(tenant: Tenant):
    with pytest.raises(NoManifest, match="mnemolog build"):
        manifests.current(tenant)
    assert list(manifests.list_manifests(tenant)) == [] and manifests.last_refusal(tenant) is None


def test_what_is_published_is_current_under_the_next_number(tenant: Tenant):
    for number in (1, 2, 3):
        published = manifests.publish(tenant, candidate(tenant, number))
        assert published.number == number
        assert manifests.current(tenant) == published
    assert [manifest.number for manifest in manifests.list_manifests(tenant)] == [3, 2, 1]
    assert (published.bytes, published.digests) == (3, {"memories": "d3"})


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"\xff"])
def test_a_damaged_head_is_noticed(tenant: Tenant, data: bytes):
    manifests.publish(tenant, candidate(tenant, 1))
    tenant.head.write_bytes(data)
    with pytest.raises(SnapshotDamaged, match="mnemolog build"):
        manifests.current(tenant)
    assert [manifest.number for manifest in manifests.list_manifests(tenant)] == [1]


def test_a_manifest_that_head_says_was_another_is_neither_current_nor_kept(tenant: Tenant):
    manifests.publish(tenant, candidate(tenant, 1))
    manifests.publish(tenant, candidate(tenant, 2))
    tenant.head.write_bytes(b'{"number": 2, "sha256": "00"}')
    with pytest.raises(SnapshotDamaged, match="does not match HEAD"):
        manifests.current(tenant)
    assert [manifest.number for manifest in manifests.list_manifests(tenant)] == [1]


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_a_damaged_manifest_is_noticed_by_name(tenant: Tenant, damage: str):
    manifests.publish(tenant, candidate(tenant, 1))
    path = next(tenant.manifests.glob("*.json"))
    text = path.read_text()
    path.write_text(text[:40] if damage == "cut" else text.replace('"lexical"', '"psychic"'))
    if damage == "missing":
        path.unlink()
    with pytest.raises(SnapshotDamaged) as caught:
        manifests.current(tenant)
    assert path.name in str(caught.value)


def test_an_older_manifest_stays_readable_where_the_newest_is_damaged(tenant: Tenant):
    for number in (1, 2):
        manifests.publish(tenant, candidate(tenant, number))
    (tenant.manifests / "00000002.json").write_text("{")
    assert [manifest.number for manifest in manifests.list_manifests(tenant)] == [1]
    assert manifests.publish(tenant, candidate(tenant, 3)).number == 3


def test_a_crash_before_head_moves_changes_nothing_that_is_served(tenant: Tenant, monkeypatch):
    served = manifests.publish(tenant, candidate(tenant, 1))
    whole = manifests.replace_file

    def fail_at_head(path, data):
        if path == tenant.head:
            raise OSError("killed")
        whole(path, data)

    monkeypatch.setattr(manifests, "replace_file", fail_at_head)
    with pytest.raises(OSError, match="killed"):
        manifests.publish(tenant, candidate(tenant, 2))
    monkeypatch.undo()
    assert manifests.current(tenant) == served
    assert manifests.publish(tenant, candidate(tenant, 3)).number == 3


def test_expire_keeps_the_newest_and_drops_what_none_of_them_names(tenant: Tenant):
    for number in range(1, KEEP + 3):
        manifests.publish(tenant, candidate(tenant, number))
    (tenant.snapshots / "memories" / ".new-1234").write_bytes(b"")  # left by a killed build
    (tenant.snapshots / "memories" / "000000000001-x").mkdir()  # a snapshot of an earlier format
    dropped = manifests.expire(tenant)
    manifests_ = list(manifests.list_manifests(tenant))
    assert [manifest.number for manifest in manifests_] == [5, 4, 3]
    assert snapshots(tenant) == [f"memories/memories-{number}.arrow" for number in (3, 4, 5)]
    removed = {f"memories/memories-{number}.arrow" for number in (1, 2)}
    assert set(dropped) == removed | {"memories/.new-1234", "memories/000000000001-x"}
    assert manifests.expire(tenant) == []


def test_expire_keeps_an_old_snapshot_that_the_newest_manifest_took_over(tenant: Tenant):
    for number in range(1, KEEP + 3):
        manifests.publish(tenant, candidate(tenant, number, path="memories/shared.arrow"))
    assert manifests.expire(tenant) == [] and snapshots(tenant) == ["memories/shared.arrow"]


def test_a_refusal_is_kept_until_the_next_publication(tenant: Tenant):
    checks = (CheckResult("a", True, "fine"), CheckResult("b", False, "wrong", "postings"))
    manifests.refuse(tenant, Refusal(NOW, 7, checks))
    assert manifests.last_refusal(tenant).reasons == ["b: wrong"]
    manifests.publish(tenant, candidate(tenant, 8))
    assert manifests.last_refusal(tenant) is None


def test_a_manifest_of_a_later_version_with_more_fields_is_readable(tenant: Tenant):
    published = manifests.publish(tenant, candidate(tenant, 1))
    more = json.loads(msgspec.json.encode(published)) | {"colour": "red"}
    assert msgspec.json.decode(json.dumps(more), type=Manifest) == published

"""
Manifest: which snapshots belong together, were checked, and are published.

Publishing writes `manifests/<n>.json` and then replaces `HEAD`, which names it and its hash.
Readers start here and nowhere else. A few older manifests are kept, so that a reader whose newest
snapshot is damaged has something checked to fall back to; for a week also the last one of another
embedder, so that a switch can be undone at once.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from store.home.errors import NoManifest, SnapshotDamaged, SnapshotError
from store.home.files import remove_files, replace_file, sweep
from store.home.instants import DAY, EARLIEST, LATEST
from store.home.tenant import Tenant
from store.snapshots.projection import Count
from store.snapshots.snapshot import SnapshotRef

KEEP = 3  # manifests, the current one included
KEEP_OTHER_US = 7 * DAY  # the last one of another embedder: a week
CANARIES = "canaries"  # the check that queries recall itself
# the checks that repeat past queries
PAST_ANSWERS, NEWCOMERS = "past_answers", "newcomers"
ONLY_VISIBLE = "only_visible"  # the check that queries for hidden memories
SAME_MODEL = "same_model"  # the check that embeds some texts again
UPGRADE = "upgrade"  # the check that compares with the answers of another mnemolog version
SETTINGS = "settings"  # the check that judges edits of config.toml by hand
EXPECTED = "expected"  # the check that asks the questions people pinned


Moment = Annotated[int, Meta(ge=EARLIEST, le=LATEST)]  # microseconds UTC


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one audit of a candidate, and the advice if it failed.

    `memories` are the ids of the first few it fails on, `alone` of all it fails on by themselves:
    without them it would pass. A result that only `warns` does not keep the candidate from being
    published.
    """

    name: str
    passed: bool
    detail: str
    projection: str = "memories"
    metadata: Mapping[str, Any] = {}
    alone: tuple[str, ...] = ()
    cure: str = ""
    warns: bool = False
    memories: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """True if the candidate must not be published."""
        return not self.passed and not self.warns

    @property
    def reason(self) -> str:
        """The detail, and the cure."""
        return f"{self.detail}. {self.cure}" if self.cure else self.detail


class Manifest(msgspec.Struct, frozen=True):
    """A published set of snapshots. `at` is microseconds UTC, `watermark` that of the memories.

    `moment` is the time of the log there; 0 in a manifest of an earlier version.
    """

    number: Count
    at: Moment
    watermark: Count
    embedder: str
    projections: Mapping[str, SnapshotRef]
    checks: tuple[CheckResult, ...] = ()
    dimension: Count = 0  # of the embedder's vectors; 0: it never answered
    moment: int = 0
    decided_by: str = ""  # the code and settings under which all was checked; empty: not known

    @property
    def age_reference(self) -> int:
        """The reference time for ages in recall; an earlier version used that of publication."""
        return self.moment or self.at

    @property
    def bytes(self) -> int:
        return sum(ref.bytes for ref in self.projections.values())

    @property
    def missing_vectors(self) -> int:
        """The number of texts waiting for a vector."""
        return sum(ref.missing for ref in self.projections.values())

    @property
    def digests(self) -> dict[str, str]:
        return {name: ref.digest for name, ref in sorted(self.projections.items())}


class Refusal(msgspec.Struct, frozen=True):
    """The reason the newest build was not published."""

    at: Moment
    watermark: Count
    checks: tuple[CheckResult, ...]

    @property
    def reasons(self) -> list[str]:
        return [f"{check.name}: {check.reason}" for check in self.checks if check.stops]


class _Head(msgspec.Struct, frozen=True):
    number: Count
    sha256: str


# made once, before there are threads: msgspec 0.22 crashes if two meet a type for the first time
_decoder = msgspec.json.Decoder(Manifest)
_head_decoder = msgspec.json.Decoder(_Head)
# the errors of reading data that is no JSON, no text, of other types, or nested too deeply
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def current(tenant: Tenant) -> Manifest:
    """Return the manifest that HEAD names.

    Raise NoManifest before the first build, SnapshotDamaged if HEAD or its manifest is broken.
    """
    head = _head(tenant)
    manifest, digest = _load(tenant, head.number)
    if digest != head.sha256:
        raise SnapshotDamaged(
            f"{_path(tenant, head.number)} does not match HEAD: run `mnemolog build`"
        )
    return manifest


def list_manifests(tenant: Tenant) -> Iterator[Manifest]:
    """Yield every readable manifest, newest first, except one that does not match HEAD's hash."""
    try:
        head = _head(tenant)
    except SnapshotError:
        head = None
    for number in _numbers(tenant):
        try:
            manifest, digest = _load(tenant, number)
        except SnapshotDamaged:
            continue
        if head is None or head.number != number or head.sha256 == digest:
            yield manifest


def publish(tenant: Tenant, candidate: Manifest) -> Manifest:
    """Make a checked candidate the current manifest under the next number; return it."""
    number = max(_numbers(tenant), default=0) + 1
    manifest = msgspec.structs.replace(candidate, number=number)
    data = msgspec.json.encode(manifest)
    replace_file(_path(tenant, number), data)
    replace_file(tenant.head, msgspec.json.encode(_Head(number, sha256(data).hexdigest())))
    remove_files([tenant.refusals])
    return manifest


def refuse(tenant: Tenant, refusal: Refusal) -> None:
    """Store the reason beside the last good manifest, for `status` and `doctor`."""
    replace_file(tenant.refusals, msgspec.json.encode(refusal))


def last_refusal(tenant: Tenant) -> Refusal | None:
    try:
        return msgspec.json.decode(tenant.refusals.read_bytes(), type=Refusal)
    except (OSError, *_UNREADABLE):
        return None


def expire(tenant: Tenant, *, keep: int = KEEP) -> list[str]:
    """Drop all but the newest `keep` manifests, and every file that none of them names.

    If more than one is kept, so is the newest of another embedder, for a week. Return the paths of
    the files dropped. On Windows a mapped file cannot be deleted: it is left for the next time.
    Call it only while holding the tenant's build lock.
    """
    sweep(tenant.manifests, older_than_s=0.0)
    # no fsync: files that come back after a power cut are dropped by the next build
    numbers = _numbers(tenant)[:keep]
    if keep > 1 and (other := _of_another_embedder(tenant)) is not None:
        numbers.append(other.number)
    for number in set(_numbers(tenant)).difference(numbers):
        _path(tenant, number).unlink(missing_ok=True)
    refs = (ref for manifest in list_manifests(tenant) for ref in manifest.projections.values())
    wanted = {file.path for ref in refs for file in ref.files}
    dropped = []
    for path in sorted(tenant.snapshots.glob("*/*")):
        name = path.relative_to(tenant.snapshots).as_posix()
        if name not in wanted:
            if path.is_dir():  # a snapshot of an earlier format
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(PermissionError):
                    path.unlink(missing_ok=True)
            dropped.append(name)
    return dropped


def _of_another_embedder(tenant: Tenant) -> Manifest | None:
    newest = None
    for manifest in list_manifests(tenant):
        newest = newest or manifest
        if manifest.embedder != newest.embedder:
            return manifest if newest.at - manifest.at <= KEEP_OTHER_US else None
    return None


def _head(tenant: Tenant) -> _Head:
    try:
        return _head_decoder.decode(tenant.head.read_bytes())
    except FileNotFoundError:
        raise NoManifest(f"nothing was built for {tenant.name} yet: run `mnemolog build`") from None
    except (OSError, *_UNREADABLE) as error:
        raise SnapshotDamaged(f"{tenant.head}: {error}: run `mnemolog build`") from error


def _path(tenant: Tenant, number: int) -> Path:
    return tenant.manifests / f"{number:08d}.json"


def _numbers(tenant: Tenant) -> list[int]:
    """Return the numbers of the existing manifests, newest first."""
    if not tenant.manifests.is_dir():
        return []
    stems = (path.stem for path in tenant.manifests.glob("*.json"))
    return sorted((int(stem) for stem in stems if stem.isdigit()), reverse=True)


def _load(tenant: Tenant, number: int) -> tuple[Manifest, str]:
    path = _path(tenant, number)
    try:
        data = path.read_bytes()
        manifest = _decoder.decode(data)
    except (OSError, *_UNREADABLE) as error:
        raise SnapshotDamaged(f"{path}: {error}: run `mnemolog build`") from error
    if manifest.number != number:
        raise SnapshotDamaged(f"{path} is number {manifest.number}: run `mnemolog build`")
    return manifest, sha256(data).hexdigest()

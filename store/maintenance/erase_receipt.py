"""
The receipt of an erasure: the actions, the searched files, and the copies out of reach.

It quotes nothing. It is kept below the tenant, in `erased/`, and its digest proves its integrity.
"""

import os
from hashlib import sha256
from pathlib import Path

import msgspec

from store.home.files import replace_file
from store.home.instants import isoformat, new_id
from store.home.tenant import Tenant
from store.log import salvage
from store.maintenance import erase
from store.maintenance.erase import EraseResult, Quote
from store.maintenance.erase_scan import ScanReport, walk_files

# Copies: a list of the copies made and kept elsewhere, so that a receipt can name them.
#
# One line of JSON for each, below the tenant, without any text of the memory.

_MOST = 1_000  # the newest are kept


class Copy(msgspec.Struct, frozen=True):
    """A copy: its kind (`export`, `backup`), its destination, and its time (microseconds UTC)."""

    what: str
    to: str
    at: int


# made once, before there are threads: msgspec 0.22 crashes if two meet a type for the first time
_decoder = msgspec.json.Decoder(Copy)


def record_copy(tenant: Tenant, what: str, to: str, at: int) -> Copy:
    """Record that a copy was made, on the disk when this returns; return it."""
    copy = Copy(what, to, at)
    line = msgspec.json.encode(copy) + b"\n"
    path = _path(tenant)
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if not lines or len(lines) >= _MOST:
        replace_file(path, b"".join([*lines[1 - _MOST :], line]))
        return copy
    with path.open("ab") as file:
        # the last line may be torn, and must not damage this one
        file.write(line if lines[-1].endswith(b"\n") else b"\n" + line)
        file.flush()
        os.fsync(file.fileno())
    return copy


def list_copies(tenant: Tenant) -> list[Copy]:
    """Return the recorded copies, oldest first; torn lines are skipped."""
    try:
        lines = _path(tenant).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    copies = []
    for line in lines:
        try:
            copies.append(_decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return copies


def damaged_copies(tenant: Tenant) -> list[Copy]:
    """Return the copies of damaged files that are kept within the tenant.

    They may hold events that the log lost, and that cannot be searched for.
    """
    return [
        Copy("damaged file", str(path), path.stat().st_mtime_ns // 1_000)
        for path in walk_files(salvage.folder_of(tenant.log))
    ]


def _path(tenant: Tenant) -> Path:
    return tenant.root / "copies.jsonl"


BEYOND = (
    "copies that were made over HTTP or by hand, and whatever was made of a copy",
    "the hosts' own transcripts of their sessions",
    "names: ids, and the projects, sessions and agents that events belong to",
    "blocks that the disk freed and has not written again (an SSD may keep them)",
    "the working memory of a running server, until it opened the new state or ends",
)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an erasing. `events` were rewritten, `cut` more because they quoted; `dropped`
    are records of others that quoted. `left` are files within reach that may still contain a mark.
    """

    id: str
    at: str
    by: str
    tenant: str
    ids: tuple[str, ...]
    events: int
    cut: int
    made: tuple[str, ...]
    is_settled: bool
    files_deleted: tuple[str, ...]
    dropped: tuple[str, ...]
    scan: ScanReport
    texts_too_short: int
    left: tuple[str, ...]
    elsewhere: tuple[str, ...]
    quotes: tuple[Quote, ...]
    copies: tuple[Copy, ...]
    not_reached: tuple[str, ...] = BEYOND
    digest: str = ""

    @property
    def is_clean(self) -> bool:
        """True if nothing was found within the erasing's reach."""
        return not self.left


def make_receipt(
    home: Path, tenant: Tenant, wiped: EraseResult, by: str, now: int, before: set[str]
) -> Receipt:
    """Scan the home, store the receipt and return it; `before` are the tenant's files before."""
    dropped, scanned = erase.scan_home(home, tenant, wiped)
    suspect = [*(hit.path for hit in scanned.found), *scanned.unread]
    receipt = Receipt(
        id=new_id(now),
        at=isoformat(now),
        by=by,
        tenant=tenant.name,
        ids=wiped.erasure.ids,
        events=wiped.erasure.events,
        cut=wiped.cut,
        made=wiped.erasure.made,
        is_settled=wiped.erasure.is_settled,
        files_deleted=tuple(sorted(before - erase.file_names(tenant))),
        dropped=tuple(dropped),
        scan=scanned,
        texts_too_short=wiped.marks.short,
        left=tuple(path for path in suspect if erase.is_within(path, tenant)),
        elsewhere=tuple(path for path in suspect if not erase.is_within(path, tenant)),
        quotes=wiped.quotes,
        copies=(*list_copies(tenant), *damaged_copies(tenant)),
    )
    receipt = msgspec.structs.replace(receipt, digest=receipt_digest(receipt))
    replace_file(receipts_folder(tenant) / f"{receipt.id}.json", msgspec.json.encode(receipt))
    if receipt.is_clean:  # only now: an interrupted erasing has to search for the same marks again
        erase.drop_start(tenant, wiped.erasure.ids)
    return receipt


def receipts_folder(tenant: Tenant) -> Path:
    return tenant.root / "erased"


def receipt_digest(receipt: Receipt) -> str:
    """Return the hex SHA-256 of a receipt without its digest."""
    bare = msgspec.structs.replace(receipt, digest="")
    return sha256(msgspec.json.encode(bare)).hexdigest()

"""
The receipt of an erasing: what was done, what was looked through, and what could not be reached.

It quotes nothing. It is kept below the tenant, in `erased/`, and its digest says that it is whole.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from store.erase import wiping
from store.erase.copies import Copy, copies, damaged
from store.erase.quotes import Quote
from store.erase.scan import Scanned
from store.erase.wiping import Wiped
from store.home.files import replace_file
from store.home.instants import isoformat, new_id
from store.home.tenant import Tenant

BEYOND = (
    "copies that were made over HTTP or by hand, and whatever was made of a copy",
    "the hosts' own transcripts of their sessions",
    "names: ids, and the projects, sessions and agents that events belong to",
    "blocks that the disk freed and has not written again (an SSD may keep them)",
    "the working memory of a running server, until it opened the new state or ends",
)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasing did. `events` were rewritten, `cut` more because they quoted; `dropped` are
    records of others that quoted. `left` are files within reach that still hold some of it.
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
    scan: Scanned
    texts_too_short: int
    left: tuple[str, ...]
    elsewhere: tuple[str, ...]
    quotes: tuple[Quote, ...]
    copies: tuple[Copy, ...]
    not_reached: tuple[str, ...] = BEYOND
    digest: str = ""

    @property
    def is_clean(self) -> bool:
        """Return whether nothing was found where the erasing reaches."""
        return not self.left


def made(home: Path, tenant: Tenant, wiped: Wiped, by: str, now: int, before: set[str]) -> Receipt:
    """Look through the home, keep the receipt and return it; `before` are the tenant's files as
    they were.
    """
    dropped, scanned = wiping.looked_through(home, tenant, wiped)
    suspect = [*(one.path for one in scanned.found), *scanned.unread]
    found = Receipt(
        id=new_id(now),
        at=isoformat(now),
        by=by,
        tenant=tenant.name,
        ids=wiped.erasure.ids,
        events=wiped.erasure.events,
        cut=wiped.cut,
        made=wiped.erasure.made,
        is_settled=wiped.erasure.is_settled,
        files_deleted=tuple(sorted(before - wiping.names(tenant))),
        dropped=tuple(dropped),
        scan=scanned,
        texts_too_short=wiped.marks.short,
        left=_of(suspect, tenant, is_within=True),
        elsewhere=_of(suspect, tenant, is_within=False),
        quotes=wiped.quotes,
        copies=(*copies(tenant), *damaged(tenant)),
    )
    found = msgspec.structs.replace(found, digest=digest(found))
    replace_file(folder_of(tenant) / f"{found.id}.json", msgspec.json.encode(found))
    if found.is_clean:  # only now: who was ended before has to look for the same again
        wiping.forget(tenant, wiped.erasure.ids)
    return found


def folder_of(tenant: Tenant) -> Path:
    return tenant.root / "erased"


def read(path: Path) -> Receipt:
    """Return a receipt that was kept; raise OSError or MsgspecError."""
    return msgspec.json.decode(path.read_bytes(), type=Receipt)


def digest(receipt: Receipt) -> str:
    """Return the sha256, hex, of all that a receipt says but this."""
    bare = msgspec.structs.replace(receipt, digest="")
    return sha256(msgspec.json.encode(bare)).hexdigest()


def _of(paths: Sequence[str], tenant: Tenant, *, is_within: bool) -> tuple[str, ...]:
    return tuple(path for path in paths if wiping.is_within(path, tenant) is is_within)

"""
What is known of a memory's duplicates: those the build linked, by strict evidence.
"""

from typing import Any

from serve.reader.reader import View
from store.derived.duplicates import Link
from store.memories.memory import FORGOTTEN


def duplicates_of(view: View, id_: str) -> list[dict[str, Any]]:
    """Return what says the same as a memory, or the same with another value, as JSON has it.

    `kind` is exact, near or update; of an update, `was` and `becomes` are the values and `is_newer`
    says whether the other is the later one. None of a memory that came after the build.
    """
    of = view.snapshots
    row = of.rows.row(id_)
    if row is None or of.duplicates is None:
        return []
    found = []
    for link in of.duplicates.of(row):
        is_newer = link.of == row
        other = of.rows.take([link.document if is_newer else link.of])[0]
        now = view.tail.find(other.id)
        if now is not None and now.state != FORGOTTEN:
            found.append({"id": other.id, "state": now.state, **_shown(link, is_newer)})
    return found


def _shown(link: Link, is_newer: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": link.kind, "likeness": link.likeness}
    if link.kind == "update":
        shown |= {"was": link.was, "becomes": link.becomes, "is_newer": is_newer}
    return shown

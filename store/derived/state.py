"""
The projection `state`: which earlier claim a later one replaces, ends or repeats.

A claim (`store.text.claims`) is a sentence of a prompt's typed part, of a statement, or of a note.
In the order in which they were made, each is compared with those before it in its project that
share its rarer words, and a short one also with the last of its session: "Make that 150" is about
the turn before. So a claim's effect depends on the earlier ones alone, and a build goes on from the
previous one. A claim's repetitions are outdated with it, and its conclusions rest on an outdated
claim. Nothing here changes a memory: recall marks outdated claims, history keeps them, and
`mnemolog restore ID` declares a memory valid all the same.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from store.agents.authorship import read_authors
from store.derived.claim_links import TERM_BYTES, Claims, Link, Said, pack_terms, term_number
from store.log.event_kinds import EPISODE, MEMORY_KINDS, Restored
from store.memories.memory import ACTIVE, OPEN, STATES, Memory
from store.memories.parts import fields_of
from store.snapshots.projection import (
    Inputs,
    Made,
    Previous,
    Projection,
    Tables,
    column_array,
    column_view,
)
from store.text.claim_pairs import choices
from store.text.claims import announces, claim_spans, parse
from store.text.text_features import MAY_RULE

CLAIMS = pa.schema(
    [
        ("id", pa.string()),  # of the memory
        ("mark", pa.uint64()),  # of its text
        ("project", pa.string()),
        ("session", pa.string()),
        ("at", pa.int64()),
        ("text", pa.string()),
        ("terms", pa.list_(pa.uint32())),
        ("is_note", pa.bool_()),
        ("is_own", pa.bool_()),  # else only passed on: it may be outdated, and changes nothing
    ]
)
# of rows of `claims`; `relation` is the place in `claim_links.NAMES`
LINKS = pa.schema(
    [
        ("older", pa.int32()),
        ("newer", pa.int32()),
        ("relation", pa.int8()),
        ("probability", pa.float32()),
        ("is_void", pa.bool_()),  # the older claim was made again since
    ]
)
RESTORED = pa.schema([("id", pa.string()), ("at", pa.int64())])

# a later event does not make an earlier one untrue; a job's memories follow their sources
KINDS = frozenset(MEMORY_KINDS) - {
    *("raw_turn", "activity", "observation", "milestone", "summary", "bugfix", "insight", "goal")
}
_BORNE_BY = "kind state trust job author".split()
_FIELDS = "created_at seq id content project session".split()
_REPORTED = re.compile(
    r"\b(?:from|by|via|says?|said|wrote|writes|according|per|von|laut|sagt|schreibt|según|dice"
    r"|selon|dit|segundo|diz|secondo|volgens|zegt|от|пишет)\b",
    re.IGNORECASE,
)


def text_mark(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def bears_claims(memory: Memory) -> bool:
    """Return True if a memory's claims may be valid or outdated."""
    return _bears(memory.kind, memory.state, memory.trust, memory.job, memory.author)


def _bears(kind: str, state: str, trust: str, job: str | None, author: str | None) -> bool:
    if kind == EPISODE:  # its prompt; one without an outcome may still correct something
        return state in (ACTIVE, OPEN) and author in (None, "typed")
    return kind in KINDS and state == ACTIVE and trust in MAY_RULE and job is None


def claims_of(
    id_: str, kind: str, content: str, project: str | None, session: str | None, at: int
) -> Iterator[Said]:
    """Yield the claims of a memory's content."""
    mark = text_mark(content)
    is_note = kind != EPISODE and session is None
    typed, passed = _parts(content) if kind == EPISODE else (content, "")
    for text, is_own in ((typed, True), (passed, False)):
        for start, end in claim_spans(text):
            claim = parse(content[start:end])
            # a choice is found by its kind, too: "we moved to pnpm" by "we use npm"
            about_what = claim.terms.union(f"={kind}" for kind in choices(claim))
            terms = pack_terms(map(term_number, about_what))
            about = project or "", session or "", at, content[start:end], terms
            yield Said(id_, mark, *about, is_note, is_own)


def _parts(prompt: str) -> tuple[str, str]:
    """Return a prompt without its pasted parts, and one with only the parts passed on.

    Both have its length. A part passed on is a line after a colon. Quotations stay, as does such a
    line if its writer calls it a change: "Change of plans: ..."
    """
    typed, passed = list(prompt), list(re.sub(r"[^\n]", " ", prompt))
    before = ""
    for part in read_authors(prompt).parts:
        text = prompt[part.start : part.end]
        is_line = part.place == "after" and "\n" not in text
        is_own = part.author == "typed" or part.place == "quotation"
        # a change of the writer's own: the words before the colon announce it
        if not is_own and not (
            is_line and announces(parse(before.strip())) and _REPORTED.search(before) is None
        ):
            typed[part.start : part.end] = re.sub(r"[^\n]", " ", text)
            if is_line:
                passed[part.start : part.end] = text
        before = text if part.place == "before" else ""
    return "".join(typed), "".join(passed)


def build(inputs: Inputs, previous: Previous | None) -> Made:
    """Return the claims, project by project, and their links."""
    old = _Earlier.of(previous)
    rows: list[Said] = []
    links: list[Link] = []
    every = _all_claims(inputs.tables["memories"], old)
    # each is added as soon as it is made, while its parsed text is cached
    for project, its in groupby(every, lambda statement: statement.project):
        start = len(rows)
        before, links_before = old.projects.get(project, ([], {}))
        is_known = True
        claims = Claims()
        for place, statement in enumerate(its):
            is_known = is_known and place < len(before) and statement == before[place]
            claims.add(statement, links_before.get(place, ()) if is_known else None)
        rows += claims.said
        links += (
            link._replace(older=link.older + start, newer=link.newer + start)
            for link in claims.marked_links()
        )
    return {
        "claims": _claims_table(rows),
        "links": _table(links, LINKS),
        "restored": _restored(inputs, previous),
    }


def _claims_table(rows: Sequence[Said]) -> pa.Table:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(CLAIMS)
    columns = {
        field.name: _lists(column) if field.name == "terms" else pa.array(column, field.type)
        for column, field in zip(values, CLAIMS, strict=True)
    }
    return pa.table(columns, schema=CLAIMS)


def _lists(packed: Sequence[bytes]) -> pa.Array:
    """Return a column of lists of the numbers of words."""
    ends = np.cumsum([0, *map(len, packed)]) // TERM_BYTES
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(np.frombuffer(b"".join(packed), np.uint32))
    )


def _packed(column: pa.Array) -> list[bytes]:
    """Return the lists of such a column, each as one value."""
    data = memoryview(column.values.to_numpy(zero_copy_only=True).view(np.uint8))
    ends = (column.offsets.to_numpy() * TERM_BYTES).tolist()
    return [bytes(data[start:end]) for start, end in pairwise(ends)]


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _restored(inputs: Inputs, previous: Previous | None) -> pa.Table:
    """Return the memories restored by `mnemolog restore`, and the latest moment of each."""
    restored: dict[str, int] = {}
    if previous is not None:
        restored = {row["id"]: row["at"] for row in previous.tables["restored"].to_pylist()}
    for event in inputs.read(0 if previous is None else previous.watermark):
        if isinstance(event.body, Restored):
            restored.pop(event.subject, None)
            restored[event.subject] = event.at
    return _table(list(restored.items()), RESTORED)


@dataclass(frozen=True)
class _Earlier:
    """An earlier build's claims by memory, and the links of each project."""

    by_memory: dict[tuple[str, int], list[Said]]
    projects: dict[str, tuple[list[Said], dict[int, list[Link]]]]

    @classmethod
    def of(cls, previous: Previous | None) -> "_Earlier":
        if previous is None:
            return cls({}, {})
        statements, links = read_claims(previous.tables), read_links(previous.tables)
        by_memory: defaultdict[tuple[str, int], list[Said]] = defaultdict(list)
        for statement in statements:
            by_memory[statement.id, statement.mark].append(statement)
        newer: defaultdict[int, list[Link]] = defaultdict(list)
        for link in links:
            newer[link.newer].append(link)
        projects = {}
        for project, rows in rows_by_project(previous.tables).items():
            own = {
                row - rows.start: [
                    link._replace(older=link.older - rows.start, newer=row - rows.start)
                    for link in newer[row]
                ]
                for row in rows
                if row in newer
            }
            projects[project] = statements[rows.start : rows.stop], own
        return cls(dict(by_memory), projects)


def rows_by_project(tables: Tables) -> dict[str, range]:
    """Return the rows of CLAIMS by their project; those of a project are adjacent."""
    rows: dict[str, range] = {}
    start = 0
    for project, some in groupby(tables["claims"].column("project").to_pylist()):
        rows[project] = range(start, start := start + sum(1 for _ in some))
    return rows


def read_claims(tables: Tables, rows: range | None = None) -> list[Said]:
    """Return rows of CLAIMS, by default all."""
    table = tables["claims"] if rows is None else tables["claims"].slice(rows.start, len(rows))
    columns = [
        _packed(column_array(table, name)) if name == "terms" else table.column(name).to_pylist()
        for name in CLAIMS.names
    ]
    return [*map(Said._make, zip(*columns, strict=True))]


def read_links(tables: Tables, newer: range | None = None) -> list[Link]:
    """Return rows of LINKS, by default all, else those with their newer claim in some rows."""
    table = tables["links"]
    if newer is not None:
        places = column_view(table, "newer")
        start, stop = np.searchsorted(places, (newer.start, newer.stop))
        table = table.slice(start, stop - start)
    columns = [table.column(name).to_pylist() for name in LINKS.names]
    return [Link._make((*row[:3], round(row[3], 3), row[4])) for row in zip(*columns, strict=True)]


def _all_claims(memories: Tables, old: _Earlier) -> Iterator[Said]:
    """Yield all claims, by project and then in the order in which they were made."""
    kinds, states = (column_view(memories["columns"], name) for name in ("kind", "state"))
    wanted = np.isin(kinds, [MEMORY_KINDS.index(kind) for kind in KINDS])
    wanted &= np.isin(states, [STATES.index(ACTIVE), STATES.index(OPEN)])
    table = fields_of(memories, np.flatnonzero(wanted), (*_BORNE_BY, *_FIELDS))
    columns = [_values(table.column(name)) for name in table.column_names]
    rows = [
        (project or "", at, seq, id_, kind, content, project, session)
        for kind, *borne_by, at, seq, id_, content, project, session in zip(*columns, strict=True)
        if _bears(kind, *borne_by)
    ]
    rows.sort(key=itemgetter(slice(3)))
    for _, at, _, id_, kind, content, project, session in rows:
        claims = old.by_memory.get((id_, text_mark(content)))
        if claims is not None and claims[0].at == at:
            yield from claims
        else:
            yield from claims_of(id_, kind, content, project, session, at)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; those of a dictionary are found five times as fast at once."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: list[Any] = column.to_pylist()
    return values


STATE_PROJECTION = Projection(
    name="state",
    version="3",
    inputs=("log", "memories"),
    schemas={"claims": CLAIMS, "links": LINKS, "restored": RESTORED},
    build=build,
)

"""
The invariants of a memory after any failure, as a process that opens it now sees it.

Each function returns the faults in words, empty if there are none.
"""

import os
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from pyarrow import parquet

from serve.reader.filters import Filter
from serve.reader.reader import Reader
from serve.recall.analysis import default_question
from serve.recall.recall import recall
from store.embedders.lexical import LexicalEmbedder
from store.home import tenant as tenants
from store.home.config import Choices
from store.home.errors import MnemologError
from store.home.tenant import Tenant
from store.log import integrity
from store.log.event_kinds import Recorded
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.snapshots import snapshot

NOW = 1_790_000_000_000_000  # microseconds UTC

# by their paths below the tenant's folder; snapshots and cold are compared with their lists
_OURS = re.compile(
    r"log\.sqlite(-wal|-shm)?|ingest\.sqlite(-wal|-shm)?|HEAD|refused\.json|manifests/\d{8}\.json"
    r"|candidate/\w+(\.checks)?\.json|(build|rewrite|jobs)\.lock|erased/\w{26}\.json"
    r"|log\.head|damaged/.*|copies\.jsonl|replica\.json|replica\.lock|sync\.lock"
    r"|sync/(place|sent|heard)\.json|sync/key"
)


def of_the_log(
    home: Path,
    acknowledged: Collection[str],
    before: Collection[str],
    writing: Collection[Collection[str]],
    *,
    and_others: bool = False,
) -> list[str]:
    """Return the faults of the log, given the ids `before` and the acknowledged ids.

    `writing` are the ids that were being written, by batch: all of a batch are there or none. With
    `and_others` there may be events under random ids.
    """
    path = tenants.tenant(home).log
    if not path.exists():
        return [f"the log is gone, with {len(acknowledged)} acknowledged"] if acknowledged else []
    with EventLog(path) as log:
        wrong = [f"integrity: {problem}" for problem in integrity.problems(log)]
        events = list(log.read())
    ids = Counter(event.id for event in events)
    wrong += [f"{id_} was acknowledged and is lost" for id_ in acknowledged if id_ not in ids]
    wrong += [f"{id_} was there before and is lost" for id_ in before if id_ not in ids]
    wrong += [f"{id_} is there {count} times" for id_, count in ids.items() if count > 1]
    expected = {*before, *(id_ for batch in writing for id_ in batch)}
    if not and_others:
        wrong += [f"nobody wrote {id_}" for id_ in ids if id_ not in expected]
    for batch in writing:
        if 0 < (there := sum(id_ in ids for id_ in batch)) < len(batch):
            wrong.append(f"{there} of a batch of {len(batch)} are there")
    texts = Counter(event.body.content for event in events if isinstance(event.body, Recorded))
    doubled = [(text, count) for text, count in texts.items() if count > 1 and text]
    return [*wrong, *(f"{text[:40]!r} was recorded {count} times" for text, count in doubled)]


def modes(home: Path) -> list[str]:
    """Return the files and folders that another user may access."""
    return [
        f"{path.relative_to(home)} has mode {path.stat().st_mode & 0o777:o}"
        for path in (home, *home.rglob("*"))
        if path.stat().st_mode & 0o077
    ]


def recalled(home: Path, query: str, wanted: str) -> list[str]:
    """Return the faults of a new server's answer: it must return a memory and no damage."""
    tenant = tenants.tenant(home)
    embedder = LexicalEmbedder()
    with EventLog(tenant.log) as log, Reader(tenant, log, embedder).view() as view:
        answer = recall(view, default_question(query, Filter(now=NOW), Choices()))
    ids = [hit.memory.id for hit in answer.hits]
    wrong = [] if wanted in ids else [f"recall brought {ids}, not {wanted}"]
    return [*wrong, *(f"recall said: {notice}" for notice in answer.notices)]


def served(tenant: Tenant) -> list[str]:
    """Return the faults of the manifest that HEAD names, file by file."""
    try:
        manifest = manifests.current(tenant)
        for ref in manifest.projections.values():
            snapshot.verify(tenant.snapshots, ref)
    except MnemologError as error:
        return [f"what is served: {error}"]
    return []


def rebuilt(home: Path) -> list[str]:
    """Age the temporary files, build again and return the faults of the build and its manifest."""
    tenant = tenants.tenant(home)
    for path in tenant.root.rglob(".*"):
        os.utime(path, (0, 0))
    with EventLog(tenant.log) as log:
        try:
            manifest = build.rebuild(tenant, log, LexicalEmbedder(), NOW)
        except MnemologError as error:
            return [f"rebuild: {error}"]
        behind = log.head() - manifest.watermark
    wrong = [f"a build left {behind} events out"] if behind else []
    return [*wrong, *served(tenant)]


def left_over(home: Path) -> list[str]:
    """Return the files that nothing names, after all cleanup."""
    tenant = tenants.tenant(home)
    with EventLog(tenant.log) as log:
        segments = {segment.name for segment in log.segments()}
    refs = [
        ref
        for manifest in manifests.list_manifests(tenant)
        for ref in manifest.projections.values()
    ]
    wanted = {f"snapshots/{file.path}" for ref in refs for file in ref.files}
    wanted |= {f"cold/log/{name}" for name in segments}
    cold = sorted((tenant.cold / "memories").glob("*.parquet"))[-1:]
    wanted |= {path.relative_to(tenant.root).as_posix() for path in cold}
    files = (path for path in sorted(tenant.root.rglob("*")) if path.is_file())
    names = [path.relative_to(tenant.root).as_posix() for path in files]
    return [
        f"{name} is left over" for name in names if name not in wanted and not _OURS.fullmatch(name)
    ]


def holding(home: Path, word: str) -> list[str]:
    """Return the files that contain a word, also compressed in Parquet."""
    problems = []
    for path in sorted(home.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        if data.startswith(b"PAR1") and data.endswith(b"PAR1"):
            data += repr(parquet.read_table(path).to_pylist()).encode()
        if word.encode() in data.lower():
            problems.append(f"{path.relative_to(home)} holds what was erased")
    return problems

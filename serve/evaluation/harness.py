"""
run(): every workspace is written to a tenant of its own, built and asked like a user's memory.

Each query and prompt is asked twice: as a recall, without a bar, and as a typed prompt, for which
the hook itself decides whether to answer.

Nothing depends on the day of the run: memories are written at the time of the workspace's newest
one, and a query without a time of its own is asked then. A tenant is named by a digest of its
contents, so a kept home reuses only unchanged tenants.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
from msgspec.structs import replace

from serve.evaluation.dataset import Memory, Prompt, Query, Result, Workspace
from serve.hooks import prompt
from serve.hooks.call import Call
from serve.hosts.event import HookEvent
from serve.reader.reader import Reader
from serve.recall.context_block import short_id
from serve.recall.recall import Mode
from serve.recall.request import RecallRequest, answer
from serve.server.open_tenants import OpenTenant
from store.agents.prompt_classifier import read_intent
from store.derived import catalog
from store.embedders.embedder import Embedder, Matrix, make_embedder
from store.home import tenant as tenants
from store.home.config import Choices
from store.home.errors import InvalidInput, NoManifest, SnapshotDamaged
from store.home.files import replace_file
from store.home.instants import derived_id, micros
from store.home.tenant import Tenant
from store.log import commands
from store.log.commands import Draft
from store.log.event_log import EventLog
from store.maintenance import build
from store.snapshots import manifest as manifests
from store.text.tokenizer import text_hash

TOP_K = 60  # single memories: enough for a session level of the best ten

Progress = Callable[[str, str], None]  # workspace, stage

_SAID = re.compile(r'"id":"([^"]+)"')  # of a note in a block


class Run(msgspec.Struct, frozen=True):
    """A result for each query and prompt, the refused memories and notices of degraded recalls."""

    results: tuple[Result, ...]
    refused: tuple[str, ...]
    notices: tuple[str, ...]


def run_queries(
    workspaces: Sequence[Workspace],
    home: Path,
    choices: Choices,
    mode: Mode,
    *,
    cache: Path | None = None,
    on_progress: Progress = lambda workspace, stage: None,
) -> Run:
    """Ask every query and silent prompt of the workspaces; their tenants are left in `home`.

    With a `cache` folder no text is embedded twice by a model, in this run or a later one.
    """
    plain = make_embedder(choices.embedder, home)
    cached = CachedEmbedder(plain, cache) if cache is not None and not plain.is_cheap else None
    model: Embedder = plain if cached is None else cached
    results: list[Result] = []
    refused: list[str] = []
    notices: dict[str, None] = {}
    unrecorded = replace(choices, record=())  # a measurement leaves the memory as it is
    for workspace in workspaces:
        with _build_workspace(workspace, home, model, refused, on_progress) as tenant:
            on_progress(workspace.name, "ask")
            ids = {_id(workspace, memory): memory.id for memory in workspace.memories}
            by_short_id = {short_id(id_): own for id_, own in ids.items()}
            for question in workspace.asked:
                request = _request(question, mode)
                at = _question_time(workspace, question)
                payload, _ = answer(tenant.reader, request, choices, at)
                hits = payload["hits"]
                # an insight of a job takes a place and is relevant to nothing
                ranked = tuple(ids.get(hit["id"], hit["id"]) for hit in hits)
                gate = max((hit["confidence"] for hit in hits), default=0.0)
                if isinstance(question, Prompt) and read_intent(question.query).is_idle:
                    gate = 0.0  # a prompt's hook does not ask
                # and as the first prompt of a session
                event = HookEvent("eval", "prompt", question.id, prompt=question.query)
                block = prompt.answer_prompt(Call(event, tenant, unrecorded, "", at)).context
                injected = tuple(by_short_id.get(id_, id_) for id_ in _SAID.findall(block))
                results.append(Result(question.id, ranked, gate, injected))
                if payload["degraded"]:
                    notices |= dict.fromkeys(payload["notices"])
        if cached is not None:
            cached.save()  # after each: a run that is stopped has not worked for nothing
    return Run(tuple(results), tuple(refused), tuple(notices))


def _request(question: Query | Prompt, mode: Mode) -> RecallRequest:
    return RecallRequest(
        query=question.query,
        top_k=TOP_K,
        mode=mode,
        until=question.before_ts if isinstance(question, Query) else None,
        min_confidence=0.0,
        touch=False,
    )


def _question_time(workspace: Workspace, question: Query | Prompt) -> int:
    own = (question.query_ts or question.before_ts) if isinstance(question, Query) else None
    return micros(own) if own else newest(workspace)


@contextmanager
def _build_workspace(
    workspace: Workspace,
    home: Path,
    model: Embedder,
    refused: list[str],
    on_progress: Progress,
) -> Iterator[OpenTenant]:
    """Yield the workspace's tenant; write and build the missing parts first."""
    drafts = [_draft(workspace, memory) for memory in workspace.memories]
    tenant = tenant_of(workspace, home, model)
    at = newest(workspace)
    with EventLog(tenant.log, create=True) as log:
        on_progress(workspace.name, "import")
        commands.import_drafts(log, drafts, at, on_refused=refused.append)
        on_progress(workspace.name, "build")
        if not _is_current(tenant, log, model):
            build.rebuild(tenant, log, model, at)
        yield OpenTenant(tenant, log, Reader(tenant, log, model))


def tenant_of(workspace: Workspace, home: Path, model: Embedder) -> Tenant:
    """Return the tenant that a run writes a workspace to, named by the workspace's name and a
    digest of its memories and the embedder.
    """
    drafts = [_draft(workspace, memory) for memory in workspace.memories]
    # in groups: a run of 16 digits behind a name of digits looks like a token, and no tenant may
    # be named by one
    digest = sha256(msgspec.json.encode([model.model, drafts])).digest()[:8].hex("-", 2)
    return tenants.tenant(home, f"{_slug(workspace.name)[:40] or 'workspace'}-{digest}")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def newest(workspace: Workspace) -> int:
    """Return the time of the workspace's newest memory, microseconds UTC: it is written then."""
    return max(micros(memory.ts) for memory in workspace.memories)


def _is_current(tenant: Tenant, log: EventLog, model: Embedder) -> bool:
    """Return True if a build now would change nothing in the published manifest."""
    try:
        manifest = manifests.current(tenant)
    except (NoManifest, SnapshotDamaged):
        return False
    wanted = {projection.name: projection.version for projection in catalog.all_projections(model)}
    built = {name: ref.version for name, ref in manifest.projections.items()}
    is_whole = built == wanted and not manifest.missing_vectors
    return manifest.watermark == log.head() and is_whole


def _draft(workspace: Workspace, memory: Memory) -> Draft:
    speaks = memory.speaker not in (None, "", "agent")
    return Draft(
        id=_id(workspace, memory),
        content=memory.text,
        kind=memory.kind or ("raw_turn" if speaks else "fact"),
        key=memory.key,
        value=memory.value,
        context=memory.context,
        action=memory.action,
        result=memory.result,
        session=memory.session or None,
        created_by=memory.speaker or None,
        created_at=memory.ts,
    )


def _id(workspace: Workspace, memory: Memory) -> str:
    # the dataset's own ids may be none of ours, or alike in two workspaces
    return derived_id(micros(memory.ts), workspace.name, memory.id)


# An embedder that asks its model once for each text, also over many runs. The vectors are stored in
# a folder for each model, keyed by the text's hash, in Arrow files: every `save` writes one more.
# All of it can be deleted at any time.

Vector = npt.NDArray[np.float32]


class CachedEmbedder:
    """An embedder and its earlier vectors. `save` keeps the new ones for the next run."""

    def __init__(self, embedder: Embedder, cache: Path) -> None:
        self.model, self.is_cheap = embedder.model, embedder.is_cheap
        self.is_local = embedder.is_local
        self._embedder = embedder
        digest = sha256(embedder.model.encode()).hexdigest()[:12]
        self._folder = cache / f"{_slug(embedder.model)[-40:]}-{digest}"
        self._known = dict(_read(self._folder))
        self._new: dict[bytes, Vector] = {}

    @property
    def dimension(self) -> int:
        vector = next(iter(self._known.values()), None)
        return self._embedder.dimension if vector is None else len(vector)

    def embed(self, texts: Sequence[str]) -> Matrix:
        return self._remembered(texts, [text_hash(text) for text in texts], self._embedder.embed)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        hashes = [text_hash(f"query\0{text}") for text in texts]
        return self._remembered(texts, hashes, self._embedder.embed_queries)

    def knows(self, text: str) -> bool:
        return self._embedder.knows(text)

    def _remembered(
        self,
        texts: Sequence[str],
        hashes: Sequence[bytes],
        embed: Callable[[Sequence[str]], Matrix],
    ) -> Matrix:
        missing = {
            hash_: text
            for hash_, text in zip(hashes, texts, strict=True)
            if hash_ not in self._known
        }
        if missing:
            new = dict(zip(missing, embed(list(missing.values())), strict=True))
            self._known |= new
            self._new |= new
        vectors = [self._known[hash_] for hash_ in hashes]
        return np.stack(vectors) if vectors else np.zeros((0, self.dimension), np.float32)

    def save(self) -> None:
        """Write the new vectors; raise InvalidInput if the folder cannot be written."""
        if not self._new:
            return
        flat = pa.array(np.concatenate(list(self._new.values())))
        columns = {
            "hash": pa.array(list(self._new), pa.binary(16)),
            "vector": pa.FixedSizeListArray.from_arrays(flat, self.dimension),
        }
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, (table := pa.table(columns)).schema) as writer:
            writer.write_table(table)
        try:
            replace_file(self._folder / f"{uuid4().hex}.arrow", sink.getvalue().to_pybytes())
        except OSError as error:
            raise InvalidInput(f"{self._folder} cannot be written ({error.strerror})") from error
        self._new.clear()


def _read(folder: Path) -> Iterator[tuple[bytes, Vector]]:
    """Yield the vectors that earlier runs saved, by hash; a damaged file is dropped."""
    for path in sorted(folder.glob("*.arrow")):
        try:
            table = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
        except pa.ArrowInvalid:
            path.unlink(missing_ok=True)
            continue
        vectors = table.column("vector").combine_chunks()
        rows = vectors.flatten().to_numpy().reshape(len(vectors), -1)
        yield from zip(table.column("hash").to_pylist(), rows, strict=True)

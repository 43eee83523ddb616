"""
Dataset: labelled queries over workspaces of memories, read from a folder of JSON Lines.

    index.json                     {"workspaces": ["<source>/<name>", ...]}
    <source>/<name>/memories.jsonl {"id", "text", "ts", "session", "speaker"}, and "kind", "key",
                                   "value", "context", "action", "result" if they are set
    <source>/<name>/queries.jsonl  {"id", "query", "relevant", "relevant_sessions", "category"}, and
                                   "query_ts" (when it is asked), "before_ts" (older ones count)
    silence.jsonl                  {"id", "workspace", "query", "kind"}: prompts without an answer;
                                   the file may be missing

Times are ISO 8601, in UTC unless they name a zone. Other fields are ignored.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from store.home.errors import InvalidInput, SourceError
from store.log.event_kinds import RecordedKind

# The check set: memories of a made-up project, and notes in thirteen languages, with queries. It
# is small enough to be run by night and in the tests, and shows if recall still works, not how good
# it is: no setting is chosen by it.
CHECK_SET = Path(__file__).parent / "checkset"
PROJECT, LANGUAGES = "project/", "languages/"  # its workspaces' names begin so
# Categories beside the languages: English questions about the others' notes, and questions with a
# note's words in another grammatical form. They are reported and have no floor.
HARDER = ("English", "other word forms")

Text = Annotated[str, msgspec.Meta(min_length=1)]
Some = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
T = TypeVar("T")
_id = attrgetter("id")


class Memory(msgspec.Struct, frozen=True):
    """One memory of a workspace, as the dataset gives it."""

    id: Text
    text: str
    ts: datetime
    session: str | None = None
    speaker: str | None = None
    kind: RecordedKind | None = None
    key: Text | None = None
    value: str | None = None
    context: str | None = None
    action: str | None = None
    result: str | None = None


class Query(msgspec.Struct, frozen=True):
    """A question, and the memories that answer it."""

    id: Text
    query: Text
    relevant: Some
    relevant_sessions: Some
    category: str
    query_ts: datetime | None = None
    before_ts: datetime | None = None


class Prompt(msgspec.Struct, frozen=True):
    """A prompt in a workspace that none of its memories answers."""

    id: Text
    workspace: str
    query: Text
    kind: str


class Result(msgspec.Struct, frozen=True):
    """The answer of a run to a query or prompt: ids best first, and the highest confidence.

    `said` are the ids that the prompt hook injects, none if it is silent.
    """

    query_id: Text
    ranked: tuple[str, ...]
    gate: float = 0.0
    said: tuple[str, ...] = ()


class Workspace(msgspec.Struct, frozen=True):
    """Memories in one tenant, with their queries; `name` is <source>/<name>."""

    name: str
    memories: tuple[Memory, ...]
    queries: tuple[Query, ...]
    silence: tuple[Prompt, ...]

    @property
    def source(self) -> str:
        return self.name.partition("/")[0]

    @property
    def asked(self) -> tuple[Query | Prompt, ...]:
        return *self.queries, *self.silence


class _Index(msgspec.Struct):
    workspaces: tuple[str, ...]


def read_workspaces(folder: Path, only: str = "") -> tuple[Workspace, ...]:
    """Return the workspaces whose name starts with `only`, in the index's order.

    Raise InvalidInput if there are none, SourceError naming an unusable file and its line.
    """
    index = folder / "index.json"
    try:
        names = msgspec.json.decode(_bytes(index), type=_Index).workspaces
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceError(f"{index}: {error}") from error
    chosen = [name for name in dict.fromkeys(names) if name.startswith(only)]
    if not chosen:
        raise InvalidInput(f"{index} names no workspace that starts with {only!r}")
    prompts = folder / "silence.jsonl"
    silence = list(_lines(prompts, Prompt, _id)) if prompts.exists() else []
    workspaces = []
    for name in chosen:
        path = folder / name / "memories.jsonl"
        memories = tuple(_lines(path, Memory, _id))
        if not memories:
            raise SourceError(f"{path} holds no memory: take {name} out of index.json")
        queries = tuple(_lines(folder / name / "queries.jsonl", Query, _id))
        own = tuple(prompt for prompt in silence if prompt.workspace == name)
        workspaces.append(Workspace(name, memories, queries, own))
    times = Counter(query.id for workspace in workspaces for query in workspace.asked)
    if repeated := [id_ for id_, count in times.items() if count > 1]:
        raise SourceError(f"{folder}: two queries or prompts have the id {repeated[0]!r}")
    return tuple(workspaces)


def read_results(path: Path) -> dict[str, Result]:
    """Return the results of a run by the id of their query; raise SourceError as `read` does."""
    return {result.query_id: result for result in _lines(path, Result, attrgetter("query_id"))}


def _lines(path: Path, kind: type[T], id_of: Callable[[T], str]) -> Iterator[T]:
    """Yield the values of a file, one a line; an empty line is passed over, an id twice is not."""
    decode: Callable[[bytes], T] = msgspec.json.Decoder(kind).decode
    line_of: dict[str, int] = {}
    for number, line in enumerate(_bytes(path).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SourceError(f"{path} line {number}: {error}") from error
        if (first := line_of.setdefault(id_of(value), number)) != number:
            raise SourceError(f"{path} line {number}: the id is that of line {first}")
        yield value


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror})") from error

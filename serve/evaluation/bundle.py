"""
Bundle: a folder from which one recall is asked again in another home, for bug reports.

It contains the receipt and the events that its answer depends on: those of the recall's project and
of no project, up to the last that the recall had read, redacted again by today's patterns. The
queries of other recalls, forgotten memories, plans and calls of models are left out. No text of
another project is in it; since the answer depends on the number of memories and the rarity of
words, meaningless memories stand in for theirs: as many, of the same days, with as many words. A
word that the bundle has anyway is in as many of them as of theirs, but in others; any other word is
replaced.

The recall is asked again of these events before the folder is written. So the folder records
whether its answer equals the receipt's, to the byte, and the new answer if not.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import cycle
from pathlib import Path

import msgspec
from msgspec.structs import fields, replace

from serve import version
from serve.evaluation.replay import Replayed, recalled, replay, skip_reason
from serve.reader.filters import Filter
from store.embedders.embedder import Embedder
from store.home.config import Choices
from store.home.errors import Conflict, InvalidInput
from store.home.files import replace_file, temporary_folder
from store.home.instants import DAY, moment
from store.home.projects import holds_in
from store.log.erasing import strip_texts
from store.log.event_kinds import (
    Acted,
    Adopted,
    Archived,
    Followed,
    Forgotten,
    Judged,
    Linked,
    Outcome,
    Pinned,
    Prompted,
    Quarantined,
    Rated,
    Recalled,
    Recorded,
    Restored,
    Revised,
    SessionTold,
    Staled,
    Superseded,
    Surfaced,
    Trust,
)
from store.log.event_log import EventLog
from store.log.events import KINDS, Event, decode, encode
from store.log.rows import redact_event
from store.memories.fold import Fold
from store.memories.memory import ACTIVE, ERASED, FORGOTTEN, OPEN, UNSEEN, Memory, searched_text
from store.text import tokenizer

FORMAT = 1
RECEIPT, EVENTS, ANSWER, README = "receipt.json", "events.jsonl", "answer.txt", "README.md"
_MOST_READ = 1 << 30  # bytes of a file: a bundle may be anybody's

_OF_MEMORIES = (
    Revised,
    Superseded,
    Archived,
    Forgotten,
    Restored,
    Quarantined,
    Pinned,
    Linked,
    Rated,
    Surfaced,
    Followed,
    Staled,
)
_OF_SESSIONS = (Acted, SessionTold, Outcome)
_OTHER = "other-project"
_NO_WORD = "."  # a text of no words
_LETTERS = "bkmvwx"
_WORD = re.compile(r"\w+")


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event in a file; its seq is the number of its line."""

    id: str
    at: int
    kind: str
    subject: str
    body: msgspec.Raw
    project: str | None = None
    session: str | None = None
    agent: str | None = None
    trust: Trust = "user"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first file of a bundle: the recall's receipt, numbered by the bundle's own events.

    `is_same`: the answer is that of the original receipt, to the byte. `embedder` is the setting
    that names the model, `stand_ins` the number of memories in place of other projects'.
    """

    format: int
    version: str
    embedder: str
    is_same: bool
    stand_ins: int
    receipt: Line


class Bundle(msgspec.Struct, frozen=True):
    """A recall and the events that its answer depends on, the receipt last; `answer` is the block
    of a prompt, else the hits as JSON.
    """

    events: tuple[Event, ...]
    answer: bytes
    is_same: bool
    stand_ins: int
    embedder: str
    version: str

    @property
    def receipt(self) -> Event:
        return self.events[-1]


def make_bundle(
    log: EventLog,
    embedder: Embedder,
    setting: str,
    receipt: Event,
    *,
    all_projects: bool = False,
) -> Bundle:
    """Return the bundle with which another home asks a recall again; `setting` names the embedder.

    Raise Conflict for a recall that cannot be asked again, saying why, and InvalidInput for one
    that searched all projects, unless all of them may be in the bundle.
    """
    receipt = redact_event(receipt)  # it may have been read without redaction
    body = recalled(receipt)
    if why := skip_reason(body, embedder):
        raise Conflict(f"recall {receipt.id} cannot be asked again: {why}")
    assert body.basis is not None
    # a prompt outside any project is answered from memories that belong to none
    is_wide = body.door != "prompt" and receipt.project is None and not body.basis.no_project
    if is_wide and not all_projects:
        raise InvalidInput(
            "this recall searched all projects, and its bundle would hold the memories of all: "
            "add --all-projects if it may"
        )
    selection = _Selection(log, receipt, everything=is_wide)
    bundles = []
    for stand_ins in (False, True):
        *events, own_receipt = selection.events(stand_ins=stand_ins)
        replayed = rerun_events([*events, own_receipt], embedder)
        own_body = replace(recalled(own_receipt), digest=replayed.digest)
        bundle = Bundle(
            (*events, replace(own_receipt, body=own_body)),
            replayed.said,
            replayed.digest == body.digest,
            sum(event.project == _OTHER for event in events if isinstance(event.body, Recorded)),
            setting,
            version(),
        )
        bundles.append(bundle)
        if bundle.is_same or not selection.others:
            break
    return next((bundle for bundle in bundles if bundle.is_same), bundles[0])


def rerun_events(events: Sequence[Event], embedder: Embedder) -> Replayed:
    """Return the recall of the last event asked again of a memory that the others make up."""
    with temporary_folder("bundle") as folder:
        with EventLog(folder / "log.sqlite", create=True) as log:
            written = log.append(events)
            (replayed,) = replay(log, embedder, [written[-1].event], Choices())
    return replayed


class _Selection:
    """The events that go with a receipt, and the memories of others that are to be stood for."""

    def __init__(self, log: EventLog, receipt: Event, *, everything: bool) -> None:
        self._log, self._receipt, self._everything = log, receipt, everything
        self._body = recalled(receipt)

    def _is_own(self, project: str | None) -> bool:
        return self._everything or holds_in(project, self._receipt.project or "")

    @cached_property
    def _memories(self) -> dict[str, Memory]:
        """Every memory as the recall could read it, by its id."""
        fold = Fold()
        for event in self._log.effective_events(0, self._body.watermark):
            fold.apply(event)
        return fold.rows

    @cached_property
    def _own(self) -> list[Memory]:
        """The memories for the receipt, without forgotten and erased ones."""
        return [
            memory
            for memory in self._memories.values()
            if self._is_own(memory.project)
            and memory.state != FORGOTTEN
            and memory.text_hash != ERASED
        ]

    @cached_property
    def others(self) -> list[Memory]:
        """The memories of other projects, in the order of the log."""
        memories = (
            memory for memory in self._memories.values() if not self._is_own(memory.project)
        )
        return sorted(
            (memory for memory in memories if memory.state != OPEN), key=lambda memory: memory.seq
        )

    def events(self, *, stand_ins: bool) -> list[Event]:
        """Return the events, numbered by their place, with the receipt in their numbers at last."""
        basis = self._body.basis
        assert basis is not None
        events = list(self._own_events())
        if stand_ins:
            events += self._stand_ins(events)
            events.sort(key=lambda event: event.seq)
        numbers = [event.seq for event in events]
        body = replace(
            self._body,
            manifest=None,
            watermark=sum(seq <= self._body.watermark for seq in numbers),
            basis=replace(basis, built=sum(seq <= basis.built for seq in numbers)),
        )
        return [*events, replace(self._receipt, body=body)]

    def _own_events(self) -> Iterator[Event]:
        """Yield the known events of the recall's project, and those of its session since."""
        ids = {memory.id for memory in self._own}
        recalls: set[str] = set()
        for event in self._log.effective_events(0, self._receipt.seq - 1):
            if event.seq > self._body.watermark and (
                self._receipt.session is None or event.session != self._receipt.session
            ):
                continue
            if (own := self._keep(event, ids, recalls)) is not None:
                yield redact_event(own)

    def _keep(self, event: Event, ids: Collection[str], recalls: set[str]) -> Event | None:
        """Return an event as it goes into the bundle; None if it does not."""
        match event.body:
            case Recorded() | Prompted():
                return event if event.id in ids else None
            case Recalled() as body if self._is_own(event.project):
                recalls.add(event.id)
                hits = tuple(hit for hit in body.hits if hit.id in ids)
                return replace(event, body=replace(strip_texts(body), hits=hits, trial=None))
            case Judged(verdicts=verdicts) as judged if event.subject in recalls:
                own = {id_: verdict for id_, verdict in verdicts.items() if id_ in ids}
                return replace(event, body=Judged(verdicts=own, by=judged.by))
            case Linked(target=target) if target not in ids:
                return None
            case Rated(verdict=verdict) if event.subject in recalls:
                return replace(event, body=Rated(verdict=verdict))
            case Adopted():
                return replace(event, project=None, session=None)
            case body if isinstance(body, _OF_SESSIONS):
                return event if self._is_own(event.project) else None
            case body if isinstance(body, _OF_MEMORIES):
                return event if event.subject in ids else None
            case _:
                return None

    def _stand_ins(self, own: Sequence[Event]) -> Iterator[Event]:
        """Yield a memory without a meaning for each of another project, in its place and of its
        day.
        """
        basis = self._body.basis
        assert basis is not None
        built = [other for other in self.others if other.seq <= basis.built]
        tail = [other for other in self.others if other.seq > basis.built]
        texts = {**self._scatter(built), **self._scatter(tail)}
        for number, memory in enumerate(self.others, 1):
            id_, at = f"other-{number}", own[0].at if own else self._receipt.at
            body = Recorded(
                content=" ".join(texts.get(memory.id, ())) or _NO_WORD,
                created_by=self._speaker(memory),
                created_at=moment(memory.created_at // DAY * DAY),
            )
            yield Event(id_, at, body, id_, _OTHER, seq=memory.seq)
            if memory.state != ACTIVE:
                ended = Forgotten() if memory.state == FORGOTTEN else Archived()
                yield Event(f"{id_}-ended", at, ended, id_, _OTHER, seq=memory.seq)

    def _scatter(self, memories: Sequence[Memory]) -> dict[str, list[str]]:
        """Return the words of the stand-ins for some memories, by the ids of these.

        Together they have as many words, each in as many of them. A word that the bundle lacks
        is replaced by a meaningless one, and the words are dealt out in turn: so no stand-in shows
        which words one memory had.
        """
        searchable = [memory for memory in memories if memory.state not in UNSEEN]
        postings: dict[str, list[int]] = {}
        for memory in searchable:
            terms = Counter(tokenizer.terms(memory.searched_text))
            # the stand-in has these anyway
            terms.subtract(
                tokenizer.terms(searched_text("", self._speaker(memory), memory.created_at))
            )
            for term, times in terms.items():
                if times > 0:
                    postings.setdefault(term, []).append(times)
        texts: dict[str, list[str]] = {memory.id: [] for memory in searchable}
        places, number = cycle(texts.values()), 0
        for term in sorted(postings):
            word = self._words.get(term)
            if word is None:
                word, number = _pseudonym(number), number + 1
            for times in postings[term]:
                next(places).extend([word] * times)
        return texts

    def _speaker(self, memory: Memory) -> str | None:
        """Return the speaker of a memory, if the bundle has the name anyway."""
        terms = tokenizer.terms(memory.created_by or "")
        return memory.created_by if terms and all(term in self._words for term in terms) else None

    @cached_property
    def _words(self) -> dict[str, str]:
        """The terms of the question and of the bundle's own memories, each with a word for it."""
        own = (memory.searched_text for memory in self._own)
        words: dict[str, str] = {}
        for text in (self._body.query, *own):
            for word in (*_WORD.findall(text), *tokenizer.terms(text)):
                if len(terms := tokenizer.terms(word)) == 1:
                    words.setdefault(terms[0], word)
        return words


def _pseudonym(number: int) -> str:
    """Return the word of a number: letters that no language puts so, and no stemmer takes away."""
    letters = ""
    while True:
        number, digit = divmod(number, len(_LETTERS))
        letters += _LETTERS[digit]
        if not number:
            return f"zq{letters}zq"


# The folder


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write a bundle into a new folder; raise InvalidInput if the folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} is not empty: give a folder that is not there yet")
    head = Head(
        format=FORMAT,
        version=bundle.version,
        embedder=bundle.embedder,
        is_same=bundle.is_same,
        stand_ins=bundle.stand_ins,
        receipt=_line(bundle.receipt),
    )
    lines = [msgspec.json.encode(_line(event)) + b"\n" for event in bundle.events[:-1]]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in (
            (RECEIPT, msgspec.json.format(msgspec.json.encode(head)) + b"\n"),
            (EVENTS, b"".join(lines)),
            (ANSWER, bundle.answer),
            (README, _readme(bundle).encode()),
        ):
            replace_file(folder / name, data)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written ({error.strerror})") from error


def read_bundle(folder: Path) -> Bundle:
    """Return the bundle of a folder; raise InvalidInput without one, or for another version's."""
    try:
        head = msgspec.json.decode(_read(folder / RECEIPT), type=Head)
        if head.format != FORMAT:
            raise InvalidInput(
                f"{folder} is of format {head.format}, this version of mnemolog reads {FORMAT}"
            )
        lines = msgspec.json.Decoder(Line).decode_lines(_read(folder / EVENTS))
        events = tuple(_event(line) for line in (*lines, head.receipt))
        answer = _read(folder / ANSWER)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"{folder} is no bundle ({error}): `mnemolog receipts bundle ID --out DIR` makes one"
        ) from error
    body = events[-1].body
    known = {field.name for field in fields(Filter)}
    if not isinstance(body, Recalled) or (body.basis and not body.basis.narrowed.keys() <= known):
        raise InvalidInput(f"{folder / RECEIPT} holds no receipt that this version can ask again")
    return Bundle(events, answer, head.is_same, head.stand_ins, head.embedder, head.version)


def rerun(bundle: Bundle, embedder: Embedder) -> Replayed:
    """Return the recall of a bundle asked again by this version of mnemolog; its verdict is "same"
    where the answer is the bundle's to the byte.

    Raise Conflict if this model cannot answer it, naming the setting that does, and InvalidInput
    where its events are none that a log takes.
    """
    if why := skip_reason(recalled(bundle.receipt), embedder):
        raise Conflict(
            f"this recall cannot be asked again: {why}; with `MNEMOLOG_EMBEDDER={bundle.embedder}` "
            "in the environment its model is used, if it is installed"
        )
    replayed = rerun_events(bundle.events, embedder)
    return replace(replayed, verdict="same" if replayed.said == bundle.answer else "changed")


def _read(path: Path) -> bytes:
    if path.stat().st_size > _MOST_READ:
        raise InvalidInput(f"{path} is larger than any bundle's file: it is not read")
    return path.read_bytes()


def _line(event: Event) -> Line:
    return Line(
        id=event.id,
        at=event.at,
        kind=event.kind,
        subject=event.subject,
        body=msgspec.Raw(encode(event.body).encode()),
        project=event.project,
        session=event.session,
        agent=event.agent,
        trust=event.trust,
    )


def _event(line: Line) -> Event:
    if line.kind not in KINDS:
        raise InvalidInput(f"an event is of the kind {line.kind!r}, which this version has not")
    body = decode(line.kind, bytes(line.body).decode())
    return Event(
        line.id,
        line.at,
        body,
        line.subject,
        line.project,
        line.session,
        line.agent,
        line.trust,
    )


def _readme(bundle: Bundle) -> str:
    project = bundle.receipt.project or "no project"
    same = (
        "is that of the original recall, to the byte"
        if bundle.is_same
        else "differs from that of the original recall, which rested on other projects too"
    )
    others = "Nothing of other projects is in them."
    if bundle.stand_ins:
        others += f" Memories without a meaning stand in for theirs: {bundle.stand_ins:,}."
    return f"""# A recall of mnemolog {bundle.version}

`mnemolog receipts rerun THIS_FOLDER` asks this recall again, in a temporary memory that is made of
these files and deleted afterwards. It needs the embedder `{bundle.embedder}`.

| file | what is in it |
|---|---|
| {RECEIPT} | what was asked, when, and under which settings |
| {EVENTS} | the events that the answer rests on: {len(bundle.events) - 1:,} |
| {ANSWER} | the answer; it {same} |

The events are those of {project} and of no project, with their secrets redacted. {others}
Look through {EVENTS} before you send it: it holds your own words.
"""

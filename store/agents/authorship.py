"""
Authorship: the author of each part of a prompt: typed by its user, pasted, or by a program.

A prompt is cut into parts: sentences, the words before and after a colon, quotations. Fences, `>`
lines, tags, indented blocks and long quotations are quoted by their form. The author of any other
part is decided by a linear model over its shape, that of the lines around it, and the words that
introduce it; a second one also reads the first one's decisions on the neighbours. `make fit` fits
both on the labelled prompts in tests/data/authors; docs/prompts.md has the accuracy on unseen kinds
of wrappers.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

Writer = Literal["typed", "quoted", "program"]
WRITERS: tuple[Writer, ...] = ("typed", "quoted", "program")

WEIGHTS = Path(__file__).with_name("author_weights.npz")
BITS = 14
BUCKETS = 1 << BITS
TYPED = 0.5  # from this probability on a part counts as the user's own
PROGRAM = 0.6  # from this probability on a whole prompt counts as a program's
MOST_LINES = 160  # lines read of a prompt, half of them from its end; those between are a paste
LONGEST_LINE = 2_000  # characters; a longer one is a paste
SHAPED = 200  # characters of a line that determine its shape
_HEAD = 14  # words before a colon, at most, that introduce the rest

_FENCE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_INLINE_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"<([A-Za-z][\w:-]*)(?:\s[^<>]*)?>")
_LONG_QUOTATION = re.compile(
    r'(?:(?<=\s)|(?<=:)|\A)(?:"{1,3}[^"]*"{1,3}|[\u201c\u201e][^\u201c\u201d\u201e]*[\u201c\u201d]'
    r"|\u00ab[^\u00ab\u00bb]*\u00bb)(?=[\s.,;!?]|\Z)"
)
# fields as a tracker exports them; the text after the report's field is the report
_REPORT = re.compile(
    r"^[ \t]*[a-z][\w-]*:[ \t]+\S.*\n(?:[ \t]*[a-z][\w-]*:[ \t]+\S.*\n)*?"
    r"[ \t]*(?:problem_statement|issue(?:_(?:body|text))?|description|body|details|report)"
    r"[ \t]*:[ \t]*\S[\s\S]*",
    re.MULTILINE,
)
_ANGLED = re.compile(r"^[ \t]*>+(?:[ \t].*|$)", re.MULTILINE)
_INDENTED = re.compile(r"(?: {4,}|\t)(?![-*\u2022\d])\S")
_QUOTATION = re.compile(
    r'"[^"\n]{16,}"|[\u201c\u201e][^\u201c\u201d\n]{16,}[\u201c\u201d]|\u00ab[^\u00bb\n]{16,}\u00bb'
    r"|(?:(?<=[\s(:])|^)['\u2018\u201a](?=\w)[^\n]{16,}?['\u2019](?=[\s.,;:!?)]|$)"
    r"|\u300c[^\u300d\n]{6,}\u300d"
)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)|(?<=[\u3002\uff01\uff1f])(?=.)")
_COLON = re.compile(r"(?<=[^\s:/]):(?=\s)\s+|\s:\s+|\uff1a\s*(?=.)")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+(?:'\w+)?|[?!]")

# the shape of a line, the first that fits
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("blank", r"\s*$"),
        ("rule", r"\s*[-=*_#~<>\u2500+|][-=*_#~<>\u2500+|\s]{2,}$|[=\-<>~]{3,}\s?\S"),
        ("trace", r"\s*(?:Traceback |at \S.*[\d)>]$|File \"|E  +|\^+\s*$|Caused by|\S+ @ \S+:\d+)"),
        ("error", r"\s*(?:[\w.]*(?:Error|Exception|ERR!?|FAILED|panicked|fatal)\b)"),
        ("stamped", r"\s*[\[(]?(?:\w{3,9} +\d{1,2} +)?\d{0,4}[-/.]?\d{0,2}[-/.]?\d{0,2}[T ,]*\d{1,2}:\d\d(?::\d\d)?"),  # noqa: E501
        ("stamped", r"\s*[\[(]?\d{4}-\d\d-\d\d"),
        ("level", r"\s*(?:#+|\[)?\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL|NOTICE|TRACE|warning|error|note|hint|help|npm)\b[\]:! ]"),  # noqa: E501
        ("place", r"\s*(?:-->\s*)?[\w./\\-]+\.\w{1,5}(?::\d+|\?|\(\d+)"),
        ("hunk", r"(?:@@|diff --git|index \w+|\+\+\+ |--- \w)"),
        ("added", r"[+][^+\s]|[+] |-[A-Za-z]|\+$"),
        ("shell", r"\s*(?:[$%\u276f]|PS [A-Z]:.*>|\S+@\S+[:~].*[$#])\s?"),
        ("bracket", r"\s*[\[{(<\]})].*[\]})>,;{\[]?$"),
        ("table", r"\s*\|.*\||\s*\S[^\t]*\t\s*\S|\s*\S[^|]* \| +\S"),
        ("bullet", r"\s*(?:[-*\u2022\u25cf\u23bf+]|- \[.\])\s"),
        ("number", r"\s*(?:\(?\d{1,2}[.)]|\u00a7\s?\d+|\d+\.\d+)\s"),
        ("heading", r"\s*#{1,6} "),
        ("comment", r"\s*(?://|/\*|\*/|--|;|#|<!--)"),
        ("speaker", r"\s*[@*<\[]?[\w.-]+(?: [\w.-]+)?[>*\]]?(?: [^:]{0,40}\d[^:]{0,12}| (?:wrote|commented|said|schrieb|\S+ \S+crit))?\s?[:\uff1a]\s*$"),  # noqa: E501
        ("address", r"\s*[\w-]+:\s.*\w@\w"),
        ("field", r"\s*[A-Z\u00c0-\u00de][\w#-]*(?: [a-z]\w*){0,2}\s?:\s+\S"),
        ("key", r"\s*[\"']?[\w.-]+[\"']?\s?[:=]\s*\S"),
        ("value", r"[^=]*\S=\S[^=]* [^=\s]+=\S|[^,;\s]+(?:[,;][^,;\s][^,;]*){2,}$|[^;]*;[^;]*;"),
        ("code", r".*[;{}]\s*$|\s*(?:def|class|function|import|from \S+ import|return|const|let|var|public|set -)\b.*[:;({=]?"),  # noqa: E501
        ("greeting", r"\s*(?:\w+ ){0,3}\w+(?: \w\.)?[,!]\s*$"),
        ("intro", r".*[:\uff1a]\s*$"),
        ("question", r".*[?\uff1f]\s*$"),
        ("sentence", r".*[.!\u3002\uff01]\s*$"),
    )
)  # fmt: skip
_PROSE = frozenset({"question", "sentence", "prose", "intro", "short", "greeting"})


class Part(msgspec.Struct, frozen=True):
    """A part of a prompt, by its characters; `author` is None until it is decided.

    `place` is its position in its line: all of it, before or after a colon, a quotation, or a
    sentence among others.
    """

    start: int
    end: int
    line: int
    place: str
    author: Writer | None = None


class Line(msgspec.Struct, frozen=True):
    start: int
    end: int
    shape: str
    block: int  # its number among the blocks between blank lines
    is_quoted: bool


def lines(prompt: str) -> list[Line]:
    """Return the lines of a prompt, blank ones too; of a long one those at either end."""
    quoted = _quoted_regions(prompt)
    starts = [0, *(match.end() for match in re.finditer("\n", prompt))]
    if len(starts) > MOST_LINES:
        starts = starts[: MOST_LINES // 2] + starts[-MOST_LINES // 2 :]
    result: list[Line] = []
    block, region = 0, 0
    for start in starts:
        end = prompt.find("\n", start)
        end = len(prompt) if end < 0 else end
        text = prompt[start:end]
        shape = _shape(text)
        while region < len(quoted) and quoted[region][1] <= start:
            region += 1
        covers = region < len(quoted) and quoted[region][0] <= start + (
            len(text) - len(text.lstrip())
        )
        if covers and shape != "blank":
            covers = quoted[region][1] >= start + len(text.rstrip())
        if shape != "blank" and not covers and _INDENTED.match(text):
            before = result[-1] if result else None
            covers = before is None or before.is_quoted or before.shape in ("blank", "intro")
        if shape == "blank" and result and result[-1].shape != "blank":
            block += 1
        result.append(Line(start, end, shape, block, covers or end - start > LONGEST_LINE))
    return result


def _quoted_regions(prompt: str) -> list[tuple[int, int]]:
    """Return the regions quoted by their form, in order, disjoint."""
    spans = [
        match.span()
        for pattern in (_FENCE, _INLINE_FENCE, _LONG_QUOTATION, _ANGLED, _REPORT)
        for match in pattern.finditer(prompt)
        if len(match[0]) > 1 and (pattern is not _LONG_QUOTATION or "\n" in match[0])
    ]
    spans += _tagged(prompt)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _tagged(prompt: str) -> Iterator[tuple[int, int]]:
    """Yield the regions between a tag and its end that hold more than a word."""
    at = 0
    unclosed: set[str] = set()
    for tag in _TAG.finditer(prompt):
        if tag.start() < at or tag[1] in unclosed:
            continue
        closing = f"</{tag[1]}>"
        end = prompt.find(closing, tag.end())
        if end < 0:
            unclosed.add(tag[1])
        elif len(prompt[tag.end() : end].split()) > 1:
            at = end + len(closing)
            yield tag.start(), at


def _shape(text: str) -> str:
    text = text[:SHAPED]
    for name, pattern in _SHAPES:
        if pattern.match(text):
            return name
    return "short" if len(text.split()) <= 4 else "prose"


def parts(prompt: str, rows: Sequence[Line]) -> list[Part]:
    """Return the parts of a prompt's lines, in order; those quoted by their form have an author."""
    result: list[Part] = []
    regions = _quoted_regions(prompt)
    for number, row in enumerate(rows):
        if row.shape == "blank":
            continue
        if row.is_quoted:
            result.append(Part(row.start, row.end, number, "all", "quoted"))
            continue
        at, after = row.start, ""
        inside = [region for region in regions if region[0] < row.end and region[1] > row.start]
        cuts = [(max(a, row.start), min(b, row.end), True) for a, b in inside]
        for match in _QUOTATION.finditer(prompt, row.start, row.end):
            if not any(a < match.end() and match.start() < b for a, b, _ in cuts):
                cuts.append((*match.span(), False))
        for start, end, is_sure in [*sorted(cuts), (row.end, row.end, False)]:
            for part in _sentences(prompt, at, start, number, after):
                result.append(part)
                after = "after" if part.place in ("before", "after") else ""
            if start < end:
                result.append(Part(start, end, number, "quotation", "quoted" if is_sure else None))
            at = end
    return result


def _sentences(prompt: str, start: int, end: int, line: int, after: str) -> Iterator[Part]:
    colon = None if after else _COLON.search(prompt, start, end)
    if colon is not None:
        head = prompt[start : colon.start()]
        if len(head.split()) <= _HEAD and not _END.search(head):
            yield Part(start, colon.end(), line, "before")
            start, after = colon.end(), "after"
    at = start
    stops = [match.end() for match in _END.finditer(prompt, start, end)]
    for stop in [*stops, end]:
        if any(character.isalpha() for character in prompt[at:stop]):  # "1." is no sentence
            yield Part(at, stop, line, after or ("sentence" if stops else "all"))
            at = stop


# Features of a part, as strings; each is hashed into one of BUCKETS.


def features(prompt: str, rows: Sequence[Line], pieces: Sequence[Part]) -> list[list[str]]:
    """Return the features of each part that is not quoted by its form; none for the others."""
    solid = [number for number, row in enumerate(rows) if row.shape != "blank"]
    order = {number: place for place, number in enumerate(solid)}
    shapes = [("quoted" if rows[n].is_quoted else rows[n].shape) for n in solid]
    words = [_words(prompt[rows[n].start : rows[n].end]) for n in solid]
    blocks = [rows[n].block for n in solid]
    counts = {shape: shapes.count(shape) for shape in set(shapes)}
    overall = [f"has {shape}" for shape, count in counts.items() if shape not in _PROSE]
    overall += [f"many {shape}" for shape, count in counts.items() if count > 2]
    overall += [f"lines {_size(len(solid))}", f"blocks {_size(len(set(blocks)))}"]
    result: list[list[str]] = []
    heads: dict[int, list[str]] = {}  # the words before a line's colon
    for part in pieces:
        if part.place == "before":
            heads[part.line] = _words(prompt[part.start : part.end])
    for part in pieces:
        if part.author is not None:
            result.append([])
            continue
        at = order[part.line]
        text = prompt[part.start : part.end]
        mine = _words(text)
        shape = shapes[at]
        names = [f"{part.place} {name}" for name in (shape, "")]
        before = shapes[at - 1] if at else "start"
        after = shapes[at + 1] if at + 1 < len(shapes) else "end"
        gap = "" if at == 0 else "+" if blocks[at - 1] == blocks[at] else "|"
        next_gap = "" if after == "end" else "+" if blocks[at + 1] == blocks[at] else "|"
        names += [
            f"before {before}{gap}", f"after {next_gap}{after}",
            f"shapes {before}{gap}{shape}", f"shapes {shape}{next_gap}{after}",
            f"around {before}{gap}{shape in _PROSE}{next_gap}{after}",
            f"line {_size(at)}", f"rest {_size(len(shapes) - at - 1)}",
            f"block {_size(blocks[at])} of {_size(blocks[-1])}",
            f"prose {shape in _PROSE} of {_size(len(shapes))}",
        ]  # fmt: skip
        own = [shapes[i] for i in range(len(shapes)) if blocks[i] == blocks[at]]
        names += [f"in block {other}" for other in set(own) - _PROSE]
        names += [f"earlier {other}" for other in set(shapes[:at]) - _PROSE]
        names += [f"later {other}" for other in set(shapes[at + 1 :]) - _PROSE]
        names += overall
        # its introduction: the words before its colon, or the nearest line that ends in one
        if part.place in ("after", "quotation") and part.line in heads:
            names += [f"head {word}" for word in heads[part.line]]
            names += [f"head begins {word}" for word in heads[part.line][:1]]
            names += [f"head ends {word}" for word in heads[part.line][-1:]]
            names.append(f"head size {_size(len(heads[part.line]))} {len(shapes) > 1}")
        elif part.place == "quotation":
            ahead = _words(prompt[rows[part.line].start : part.start])[-5:]
            names += [f"ahead {word}" for word in ahead] + [f"ahead {_size(len(ahead))}"]
        intro = next((i for i in range(at - 1, -1, -1) if shapes[i] in ("intro", "speaker")), None)
        if intro is not None:
            steps = blocks[at] - blocks[intro]
            names += [f"intro {word}" for word in words[intro][-8:]]
            names += [f"intro {steps}", f"intro at {_size(intro)}", f"intro {steps} {shape}"]
            closed = any(shapes[i] in ("quoted",) for i in range(intro + 1, at))
            names.append(f"intro closed {closed} {steps}")
        if at:
            names += [f"first {word}" for word in words[0][:12]]
            names += [f"previous {word}" for word in words[at - 1][-6:]]
            names.append(f"first {shapes[0]}")
        if at + 1 < len(shapes):
            names += [f"last {word}" for word in words[-1][:8]]
            names.append(f"last {shapes[-1]}")
        # how it is written
        if part.place not in ("after", "quotation"):  # for any quotation, its introduction decides
            names += [f"word {word}" for word in set(mine[:24])]
            names += [f"begins {' '.join(mine[:n])}" for n in (1, 2, 3)]
            names.append(f"ends {' '.join(mine[-2:])}")
        names.append(f"size {_size(len(mine))}")
        names += [f"begins as {_outline(text)}", f"stops as {text.rstrip()[-1:]}"]
        signs = sum(not (c.isalnum() or c.isspace()) for c in text) / max(1, len(text))
        names += [f"signs {int(signs * 12)}", f"lower {text.lstrip()[:1].islower()}"]
        names.append(f"lower {text.lstrip()[:1].islower()} {shape} {gap}")
        result.append(names)
    return result


def _size(count: int) -> str:
    return str(count) if count < 4 else "4-7" if count < 8 else "8-15" if count < 16 else "many"


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text[:400])]


def _outline(text: str) -> str:
    """Return the classes of the first characters: letters, digits, signs as they are."""
    text = text.strip()[:5]
    return "".join(
        "A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in text
    )


def neighbour_features(
    rows: Sequence[Line], pieces: Sequence[Part], shares: npt.NDArray[np.float32]
) -> list[list[str]]:
    """Return features of the first model's decisions about the parts around each, [n]."""
    quoted = [
        _level(1.0 if part.author else 1.0 - share[0])
        for part, share in zip(pieces, shares, strict=True)
    ]
    blocks = [rows[part.line].block for part in pieces]
    program = _level(float(shares[:, 2].mean())) if len(shares) else ""
    chance = np.array([1.0 if part.author else 1.0 - shares[j][0] for j, part in enumerate(pieces)])
    within: dict[int, list[int]] = {}  # the parts of each block
    for place, block in enumerate(blocks):
        within.setdefault(block, []).append(place)
    near = {block: chance[places] for block, places in within.items()}
    first = {block: places[0] for block, places in within.items()}
    result = []
    for i in range(len(pieces)):
        same = np.delete(near[blocks[i]], i - first[blocks[i]])
        names = [f"it {quoted[i]}", f"program {program}"]
        for name, j in (("back", i - 1), ("back 2", i - 2), ("on", i + 1), ("on 2", i + 2)):
            if 0 <= j < len(pieces):
                gap = "+" if blocks[j] == blocks[i] else "|"
                names += [f"{name} {gap} {quoted[j]}"]
                if name in ("back", "on"):
                    names.append(f"it {quoted[i]} {name} {gap} {quoted[j]}")
        if 0 < i < len(pieces) - 1:
            names.append(f"between {quoted[i - 1]} {quoted[i + 1]}")
        if len(same):
            mean, most = float(same.mean()), float(same.max())
            names += [f"block {_level(mean)}", f"block most {_level(most)}"]
        result.append(names)
    return result


def _level(share: float) -> str:
    return "01234"[min(4, int(share * 5))]


def ids(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the buckets of some features."""
    return np.array([zlib.crc32(name.encode()) % BUCKETS for name in names], np.int64)


class _Model:
    """The weights of both models, [buckets, authors] each, as bytes with a scale."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self._weights = [file["first"], file["second"]]
            self._scales = [file["first_scale"], file["second_scale"]]
            self._bias = [file["first_bias"], file["second_bias"]]

    def shares(self, stage: int, names: Sequence[Sequence[str]]) -> npt.NDArray[np.float32]:
        """Return the probability of each author by part, [n, authors]."""
        odds = np.zeros((len(names), len(WRITERS)), np.float32)
        for place, some in enumerate(names):
            rows = self._weights[stage][ids(some)]
            odds[place] = rows.sum(0, dtype=np.int32) * self._scales[stage] + self._bias[stage]
        raised = np.exp(odds - odds.max(1, keepdims=True))
        shares: npt.NDArray[np.float32] = raised / raised.sum(1, keepdims=True)
        return shares


@cache
def _model() -> _Model:
    return _Model(WEIGHTS)


# Queries of a prompt's readers


class Authorship(msgspec.Struct, frozen=True):
    """A prompt's parts with their authors, and the author of it as a whole."""

    parts: tuple[Part, ...]
    author: Writer


@lru_cache(maxsize=8)  # shared by a prompt's event and its statements
def read_authors(prompt: str) -> Authorship:
    """Return the author of each part of a prompt.

    A line of plain words, without a colon or a quotation, was typed.
    """
    rows = lines(prompt)
    pieces = parts(prompt, rows)
    if len(pieces) == 1 and pieces[0].author is None:
        return Authorship((replace(pieces[0], author="typed"),), "typed")
    open_ = [place for place, part in enumerate(pieces) if part.author is None]
    if not open_:
        return Authorship(tuple(pieces), "quoted" if pieces else "typed")
    model = _model()
    names = features(prompt, rows, pieces)
    shares = np.tile(np.array([0.0, 1.0, 0.0], np.float32), (len(pieces), 1))
    shares[open_] = model.shares(0, [names[place] for place in open_])
    around = neighbour_features(rows, pieces, shares)
    shares[open_] = model.shares(1, [names[place] + around[place] for place in open_])
    if float(shares[open_, 2].mean()) >= PROGRAM:
        return Authorship(tuple(replace(part, author="program") for part in pieces), "program")
    for place in open_:
        is_typed = shares[place, 0] >= TYPED
        pieces[place] = replace(pieces[place], author="typed" if is_typed else "quoted")
    is_any = any(part.author == "typed" for part in pieces)
    return Authorship(tuple(pieces), "typed" if is_any else "quoted")


def author_of(prompt: str, *, is_unattended: bool = False) -> Writer:
    """Return the author of a whole prompt; `is_unattended` for a run without a user."""
    return "program" if is_unattended else read_authors(prompt).author


def mask(prompt: str, authorship: Authorship) -> str:
    """Return a prompt of the same length with all but its typed parts blank.

    A quotation within a typed line leaves its marks and dots, so that the line still reads as one
    with a quotation.
    """
    result = [character if character == "\n" else " " for character in prompt]
    for part in authorship.parts:
        if part.author == "typed":
            result[part.start : part.end] = prompt[part.start : part.end]
        elif part.place == "quotation":
            middle = "\u2026" * (part.end - part.start - 2)
            result[part.start : part.end] = f'"{middle}"'
    return "".join(result)

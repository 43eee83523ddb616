"""
redaction: secrets of many kinds in many contexts are removed; real messages and lines of code stay.

A secret has survived if twelve characters of it in a row have, ignoring line breaks and invisible
characters. The messages are real: the history of this repository, and the changelogs of the
packages installed here. The lines of code are those of the standard library that look the most like
secrets.
"""

import base64
import gzip
import random
import re
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from torture.outcome import Outcome, Scale
from torture.published_shapes import ASSIGNED, BARE, drawn, shapes
from torture.secret_kinds import CONTEXTS, KINDS, Secret

from store.redaction.redact import find, redact

ROOT = Path(__file__).resolve().parents[2]
CHANGELOGS = Path("/usr/share/doc")
RECALL, OF_A_KIND, ALARMS = 0.98, 0.9, 0.01
ALARMS_IN_MESSAGES = 0.0001
_PIECE = 12  # characters of a secret
_BETWEEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]|[=\\\\]?\r?\n")
_ENTRY = re.compile(r"\n\s*\n(?=\S)|\n(?=\s{0,4}[-*+] )")
_SUSPICIOUS = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-|passw|token|secret|api_?key|credential|auth",
    re.IGNORECASE,
)


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcomes: found and missed secrets, and false alarms."""
    texts = list(planted(scale.of(1, 5)))
    yield _recall(texts)
    yield Outcome(
        "secrets in context, nothing redacted",
        len(texts),
        "texts",
        [kind for kind, secret, text in texts if survives(secret, text)],
        is_control=True,
    )
    for where, contexts in (("bare", BARE), ("assigned", ASSIGNED)):
        yield _published(where, contexts, scale.of(1, 5))
    for tried, of, lines, floor, most in (
        (
            "false alarms, real messages",
            "messages",
            messages(scale.of(3_000, 20_000)),
            2_000,
            ALARMS_IN_MESSAGES,
        ),
        ("false alarms, lines of code", "lines", code(scale.of(2_000, 10_000)), 2_000, ALARMS),
    ):
        yield _alarms(tried, of, lines, floor, most)


def planted(times: int) -> Iterator[tuple[str, Secret, str]]:
    """Yield a kind, a secret of it and a text that contains it, for each kind in each context."""
    for kind, sample in KINDS.items():
        for name, context in CONTEXTS.items():
            for time in range(times):
                rng = random.Random(f"{kind} {name} {time}")
                secret = sample(rng)
                yield kind, secret, context(secret, rng)


def survives(secret: Secret, text: str) -> bool:
    """Return True if a text contains part of a secret, also as basic authentication."""
    plain = _BETWEEN.sub("", text)
    pair = base64.b64encode(f"{secret.of_whom}:{secret.value}".encode()).decode()
    return _has_piece(plain, secret.core) or pair[12 : 12 + _PIECE] in plain


def _has_piece(text: str, core: str) -> bool:
    size = min(len(core), _PIECE)
    return any(core[at : at + size] in text for at in range(len(core) - size + 1))


def _recall(texts: list[tuple[str, Secret, str]]) -> Outcome:
    of_each = Counter(kind for kind, _, _ in texts)
    missed = Counter(kind for kind, secret, text in texts if survives(secret, redact(text)))
    recall = 1 - missed.total() / len(texts)
    by_kind = sorted((1 - missed[kind] / count, kind) for kind, count in of_each.items())
    wrong = [f"{kind}: {share:.2f} found" for share, kind in by_kind if share < OF_A_KIND]
    wrong += [f"{recall:.3f} of all found"] if recall < RECALL else []
    least = ", ".join(f"{kind} {share:.2f}" for share, kind in by_kind[:8] if share < 1)
    return Outcome(
        f"secrets, {len(of_each)} kinds x {len(CONTEXTS)} contexts",
        len(texts),
        "texts",
        wrong,
        f"recall {recall:.4f}; {least}; the other kinds 1.00",
        floor=25 * 20,
    )


def _published(where: str, contexts: Sequence[str], times: int) -> Outcome:
    """Return the published token shapes that were missed in some contexts."""
    missed = Counter[str]()
    for name, shape in shapes().items():
        for context in contexts:
            for time in range(times):
                value, core = drawn(shape, random.Random(f"{name} {context} {time}"))
                missed[name] += _has_piece(redact(context.format(value)), core)
    count = len(shapes()) * len(contexts) * times
    recall = 1 - missed.total() / count
    wrong = [f"{recall:.4f} found: {missed.most_common(8)}"] if recall < RECALL else []
    return Outcome(
        f"published shapes, {where}", count, "texts", wrong, f"recall {recall:.4f}", floor=1_000
    )


def _alarms(tried: str, of: str, texts: Iterable[str], floor: int, most: float) -> Outcome:
    count, wrong = 0, []
    for text in texts:
        count += 1
        wrong += [f"{secret.kind} in {text[:120]!r}" for secret in find(text)[:1]]
    share = len(wrong) / max(1, count)
    problems = wrong if len(wrong) > 1 and share > most else ()
    return Outcome(tried, count, of, problems, f"{len(wrong)} alarms, {share:.2%}", floor=floor)


def messages(most: int) -> Iterator[str]:
    """Yield messages of commits and entries of changelogs."""
    return islice(chain(_commits(), _entries()), most)


def _commits() -> Iterator[str]:
    words = ["git", "-C", str(ROOT), "log", "--format=%B%x00"]
    completed = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    yield from (part.strip() for part in completed.stdout.split("\0") if part.strip())


def _entries() -> Iterator[str]:
    for path in sorted(CHANGELOGS.glob("*/changelog*.gz")):
        with gzip.open(path, "rt", errors="replace") as file:
            text = file.read(100_000)
        yield from (part.strip() for part in _ENTRY.split(text) if len(part.strip()) > 10)


def code(most: int) -> Iterator[str]:
    """Yield lines of the standard library with a hash, or with a word that announces a secret."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*/*.py"))
    lines = (line.strip() for path in paths for line in _lines(path) if _SUSPICIOUS.search(line))
    return islice((line for line in lines if len(line) < 400), most)


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()

"""
Credentials recognised by what they lie in: each value of a cookie header, of a Kubernetes Secret.

Their names are anybody's, so no name gives them away.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from store.redaction.values import is_drawn, is_stored

_COOKIES = re.compile(r"cookie[\"']?\]?(?:[ ]?[:=][ ]?|[ ])[\"']?([^\n\x00\"']{16,}+)")
_COOKIE = re.compile(r"[^\s=;]=([^;\s,\x00]{16,}+)")
_SECRET = re.compile(r"kind(?<!\wkind)\\?[\"']?:[ ]?\\?[\"']?secret\b(?!\w)")
_DOCUMENT = re.compile(r"^---", re.MULTILINE)
_DATA = re.compile(r"^([ ]*)(?:string)?data:[ ]*\n((?:\1[ ]++[^\n]*+\n?)++)", re.MULTILINE)
_LINE = re.compile(
    r"^[ ]++(?:[\"']?[\w.-]{1,253}+[\"']?:[ ]++[\"']?([^\s\"'|>#\x00][^\s\"'\x00]{3,}+)"
    r"|([a-z0-9+/=]{16,}+)$)",  # of a value on lines of its own
    re.MULTILINE | re.ASCII,
)
_OBJECT = re.compile(r"\"(?:string)?data\":\s{0,9}\{([^{}]{1,}+)\}")
_MEMBER = re.compile(r":\s{0,9}\"([^\"\\\s\x00]{4,}+)\"")


def contained(lowered: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind, start and end of what may be a secret in lower-cased text; `is_contained`
    judges it as it is written.
    """
    if "cookie" in lowered:
        for header in _COOKIES.finditer(lowered):
            for pair in _COOKIE.finditer(lowered, *header.span(1)):
                yield "cookie", *pair.span(1)
    if "secret" in lowered and "data" in lowered and _SECRET.search(lowered):
        for start, end in _documents(lowered):
            if _SECRET.search(lowered, start, end):
                for blocks, values in ((_DATA, _LINE), (_OBJECT, _MEMBER)):
                    for block in blocks.finditer(lowered, start, end):
                        for value in values.finditer(lowered, *block.span(block.lastindex or 0)):
                            yield "kubernetes-secret", *value.span(value.lastindex or 0)


def is_contained(kind: str, value: str) -> bool:
    return is_drawn(value) if kind == "cookie" else is_stored(value)


def _documents(text: str) -> Iterator[tuple[int, int]]:
    starts = [0, *(found.end() for found in _DOCUMENT.finditer(text)), len(text)]
    yield from pairwise(starts)

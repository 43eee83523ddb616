"""
JSON in which every character that is not shown as itself is written as an escape.

Characters that turn a line around, C1 controls and invisible ones would let an untrusted text look
like another in a terminal, an editor or a review. A parser of the JSON gets the same text (RFC
8259, section 7, https://www.rfc-editor.org/rfc/rfc8259#section-7).
"""

import re

import msgspec

# Unicode's categories Cc, Cf, Co, Zl and Zp from DEL on
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u2064\u2066-\u206f\ue000-\uf8ff\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f\U000f0000-\U000ffffd\U00100000-\U0010fffd]"
)


def encode(value: object) -> bytes:
    """Return a value as one line of JSON, UTF-8."""
    # outside of strings JSON has none of these, and ASCII below them is escaped already
    return _UNSEEN.sub(_escape, msgspec.json.encode(value).decode()).encode()


def _escape(match: "re.Match[str]") -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

"""
A block of ours between two marked lines of a Markdown file, with everything around it left alone.

The first line names the command that takes the block out again.
"""

from serve.connect.edits.json_edit import line_end
from serve.connect.edits.jsonc import position
from serve.connect.edits.toml_edit import appended, cut
from store.home.errors import ConfigError

BEGIN = "<!-- mnemolog:begin"
_FIRST = BEGIN + " (`mnemolog disconnect` takes this block out) -->"
_LAST = "<!-- mnemolog:end -->"


def put(text: str, body: str) -> str:
    """Return the text with the block at its end, or in the place of the one there is.

    Raise ConfigError where only one of the two marks is there.
    """
    block = line_end(text).join([_FIRST, *body.strip().splitlines(), _LAST])
    place = _place(text)
    if place is None:
        return appended(text, block)
    return text[: place[0]] + block + text[place[1] :]


def take(text: str) -> str:
    """Return the text without the block and the blank line before it."""
    place = _place(text)
    if place is None:
        return text
    start, stop = place
    end = line_end(text)
    return cut(text, start, stop + len(end) if text.startswith(end, stop) else stop)


def is_in(text: str) -> bool:
    return _place(text) is not None


def _place(text: str) -> tuple[int, int] | None:
    begin, last = text.find(BEGIN), text.find(_LAST)
    if begin < 0 and last < 0:
        return None
    if begin < 0 or last < begin:
        lone = position(text, last if begin < 0 else begin)
        raise ConfigError(
            f"{lone}: one marker of mnemolog's block lacks its pair: fix or delete it"
        )
    return begin, last + len(_LAST)

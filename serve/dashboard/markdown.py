"""
Markdown: the text of an agent as HTML that can do no harm.

An agent may repeat the words of any source. So HTML in a text is escaped, a picture becomes
its description, and no link works: its address is printed beside its words. A page has its own
headings; those of a text are bold lines.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from serve.dashboard.rendering import clean, line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_WEB = ("http://", "https://", "mailto:")


def markdown(text: object, words: Sequence[str] = ()) -> Markup:
    """Return a Markdown text as HTML, in which `words` are marked."""
    return Markup(_parser().render(clean(text), {"words": tuple(words)}))


def plain(text: object, longest: int = 240) -> str:
    """Return the beginning of a Markdown text as one line without its marks."""
    blocks = _parser().parse(clean(text)[: 4 * longest])
    parts = (
        "".join(" " if "break" in token.type else token.content for token in block.children or ())
        for block in blocks
    )
    return line(" ".join(parts), longest)


def mark(text: object, words: Sequence[str]) -> Markup:
    """Return a text as HTML with every occurrence of `words` marked, in either case."""
    cleaned = clean(text)
    if not words:
        return escape(cleaned)
    parts = re.split(f"({'|'.join(map(re.escape, words))})", cleaned, flags=re.IGNORECASE)
    marked = Markup("<mark>{}</mark>")  # the matches are at the odd places
    return Markup("").join(
        marked.format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # needed by session pages alone

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser.enable(["table", "strikethrough"])


def _text(_: object, tokens: Sequence["Token"], place: int, __: object, env: Any) -> str:
    return str(mark(tokens[place].content, env["words"]))


def _code_inline(_: object, tokens: Sequence["Token"], place: int, __: object, env: Any) -> str:
    return f"<code>{mark(tokens[place].content, env['words'])}</code>"


def _code_block(_: object, tokens: Sequence["Token"], place: int, __: object, env: Any) -> str:
    code = mark(tokens[place].content, env["words"])
    return f'<pre tabindex="0" role="group" aria-label="Code"><code>{code}</code></pre>\n'


def _link_close(_: object, tokens: Sequence["Token"], place: int, __: object, ___: object) -> str:
    opening = next(token for token in reversed(tokens[:place]) if token.type == "link_open")
    address = str(opening.attrGet("href") or "")
    is_shown = opening.info == "auto" or not address.startswith(_WEB)
    return "" if is_shown else f' <span class="muted">({escape(clean(address))})</span>'


_RULES: Mapping[str, Any] = {
    "text": _text,
    "image": _text,
    "code_inline": _code_inline,
    "code_block": _code_block,
    "fence": _code_block,
    "heading_open": lambda *_: "<p><strong>",
    "heading_close": lambda *_: "</strong></p>\n",
    "link_open": lambda *_: "",
    "link_close": _link_close,
}

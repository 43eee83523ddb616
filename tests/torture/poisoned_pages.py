"""
Poisoned pages: the dashboard, searched for poisons.

A page is parsed. No text of a memory makes an element, an attribute, a script or an address; a text
of a tool or the web stands in a row, or on a page, with that label, and never among the rules.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import quote, urlsplit

from dashboard_page import Browser
from flask.testing import FlaskClient
from mcp_client import TOKEN
from torture.blocks import is_turn, items
from torture.outcome import Outcome
from torture.poisons import Sent

from store.home import config
from store.home.http_access import signer
from store.text.frame import OPENING

OURS = frozenset(
    """a article aside body button canvas caption circle code datalist dd del details dialog div dl
    dt fieldset footer form g h1 h2 h3 head header html i input ins kbd label legend li link main
    meta meter nav ol option output p path pre rect script section select span strong summary svg
    table tbody td text textarea th thead time title tr ul line polyline figure figcaption title
    desc br mark""".split()
)
_QUARANTINED = ("tool", "web")
LABELS = ("said by tool", "said by web")
_VOID = frozenset("br circle img input line link meta path polyline rect".split())
_ROWS = frozenset("li tr article".split())
_ADDRESSES = ("href", "src", "action", "formaction", "data", "xlink:href", "srcdoc", "style")
# elements that repeat the query or a text to edit, and no memory
_ECHOES = frozenset("title input textarea".split())
# these attributes may quote a memory, as only a reader of the page sees them
_QUOTED = frozenset("value aria-label title href placeholder datetime".split())


@dataclass(slots=True)
class Row:
    """An element with its texts, including nested ones."""

    tag: str
    named: Mapping[str, str | None]
    said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


class Page(HTMLParser):
    """A page's texts with their enclosing elements, and its foreign elements and addresses."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, list[Row]]] = []  # each with its enclosing elements
        self._open: list[Row] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag not in OURS:
            self.wrong.append(f"an element <{tag[:30]}>")
        if tag == "script" and "src" not in named:
            self.wrong.append("a script within the page")
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.wrong.append(f"an attribute {name}")
            if name in _ADDRESSES and not _is_ours(value or ""):
                self.wrong.append(f"an address {value!r:.60}")
        if tag not in _VOID:
            self._open.append(Row(tag, named))

    def handle_endtag(self, tag: str) -> None:
        if any(element.tag == tag for element in self._open):
            while self._open and self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.said.append(data)
        self.texts.append((data, list(self._open)))

    def unlabelled(self, word: str, *, is_of_one: bool) -> Iterator[str]:
        """Yield the places of a word outside rows that label it as a tool's or the web's.

        The page of one memory has one label, for all its texts.
        """
        whole = " ".join(words for words, _ in self.texts)
        for text, within in self.texts:
            if word not in text or any(element.tag in _ECHOES for element in within):
                continue
            if OPENING in text:
                notes = [item for item in items(text) if word in json.dumps(item)]
                if not all(note.get("by") in _QUARANTINED or is_turn(note) for note in notes):
                    yield "is unlabelled in a block"
                if any("rule" in note for note in notes):
                    yield "is a rule in a block"
                continue
            row = next((element for element in reversed(within) if element.tag in _ROWS), None)
            looked_at = whole if is_of_one or row is None else row.text
            if not any(label in looked_at for label in LABELS):
                yield f"is unlabelled in <{(row or within[-1]).tag}>"

    def misused(self, word: str) -> Iterator[str]:
        """Yield the attributes that must not contain a word."""
        for tag, name, value in self.attributes:
            if word in value and name not in _QUOTED:
                yield f"stands in {tag}'s {name}"
            if word in value and name == "href" and word in urlsplit(value).netloc:
                yield "is an address's host"


def _is_ours(address: str) -> bool:
    return not address or address[0] == "#" or (address[0] == "/" and address[1:2] != "/")


def logged_in(client: FlaskClient, now: int) -> Browser:
    """Return a browser logged in as the owner."""
    signing = signer(TOKEN, config.load())
    cookie = signing.value(now)
    session = signing.session(cookie, now)
    assert session is not None
    client.set_cookie(signing.cookie, cookie, domain="127.0.0.1")
    return Browser(client, session.csrf)


@dataclass(slots=True)
class _Looked:
    """The visited pages and their faults. `words` are canaries and their doors."""

    browser: Browser
    words: Mapping[str, str]
    pages: int = 0
    labelled: int = 0
    wrong: list[str] = field(default_factory=list)

    def at(self, path: str, *, is_of_one: bool = False) -> Page | None:
        answer = self.browser.get(path)
        self.pages += 1
        if answer.status_code != 200:
            self.wrong.append(f"{path}: {answer.status_code}")
            return None
        page = Page(answer.text)
        self.wrong += [f"{fault}, {path}" for fault in page.wrong]
        for word, door in self.words.items():
            if word in answer.text:
                faults = [*page.misused(word), *page.unlabelled(said_of(word), is_of_one=is_of_one)]
                self.wrong += [f"{door}: {fault}, {path}" for fault in faults]
                self.labelled += not faults
                if path.endswith("/lessons"):
                    self.wrong.append(f"{door}: is among the lessons")
        return page

    def follow(self, page: Page | None, where: str) -> None:
        """Visit the pages that a page links to."""
        attributes = page.attributes if page is not None else ()
        for path in {value for _, name, value in attributes if name == "href" and where in value}:
            self.at(path)


def said_of(word: str) -> str:
    """Return the beginning of a poison's text, which no question contains."""
    return f"page about {word} says"


def asked(
    browser: Browser, sent: Sequence[Sent], ids: Mapping[str, str], most: int, when: str
) -> Outcome:
    """Look for poisons on all pages that may show them; `ids` are the memories, with their texts.

    At most `most` of them are searched for.
    """
    words = {poisoned.poison.canary: poisoned.door for poisoned in sent if not poisoned.is_told}
    ids_of_words = {
        word: id_ for id_, text in ids.items() for word in words if said_of(word) in text
    }
    looked = _Looked(browser, words)
    for name in _SHARED:
        looked.at(f"/t/default/{name}")
    for state in ("waiting", "accepted"):
        looked.follow(looked.at(f"/t/default/proposals?state={state}"), "/proposals/")
    for word, id_ in list(ids_of_words.items())[:most]:
        question = quote(f"what does the page about {word} say?")
        looked.at(f"/t/default/memories?q={question}")
        looked.at(f"/t/default/lab?q={question}&min_confidence=0")
        looked.at(f"/t/default/memory/{quote(id_)}", is_of_one=True)
        looked.at(f"/t/default/memory/{quote(id_)}/edit", is_of_one=True)
        looked.follow(looked.at(f"/t/default/graph?name=deploy-{word}"), "/graph/entity?")
    looked.wrong += [] if looked.labelled > most else ["hardly any was found"]
    tried, note = f"canaries, asked for on pages, {when}", f"{looked.labelled:,} times labelled"
    return Outcome(tried, looked.pages, "pages", looked.wrong, note)


_SHARED = tuple("overview memories goals lessons proposals recalls graph errors jobs lab".split())
